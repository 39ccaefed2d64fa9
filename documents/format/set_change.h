/*
 * documents/format/set_change.h -- what a policy set changes of the set that it replaces, as far as it says how many persons must sign (docs/policies.md).
 *
 * Only policy/ knows that, and sijil-keyd is below it: its program gives the function. It is asked only if the signatures leave the answer open, so
 * nobody makes sijil-keyd compare sets that too few persons have signed.
 */
#pragma once

#include "documents/format/set_approval.h"

#define SET_POLICIES_MAX    KEYD_POLICY_IDS_MAX
#define SET_CHANGE_WHY_SIZE 200

/** Two sets, and what else counts. */
struct set_change_query {
    struct bytes base;          /* envelope of the set that is replaced */
    struct document_pin pinned; /* what the base must be */
    struct bytes payload;       /* of the new set */
    uint64_t unused;            /* a bit for each policy of the new set whose id no set ever had */
    int64_t now_ms;
    bool is_about_exceptions; /* only `kept` is wanted, which takes no analysis */
};
struct set_change_found {
    enum set_change change;
    char why[SET_CHANGE_WHY_SIZE];        /* for a person; "": nothing to say */
    uint8_t kept[SET_EXCEPTIONS_MAX / 8]; /* as of document_trust */
};
/** ERROR_DENIED: the base is another set than the pinned one. ERROR_INVALID, ERROR_LIMIT: one of them is no set. A doubt is a loosening. */
typedef struct result set_change_check(const struct set_change_query *query, struct set_change_found *found_out,
                                       struct error *err);

/**
 * Fills in `trust->change` and `trust->kept` for a set that several persons sign, so that document_check() counts as it must. `check` NULL, or a `base` that is empty:
 * nobody knows, so it is a loosening, and all its exceptions are new. *is_asked_out: the check has compared with `query->pinned`, so that must still be pinned afterwards.
 */
struct set_judging {
    set_change_check *check;
    struct bytes base;
    struct document_pin pinned;
    uint64_t unused;
};
RESULT set_judge(const struct set_judging *judging, const struct document *document, struct document_trust *trust,
                 bool *is_asked_out, struct error *err);

/** The SHA-256 of the ids of the policies of a set, in their order, and its digest. What is no id is left out, and all behind it: no set has it. */
void set_policy_ids(const struct document *document, struct keyd_policy_ids *ids_out);
/** The digest that a set must state: of its canonical JSON without the members "digest" and "approval", so that a set keeps its digest while its draft changes hands. */
RESULT set_digest_of(const json_t *set, uint8_t digest_out[DOCUMENT_DIGEST_SIZE], struct error *err);
