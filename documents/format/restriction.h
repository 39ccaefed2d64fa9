/*
 * documents/format/restriction.h -- a policy that an organisation adds for itself, and that only restricts (docs/policies.md, "Restrictions of an organisation").
 *
 * A document of the kind restriction: its scope is the organisation, its name the id of the policy. Security officers of the organisation sign it, as documents of
 * officers name them (documents/format/officers.h). It never ends by itself, because its end loosens: a withdrawal, and each later version, takes one person more.
 */
#pragma once

#include "documents/format/document.h"

#define RESTRICTION_NAME_MAX     63
#define RESTRICTION_PERSONS_MAX  (DOCUMENT_SIGNATURES_MAX - 1) /* that a new restriction may need: its withdrawal takes one more */
#define RESTRICTION_OFFICERS_MAX 16                            /* security officers of one organisation that count */
#define RESTRICTION_ROLE         "security-officer"

/** The policy of a document of this kind that is no withdrawal. A view into it. ERROR_INVALID says what is wrong. */
RESULT restriction_read(const struct document *document, const json_t **policy_out, struct error *err);

/**
 * Whether a policy, as JSON, restricts in this organisation and nowhere else: each scope begins with its name, the rules are of require and deny, and it has neither labels, nor
 * applies_to_labels, nor exception_types, and is not closed. Its id begins with the name of the organisation and a dot. ERROR_INVALID.
 */
RESULT restriction_check_policy(const json_t *policy, const char *organisation, struct error *err);

/** An officer whose signature counts. */
struct restriction_officer {
    uint8_t point[ECDSA_PUBLIC_SIZE], principal[DOCUMENT_DIGEST_SIZE];
};
struct restriction_officers {
    unsigned number; /* of persons that a new restriction needs */
    size_t count;
    struct restriction_officer each[RESTRICTION_OFFICERS_MAX];
};
/** How many persons must sign it. `is_first`: no version of this name was ever pinned. */
unsigned restriction_needs(const struct document *document, const struct restriction_officers *officers, bool is_first);
/** Several keys of one person count once. ERROR_NO_MEMORY. */
RESULT restriction_count(const struct document *document, const struct restriction_officers *officers, unsigned *persons_out,
                         struct error *err);
/** ERROR_DENIED: too few of them have signed. Who asks has called document_check(), which says nothing about the officers of an organisation. */
RESULT restriction_check_signers(const struct document *document, const struct restriction_officers *officers, bool is_first,
                                 struct error *err);
