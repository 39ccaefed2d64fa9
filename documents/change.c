#include "documents/change.h"

static struct result end_drafts(const struct permit *permit, struct pg *pg, const struct document_change *recording,
                                struct error *err)
{
    const struct document_row *row = &recording->row;
    const struct document *document = row->document;
    const struct document_draft_removal all = {row->action, document->kind, document->scope, document->name, NULL};
    const bool is_for_ever = document->kind == DOCUMENT_SIGNING_KEY && document->is_withdrawn;
    size_t others = 0;

    if (recording->ends_draft) TRY(document_draft_take(permit, pg, row, err));
    return recording->ends_draft || is_for_ever ? document_draft_remove(permit, pg, &all, &others, err) : SUCCESS;
}

static struct result run(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    const struct document_change *recording = (const struct document_change *)change; /* its first member */

    TRY(end_drafts(permit, pg, recording, err));
    return document_insert(permit, pg, &recording->row, err);
}

void document_change_init(struct document_change *change, const struct document_row *row, bool ends_draft)
{
    *change = (struct document_change){
        .change = {.run = run, .invalidates = CHANGE_INVALIDATES_NOTHING}, .row = *row, .ends_draft = ends_draft};
    document_detail(row->document, change->detail);
    change->change.detail = change->detail;
}

static struct result run_draft(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    const struct document_draft_change *drafting = (const struct document_draft_change *)change; /* its first member */
    const struct document_draft_row *row = &drafting->row;
    const struct document_draft_removal older = {row->action, row->document->kind, row->document->scope, row->document->name,
                                                 row->drafted_by};
    struct document_drafts_waiting waiting;
    size_t replaced = 0;

    TRY(document_draft_count(permit, pg, row, &waiting, err));
    if (waiting.is_there) return failure(err, ERROR_CONFLICT, "this draft waits for an approval already");
    TRY(document_draft_remove(permit, pg, &older, &replaced, err));
    if (waiting.of_principal - (int64_t)replaced >= DOCUMENT_DRAFTS_EACH)
        return failure(err, ERROR_LIMIT, "%d drafts of yours wait already: discard one, or wait until one is approved or expires",
                       DOCUMENT_DRAFTS_EACH);
    if (waiting.of_organisation - (int64_t)replaced >= DOCUMENT_DRAFTS_MAX)
        return failure(err, ERROR_LIMIT, "%d drafts wait here already: an approver approves or rejects some, or they expire",
                       DOCUMENT_DRAFTS_MAX);
    return document_draft_insert(permit, pg, &drafting->row, err);
}

static struct result run_signature(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    return document_draft_sign(permit, pg, &((const struct document_draft_change *)change)->row, err); /* its first member */
}

void document_draft_change_init(struct document_draft_change *change, const struct document_draft_row *row)
{
    const bool is_new = row->envelope_count == 1;

    *change = (struct document_draft_change){
        .change = {.run = is_new ? run_draft : run_signature, .invalidates = CHANGE_INVALIDATES_NOTHING}, .row = *row};
    document_detail(row->document, change->detail);
    change->change.detail = change->detail;
}

static struct result run_end(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    const struct document_draft_end *ending = (const struct document_draft_end *)change; /* its first member */
    size_t removed = 0;

    TRY(document_draft_remove(permit, pg, &ending->removal, &removed, err));
    return removed > 0 ? SUCCESS : failure(err, ERROR_NOT_FOUND, "no such draft waits here: it was approved, or has expired");
}

void document_draft_end_init(struct document_draft_end *change, const struct document_draft_removal *removal)
{
    *change =
        (struct document_draft_end){.change = {.run = run_end, .invalidates = CHANGE_INVALIDATES_NOTHING}, .removal = *removal};
}
