#include "documents/change.h"

static struct result run(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    const struct document_change *recording = (const struct document_change *)change; /* its first member */

    if (recording->ends_draft) TRY(document_draft_take(permit, pg, &recording->row, err));
    return document_insert(permit, pg, &recording->row, err);
}

void document_change_init(struct document_change *change, const struct document_row *row, bool ends_draft)
{
    *change =
        (struct document_change){.change = {.run = run, .reach = CHANGE_REACHES_NOTHING}, .row = *row, .ends_draft = ends_draft};
    document_detail(row->document, change->detail);
    change->change.detail = change->detail;
}

static struct result run_draft(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    const struct document_draft_change *drafting = (const struct document_draft_change *)change; /* its first member */
    struct document_drafts_waiting waiting;

    TRY(document_draft_count(permit, pg, &drafting->row, &waiting, err));
    if (waiting.is_there) return failure(err, ERROR_CONFLICT, "this draft waits for an approval already");
    if (waiting.of_principal >= DOCUMENT_DRAFTS_EACH)
        return failure(err, ERROR_LIMIT, "%d drafts of yours wait already: they expire after seven days", DOCUMENT_DRAFTS_EACH);
    if (waiting.of_organisation >= DOCUMENT_DRAFTS_MAX)
        return failure(err, ERROR_LIMIT, "%d drafts wait here already: they expire after seven days", DOCUMENT_DRAFTS_MAX);
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
        .change = {.run = is_new ? run_draft : run_signature, .reach = CHANGE_REACHES_NOTHING}, .row = *row};
    document_detail(row->document, change->detail);
    change->change.detail = change->detail;
}
