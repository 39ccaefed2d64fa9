/*
 * documents/format/break_glass.h -- a person may pull somewhere for at most an hour, because two persons say so; and what a third person found afterwards
 * (docs/break-glass.md).
 *
 * A document of the kind break-glass, of the registry: its scope is "". Version 1 has two signatures: by the holder's own enrolled key, which the body names, and by an
 * approver's key of another principal, and no other one. The root is no person, so it does not count. Version 2 ends it earlier, signed by the holder, an approver or the root.
 *
 * A document of the kind break-glass-review has the name of what it reviews, and an approver's signature.
 */
#pragma once

#include "documents/format/document.h"

#define BREAK_GLASS_NAME_MAX       63
#define BREAK_GLASS_BYTES_MAX      ((size_t)4 * 1024)
#define BREAK_GLASS_MS_MAX         INT64_C(3600000)
#define BREAK_GLASS_END_DAYS_MAX   31 /* of the document that ends it, or reviews it */
#define BREAK_GLASS_REASON_MAX     500
#define BREAK_GLASS_PLACE_MAX      127
#define BREAK_GLASS_PRINCIPAL      68 /* "ext:" and 64 hex digits: no robot breaks the glass */
#define BREAK_GLASS_PRINCIPAL_SIZE (BREAK_GLASS_PRINCIPAL + 1)
#define BREAK_GLASS_SAYS_JUSTIFIED "justified"
#define BREAK_GLASS_SAYS_OTHERWISE "not-justified"

/** Views into the document, which must stay. */
struct break_glass {
    const char *principal; /* the holder, as documents name it */
    uint8_t point[ECDSA_PUBLIC_SIZE];
    const char *on;     /* an organisation, or an organisation and a project; NULL in a document that ends it */
    const char *reason; /* the same */
    const char
        *approved_by; /* in a document that ends it: whose key has approved it, so that a review knows both persons; else NULL */
};
/** Reads the body of version 1, or of version 2. ERROR_INVALID says what is wrong. */
RESULT break_glass_read(const struct document *document, struct break_glass *glass_out, struct error *err);
/** For a draft: version 1, of now, and signed with the key that it names. ERROR_DENIED, ERROR_INVALID. */
RESULT break_glass_check_holder(const struct document *document, int64_t now_ms, struct break_glass *glass_out,
                                struct error *err);
/** Whether it can give nothing any more. It counts from its approval on, also while `effective_from` is ahead of this machine's clock, so it ends but never begins. */
bool break_glass_has_ended(const struct document *document, int64_t now_ms);
/** A body for document_compose(); NULL when out of memory. */
json_t *break_glass_body(const struct break_glass *glass);

struct break_glass_review {
    const char *finding; /* BREAK_GLASS_SAYS_JUSTIFIED or BREAK_GLASS_SAYS_OTHERWISE */
    const char *note;
};
RESULT break_glass_review_read(const struct document *document, struct break_glass_review *review_out, struct error *err);
