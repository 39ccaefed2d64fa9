/*
 * audit/sealed_text.h -- a short text about a person that is kept outside of the log, sealed under the person's key like the payloads of its events.
 *
 * Whoever stores one refers to the row of the key in audit_subject, so the text goes with the key when the person is erased (docs/erasure.md). Connections need
 * audit_subject_table.
 */
#pragma once

#include "audit/permit.h"
#include "audit/search.h"

#define SEALED_TEXT_MAX 1024 /* bytes */
#define SEALED_BOX_MAX  (SEALED_TEXT_MAX + 64)

struct sealed_text {
    uint8_t subject[32]; /* `subject` of the person's row in audit_subject */
    uint8_t salt[32];
    size_t length;
    uint8_t box[SEALED_BOX_MAX];
};
/** Whose it is, and what it is: a box that was moved to another place does not open. */
struct sealed_place {
    const char *issuer, *subject;
    struct bytes what;
};
/** Makes a key for the person if it has none. ERROR_UNAVAILABLE without sijil-keyd or database. */
RESULT sealed_text_seal(const struct search_source *source, const struct sealed_place *place, const char *text,
                        struct sealed_text *sealed_out, struct error *err) __attribute__((nonnull));
/** What the permit is for, and with what. */
struct sealed_reading {
    enum action action;
    const struct search_source *source;
};
/** *text_out is "" if the key is gone, or another one has sealed it. */
RESULT sealed_text_open(const struct permit *permit, const struct sealed_reading *reading, const struct sealed_place *place,
                        const struct sealed_text *sealed, char text_out[SEALED_TEXT_MAX + 1], struct error *err)
    __attribute__((nonnull));
/** An index by which a name of the issuer is found again without being stored: under sijil-keyd's index key. */
RESULT sealed_text_index(const struct search_source *source, const char *issuer, const char *name, uint8_t index_out[32],
                         struct error *err) __attribute__((nonnull));
