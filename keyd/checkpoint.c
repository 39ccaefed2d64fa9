#include "keyd/checkpoint.h"

#include <stdio.h>
#include <string.h>

#include "audit/format/checkpoint.h"
#include "audit/format/succession.h"

static struct result check_first(const struct checkpoint_request *request, struct error *err)
{
    const struct merkle_hash empty = merkle_empty_root();

    if (request->old_size != 0)
        return failure(err, ERROR_CONFLICT, "no checkpoint was signed yet: prove from size 0, with no hashes");
    if (request->proof_count != 0)
        return failure(err, ERROR_INVALID, "nothing can be proven from size 0: the proof must be empty");
    if (request->size == 0 && memcmp(request->root, empty.bytes, sizeof empty.bytes) != 0)
        return failure(err, ERROR_FORKED, "the root of the empty log is another");
    return SUCCESS;
}

static struct result check_growth(const struct checkpoint_request *request, const struct ledger_state *last, struct error *err)
{
    struct merkle_hash old_root, root;
    struct merkle_proof proof = {.count = request->proof_count};

    /* Checked first: another gateway may have had a larger log signed since this one asked for the last size. */
    if (request->old_size != last->log_size)
        return failure(err, ERROR_CONFLICT, "the last checkpoint has size %llu: prove from there",
                       (unsigned long long)last->log_size);
    if (request->size < last->log_size)
        return failure(err, ERROR_FORKED,
                       "%llu events of the log were signed, now it has %llu: it was truncated, or restored from an older "
                       "backup. It is signed again when it has them all; else two officers sign a new origin (docs/recovery.md)",
                       (unsigned long long)last->log_size, (unsigned long long)request->size);
    _Static_assert(KEYD_PROOF_MAX == MERKLE_PROOF_MAX, "every proof can be sent");
    for (size_t i = 0; i < proof.count; i++) memcpy(proof.hashes[i].bytes, request->proof[i], MERKLE_HASH_SIZE);
    memcpy(old_root.bytes, last->log_root, sizeof old_root.bytes);
    memcpy(root.bytes, request->root, sizeof root.bytes);
    if (!merkle_verify_consistency(last->log_size, request->size, &old_root, &root, &proof))
        return failure(err, ERROR_FORKED, "the log does not continue what was signed at size %llu: it forked",
                       (unsigned long long)last->log_size);
    return SUCCESS;
}

struct signing {
    const struct checkpoint_request *request;
    uint32_t number; /* of the log that the note names */
};

static struct result advance(const void *context, struct ledger_state *state, struct error *err)
{
    const struct signing *signing = context;
    const struct checkpoint_request *request = signing->request;

    if (state->log_number != signing->number)
        return failure(err, ERROR_CONFLICT, "the log has another origin now: ask for it again");
    if (state->finding[0] != '\0')
        return failure(err, ERROR_FORKED,
                       "a gateway found the log changed (%.128s); nothing of it is signed until an operator says that it is "
                       "restored (docs/audit.md)",
                       state->finding);
    TRY(state->log_size == 0 ? check_first(request, err) : check_growth(request, state, err));
    state->log_size = request->size;
    memcpy(state->log_root, request->root, sizeof state->log_root);
    return SUCCESS;
}

struct result checkpoint_compose(const struct checkpoint_signer *signer, uint32_t number,
                                 const struct checkpoint_request *request, int64_t now_ms, struct buffer *note, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(CHECKPOINT_TEXT_MAX);
    struct checkpoint checkpoint = {.size = request->size};

    TRY(succession_origin(keyring_origin(signer->keyring), number, checkpoint.origin, err));
    memcpy(checkpoint.root.bytes, request->root, sizeof request->root);
    TRY(checkpoint_write(&checkpoint, &text, err));
    return log_rotation_sign(signer->rotation, buffer_bytes(&text), request->size, now_ms, note, err);
}

/* Computed without overflow, because the request's clock may be any number. */
static bool clock_is_close(int64_t theirs_s, int64_t ours_s)
{
    return theirs_s >= ours_s - CHECKPOINT_CLOCK_MAX_S && theirs_s <= ours_s + CHECKPOINT_CLOCK_MAX_S;
}

struct result checkpoint_sign(const struct checkpoint_signer *signer, const struct checkpoint_request *request, int64_t now_ms,
                              struct buffer *note, struct error *err)
{
    if (!clock_is_close(request->now_s, now_ms / 1000))
        return failure(err, ERROR_INVALID, "the database's clock is more than %d s off the one of sijil-keyd",
                       CHECKPOINT_CLOCK_MAX_S);
    if (request->size > MERKLE_SIZE_MAX) return failure(err, ERROR_INVALID, "a log of more entries than a checkpoint can state");

    const size_t length = note->length;
    struct ledger_state state;
    log_rotation_hold(signer->rotation); /* a new key follows before or after this checkpoint */
    ledger_read(signer->ledger, &state);
    const struct signing signing = {request, state.log_number};
    struct result result = checkpoint_compose(signer, signing.number, request, now_ms, note, err);
    if (result.ok) result = ledger_change(signer->ledger, advance, &signing, err);
    log_rotation_release(signer->rotation);
    if (!result.ok) buffer_truncate(note, length); /* the signature was not released, so it is dropped */
    return result;
}
