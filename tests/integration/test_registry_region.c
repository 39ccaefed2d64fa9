/* Regions with faults: not mounted, or with objects that can't be removed. */
#include "registry/jobs/maintenance.h"
#include "registry/maintenance.h"
#include "tests/integration/registry_fixture.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "policy/decider/decider.h"
#include "registry/jobs/clean_up.h"
#include "registry/jobs/forgotten.h"
#include "registry/jobs/statements.h"
#include "registry/region.h"
#include "registry/registry_priv.h"

/* An unmounted region looked like a folder of damaged blobs, and each read marked one for good. */
static void a_region_that_lost_its_file_system_is_not_served(void **state)
{
    struct resource where = fixture_repository(&fixture.models, "mounted");
    char empty[sizeof fixture.folder.path + 8], digest[DIGEST_TEXT_SIZE];
    struct error problem = {0};

    (void)state;
    fixture_push(&where, 91, 1000, digest);
    (void)snprintf(empty, sizeof empty, "%s.empty", fixture.folder.path);
    struct registry *elsewhere = fixture_gateway_elsewhere(empty);
    MUST(registry_check_regions(fixture.registry, fixture.stack->pg, &err));
    assert_false(registry_check_regions(elsewhere, fixture.stack->pg, &problem).ok);
    assert_int_equal(problem.kind, ERROR_UNAVAILABLE);
    assert_non_null(strstr(problem.message, "mounted"));
    registry_free(elsewhere);
    for (unsigned i = 0; i < 256; i++) {
        char folder[sizeof empty + 8];
        (void)snprintf(folder, sizeof folder, "%s/%02x", empty, i);
        assert_int_equal(rmdir(folder), 0);
    }
    assert_int_equal(rmdir(empty), 0);
}

/* A directory where a file belongs can't be removed as one; `number` makes the name. */
static void abandon(unsigned number, bool is_removable)
{
    char path[sizeof fixture.folder.path + 64], sql[256];

    (void)snprintf(path, sizeof path, "%s/00/%032u.e0", fixture.folder.path, number);
    if (is_removable) {
        FILE *file = fopen(path, "wbe");
        assert_non_null(file);
        assert_int_equal(fclose(file), 0);
    } else {
        assert_int_equal(mkdir(path, 0700), 0);
    }
    (void)snprintf(sql, sizeof sql, "INSERT INTO abandoned_object VALUES ('%032u', '" TEST_REGION "', now() - interval '%d min')",
                   number, is_removable ? 1 : 60);
    execute(sql);
}

/* A hundred objects that could not be removed were tried first each time, for ever, and the later ones never. */
static void what_cannot_be_removed_stands_in_nobodys_way(void **state)
{
    static const char left[] = "SELECT count(*) FROM abandoned_object";
    char path[sizeof fixture.folder.path + 64];
    size_t count = 0;

    (void)state;
    assert_string_equal(ask(left), "0");
    for (unsigned number = 0; number < 100; number++) abandon(number, false);
    abandon(100, true);
    for (int rounds = 0; rounds < 2; rounds++) MUST(registry_clean_up(fixture.registry, fixture.stack->pg, &count, &err));
    assert_string_equal(ask(left), "100");
    for (unsigned number = 0; number < 100; number++) {
        (void)snprintf(path, sizeof path, "%s/00/%032u.e0", fixture.folder.path, number);
        assert_int_equal(rmdir(path), 0);
    }
    MUST(registry_clean_up(fixture.registry, fixture.stack->pg, &count, &err)); /* they have their turn again */
    assert_int_equal(count, 100);
    assert_string_equal(ask(left), "0");
}

/* The row is removed, and at once also the key in this gateway's memory, before its lifetime there ends. */
static void a_forgotten_key_leaves_the_memory(void **state)
{
    struct resource where = fixture_repository(&fixture.models, "forgotten");
    const struct key_scope scope = registry_key_scope(&where);
    uint8_t name[KEY_CACHE_NAME_SIZE], found[DATA_KEY_SIZE];
    char digest[DIGEST_TEXT_SIZE], sql[400];
    struct key_record record = {.commitment = {1}};
    static const struct pg_table *const tables[] = {&forgotten_statements, NULL};
    OWNED(secret) *key = NULL;
    OWNED(pg) *pg = NULL;

    (void)state;
    fixture_push(&where, 50, 1000, digest);
    (void)snprintf(sql, sizeof sql, "SELECT blob_id FROM blob WHERE digest = '%s'", digest);
    assert_true(uuid_parse(bytes_of_text(ask(sql)), &record.id));
    MUST(pg_open(database_app(fixture.stack->database), tables, &pg, &err));
    MUST(secret_random(DATA_KEY_SIZE, &key, &err));
    registry_remember_key(fixture.registry, &where, &record, key);
    key_cache_name(&scope, &record, name);
    MUST(registry_drop_forgotten(fixture.registry, pg, &err));
    assert_true(key_cache_get(fixture.registry->keys, name, found));
    (void)snprintf(sql, sizeof sql, "DELETE FROM repository_blob WHERE digest = '%s'; DELETE FROM blob WHERE digest = '%s'",
                   digest, digest);
    execute(sql);
    MUST(registry_drop_forgotten(fixture.registry, pg, &err));
    assert_false(key_cache_get(fixture.registry->keys, name, found));
}

/* ---- Draining and retiring ---- */

static struct result turn(const char *region, enum region_turn wanted, struct error *err)
{
    static const enum action actions[] = {ACTION_REGION_DRAIN, ACTION_REGION_REOPEN, ACTION_REGION_RETIRE};
    struct resource where = {.kind = RESOURCE_SYSTEM};
    struct region_change change;

    (void)snprintf(where.region, sizeof where.region, "%s", region);
    region_change_prepare(&where, wanted, &change);
    return fixture_change(actions[wanted], &where, &change.change, err);
}

static struct region_content content_of(const char *region)
{
    const struct resource where = {.kind = RESOURCE_SYSTEM};
    OWNED(permit) *permit = fixture_permit(ACTION_REGION_READ, &where);
    struct region_content content;

    MUST(region_content_count(permit, fixture.stack->pg, region, &content, &err));
    return content;
}

/* Each thing that keeps a region from being retired, one after the other. */
static void a_region_is_retired_when_nothing_is_left(void **state)
{
    static const char *const things[][2] = {
        {"INSERT INTO abandoned_object VALUES (gen_random_uuid(), 'test/away', now())",
         "DELETE FROM abandoned_object WHERE region_id = 'test/away'"},
        {"INSERT INTO forgotten_key (blob_id, project_id, region_id, digest, size_bytes, key_version) SELECT gen_random_uuid(), project_id, 'test/away',"
         " 'sha256:' || repeat('0', 64), 1, 1 FROM project LIMIT 1",
         "UPDATE forgotten_key SET sequence = 1 WHERE region_id = 'test/away'"},
        {"ALTER TABLE project DISABLE TRIGGER home_moves_as_asked; UPDATE project SET home_region = 'test/away' WHERE name = 'other'",
         "UPDATE project SET home_region = '" TEST_REGION
         "' WHERE name = 'other'; ALTER TABLE project ENABLE TRIGGER home_moves_as_asked"}};
    struct region region = {.driver = REGION_DRIVER_FS, .id = "test/away", .location = "/unused"};

    (void)state;
    MUST_FAIL(ERROR_CONFLICT, turn("test/away", REGION_TURN_DRAIN, &err)); /* there is none */
    MUST(region_insert(fixture.stack->pg, &region, &err));
    MUST_FAIL(ERROR_CONFLICT, turn("test/away", REGION_TURN_RETIRE, &err)); /* it does not drain */
    MUST(turn("test/away", REGION_TURN_DRAIN, &err));
    for (size_t i = 0; i < COUNT(things); i++) {
        execute(things[i][0]);
        MUST_FAIL(ERROR_CONFLICT, turn("test/away", REGION_TURN_RETIRE, &err));
        execute(things[i][1]);
    }
    const struct region_content content = content_of("test/away");
    assert_true(content.blobs == 0 && content.others == 0 && content.projects == 0 && content.forgotten == 1);
    MUST(turn("test/away", REGION_TURN_RETIRE, &err));
    MUST_FAIL(ERROR_CONFLICT, turn("test/away", REGION_TURN_REOPEN, &err)); /* for ever */
    MUST_FAIL(ERROR_CONFLICT, turn("test/away", REGION_TURN_DRAIN, &err));
    execute("DELETE FROM forgotten_key WHERE region_id = 'test/away'");
}

static void what_is_in_a_region_is_listed(void **state)
{
    struct resource repository = fixture_repository(&fixture.models, "listed"), system = {.kind = RESOURCE_SYSTEM};
    OWNED(permit) *permit = fixture_permit(ACTION_REGION_READ, &system);
    struct region_page page = {.region = TEST_REGION, .after = "", .limit = 10};
    struct region_projects found;
    char digest[DIGEST_TEXT_SIZE];

    (void)state;
    fixture_push(&repository, 92, 1000, digest);
    const struct region_content content = content_of(TEST_REGION);
    assert_true(content.blobs > 0 && content.bytes >= 1000 && content.projects == 2);
    MUST(region_content_list(permit, fixture.stack->pg, &page, &found, &err));
    assert_int_equal(found.count, 2);
    assert_string_equal(found.projects[0].name, "acme/models");
    assert_true(found.projects[0].is_home && found.projects[0].blobs > 0 && found.projects[1].is_home);
    free(found.projects);
    page.after = "acme/models";
    MUST(region_content_list(permit, fixture.stack->pg, &page, &found, &err));
    assert_int_equal(found.count, 1);
    free(found.projects);
    MUST(turn(TEST_REGION, REGION_TURN_DRAIN, &err));
    MUST_FAIL(ERROR_CONFLICT, turn(TEST_REGION, REGION_TURN_RETIRE, &err));
    MUST(turn(TEST_REGION, REGION_TURN_REOPEN, &err));
}

/* ---- What a store says, and who may begin it ---- */

static struct decider *decider_now(struct decider *old)
{
    const struct decider_options options = {.conninfo = database_app(fixture.stack->database),
                                            .keyd = fixture.stack->keyd,
                                            .sequencer = fixture.stack->sequencer,
                                            .poll_ms = 60000,
                                            .stale_ms = 120000};
    struct decider *decider = NULL;

    decider_free(old);
    MUST(decider_start(&options, &decider, &err));
    return decider;
}

static void write_mark(const char *folder, const char *mark)
{
    char path[sizeof fixture.folder.path + 64];

    (void)snprintf(path, sizeof path, "%s/sijil-region", folder);
    FILE *file = fopen(path, "wbe");
    assert_non_null(file);
    assert_int_equal(fprintf(file, "%s\n", mark), 33);
    assert_int_equal(fclose(file), 0);
}

static struct result scan(struct registry *registry, struct decider *decider, struct error *err)
{
    return registry_scan_regions(registry, decider, 3600000, err);
}

static bool is_open(const struct registry *registry)
{
    struct blob_store *blobs = NULL;
    struct error ignored = {0};

    return registry_blobs(registry, TEST_REGION, &blobs, &ignored).ok;
}

#define OTHER_MARK "ffeeddccbbaa99887766554433221100"
#define HERE       " FROM region WHERE region_id = '" TEST_REGION "'"
#define RELEASE    "UPDATE region SET quarantined_since = NULL, quarantined_for = NULL, quarantined_epoch = NULL"

static void assert_quarantined(bool is_quarantined)
{
    assert_string_equal(ask("SELECT coalesce(quarantined_for LIKE 'mark: %', false)" HERE), is_quarantined ? "t" : "f");
}

/* The log was away when the store disagreed: the region was read and written on, until the next look in ten minutes. */
static void what_cannot_be_recorded_closes_the_store_and_is_tried_again(void **state)
{
    struct decider *decider = decider_now(NULL);
    char mark[DRIVER_MARK_SIZE];

    (void)state;
    MUST(scan(fixture.registry, decider, &err));
    (void)snprintf(mark, sizeof mark, "%s", ask("SELECT mark" HERE));
    write_mark(fixture.folder.path, OTHER_MARK);
    execute("ALTER TABLE region ADD CONSTRAINT never CHECK (quarantined_since IS NULL)");
    decider = decider_now(decider);
    fixture.registry->regions[0].scanned_ms = 0;
    assert_true(is_open(fixture.registry));
    for (int i = 0; i < 2; i++) {
        struct error why = {0};
        assert_false(scan(fixture.registry, decider, &why).ok);
        assert_false(is_open(fixture.registry));
    }
    execute("ALTER TABLE region DROP CONSTRAINT never");
    MUST(scan(fixture.registry, decider, &err));
    assert_quarantined(true);

    execute(RELEASE); /* as another gateway does, whose store agrees */
    decider = decider_now(decider);
    MUST(scan(fixture.registry, decider, &err)); /* this one's does not, and is never opened */
    assert_false(is_open(fixture.registry));
    assert_quarantined(true);
    write_mark(fixture.folder.path, mark);
    execute(RELEASE);
    decider = decider_now(decider);
    MUST(scan(fixture.registry, decider, &err));
    assert_true(is_open(fixture.registry));
    decider_free(decider);
}

/* Two gateways with a folder of their own began one region in the same second, and neither found the other. */
static void who_is_not_first_looks_again(void **state)
{
    char elsewhere[sizeof fixture.folder.path + 8], mark[DRIVER_MARK_SIZE], sql[sizeof elsewhere + 100];
    struct decider *decider = NULL;

    (void)state;
    (void)snprintf(mark, sizeof mark, "%s", ask("SELECT mark" HERE));
    execute("UPDATE region SET mark = NULL");
    decider = decider_now(NULL);
    (void)snprintf(sql, sizeof sql, "UPDATE region SET mark = '%s' WHERE region_id = '" TEST_REGION "'", mark);
    execute(sql); /* another gateway, of which the snapshot knows nothing yet */
    (void)snprintf(elsewhere, sizeof elsewhere, "%s.own", fixture.folder.path);
    struct registry *registry = fixture_gateway_elsewhere(elsewhere);
    MUST(scan(registry, decider, &err));
    assert_quarantined(false);
    decider = decider_now(decider);
    MUST(scan(registry, decider, &err));
    assert_false(is_open(registry));
    assert_quarantined(true);
    execute(RELEASE);
    decider_free(decider);
    registry_free(registry);
    (void)snprintf(sql, sizeof sql, "rm -r '%s'", elsewhere);
    assert_int_equal(system(sql), 0); /* NOLINT(cert-env33-c) */
}

/* Whoever records the mark writes it a moment later: that is no other store. */
static void a_mark_may_come_until_the_next_look(void **state)
{
    char path[sizeof fixture.folder.path + 64], mark[DRIVER_MARK_SIZE];
    struct decider *decider = decider_now(NULL);

    (void)state;
    (void)snprintf(mark, sizeof mark, "%s", ask("SELECT mark" HERE));
    (void)snprintf(path, sizeof path, "%s/sijil-region", fixture.folder.path);
    for (int comes = 1; comes >= 0; comes--) {
        assert_int_equal(unlink(path), 0);
        fixture.registry->regions[0].scanned_ms = 0;
        MUST(scan(fixture.registry, decider, &err));
        assert_false(is_open(fixture.registry));
        assert_quarantined(false);
        if (comes) write_mark(fixture.folder.path, mark);
        MUST(scan(fixture.registry, decider, &err));
        assert_int_equal(is_open(fixture.registry), comes);
    }
    assert_quarantined(true);
    execute(RELEASE);
    write_mark(fixture.folder.path, mark);
    decider_free(decider);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_forgotten_key_leaves_the_memory),
        cmocka_unit_test(a_region_that_lost_its_file_system_is_not_served),
        cmocka_unit_test(what_cannot_be_removed_stands_in_nobodys_way),
        cmocka_unit_test(a_region_is_retired_when_nothing_is_left),
        cmocka_unit_test(what_is_in_a_region_is_listed),
        cmocka_unit_test(what_cannot_be_recorded_closes_the_store_and_is_tried_again),
        cmocka_unit_test(who_is_not_first_looks_again),
        cmocka_unit_test(a_mark_may_come_until_the_next_look),
    };

    return cmocka_run_group_tests_name("regions of a registry", tests, fixture_set_up, fixture_tear_down);
}
