/*
 * tests/integration/sequencer_outcomes_fixture.h -- compares the outcome of each submitted record with the log. For one source
 * file of a program only: it defines what it declares.
 */
#pragma once

#include "tests/integration/sequencer_fixture.h"

#include <stdlib.h>

#include "base/clock.h"

#define TOGETHER 5

static inline void name_request(struct record *record)
{
    const struct uuid id = uuid_random();

    uuid_format(&id, record->context.request_id);
}

static inline size_t entries_of(struct audit_log *log, const struct record *record)
{
    char sql[200];

    (void)snprintf(sql, sizeof sql, "SELECT count(*) FROM audit_entry WHERE convert_from(leaf, 'UTF8')::json ->> 'req' = '%s'",
                   record->context.request_id);
    return strtoul(database_ask(log->database, sql), NULL, 10);
}

/* Kept until the end, because only then the outcome of a COMMIT without an answer is known. */
struct outcome_list {
    struct record records[4000];
    size_t count;
    size_t unavailable;
};

static inline void note_batch(struct outcome_list *list, struct batched records[TOGETHER])
{
    for (size_t i = 0; i < TOGETHER; i++) {
        struct record *record = &records[i].record;
        assert_true(record->status != RECORD_STALE);
        assert_true(record->permit == NULL || record->status == RECORD_DONE);
        record_done(record);
        if (record->is_in_burst) continue; /* counted in the burst's event */
        if (list->count == COUNT(list->records)) fail_msg("more records than the list has room for");
        list->records[list->count++] = *record;
    }
}

/* Compares the answers with the final log: each entry exists once, and the unrecorded events are counted. */
static inline void check_outcomes(struct audit_log *log, struct outcome_list *list)
{
    size_t lost = 0;

    for (size_t i = 0; i < list->count; i++) {
        const struct record *record = &list->records[i];
        const size_t entries = entries_of(log, record);
        if (entries > 1 || (entries == 0 && record->status != RECORD_UNAVAILABLE))
            fail_msg("status %d, but %zu entries", (int)record->status, entries);
        lost += entries == 0 ? 1 : 0;
        list->unavailable += record->status == RECORD_UNAVAILABLE ? 1 : 0;
    }
    const char *counted =
        database_ask(log->database, "SELECT coalesce(sum((convert_from(leaf, 'UTF8')::json -> 'why' ->> 'count')::int)"
                                    ", 0) FROM audit_entry WHERE action = 'log.unrecorded'");
    assert_int_equal(strtoul(counted, NULL, 10), lost);
    assert_true(audit_log_check(log) > 0);
}

static inline void wait_until_recorded(struct audit_log *log, struct outcome_list *list)
{
    const int64_t until_ms = clock_monotonic_ms() + 20000;

    for (enum record_status status = RECORD_UNAVAILABLE; status != RECORD_DONE;) {
        struct record record = test_record(VERDICT_ALLOW);
        name_request(&record);
        sequencer_submit_and_wait(log->sequencer, &record);
        status = record.status;
        if (status != RECORD_DONE && clock_monotonic_ms() > until_ms) fail_msg("still: %s", record.error.message);
        record_done(&record);
        assert_true(list->count < COUNT(list->records));
        list->records[list->count++] = record;
    }
}

static inline void open_with_deadline(struct audit_log *log, unsigned deadline_ms)
{
    audit_log_init(log);
    log->tables = test_tables;
    log->deadline_ms = deadline_ms;
    log->sequencer = audit_log_start(log, "gw1");
    database_execute(log->database, "INSERT INTO organisation (organisation_id, name) VALUES (gen_random_uuid(), 'taken')");
}

static inline void stop(struct audit_log *log)
{
    sequencer_free(log->sequencer);
    log->sequencer = NULL;
}

static inline void stop_and_check(struct audit_log *log, struct outcome_list *list)
{
    stop(log);
    check_outcomes(log, list);
}
