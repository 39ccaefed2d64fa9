#include "authz/break_glass.h"

#include "base/json.h"

/* A set of names, as the members of an object. */
static struct result note_review(void *context, const struct pinned_document *pinned, struct error *err)
{
    if (json_object_set_new(context, pinned->document->name, json_true()) == 0) return SUCCESS;
    return failure(err, ERROR_NO_MEMORY, "no memory for reviews");
}

struct visiting {
    const json_t *reviewed;
    int64_t now_ms;
    broken_glass_visitor *visit;
    void *context;
};

static struct result visit_one(void *context, const struct pinned_document *pinned, struct error *err)
{
    const struct visiting *visiting = context;
    const struct broken_glass glass = {.document = pinned->document,
                                       .sequence = pinned->sequence,
                                       .is_in_force = !break_glass_has_ended(pinned->document, visiting->now_ms),
                                       .is_reviewed = json_object_get(visiting->reviewed, pinned->document->name) != NULL};

    return visiting->visit(visiting->context, &glass, err);
}

struct result broken_glass_visit(struct document_view *view, int64_t now_ms, broken_glass_visitor *visit, void *context,
                                 struct error *err)
{
    OWNED_JSON reviewed = json_object();
    struct visiting visiting = {reviewed, now_ms, visit, context};

    if (reviewed == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for reviews");
    TRY(document_view_visit_all(view, DOCUMENT_BREAK_GLASS_REVIEW, note_review, reviewed, err));
    return document_view_visit_all(view, DOCUMENT_BREAK_GLASS, visit_one, &visiting, err);
}

static struct result count_one(void *context, const struct broken_glass *glass, struct error *err)
{
    struct broken_glass_counts *counts = context;

    (void)err;
    counts->in_force += glass->is_in_force;
    counts->unreviewed += !glass->is_in_force && !glass->is_reviewed;
    return SUCCESS;
}

struct result broken_glass_count(struct document_view *view, int64_t now_ms, struct broken_glass_counts *counts_out,
                                 struct error *err)
{
    struct broken_glass_counts counts = {.in_force = 0};

    TRY(broken_glass_visit(view, now_ms, count_one, &counts, err));
    *counts_out = counts;
    return SUCCESS;
}
