/*
 * Checkpoints. keyd composes and signs them; the gateway proves to keyd that the log only grew. Only a note that keyd
 * returned and this gateway verified is used, never a row of a table. The newest note is served from memory.
 */
#include <string.h>

#include "audit/sequencer_priv.h"
#include "base/clock.h"

void sequencer_note_unsigned(struct sequencer *sequencer, int64_t since_ms)
{
    const int64_t wall_ms = since_ms == 0 ? 0 : clock_wall_ms() - (clock_monotonic_ms() - since_ms);

    sequencer->unsigned_since_ms = since_ms;
    metric_set(AUDIT_METRIC(audit_unsigned_since), wall_ms / 1000);
}

static void note_signed(struct sequencer *sequencer, int64_t read_at_ms)
{
    (void)pthread_mutex_lock(&sequencer->mutex);
    sequencer->sign_is_broken = false;
    /* Entries that this checkpoint does not cover were appended after the state was read. */
    sequencer_note_unsigned(sequencer, sequencer->appended_size > sequencer->newest.size ? read_at_ms : 0);
    (void)pthread_cond_broadcast(&sequencer->sign_done);
    (void)pthread_mutex_unlock(&sequencer->mutex);
    metric_set(AUDIT_METRIC(audit_signed_size), (int64_t)sequencer->newest.size);
}

static void note_failure(struct sequencer *sequencer, const struct error *why)
{
    metric_add(AUDIT_METRIC(audit_sign_failures), 1);
    (void)pthread_mutex_lock(&sequencer->mutex);
    sequencer->sign_is_broken = true;
    sequencer->sign_error = *why;
    sequencer->sign_failures++;
    (void)pthread_cond_broadcast(&sequencer->sign_done);
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

/* Another sijil-keyd may be behind the socket now: its signature is not accepted. */
static struct result take_note(struct sequencer *sequencer, const struct checkpoint_request *request, struct bytes note,
                               struct error *err)
{
    struct signed_checkpoint checkpoint;

    TRY(signed_checkpoint_read(sequencer_log_keys(sequencer), note, &checkpoint, err));
    if (checkpoint.size != request->size || memcmp(checkpoint.root.bytes, request->root, sizeof request->root) != 0)
        return failure(err, ERROR_UNAVAILABLE, "sijil-keyd signed another checkpoint than it was asked for");
    (void)pthread_mutex_lock(&sequencer->mutex);
    sequencer->newest = checkpoint;
    (void)pthread_mutex_unlock(&sequencer->mutex);
    return SUCCESS;
}

/* If keyd has signed this size already, it signs the same again. So each gateway gets the newest note. */
static struct result sign(struct sequencer *sequencer, const struct audit_signing_state *state, uint64_t old_size,
                          struct error *err)
{
    struct buffer OWNED_BUFFER note = BUFFER(KEYD_NOTE_MAX);
    const struct merkle_hash root = merkle_frontier_root(&state->frontier);
    struct checkpoint_request request = {.old_size = old_size, .size = state->frontier.size, .now_s = state->now_ms / 1000};

    memcpy(request.root, root.bytes, sizeof request.root);
    TRY(pg_await_standby(sequencer->sign_pg, err)); /* what is signed must be there when the primary is lost */
    TRY(fill_proof(sequencer, &request, err));
    TRY(keyd_sign_checkpoint(sequencer->keyd, &request, &note, err));
    TRY(take_note(sequencer, &request, buffer_bytes(&note), err));
    return audit_store_checkpoint(sequencer->sign_pg, request.size, &root, buffer_text(&note), err);
}

/* A partition is created long before it is needed. */
static struct result make_partitions(struct sequencer *sequencer, uint64_t size, struct error *err)
{
    const uint64_t wanted = (size >> AUDIT_PARTITION_BITS) + 2; /* the present partition and the next one */

    for (; sequencer->partitions < wanted; sequencer->partitions++)
        TRY(audit_ensure_partition(sequencer->sign_pg, sequencer->partitions, err));
    return SUCCESS;
}

/* keyd signs only states that a gateway read from this database. A state that is read after a signature therefore has at
 * least the signed size. */
static struct result check_state(const struct sequencer *sequencer, const struct audit_signing_state *state, struct error *err)
{
    const struct merkle_hash root = merkle_frontier_root(&state->frontier);

    if (state->frontier.size < sequencer->newest.size)
        return sequencer_refuse_shrunken(state->frontier.size, state->last_time_ms, sequencer->newest.size, err);
    if (state->frontier.size == 0 || state->frontier.size != sequencer->newest.size) return SUCCESS;
    if (merkle_hash_equal(&root, &sequencer->newest.root)) return SUCCESS;
    return failure(err, ERROR_FORKED, "the log's state was changed: its %llu events have another root than sijil-keyd has signed",
                   (unsigned long long)state->frontier.size);
}

/* What this gateway has appended last. */
struct appended {
    uint64_t size;
    struct merkle_hash root;
};

static struct appended read_appended(struct sequencer *sequencer)
{
    (void)pthread_mutex_lock(&sequencer->mutex);
    const struct appended appended = {sequencer->appended_size, sequencer->appended_root};
    (void)pthread_mutex_unlock(&sequencer->mutex);
    return appended;
}

/* Until an event is signed, only the gateway that has acknowledged it knows which one it was. So it looks for it in each state that it asks a
 * signature for: also in the next one, if the signature failed. `appended` was read before `state`. */
static struct result check_appended(struct sequencer *sequencer, const struct appended *appended,
                                    const struct audit_signing_state *state, struct error *err)
{
    const struct merkle_hash root = merkle_frontier_root(&state->frontier);
    struct merkle_proof proof = {0};

    sequencer->continued_size = appended->size; /* it counts only with a signature of this state */
    if (appended->size == sequencer->kept_size) return SUCCESS;
    if (state->frontier.size < appended->size)
        return sequencer_refuse_shrunken(state->frontier.size, state->last_time_ms, appended->size, err);
    log_tiles_init(sequencer->sign_tiles, sequencer->sign_pg, state->frontier.size);
    if (state->frontier.size > appended->size)
        TRY(merkle_prove_consistency(&sequencer->sign_tiles->tiles.source, appended->size, state->frontier.size, &proof, err));
    if (merkle_verify_consistency(appended->size, state->frontier.size, &appended->root, &root, &proof)) return SUCCESS;
    return failure(err, ERROR_FORKED,
                   "the log does not continue the %llu events that this gateway has acknowledged: it was changed before it was "
                   "signed. Restore the database (docs/backup.md); nothing is served until then",
                   (unsigned long long)appended->size);
}

static struct result read_state(struct sequencer *sequencer, struct audit_signing_state *state_out, struct error *err)
{
    const struct appended appended = read_appended(sequencer);
    struct audit_signing_state state;

    TRY(audit_signing_state(sequencer->sign_pg, &state, err));
    TRY(check_state(sequencer, &state, err));
    TRY(check_appended(sequencer, &appended, &state, err));
    TRY(make_partitions(sequencer, state.frontier.size, err));
    *state_out = state;
    return SUCCESS;
}

/* Database and sijil-keyd may both have been exchanged for others that agree with each other. This gateway still knows what it has had signed. */
static struct result check_newest(struct sequencer *sequencer, const struct keyd_identity *identity,
                                  const struct audit_signing_state *state, struct error *err)
{
    const struct merkle_hash root = merkle_frontier_root(&state->frontier);
    const struct signed_checkpoint *newest = &sequencer->newest;
    struct merkle_proof proof = {0};

    if (newest->size == 0 || newest->size == state->frontier.size) return SUCCESS; /* check_state() has compared them */
    if (identity->log_size == newest->size && memcmp(identity->log_root, newest->root.bytes, sizeof identity->log_root) == 0)
        return SUCCESS; /* sijil-keyd compares them */
    log_tiles_init(sequencer->sign_tiles, sequencer->sign_pg, state->frontier.size);
    TRY(merkle_prove_consistency(&sequencer->sign_tiles->tiles.source, newest->size, state->frontier.size, &proof, err));
    if (merkle_verify_consistency(newest->size, state->frontier.size, &newest->root, &root, &proof)) return SUCCESS;
    return failure(
        err, ERROR_FORKED,
        "the log does not continue the %llu events that this gateway has had signed: database and sijil-keyd are others "
        "now. Restore both (docs/backup.md); nothing is served until then",
        (unsigned long long)newest->size);
}

/* keyd's last size counts, not ours, because other gateways have checkpoints signed too. */
static struct result read_for_keyd(struct sequencer *sequencer, const struct keyd_identity *identity,
                                   struct audit_signing_state *state, struct error *err)
{
    if (identity->log_size > state->frontier.size)
        TRY(read_state(sequencer, state, err)); /* a state read now has at least the signed size */
    if (identity->log_size > state->frontier.size)
        return sequencer_refuse_shrunken(state->frontier.size, state->last_time_ms, identity->log_size, err);
    return check_newest(sequencer, identity, state, err);
}

static struct result sign_newer(struct sequencer *sequencer, struct audit_signing_state *state, struct error *err)
{
    struct keyd_identity identity;

    TRY(keyd_identify(sequencer->keyd, &identity, err));
    TRY(log_key_list_load(&sequencer->log_keys, sequencer->keyd, &identity, err)); /* another key may sign now */
    TRY(read_for_keyd(sequencer, &identity, state, err));
    return sign(sequencer, state, identity.log_size, err);
}

/* There is nothing to sign. sijil-keyd may have come back with another ledger: one of an older copy signs the newest state again, before it is
 * asked for something else. While it is away, nothing is wrong. */
static struct result compare_with_keyd(struct sequencer *sequencer, struct audit_signing_state *state, struct error *err)
{
    struct keyd_identity identity;
    struct error away;

    if (!keyd_identify(sequencer->keyd, &identity, &away).ok) return SUCCESS;
    TRY(read_for_keyd(sequencer, &identity, state, err));
    if (identity.log_size != state->frontier.size) return sign(sequencer, state, identity.log_size, err);
    if (identity.log_size == 0 || state->frontier.size != sequencer->newest.size ||
        memcmp(identity.log_root, sequencer->newest.root.bytes, sizeof identity.log_root) == 0)
        return SUCCESS;
    return failure(
        err, ERROR_FORKED,
        "sijil-keyd has signed another root of %llu events than it did before: its folder is another one now. Restore it "
        "(docs/backup.md); nothing is served until then",
        (unsigned long long)identity.log_size);
}

static void report_foreign_row(struct sequencer *sequencer, uint64_t foreign, const struct error *why)
{
    if (foreign != 0 && foreign != sequencer->foreign_size) {
        metric_add(AUDIT_METRIC(audit_foreign_checkpoints), 1);
        sequencer_notice(sequencer,
                         "a row of audit_checkpoint was not signed by sijil-keyd, and is ignored: find out who wrote it", why);
    }
    sequencer->foreign_size = foreign;
}

/* The rows are copies for backups. Notes are served from memory, so a deleted row does no harm, but a backup lacks its
 * checkpoint. */
static struct result keep_newest(struct sequencer *sequencer, struct error *err)
{
    bool was_missing = false;
    struct error why = {0};

    TRY(audit_keep_checkpoint(sequencer->sign_pg, &sequencer->newest, &was_missing, err));
    if (!was_missing) return SUCCESS;
    failure_write(&why, ERROR_CORRUPT, "it is over %llu events", (unsigned long long)sequencer->newest.size);
    sequencer_notice(sequencer,
                     "the newest checkpoint was missing from audit_checkpoint, and is written again: unless the database failed "
                     "just then, find out who deleted it, and restore the older ones from a backup",
                     &why);
    return SUCCESS;
}

/* Unsigned rows do no harm, but somebody wrote them. If the newest checkpoint is not among the rows, it is stored again. */
static struct result check_signed_rows(struct sequencer *sequencer, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;
    const struct signed_checkpoint *newest = &sequencer->newest;
    const struct log_keys *keys = sequencer_log_keys(sequencer);
    struct signed_checkpoint checkpoint;
    struct error why = {0};
    uint64_t foreign = 0;
    bool is_stored = newest->size == 0;

    TRY(audit_checkpoints_from(sequencer->sign_pg, newest->size, &rows, err));
    for (size_t i = 0; i < pg_rows_count(rows); i++) {
        const uint64_t size = (uint64_t)pg_int8(rows, i, 0);
        const bool is_newest = size == newest->size && strcmp(pg_text(rows, i, 1), newest->note) == 0;
        is_stored = is_stored || is_newest;
        if (is_newest || signed_checkpoint_read(keys, bytes_of_text(pg_text(rows, i, 1)), &checkpoint, &why).ok) continue;
        if (foreign == 0) foreign = size;
    }
    report_foreign_row(sequencer, foreign, &why);
    return is_stored ? SUCCESS : keep_newest(sequencer, err);
}

/* keyd answers CONFLICT when another gateway was faster: then we start again from its size. A gateway that
 * starts does the same. */
static struct result sign_unless_signed(struct sequencer *sequencer, struct error *err)
{
    struct audit_signing_state state;

    for (unsigned tries = 0; tries < SIGN_TRIES; tries++) {
        TRY(read_state(sequencer, &state, err));
        const bool is_signed = state.frontier.size == sequencer->newest.size;
        const struct result done = is_signed ? compare_with_keyd(sequencer, &state, err) : sign_newer(sequencer, &state, err);
        if (done.ok || err->kind != ERROR_CONFLICT) return done;
    }
    return failure(err, ERROR_UNAVAILABLE, "other gateways have the log signed faster than this one can ask");
}

struct result sequencer_sign_now(struct sequencer *sequencer, struct error *err)
{
    const int64_t read_at_ms = clock_monotonic_ms();

    pg_notice_loss(sequencer->sign_pg);
    if (pg_is_broken(sequencer->sign_pg)) TRY(pg_reopen(sequencer->sign_pg, err));
    TRY(sign_unless_signed(sequencer, err));
    sequencer->kept_size = sequencer->continued_size;
    note_signed(sequencer, read_at_ms);
    return check_signed_rows(sequencer, err);
}

/* Under the mutex. An idle log is checked from time to time: other gateways may append, and keyd may have died. */
static bool wait_for_round(struct sequencer *sequencer, int64_t last_ms)
{
    while (!sequencer->is_stopping) {
        const bool is_behind = sequencer->appended_size > sequencer->newest.size;
        const int64_t due_ms = last_ms + (is_behind ? SIGN_INTERVAL_MS : SIGN_IDLE_MS);
        if (sequencer->sign_is_wanted || due_ms <= clock_monotonic_ms()) {
            sequencer->sign_is_wanted = false;
            return true;
        }
        sequencer_wait(sequencer, &sequencer->sign_work, due_ms);
    }
    while (!sequencer->group_is_done) sequencer_wait(sequencer, &sequencer->sign_work, INT64_MAX);
    return false;
}

/* Under the mutex. A running round may have read the log before the entry was in it, so the caller waits for one more round. */
static bool wait_until_signed(struct sequencer *sequencer, uint64_t sequence)
{
    const int64_t until_ms = clock_monotonic_ms() + UNSIGNED_MAX_MS;
    const uint64_t failures = sequencer->sign_failures;

    while (sequencer->newest.size <= sequence) {
        if (sequencer->sign_failures != failures || sequencer->is_stopping || clock_monotonic_ms() >= until_ms) return false;
        sequencer->sign_is_wanted = true;
        (void)pthread_cond_signal(&sequencer->sign_work);
        sequencer_wait(sequencer, &sequencer->sign_done, until_ms);
    }
    return true;
}

struct result sequencer_await_signed(struct sequencer *sequencer, uint64_t sequence, struct error *err)
{
    (void)pthread_mutex_lock(&sequencer->mutex);
    const bool is_signed = wait_until_signed(sequencer, sequence);
    const struct error why = sequencer->sign_is_broken ? sequencer->sign_error : (struct error){0};
    (void)pthread_mutex_unlock(&sequencer->mutex);
    if (is_signed) return SUCCESS;
    if (why.kind != ERROR_NONE) return failure(err, why.kind, "%s", why.message);
    return failure(err, ERROR_UNAVAILABLE, "entry %llu of the log was not signed in time", (unsigned long long)sequence);
}

/* The next start, of this or another gateway, must know of the fork, because a start does not read the whole log. */
static struct result report_fork(struct sequencer *sequencer, struct error *err)
{
    struct error found = {0};

    (void)pthread_mutex_lock(&sequencer->mutex);
    if (!sequencer->fork_is_reported) found = sequencer->forked;
    (void)pthread_mutex_unlock(&sequencer->mutex);
    if (found.kind == ERROR_NONE) return SUCCESS;
    TRY(keyd_log_forked(sequencer->keyd, found.message, err));
    (void)pthread_mutex_lock(&sequencer->mutex);
    sequencer->fork_is_reported = true;
    (void)pthread_mutex_unlock(&sequencer->mutex);
    return SUCCESS;
}

static bool sign_round(struct sequencer *sequencer, struct error *err)
{
    if (report_fork(sequencer, err).ok && sequencer_sign_now(sequencer, err).ok) return true;
    note_failure(sequencer, err);
    if (err->kind == ERROR_FORKED) sequencer_set_forked(sequencer, err);
    return false;
}

/* The last round comes after the last group: while no gateway runs, unsigned entries could be removed unnoticed. */
static void sign_rest(struct sequencer *sequencer)
{
    const int64_t until_ms = clock_monotonic_ms() + sequencer->deadline_ms / SIGN_AT_END_SHARE;
    struct error err = {0};

    while (!sign_round(sequencer, &err)) {
        if (err.kind == ERROR_FORKED || clock_monotonic_ms() >= until_ms) {
            sequencer_notice(sequencer, "stopping, and the last events of the log are not signed", &err);
            return;
        }
        (void)pthread_mutex_lock(&sequencer->mutex);
        sequencer_wait(sequencer, &sequencer->sign_work, clock_monotonic_ms() + SIGN_INTERVAL_MS);
        (void)pthread_mutex_unlock(&sequencer->mutex);
    }
}

void *sequencer_sign_run(void *argument)
{
    struct sequencer *sequencer = argument;
    int64_t last_ms = 0;

    for (;;) {
        struct error err = {0};
        (void)pthread_mutex_lock(&sequencer->mutex);
        const bool goes_on = wait_for_round(sequencer, last_ms);
        (void)pthread_mutex_unlock(&sequencer->mutex);
        if (!goes_on) break;
        last_ms = clock_monotonic_ms();
        (void)sign_round(sequencer, &err);
    }
    sign_rest(sequencer);
    return NULL;
}
