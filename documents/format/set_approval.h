/*
 * documents/format/set_approval.h -- whose signatures bring a policy set into force, and which set it replaces (docs/policies.md).
 *
 * A policy set may have two members beside its content. "approval" says what its signers agree to: the set that it replaces, until when,
 * a comment. "root" says how many persons must sign from then on. Without "approval" a set needs the root's signature alone, as long as
 * the root is one.
 */
#pragma once

#include "documents/format/document.h"

#define SET_APPROVAL_COMMENT_MAX 256
#define SET_APPROVAL_DAYS_MAX    7 /* from the draft to the last signature */

/** Views into the set. */
struct set_approval {
    bool is_there;
    struct document_pin base; /* the set that it replaces; all zero: it is the first one */
    int64_t effective_ms;     /* not in force before; 0: at once */
    int64_t expires_ms;       /* the end of the draft: it does not come into force later */
    const char *comment;      /* NULL: none */
    const char *plan;         /* digest of the plan that its signers have seen; NULL: none */
};
/** Reads the member of the payload of a policy set. ERROR_INVALID. */
RESULT set_approval_read(const json_t *set, struct set_approval *approval_out, struct error *err);
/** A member "approval"; NULL when out of memory. */
json_t *set_approval_json(const struct set_approval *approval);

/** The terms that hold once the set is in force: those of its member "root", or those before. Neither is all zero then. ERROR_INVALID. */
RESULT set_terms_read(const json_t *set, const struct root_terms *before, struct root_terms *terms_out, struct error *err);
/** Whether both demand the same. All zero means one person each. */
bool set_terms_are_same(const struct root_terms *one, const struct root_terms *other);

/** How many persons have signed and must sign. The root's key counts as its holder, so several keys of one person count once. */
struct set_signers {
    bool has_root;             /* the root's key has signed */
    unsigned persons, needed;  /* under the terms before */
    unsigned others, demanded; /* under the terms that the set brings; 0 and 0: it changes none */
};
/** ERROR_INVALID, ERROR_NO_MEMORY. */
RESULT set_count_signers(const struct document *document, const struct document_trust *trust, struct set_signers *signers_out,
                         struct error *err);
/** Both terms in one: how many must sign, and how many have, as people read it. */
void set_signers_shown(const struct set_signers *signers, unsigned *persons_out, unsigned *needed_out);
/** Whether these are enough, which document_check() asks, too. */
bool set_is_signed_enough(const struct set_signers *signers, const struct document_trust *trust);

/**
 * Whether the set may follow the one that is pinned, now. ERROR_DENIED: it replaces another one, or it is too early or too late.
 * ERROR_INVALID.
 */
RESULT set_check_base(const struct document *document, const struct document_pin *pinned, int64_t now_ms, struct error *err);
