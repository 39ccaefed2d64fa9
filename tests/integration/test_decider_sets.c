/* The policy set in force is the one that the log names and sijil-keyd has pinned, whatever other rows the database has. */
#include "tests/integration/decider_fixture.h"

#include "audit/job_permit.h"
#include "documents/format/set_approval.h"
#include "policy/decider/metrics.h"
#include "policy/decider/set_then.h"

static void a_set_that_was_recorded_before_a_crash_is_pinned_at_the_next_start(void **state)
{
    struct place place;

    (void)state;
    place_open_ruled(&place);
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
    place_open_ruled(&place);
    database_execute(place.log.database, INSERT_SET
                     "n, decode(repeat('00', 32), 'hex'), ARRAY['{}'::bytea], 'mallory' FROM generate_series(9, 40) n;" INSERT_SET
                     "8, digest, envelopes, 'mallory' FROM document WHERE version = 1");
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
    place_open_ruled(&place);
    install_well(&place, 2);
    database_execute(place.log.database, "DELETE FROM document WHERE version = 2"); /* an old backup came back */
    assert_false(start(&place, &err));
    assert_int_equal(err.kind, ERROR_CORRUPT);
    assert_non_null(strstr(err.message, "policy epoch 2"));
    place_close(&place);
}

/* Nobody knows what a set that came between has labelled. */
static void a_set_is_not_recorded_over_one_that_is_not_in_force(void **state)
{
    struct place place;
    struct buffer OWNED_BUFFER envelope = BUFFER(POLICY_SET_ENVELOPE_MAX);

    (void)state;
    place_open_ruled(&place);
    OWNED(policy_set) *first = set_in_force(&place);
    assert_int_equal(load(&place, 2), RECORD_DONE);
    sign(&place, 3, &envelope);
    assert_int_equal(load_over(&place, buffer_bytes(&envelope), first), RECORD_REFUSED);
    place_close(&place);
}

static char noticed[256];

static void notice(const char *what, const struct error *why)
{
    (void)what;
    (void)snprintf(noticed, sizeof noticed, "%s", why->message);
}

/* As an attacker who can write rows and has a set of the approver, of another installation or never loaded. */
static void plant(struct place *place, uint64_t epoch, struct buffer *envelope)
{
    OWNED(policy_set) *set = NULL;
    static char sql[POLICY_SET_ENVELOPE_MAX], hex[POLICY_SET_ENVELOPE_MAX / 2];
    struct error err = {0};

    sign(place, epoch, envelope);
    assert_true(policy_set_read(buffer_bytes(envelope), place->officer, &set, &err).ok);
    text_hex(envelope->data, envelope->length, hex);
    (void)snprintf(sql, sizeof sql,
                   INSERT_SET "%llu, decode('%s', 'hex'), ARRAY[decode('%s', 'hex')], 'mallory';"
                              "SELECT raise_authorization_epoch()",
                   (unsigned long long)epoch, policy_set_digest(set) + 7, hex);
    database_execute(place->log.database, sql);
}

static void start_noticing(struct place *place)
{
    struct decider_options options = options_of(place, 60000, 120000);
    struct error err = {0};

    options.notice = notice;
    noticed[0] = '\0';
    if (!decider_start(&options, &place->decider, &err).ok) fail_msg("%s", err.message);
}

/* It was pinned by the next look at the database, because the approver had signed it. */
static void a_set_that_nobody_loaded_never_comes_into_force(void **state)
{
    struct place place;
    struct buffer OWNED_BUFFER envelope = BUFFER(POLICY_SET_ENVELOPE_MAX);

    (void)state;
    place_open_ruled(&place);
    start_noticing(&place);
    plant(&place, 9, &envelope);
    refresh(&place);
    assert_int_equal(pinned(&place), 1);
    assert_non_null(strstr(noticed, "up to epoch 9"));
    decider_free(GIVE(place.decider));
    keyd_process_kill(place.log.keyd);
    keyd_process_restart(place.log.keyd);
    start_noticing(&place);
    expect(&place, VERDICT_ALLOW, NULL);
    assert_int_equal(pinned(&place), 1);
    assert_non_null(strstr(noticed, "up to epoch 9"));
    assert_int_equal(metric_value(&policy_metrics_rows[POLICY_METRIC_UNRECORDED_SETS]), 1);

    assert_int_equal(load(&place, 2), RECORD_DONE); /* it disturbs no other set */
    refresh(&place);
    assert_int_equal(pinned(&place), 2);
    assert_int_equal(load_signed(&place, buffer_bytes(&envelope)), RECORD_DONE); /* and may be loaded */
    refresh(&place);
    assert_int_equal(pinned(&place), 9);
    assert_int_equal(metric_value(&policy_metrics_rows[POLICY_METRIC_UNRECORDED_SETS]), 0);
    place_close(&place);
}

/* A false row of the log does not convince keyd, because the entry's hash is not the signed one. */
static void a_false_entry_does_not_bring_a_set_into_force(void **state)
{
    struct place place;
    struct buffer OWNED_BUFFER envelope = BUFFER(POLICY_SET_ENVELOPE_MAX);

    (void)state;
    place_open_ruled(&place);
    plant(&place, 9, &envelope);
    sequencer_free(GIVE(place.log.sequencer)); /* all is signed */
    database_execute(
        place.log.database,
        "UPDATE audit_entry e SET leaf = convert_to(replace(convert_from(leaf, 'UTF8'), old.detail, new.detail),"
        " 'UTF8') FROM document old, document new WHERE old.version = 1 AND new.version = 9 AND e.action = 'policy.load'");
    start_noticing(&place);
    expect(&place, VERDICT_ALLOW, NULL);
    assert_int_equal(pinned(&place), 1);
    assert_non_null(strstr(noticed, "up to epoch 9"));
    place_close(&place);
}

/*
 * The rows that an attacker with the application's role can add: rows of later epochs, of the epoch that comes next, of the
 * pinned set's epoch and digest, of its envelope under other epochs, large ones; and entries after the end of the log that name
 * them all.
 */
#define JUNK_SQL                                                                                                             \
    INSERT_SET                                                                                                               \
    "n, sha256(n::text::bytea), ARRAY[n::text::bytea], 'mallory' FROM generate_series(3, 30000) n;" INSERT_SET               \
    "9223372036854775807 - n, digest, envelopes, 'mallory' FROM generate_series(0, 9999) n, document"                        \
    " WHERE version = 1;" INSERT_SET                                                                                         \
    "2, sha256(n::text::bytea), ARRAY[n::text::bytea], 'mallory' FROM generate_series(1, 10000) n;" INSERT_SET               \
    "1, digest, ARRAY[n::text::bytea], 'mallory' FROM generate_series(1, 20000) n,"                                          \
    " (SELECT digest FROM document WHERE version = 1 AND recorded_by <> 'mallory') pinned;" INSERT_SET                       \
    "40000 + n, sha256(''), ARRAY[repeat(md5(n::text), 65536)::bytea], 'mallory' FROM generate_series(1, 16) n;"             \
    "INSERT INTO audit_entry SELECT 1000000 + row_number() OVER (), 0, convert_to('\"res\":\"#' || detail || '\"', 'UTF8')," \
    " sha256(''), 'policy.load', 'allowed' FROM document"

static void rows_that_no_event_names_stand_in_nobodys_way(void **state)
{
    struct place place;

    (void)state;
    place_open_ruled(&place);
    database_execute(place.log.database, JUNK_SQL);
    const int64_t before_ms = clock_monotonic_ms();
    start_noticing(&place);
    assert_non_null(strstr(noticed, "1000 or more"));
    expect(&place, VERDICT_ALLOW, NULL);
    for (unsigned i = 0; i < 20; i++) refresh(&place);
    assert_int_equal(load(&place, 2), RECORD_DONE); /* though others stand under this epoch, and under later ones */
    refresh(&place);
    assert_int_equal(pinned(&place), 2);
    restart_well(&place);
    expect(&place, VERDICT_ALLOW, NULL);
    assert_in_range(clock_monotonic_ms() - before_ms, 0, 20000); /* 25 looks, of which most take some 10 ms */
    place_close(&place);
}

static struct result do_nothing(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    (void)change;
    (void)pg;
    (void)permit;
    (void)err;
    return SUCCESS;
}

/* A true event of the log, by a gateway that lies: it names the row of an epoch that no officer has signed. */
static void append_false_load(struct place *place, unsigned epoch)
{
    char sql[256], detail[POLICY_LOAD_DETAIL_SIZE];

    (void)snprintf(sql, sizeof sql, INSERT_SET "%u, sha256('x'), ARRAY['x'::bytea], 'mallory'", epoch);
    database_execute(place->log.database, sql);
    (void)snprintf(sql, sizeof sql, "SELECT detail FROM document WHERE version = %u", epoch);
    (void)snprintf(detail, sizeof detail, "%s", database_ask(place->log.database, sql));
    struct change change = {.run = do_nothing, .detail = detail};
    struct decision_parts parts = {.verdict = VERDICT_ALLOW, .id = "sha256:test", .pair_count = 1};
    struct record record = {.change = &change};
    struct error err = {0};
    parts.pairs[0].action = ACTION_POLICY_LOAD;
    assert_true(text_to_u64(bytes_of_text(database_ask(place->log.database, "SELECT epoch FROM authorization_epoch")), UINT32_MAX,
                            &parts.epoch));
    assert_true(decision_make(&parts, &record.decision, &err).ok);
    sequencer_submit_and_wait(place->log.sequencer, &record);
    assert_int_equal(record.status, RECORD_DONE);
    record_done(&record);
}

/* More than one page of false events, before a true one and after it. */
static void false_events_are_judged_once_and_passed_over(void **state)
{
    struct place place;

    (void)state;
    place_open_ruled(&place);
    start_noticing(&place);
    for (unsigned epoch = 100; epoch < 120; epoch++) append_false_load(&place, epoch);
    refresh(&place);
    assert_int_equal(pinned(&place), 1);
    assert_non_null(strstr(noticed, "up to epoch 119"));
    assert_int_equal(load(&place, 2), RECORD_DONE);
    for (unsigned epoch = 120; epoch < 140; epoch++) append_false_load(&place, epoch);
    refresh(&place);
    assert_int_equal(pinned(&place), 2);
    assert_int_equal(load(&place, 3), RECORD_DONE);
    restart_well(&place);
    assert_int_equal(pinned(&place), 3);
    expect(&place, VERDICT_ALLOW, NULL);
    place_close(&place);
}

/* ---- which set was in force then ---- */

static uint64_t epoch_at(struct place *place, int64_t wall_ms)
{
    const struct action_pair pair = {.action = ACTION_AUTHZ_EXPLAIN, .resource.kind = RESOURCE_SYSTEM};
    const struct policy_past past = {ACTION_AUTHZ_EXPLAIN, NULL, keyd_process_client(place->log.keyd), wall_ms};
    OWNED(policy_set) *set = NULL;
    OWNED(permit) *permit = NULL;
    OWNED(pg) *pg = NULL;
    struct error err = {0};

    must(permit_for_job(place->log.sequencer, &pair, &permit, &err), &err);
    must(pg_open(database_app(place->log.database), tables, &pg, &err), &err);
    struct policy_past with_rows = past;
    with_rows.pg = pg;
    must(policy_set_then(permit, &with_rows, &set, &err), &err);
    return set == NULL ? 0 : policy_set_epoch(set);
}

/* The officer has signed it, and it replaces a set that was never in force: the log names it, and sijil-keyd refuses it. */
static void load_refused(struct place *place, uint64_t epoch)
{
    const struct set_approval approval = {.base = {epoch - 1, {7}}, .expires_ms = clock_wall_ms() + 3600000, .is_there = true};
    struct buffer OWNED_BUFFER payload = BUFFER(POLICY_SET_BYTES_MAX), envelope = BUFFER(POLICY_SET_ENVELOPE_MAX);
    OWNED_JSON member = set_approval_json(&approval);
    const struct policy_set_parts parts = {.epoch = epoch, .approval = member};
    struct error err = {0};

    must(policy_set_compose(&parts, &payload, &err), &err);
    must(policy_set_sign(buffer_bytes(&payload), place->officer, &envelope, &err), &err);
    assert_int_equal(load_signed(place, buffer_bytes(&envelope)), RECORD_DONE);
    refresh(place);
}

/* The one of the highest epoch that the log named was taken, whatever sijil-keyd had said of it. */
static void a_set_that_was_refused_was_never_in_force(void **state)
{
    const int64_t started_ms = clock_wall_ms() - 1000;
    struct place place;

    (void)state;
    place_open_ruled(&place);
    start_well(&place);
    load_refused(&place, 7);
    assert_int_equal(pinned(&place), 1);
    assert_int_equal(epoch_at(&place, clock_wall_ms() + 1000), 1);
    assert_int_equal(load(&place, 8), RECORD_DONE);
    refresh(&place);
    assert_int_equal(pinned(&place), 8);
    assert_int_equal(epoch_at(&place, clock_wall_ms() + 1000), 8);
    assert_int_equal(epoch_at(&place, started_ms - 3600000), 0);
    place_close(&place);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_set_that_was_recorded_before_a_crash_is_pinned_at_the_next_start),
        cmocka_unit_test(a_row_that_no_officer_signed_counts_for_nothing),
        cmocka_unit_test(a_database_without_the_pinned_set_is_not_served),
        cmocka_unit_test(a_set_is_not_recorded_over_one_that_is_not_in_force),
        cmocka_unit_test(a_set_that_nobody_loaded_never_comes_into_force),
        cmocka_unit_test(a_false_entry_does_not_bring_a_set_into_force),
        cmocka_unit_test(rows_that_no_event_names_stand_in_nobodys_way),
        cmocka_unit_test(false_events_are_judged_once_and_passed_over),
        cmocka_unit_test(a_set_that_was_refused_was_never_in_force),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
