/*
 * documents/draft.h -- drafts that wait for signatures, as documents.
 */
#pragma once

#include "documents/document_store.h"

/**
 * A row may have been written without the application, so the visitor must check the signatures. Views live
 * during the visit.
 */
struct drafted_document {
    const struct document *document;
    struct bytes envelopes[DOCUMENT_SIGNATURES_MAX]; /* document->signature_count of them */
    const char *signed_by; /* principal_key() of the principals that brought them, with a space between two */
};
typedef struct result draft_visitor(void *context, const struct drafted_document *drafted, struct error *err);
/** Visits the drafts with this scope and name, oldest first. Skips rows that are not a document of the kind and scope. */
RESULT document_draft_visit(const struct permit *permit, struct pg *pg, const struct document_draft_query *query,
                            draft_visitor *visit, void *context, struct error *err) __attribute__((nonnull(1, 2, 3, 4, 6)));
