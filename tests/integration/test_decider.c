/* The decider with the real PostgreSQL, sequencer and sijil-keyd: what is recorded, pinned, loaded, and when it is
 * too old. */
#include "tests/support/unit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/text.h"
#include "policy/decider.h"
#include "policy/metrics.h"
#include "policy/snapshot_priv.h"
#include "tests/support/audit_log.h"

#define PROJECT_SQL                                                                                               \
    "INSERT INTO organisation (organisation_id, name) VALUES ('00000000-0000-0000-0000-00000000000a', 'acme');"    \
    "INSERT INTO region VALUES ('local/main', '0123456789abcdef', 'fs', '/x');"                                    \
    "INSERT INTO project (project_id, organisation_id, name, home_region, label) VALUES"                           \
    " ('00000000-0000-0000-0000-00000000000b', '00000000-0000-0000-0000-00000000000a', 'models', 'local/main',"     \
    " '{\"class\":\"confidential\"}');"                                                                             \
    "INSERT INTO robot (robot_id, name, secret_hash, created_by, expires_at) VALUES"                               \
    " ('00000000-0000-0000-0000-00000000000c', 'robot$ci', decode(repeat('00', 32), 'hex'), 'system',"             \
    " now() + interval '1 day');"                                                                                  \
    "INSERT INTO binding (binding_id, robot_id, role, organisation_id, project_id, granted_by) VALUES"             \
    " ('00000000-0000-0000-0000-00000000000d', '00000000-0000-0000-0000-00000000000c', 'publisher',"               \
    " '00000000-0000-0000-0000-00000000000a', '00000000-0000-0000-0000-00000000000b', 'system');"                   \
    "SELECT raise_authorization_epoch()"

struct place {
    struct audit_log log;
    struct ecdsa_key *officer;
    struct decider *decider;
};

static const struct pg_table *const tables[] = {&policy_set_table, NULL};

/* As place_open(), before anybody has pinned who approves policy sets. */
static void place_open_unpinned(struct place *place)
{
    struct error err = {0};

    memset(place, 0, sizeof *place);
    audit_log_init(&place->log);
    place->log.tables = tables;
    place->log.sequencer = audit_log_start(&place->log, "gw1");
    assert_true(ecdsa_key_new(&place->officer, &err).ok);
}

static void place_open(struct place *place)
{
    struct error err = {0};
    uint8_t public_key[ECDSA_PUBLIC_SIZE];

    place_open_unpinned(place);
    database_execute(place->log.database, PROJECT_SQL);
    ecdsa_key_public(place->officer, public_key);
    if (!keyd_pin_approver(keyd_process_client(place->log.keyd), public_key, &err).ok) fail_msg("%s", err.message);
}

static void place_close(struct place *place)
{
    decider_free(place->decider);
    ecdsa_key_free(place->officer);
    audit_log_close(&place->log);
}

static bool start(struct place *place, struct error *err)
{
    const struct decider_options options = {.conninfo = database_app(place->log.database),
                                            .keyd = keyd_process_client(place->log.keyd),
                                            .poll_ms = 60000, /* so that nothing is seen just because time passed */
                                            .stale_ms = 120000};

    return decider_start(&options, &place->decider, err).ok;
}

static void start_well(struct place *place)
{
    struct error err = {0};

    if (!start(place, &err)) fail_msg("%s", err.message);
}

static void restart_well(struct place *place)
{
    decider_free(place->decider);
    place->decider = NULL;
    start_well(place);
}

/* A set of this epoch, signed. */
static void sign(const struct place *place, uint64_t epoch, struct buffer *envelope)
{
    static int64_t in_force_ms; /* one moment, so that the same epoch is the same set */
    if (in_force_ms == 0) in_force_ms = clock_wall_ms() - 60000;
    const struct policy_default_options options = {
        .epoch = epoch, .region = "local/main", .now_ms = in_force_ms};
    struct buffer OWNED_BUFFER payload = BUFFER(POLICY_SET_BYTES_MAX);
    struct error err = {0};

    assert_true(policy_default_set(&options, &payload, &err).ok);
    assert_true(policy_set_sign(buffer_bytes(&payload), place->officer, envelope, &err).ok);
}

static bool install(struct place *place, uint64_t epoch, struct error *err)
{
    static const struct action_pair load = {.action = ACTION_POLICY_LOAD, .resource = {.kind = RESOURCE_SYSTEM}};
    struct buffer OWNED_BUFFER envelope = BUFFER(POLICY_SET_ENVELOPE_MAX);
    OWNED(permit) *permit = NULL;
    OWNED(pg) *pg = NULL;

    sign(place, epoch, &envelope);
    assert_true(permit_for_job(place->log.sequencer, &load, &permit, err).ok);
    assert_true(pg_open(database_app(place->log.database), tables, &pg, err).ok);
    return policy_set_install(pg, keyd_process_client(place->log.keyd), permit, buffer_bytes(&envelope), err).ok;
}

static void install_well(struct place *place, uint64_t epoch)
{
    struct error err = {0};

    if (!install(place, epoch, &err)) fail_msg("%s", err.message);
}

/* As a handler does: checked, then recorded together with its event. */
static enum record_status load(struct place *place, uint64_t epoch)
{
    struct buffer OWNED_BUFFER envelope = BUFFER(POLICY_SET_ENVELOPE_MAX);
    OWNED(ecdsa_key) *officer = NULL;
    OWNED(policy_set) *set = NULL;
    struct policy_set_change change;
    struct decision_parts parts = {.verdict = VERDICT_ALLOW, .id = "sha256:test", .pair_count = 1};
    struct record record = {.change = &change.change};
    uint8_t public_key[ECDSA_PUBLIC_SIZE];
    struct error err = {0};

    sign(place, epoch, &envelope);
    ecdsa_key_public(place->officer, public_key);
    assert_true(ecdsa_key_from_public(public_key, &officer, &err).ok);
    assert_true(policy_set_read(buffer_bytes(&envelope), officer, &set, &err).ok);
    policy_set_load_change(&change, buffer_bytes(&envelope), set, "robot$ci");
    parts.pairs[0].action = ACTION_POLICY_LOAD;
    assert_true(text_to_u64(bytes_of_text(database_ask(place->log.database, "SELECT epoch FROM authorization_epoch")),
                            UINT32_MAX, &parts.epoch));
    assert_true(decision_make(&parts, &record.decision, &err).ok);
    sequencer_submit_and_wait(place->log.sequencer, &record);
    const enum record_status status = record.status;
    record_done(&record);
    return status;
}

static uint64_t pinned(const struct place *place)
{
    struct keyd_identity identity;
    struct error err = {0};

    assert_true(keyd_identify(keyd_process_client(place->log.keyd), &identity, &err).ok);
    return identity.policy_epoch;
}

static struct decision *decide(struct place *place, enum action action, const char *name)
{
    struct principal principal = {.kind = PRINCIPAL_ROBOT};
    struct decision_request request = {.principal = &principal, .pair_count = 1, .now_ms = clock_wall_ms()};
    struct decision *decision = NULL;
    struct error err = {0};

    principal.id.bytes[15] = 0x0c;
    request.pairs[0].action = action;
    decider_resolve(place->decider, name, &request.pairs[0].resource);
    assert_true(decider_decide(place->decider, &request, &decision, &err).ok);
    return decision;
}

static void expect(struct place *place, enum verdict verdict, const char *rule)
{
    OWNED(decision) *decision = decide(place, ACTION_UPLOAD_BEGIN, "acme/models/a");

    assert_int_equal(decision_verdict(decision), verdict);
    if (rule != NULL) assert_string_equal(decision_denial(decision, 0)->rule, rule);
}

static void refresh(struct place *place)
{
    struct error err = {0};

    if (!decider_refresh(place->decider, &err).ok) fail_msg("%s", err.message);
}

static void the_first_set_is_installed_and_pinned(void **state)
{
    struct place place;
    struct buffer OWNED_BUFFER text = BUFFER(65536);
    struct error err = {0};

    (void)state;
    place_open(&place);
    start_well(&place);
    expect(&place, VERDICT_DENY, "SYS-NO-POLICY");
    assert_false(decider_describe_policies(place.decider, &text, &err).ok);
    install_well(&place, 1);
    install_well(&place, 1); /* the same set again is no error */
    refresh(&place);
    expect(&place, VERDICT_ALLOW, NULL);
    assert_int_equal(pinned(&place), 1);
    assert_int_equal(metric_value(&policy_metrics_rows[POLICY_METRIC_SET_EPOCH]), 1);
    assert_int_equal(metric_value(&policy_metrics_rows[POLICY_METRIC_ALLOWED]), 1);
    assert_true(decider_describe_policies(place.decider, &text, &err).ok);
    assert_non_null(strstr(buffer_text(&text), "\"epoch\":1,\"policies\":[{"));
    assert_string_equal(database_ask(place.log.database, "SELECT count(*) FROM policy_set"), "1");
    place_close(&place);
}

static void a_change_is_seen_at_once(void **state)
{
    struct place place;

    (void)state;
    place_open(&place);
    install_well(&place, 1);
    start_well(&place);
    expect(&place, VERDICT_ALLOW, NULL);
    database_execute(place.log.database, "UPDATE binding SET revoked_at = now(); SELECT raise_authorization_epoch()");
    const int64_t until_ms = clock_monotonic_ms() + 20000; /* far less than poll_ms */
    for (bool seen = false; !seen;) {
        OWNED(decision) *decision = decide(&place, ACTION_UPLOAD_BEGIN, "acme/models/a");
        seen = decision_verdict(decision) == VERDICT_HIDE;
        assert_true(clock_monotonic_ms() < until_ms);
        (void)usleep(5000);
    }
    place_close(&place);
}

static void a_load_is_recorded_then_pinned(void **state)
{
    struct place place;
    struct error err = {0};

    (void)state;
    place_open(&place);
    install_well(&place, 1);
    start_well(&place);
    assert_int_equal(load(&place, 5), RECORD_DONE);
    refresh(&place);
    assert_int_equal(pinned(&place), 5);
    assert_int_equal(load(&place, 5), RECORD_REFUSED);
    assert_int_equal(load(&place, 4), RECORD_REFUSED);
    assert_string_equal(database_ask(place.log.database, "SELECT count(*) FROM policy_set"), "2");
    assert_true(decider_await_newer(place.decider, 0, &err).ok);
    assert_true(decider_await_newer(place.decider, decider_epoch(place.decider), &err).ok);
    place_close(&place);
}

static void a_set_that_was_recorded_before_a_crash_is_pinned_at_the_next_start(void **state)
{
    struct place place;

    (void)state;
    place_open(&place);
    install_well(&place, 1);
    assert_int_equal(load(&place, 2), RECORD_DONE); /* no decider runs, so nobody pins it */
    assert_int_equal(pinned(&place), 1);
    start_well(&place);
    assert_int_equal(pinned(&place), 2);
    place_close(&place);
}

static void a_row_that_no_officer_signed_counts_for_nothing(void **state)
{
    struct place place;

    (void)state;
    place_open(&place);
    install_well(&place, 1);
    database_execute(place.log.database,
                     "INSERT INTO policy_set VALUES (9, decode(repeat('00', 32), 'hex'), '{}', 'mallory');"
                     "INSERT INTO policy_set SELECT 8, digest, envelope, 'mallory' FROM policy_set WHERE epoch = 1");
    start_well(&place);
    expect(&place, VERDICT_ALLOW, NULL);
    assert_int_equal(pinned(&place), 1);
    place_close(&place);
}

static void a_database_without_the_pinned_set_is_not_served(void **state)
{
    struct place place;
    struct error err = {0};

    (void)state;
    place_open(&place);
    install_well(&place, 1);
    install_well(&place, 2);
    database_execute(place.log.database, "DELETE FROM policy_set WHERE epoch = 2"); /* an old backup came back */
    assert_false(start(&place, &err));
    assert_int_equal(err.kind, ERROR_CORRUPT);
    assert_non_null(strstr(err.message, "policy epoch 2"));
    place_close(&place);
}

static void a_label_that_cannot_be_read_is_not_taken_for_none(void **state)
{
    struct place place;
    struct error err = {0};

    (void)state;
    place_open(&place);
    database_execute(place.log.database, "UPDATE project SET label = '{\"class\":\"top\"}'");
    assert_false(start(&place, &err));
    assert_int_equal(err.kind, ERROR_CORRUPT);
    assert_non_null(strstr(err.message, "acme/models"));
    place_close(&place);
}

static void without_keyd_it_gets_stale_and_denies(void **state)
{
    struct place place;
    struct error err = {0};

    (void)state;
    place_open(&place);
    install_well(&place, 1);
    const struct decider_options options = {.conninfo = database_app(place.log.database),
                                            .keyd = keyd_process_client(place.log.keyd),
                                            .poll_ms = 50,
                                            .stale_ms = 3000};
    assert_true(decider_start(&options, &place.decider, &err).ok);
    expect(&place, VERDICT_ALLOW, NULL);
    keyd_process_kill(place.log.keyd);
    const int64_t until_ms = clock_monotonic_ms() + 30000;
    while (decider_is_ready(place.decider, &err) && clock_monotonic_ms() < until_ms) (void)usleep(50000);
    assert_false(decider_is_ready(place.decider, &err));
    expect(&place, VERDICT_DENY, "SYS-STALE");
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
    place_open(&place);
    install_well(&place, 1);
    start_well(&place);
    database_disconnect_all(place.log.database);
    database_execute(place.log.database, "UPDATE binding SET revoked_at = now(); SELECT raise_authorization_epoch()");
    for (int i = 0; i < 100 && !decider_refresh(place.decider, &err).ok; i++) (void)usleep(20000);
    expect(&place, VERDICT_HIDE, "SYS-NO-BINDING");
    restart_well(&place);
    place_close(&place);
}

static struct result load_once(const struct policy_set_source *source, struct error *err)
{
    OWNED(snapshot) *snapshot = NULL;

    return snapshot_load(source, NULL, &snapshot, err);
}

/* Every allocation, every query and every call to keyd fails once. What fails inside of checking a signature looks like
 * a bad one, so the kind tells little; what counts is that no snapshot comes of it that was not loaded whole. */
static void loading_survives_every_failure(void **state)
{
    static const struct pg_table *const all[] = {&decider_table, &policy_set_table, &authz_snapshot_table, NULL};
    struct place place;
    struct policy_set_source source;
    struct error err = {0};
    unsigned long nth = 1;

    (void)state;
    place_open(&place);
    install_well(&place, 1);
    sequencer_free(GIVE(place.log.sequencer)); /* its threads would take the failures */
    source.keyd = keyd_process_client(place.log.keyd);
    assert_true(pg_open(database_app(place.log.database), all, &source.pg, &err).ok);
    for (;; nth++) {
        fault_arm(nth);
        const bool ok = load_once(&source, &err).ok;
        if (!fault_has_fired()) {
            assert_true(ok);
            break;
        }
        fault_arm(0);
        assert_true(ok || err.message[0] != '\0');
        if (pg_is_broken(source.pg)) assert_true(pg_reopen(source.pg, &err).ok);
    }
    fault_arm(0);
    assert_true(nth > 50);
    pg_free(source.pg);
    place_close(&place);
}

/* Nothing went wrong, and yet nothing was looked at for too long: that is said, and nothing is decided from it. */
static void a_late_loader_is_no_authority(void **state)
{
    struct place place;
    struct error err = {0};

    (void)state;
    place_open(&place);
    install_well(&place, 1);
    const struct decider_options options = {.conninfo = database_app(place.log.database),
                                            .keyd = keyd_process_client(place.log.keyd),
                                            .poll_ms = 60000,
                                            .stale_ms = 100};
    assert_true(decider_start(&options, &place.decider, &err).ok);
    (void)usleep(300000);
    assert_false(decider_is_ready(place.decider, &err));
    assert_non_null(strstr(err.message, "the loader is late"));
    expect(&place, VERDICT_DENY, "SYS-STALE");
    place_close(&place);
}

static struct result start_and_stop(void *options, struct error *err)
{
    OWNED(decider) *decider = NULL;

    TRY_UNTOUCHED(decider, decider_start(options, &decider, err));
    return SUCCESS;
}

static void starting_survives_every_failure(void **state)
{
    struct place place;

    (void)state;
    place_open(&place);
    sequencer_free(GIVE(place.log.sequencer)); /* its threads would take the failures */
    struct decider_options options = {.conninfo = database_app(place.log.database),
                                      .keyd = keyd_process_client(place.log.keyd),
                                      .metadata_region = "local/main",
                                      .poll_ms = 60000,
                                      .stale_ms = 120000};
    for (unsigned long nth = 1;; nth++) {
        struct error err = {0};

        fault_arm(nth);
        const bool ok = start_and_stop(&options, &err).ok, has_fired = fault_has_fired();
        fault_arm(0);
        if (!has_fired) {
            if (!ok) fail_msg("%s", err.message);
            assert_true(nth > 30);
            break;
        }
        if (!ok) assert_true(err.message[0] != '\0'); /* a connection to keyd that breaks is made once more */
    }
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
    assert_false(policy_set_check(keyd_process_client(place.log.keyd), buffer_bytes(&envelope), &set, &err).ok);
    assert_int_equal(err.kind, ERROR_DENIED);
    assert_null(set);
    database_execute(place.log.database, PROJECT_SQL);
    start_well(&place);
    expect(&place, VERDICT_DENY, "SYS-NO-POLICY");
    place_close(&place);
}

/* A refresh says why it failed, and does not wait longer than the gateway itself would believe its snapshot. */
static void a_refresh_says_what_is_wrong(void **state)
{
    struct place place;
    struct error err = {0};

    (void)state;
    place_open(&place);
    install_well(&place, 1);
    const struct decider_options options = {.conninfo = database_app(place.log.database),
                                            .keyd = keyd_process_client(place.log.keyd),
                                            .poll_ms = 60000,
                                            .stale_ms = 999};
    assert_true(decider_start(&options, &place.decider, &err).ok);
    keyd_process_pause(place.log.keyd, true); /* its client waits for two seconds */
    assert_false(decider_refresh(place.decider, &err).ok);
    assert_int_equal(err.kind, ERROR_UNAVAILABLE);
    assert_non_null(strstr(err.message, "in time"));
    keyd_process_pause(place.log.keyd, false);
    for (int i = 0; i < 100 && !decider_refresh(place.decider, &err).ok; i++) (void)usleep(50000);
    assert_true(decider_refresh(place.decider, &err).ok);
    keyd_process_kill(place.log.keyd);
    assert_false(decider_refresh(place.decider, &err).ok);
    assert_int_equal(err.kind, ERROR_UNAVAILABLE);
    keyd_process_restart(place.log.keyd);
    place_close(&place);
}

struct reading {
    struct place *place;
    _Atomic bool is_done;
    unsigned decided, allowed;
};

static void *read_on(void *argument)
{
    struct reading *reader = argument;

    while (!atomic_load(&reader->is_done)) {
        OWNED(decision) *decision = decide(reader->place, ACTION_UPLOAD_BEGIN, "acme/models/a");
        reader->decided++;
        reader->allowed += decision_verdict(decision) == VERDICT_ALLOW;
    }
    return NULL;
}

/* Snapshots and policy sets are replaced under four readers: each decision is from a whole one. */
static void readers_see_whole_snapshots_only(void **state)
{
    struct place place;
    struct reading readers[4];
    pthread_t threads[COUNT(readers)];

    (void)state;
    place_open(&place);
    install_well(&place, 1);
    start_well(&place);
    for (size_t i = 0; i < COUNT(readers); i++) {
        readers[i] = (struct reading){.place = &place};
        assert_int_equal(pthread_create(&threads[i], NULL, read_on, &readers[i]), 0);
    }
    for (uint64_t epoch = 2; epoch < 8; epoch++) {
        install_well(&place, epoch);
        refresh(&place);
        (void)usleep(20000);
    }
    for (size_t i = 0; i < COUNT(readers); i++) {
        atomic_store(&readers[i].is_done, true);
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_true(readers[i].decided > 0);
        assert_int_equal(readers[i].allowed, readers[i].decided);
    }
    place_close(&place);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_set_is_installed_and_pinned),
        cmocka_unit_test(a_change_is_seen_at_once),
        cmocka_unit_test(a_load_is_recorded_then_pinned),
        cmocka_unit_test(a_set_that_was_recorded_before_a_crash_is_pinned_at_the_next_start),
        cmocka_unit_test(a_row_that_no_officer_signed_counts_for_nothing),
        cmocka_unit_test(a_database_without_the_pinned_set_is_not_served),
        cmocka_unit_test(a_label_that_cannot_be_read_is_not_taken_for_none),
        cmocka_unit_test(without_keyd_it_gets_stale_and_denies),
        cmocka_unit_test(a_lost_connection_is_made_again),
        cmocka_unit_test(loading_survives_every_failure),
        cmocka_unit_test(a_late_loader_is_no_authority),
        cmocka_unit_test(starting_survives_every_failure),
        cmocka_unit_test(without_an_approver_no_set_counts),
        cmocka_unit_test(a_refresh_says_what_is_wrong),
        cmocka_unit_test(readers_see_whole_snapshots_only),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
