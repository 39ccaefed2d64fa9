#include "documents/draft.h"

#include <string.h>

static bool is_asked_for(const struct document *document, const struct document_draft_query *query)
{
    return document->kind == query->kind && strcmp(document->scope, query->scope) == 0 &&
           (query->name == NULL || strcmp(document->name, query->name) == 0);
}

/* *document_out is NULL if the envelopes are not a document. */
static struct result read(const struct pg_rows *rows, size_t row, struct bytes envelopes[DOCUMENT_SIGNATURES_MAX],
                          struct document **document_out, struct error *err)
{
    struct error refused = {0};
    size_t count = 0;

    *document_out = NULL;
    for (size_t i = 0; i < DOCUMENT_SIGNATURES_MAX; i++) {
        envelopes[i] = pg_bytes(rows, row, i);
        if (envelopes[i].length > 0) count = i + 1;
    }
    if (document_read(envelopes, count, document_out, &refused).ok || refused.kind != ERROR_NO_MEMORY) return SUCCESS;
    return failure(err, ERROR_NO_MEMORY, "%s", refused.message);
}

struct result document_draft_visit(const struct permit *permit, struct pg *pg, const struct document_draft_query *query,
                                   draft_visitor *visit, void *context, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;

    TRY(document_drafts(permit, pg, query, &rows, err));
    for (size_t i = 0; i < pg_rows_count(rows); i++) {
        struct drafted_document drafted = {.signed_by = pg_text(rows, i, DOCUMENT_DRAFT_SIGNERS)};
        OWNED(document) *document = NULL;
        TRY(read(rows, i, drafted.envelopes, &document, err));
        if (document == NULL || !is_asked_for(document, query)) continue;
        drafted.document = document;
        TRY(visit(context, &drafted, err));
    }
    return SUCCESS;
}
