/* The queries of an auditor. */
#include "audit/own_reads.h"
#include "tests/integration/audit_query_fixture.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "audit/event_priv.h"
#include "audit/query.h"
#include "tests/support/audit_log.h"

static const struct list_row {
    const char *name;
    enum resource_kind kind;
    const char *scope;
    struct audit_filter filter;
    const char *expected; /* sequence numbers */
} list_rows[] = {
    {"newest first", RESOURCE_SYSTEM, "", {.until = INT64_MAX, .limit = 4}, "9 8 7 6 "},
    {"the page after it", RESOURCE_SYSTEM, "", {.until = 6, .limit = 4}, "5 4 3 2 "},
    {"oldest first", RESOURCE_SYSTEM, "", {.ascending = true, .from = 3, .until = INT64_MAX, .limit = 3}, "3 4 5 "},
    {"of one repository", RESOURCE_SYSTEM, "", {.key = "res:acme/models/fraud", .until = INT64_MAX, .limit = 9}, "9 5 1 "},
    {"denials", RESOURCE_SYSTEM, "", {.key = "out:denied", .until = INT64_MAX, .limit = 9}, "7 "},
    {"nothing there", RESOURCE_SYSTEM, "", {.key = "res:nobody", .until = INT64_MAX, .limit = 9}, ""},
    {"an organisation's auditor", RESOURCE_ORGANISATION, "beta", {.until = INT64_MAX, .limit = 9}, "7 3 "},
    {"a project's auditor", RESOURCE_PROJECT, "acme/models", {.ascending = true, .until = INT64_MAX, .limit = 9}, "0 1 4 5 8 9 "},
    {"inside his project", RESOURCE_PROJECT, "acme/models", {.key = "res:acme/models/fraud", .until = 9, .limit = 9}, "5 1 "},
    {"outside his project", RESOURCE_PROJECT, "acme/models", {.key = "res:beta/models/other", .until = 9, .limit = 9}, ""},
    {"denials of others", RESOURCE_ORGANISATION, "acme", {.key = "out:denied", .until = INT64_MAX, .limit = 9}, ""},
};

static void auditors_see_what_is_theirs(void **state)
{
    struct audit_log log;
    struct error err = {0};

    (void)state;
    fill(&log);
    OWNED(pg) *pg = reader(&log);
    for (size_t i = 0; i < COUNT(list_rows); i++) {
        const struct list_row *row = &list_rows[i];
        OWNED(permit) *permit = auditor(row->kind, row->scope);
        OWNED(audit_page) *page = NULL;
        char found[64] = ""; /* ten numbers */
        if (!audit_list(permit, pg, &row->filter, &page, &err).ok) fail_msg("%s: %s", row->name, err.message);
        for (size_t k = 0; k < audit_page_count(page); k++)
            (void)snprintf(found + strlen(found), sizeof found - strlen(found), "%u ", (unsigned)audit_page_sequence(page, k));
        if (strcmp(found, row->expected) != 0) fail_msg("%s: %s, not %s", row->name, found, row->expected);
    }
    OWNED(permit) *other = auditor(RESOURCE_ORGANISATION, "beta");
    OWNED(audit_page) *page = NULL;
    assert_false(audit_find(other, pg, 0, &page, &err).ok);
    assert_int_equal(err.kind, ERROR_NOT_FOUND);
    assert_true(audit_find(other, pg, 3, &page, &err).ok);
    audit_log_close(&log);
}

static void payloads_open_for_auditors_only(void **state)
{
    struct audit_log log;
    struct buffer OWNED_BUFFER payload = BUFFER(65536);
    struct error err = {0};

    (void)state;
    fill(&log);
    OWNED(pg) *pg = reader(&log);
    OWNED(permit) *permit = auditor(RESOURCE_SYSTEM, "");
    OWNED(audit_page) *page = NULL;
    assert_true(audit_find(permit, pg, 7, &page, &err).ok && buffer_add_text(&payload, "before ", &err).ok);
    if (!audit_page_payload(page, 0, keyd_process_client(log.keyd), TEST_ORIGIN, &payload, &err).ok) fail_msg("%s", err.message);
    assert_string_equal(buffer_text(&payload),
                        "before {\"address\":\"192.0.2.7\",\"agent\":\"a \\\"quoted\\\" agent\",\"denials\":[{\"message\":\"\","
                        "\"missing\":\"\",\"policy\":\"\",\"rule\":\"R\"}],\"issuer\":\"https://issuer.example\","
                        "\"subject\":\"bob@example\"}");
    /* Boxes that change places, or another origin, do not open. */
    assert_false(audit_page_payload(page, 0, keyd_process_client(log.keyd), "other/audit", &payload, &err).ok);
    assert_int_equal(err.kind, ERROR_CORRUPT);
    database_execute(log.database, "UPDATE audit_payload p SET salt = o.salt, box = o.box FROM audit_payload o"
                                   " WHERE p.seq = 7 AND o.seq = 5");
    audit_page_free(GIVE(page));
    assert_true(audit_find(permit, pg, 7, &page, &err).ok);
    assert_false(audit_page_payload(page, 0, keyd_process_client(log.keyd), TEST_ORIGIN, &payload, &err).ok);
    assert_int_equal(err.kind, ERROR_CORRUPT);
    assert_null(audit_page_missing(page, 0));
    database_execute(log.database, "DELETE FROM audit_payload WHERE seq = 7");
    audit_page_free(GIVE(page));
    assert_true(audit_find(permit, pg, 7, &page, &err).ok);
    assert_string_equal(audit_page_missing(page, 0), "payload");
    /* An erased subject: the event stays, but not the actor's name. */
    database_execute(log.database, "DELETE FROM audit_subject WHERE subject = (SELECT subject FROM audit_payload WHERE seq = 5)");
    audit_page_free(GIVE(page));
    assert_true(audit_find(permit, pg, 5, &page, &err).ok);
    payload.length = 0;
    assert_true(audit_page_payload(page, 0, keyd_process_client(log.keyd), TEST_ORIGIN, &payload, &err).ok);
    assert_int_equal(payload.length, 0);
    assert_string_equal(audit_page_missing(page, 0), "key");
    audit_log_close(&log);
}

/* Pages have bounds, and no event has a number that no log can have. */
static void questions_have_bounds(void **state)
{
    static const struct audit_filter filters[] = {
        {.until = INT64_MAX, .limit = 0},
        {.until = INT64_MAX, .limit = AUDIT_PAGE_MAX + 1},
        {.until = (uint64_t)INT64_MAX + 1, .limit = 1},
        {.from = (uint64_t)INT64_MAX + 1, .until = INT64_MAX, .limit = 1},
    };
    struct audit_log log;
    struct buffer OWNED_BUFFER proof = BUFFER(65536);
    struct error err = {0};

    (void)state;
    audit_log_open(&log);
    OWNED(pg) *pg = reader(&log);
    OWNED(permit) *permit = auditor(RESOURCE_SYSTEM, "");
    struct audit_page *page = NULL;
    for (size_t i = 0; i < COUNT(filters); i++) {
        assert_false(audit_list(permit, pg, &filters[i], &page, &err).ok);
        assert_int_equal(err.kind, ERROR_INVALID);
    }
    assert_false(audit_find(permit, pg, INT64_MAX, &page, &err).ok);
    assert_int_equal(err.kind, ERROR_NOT_FOUND);
    assert_false(audit_prove(permit, pg, 77, &(struct signed_checkpoint){0}, &proof, &err).ok);
    assert_int_equal(err.kind, ERROR_NOT_FOUND);
    assert_null(page);
    assert_int_equal(proof.length, 0);
    audit_log_close(&log);
}

/* A page asks keyd once for each subject, and does not trust the row of a key. */
static void a_page_opens_many_payloads(void **state)
{
    struct audit_log log;
    struct buffer OWNED_BUFFER payload = BUFFER(65536);
    struct error err = {0};

    (void)state;
    fill(&log);
    OWNED(pg) *pg = reader(&log);
    OWNED(permit) *permit = auditor(RESOURCE_SYSTEM, "");
    OWNED(audit_page) *page = NULL;
    const struct audit_filter all = {.until = INT64_MAX, .limit = 10};
    assert_true(audit_list(permit, pg, &all, &page, &err).ok);
    for (size_t i = 0; i < audit_page_count(page); i++) {
        payload.length = 0;
        assert_true(audit_page_payload(page, i, keyd_process_client(log.keyd), TEST_ORIGIN, &payload, &err).ok);
        assert_non_null(strstr(buffer_text(&payload), i % 2 == 0 ? "bob@example" : "alice@example"));
    }
    database_execute(log.database, "UPDATE audit_subject SET wrapped_key = decode(repeat('00', 300), 'hex')");
    audit_page_free(GIVE(page));
    assert_true(audit_find(permit, pg, 5, &page, &err).ok);
    payload.length = 0;
    assert_false(audit_page_payload(page, 0, keyd_process_client(log.keyd), TEST_ORIGIN, &payload, &err).ok);
    assert_int_equal(err.kind, ERROR_CORRUPT);
    assert_int_equal(payload.length, 0);
    audit_log_close(&log);
}

/* An entry of a newer gateway is shown by its number. An entry with a wrong hash is a change of the log. */
static void what_cannot_be_read_is_no_change(void **state)
{
    struct audit_log log;
    struct error err = {0};

    (void)state;
    fill(&log);
    OWNED(pg) *pg = reader(&log);
    OWNED(permit) *everything = auditor(RESOURCE_SYSTEM, "");
    OWNED(permit) *models = auditor(RESOURCE_PROJECT, "acme/models");
    struct audit_page *page = NULL;
    database_execute(log.database,
                     "UPDATE audit_entry SET leaf = '{}', leaf_hash = sha256('\\x00' || '{}'::bytea) WHERE seq = 2");
    assert_true(audit_list(everything, pg, &(struct audit_filter){.until = INT64_MAX, .limit = 10}, &page, &err).ok);
    for (size_t i = 0; i < audit_page_count(page); i++)
        assert_int_equal(audit_page_is_readable(page, i), audit_page_sequence(page, i) != 2);
    audit_page_free(GIVE(page));
    assert_true(!audit_find(models, pg, 2, &page, &err).ok && err.kind == ERROR_NOT_FOUND);
    assert_true(audit_find(everything, pg, 2, &page, &err).ok);
    audit_page_free(GIVE(page));
    database_execute(log.database, "UPDATE audit_entry SET leaf = leaf || ' ' WHERE seq = 3");
    assert_true(!audit_list(everything, pg, &(struct audit_filter){.until = INT64_MAX, .limit = 10}, &page, &err).ok &&
                err.kind == ERROR_FORKED);
    audit_log_close(&log);
}

/* The count is the same with pieces of any size, and with other events between. */
static void tokens_are_counted_piece_by_piece(void **state)
{
    struct audit_log log;
    struct error err = {0};

    (void)state;
    fill(&log);
    for (unsigned i = 0; i < 7; i++)
        record_of(&log, ACTION_TOKEN_MINT, i < 3 ? "registry:admin:*" : "acme/models", "alice@example", VERDICT_ALLOW);
    record_of(&log, ACTION_TOKEN_MINT, "acme/models", "alice@example", VERDICT_DENY);
    OWNED(pg) *pg = reader(&log);
    for (uint64_t most = 1; most < 40; most += 9) {
        struct audit_mints mints = {0};
        uint64_t next = 0;
        do {
            assert_true(audit_count_more_mints(pg, &mints, &next, most, &err).ok);
        } while (next < mints.log_size);
        assert_true(mints.log_size >= 18 && next == mints.log_size);
        assert_int_equal(mints.all, 7);
        assert_int_equal(mints.administration, 3);
        record_about(&log, "acme/models/digits", "alice@example", VERDICT_ALLOW);
        assert_true(audit_count_more_mints(pg, &mints, &next, most, &err).ok); /* nothing twice */
        assert_int_equal(mints.all, 7);
    }
    audit_log_close(&log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(auditors_see_what_is_theirs),
        cmocka_unit_test(payloads_open_for_auditors_only),
        cmocka_unit_test(questions_have_bounds),
        cmocka_unit_test(a_page_opens_many_payloads),
        cmocka_unit_test(what_cannot_be_read_is_no_change),
        cmocka_unit_test(tokens_are_counted_piece_by_piece),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
