/*
 * Which stored set is in force: sijil-keyd is the one that must be convinced, by the log that it has signed itself. What the
 * database says of a set is no more than a hint where to look.
 */
#include <string.h>

#include "audit/query.h"
#include "crypto/digest.h"
#include "policy/set_load_priv.h"
#include "policy/set_store.h"

#define PIN_TRIES 20 /* each is lost only to another gateway, which had more of the log signed, or pinned a set meanwhile */

/* A stored set that was loaded, and the event that says so. */
struct candidate {
    struct bytes envelope, leaf;
    uint64_t sequence;
    const struct policy_set *set;
};

static struct result fill_proof(const struct policy_set_source *source, struct policy_pin_request *request, struct error *err)
{
    struct merkle_proof proof = {0};

    TRY(audit_prove_inclusion(source->pg, request->sequence, request->size, &proof, err));
    request->proof_count = proof.count;
    for (size_t i = 0; i < proof.count; i++) memcpy(request->proof[i], proof.hashes[i].bytes, MERKLE_HASH_SIZE);
    return SUCCESS;
}

/* ERROR_CONFLICT: begin again from what keyd says now. */
static struct result pin(const struct policy_set_source *source, const struct keyd_identity *identity,
                         const struct candidate *candidate, struct error *err)
{
    struct policy_pin_request request = {.envelope = candidate->envelope,
                                         .leaf = candidate->leaf,
                                         .sequence = candidate->sequence,
                                         .size = identity->log_size};
    uint8_t pinned[SHA256_SIZE], digest[SHA256_SIZE];
    uint64_t epoch = 0;

    if (request.sequence >= request.size) {
        TRY(sequencer_await_signed(source->sequencer, request.sequence, err));
        return failure(err, ERROR_CONFLICT, "the log was signed meanwhile");
    }
    TRY(fill_proof(source, &request, err));
    TRY(keyd_pin_policy(source->keyd, &request, &epoch, pinned, err));
    policy_set_raw_digest(candidate->set, digest);
    if (epoch != policy_set_epoch(candidate->set) || memcmp(pinned, digest, sizeof digest) != 0)
        return failure(err, ERROR_CORRUPT, "keyd has pinned another policy set than it was given");
    return SUCCESS;
}

static bool is_pinned(const struct policy_set *set, const struct keyd_identity *identity)
{
    uint8_t digest[SHA256_SIZE];

    if (set == NULL || policy_set_epoch(set) != identity->policy_epoch) return false;
    policy_set_raw_digest(set, digest);
    return memcmp(digest, identity->policy_digest, sizeof digest) == 0;
}

/* keyd has looked, and is not convinced: the entry is not what the database says, or not in the log. */
static bool is_unconvincing(enum error_kind kind)
{
    return kind == ERROR_NOT_FOUND || kind == ERROR_INVALID;
}

/* *fits_out: the set is in force. Whoever can write rows must not be able to stop the registry: what does not fit is passed over. */
static struct result consider(const struct policy_set_source *source, const struct keyd_identity *identity,
                              const struct candidate *candidate, bool *fits_out, struct error *err)
{
    struct error refused = {0};

    *fits_out = is_pinned(candidate->set, identity);
    if (*fits_out || policy_set_epoch(candidate->set) <= identity->policy_epoch || candidate->leaf.length == 0) return SUCCESS;
    *fits_out = pin(source, identity, candidate, &refused).ok;
    if (*fits_out || is_unconvincing(refused.kind)) return SUCCESS;
    const bool was_beaten = refused.kind == ERROR_DENIED; /* another gateway pinned a newer one */
    return failure(err, was_beaten ? ERROR_CONFLICT : refused.kind, "%s", refused.message);
}

static void note_strange(struct strange_sets *strange, uint64_t epoch)
{
    strange->count++;
    if (epoch > strange->newest) strange->newest = epoch;
}

/* Newest first: the pinned one, or a newer one that was loaded and that keyd then takes. */
static struct result choose(struct policy_set_source *source, const struct keyd_identity *identity,
                            const struct ecdsa_key *approver, struct policy_set **set_out, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;

    TRY(policy_set_newest(source->pg, identity->policy_epoch, &rows, err));
    for (size_t i = 0; i < pg_rows_count(rows); i++) {
        OWNED(policy_set) *set = NULL;
        struct candidate candidate = {pg_bytes(rows, i, 0), pg_bytes(rows, i, 2), (uint64_t)pg_int8(rows, i, 1), NULL};
        struct error refused = {0};
        bool fits = false;
        if (!policy_set_read(candidate.envelope, approver, &set, &refused).ok) {
            if (refused.kind == ERROR_NO_MEMORY) return failure(err, ERROR_NO_MEMORY, "%s", refused.message);
            continue;
        }
        candidate.set = set;
        TRY(consider(source, identity, &candidate, &fits, err));
        if (!fits) {
            note_strange(&source->strange, policy_set_epoch(set));
            continue;
        }
        *set_out = GIVE(set);
        return SUCCESS;
    }
    if (identity->policy_epoch != 0)
        return failure(err, ERROR_CORRUPT, "keyd has pinned policy epoch %llu, and the database does not have that set",
                       (unsigned long long)identity->policy_epoch);
    *set_out = NULL;
    return SUCCESS;
}

static struct result load_once(struct policy_set_source *source, struct policy_set *current, struct policy_set **set_out,
                               struct error *err)
{
    OWNED(ecdsa_key) *approver = NULL;
    struct keyd_identity identity;
    struct policy_set_news news;

    TRY(keyd_identify(source->keyd, &identity, err));
    TRY(policy_set_news(source->pg, identity.policy_epoch, &news, err));
    source->strange = news.strange;
    if (!news.has_loaded && is_pinned(current, &identity)) {
        *set_out = policy_set_keep(current);
        return SUCCESS;
    }
    TRY(policy_set_approver(&identity, &approver, err));
    if (approver != NULL) return choose(source, &identity, approver, set_out, err);
    *set_out = NULL;
    return SUCCESS;
}

struct result policy_set_load(struct policy_set_source *source, struct policy_set *current, struct policy_set **set_out,
                              struct error *err)
{
    for (unsigned i = 0; i < PIN_TRIES; i++) {
        const struct result loaded = load_once(source, current, set_out, err);
        if (loaded.ok || err->kind != ERROR_CONFLICT) return loaded;
    }
    return failure(err, ERROR_UNAVAILABLE, "other gateways have the log signed faster than a policy set can be pinned");
}
