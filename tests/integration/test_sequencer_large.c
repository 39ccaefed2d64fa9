/* A log of more than 65,536 entries: tiles of the second level, and proofs with them. */
#include "audit/job_permit.h"
#include "tests/support/unit.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "audit/format/leaf.h"
#include "audit/log_tiles_priv.h"
#include "audit/query.h"
#include "tests/support/audit_log.h"

#define EVENTS 66000
#define BATCH  2000

struct batch {
    pthread_mutex_t mutex;
    pthread_cond_t all_done;
    size_t left;
};
struct batched {
    struct record record; /* first */
    struct batch *batch;
};

static void one_done(struct record *record)
{
    struct batch *batch = ((struct batched *)(void *)record)->batch;

    (void)pthread_mutex_lock(&batch->mutex);
    if (record->status == RECORD_DONE && --batch->left == 0) (void)pthread_cond_signal(&batch->all_done);
    (void)pthread_mutex_unlock(&batch->mutex);
}

static void append(struct sequencer *sequencer, const struct permit *permit)
{
    static struct batched records[BATCH];
    struct batch batch = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, BATCH};

    for (size_t i = 0; i < BATCH; i++) {
        records[i] =
            (struct batched){.record = {.under = permit, .outcome = OUTCOME_COMPLETED, .done = one_done}, .batch = &batch};
        sequencer_submit(sequencer, &records[i].record);
    }
    (void)pthread_mutex_lock(&batch.mutex);
    while (batch.left > 0) (void)pthread_cond_wait(&batch.all_done, &batch.mutex);
    (void)pthread_mutex_unlock(&batch.mutex);
}

static struct merkle_hash leaf_hash_of(struct pg *pg, const struct permit *auditor, uint64_t sequence)
{
    OWNED(audit_page) *page = NULL;
    struct error err = {0};
    struct merkle_hash hash;

    if (!audit_find(auditor, pg, sequence, &page, &err).ok) fail_msg("%s", err.message);
    merkle_leaf_hash(audit_page_leaf(page, 0), &hash);
    return hash;
}

static void check_proofs(struct pg *pg, const struct permit *auditor, uint64_t size)
{
    static const uint64_t indices[] = {0, 255, 256, 65279, 65280, 65535, 65536, EVENTS};
    struct log_tiles *log = calloc(1, sizeof *log);
    struct merkle_hash root, old_root;
    struct merkle_proof proof;
    struct error err = {0};

    assert_non_null(log);
    log_tiles_init(log, pg, size);
    assert_true(merkle_root_at(&log->tiles.source, size, &root, &err).ok);
    for (size_t i = 0; i < COUNT(indices); i++) {
        const struct merkle_hash leaf = leaf_hash_of(pg, auditor, indices[i]);
        assert_true(merkle_prove_inclusion(&log->tiles.source, indices[i], size, &proof, &err).ok);
        assert_true(merkle_verify_inclusion(indices[i], size, &leaf, &proof, &root));
        if (indices[i] == 0) continue;
        assert_true(merkle_root_at(&log->tiles.source, indices[i], &old_root, &err).ok);
        assert_true(merkle_prove_consistency(&log->tiles.source, indices[i], size, &proof, &err).ok);
        assert_true(merkle_verify_consistency(indices[i], size, &old_root, &root, &proof));
    }
    free(log);
}

static void tiles_of_the_second_level(void **state)
{
    static const struct action_pair start = {ACTION_SERVER_START, {.kind = RESOURCE_SYSTEM}};
    static const struct action_pair read = {ACTION_AUDIT_READ, {.kind = RESOURCE_SYSTEM}};
    static const struct pg_table *const tables[] = {&audit_query_table, &audit_tree_table, NULL};
    struct audit_log log;
    OWNED(permit) *permit = NULL;
    OWNED(permit) *auditor = NULL;
    OWNED(pg) *pg = NULL;
    struct error err = {0};

    (void)state;
    audit_log_open(&log);
    assert_true(permit_for_job(log.sequencer, &start, &permit, &err).ok);
    for (size_t i = 0; i < EVENTS / BATCH; i++) append(log.sequencer, permit);
    sequencer_free(log.sequencer);
    assert_string_equal(database_ask(log.database, "SELECT string_agg(level || ':' || n, ' ' ORDER BY level) FROM"
                                                   " (SELECT level, count(*) AS n FROM audit_tile GROUP BY level) t"),
                        "0:257 1:1");
    assert_string_equal(
        database_ask(log.database, "SELECT (max(c.size) = (SELECT size FROM audit_log))::text FROM audit_checkpoint c"), "true");
    log.sequencer = audit_log_start(&log, "gw1"); /* which compares the tiles' root with the state's, and with keyd's */
    assert_true(permit_for_job(log.sequencer, &read, &auditor, &err).ok);
    assert_true(pg_open(database_app(log.database), tables, &pg, &err).ok);
    check_proofs(pg, auditor, EVENTS + 2);
    audit_log_close(&log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(tiles_of_the_second_level)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
