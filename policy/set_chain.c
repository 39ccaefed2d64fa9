#include "policy/set_chain.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "crypto/digest.h"
#include "documents/format/signing_key.h"
#include "policy/set_change.h"

#define CHAIN_IDS_MAX 4096 /* as many as sijil-keyd keeps; then no id counts as unused */

struct set_chain {
    struct ecdsa_key *root; /* a copy of the public half */
    struct document_trust trust;
    struct set_chain_end end;
    struct document_pin pin;
    struct document_pin passed; /* the last set that counts for nothing; epoch 0: none */
    struct error why;           /* it does not */
    uint64_t sequence;          /* of the last link */
    size_t links, id_count, pin_count;
    struct document_pin pins[SET_CHAIN_LINKS_MAX]; /* of all sets that count */
    uint8_t ids[CHAIN_IDS_MAX][DOCUMENT_DIGEST_SIZE];
};

struct result set_chain_new(const struct ecdsa_key *root, struct set_chain **chain_out, struct error *err)
{
    OWNED(set_chain) *chain = memory_zeroed(1, sizeof *chain);

    if (chain == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the policy sets of a registry");
    ecdsa_key_public(root, chain->trust.root);
    TRY(ecdsa_key_from_public(chain->trust.root, &chain->root, err));
    *chain_out = GIVE(chain);
    return SUCCESS;
}

void set_chain_free(struct set_chain *chain)
{
    if (chain == NULL) return;
    policy_set_free(chain->end.set);
    ecdsa_key_free(chain->root);
    free(chain);
}

/* ---- keys ---- */

/* sijil-keyd refuses such a key as well, so it never counted. */
static struct result take_key(struct set_chain *chain, const struct document *document, struct error *err)
{
    struct error refused = {0};
    struct result taken = document_check(document, &chain->trust, &refused);

    if (taken.ok) taken = signing_key_note(document, chain->trust.approvers, chain->trust.now_ms, &refused);
    return taken.ok || refused.kind != ERROR_NO_MEMORY ? SUCCESS : failure(err, refused.kind, "%s", refused.message);
}

/* ---- sets ---- */

static bool is_known(const struct set_chain *chain, const uint8_t id[DOCUMENT_DIGEST_SIZE])
{
    for (size_t i = 0; i < chain->id_count; i++)
        if (memcmp(chain->ids[i], id, DOCUMENT_DIGEST_SIZE) == 0) return true;
    return false;
}

static uint64_t unused_ids(const struct set_chain *chain, const struct keyd_policy_ids *ids)
{
    uint64_t unused = 0;

    for (size_t i = 0; i < ids->count && chain->id_count < CHAIN_IDS_MAX; i++)
        if (!is_known(chain, ids->each[i])) unused |= UINT64_C(1) << i;
    return unused;
}

static void note_ids(struct set_chain *chain, const struct keyd_policy_ids *ids)
{
    for (size_t i = 0; i < ids->count; i++)
        if (chain->id_count < CHAIN_IDS_MAX && !is_known(chain, ids->each[i]))
            memcpy(chain->ids[chain->id_count++], ids->each[i], DOCUMENT_DIGEST_SIZE);
}

/* What the set changes counts, as sijil-keyd finds it. */
static struct result judge(struct set_chain *chain, const struct document *document, const struct keyd_policy_ids *ids,
                           struct error *err)
{
    struct set_judging judging = {.check = policy_set_change, .pinned = chain->pin, .unused = unused_ids(chain, ids)};
    bool is_asked = false;

    chain->trust.change = SET_CHANGES;
    if (chain->end.set != NULL) judging.base = policy_set_envelope(chain->end.set);
    return set_judge(&judging, document, &chain->trust, &is_asked, err);
}

/* The first set of a chain that begins later replaces one that is not here: it is what the set says it is. */
static struct result check_place(const struct set_chain *chain, const struct document *document, bool *is_whole_out,
                                 struct error *err)
{
    const uint64_t epoch = document->version;
    struct document_pin before = chain->pin;
    bool is_whole = chain->end.is_whole;
    struct set_approval approval;

    TRY(set_approval_read(document->json, &approval, err));
    if (chain->end.set == NULL) {
        is_whole = epoch == 1 || (approval.is_there && approval.base.epoch == 0);
        before = approval.base;
    }
    if (epoch <= chain->pin.epoch)
        return failure(err, ERROR_DENIED, "the policy set of epoch %" PRIu64 " is older than the one before it", epoch);
    *is_whole_out = is_whole && (approval.is_there || epoch == chain->pin.epoch + 1); /* else others may have been between */
    return set_check_base(document, &before, chain->trust.now_ms, err);
}

/* After a refusal all that the chain knows is as before. */
static struct result take_set(struct set_chain *chain, const struct document *document, struct bytes envelope, struct error *err)
{
    struct keyd_policy_ids ids;
    struct set_signers signers;
    struct root_terms terms;
    bool is_whole = false;
    OWNED(policy_set) *set = NULL;

    set_policy_ids(document, &ids);
    TRY(check_place(chain, document, &is_whole, err));
    TRY(judge(chain, document, &ids, err));
    TRY(document_check(document, &chain->trust, err));
    TRY(set_count_signers(document, &chain->trust, &signers, err));
    TRY(set_terms_read(document->json, &chain->trust.terms, &terms, err));
    TRY(policy_set_read_named(envelope, chain->root, &set, err));
    if (!set_terms_are_same(&chain->trust.terms, &terms)) chain->trust.terms = terms;
    note_ids(chain, &ids);
    chain->pin.epoch = document->version;
    memcpy(chain->pin.digest, document->digest, sizeof chain->pin.digest);
    if (chain->end.set == NULL) chain->end.first = document->version;
    policy_set_free(chain->end.set);
    chain->end.set = GIVE(set);
    chain->end.is_whole = is_whole;
    chain->end.signers = signers;
    chain->end.terms = chain->trust.terms;
    chain->end.sets++;
    chain->pins[chain->pin_count++] = chain->pin; /* no more than links */
    return SUCCESS;
}

/* ---- links ---- */

static struct result check_order(const struct set_chain *chain, const struct set_chain_link *link, struct error *err)
{
    if (chain->links == SET_CHAIN_LINKS_MAX)
        return failure(err, ERROR_LIMIT, "more than %d policy sets and keys of approvers", SET_CHAIN_LINKS_MAX);
    if (chain->links > 0 && link->sequence <= chain->sequence)
        return failure(err, ERROR_DENIED, "the policy sets and keys are not in the order of their events");
    return SUCCESS;
}

static bool replaces_passed(const struct set_chain *chain, const struct document *document)
{
    struct set_approval approval;
    struct error ignored = {0};

    return chain->passed.epoch != 0 && set_approval_read(document->json, &approval, &ignored).ok && approval.is_there &&
           approval.base.epoch == chain->passed.epoch &&
           memcmp(approval.base.digest, chain->passed.digest, sizeof chain->passed.digest) == 0;
}

/* sijil-keyd went on with the set before, and so does the chain. What replaces a set that counts for nothing is refused for the reason of that one. */
static struct result take_or_pass(struct set_chain *chain, const struct set_chain_link *link, const struct document *document,
                                  struct error *err)
{
    struct error refused = {0};

    if (take_set(chain, document, link->envelopes[0], &refused).ok) return SUCCESS;
    if (refused.kind == ERROR_DENIED && replaces_passed(chain, document)) refused = chain->why;
    if (!link->is_followed || refused.kind != ERROR_DENIED) return failure(err, refused.kind, "%s", refused.message);
    chain->passed.epoch = document->version;
    memcpy(chain->passed.digest, document->digest, sizeof chain->passed.digest);
    chain->why = refused;
    return SUCCESS;
}

struct result set_chain_add(struct set_chain *chain, const struct set_chain_link *link, struct error *err)
{
    OWNED(document) *document = NULL;

    TRY(check_order(chain, link, err));
    TRY(document_read(link->envelopes, link->count, &document, err));
    if (link->entry.length > 0) TRY(document_check_event(document, link->entry, link->sequence, err));
    chain->trust.now_ms = link->time_ms;
    if (document->kind == DOCUMENT_SIGNING_KEY) TRY(take_key(chain, document, err));
    else if (document->kind == DOCUMENT_POLICY_SET) TRY(take_or_pass(chain, link, document, err));
    else return failure(err, ERROR_INVALID, "only policy sets and keys of approvers say who has signed a policy set");
    chain->sequence = link->sequence;
    chain->links++;
    return SUCCESS;
}

uint64_t set_chain_trust(const struct set_chain *chain, int64_t now_ms, struct document_trust *trust_out)
{
    *trust_out = chain->trust;
    trust_out->now_ms = now_ms;
    return chain->links == 0 ? UINT64_MAX : chain->sequence;
}

bool set_chain_has(const struct set_chain *chain, uint64_t epoch, const char *digest)
{
    static const char prefix[] = "sha256:";
    uint8_t bytes[DOCUMENT_DIGEST_SIZE];

    if (strncmp(digest, prefix, sizeof prefix - 1) != 0 ||
        !text_from_hex(bytes_of_text(digest + sizeof prefix - 1), bytes, sizeof bytes))
        return false;
    for (size_t i = 0; i < chain->pin_count; i++)
        if (chain->pins[i].epoch == epoch && memcmp(chain->pins[i].digest, bytes, sizeof bytes) == 0) return true;
    return false;
}

struct result set_chain_check_hold(const struct set_chain *chain, const struct set_chain_link *link,
                                   struct document **document_out, struct error *err)
{
    struct document_trust trust = chain->trust;
    OWNED(document) *document = NULL;

    TRY(check_order(chain, link, err));
    TRY(document_read(link->envelopes, link->count, &document, err));
    if (document->kind != DOCUMENT_LEGAL_HOLD) return failure(err, ERROR_INVALID, "this is no legal hold");
    TRY(document_check_event(document, link->entry, link->sequence, err));
    trust.now_ms = link->time_ms;
    TRY(document_check(document, &trust, err));
    *document_out = GIVE(document);
    return SUCCESS;
}

void set_chain_end(const struct set_chain *chain, struct set_chain_end *end_out)
{
    *end_out = chain->end;
}

struct result set_chain_text(const struct set_chain_end *end, struct buffer *text, struct error *err)
{
    const struct set_signers *signers = &end->signers;
    unsigned persons, needed;

    set_signers_shown(signers, &persons, &needed);
    TRY(buffer_format(text, err, "%u %s signed this set, and at most %u must%s. ", persons,
                      persons == 1 ? "person has" : "persons have", needed,
                      signers->has_root ? "; the root's key is among them" : ""));
    if (end->terms.root > 1)
        TRY(buffer_format(text, err, "From it on %u sign a set, and %u change that. ", end->terms.policies, end->terms.root));
    else TRY(buffer_add_text(text, "From it on the root's key alone is enough. ", err));
    if (end->is_whole) return buffer_add_text(text, "All sets before it were checked, from the first one on.", err);
    return buffer_format(
        text, err,
        "Checked from the set of epoch %" PRIu64
        " on. Of others before this one it is not known here how many they have asked for, nor which policies they had.",
        end->first);
}
