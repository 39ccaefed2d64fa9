/*
 * policy/restriction_chain.h -- who has signed the restrictions of an organisation, found again without sijil-keyd: from the root's key, the documents of the organisation's
 * security officers, the keys that they name, and the restrictions, each in the order of its event (docs/formats/policy-export.md).
 *
 * The rules are those of sijil-keyd. What it would have refused counts for nothing, and is no error. Whoever made the list can have left out a document of an officer, which may
 * have asked for more persons, or the end of a key: no signature tells that there is none.
 */
#pragma once

#include "policy/set_chain.h"

#define RESTRICTION_CHAIN_MAX 1024 /* versions of restrictions, and as many officers and as many keys */

struct restriction_chain;

RESULT restriction_chain_new(const char *organisation, struct restriction_chain **chain_out, struct error *err);
void restriction_chain_free(struct restriction_chain *chain);
DEFINE_OWNED(restriction_chain);

/**
 * Adds a document of an officer, a key or a restriction. `sets` has followed the sets and the keys before it, and follows the key, too, unless it has it already. A document of another
 * organisation changes nothing here. ERROR_DENIED: the event is another one, or they are not in the order of their events. ERROR_INVALID, ERROR_LIMIT.
 */
RESULT restriction_chain_add(struct restriction_chain *chain, const struct set_chain_link *link, struct set_chain *sets,
                             struct error *err);

/** A version of a restriction, or its end, that as many officers as must have signed. Views. */
struct restriction_proven {
    const struct document *document;
    uint64_t sequence,
        until; /* of the events: its own, and that of the version or the end that came after it; until 0: none did */
    int64_t time_ms;
    unsigned persons, needed;
    bool is_first; /* of its name */
    size_t signer_count;
    char signers[DOCUMENT_SIGNATURES_MAX][DOCUMENT_NAME_SIZE]; /* the names of the officers' documents */
};
const char *restriction_chain_organisation(const struct restriction_chain *chain);
size_t restriction_chain_count(const struct restriction_chain *chain);
const struct restriction_proven *restriction_chain_at(const struct restriction_chain *chain, size_t index);
/** Whether it is a policy that is in force at the end of the chain. */
bool restriction_is_in_force(const struct restriction_proven *proven);
/** How many documents count for nothing, and why the first one does; "" if there is none. */
size_t restriction_chain_refused(const struct restriction_chain *chain, const char **why_out);
/** The policies in force at the end, as a new JSON array. ERROR_NO_MEMORY. */
RESULT restriction_chain_policies(const struct restriction_chain *chain, json_t **policies_out, struct error *err);
