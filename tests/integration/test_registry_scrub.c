/* The findings of a scrub: damage of every kind, and none in sound content. */
#include "tests/integration/job_fixture.h"

#include <utime.h>

/* ---- Files ---- */

static void flip_header(const char *path)
{
    fixture_flip(path, 60);
}

static void flip_tag(const char *path)
{
    fixture_flip(path, 4096 + 2 * 65536 - 1);
}
static void flip_footer(const char *path)
{
    struct stat about;

    assert_int_equal(stat(path, &about), 0);
    fixture_flip(path, about.st_size - 2);
}
static void flip_trailer(const char *path)
{
    struct stat about;

    assert_int_equal(stat(path, &about), 0);
    fixture_flip(path, about.st_size - 40);
}
static void cut(const char *path)
{
    assert_int_equal(truncate(path, 4096 + 65536), 0);
}
static void extend(const char *path)
{
    FILE *file = fopen(path, "abe");

    assert_non_null(file);
    assert_int_equal(fputs("more", file) >= 0, 1);
    assert_int_equal(fclose(file), 0);
}
static void copy_record(const char *path, long from, long to)
{
    static uint8_t record[65536];
    FILE *file = fopen(path, "r+be");

    assert_non_null(file);
    assert_int_equal(fseek(file, from, SEEK_SET), 0);
    assert_int_equal(fread(record, 1, sizeof record, file), sizeof record);
    assert_int_equal(fseek(file, to, SEEK_SET), 0);
    assert_int_equal(fwrite(record, 1, sizeof record, file), sizeof record);
    assert_int_equal(fclose(file), 0);
}
static void duplicate_record(const char *path)
{
    copy_record(path, 4096, 4096 + 65536);
}
static void remove_file(const char *path)
{
    assert_int_equal(unlink(path), 0);
}
/* Another blob's file under this name, as after a backup was restored to the wrong place. */
static void swap_file(const char *path)
{
    char command[768], other[256];
    struct resource where = fixture_repository(&fixture.models, "scrub/other");
    char digest[DIGEST_TEXT_SIZE];

    fixture_push(&where, 4711, ARTIFACTS, digest);
    fixture_path_of(digest, other);
    (void)snprintf(command, sizeof command, "cp %s %s", other, path);
    assert_int_equal(system(command), 0); /* NOLINT(cert-env33-c): our own mkdtemp() names */
}

static const struct damage_row {
    const char *name;
    void (*damage)(const char *path);
    const char *kind, *detail;
} damage_rows[] = {
    {"a bit of the commitment", flip_header, "damaged", "header: the commitment"},
    {"a bit of a record", flip_record, "damaged", "record 1:"},
    {"a bit of a tag", flip_tag, "damaged", "record 1:"},
    {"a bit of the trailer", flip_trailer, "damaged", "trailer"},
    {"a bit of the footer", flip_footer, "damaged", "footer"},
    {"a cut", cut, "damaged", "footer"},
    {"bytes at the end", extend, "damaged", "footer"},
    {"a record twice", duplicate_record, "damaged", "record 1:"},
    {"another blob's file", swap_file, "damaged", "header: the blob id"},
    {"no file", remove_file, "missing", ""},
};

/* ---- Scrub ---- */

static void damage_is_found_named_marked_and_recorded(void **state)
{
    const struct damage_row *row = *state;
    struct resource where = fixture_repository(&fixture.models, "scrub/damage");
    char digest[DIGEST_TEXT_SIZE], path[256];
    size_t count = 0;

    fixture_push(&where, 100 + (uint64_t)(row - damage_rows), ARTIFACTS, digest);
    fixture_path_of(digest, path);
    row->damage(path);
    const unsigned events = stack_events(fixture.stack, "blob.damaged", "completed");
    const struct uuid id = begin_scrub(false);
    work(JOB_SCRUB);
    const struct job job = look(&id);
    assert_string_equal(job.outcome, "completed");
    assert_int_equal(job.found, 1);
    assert_true(job.done == job.total && job.total > 0 && job.done_bytes == job.total_bytes);
    struct job_finding *findings = findings_of(&id, &count);
    assert_int_equal(count, 1);
    assert_string_equal(finding_kind_name(findings[0].kind), row->kind);
    assert_string_equal(findings[0].digest, digest);
    assert_string_equal(findings[0].name, "acme/models");
    if (strstr(findings[0].detail, row->detail) == NULL) fail_msg("%s: %s", row->name, findings[0].detail);
    free(findings);
    assert_int_equal(stack_events(fixture.stack, "blob.damaged", "completed"), events + 1);
    assert_string_equal(ask_of("damaged_at IS NOT NULL", digest), "t");
    fixture_push(&where, 100 + (uint64_t)(row - damage_rows), ARTIFACTS, digest); /* a push heals */
    assert_string_equal(ask("SELECT count(*) FROM blob WHERE damaged_at IS NOT NULL"), "0");
}

static void a_sound_region_has_no_findings_and_loses_its_marks(void **state)
{
    struct resource where = fixture_repository(&fixture.models, "scrub/sound");
    char digest[DIGEST_TEXT_SIZE];

    (void)state;
    fixture_push(&where, 200, ARTIFACTS, digest);
    fixture_push(&where, 201, 0, digest);
    execute("UPDATE blob SET damaged_at = now() WHERE size_bytes = 0");
    const unsigned events = stack_events(fixture.stack, "blob.sound", "completed");
    const unsigned runs = stack_events(fixture.stack, "job.run", "completed");
    const struct uuid id = begin_scrub(true);
    work(JOB_SCRUB);
    const struct job job = look(&id);
    assert_string_equal(job.outcome, "completed");
    assert_int_equal(job.found, 0);
    assert_int_equal(stack_events(fixture.stack, "blob.sound", "completed"), events + 1);
    assert_int_equal(stack_events(fixture.stack, "job.run", "completed"), runs + 1);
    assert_string_equal(ask("SELECT count(*) FROM blob WHERE damaged_at IS NOT NULL"), "0");
    assert_false(work_as(fixture.registry, JOB_SCRUB, NULL)); /* nothing is left to do */
}

static void push_manifest(const struct resource *where, char digest_out[DIGEST_TEXT_SIZE])
{
    static const char body[] = "{\"schemaVersion\":2,\"mediaType\":\"" MEDIA_TYPE_INDEX "\",\"manifests\":[]}";
    struct manifest_push push = {0};
    OWNED(manifest) *manifest = NULL;
    const struct digest digest = digest_of(DIGEST_SHA256, bytes_of_text(body));

    digest_format(&digest, digest_out);
    MUST(manifest_parse(bytes_of_text(body), (struct bytes){0}, &manifest, &err));
    push.manifest = manifest;
    memcpy(push.digest, digest_out, sizeof push.digest);
    MUST(manifest_push_prepare(fixture.registry, fixture.stack->pg, where, bytes_of_text(body), &push, &err));
    MUST(fixture_change(ACTION_MANIFEST_PUSH, where, &push.change, &err));
    manifest_push_done(&push);
}

/* As somebody with all rights in the database. */
#define FLIP_A_BIT                                                                                                         \
    "SET session_replication_role = replica; UPDATE manifest SET sealed = set_byte(sealed, 30, get_byte(sealed, 30) # 1);" \
    "SET session_replication_role = origin"

static void sealed_manifests_are_verified(void **state)
{
    struct resource where = fixture_repository(&fixture.models, "scrub/manifest");
    char blob[DIGEST_TEXT_SIZE], digest[DIGEST_TEXT_SIZE];
    size_t count = 0;

    (void)state;
    fixture_push(&where, 500, 10, blob);
    push_manifest(&where, digest);
    execute(FLIP_A_BIT);
    const unsigned events = stack_events(fixture.stack, "scrub.finding", "completed");
    struct uuid id = begin_scrub(false);
    work(JOB_SCRUB);
    struct job_finding *findings = findings_of(&id, &count);
    assert_int_equal(count, 1);
    assert_int_equal(findings[0].kind, FINDING_MANIFEST);
    assert_string_equal(findings[0].name, "acme/models/scrub/manifest");
    assert_string_equal(findings[0].digest, digest);
    free(findings);
    assert_int_equal(stack_events(fixture.stack, "scrub.finding", "completed"), events + 1);
    execute(FLIP_A_BIT);
    id = begin_scrub(false);
    work(JOB_SCRUB);
    assert_int_equal(look(&id).found, 0);
}

/* Eight in a row: not one disk sector, but the wrong store. Nothing more is marked, and the next scrub takes the marks. */
static void a_region_that_is_all_wrong_ends_the_scrub(void **state)
{
    struct resource where = fixture_repository(&fixture.other, "scrub/wrong");
    char digest[DIGEST_TEXT_SIZE], path[256];

    (void)state;
    for (uint64_t seed = 600; seed < 612; seed++) fixture_push(&where, seed, 10, digest);
    (void)snprintf(path, sizeof path, "find %s -type f -exec mv {} {}.hidden \\;", fixture.folder.path);
    assert_int_equal(system(path), 0); /* NOLINT(cert-env33-c): our own mkdtemp() name */
    (void)snprintf(path, sizeof path, "%s/00/%032d.e0", fixture.folder.path, 0); /* the store is not empty */
    FILE *file = fopen(path, "wbe");
    assert_non_null(file);
    assert_int_equal(fclose(file), 0);
    struct uuid id = begin_scrub(false);
    work(JOB_SCRUB);
    assert_string_equal(look(&id).outcome, "failed");
    assert_string_equal(ask("SELECT count(*) FROM blob WHERE damaged_at IS NOT NULL"), "8");
    assert_int_equal(unlink(path), 0);
    (void)snprintf(path, sizeof path, "find %s -type f -name '*.hidden' | while read f; do mv $f ${f%%.hidden}; done",
                   fixture.folder.path);
    assert_int_equal(system(path), 0); /* NOLINT(cert-env33-c): our own mkdtemp() name */
    id = begin_scrub(false);
    work(JOB_SCRUB);
    assert_int_equal(look(&id).found, 0);
    assert_string_equal(ask("SELECT count(*) FROM blob WHERE damaged_at IS NOT NULL"), "0");
}

int main(void)
{
    struct CMUnitTest tests[32] = {{0}}; /* those below */
    size_t count = 0;

    for (size_t i = 0; i < COUNT(damage_rows); i++)
        tests[count++] = (struct CMUnitTest){.name = damage_rows[i].name,
                                             .test_func = damage_is_found_named_marked_and_recorded,
                                             .initial_state = (void *)(uintptr_t)&damage_rows[i]};
    const struct CMUnitTest others[] = {
        cmocka_unit_test(a_sound_region_has_no_findings_and_loses_its_marks),
        cmocka_unit_test(sealed_manifests_are_verified),
        cmocka_unit_test(a_region_that_is_all_wrong_ends_the_scrub),
    };
    for (size_t i = 0; i < COUNT(others); i++) tests[count++] = others[i];
    return _cmocka_run_group_tests("scrub", tests, count, fixture_set_up, fixture_tear_down);
}
