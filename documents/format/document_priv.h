/*
 * documents/format/document_priv.h -- what the rows of documents/format/kinds.def name: a head and a checker for each kind.
 */
#pragma once

#include "documents/format/document.h"

/** Fills in scope, name, version, times and digest from document->json. ERROR_INVALID. */
typedef struct result document_head(struct document *document, struct error *err);
/** What document_check() asks of one kind. */
typedef struct result document_checker(const struct document *document, const struct document_trust *trust, struct error *err);

#define KIND(constant, number, name, type, bytes, signers, action, withdrawers, withdrawal, head, check) \
    document_head head;                                                                                  \
    document_checker check;
#include "documents/format/kinds.def"
#undef KIND

/** json_unpack() of an object that has the members of `format` and no others. ERROR_INVALID, ERROR_NO_MEMORY. */
RESULT document_unpack(const json_t *json, const char *what, struct error *err, const char *format, ...);

/** How many keys must have signed this document: it, or a withdrawal. */
unsigned document_signers_needed(const struct document *document);
/** Whose approval does not count: the key itself, and other keys of the same principal. */
struct document_own {
    const uint8_t *point, *principal;
};
/** Has a live approver signed? */
RESULT document_has_approver(const struct document *document, const struct document_trust *trust, const struct document_own *but,
                             bool *has_out, struct error *err);
