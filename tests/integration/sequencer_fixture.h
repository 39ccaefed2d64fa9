/*
 * tests/integration/sequencer_fixture.h -- records that are submitted together, and their changes, which succeed or fail. For one
 * source file of a program only: it defines what it declares.
 */
#pragma once

#include "tests/support/unit.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "storage/pg_table.h"
#include "tests/support/audit_log.h"

static const struct pg_statement test_insert_sql = {
    "test_insert", "INSERT INTO organisation (organisation_id, name) VALUES ($1, $2) ON CONFLICT DO NOTHING", "uuid text", ""};
static const struct pg_statement test_insert_at_once_sql = {
    "test_insert_at_once",
    "WITH made AS (INSERT INTO organisation (organisation_id, name) VALUES ($1, $2) ON CONFLICT DO NOTHING"
    " RETURNING name) SELECT min(name), 1 / count(*) FROM made",
    "uuid text", "text int8"};
static const struct pg_statement test_insert_strict_sql = {
    "test_insert_strict", "INSERT INTO organisation (organisation_id, name) VALUES ($1, $2)", "uuid text", ""};
static const struct pg_statement test_names_sql = {"test_names", "SELECT name FROM organisation", "", "text"};
static const struct pg_statement test_raise_sql = {
    "test_raise", "WITH raised AS (SELECT raise_authorization_epoch() AS epoch) SELECT epoch FROM raised", "", "int8"};
static const struct pg_statement test_give_sql = {
    "test_give", "WITH raised AS (SELECT raise_authorization_epoch_of_grant($1) AS epoch) SELECT epoch FROM raised", "uuid",
    "int8"};
static const struct pg_statement test_give_all_sql = {
    "test_give_all",
    "WITH raised AS MATERIALIZED (SELECT raise_authorization_epoch_of_grants($1) AS epoch)"
    " SELECT epoch, place FROM raised, unnest($1) WITH ORDINALITY AS given (id, place) ORDER BY place",
    "uuid[]", "int8 int8"};
static const struct pg_statement *const statements[] = {
    &test_insert_sql, &test_insert_at_once_sql, &test_insert_strict_sql, &test_names_sql,
    &test_raise_sql,  &test_give_sql,           &test_give_all_sql,
};
static const struct pg_table test_table = PG_TABLE(statements);
static const struct pg_table *const test_tables[] = {&test_table, NULL};

enum behaviour { INSERTS, CONFLICTS, INSERTS_THEN_FAILS, BREAKS_A_CONSTRAINT, RAISES, GIVES };

static const struct uuid fixture_acme = {.bytes = {0xac}};

struct test_change {
    struct change change; /* first */
    enum behaviour behaviour;
    char name[32]; /* of the organisation that it makes */
    unsigned runs, adds, takes;
};

static inline struct result insert(struct pg *pg, const struct pg_statement *statement, const char *name, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;
    struct pg_arguments arguments = {0};
    const struct uuid id = uuid_random();

    pg_add_uuid(&arguments, &id);
    pg_add_text(&arguments, name);
    TRY(pg_run(pg, statement, &arguments, &rows, err));
    if (pg_rows_affected(rows) == 0) return failure(err, ERROR_CONFLICT, "%s exists", name);
    return SUCCESS;
}

static inline struct result give(struct pg *pg, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_uuid(&arguments, &fixture_acme);
    return pg_run(pg, &test_give_sql, &arguments, NULL, err);
}

static inline struct result run(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    struct test_change *test = (struct test_change *)(void *)change;

    assert_non_null(permit_resource(permit, ACTION_BLOB_READ));
    test->runs++;
    switch (test->behaviour) {
    case INSERTS: return insert(pg, &test_insert_sql, test->name, err);
    case CONFLICTS:
        TRY(pg_run(pg, &test_names_sql, NULL, NULL, err)); /* a read is not a change */
        return insert(pg, &test_insert_sql, "taken", err);
    case BREAKS_A_CONSTRAINT: return insert(pg, &test_insert_strict_sql, "taken", err);
    case INSERTS_THEN_FAILS:
        TRY(insert(pg, &test_insert_sql, test->name, err));
        return failure(err, ERROR_INVALID, "changed its mind");
    case RAISES: return pg_run(pg, &test_raise_sql, NULL, NULL, err);
    case GIVES: return give(pg, err);
    }
    return SUCCESS;
}

static inline struct result add(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    struct test_change *test = (struct test_change *)(void *)change;
    struct pg_arguments arguments = {0};
    const struct uuid id = uuid_random();

    assert_non_null(permit_resource(permit, ACTION_BLOB_READ));
    test->adds++;
    pg_add_uuid(&arguments, &id);
    pg_add_text(&arguments, test->behaviour == CONFLICTS ? "taken" : test->name);
    return pg_pipeline_add(pg, &test_insert_at_once_sql, &arguments, err);
}

static inline struct result add_all(const struct permit *const *permits, struct change *const *changes, size_t count,
                                    struct pg *pg, struct error *err)
{
    struct pg_arguments arguments = {0};
    struct bytes ids[AUDIT_CHANGES_TOGETHER];

    assert_true(count <= AUDIT_CHANGES_TOGETHER);
    for (size_t i = 0; i < count; i++) {
        assert_non_null(permit_resource(permits[i], ACTION_BLOB_READ));
        ((struct test_change *)(void *)changes[i])->adds++;
        ids[i] = uuid_bytes(&fixture_acme);
    }
    pg_add_uuid_array(&arguments, ids, count);
    return pg_pipeline_add(pg, &test_give_all_sql, &arguments, err);
}

static inline void take(struct change *change, const struct pg_rows *answer)
{
    struct test_change *test = (struct test_change *)(void *)change;

    if (test->behaviour == GIVES) assert_int_equal(pg_int8(answer, change->row, 1), change->row + 1);
    else assert_string_equal(pg_text(answer, 0, 0), test->name);
    test->takes++;
}

/* Records that are submitted together and waited for together. */
struct batch {
    pthread_mutex_t mutex;
    pthread_cond_t all_done;
    size_t left;
};
struct batched {
    struct record record; /* first */
    struct batch *batch;
    struct test_change change;
};

static inline void one_done(struct record *record)
{
    struct batch *batch = ((struct batched *)(void *)record)->batch;

    (void)pthread_mutex_lock(&batch->mutex);
    if (--batch->left == 0) (void)pthread_cond_signal(&batch->all_done);
    (void)pthread_mutex_unlock(&batch->mutex);
}

/* Does not wait: `batch` must outlive the records. */
static inline void begin_batch(struct sequencer *sequencer, struct batch *batch, struct batched *records, size_t count)
{
    *batch = (struct batch){PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, count};
    for (size_t i = 0; i < count; i++) {
        records[i].batch = batch;
        records[i].record.done = one_done;
        sequencer_submit(sequencer, &records[i].record);
    }
}

static inline void await_batch(struct batch *batch)
{
    (void)pthread_mutex_lock(&batch->mutex);
    while (batch->left > 0) (void)pthread_cond_wait(&batch->all_done, &batch->mutex);
    (void)pthread_mutex_unlock(&batch->mutex);
}

static inline void submit_batch(struct sequencer *sequencer, struct batched *records, size_t count)
{
    struct batch batch;

    begin_batch(sequencer, &batch, records, count);
    await_batch(&batch);
}

static inline void open_log(struct audit_log *log)
{
    audit_log_init(log);
    log->tables = test_tables;
    log->sequencer = audit_log_start(log, "gw1");
    database_execute(log->database, "INSERT INTO organisation (organisation_id, name) VALUES (gen_random_uuid(), 'taken')");
    struct record first = test_record(VERDICT_ALLOW); /* so that the subject's key is there */
    sequencer_submit_and_wait(log->sequencer, &first);
    record_done(&first);
}

/* Holds the log's lock, so that all records submitted meanwhile form one group. */
static inline void hold_log(struct audit_log *log)
{
    database_execute(log->database, "BEGIN; SELECT pg_advisory_xact_lock(7307, 2)");
}

static inline void *release_log(void *argument)
{
    (void)usleep(300000);
    database_execute(argument, "COMMIT");
    return NULL;
}

static inline void submit_as_one_group(struct audit_log *log, struct batched *records, size_t count)
{
    struct record opener = test_record(VERDICT_ALLOW); /* occupies the group thread while the others gather */
    struct batched first = {.record = opener};
    struct batch batch = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 1};
    pthread_t releaser;

    first.batch = &batch;
    first.record.done = one_done;
    hold_log(log);
    sequencer_submit(log->sequencer, &first.record);
    (void)usleep(50000);
    assert_int_equal(pthread_create(&releaser, NULL, release_log, log->database), 0);
    submit_batch(log->sequencer, records, count);
    assert_int_equal(pthread_join(releaser, NULL), 0);
    record_done(&first.record);
}

static inline struct batched with_change(enum behaviour behaviour, const char *name)
{
    struct batched batched = {.record = test_record(VERDICT_ALLOW)};

    batched.change = (struct test_change){
        .change = {.run = run, .raises_epoch = behaviour == RAISES || behaviour == GIVES, .only_gives = behaviour == GIVES}};
    batched.change.behaviour = behaviour;
    (void)snprintf(batched.change.name, sizeof batched.change.name, "%s", name);
    return batched;
}

static inline void attach_changes(struct batched *records, size_t count)
{
    for (size_t i = 0; i < count; i++) records[i].record.change = &records[i].change.change;
}
