#include "gateway/pipeline/lease_proofs.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "training/format/envelope.h"

#define PROOFS 4096 /* leases that go on at once, with room. Two in one place are proven more often */

struct proof {
    struct uuid run;
    int64_t attempt, node, ends_ms; /* 0: none */
    char key[RUN_KEY_SIZE], order[RUN_DIGEST_TEXT];
};

struct lease_proofs {
    pthread_mutex_t mutex;
    struct proof each[PROOFS];
};

struct result lease_proofs_new(struct lease_proofs **proofs_out, struct error *err)
{
    struct lease_proofs *proofs = memory_zeroed(1, sizeof *proofs);

    if (proofs == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for proofs of leases");
    (void)pthread_mutex_init(&proofs->mutex, NULL);
    *proofs_out = proofs;
    return SUCCESS;
}

/* Of an attempt's nodes each has another place. */
static struct proof *place_of(struct lease_proofs *proofs, const struct run_holder *holder)
{
    const size_t drawn = (size_t)load_u32(holder->run.bytes) + (size_t)holder->attempt * 256 + (size_t)holder->node;

    return &proofs->each[drawn % PROOFS];
}

static bool is_of(const struct proof *proof, const struct run_holder *holder, const char *order)
{
    return uuid_equal(&proof->run, &holder->run) && proof->attempt == holder->attempt && proof->node == holder->node &&
           strcmp(proof->key, holder->key) == 0 && (order == NULL || strcmp(proof->order, order) == 0);
}

bool lease_proofs_find(struct lease_proofs *proofs, const struct run_holder *holder, const char *order, int64_t now_ms,
                       int64_t *ends_ms_out)
{
    (void)pthread_mutex_lock(&proofs->mutex);
    const struct proof *proof = place_of(proofs, holder);
    const bool is_found = now_ms < proof->ends_ms && is_of(proof, holder, order);
    if (is_found) *ends_ms_out = proof->ends_ms;
    (void)pthread_mutex_unlock(&proofs->mutex);
    return is_found;
}

void lease_proofs_keep(struct lease_proofs *proofs, const struct run_holder *holder, const char *order, int64_t ends_ms)
{
    struct proof proof = {.run = holder->run, .attempt = holder->attempt, .node = holder->node, .ends_ms = ends_ms};

    if (strlen(holder->key) >= sizeof proof.key || strlen(order) >= sizeof proof.order) return;
    (void)snprintf(proof.key, sizeof proof.key, "%s", holder->key);
    (void)snprintf(proof.order, sizeof proof.order, "%s", order);
    (void)pthread_mutex_lock(&proofs->mutex);
    *place_of(proofs, holder) = proof;
    (void)pthread_mutex_unlock(&proofs->mutex);
}

void lease_proofs_free(struct lease_proofs *proofs)
{
    if (proofs == NULL) return;
    (void)pthread_mutex_destroy(&proofs->mutex);
    free(proofs);
}
