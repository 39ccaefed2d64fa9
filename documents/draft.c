#include "documents/draft.h"

#include <string.h>

static bool is_of_place(const struct document *document, const struct document_draft_query *place)
{
    return document->kind == place->kind && strcmp(document->scope, place->scope) == 0 &&
           (place->name == NULL || strcmp(document->name, place->name) == 0);
}

/* *document_out is NULL if the envelope is not a document of the kind. */
static struct result read(struct bytes envelope, struct document **document_out, struct error *err)
{
    struct error refused = {0};

    *document_out = NULL;
    if (document_read(&envelope, 1, document_out, &refused).ok || refused.kind != ERROR_NO_MEMORY) return SUCCESS;
    return failure(err, ERROR_NO_MEMORY, "%s", refused.message);
}

struct result document_draft_visit(const struct permit *permit, struct pg *pg, const struct document_draft_query *place,
                                   draft_visitor *visit, void *context, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;

    TRY(document_drafts(permit, pg, place, &rows, err));
    for (size_t i = 0; i < pg_rows_count(rows); i++) {
        OWNED(document) *document = NULL;
        TRY(read(pg_bytes(rows, i, 0), &document, err));
        if (document == NULL || !is_of_place(document, place)) continue;
        const struct drafted_document drafted = {document, pg_bytes(rows, i, 0)};
        TRY(visit(context, &drafted, err));
    }
    return SUCCESS;
}
