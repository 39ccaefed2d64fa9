#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/search_index.h"
#include "base/memory.h"
#include "bench/log_bulk.h"

#define WORKERS 2

struct worker {
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool is_full, is_ending;
    struct pg *pg;
    struct search_batch *batch;
};

struct bulk_index {
    struct keyd_client *keyd;
    int year; /* of `key` */
    struct secret *key;
    uint64_t known;
    bool is_begun; /* a block */
    struct worker *worker;
    struct worker workers[WORKERS];
};

/* The lock of the index is held by the filling transaction, so no gateway writes into it meanwhile. */
static struct result write_block(struct worker *worker, struct error *err)
{
    uint64_t indexed = 0, size = 0;
    bool is_mine = false;

    TRY(pg_begin(worker->pg, err));
    TRY(search_index_begin(worker->pg, &is_mine, &indexed, &size, err));
    TRY(search_batch_write(worker->batch, worker->pg, err));
    return pg_commit(worker->pg, err);
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    struct error err = {0};

    (void)pthread_mutex_lock(&worker->mutex);
    for (;;) {
        while (!worker->is_full && !worker->is_ending) (void)pthread_cond_wait(&worker->changed, &worker->mutex);
        if (!worker->is_full) break;
        (void)pthread_mutex_unlock(&worker->mutex);
        if (!write_block(worker, &err).ok) {
            (void)fprintf(stderr, "log_bulk: %s\n", err.message);
            exit(1);
        }
        (void)pthread_mutex_lock(&worker->mutex);
        worker->is_full = false;
        (void)pthread_cond_signal(&worker->changed);
    }
    (void)pthread_mutex_unlock(&worker->mutex);
    return NULL;
}

static struct result start(struct worker *worker, const char *conninfo, struct error *err)
{
    static const struct pg_table *const tables[] = {&audit_search_index_table, &audit_subject_table, NULL};

    TRY(pg_open(conninfo, tables, &worker->pg, err));
    TRY(search_batch_new(&worker->batch, err));
    (void)pthread_mutex_init(&worker->mutex, NULL);
    (void)pthread_cond_init(&worker->changed, NULL);
    if (pthread_create(&worker->thread, NULL, work, worker) != 0) return failure(err, ERROR_NO_MEMORY, "no thread");
    return SUCCESS;
}

struct result bulk_index_new(const char *conninfo, struct keyd_client *keyd, uint64_t from, struct bulk_index **index_out,
                             struct error *err)
{
    struct bulk_index *index = memory_zeroed(1, sizeof *index);

    if (index == NULL) return failure(err, ERROR_NO_MEMORY, "no memory");
    index->keyd = keyd;
    index->known = from;
    for (size_t i = 0; i < WORKERS; i++) TRY(start(&index->workers[i], conninfo, err));
    *index_out = index;
    return SUCCESS;
}

static void await_idle(struct worker *worker)
{
    (void)pthread_mutex_lock(&worker->mutex);
    while (worker->is_full) (void)pthread_cond_wait(&worker->changed, &worker->mutex);
    (void)pthread_mutex_unlock(&worker->mutex);
}

static void tell(struct worker *worker, bool is_full)
{
    (void)pthread_mutex_lock(&worker->mutex);
    worker->is_full = is_full;
    worker->is_ending = !is_full;
    (void)pthread_cond_signal(&worker->changed);
    (void)pthread_mutex_unlock(&worker->mutex);
}

static void begin_block(struct bulk_index *index, uint64_t first)
{
    index->worker = &index->workers[first / POSTING_BLOCK % WORKERS];
    await_idle(index->worker);
    search_batch_begin(index->worker->batch, first / POSTING_BLOCK, first % POSTING_BLOCK == 0);
    index->is_begun = true;
}

static void set_year(struct bulk_index *index, int year)
{
    struct error err = {0};

    if (index->year == year) return;
    secret_free(index->key);
    if (!blind_key_open(index->keyd, index->workers[0].pg, year, true, &index->key, &err).ok) {
        (void)fprintf(stderr, "log_bulk: %s\n", err.message);
        exit(1);
    }
    index->year = year;
}

static void add_blind(struct bulk_index *index, unsigned place, const struct audit_subject *sealer, const char *address,
                      const char *country)
{
    char texts[3][BLIND_TEXT_SIZE];
    static const enum search_field fields[3] = {SEARCH_ADDRESS, SEARCH_NETWORK, SEARCH_COUNTRY};

    if (!blind_address(address, texts[0], texts[1])) abort();
    (void)snprintf(texts[2], sizeof texts[2], "%.*s", (int)strcspn(country, "/"), country);
    for (size_t i = 0; i < 3; i++)
        search_batch_add_blind(index->worker->batch, place, blind_key_of(index->key, fields[i], texts[i]), sealer->index);
}

void bulk_index_add(struct bulk_index *index, const struct leaf *leaf, const struct audit_subject *sealer, const char *address,
                    const char *country)
{
    const unsigned place = (unsigned)(leaf->sequence % POSTING_BLOCK);
    struct search_terms terms;

    set_year(index, blind_year(leaf->time_ms));
    if (!index->is_begun) begin_block(index, leaf->sequence);
    assert(search_batch_has_room(index->worker->batch));
    search_terms_of(leaf, &terms);
    for (size_t i = 0; i < terms.count; i++) search_batch_add(index->worker->batch, place, terms.keys[i]);
    if (sealer != NULL) add_blind(index, place, sealer, address, country);
    if (place + 1 < POSTING_BLOCK) return;
    tell(index->worker, true);
    index->is_begun = false;
    index->known = leaf->sequence + 1;
}

uint64_t bulk_index_end(struct bulk_index *index)
{
    const uint64_t known = index->known;

    for (size_t i = 0; i < WORKERS; i++) {
        await_idle(&index->workers[i]);
        tell(&index->workers[i], false);
        (void)pthread_join(index->workers[i].thread, NULL);
        pg_free(index->workers[i].pg);
        search_batch_free(index->workers[i].batch);
    }
    secret_free(index->key);
    free(index);
    return known;
}
