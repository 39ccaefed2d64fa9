/* Checkpoints: keyd composes and signs them; we prove to it that the log only grew. */
#include <string.h>

#include "audit/sequencer_priv.h"
#include "base/clock.h"

static void note_signed(struct sequencer *sequencer, uint64_t size, int64_t read_at_ms)
{
    (void)pthread_mutex_lock(&sequencer->mutex);
    if (size > sequencer->signed_size) sequencer->signed_size = size;
    sequencer->sign_is_broken = false;
    /* Whatever is not under this checkpoint was appended after the state was read. */
    sequencer->unsigned_since_ms = sequencer->appended_size > sequencer->signed_size ? read_at_ms : 0;
    (void)pthread_mutex_unlock(&sequencer->mutex);
    metric_set(AUDIT_METRIC(audit_signed_size), (int64_t)size);
}

static void note_failure(struct sequencer *sequencer, const struct error *why)
{
    metric_add(AUDIT_METRIC(audit_sign_failures), 1);
    (void)pthread_mutex_lock(&sequencer->mutex);
    sequencer->sign_is_broken = true;
    sequencer->sign_error = *why;
    (void)pthread_mutex_unlock(&sequencer->mutex);
}

static struct result fill_proof(struct sequencer *sequencer, struct checkpoint_request *request, struct error *err)
{
    struct merkle_proof proof = {0};

    if (request->old_size > 0) {
        log_tiles_init(sequencer->sign_tiles, sequencer->sign_pg, request->size);
        TRY(merkle_prove_consistency(&sequencer->sign_tiles->tiles.source, request->old_size, request->size, &proof, err));
    }
    request->proof_count = proof.count;
    for (size_t i = 0; i < proof.count; i++) memcpy(request->proof[i], proof.hashes[i].bytes, MERKLE_HASH_SIZE);
    return SUCCESS;
}

static struct result sign(struct sequencer *sequencer, const struct audit_signing_state *state, uint64_t old_size,
                          struct error *err)
{
    struct buffer OWNED_BUFFER note = BUFFER(KEYD_NOTE_MAX);
    const struct merkle_hash root = merkle_frontier_root(&state->frontier);
    struct checkpoint_request request = {
        .old_size = old_size, .size = state->frontier.size, .now_s = state->now_ms / 1000};

    memcpy(request.root, root.bytes, sizeof request.root);
    TRY(fill_proof(sequencer, &request, err));
    TRY(keyd_sign_checkpoint(sequencer->keyd, &request, &note, err));
    return audit_store_checkpoint(sequencer->sign_pg, request.size, &root, buffer_text(&note), err);
}

/* The next partition is there long before it is needed. */
static struct result make_partitions(struct sequencer *sequencer, uint64_t size, struct error *err)
{
    const uint64_t wanted = (size >> AUDIT_PARTITION_BITS) + 2; /* this one and the next */

    for (; sequencer->partitions < wanted; sequencer->partitions++)
        TRY(audit_ensure_partition(sequencer->sign_pg, sequencer->partitions, err));
    return SUCCESS;
}

static struct result refuse_shrunken(uint64_t size, uint64_t signed_size, struct error *err)
{
    return failure(err, ERROR_CORRUPT,
                   "the database has %llu events, but sijil-keyd has signed %llu: it was truncated, or restored from "
                   "an older backup. Restore the newest one; nothing is served until then",
                   (unsigned long long)size, (unsigned long long)signed_size);
}

/* keyd signs only what a gateway has read from this database: read now, it has at least that, unless events are gone. */
static struct result check_none_lost(struct sequencer *sequencer, uint64_t signed_size, struct error *err)
{
    struct audit_signing_state state;

    TRY(audit_signing_state(sequencer->sign_pg, &state, err));
    return state.frontier.size >= signed_size ? SUCCESS : refuse_shrunken(state.frontier.size, signed_size, err);
}

/* keyd's own last size counts, not ours: other gateways have checkpoints signed too. */
static struct result sign_round(struct sequencer *sequencer, struct error *err)
{
    struct audit_signing_state state;
    struct keyd_identity identity;
    const int64_t read_at_ms = clock_monotonic_ms();

    pg_notice_loss(sequencer->sign_pg);
    if (pg_is_broken(sequencer->sign_pg)) TRY(pg_reopen(sequencer->sign_pg, err));
    TRY(audit_signing_state(sequencer->sign_pg, &state, err));
    TRY(make_partitions(sequencer, state.frontier.size, err));
    const uint64_t size = state.frontier.size;
    if (state.checkpoint_size < size) {
        TRY(keyd_identify(sequencer->keyd, &identity, err));
        if (identity.log_size <= size) TRY(sign(sequencer, &state, identity.log_size, err));
        else TRY(check_none_lost(sequencer, identity.log_size, err));
    }
    note_signed(sequencer, size > state.checkpoint_size ? size : state.checkpoint_size, read_at_ms);
    return SUCCESS;
}

/* Under the mutex. An idle log is looked at now and then: other gateways may append to it, keyd may have died. */
static bool wait_for_round(struct sequencer *sequencer, int64_t last_ms)
{
    while (!sequencer->is_stopping) {
        const bool is_behind = sequencer->appended_size > sequencer->signed_size;
        const int64_t due_ms = last_ms + (is_behind ? SIGN_INTERVAL_MS : SIGN_IDLE_MS);
        if (due_ms <= clock_monotonic_ms()) return true;
        sequencer_wait(sequencer, &sequencer->sign_work, due_ms);
    }
    while (!sequencer->group_is_done) sequencer_wait(sequencer, &sequencer->sign_work, INT64_MAX);
    return false;
}

void *sequencer_sign_run(void *argument)
{
    struct sequencer *sequencer = argument;
    int64_t last_ms = 0;
    bool goes_on = true;

    while (goes_on) { /* the last round is after the last group */
        struct error err = {0};
        (void)pthread_mutex_lock(&sequencer->mutex);
        goes_on = wait_for_round(sequencer, last_ms);
        (void)pthread_mutex_unlock(&sequencer->mutex);
        last_ms = clock_monotonic_ms();
        if (!sign_round(sequencer, &err).ok) note_failure(sequencer, &err);
    }
    return NULL;
}

static struct result compare_with_keyd(struct sequencer *sequencer, const struct audit_signing_state *state,
                                       const struct keyd_identity *identity, struct error *err)
{
    struct merkle_hash root;

    if (identity->log_size > state->frontier.size)
        return refuse_shrunken(state->frontier.size, identity->log_size, err);
    if (identity->log_size == 0 && state->checkpoint_size > 0)
        return failure(err, ERROR_CORRUPT, "sijil-keyd has signed nothing yet, but the database has signed checkpoints: "
                                           "its key directory is not the one that belongs to this log");
    TRY(merkle_root_at(&sequencer->sign_tiles->tiles.source, identity->log_size, &root, err));
    if (identity->log_size > 0 && memcmp(root.bytes, identity->log_root, sizeof root.bytes) != 0)
        return failure(err, ERROR_CORRUPT, "the first %llu events of the database are not those that sijil-keyd has "
                                           "signed: the log was changed. Restore the database; nothing is served until then",
                       (unsigned long long)identity->log_size);
    return SUCCESS;
}

struct result sequencer_check_log(struct sequencer *sequencer, struct error *err)
{
    struct keyd_identity identity;
    struct audit_signing_state state;
    struct merkle_hash root;

    TRY(keyd_identify(sequencer->keyd, &identity, err));
    if (strcmp(identity.origin, sequencer->origin) != 0)
        return failure(err, ERROR_INVALID, "sijil-keyd signs the log \"%.60s\", but this gateway writes \"%.60s\"",
                       identity.origin, sequencer->origin);
    TRY(audit_signing_state(sequencer->sign_pg, &state, err));
    log_tiles_init(sequencer->sign_tiles, sequencer->sign_pg, state.frontier.size);
    TRY(merkle_root_at(&sequencer->sign_tiles->tiles.source, state.frontier.size, &root, err));
    const struct merkle_hash stated = merkle_frontier_root(&state.frontier);
    if (!merkle_hash_equal(&root, &stated))
        return failure(err, ERROR_CORRUPT, "the events in the database do not have the root that the log's state has: "
                                           "rows were changed. Restore the database; nothing is served until then");
    TRY(compare_with_keyd(sequencer, &state, &identity, err));
    TRY(make_partitions(sequencer, state.frontier.size, err));
    sequencer->appended_size = state.frontier.size;
    sequencer->signed_size = state.checkpoint_size;
    return SUCCESS;
}
