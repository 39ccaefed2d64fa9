/*
 * documents/format/erasure.h -- the erasure of a person from the audit log, and holds that stop it (docs/erasure.md).
 *
 * Both name the person by the pseudonym of the log. Documents are kept for ever, so they must not have a name that the erasure removes.
 */
#pragma once

#include "documents/format/document.h"

#define ERASURE_PSEUDONYM_SIZE 65 /* 64 hex digits */
#define ERASURE_REASON_MAX     256
#define ERASURE_PERSONS        2 /* approvers of different principals; the root is no person's key */
#define ERASURE_DAYS_MAX       30
#define HOLD_DAYS_MAX          3660
#define HOLD_OF_ALL            "*"
#define ERASURE_BYTES_MAX      4096 /* of a payload, also of a hold's: documents/format/kinds.def */

/** 64 hex digits in lower case. */
bool erasure_pseudonym_is_valid(const char *text) __attribute__((nonnull));

/** The body of an erasure. ERROR_INVALID. *reason_out lives as long as the document. */
RESULT erasure_read(const struct document *document, const char **reason_out, struct error *err);

/** The body of a hold, which is no withdrawal. Texts live as long as the document. */
struct legal_hold {
    const char *subject; /* a pseudonym, or HOLD_OF_ALL */
    const char *reason;
};
RESULT legal_hold_read(const struct document *document, struct legal_hold *hold_out, struct error *err);
/** Whether the hold stops the erasure of this pseudonym. */
bool legal_hold_covers(const struct legal_hold *hold, const char *pseudonym) __attribute__((nonnull));
