/* Documents that sijil-keyd refuses: gateways pass over them, and they never come into force. And officers whose documents the database has lost. */
#include "tests/integration/documents_fixture.h"

#include "authz/officer_entry.h"
#include "authz/restriction_entry.h"
#include "authz/snapshot_load.h"
#include "authz/trust_rules.h"
#include "documents/format/officers.h"

#include <unistd.h>

/* A client must hear that its document is not in force. */
static void check_told(struct store *store, unsigned holder, const char *says)
{
    char name[ECDSA_THUMBPRINT_SIZE], question[200];
    struct error err = {0};
    uint64_t sequence = 0;

    holder_name(store, holder, name);
    (void)snprintf(question, sizeof question,
                   "SELECT e.seq FROM document_events(2, 0, 100) e JOIN document d USING (detail) WHERE d.name = '%s'", name);
    assert_true(text_to_u64(bytes_of_text(database_ask(store->log.database, question)), UINT32_MAX, &sequence));
    const bool ok = document_view_check_event(store->view, DOCUMENT_SIGNING_KEY, sequence, &err).ok;
    if (ok != (says == NULL)) fail_msg("%u: %s", holder, err.message);
    if (ok) return;
    assert_int_equal(err.kind, ERROR_CONFLICT);
    if (strstr(err.message, says) == NULL) fail_msg("%s", err.message);
}

static void what_keyd_refuses_is_passed_over(void **state)
{
    struct store store;

    (void)state;
    store_open(&store);
    record_key(&store, 0, 1, false); /* a gateway that lies: nobody has approved it */
    record_key(&store, 1, 1, true);
    for (unsigned i = 0; i < 2; i++) {
        look_well(&store);
        assert_false(is_in_force(&store, 0));
        assert_true(is_in_force(&store, 1));
        check_told(&store, 0, i == 0 ? "2 signatures that count are needed" : "another gateway knows the reason");
        check_told(&store, 1, NULL);
        forget(&store);
    }
    store_close(&store);
}

/* A gateway that started again asked for every event after the pin, and keyd did not know that it had refused one of them. */
static void what_keyd_refused_does_not_come_into_force_by_itself(void **state)
{
    struct store store;
    struct seen seen;
    enum { EARLY_MS = 60000, WAIT_MS = 1500 }; /* keyd refuses documents that begin more than EARLY_MS after now */

    (void)state;
    store_open(&store);
    store.begins_in_ms = EARLY_MS + WAIT_MS;
    record_key(&store, 0, 1, true);
    look_well(&store);
    assert_int_equal(find(&store, 0, &seen), ERROR_NOT_FOUND);
    (void)usleep(1000 * (WAIT_MS + 500));
    keyd_process_kill(store.log.keyd);
    keyd_process_restart(store.log.keyd);
    forget(&store); /* the gateway starts again, too */
    look_well(&store);
    assert_int_equal(find(&store, 0, &seen), ERROR_NOT_FOUND);
    store.begins_in_ms = -1000;
    record_key(&store, 1, 1, true);
    record_key(&store, 0, 1, true); /* signed and recorded anew */
    look_well(&store);
    assert_true(is_in_force(&store, 0));
    assert_true(is_in_force(&store, 1));
    store_close(&store);
}

/* A document that one key has signed, and its event. */
static void record_signed(struct store *store, const struct document_parts *parts, const struct ecdsa_key *key,
                          enum action action)
{
    struct buffer OWNED_BUFFER payload = BUFFER(8 * 1024);
    struct made_document made = {.envelopes = {BUFFER(16 * 1024), BUFFER(16 * 1024)}, .count = 1};
    struct error err = {0};

    if (!document_compose(parts, &payload, &err).ok) fail_msg("%s", err.message);
    assert_true(document_sign(parts->kind, buffer_bytes(&payload), key, &made.envelopes[0], &err).ok);
    made.views[0] = buffer_bytes(&made.envelopes[0]);
    if (!document_read(made.views, 1, &made.document, &err).ok) fail_msg("%s", err.message);
    const struct document_row row = {action, made.document, made.views, 1, "robot$ci"};
    struct document_change change;
    document_change_init(&change, &row, false);
    assert_int_equal(submit(store, action, &change.change), ERROR_NONE);
    made_done(&made);
}

/* `on` "": an administrator of the registry; else a security officer of the organisation. */
static void record_officer(struct store *store, unsigned holder, const char *on)
{
    const bool is_registry = on[0] == '\0';
    char key[ECDSA_THUMBPRINT_SIZE];

    holder_name(store, holder, key);
    const struct officer officer = {store->principal, key, is_registry ? OFFICERS_ADMINISTRATORS : RESTRICTION_ROLE, on, 0};
    OWNED_JSON body = officer_body(&officer);
    const struct document_parts parts = {.kind = DOCUMENT_OFFICERS,
                                         .scope = "",
                                         .name = is_registry ? OFFICERS_ADMINISTRATORS ".a" : RESTRICTION_ROLE ".a",
                                         .version = 1,
                                         .effective_ms = clock_wall_ms() - 1000,
                                         .expires_ms = clock_wall_ms() + DAY_MS,
                                         .body = body};
    record_signed(store, &parts, store->root, ACTION_OFFICERS_APPROVE);
}

static void record_restriction(struct store *store, unsigned holder)
{
    OWNED_JSON body = json_loads("{\"policy\":{\"closed\":false,\"metadata\":{\"id\":\"acme.closed\",\"version\":1,\"scope\":"
                                 "[\"acme/closed/**\"],\"organisation\":\"acme\"},\"rules\":[{\"id\":\"A\",\"effect\":\"deny\","
                                 "\"ops\":[\"ingest\"]}]}}",
                                 0, NULL);
    const struct document_parts parts = {.kind = DOCUMENT_RESTRICTION,
                                         .scope = "acme",
                                         .name = "acme.closed",
                                         .version = 1,
                                         .effective_ms = clock_wall_ms() - 1000,
                                         .body = body};
    record_signed(store, &parts, store->holders[holder], ACTION_RESTRICTION_APPROVE);
}

/* What a gateway makes of the documents that has just been started. */
static struct trust_rules *rules_of_start(struct store *store)
{
    const struct document_source source = {store->pg, keyd_process_client(store->log.keyd), store->log.sequencer};
    struct trust_rules *rules = NULL;
    struct error err = {0};

    forget(store);
    if (!trust_rules_load(store->view, &source, NULL, &rules, &err).ok) fail_msg("%s", err.message);
    return rules;
}

/* Else whoever deletes the rows of the documents, and has a gateway start, makes officers of all rows. */
static void officers_are_demanded_where_the_database_has_lost_their_documents(void **state)
{
    struct store store;

    (void)state;
    store_open(&store);
    record_key(&store, 0, 1, true);
    look_well(&store);
    OWNED(trust_rules) *none = rules_of_start(&store);
    assert_false(officers_are_demanded(none));
    record_officer(&store, 0, "");
    OWNED(trust_rules) *all = rules_of_start(&store);
    assert_true(officers_are_demanded(all));
    assert_int_equal(officers_in_force(all, clock_wall_ms()), 1);
    database_execute(store.log.database, "DELETE FROM document; DELETE FROM document_pin");
    OWNED(trust_rules) *lost = rules_of_start(&store);
    assert_true(officers_are_demanded(lost));
    assert_int_equal(officers_in_force(lost, clock_wall_ms()), 0);
    store_close(&store);
}

/* Else whoever deletes its row, and has a gateway start, ends a restriction. */
static void a_gateway_without_the_row_of_a_restriction_has_no_rights(void **state)
{
    struct store store;
    struct trust_rules *rules = NULL;
    struct error err = {0};

    (void)state;
    store_open(&store);
    record_key(&store, 0, 1, true);
    look_well(&store);
    record_officer(&store, 0, "acme");
    store.scope = "acme";
    record_restriction(&store, 0);
    OWNED(trust_rules) *all = rules_of_start(&store);
    assert_int_equal(restriction_entries_count(all), 1);
    database_execute(store.log.database, "DELETE FROM document WHERE kind = 15");
    forget(&store);
    const struct document_source source = {store.pg, keyd_process_client(store.log.keyd), store.log.sequencer};
    assert_false(trust_rules_load(store.view, &source, NULL, &rules, &err).ok);
    assert_int_equal(err.kind, ERROR_CORRUPT);
    assert_non_null(strstr(err.message, "the restrictions of organisations differ"));
    store_close(&store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_keyd_refuses_is_passed_over),
        cmocka_unit_test(what_keyd_refused_does_not_come_into_force_by_itself),
        cmocka_unit_test(officers_are_demanded_where_the_database_has_lost_their_documents),
        cmocka_unit_test(a_gateway_without_the_row_of_a_restriction_has_no_rights),
    };

    return cmocka_run_group_tests_name("refused documents", tests, NULL, NULL);
}
