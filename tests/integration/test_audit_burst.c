/* Requests that have no event of their own: the log has the exact actor, target, network and count. */
#include "tests/integration/audit_query_fixture.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "audit/event_priv.h"
#include "audit/query.h"
#include "audit/sequencer_priv.h"
#include "tests/support/audit_log.h"

struct asked {
    const char *organisation, *issuer, *subject, *address, *target;
    enum action action;
    unsigned times;
};

static void refuse(struct audit_log *log, const struct asked *asked)
{
    const struct refusal refusal = {asked->organisation, asked->action, asked->target};

    for (unsigned i = 0; i < asked->times; i++) {
        struct record record = {
            .refusal = &refusal,
            .context = {.issuer = asked->issuer, .subject = asked->subject, .client_address = asked->address, .request_id = "r"}};
        sequencer_submit_and_wait(log->sequencer, &record);
        assert_int_equal(record.status, RECORD_DONE);
        assert_true(record.is_in_burst);
        assert_null(record.permit);
        record_done(&record);
    }
}

/* The rows of the newest event with rows that this auditor may see. */
static json_t *rows_for(const struct audit_log *log, enum resource_kind kind, const char *name, size_t events)
{
    const struct audit_filter filter = {.until = INT64_MAX, .limit = 100};
    struct buffer OWNED_BUFFER text = BUFFER(1 << 16);
    OWNED(permit) *permit = auditor(kind, name);
    OWNED(audit_page) *page = NULL;
    OWNED(pg) *pg = NULL;
    struct error err = {0};

    assert_true(pg_open(database_app(log->database), reader_tables, &pg, &err).ok);
    assert_true(audit_list(permit, pg, &filter, &page, &err).ok);
    assert_int_equal(audit_page_count(page), events);
    assert_true(audit_page_payload(page, 0, keyd_process_client(log->keyd), TEST_ORIGIN, &text, &err).ok);
    json_t *payload = json_loadb((const char *)text.data, text.length, 0, NULL);
    assert_non_null(payload);
    return payload;
}

static json_int_t count_in(const json_t *payload, const char *action, const char *network, const char *target)
{
    size_t index;
    json_t *row;

    json_array_foreach (json_object_get(payload, "rows"), index, row) {
        const json_t *its = json_object_get(row, "target");
        if (strcmp(json_string_value(json_object_get(row, "action")), action) == 0 &&
            strcmp(json_string_value(json_object_get(row, "network")), network) == 0 && its != NULL &&
            strcmp(json_string_value(its), target) == 0)
            return json_integer_value(json_object_get(row, "count"));
    }
    return 0;
}

static void what_is_over_a_budget_is_counted_for_its_organisation(void **state)
{
    static const struct asked asked[] = {
        {"acme", "", "robot$acme+ci", "192.0.2.7", "", ACTION_PING, 30},
        {"acme", "", "robot$acme+cd", "2001:db8::7", "beta/models/a", ACTION_MANIFEST_READ, 20},
        {"beta", "", "robot$beta+ci", "192.0.2.7", "", ACTION_PING, 3},
        {"", "https://issuer.example", "alice", "192.0.2.7", "", ACTION_TOKEN_MINT, 2},
    };
    struct audit_log log;

    (void)state;
    audit_log_open(&log);
    for (size_t i = 0; i < COUNT(asked); i++) refuse(&log, &asked[i]);
    /* Each organisation has a durable entry with an upper bound from its first refusal on. */
    assert_string_equal(database_ask(log.database, "SELECT string_agg(convert_from(leaf, 'UTF8')::json #>> '{why,bound}', ' ')"
                                                   " FROM audit_entry WHERE action = 'denied.burst'"),
                        "65536 65536 65536");
    sequencer_free(log.sequencer);
    log.sequencer = NULL;
    assert_int_equal(audit_log_check(&log), 6);
    json_t *acme = rows_for(&log, RESOURCE_ORGANISATION, "acme", 2), *beta = rows_for(&log, RESOURCE_ORGANISATION, "beta", 2);
    assert_int_equal(count_in(acme, "registry.ping", "192.0.2.0/24", "-"), 30);
    assert_int_equal(count_in(acme, "manifest.read", "2001:db8::/56", "beta/models/a"), 20);
    assert_int_equal(json_array_size(json_object_get(acme, "rows")), 2);
    assert_int_equal(json_integer_value(json_object_get(acme, "rest")), 0);
    assert_int_equal(count_in(beta, "registry.ping", "192.0.2.0/24", "-"), 3);
    json_decref(acme);
    json_decref(beta);
    audit_log_close(&log);
}

#define STRANGERS 500 /* more than are recorded one by one */

static void a_flood_of_strangers_names_target_and_network(void **state)
{
    struct audit_log log;
    unsigned folded = 0;

    (void)state;
    audit_log_open(&log);
    for (unsigned i = 0; i < STRANGERS; i++) {
        struct record record = test_record(VERDICT_CHALLENGE);
        sequencer_submit_and_wait(log.sequencer, &record);
        assert_int_equal(record.status, RECORD_DONE);
        folded += record.is_in_burst;
        record_done(&record);
    }
    assert_true(folded > 0);
    sequencer_free(log.sequencer);
    log.sequencer = NULL;
    const uint64_t events = audit_log_check(&log);
    json_t *payload = rows_for(&log, RESOURCE_SYSTEM, "", events);
    assert_int_equal(count_in(payload, "blob.read", "192.0.2.0/24", "acme/models/digits"), folded);
    assert_int_equal(json_array_size(json_object_get(payload, "rows")), 1);
    json_decref(payload);
    audit_log_close(&log);
}

#define ORGANISATIONS 40 /* more than have a burst of their own at a time */

static void more_organisations_than_places_lose_no_count(void **state)
{
    struct audit_log log;
    char name[16], subject[32];

    (void)state;
    audit_log_open(&log);
    for (unsigned i = 0; i < ORGANISATIONS; i++) {
        (void)snprintf(name, sizeof name, "org%u", i);
        (void)snprintf(subject, sizeof subject, "robot$org%u+ci", i);
        const struct asked asked = {name, "", subject, "192.0.2.7", "", ACTION_PING, 2};
        refuse(&log, &asked);
    }
    sequencer_free(log.sequencer);
    log.sequencer = NULL;
    assert_int_equal(audit_log_check(&log), 2 * 33);
    assert_string_equal(database_ask(log.database,
                                     "SELECT sum((convert_from(leaf, 'UTF8')::json #>> '{why,count}')::int) || ' ' ||"
                                     " count(*) FILTER (WHERE convert_from(leaf, 'UTF8')::json ->> 'res' = '')"
                                     " FROM audit_entry WHERE action = 'denied.burst' AND outcome = 'completed'"),
                        "80 1");
    audit_log_close(&log);
}

/* The sums over all events of bursts: the count of this target, and of all requests. */
static void sum_rows(const struct audit_log *log, const char *action, const char *target, json_int_t sums_out[2])
{
    const struct audit_filter filter = {.until = INT64_MAX, .limit = 100};
    OWNED(permit) *permit = auditor(RESOURCE_SYSTEM, "");
    OWNED(audit_page) *page = NULL;
    OWNED(pg) *pg = NULL;
    struct error err = {0};

    sums_out[0] = sums_out[1] = 0;
    assert_true(pg_open(database_app(log->database), reader_tables, &pg, &err).ok);
    assert_true(audit_list(permit, pg, &filter, &page, &err).ok);
    for (size_t i = 0; i < audit_page_count(page); i++) {
        struct buffer OWNED_BUFFER text = BUFFER(1 << 16);
        assert_true(audit_page_payload(page, i, keyd_process_client(log->keyd), TEST_ORIGIN, &text, &err).ok);
        json_t *payload = json_loadb((const char *)text.data, text.length, 0, NULL);
        size_t index;
        json_t *row;
        json_array_foreach (json_object_get(payload, "rows"), index, row)
            sums_out[1] += json_integer_value(json_object_get(row, "count"));
        sums_out[1] += json_integer_value(json_object_get(payload, "rest"));
        sums_out[0] += count_in(payload, action, "192.0.2.0/24", target);
        json_decref(payload);
    }
}

#define DECOYS 64 /* more than one source has rows */

static void decoys_hide_no_target(void **state)
{
    struct asked asked = {"acme", "", "robot$acme+ci", "192.0.2.7", "", ACTION_MANIFEST_READ, 1};
    struct audit_log log;
    json_int_t sums[2];
    char decoy[32];

    (void)state;
    audit_log_open(&log);
    asked.target = decoy;
    for (unsigned i = 0; i < DECOYS; i++) {
        (void)snprintf(decoy, sizeof decoy, "beta/models/decoy%u", i);
        refuse(&log, &asked);
    }
    asked.target = "beta/models/patients";
    refuse(&log, &asked);
    sequencer_free(log.sequencer);
    log.sequencer = NULL;
    (void)audit_log_check(&log);
    sum_rows(&log, "manifest.read", "beta/models/patients", sums);
    assert_int_equal(sums[0], 1);
    assert_int_equal(sums[1], DECOYS + 1);
    audit_log_close(&log);
}

/* With any number of decoys: the number of events is bounded, each request is counted once, and a write is still named. */
static void a_flood_of_decoys_is_bounded_and_hides_no_write(void **state)
{
    struct asked asked = {"acme", "", "robot$acme+ci", "192.0.2.7", "", ACTION_MANIFEST_READ, 1};
    struct audit_log log;
    json_int_t sums[2];
    char decoy[32];

    (void)state;
    audit_log_open(&log);
    asked.target = decoy;
    for (unsigned i = 0; i < 600; i++) {
        (void)snprintf(decoy, sizeof decoy, "beta/models/decoy%u", i);
        refuse(&log, &asked);
    }
    asked = (struct asked){"acme", "", "robot$acme+ci", "192.0.2.7", "beta/models/patients", ACTION_MANIFEST_DELETE, 1};
    refuse(&log, &asked);
    sequencer_free(log.sequencer);
    log.sequencer = NULL;
    assert_in_range(audit_log_check(&log), 2 * BURST_EARLY_MAX, 2 * (BURST_EARLY_MAX + 6)); /* and those that end by time */
    sum_rows(&log, "manifest.delete", "beta/models/patients", sums);
    assert_int_equal(sums[0], 1);
    assert_int_equal(sums[1], 601);
    audit_log_close(&log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_over_a_budget_is_counted_for_its_organisation),
        cmocka_unit_test(a_flood_of_strangers_names_target_and_network),
        cmocka_unit_test(more_organisations_than_places_lose_no_count),
        cmocka_unit_test(decoys_hide_no_target),
        cmocka_unit_test(a_flood_of_decoys_is_bounded_and_hides_no_write),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
