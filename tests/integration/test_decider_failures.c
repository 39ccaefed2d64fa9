/* The decider after failures: its errors, and that it never uses an old or incomplete snapshot. */
#include "tests/integration/decider_fixture.h"

#include "authz/break_glass_entry.h"
#include "base/clock.h"
#include "base/fault.h"
#include "policy/decider/snapshot_priv.h"

static void without_keyd_it_gets_stale_and_denies(void **state)
{
    struct place place;
    struct error err = {0};

    (void)state;
    place_open_ruled(&place);
    start_with(&place, 50, 3000);
    expect(&place, VERDICT_ALLOW, NULL);
    keyd_process_kill(place.log.keyd);
    const int64_t until_ms = clock_monotonic_ms() + 30000;
    while (decider_is_ready(place.decider, &err) && clock_monotonic_ms() < until_ms) (void)usleep(50000);
    assert_false(decider_is_ready(place.decider, &err));
    expect(&place, VERDICT_DENY, "SYS-STALE");
    struct rights_answer answer;
    const struct rights_query query = {.principal = "robot:00000000-0000-0000-0000-00000000000c",
                                       .organisation = &(struct uuid){{0}}};
    assert_false(decider_holds(place.decider, &query, &answer, &err).ok);
    assert_int_equal(err.kind, ERROR_UNAVAILABLE); /* nobody has lost a right */
    keyd_process_restart(place.log.keyd);
    refresh(&place);
    assert_true(decider_is_ready(place.decider, &err));
    expect(&place, VERDICT_ALLOW, NULL);
    place_close(&place);
}

static void a_lost_connection_is_made_again(void **state)
{
    struct place place;
    struct error err = {0};

    (void)state;
    place_open_ruled(&place);
    start_well(&place);
    database_disconnect_all(place.log.database);
    database_execute(place.log.database, "UPDATE binding SET revoked_at = now(); SELECT raise_authorization_epoch()");
    for (int i = 0; i < 100 && !decider_refresh(place.decider, &err).ok; i++) (void)usleep(20000);
    expect(&place, VERDICT_HIDE, "SYS-NO-BINDING");
    restart_well(&place);
    place_close(&place);
}

/* The loader tries again soon, even if it polls seldom without failures. */
static void a_database_that_stays_away_is_asked_for_again(void **state)
{
    static const unsigned polls_ms[] = {50, 60000};

    (void)state;
    for (size_t i = 0; i < COUNT(polls_ms); i++) {
        struct place place;
        struct error err = {0};
        bool is_back = false;

        place_open_ruled(&place);
        start_with(&place, polls_ms[i], 120000);
        database_execute(place.log.database, "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I CONNECTION LIMIT 0',"
                                             " current_database()); END $$");
        database_disconnect_all(place.log.database);
        assert_false(decider_refresh(place.decider, &err).ok);
        (void)usleep(2500000);
        database_execute(place.log.database, "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I CONNECTION LIMIT -1',"
                                             " current_database()); END $$");
        for (int tries = 0; tries < 100 && !is_back; tries++) is_back = decider_refresh(place.decider, &err).ok;
        assert_true(is_back);
        expect(&place, VERDICT_ALLOW, NULL);
        place_close(&place);
    }
}

static const struct pg_table *const loader_tables[] = {
    &decider_table,    &policy_set_table, &authz_snapshot_table, &persons_places_table,
    &audit_tree_table, &scim_load_table,  &break_glass_table,    NULL};

static struct result load_once(struct policy_set_source *source, struct error *err)
{
    OWNED(snapshot) *snapshot = NULL;

    TRY_UNTOUCHED_BYTES(snapshot, snapshot_load(&(struct snapshot_source){source, NULL, 0}, NULL, 0, &snapshot, err));
    return SUCCESS;
}

/* Sets the epoch that the loader reads, and the epoch of the last change that may have changed anything. */
static void pretend(struct place *place, unsigned long long epoch, unsigned long long whole_epoch)
{
    char sql[800];

    (void)snprintf(
        sql, sizeof sql,
        "CREATE OR REPLACE VIEW authorization_epoch AS SELECT %llu::bigint AS epoch;"
        "CREATE OR REPLACE VIEW authorization_change AS SELECT '00000000-0000-0000-0000-000000000000'::uuid AS organisation_id,"
        " %llu::bigint AS epoch, %llu::bigint AS part_epoch, %llu::bigint AS names_epoch, %llu::bigint AS whole_epoch, %llu::bigint AS rights_epoch;"
        "GRANT SELECT, UPDATE ON authorization_epoch, authorization_change TO sijil_app",
        epoch, whole_epoch, whole_epoch, whole_epoch, whole_epoch, whole_epoch);
    database_execute(place->log.database, sql);
}

static void set_aside(struct place *place)
{
    database_execute(place->log.database, "ALTER TABLE authorization_epoch RENAME TO first_epoch;"
                                          "ALTER TABLE authorization_change RENAME TO first_change");
}

/* A set and rights of different moments make no snapshot: the loader reads again, but not for ever. */
static void a_set_that_may_be_replaced_already_is_not_taken(void **state)
{
    struct place place;
    struct policy_set_source source = {0};
    struct snapshot *snapshot = NULL, *same = NULL, *none = NULL;
    struct error err = {0};

    (void)state;
    place_open_ruled(&place);
    sequencer_free(GIVE(place.log.sequencer));
    source.keyd = keyd_process_client(place.log.keyd);
    set_aside(&place);
    pretend(&place, 6, 6);
    assert_true(pg_open(database_app(place.log.database), loader_tables, &source.pg, &err).ok);
    if (!snapshot_load(&(struct snapshot_source){&source, NULL, 0}, NULL, 0, &snapshot, &err).ok) fail_msg("%s", err.message);
    assert_int_equal(snapshot->epoch, 6);
    assert_true(snapshot_load(&(struct snapshot_source){&source, NULL, 0}, snapshot, 0, &same, &err).ok);
    assert_ptr_equal(same, snapshot);
    pg_free(source.pg);
    pretend(&place, 6, 7);
    assert_true(pg_open(database_app(place.log.database), loader_tables, &source.pg, &err).ok);
    assert_false(snapshot_load(&(struct snapshot_source){&source, NULL, 0}, snapshot, 0, &none, &err).ok);
    assert_int_equal(err.kind, ERROR_UNAVAILABLE);
    assert_non_null(strstr(err.message, "while they were read"));
    assert_null(none);
    snapshot_free(same);
    snapshot_free(snapshot);
    pg_free(source.pg);
    place_close(&place);
}

/* Set and epoch are read one after the other: a set that came in between counts, though the epoch looks the same. */
static void another_set_of_the_same_epoch_is_taken(void **state)
{
    struct place place;
    struct policy_set_source source = {0};
    struct snapshot *first = NULL, *second = NULL;
    struct error err = {0};

    (void)state;
    place_open_ruled(&place);
    source.keyd = keyd_process_client(place.log.keyd);
    assert_true(pg_open(database_app(place.log.database), loader_tables, &source.pg, &err).ok);
    assert_true(snapshot_load(&(struct snapshot_source){&source, NULL, 0}, NULL, 0, &first, &err).ok);
    pg_free(source.pg);
    install_well(&place, 2);
    set_aside(&place);
    pretend(&place, first->epoch, first->epoch);
    assert_true(pg_open(database_app(place.log.database), loader_tables, &source.pg, &err).ok);
    assert_true(snapshot_load(&(struct snapshot_source){&source, NULL, 0}, first, 0, &second, &err).ok);
    assert_ptr_not_equal(second, first);
    assert_int_equal(policy_set_epoch(second->set), 2);
    snapshot_free(second);
    snapshot_free(first);
    pg_free(source.pg);
    place_close(&place);
}

/*
 * Every allocation, every query and every call to keyd fails once. A failure during a signature check looks like a wrong
 * signature, so the kind of the error proves little. But no incomplete snapshot may result.
 */
static void loading_survives_every_failure(void **state)
{
    struct place place;
    struct policy_set_source source = {0};
    struct error err = {0};
    unsigned long nth = 1, failures = 0;

    (void)state;
    place_open_ruled(&place);
    sequencer_free(GIVE(place.log.sequencer)); /* its threads would take the failures */
    source.keyd = keyd_process_client(place.log.keyd);
    assert_true(pg_open(database_app(place.log.database), loader_tables, &source.pg, &err).ok);
    for (bool has_fired = true; has_fired; nth++) {
        fault_arm(nth);
        const bool ok = load_once(&source, &err).ok;
        has_fired = fault_has_fired();
        fault_arm(0);
        assert_true(ok || (has_fired && err.message[0] != '\0'));
        failures += !ok;
        if (pg_is_broken(source.pg)) assert_true(pg_reopen(source.pg, &err).ok);
    }
    assert_failures(failures, 600);
    pg_free(source.pg);
    place_close(&place);
}

static void check_readable(struct place *place, const struct principal *principal, const char *from, const char *until)
{
    OWNED(name_ranges) *ranges = NULL;
    struct error err = {0};

    assert_true(decider_readable(place->decider, principal, "", clock_wall_ms(), &ranges, &err).ok);
    assert_int_equal(ranges->count, from == NULL ? 0 : 1);
    if (from == NULL) return;
    assert_string_equal(ranges->ranges[0].from, from);
    assert_string_equal(ranges->ranges[0].until, until);
}

static struct result readable_once(void *context, struct error *err)
{
    const struct place *place = context;
    const struct principal robot = {.kind = PRINCIPAL_ROBOT, .id.bytes[15] = 0x0c};
    OWNED(name_ranges) *ranges = NULL;

    TRY_UNTOUCHED_BYTES(ranges, decider_readable(place->decider, &robot, "", clock_wall_ms(), &ranges, err));
    return SUCCESS;
}

/* The loader is late without a failure: the decider reports it, and decides nothing from the old snapshot. */
static void a_late_loader_is_no_authority(void **state)
{
    struct place place;
    struct error err = {0};

    (void)state;
    place_open_ruled(&place);
    struct principal robot = {.kind = PRINCIPAL_ROBOT, .id.bytes[15] = 0x0c}, stranger = {.kind = PRINCIPAL_ROBOT};
    struct principal_access access;
    start_well(&place);
    assert_true(decider_is_live(place.decider, &robot, clock_wall_ms()));
    assert_false(decider_is_live(place.decider, &stranger, clock_wall_ms()));
    decider_live_access(place.decider, &robot, "acme/models/a", clock_wall_ms(), &access);
    assert_true(access.pull && access.push);
    decider_live_access(place.decider, &robot, "acme/models", clock_wall_ms(), &access); /* no repository */
    assert_false(access.pull || access.push);
    check_readable(&place, &robot, "acme/models/", "acme/models0");
    check_readable(&place, &stranger, NULL, NULL);
    fail_each(readable_once, &place, ERROR_NO_MEMORY, 1);
    assert_true(decider_robot_expires(place.decider, &robot) > clock_wall_ms());
    assert_int_equal(decider_robot_expires(place.decider, &stranger), 0);
    assert_int_equal(decider_robot_expires(place.decider, &(struct principal){.kind = PRINCIPAL_EXTERNAL}), 0);
    decider_free(GIVE(place.decider));

    start_with(&place, 60000, 100);
    (void)usleep(300000);
    assert_false(decider_is_ready(place.decider, &err));
    assert_non_null(strstr(err.message, "the loader is late"));
    expect(&place, VERDICT_DENY, "SYS-STALE");
    assert_false(decider_is_live(place.decider, &robot, clock_wall_ms()));
    decider_live_access(place.decider, &robot, "acme/models/a", clock_wall_ms(), &access);
    assert_false(access.pull || access.push);
    assert_string_equal(access.name, "acme/models/a");
    check_readable(&place, &robot, NULL, NULL);
    place_close(&place);
}

static struct result start_and_stop(void *options, struct error *err)
{
    OWNED(decider) *decider = NULL;

    TRY_UNTOUCHED_BYTES(decider, decider_start(options, &decider, err));
    return SUCCESS;
}

static void starting_survives_every_failure(void **state)
{
    struct place place;
    unsigned long nth = 1, failures = 0;

    (void)state;
    place_open(&place);
    sequencer_free(GIVE(place.log.sequencer)); /* its threads would take the failures */
    struct decider_options options = options_of(&place, 60000, 120000);
    options.metadata_region = "local/main";
    for (bool has_fired = true; has_fired; nth++) {
        struct error err = {0};

        fault_arm(nth);
        const bool ok = start_and_stop(&options, &err).ok;
        has_fired = fault_has_fired();
        fault_arm(0);
        if (!ok && !has_fired) fail_msg("%s", err.message);
        if (!ok) assert_true(err.message[0] != '\0'); /* a connection to keyd that breaks is made once more */
        failures += !ok;
    }
    assert_failures(failures, 90);
    place_close(&place);
}

/* Until an approver is pinned, no set counts: none is taken, none is in force, and nothing is stored. */
static void without_an_approver_no_set_counts(void **state)
{
    struct buffer OWNED_BUFFER envelope = BUFFER(POLICY_SET_ENVELOPE_MAX);
    struct place place;
    struct policy_set *set = NULL;
    struct error err = {0};

    (void)state;
    place_open_unpinned(&place);
    assert_false(install(&place, 1, &err));
    assert_int_equal(err.kind, ERROR_DENIED);
    sign(&place, 1, &envelope);
    assert_false(policy_set_check(keyd_process_client(place.log.keyd), NULL, buffer_bytes(&envelope), &set, &err).ok);
    assert_int_equal(err.kind, ERROR_DENIED);
    assert_null(set);
    database_execute(place.log.database, PROJECT_SQL);
    start_well(&place);
    expect(&place, VERDICT_DENY, "SYS-NO-POLICY");
    place_close(&place);
}

/* A refresh reports its failure, and does not wait longer than the gateway itself trusts its snapshot. */
static void a_refresh_says_what_is_wrong(void **state)
{
    struct place place;
    struct error err = {0};

    (void)state;
    place_open_ruled(&place);
    start_with(&place, 60000, 999);
    keyd_process_pause(place.log.keyd, true); /* its client waits for five seconds */
    assert_false(decider_refresh(place.decider, &err).ok);
    assert_int_equal(err.kind, ERROR_UNAVAILABLE);
    assert_non_null(strstr(err.message, "in time"));
    keyd_process_pause(place.log.keyd, false);
    bool is_fresh = false; /* a busy machine needs more than one try of a second */
    for (int i = 0; i < 100 && !is_fresh; i++) is_fresh = decider_refresh(place.decider, &err).ok;
    assert_true(is_fresh);
    keyd_process_kill(place.log.keyd);
    assert_false(decider_refresh(place.decider, &err).ok);
    assert_int_equal(err.kind, ERROR_UNAVAILABLE);
    keyd_process_restart(place.log.keyd);
    place_close(&place);
}

/* Changes of rights alone need no answer of sijil-keyd for a moment after a look; what may be of policies or documents does. */
static void rights_alone_are_loaded_without_keyd(void **state)
{
    struct place place;
    struct policy_set_source source = {0};
    struct snapshot *first = NULL, *second = NULL, *third = NULL;
    struct error err = {0};

    (void)state;
    place_open_ruled(&place);
    source.keyd = keyd_process_client(place.log.keyd);
    assert_true(pg_open(database_app(place.log.database), loader_tables, &source.pg, &err).ok);
    assert_true(snapshot_load(&(struct snapshot_source){&source, NULL, 0}, NULL, 0, &first, &err).ok);
    keyd_process_kill(place.log.keyd);
    const struct snapshot_source looked = {&source, NULL, clock_monotonic_ms()}, looks = {&source, NULL, 0};
    database_execute(place.log.database, "SELECT raise_authorization_epoch('be000000-0000-0000-0000-000000000000', false)");
    if (!snapshot_load(&looked, first, 0, &second, &err).ok) fail_msg("%s", err.message);
    assert_true(second->epoch > first->epoch);
    assert_ptr_equal(second->set, first->set);
    assert_int_equal(atomic_load(&second->checked_ms), looked.looked_ms); /* no newer than what it has of before */
    assert_false(snapshot_load(&looks, second, 0, &third, &err).ok);
    assert_int_equal(err.kind, ERROR_UNAVAILABLE);
    database_execute(place.log.database, "SELECT raise_authorization_epoch()");
    assert_false(snapshot_load(&looked, second, 0, &third, &err).ok);
    assert_int_equal(err.kind, ERROR_UNAVAILABLE);
    assert_null(third);
    snapshot_free(second);
    snapshot_free(first);
    pg_free(source.pg);
    keyd_process_restart(place.log.keyd);
    place_close(&place);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_keyd_it_gets_stale_and_denies),
        cmocka_unit_test(a_lost_connection_is_made_again),
        cmocka_unit_test(a_set_that_may_be_replaced_already_is_not_taken),
        cmocka_unit_test(another_set_of_the_same_epoch_is_taken),
        cmocka_unit_test(a_database_that_stays_away_is_asked_for_again),
        cmocka_unit_test(loading_survives_every_failure),
        cmocka_unit_test(a_late_loader_is_no_authority),
        cmocka_unit_test(starting_survives_every_failure),
        cmocka_unit_test(without_an_approver_no_set_counts),
        cmocka_unit_test(a_refresh_says_what_is_wrong),
        cmocka_unit_test(rights_alone_are_loaded_without_keyd),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
