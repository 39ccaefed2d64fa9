/*
 * documents/format/erasure.h -- the erasure of a person from the audit log, and legal holds: of a person, which stop it (docs/erasure.md), and of content (docs/deletion.md).
 *
 * Both name a person by the pseudonym of the log. Documents are kept for ever, so they must not have a name that the erasure removes.
 */
#pragma once

#include "crypto/digest.h"
#include "documents/format/document.h"

#define ERASURE_PSEUDONYM_SIZE 65 /* 64 hex digits */
#define ERASURE_REASON_MAX     256
#define ERASURE_PERSONS        2 /* approvers of different principals; the root is no person's key */
#define ERASURE_DAYS_MAX       30
#define HOLD_DAYS_MAX          3660
#define HOLD_PERSONS           2   /* approvers of different principals that release or change one; the root is no person's key */
#define HOLD_CONTENT_MAX       255 /* organisation, organisation/project or organisation/project/repository */
#define HOLD_OF_ALL            "*"
#define ERASURE_BYTES_MAX      4096 /* of a payload, also of a hold's: documents/format/kinds.def */

/** 64 hex digits in lower case. */
bool erasure_pseudonym_is_valid(const char *text) __attribute__((nonnull));

/** The body of an erasure. ERROR_INVALID. *reason_out lives as long as the document. */
RESULT erasure_read(const struct document *document, const char **reason_out, struct error *err);

/** The body of a hold, which is no withdrawal. Texts live as long as the document. */
struct legal_hold {
    const char *subject; /* a pseudonym, or HOLD_OF_ALL. NULL: it is of content */
    const char *content; /* what is held, by its name. NULL: it is of persons */
    const char *digest;  /* of content: this manifest alone, and what it refers to. NULL: all of it */
    const char *reason;
};
RESULT legal_hold_read(const struct document *document, struct legal_hold *hold_out, struct error *err);
/** How many persons must sign it: one, who may be the root, places a hold. A release, and each later version, may let something go, so it takes HOLD_PERSONS. */
unsigned legal_hold_persons(const struct document *document) __attribute__((nonnull));
/** Whether the hold stops the erasure of this pseudonym. */
bool legal_hold_covers(const struct legal_hold *hold, const char *pseudonym) __attribute__((nonnull));
