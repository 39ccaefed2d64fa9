/* The documents in force are those that the log names and sijil-keyd has pinned, whatever other rows the database has. */
#include "tests/integration/documents_fixture.h"

static void a_document_that_was_recorded_is_pinned_by_the_next_look(void **state)
{
    struct store store;
    struct seen seen;

    (void)state;
    store_open(&store);
    record_key(&store, 0, 1, true);
    assert_int_equal(pinned_event(&store), 0); /* the gateway dies here */
    forget(&store);
    look_well(&store);
    assert_true(is_in_force(&store, 0));
    assert_int_equal(find(&store, 0, &seen), ERROR_NONE);
    assert_int_equal(pinned_event(&store), seen.sequence);
    forget(&store);
    look_well(&store);
    assert_true(is_in_force(&store, 0));
    store_close(&store);
}

/* It dies between keyd's answer and the claim. */
static void a_pin_without_its_claim_is_claimed_by_the_next_look(void **state)
{
    struct store store;

    (void)state;
    store_open(&store);
    record_key(&store, 0, 1, true);
    look_well(&store);
    database_execute(store.log.database, "DELETE FROM document_pin");
    forget(&store);
    record_key(&store, 1, 1, true);
    look_well(&store);
    assert_true(is_in_force(&store, 0));
    assert_true(is_in_force(&store, 1));
    assert_string_equal(database_ask(store.log.database, "SELECT count(*) FROM document_pin"), "2");
    store_close(&store);
}

/* More events than are read at a time. */
static void many_documents_are_in_force_together(void **state)
{
    struct store store;

    (void)state;
    store_open(&store);
    for (unsigned i = 0; i < HOLDERS_MAX; i++) record_key(&store, i, 1, true);
    look_well(&store);
    forget(&store);
    look_well(&store);
    for (unsigned i = 0; i < HOLDERS_MAX; i++) assert_true(is_in_force(&store, i));
    store_close(&store);
}

static void a_withdrawal_ends_a_document_for_good(void **state)
{
    struct store store;
    struct seen seen;
    struct made_document made;

    (void)state;
    store_open(&store);
    make(&store, 0, 1, true, &made);
    assert_int_equal(record_made(&store, &made, false), ERROR_NONE);
    look_well(&store);
    record_key(&store, 0, 2, false);
    look_well(&store);
    assert_int_equal(find(&store, 0, &seen), ERROR_NONE);
    assert_int_equal(seen.version, 2);
    assert_false(seen.is_in_force);
    assert_int_equal(record_made(&store, &made, false), ERROR_NONE); /* a gateway that lies records the enrolment again */
    look_well(&store);
    assert_false(is_in_force(&store, 0));
    forget(&store);
    look_well(&store);
    assert_false(is_in_force(&store, 0));
    made_done(&made);
    store_close(&store);
}

static void two_gateways_pin_in_turn(void **state)
{
    struct store store;
    struct error err = {0};

    (void)state;
    store_open(&store);
    OWNED(document_view) *other = NULL;
    assert_true(document_view_new(&other, &err).ok);
    const struct document_source source = {store.pg, keyd_process_client(store.log.keyd), store.log.sequencer};
    for (unsigned i = 0; i < 6; i++) {
        record_key(&store, i, 1, true);
        if (i % 2 == 0) look_well(&store);
        else if (!document_view_refresh(other, &source, &err).ok) fail_msg("%s", err.message);
    }
    look_well(&store);
    for (unsigned i = 0; i < 6; i++) assert_true(is_in_force(&store, i));
    store_close(&store);
}

static void a_row_that_no_event_names_counts_for_nothing_and_is_counted(void **state)
{
    struct store store;

    (void)state;
    store_open(&store);
    record_key(&store, 0, 1, true);
    look_well(&store);
    assert_int_equal(document_view_unlogged(store.view), 0);
    database_execute(
        store.log.database,
        "INSERT INTO document (kind, scope, name, version, digest, envelopes, recorded_by)"
        " SELECT kind, scope, name, version + n, digest, envelopes, 'mallory' FROM document, generate_series(1, 3) n");
    look_well(&store);
    assert_int_equal(document_view_unlogged(store.view), 3);
    assert_true(is_in_force(&store, 0));
    store_close(&store);
}

/* ---- a database that is not what keyd has pinned ---- */

static const struct damage_row {
    const char *name, *sql;
} damage_rows[] = {
    {"a row is left out", "DELETE FROM document WHERE ctid = (SELECT min(ctid) FROM document)"},
    {"the newest row is left out", "DELETE FROM document WHERE ctid = (SELECT max(ctid) FROM document)"},
    {"a row is changed",
     "UPDATE document SET envelopes = ARRAY[envelopes[2], envelopes[1]] WHERE ctid = (SELECT min(ctid) FROM document)"},
    {"a claim is left out", "DELETE FROM document_pin WHERE sequence = (SELECT min(sequence) FROM document_pin)"},
    {"an event is hidden", "UPDATE audit_entry SET outcome = 'denied' WHERE seq = (SELECT min(sequence) FROM document_pin)"},
    {"all is gone", "DELETE FROM document; DELETE FROM document_pin"},
};

static void a_database_that_is_not_what_keyd_has_pinned_tells_nothing(void **state)
{
    const struct damage_row *row = *state;
    struct store store;
    struct error err = {0};
    struct seen seen;

    store_open(&store);
    record_key(&store, 0, 1, true);
    record_key(&store, 1, 1, true);
    record_key(&store, 2, 1, true);
    look_well(&store);
    database_execute(store.log.database, row->sql);
    forget(&store);
    assert_false(look(&store, &err).ok);
    assert_int_equal(err.kind, ERROR_CORRUPT);
    assert_non_null(strstr(err.message, "signing-key"));
    for (unsigned i = 0; i < 3; i++) assert_int_equal(find(&store, i, &seen), ERROR_CORRUPT);
    assert_false(document_view_is_sound(store.view, &err).ok);
    store_close(&store);
}

/* A false claim brings no document into the view that keyd has not pinned. */
static void a_false_claim_is_noticed(void **state)
{
    struct store store;
    struct error err = {0};

    (void)state;
    store_open(&store);
    record_key(&store, 0, 1, false);
    record_key(&store, 1, 1, true);
    look_well(&store);
    database_execute(store.log.database,
                     "INSERT INTO document_pin SELECT 2, e.seq, sha256(decode(repeat('00', 32), 'hex') || int8send(e.seq) ||"
                     " document_envelopes_digest(d.envelopes)) FROM document_events(2, 0, 1) e JOIN document d USING (detail)");
    forget(&store);
    assert_false(look(&store, &err).ok);
    assert_int_equal(err.kind, ERROR_CORRUPT);
    store_close(&store);
}

static void a_sound_look_after_a_restore_tells_again(void **state)
{
    struct store store;
    struct error err = {0};

    (void)state;
    store_open(&store);
    record_key(&store, 0, 1, true);
    look_well(&store);
    database_execute(store.log.database, "CREATE TABLE kept AS SELECT * FROM document_pin; DELETE FROM document_pin;"
                                         "UPDATE audit_entry SET outcome = 'denied' WHERE action = 'key.approve'");
    forget(&store);
    assert_false(look(&store, &err).ok);
    database_execute(store.log.database, "INSERT INTO document_pin SELECT * FROM kept;"
                                         "UPDATE audit_entry SET outcome = 'allowed' WHERE action = 'key.approve'");
    look_well(&store);
    assert_true(is_in_force(&store, 0));
    store_close(&store);
}

static void without_keyd_nothing_new_is_told(void **state)
{
    struct store store;
    struct error err = {0};

    (void)state;
    store_open(&store);
    record_key(&store, 0, 1, true);
    look_well(&store);
    record_key(&store, 1, 1, true);
    keyd_process_kill(store.log.keyd);
    assert_false(look(&store, &err).ok);
    assert_int_equal(err.kind, ERROR_UNAVAILABLE);
    assert_true(document_view_is_sound(store.view, &err).ok); /* other checks report an unreachable keyd */
    assert_true(is_in_force(&store, 0));
    assert_false(is_in_force(&store, 1));
    keyd_process_restart(store.log.keyd);
    look_well(&store);
    assert_true(is_in_force(&store, 1));
    store_close(&store);
}

/* ---- who may write what ---- */

static const struct forbidden_row {
    const char *name;
} forbidden_rows[] = {
    {"UPDATE document SET name = 'x'"},       {"DELETE FROM document"},     {"TRUNCATE document"},
    {"UPDATE document_pin SET sequence = 1"}, {"DELETE FROM document_pin"}, {"UPDATE document_draft SET drafted_by = 'x'"},
};

static void documents_are_appended_and_never_changed(void **state)
{
    const struct forbidden_row *row = *state;
    struct store store;
    char wrapped[256];

    store_open(&store);
    (void)snprintf(
        wrapped, sizeof wrapped,
        "DO $do$ BEGIN SET LOCAL ROLE sijil_app; %s; RAISE 'it was allowed'; EXCEPTION WHEN insufficient_privilege THEN NULL; END $do$",
        row->name);
    database_execute(store.log.database, wrapped);
    store_close(&store);
}

/* Without this a gateway finds no event of a kind: docs/documents.md, "A new kind". */
static void the_database_knows_the_actions_of_all_kinds(void **state)
{
    struct store store;

    (void)state;
    store_open(&store);
    for (enum document_kind kind = DOCUMENT_POLICY_SET + 1; kind < DOCUMENT_KIND_COUNT; kind++) {
        const struct document_kind_row *row = document_kind(kind);
        char question[256], number[16];
        (void)snprintf(number, sizeof number, "%u", row->number);
        (void)snprintf(question, sizeof question, "SELECT document_kind_of('%s')", row->action);
        assert_string_equal(database_ask(store.log.database, question), number);
        (void)snprintf(question, sizeof question, "SELECT document_kind_of('%s')", row->withdrawal);
        if (row->withdrawers > 0) assert_string_equal(database_ask(store.log.database, question), number);
    }
    store_close(&store);
}

/* ---- drafts ---- */

static void a_draft_waits_for_an_approval_and_goes_with_it(void **state)
{
    struct store store;
    struct made_document made;

    (void)state;
    store_open(&store);
    make(&store, 0, 1, true, &made);
    assert_int_equal(record_made(&store, &made, true), ERROR_NOT_FOUND); /* nobody has drafted it */
    assert_int_equal(draft_of(&store, &made, HOLDER), ERROR_NONE);
    assert_int_equal(draft_of(&store, &made, HOLDER), ERROR_CONFLICT);
    look_well(&store);
    assert_false(is_in_force(&store, 0));
    assert_int_equal(record_made(&store, &made, true), ERROR_NONE);
    look_well(&store);
    assert_true(is_in_force(&store, 0));
    assert_int_equal(record_made(&store, &made, true), ERROR_NOT_FOUND);
    made_done(&made);
    store_close(&store);
}

static void a_draft_expires_after_seven_days(void **state)
{
    struct store store;
    struct made_document made;

    (void)state;
    store_open(&store);
    make(&store, 0, 1, true, &made);
    assert_int_equal(draft_of(&store, &made, HOLDER), ERROR_NONE);
    assert_string_equal(database_ask(store.log.database, "SELECT expires_at - drafted_at FROM document_draft"), "7 days");
    database_execute(store.log.database, "UPDATE document_draft SET expires_at = now()");
    assert_int_equal(record_made(&store, &made, true), ERROR_NOT_FOUND);
    assert_int_equal(draft_of(&store, &made, HOLDER), ERROR_NONE); /* the old one was dropped */
    made_done(&made);
    store_close(&store);
}

static enum error_kind draft_key(struct store *store, unsigned holder, const char *by)
{
    struct made_document made;

    make(store, holder, 1, false, &made);
    const enum error_kind kind = draft_of(store, &made, by);
    made_done(&made);
    return kind;
}

static void drafts_are_bounded_by_principal_and_organisation(void **state)
{
    struct store store;

    (void)state;
    store_open(&store);
    for (unsigned i = 0; i < DOCUMENT_DRAFTS_EACH; i++) assert_int_equal(draft_key(&store, i, HOLDER), ERROR_NONE);
    assert_int_equal(draft_key(&store, DOCUMENT_DRAFTS_EACH, HOLDER), ERROR_LIMIT);
    assert_int_equal(draft_key(&store, DOCUMENT_DRAFTS_EACH, "ext:other"), ERROR_NONE);
    database_execute(
        store.log.database,
        "INSERT INTO document_draft (kind, scope, name, digest, envelopes, drafted_by, signed_by, expires_at)"
        " SELECT kind, scope, name, sha256(n::text::bytea), envelopes, 'ext:' || n, signed_by, now() + interval '1 day' FROM document_draft, generate_series(1, 55) n WHERE drafted_by = 'ext:other'");
    assert_int_equal(draft_key(&store, 10, "ext:more"), ERROR_LIMIT);
    store_close(&store);
}

/* ---- when memory is out ---- */

/* Every allocation, every query and every call to keyd fails once. No update reports a correct database as different. */
static void looking_survives_every_failure(void **state)
{
    struct store store;
    unsigned long nth = 1, failures = 0;

    (void)state;
    store_open(&store);
    record_key(&store, 0, 1, true);
    record_key(&store, 1, 1, true);
    record_key(&store, 0, 2, false);
    sequencer_free(GIVE(store.log.sequencer)); /* its threads would take the failures; and all is signed */
    for (bool has_fired = true; has_fired; nth++) {
        struct error err = {0};
        forget(&store);
        fault_arm(nth);
        const bool ok = look(&store, &err).ok;
        has_fired = fault_has_fired();
        fault_arm(0);
        if (!ok && (!has_fired || err.kind == ERROR_CORRUPT)) fail_msg("failure %lu: %s", nth, err.message);
        failures += !ok;
        if (pg_is_broken(store.pg)) assert_true(pg_reopen(store.pg, &err).ok);
    }
    assert_failures(failures, 100);
    assert_false(is_in_force(&store, 0));
    assert_true(is_in_force(&store, 1));
    store_close(&store);
}

int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(a_document_that_was_recorded_is_pinned_by_the_next_look),
        cmocka_unit_test(a_pin_without_its_claim_is_claimed_by_the_next_look),
        cmocka_unit_test(many_documents_are_in_force_together),
        cmocka_unit_test(a_withdrawal_ends_a_document_for_good),
        cmocka_unit_test(two_gateways_pin_in_turn),
        cmocka_unit_test(a_row_that_no_event_names_counts_for_nothing_and_is_counted),
        cmocka_unit_test(a_false_claim_is_noticed),
        cmocka_unit_test(a_sound_look_after_a_restore_tells_again),
        cmocka_unit_test(without_keyd_nothing_new_is_told),
        cmocka_unit_test(the_database_knows_the_actions_of_all_kinds),
        cmocka_unit_test(a_draft_waits_for_an_approval_and_goes_with_it),
        cmocka_unit_test(a_draft_expires_after_seven_days),
        cmocka_unit_test(drafts_are_bounded_by_principal_and_organisation),
        cmocka_unit_test(looking_survives_every_failure),
    };

    return RUN_TABLE(damage_rows, a_database_that_is_not_what_keyd_has_pinned_tells_nothing) +
           RUN_TABLE(forbidden_rows, documents_are_appended_and_never_changed) +
           cmocka_run_group_tests_name("others", others, NULL, NULL);
}
