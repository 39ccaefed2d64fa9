#include "tests/integration/registry_fixture.h"

#include "audit/subject_rewrap.h"
#include "registry/content_hold.h"
#include "registry/held_manifest.h"
#include "registry/jobs/statements.h"
#include "registry/region.h"
#include "registry/upload/upload.h"

struct fixture fixture;

static const struct pg_table *const tables[] = {&region_state_statements,
                                                &project_statements,
                                                &repository_statements,
                                                &seal_statements,
                                                &stored_blob_statements,
                                                &upload_statements,
                                                &abandoned_statements,
                                                &upload_admin_statements,
                                                &stored_manifest_statements,
                                                &brought_label_statements,
                                                &tag_statements,
                                                &region_store_table,
                                                &job_statements,
                                                &scrub_statements,
                                                &rewrap_statements,
                                                &advisory_lock_statements,
                                                &quota_statements,
                                                &manifest_use_statements,
                                                &rules_statements,
                                                &collect_statements,
                                                &erase_statements,
                                                &erased_statements,
                                                &held_manifest_statements,
                                                &audit_rewrap_table,
                                                &content_hold_statements,
                                                NULL};

#define PERMITS_MAX 4096 /* permits of one test program; uploads borrow them */
static struct permit *permits[PERMITS_MAX];
static size_t permit_count;

static struct permit *permit_for(enum action action, const struct resource *where)
{
    assert_true(permit_count < PERMITS_MAX);
    permits[permit_count] = stack_permit(fixture.stack, action, where);
    return permits[permit_count++];
}

static struct registry *open_registry_at(const char *location)
{
    const struct registry_region region = {.id = TEST_REGION, .driver = "fs", .location = location};
    const struct registry_options options = {.keyd = fixture.stack->keyd,
                                             .sequencer = fixture.stack->sequencer,
                                             .region_count = 1,
                                             .regions = &region,
                                             .key_lifetime_ms = 60000,
                                             .key_count = 64,
                                             .uploads_max = 16,
                                             .uploads_idle_max = 2};
    struct registry *registry = NULL;

    MUST(registry_new(&options, &registry, &err));
    return registry;
}

static struct registry *open_registry(void)
{
    return open_registry_at(fixture.folder.path);
}

struct registry *fixture_second_gateway(void)
{
    return open_registry();
}

struct registry *fixture_gateway_elsewhere(const char *location)
{
    return open_registry_at(location);
}

void fixture_restart(void)
{
    registry_free(fixture.registry);
    fixture.registry = open_registry();
}

struct result fixture_change(enum action action, const struct resource *where, struct change *change, struct error *err)
{
    const struct action_pair pair = {.action = action, .resource = *where};

    return stack_record(fixture.stack, &pair, 1, change, NULL, err);
}

static struct uuid make_project(const char *name)
{
    struct resource where = {.kind = RESOURCE_PROJECT, .organisation = fixture.organisation, .region = TEST_REGION};
    struct project_create change;

    (void)snprintf(where.name, sizeof where.name, "%s", name);
    MUST(project_create_prepare(fixture.registry, &where, "{}", &change, &err));
    MUST(fixture_change(ACTION_PROJECT_CREATE, &where, &change.change, &err));
    return change.project;
}

int fixture_set_up(void **state)
{
    const struct resource where = {.kind = RESOURCE_ORGANISATION, .name = "acme"};
    struct region region = {.driver = REGION_DRIVER_FS, .id = TEST_REGION, .location = "/unused"};
    struct organisation_create change;

    (void)state;
    fixture.folder = blob_test_folder_new(false);
    fixture.stack = stack_new(tables);
    fixture.registry = open_registry();
    fixture.principal = (struct principal){.kind = PRINCIPAL_ROBOT, .id = uuid_random(), .subject = "robot$acme+ci"};
    MUST(region_insert(fixture.stack->pg, &region, &err));
    MUST(organisation_create_prepare(&where, "{}", &change, &err));
    MUST(fixture_change(ACTION_ORGANISATION_CREATE, &where, &change.change, &err));
    fixture.organisation = change.organisation;
    fixture.models = make_project("acme/models");
    fixture.other = make_project("acme/other");
    return 0;
}

int fixture_tear_down(void **state)
{
    (void)state;
    while (permit_count > 0) permit_free(permits[--permit_count]);
    registry_free(fixture.registry);
    stack_free(fixture.stack);
    blob_test_folder_done(&fixture.folder);
    return 0;
}

struct permit *fixture_permit(enum action action, const struct resource *where)
{
    return stack_permit(fixture.stack, action, where);
}

struct resource fixture_repository(const struct uuid *project, const char *name)
{
    struct resource where = {
        .kind = RESOURCE_REPOSITORY, .organisation = fixture.organisation, .project = *project, .region = TEST_REGION};

    (void)snprintf(where.name, sizeof where.name, "acme/%s/%s", uuid_equal(project, &fixture.models) ? "models" : "other", name);
    MUST(registry_resolve(fixture.registry, lookup_of(fixture.stack->pg), 1, &where, &err));
    return where;
}

struct resource fixture_detail(const struct resource *repository, const char *detail)
{
    struct resource where = *repository;

    (void)snprintf(where.detail, sizeof where.detail, "%s", detail);
    return where;
}

struct job_recorder fixture_recorder(const struct permit *permit)
{
    struct job_recorder recorder;

    job_recorder_init(&recorder, fixture.stack->sequencer, permit);
    return recorder;
}

struct upload_begin fixture_begin(struct resource *repository)
{
    struct upload_begin begin;

    MUST(upload_begin_prepare(fixture.registry, repository, &fixture.principal, DIGEST_SHA256, &begin, &err));
    MUST(fixture_change(ACTION_UPLOAD_BEGIN, repository, &begin.change, &err));
    repository->repository = begin.repository;
    return begin;
}

struct upload *fixture_find(struct registry *registry, const struct upload_begin *begun, struct job_recorder *recorder)
{
    struct resource where = begun->where;
    struct upload *upload = NULL;

    where.repository = begun->repository;
    const struct permit *permit = permit_for(ACTION_UPLOAD_COMMIT, &where);
    const struct upload_request request = {
        .action = ACTION_UPLOAD_COMMIT, .where = &where, .principal = &fixture.principal, .location = begun->location};
    *recorder = fixture_recorder(permit);
    MUST(upload_new(registry, &request, &upload, &err));
    MUST(upload_find(permit, upload, fixture.stack->pg, &err));
    return upload;
}

uint8_t *fixture_content(uint64_t seed, size_t length, char digest_out[DIGEST_TEXT_SIZE])
{
    uint8_t *content = memory_zeroed(length + 1, 1);

    assert_non_null(content);
    blob_test_fill(seed, 0, content, length);
    const struct digest digest = digest_of(DIGEST_SHA256, (struct bytes){content, length});
    digest_format(&digest, digest_out);
    return content;
}

void fixture_push(struct resource *repository, uint64_t seed, size_t length, char digest_out[DIGEST_TEXT_SIZE])
{
    const struct upload_begin begun = fixture_begin(repository);
    struct job_recorder recorder;
    OWNED(upload) *upload = fixture_find(fixture.registry, &begun, &recorder);
    uint8_t *content = fixture_content(seed, length, digest_out);
    struct digest digest;

    MUST(digest_parse(bytes_of_text(digest_out), &digest, &err));
    MUST(upload_claim(upload, fixture.stack->pg, &err));
    MUST(upload_write(upload, (struct bytes){content, length}, &err));
    MUST(upload_commit(upload, fixture.stack->pg, &digest, &recorder.recorder, &err));
    free(content);
}

void fixture_check_as(const struct resource *repository, const char *digest, const uint8_t *content, size_t length)
{
    uint8_t *read = memory_zeroed(length + 1, 1);
    const struct blob_query query = {.action = ACTION_BLOB_READ, .where = repository, .digest = digest};
    OWNED(stored_blob) *blob = NULL;

    assert_non_null(read);
    MUST(stored_blob_find(permit_for(ACTION_BLOB_READ, repository), fixture.registry, fixture.stack->pg, &query, &blob, &err));
    assert_int_equal(stored_blob_size(blob), length);
    MUST(stored_blob_open(blob, &err));
    MUST(stored_blob_read(blob, 0, read, length, &err));
    assert_memory_equal(read, content, length);
    free(read);
}

void fixture_check(const struct resource *repository, uint64_t seed, size_t length)
{
    char digest[DIGEST_TEXT_SIZE];
    uint8_t *content = fixture_content(seed, length, digest);

    fixture_check_as(repository, digest, content, length);
    free(content);
}

void fixture_path_of(const char *digest, char path_out[256])
{
    char sql[256], name[64], command[256];

    (void)snprintf(sql, sizeof sql, "SELECT replace(blob_id::text, '-', '') FROM blob WHERE digest = '%s'", digest);
    (void)snprintf(name, sizeof name, "%s", ask(sql));
    (void)snprintf(command, sizeof command, "find %s -type f -name '*%s*' | sort | head -1", fixture.folder.path, name);
    FILE *found = popen(command, "re"); /* NOLINT(cert-env33-c): our own mkdtemp() name */
    assert_non_null(found);
    assert_non_null(fgets(path_out, 256, found));
    (void)pclose(found);
    path_out[strcspn(path_out, "\n")] = '\0';
}

void fixture_flip(const char *path, long offset)
{
    FILE *file = fopen(path, "r+be");

    assert_non_null(file);
    assert_int_equal(fseek(file, offset, SEEK_SET), 0);
    const int byte = fgetc(file);
    assert_int_equal(fseek(file, offset, SEEK_SET), 0);
    assert_int_equal(fputc(byte ^ 1, file), byte ^ 1);
    assert_int_equal(fclose(file), 0);
}

struct stored_blob *fixture_find_blob(const struct resource *where, const char *digest, struct permit **permit_out,
                                      struct error *err)
{
    struct stored_blob *blob = NULL;

    *permit_out = stack_permit(fixture.stack, ACTION_BLOB_READ, where);
    const struct blob_query query = {.action = ACTION_BLOB_READ, .where = where, .digest = digest};
    return stored_blob_find(*permit_out, fixture.registry, fixture.stack->pg, &query, &blob, err).ok ? blob : NULL;
}

void fixture_damage(const char *digest, long offset)
{
    char path[256];

    fixture_path_of(digest, path);
    fixture_flip(path, offset);
}

void fixture_read_damaged(const struct resource *where, const char *digest)
{
    OWNED(permit) *permit = NULL;
    struct error problem = {0};
    uint8_t byte[1];
    OWNED(stored_blob) *blob = fixture_find_blob(where, digest, &permit, &problem);

    assert_non_null(blob);
    MUST(stored_blob_open(blob, &err));
    MUST(stored_blob_read(blob, 0, byte, 1, &err)); /* the first record is sound */
    MUST_FAIL(ERROR_CORRUPT, stored_blob_read(blob, 70000, byte, 1, &err));
    assert_true(stored_blob_is_damaged(blob));
}
