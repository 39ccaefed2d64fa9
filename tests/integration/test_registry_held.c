/* What a training run uploads is in its repository for nobody, until it is admitted or somebody pushes the same bytes. */
#include "registry/copies/copies_priv.h"
#include "registry/held_manifest.h"
#include "registry/stored_blob.h"
#include "tests/integration/collect_fixture.h"

static uint64_t seeds = 7000;

/* Pushes as a run, or as a robot. */
static void push(struct resource *where, uint64_t seed, bool by_run, char digest_out[DIGEST_TEXT_SIZE])
{
    fixture.principal.kind = by_run ? PRINCIPAL_RUN : PRINCIPAL_ROBOT;
    fixture_push(where, seed, SMALL, digest_out);
    fixture.principal.kind = PRINCIPAL_ROBOT;
}

static struct result delete_blob(const struct resource *where, const char *digest, struct error *err)
{
    struct blob_unlink change;

    blob_unlink_prepare(where, digest, &change);
    return fixture_change(ACTION_BLOB_DELETE, where, &change.change, err);
}

static struct result mount(const struct resource *target, const struct resource *source, const char *digest, struct error *err)
{
    const struct action_pair pairs[2] = {{ACTION_BLOB_MOUNT, *target}, {ACTION_BLOB_READ, *source}};
    struct blob_mount change;

    blob_mount_prepare(fixture.registry, target, source, digest, &change);
    return stack_record(fixture.stack, pairs, 2, &change.change, NULL, err);
}

static struct result push_image(const struct resource *where, const char *config, int size, struct error *err)
{
    struct pushed image;

    (void)snprintf(
        image.body, sizeof image.body,
        "{\"schemaVersion\":2,\"mediaType\":\"" MEDIA_TYPE_IMAGE
        "\",\"config\":{\"mediaType\":\"application/vnd.oci.empty.v1+json\",\"digest\":\"%s\",\"size\":%d},\"layers\":[]}",
        config, size);
    return collect_push_manifest(where, "prod", &image, err);
}

static bool can_read(const struct resource *where, const char *digest)
{
    struct permit *permit = NULL;
    struct error why = {0};
    struct stored_blob *blob = fixture_find_blob(where, digest, &permit, &why);
    const bool found = blob != NULL;

    if (!found) assert_int_equal(why.kind, ERROR_NOT_FOUND);
    stored_blob_free(blob);
    permit_free(permit);
    return found;
}

/* Every request that names the digest gets the very answer of a digest that is nowhere. */
static void check_is_as_if_absent(const struct resource *where, const char *digest)
{
    struct resource target = fixture_repository(&fixture.models, "held/target");
    struct error held = {0}, absent = {0};
    char unknown[DIGEST_TEXT_SIZE];

    free(fixture_content(seeds++, 10, unknown));
    assert_false(can_read(where, digest));
    assert_false(collect_is_told_of(where, digest));
    MUST_FAIL(ERROR_NOT_FOUND, mount(&target, where, digest, &err));
    MUST_FAIL(ERROR_NOT_FOUND, mount(where, where, digest, &err));
    assert_false(delete_blob(where, digest, &held).ok || delete_blob(where, unknown, &absent).ok);
    assert_int_equal(held.kind, ERROR_NOT_FOUND);
    assert_string_equal(held.message, absent.message);
    for (int size = SMALL - 1; size <= SMALL; size++) { /* another size would tell as well */
        char *found = NULL;
        assert_false(push_image(where, digest, size, &held).ok || push_image(where, unknown, size, &absent).ok);
        assert_int_equal(held.kind, absent.kind);
        assert_true((found = strstr(held.message, digest)) != NULL);
        memcpy(found, unknown, strlen(unknown));
        assert_string_equal(held.message, absent.message);
    }
}

static void nobody_finds_what_a_run_uploads(void **state)
{
    struct resource where = fixture_repository(&fixture.models, "held/a");
    char digest[DIGEST_TEXT_SIZE];

    (void)state;
    push(&where, 1, true, digest);
    check_is_as_if_absent(&where, digest);
    push(&where, 1, true, digest); /* again, by the same or another run */
    check_is_as_if_absent(&where, digest);
}

/* A person who has the bytes pushes them, and has nothing to do with the run. */
static void who_has_the_bytes_pushes_them(void **state)
{
    struct resource where = fixture_repository(&fixture.models, "held/b");
    char digest[DIGEST_TEXT_SIZE];

    (void)state;
    push(&where, 2, true, digest);
    push(&where, 2, false, digest);
    fixture_check(&where, 2, SMALL);
    push(&where, 2, true, digest); /* a run takes nothing away */
    fixture_check(&where, 2, SMALL);
    MUST(delete_blob(&where, digest, &err));
    check_is_as_if_absent(&where, digest);
    assert_string_equal(ask("SELECT count(*) FROM repository_blob WHERE is_held AND NOT is_pushed"),
                        "2"); /* and stays for the run */
    push(&where, 2, false, digest);
    MUST(push_image(&where, digest, SMALL, &err));
    MUST_FAIL(ERROR_CONFLICT, delete_blob(&where, digest, &err));
}

static void a_mount_shows_only_what_it_has_read(void **state)
{
    struct resource where = fixture_repository(&fixture.models, "held/c"), other = fixture_repository(&fixture.models, "held/d");
    char digest[DIGEST_TEXT_SIZE];

    (void)state;
    push(&where, 3, true, digest);
    push(&other, 3, false, digest);
    assert_false(can_read(&where, digest));
    MUST(mount(&where, &other, digest, &err));
    fixture_check(&where, 3, SMALL);
}

/* A run that repairs a damaged blob of a repository makes it readable nowhere else. */
static void a_run_repairs_a_damaged_blob(void **state)
{
    struct resource where = fixture_repository(&fixture.models, "held/e"), own = fixture_repository(&fixture.models, "held/f");
    char digest[DIGEST_TEXT_SIZE];

    (void)state;
    push(&where, 4, false, digest);
    execute(
        "UPDATE blob SET damaged_at = now() WHERE blob_id IN (SELECT blob_id FROM repository_blob JOIN repository r USING (repository_id)"
        " WHERE r.name = 'held/e')");
    push(&own, 4, true, digest);
    fixture_check(&where, 4, SMALL);
    check_is_as_if_absent(&own, digest);
}

/* As if the blob had a copy in a further region (registry/copies/), for the repository that has it. */
static void plant_copy(const char *digest)
{
    char sql[1000];

    (void)snprintf(
        sql, sizeof sql,
        "INSERT INTO region VALUES ('test/there', '0123456789abcdef', 'fs', '/x');"
        "WITH copy AS (INSERT INTO blob (blob_id, project_id, region_id, digest, size_bytes, part, key_version, wrapped_key, commitment,"
        " lease_until) SELECT gen_random_uuid(), project_id, 'test/there', digest, size_bytes, part, key_version, wrapped_key, commitment,"
        " now() FROM blob WHERE digest = '%s' RETURNING blob_id) INSERT INTO repository_blob (repository_id, digest, blob_id)"
        " SELECT repository_id, digest, c.blob_id FROM repository_blob r, copy c WHERE digest = '%s'",
        digest, digest);
    database_execute(fixture.stack->log.database, sql);
}

static void an_admission_shows_the_blobs(void **state)
{
    struct resource where = fixture_repository(&fixture.models, "held/g"), other = fixture_repository(&fixture.models, "held/h");
    struct pushed image;
    char digest[DIGEST_TEXT_SIZE];
    OWNED(permit) *permit = NULL;
    OWNED(manifest) *manifest = NULL;

    (void)state;
    push(&where, 5, true, digest);
    plant_copy(digest);
    push(&other, 6, true, image.digest);
    collect_write_image(&image, digest, NULL, 1);
    MUST(manifest_parse(bytes_of_text(image.body), (struct bytes){0}, &manifest, &err));
    permit = fixture_permit(ACTION_RUN_ADMIT, &where);
    const struct resource *const places[2] = {&where, &other};
    for (int i = 0; i < 2; i++) {
        const struct held_links links = {&where, places[i], manifest};
        assert_false(can_read(places[i], digest));
        MUST(held_blobs_link(permit, fixture.stack->pg, &links, &err));
        fixture_check(places[i], 5, SMALL);
    }
    assert_string_equal(ask("SELECT count(*) FROM repository_blob JOIN blob USING (blob_id) WHERE region_id = 'test/there'"),
                        "1");
    assert_false(can_read(&other, image.digest)); /* what the manifest does not need stays held */
}

/* Its home is another region already, and what runs hold is still sealed under the key of the old one. */
static void what_is_held_is_read_while_its_project_moves(void **state)
{
    struct resource where = fixture_repository(&fixture.models, "held/i");
    OWNED_HELD held = {.key = {.attempt = 1}}, found = {.count = 0};
    const struct uuid run = {{0xb1}};
    struct pushed image;
    char digest[DIGEST_TEXT_SIZE];
    OWNED(permit) *permit = NULL;

    (void)state;
    push(&where, 8, true, digest);
    collect_write_image(&image, digest, NULL, 1);
    held.key.run = run;
    permit = fixture_permit(ACTION_RUN_ADMIT, &where);
    execute("INSERT INTO run (run_id, project_id, state, request, requester, approvals_wanted, pool, expires_at) SELECT"
            " 'b1000000-0000-0000-0000-000000000000', project_id, 'finishing', sha256('x'), 'robot', 0, 'default', now()"
            " FROM repository WHERE name = 'held/i'");
    const struct held_text text = {ACTION_RUN_ADMIT, "model", &where, bytes_of_text(image.body)};
    MUST(held_manifests_add(permit, fixture.registry, fixture.stack->pg, &text, &held, &err));
    MUST(held_manifests_insert(permit, fixture.stack->pg, ACTION_RUN_ADMIT, &held, &err));
    execute(
        "ALTER TABLE project DISABLE TRIGGER home_moves_as_asked; CREATE TABLE was AS SELECT project_id, home_region FROM project;"
        "UPDATE project SET home_region = 'test/there' WHERE project_id = (SELECT project_id FROM repository WHERE name = 'held/i')");
    MUST(held_manifests_read(permit, fixture.registry, fixture.stack->pg, &held.key, &found, &err));
    assert_int_equal(found.count, 1);
    assert_string_equal(found.each[0].where.region, "test/there");
    execute("UPDATE project p SET home_region = w.home_region FROM was w WHERE w.project_id = p.project_id; DROP TABLE was;"
            "ALTER TABLE project ENABLE TRIGGER home_moves_as_asked");
}

/* It is stored, and shown to who may read the project. */
static void why_a_copy_failed_names_no_place(void **state)
{
    static const enum error_kind kinds[] = {ERROR_UNAVAILABLE, ERROR_CORRUPT, ERROR_FULL, ERROR_CONFLICT};

    (void)state;
    for (size_t i = 0; i < COUNT(kinds); i++) {
        struct copy_round round = {.state = COPIES_NEW};
        copy_note_failure(&round, &(struct error){.kind = kinds[i], .message = "/srv/place: refused"});
        assert_true(round.state != COPIES_NEW && round.why[0] != '\0' && strchr(round.why, '/') == NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_finds_what_a_run_uploads),     cmocka_unit_test(who_has_the_bytes_pushes_them),
        cmocka_unit_test(a_mount_shows_only_what_it_has_read), cmocka_unit_test(a_run_repairs_a_damaged_blob),
        cmocka_unit_test(an_admission_shows_the_blobs),        cmocka_unit_test(what_is_held_is_read_while_its_project_moves),
        cmocka_unit_test(why_a_copy_failed_names_no_place),
    };

    return cmocka_run_group_tests_name("what runs upload", tests, fixture_set_up, fixture_tear_down);
}
