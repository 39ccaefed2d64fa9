/* Names that both sets decide alike: of one project, in the same scopes of the same policies and restrictions, with the same labels. */
#include "base/text.h"
#include "policy/decider/plan_priv.h"

/* With what its organisation adds for itself: the digests say which organisation's it is, also where its project is gone. */
static struct result write_scopes(const struct policy_plan *plan, enum plan_side side, const char *name, struct buffer *text,
                                  struct error *err)
{
    const struct restricted *restricted = plan_restricted(plan, side);
    const char *digests = restricted_digests(restricted, name);
    const struct policy_documents *documents = NULL;
    struct bytes segments[SCOPE_SEGMENTS_MAX];
    struct error why = {0};
    size_t count = 0;

    if (!scope_cut(name, segments, &count)) return buffer_add_text(text, "no scope", err);
    if (!restricted_documents(restricted, plan_set(plan, side), name, &documents, &why).ok)
        return buffer_add_text(text, "restrictions of too much", err);
    if (digests != NULL) TRY(buffer_add_text(text, digests, err));
    for (size_t i = 0; i < documents->count; i++) {
        const bool is_in = scope_matches(&documents->documents[i]->scopes, segments, count);
        TRY(buffer_add_u8(text, is_in ? '1' : '0', err));
    }
    return SUCCESS;
}

static struct result write_label(const struct policy_plan *plan, enum plan_side side, const char *name, struct buffer *text,
                                 struct error *err)
{
    struct label label;
    struct error why = {0};
    bool is_labelled = false;

    const struct result labelled = plan_label_of(plan, side, name, &label, &is_labelled, &why);
    if (!labelled.ok && !plan_is_denial(&why)) return failure(err, why.kind, "%s", why.message);
    if (labelled.ok && is_labelled) return label_write(text, &label, err);
    return buffer_add_text(text, labelled.ok ? "no label" : "limit", err);
}

struct result policy_plan_class(const struct policy_plan *plan, const char *name, struct buffer *text, struct error *err)
{
    const struct tenant_project *project = tenancy_project(&plan->snapshot->tenancy, name);
    char id[UUID_TEXT_SIZE] = "";

    if (project != NULL) uuid_format(&project->id, id);
    TRY(buffer_add_text(text, id, err));
    for (enum plan_side side = PLAN_NOW; side < PLAN_SIDES; side++) {
        if (plan_set(plan, side) == NULL) continue;
        TRY(buffer_add_u8(text, ' ', err));
        TRY(write_scopes(plan, side, name, text, err));
        TRY(write_label(plan, side, name, text, err));
    }
    return SUCCESS;
}
