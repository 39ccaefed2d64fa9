/* The index of searches of the log, and searches with it. */
#include "tests/integration/audit_query_fixture.h"

#include <string.h>

#include "audit/search.h"
#include "audit/search_index.h"
#include "audit/search_store_priv.h"
#include "audit/search_walk_priv.h"
#include "base/fault.h"
#include "base/memory.h"

static const struct pg_table *const index_tables[] = {&audit_query_table, &audit_subject_table, &audit_search_index_table, NULL};
static const struct pg_table *const search_tables[] = {&audit_query_table, &audit_search_table, &audit_subject_table, NULL};

static struct pg *connect_with(const struct audit_log *log, const struct pg_table *const *tables)
{
    struct pg *pg = NULL;
    struct error err = {0};

    if (!pg_open(database_app(log->database), tables, &pg, &err).ok) fail_msg("%s", err.message);
    return pg;
}

/* Until the index has the whole log; returns the number of steps. */
static unsigned index_all(const struct audit_log *log)
{
    OWNED(pg) *pg = connect_with(log, index_tables);
    OWNED(search_index) *index = NULL;
    struct search_index_state state = {.size = 1};
    struct error err = {0};
    unsigned steps = 0;

    assert_true(search_index_new(pg, keyd_process_client(log->keyd), TEST_ORIGIN, &index, &err).ok);
    for (; state.indexed < state.size; steps++)
        if (!search_index_step(index, &state, &err).ok) fail_msg("%s", err.message);
    assert_true(state.is_mine);
    return steps;
}

static struct search *new_search(enum search_field field, const char *value)
{
    struct search *search = memory_zeroed(1, sizeof *search);
    struct error err = {0};

    assert_non_null(search);
    *search = (struct search){.until = INT64_MAX, .until_ms = INT64_MAX, .limit = 9, .budget_ms = 20000};
    if (value == NULL) return search;
    search->condition_count = 1;
    search->conditions[0].field = field;
    assert_true(search_condition_add(&search->conditions[0], value, &err).ok);
    return search;
}

static struct search_progress found_by(const struct audit_log *log, const struct permit *permit, const struct search *search,
                                       char found_out[128])
{
    OWNED(pg) *pg = connect_with(log, search_tables);
    OWNED(audit_page) *page = NULL;
    const struct search_source source = {pg, keyd_process_client(log->keyd), TEST_ORIGIN};
    struct search_progress progress;
    struct error err = {0};

    if (!search_run(permit, &source, search, &page, &progress, &err).ok) fail_msg("%s", err.message);
    found_out[0] = '\0';
    for (size_t i = 0; i < audit_page_count(page); i++)
        (void)snprintf(found_out + strlen(found_out), 128 - strlen(found_out), "%u ", (unsigned)audit_page_sequence(page, i));
    return progress;
}

/* The log of fill(): events 0 to 9, four repositories in turn, two subjects in turn; 7 is denied. */
static const struct search_row {
    const char *name;
    enum resource_kind kind;
    const char *scope;
    enum search_field field;
    const char *value;
    bool ascending;
    const char *expected;
} search_rows[] = {
    {"one repository", RESOURCE_SYSTEM, "", SEARCH_RESOURCE, "acme/models/fraud", true, "1 5 9 "},
    {"newest first", RESOURCE_SYSTEM, "", SEARCH_RESOURCE, "acme/models/fraud", false, "9 5 1 "},
    {"below a name", RESOURCE_SYSTEM, "", SEARCH_PREFIX, "acme/data", true, "2 6 "},
    {"a part of a segment", RESOURCE_SYSTEM, "", SEARCH_PREFIX, "acme/dat", true, ""},
    {"a rule", RESOURCE_SYSTEM, "", SEARCH_RULE, "R", true, "7 "},
    {"an address", RESOURCE_ORGANISATION, "beta", SEARCH_ADDRESS, "192.0.2.7", true, "3 7 "},
    {"a network", RESOURCE_PROJECT, "acme/data", SEARCH_NETWORK, "192.0.2.0/24", false, "6 2 "},
    {"another network", RESOURCE_SYSTEM, "", SEARCH_NETWORK, "192.0.3.0/24", false, ""},
    {"an organisation's auditor", RESOURCE_ORGANISATION, "beta", SEARCH_ACTION, "blob.read", true, "3 7 "},
    {"denials of others", RESOURCE_ORGANISATION, "acme", SEARCH_OUTCOME, "denied", true, ""},
    {"no condition", RESOURCE_SYSTEM, "", SEARCH_ACTOR, NULL, false, "9 8 7 6 5 4 3 2 1 "},
    {"no condition but the scope", RESOURCE_ORGANISATION, "beta", SEARCH_ACTOR, NULL, false, "7 3 "},
};

static void events_are_found(void **state)
{
    struct audit_log log;

    (void)state;
    fill(&log);
    (void)index_all(&log);
    for (size_t i = 0; i < COUNT(search_rows); i++) {
        const struct search_row *row = &search_rows[i];
        OWNED(permit) *permit = auditor(row->kind, row->scope);
        struct search *search = new_search(row->field, row->value);
        char found[128];
        search->ascending = row->ascending;
        const struct search_progress progress = found_by(&log, permit, search, found);
        if (strcmp(found, row->expected) != 0) fail_msg("%s: %s, not %s", row->name, found, row->expected);
        assert_int_equal(progress.known, 10);
        free(search);
    }
    audit_log_close(&log);
}

/* A search without time says where it stopped, and an event that the index does not know is not found. */
static void answers_say_how_far_they_go(void **state)
{
    struct audit_log log;
    char found[128];

    (void)state;
    fill(&log);
    OWNED(permit) *permit = auditor(RESOURCE_SYSTEM, "");
    struct search *search = new_search(SEARCH_RESOURCE, "acme/models/fraud");
    struct search_progress progress = found_by(&log, permit, search, found);
    assert_true(found[0] == '\0' && progress.known == 0 && progress.is_done);
    (void)index_all(&log);
    record_about(&log, "acme/models/fraud", "alice@example", VERDICT_ALLOW);
    search->budget_ms = 0;
    progress = found_by(&log, permit, search, found);
    assert_true(found[0] == '\0' && progress.known == 10 && progress.searched == 10 && !progress.is_done);
    search->ascending = true;
    search->from = 2;
    progress = found_by(&log, permit, search, found);
    assert_true(found[0] == '\0' && progress.searched == 2 && !progress.is_done);
    search->budget_ms = 20000;
    search->limit = 1;
    progress = found_by(&log, permit, search, found);
    assert_string_equal(found, "5 ");
    assert_true(progress.searched == 6 && !progress.is_done);
    (void)index_all(&log);
    search->limit = 9;
    progress = found_by(&log, permit, search, found);
    assert_string_equal(found, "5 9 10 ");
    assert_true(progress.known == 11 && progress.searched == 11 && progress.is_done);
    free(search);
    audit_log_close(&log);
}

static uint64_t count_by_list(const struct permit *permit, struct pg *pg)
{
    struct audit_filter filter = {.ascending = true, .key = "out:denied", .until = INT64_MAX, .limit = 1000};
    uint64_t count = 0;

    for (;;) {
        OWNED(audit_page) *page = NULL;
        struct error err = {0};
        if (!audit_list(permit, pg, &filter, &page, &err).ok) fail_msg("%s", err.message);
        if (audit_page_count(page) == 0) return count;
        count += audit_page_count(page);
        filter.from = audit_page_sequence(page, audit_page_count(page) - 1) + 1;
    }
}

/* Pages go over the borders of blocks, and the list of a frequent term has the other form. */
static void a_log_of_several_blocks_is_searched(void **state)
{
    struct audit_log log;
    uint64_t counts[2] = {0, 0};

    (void)state;
    audit_log_open(&log);
    record_some(&log, 3000);
    (void)index_all(&log);
    record_some(&log, 2000);
    assert_true(index_all(&log) >= 2);
    OWNED(pg) *pg = connect_with(&log, search_tables);
    OWNED(permit) *permit = auditor(RESOURCE_SYSTEM, "");
    const struct search_source source = {pg, keyd_process_client(log.keyd), TEST_ORIGIN};
    struct search *search = new_search(SEARCH_OUTCOME, "denied");
    search->limit = 401;
    for (unsigned i = 0; i < 2; i++) {
        struct search_progress progress = {.is_done = false};
        search->ascending = i == 0;
        search->from = 0;
        search->until = INT64_MAX;
        while (!progress.is_done) {
            OWNED(audit_page) *page = NULL;
            struct error err = {0};
            if (!search_run(permit, &source, search, &page, &progress, &err).ok) fail_msg("%s", err.message);
            counts[i] += audit_page_count(page);
            *(search->ascending ? &search->from : &search->until) = progress.searched;
        }
    }
    free(search);
    assert_true(counts[0] > 1500 && counts[0] == counts[1]);
    assert_int_equal(counts[0], count_by_list(permit, pg));
    audit_log_close(&log);
}

/* How many places meet, and the sum of their numbers. */
static void walk_through(struct pg *pg, bool ascending, size_t years, char found_out[64])
{
    static const struct posting_key network[] = {{1, POSTING_NARROW}, {3, POSTING_NARROW}}, country = {2, POSTING_WIDE};
    OWNED(search_walk) *walk = NULL;
    struct walk_step step = {.block = ascending ? 0 : 400, .until_ms = INT64_MAX};
    unsigned long long count = 0, sum = 0;
    struct error err = {0};

    assert_true(search_walk_new(pg, ascending, &walk, &err).ok);
    search_walk_add(walk, network, years);
    search_walk_add(walk, &country, 1);
    for (; !step.is_end; step.block += ascending ? 1 : (uint64_t)-1) {
        if (!search_walk_next(walk, &step, &err).ok) fail_msg("%s", err.message);
        for (unsigned place = 0; place < POSTING_BLOCK && !step.is_end; place++) {
            count += posting_has(&step.places, place);
            sum += posting_has(&step.places, place) ? step.block * POSTING_BLOCK + place : 0;
        }
    }
    (void)snprintf(found_out, 64, "%llu %llu", count, sum);
}

/* The lists of the country are read ahead for the subjects that the network has in later blocks; with keys of two years, block by block. */
static void a_country_beside_a_network_is_read_for_many_blocks(void **state)
{
#define ROWS(key, when)                                                                                      \
    "INSERT INTO audit_blind (key, block, subject, list) SELECT " key ", b, id, int2send((id % 4096)::int2)" \
    " FROM generate_series(1, 300) b, audit_subject WHERE " when ";"
#define MEETING(keys)                                                                                                   \
    "SELECT count(*) || ' ' || sum(block * 4096 + subject) FROM (SELECT DISTINCT n.block, n.subject FROM audit_blind n" \
    " JOIN audit_blind c USING (block, subject) WHERE c.key = 2 AND n.key IN (" keys ")) AS m"
    struct audit_log log;
    char found[64];

    (void)state;
    audit_log_open(&log);
    database_execute(log.database,
                     "INSERT INTO audit_subject (subject, key_version, wrapped_key) SELECT sha256(n::text::bytea), 1, '\\x00'"
                     " FROM generate_series(1, 9) n;" ROWS("1", "(b + id) % 3 > 0 AND b % 5 > 0")
                         ROWS("2", "(7 * b + 5 * id) % 4 = 0 AND b % 7 > 0") ROWS("3", "(b + id) % 3 = 0 AND b % 2 = 0"));
    OWNED(pg) *pg = connect_with(&log, search_tables);
    for (unsigned i = 0; i < 4; i++) {
        walk_through(pg, i % 2 == 0, 1 + i / 2, found);
        wait_for_answer(&log, i < 2 ? MEETING("1") : MEETING("1, 3"), found);
        assert_true(strtoul(found, NULL, 10) > 300);
    }
    audit_log_close(&log);
}

/* Another gateway holds the lock: the step does nothing. After a failure nothing of a batch is there. */
static void one_gateway_indexes_at_a_time(void **state)
{
    struct audit_log log;
    struct search_index_state indexed;
    struct error err = {0};

    (void)state;
    fill(&log);
    OWNED(pg) *first = connect_with(&log, index_tables), *second = connect_with(&log, index_tables);
    OWNED(search_index) *index = NULL;
    assert_true(search_index_new(second, keyd_process_client(log.keyd), TEST_ORIGIN, &index, &err).ok);
    assert_true(pg_begin(first, &err).ok);
    bool is_mine = false;
    uint64_t known = 0, size = 0;
    assert_true(search_index_begin(first, &is_mine, &known, &size, &err).ok && is_mine && known == 0 && size == 10);
    assert_true(search_index_step(index, &indexed, &err).ok && !indexed.is_mine && indexed.indexed == 0);
    pg_rollback(first);
    database_execute(log.database, "ALTER TABLE audit_search ADD CONSTRAINT stop CHECK (indexed = 0)");
    assert_false(search_index_step(index, &indexed, &err).ok);
    wait_for_answer(&log, "SELECT count(*) FROM audit_post", "0");
    database_execute(log.database, "ALTER TABLE audit_search DROP CONSTRAINT stop");
    assert_true(search_index_step(index, &indexed, &err).ok && indexed.is_mine && indexed.indexed == 10);
    wait_for_answer(&log, "SELECT count(*) FROM audit_post", "20");
    wait_for_answer(&log, "SELECT count(*) FROM audit_blind", "4"); /* address and network, of two subjects */
    audit_log_close(&log);
}

/* A log that was cut and goes on has other events at those numbers: the index begins anew, and shows no event that is not there. */
static void an_index_beyond_the_log_begins_anew(void **state)
{
    struct audit_log log;
    char found[128];

    (void)state;
    fill(&log);
    (void)index_all(&log);
    database_execute(log.database, "UPDATE audit_search SET indexed = 5000");
    OWNED(permit) *permit = auditor(RESOURCE_SYSTEM, "");
    struct search *search = new_search(SEARCH_RULE, "R");
    struct search_progress progress = found_by(&log, permit, search, found);
    assert_string_equal(found, "7 ");
    assert_int_equal(progress.known, 10);
    record_about(&log, "acme/models/fraud", "alice@example", VERDICT_HIDE);
    (void)index_all(&log);
    wait_for_answer(&log, "SELECT indexed FROM audit_search", "11");
    progress = found_by(&log, permit, search, found);
    assert_string_equal(found, "10 7 ");
    free(search);
    audit_log_close(&log);
}

/* A row that is no list is an error, not a wrong answer. An entry whose leaf was changed ends the index. */
static void damage_is_found(void **state)
{
    struct audit_log log;
    struct search_progress progress;
    struct error err = {0};

    (void)state;
    fill(&log);
    (void)index_all(&log);
    OWNED(pg) *pg = connect_with(&log, search_tables);
    OWNED(permit) *permit = auditor(RESOURCE_SYSTEM, "");
    OWNED(audit_page) *page = NULL;
    const struct search_source source = {pg, keyd_process_client(log.keyd), TEST_ORIGIN};
    struct search *search = new_search(SEARCH_OUTCOME, "denied");
    database_execute(log.database, "UPDATE audit_post SET list = '\\x0002000100'");
    assert_false(search_run(permit, &source, search, &page, &progress, &err).ok);
    assert_int_equal(err.kind, ERROR_CORRUPT);
    free(search);
    database_execute(log.database, "TRUNCATE audit_post; UPDATE audit_search SET indexed = 0;"
                                   " UPDATE audit_entry SET leaf = leaf || '\\x20' WHERE seq = 4");
    OWNED(pg) *other = connect_with(&log, index_tables);
    OWNED(search_index) *index = NULL;
    struct search_index_state indexed;
    assert_true(search_index_new(other, keyd_process_client(log.keyd), TEST_ORIGIN, &index, &err).ok);
    assert_false(search_index_step(index, &indexed, &err).ok);
    assert_int_equal(err.kind, ERROR_FORKED);
    audit_log_close(&log);
}

#define WHOLE_OR_NOTHING                                                                    \
    "SELECT (SELECT indexed FROM audit_search) = 0 AND NOT EXISTS (SELECT FROM audit_post)" \
    " OR (SELECT indexed FROM audit_search) = 10 AND (SELECT count(*) FROM audit_post) = 20"

/* Each call of a step fails once: a batch is in the index as a whole, or not at all. */
static void a_failed_step_leaves_no_half(void **state)
{
    struct audit_log log;
    unsigned long failures = 0;

    (void)state;
    fill(&log);
    OWNED(pg) *pg = connect_with(&log, index_tables);
    for (bool has_fired = true; has_fired; failures++) {
        OWNED(search_index) *index = NULL;
        struct search_index_state indexed = {.size = 0};
        struct error err = {0};
        if (pg_is_broken(pg)) assert_true(pg_reopen(pg, &err).ok);
        database_execute(log.database, "TRUNCATE audit_post, audit_blind; UPDATE audit_search SET indexed = 0");
        fault_arm(failures + 1);
        const bool is_done = search_index_new(pg, keyd_process_client(log.keyd), TEST_ORIGIN, &index, &err).ok &&
                             search_index_step(index, &indexed, &err).ok;
        has_fired = fault_has_fired();
        fault_arm(0);
        assert_true(!is_done || indexed.indexed == 10 ||
                    !indexed.is_mine); /* PostgreSQL may still be ending the session that broke */
        wait_for_answer(&log, WHOLE_OR_NOTHING, "t");
    }
    assert_true(failures > 20);
    audit_log_close(&log);
}

/* Each call of a search fails once: there is no answer, or the right one. */
static void a_failed_search_gives_no_wrong_answer(void **state)
{
    struct audit_log log;
    unsigned long failures = 0;

    (void)state;
    fill(&log);
    (void)index_all(&log);
    OWNED(pg) *pg = connect_with(&log, search_tables);
    OWNED(permit) *permit = auditor(RESOURCE_ORGANISATION, "beta");
    struct search *search = new_search(SEARCH_ADDRESS, "192.0.2.7");
    const struct search_source source = {pg, keyd_process_client(log.keyd), TEST_ORIGIN};
    for (bool has_fired = true; has_fired; failures++) {
        OWNED(audit_page) *page = NULL;
        struct search_progress progress;
        struct error err = {0};
        if (pg_is_broken(pg)) assert_true(pg_reopen(pg, &err).ok);
        fault_arm(failures + 1);
        const bool is_found = search_run(permit, &source, search, &page, &progress, &err).ok;
        has_fired = fault_has_fired();
        fault_arm(0);
        assert_true(!is_found || (audit_page_count(page) == 2 && audit_page_sequence(page, 0) == 7 && progress.is_done));
        assert_true(has_fired || is_found);
    }
    assert_true(failures > 20);
    free(search);
    audit_log_close(&log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_are_found),
        cmocka_unit_test(answers_say_how_far_they_go),
        cmocka_unit_test(a_log_of_several_blocks_is_searched),
        cmocka_unit_test(a_country_beside_a_network_is_read_for_many_blocks),
        cmocka_unit_test(one_gateway_indexes_at_a_time),
        cmocka_unit_test(an_index_beyond_the_log_begins_anew),
        cmocka_unit_test(damage_is_found),
        cmocka_unit_test(a_failed_step_leaves_no_half),
        cmocka_unit_test(a_failed_search_gives_no_wrong_answer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
