/*
 * policy/set_chain.h -- who has signed policy sets, found again without sijil-keyd: from the root's public key, the documents of the approvers' keys, and
 * the sets, each in the order of its event (docs/formats/policy-export.md).
 *
 * The rules are those of sijil-keyd: the same functions count persons, compare a set with the one before it, and follow the numbers of the root. Nobody
 * can leave out a set in the middle, because each names the one that it replaces. A key's withdrawal can be left out: no signature tells that there is none.
 */
#pragma once

#include "documents/format/set_change.h"
#include "policy/set.h"

#define SET_CHAIN_LINKS_MAX 4096 /* sets and documents of approvers: two sets a week for thirty years */

struct set_chain;

RESULT set_chain_new(const struct ecdsa_key *root, struct set_chain **chain_out, struct error *err);
void set_chain_free(struct set_chain *chain);
DEFINE_OWNED(set_chain);

/** A document and its event. */
struct set_chain_link {
    const struct bytes *envelopes;
    size_t count;
    struct bytes entry; /* the event, which must name the document; empty: the caller has only its number and its time */
    uint64_t sequence;
    int64_t time_ms;
    bool is_followed; /* by another set: then one that sijil-keyd would have refused counts for nothing, and is no error */
};
/**
 * Adds a set, or a document of a key. A key that sijil-keyd would have refused counts for nothing, and is no error. ERROR_DENIED: the set is not signed by
 * enough persons or by those whom its exceptions name, does not replace the set before it, or the event is another one. ERROR_INVALID, ERROR_LIMIT: it is no
 * such document.
 */
RESULT set_chain_add(struct set_chain *chain, const struct set_chain_link *link, struct error *err);

/** Whose keys count at this time, and how many persons must sign. The number of the last link; UINT64_MAX: there is none. */
uint64_t set_chain_trust(const struct set_chain *chain, int64_t now_ms, struct document_trust *trust_out);

/** Whether this set is one of the chain, and was signed as it had to be. */
bool set_chain_has(const struct set_chain *chain, uint64_t epoch, const char *digest);

/**
 * A legal hold, or its release, with the keys that the chain has: it adds nothing. ERROR_DENIED: too few persons have signed it, or the event is another one. ERROR_INVALID: it is none.
 * The caller owns *document_out.
 */
RESULT set_chain_check_hold(const struct set_chain *chain, const struct set_chain_link *link, struct document **document_out,
                            struct error *err);

/** The last set. Views: they live as long as the chain. */
struct set_chain_end {
    struct policy_set *set;     /* NULL: the chain has none */
    struct set_signers signers; /* of this set */
    struct root_terms terms;    /* how many persons sign the next set; all zero: the root's key alone */
    uint64_t first;             /* the epoch of the first set of the chain */
    size_t sets;
    bool
        is_whole; /* from the registry's first set on, without a gap: else an earlier set may have asked for more persons, or had an id that counts as new */
};
void set_chain_end(const struct set_chain *chain, struct set_chain_end *end_out);
/** Appends what that means, in two or three sentences. */
RESULT set_chain_text(const struct set_chain_end *end, struct buffer *text, struct error *err);
