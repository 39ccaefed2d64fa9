/* Documents that sijil-keyd refuses: gateways pass over them, and they never come into force. */
#include "tests/integration/documents_fixture.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_keyd_refuses_is_passed_over),
        cmocka_unit_test(what_keyd_refused_does_not_come_into_force_by_itself),
    };

    return cmocka_run_group_tests_name("refused documents", tests, NULL, NULL);
}
