/* The effective label of a repository. */
#include "policy/compiled_priv.h"
#include "policy/evaluate.h"

struct result policy_effective_label(const struct label_query *query, const struct label *own, struct label *label_out,
                                     bool *is_labelled_out, struct error *err)
{
    struct bytes segments[SCOPE_SEGMENTS_MAX];
    struct label label = own == NULL ? label_initial() : *own;
    bool is_labelled = own != NULL;
    size_t count = 0;

    if (!scope_cut(query->scope, segments, &count))
        return failure(err, ERROR_LIMIT, "a scope of more than %d bytes", POLICY_SCOPE_MAX);
    for (size_t i = 0; i < query->documents->count; i++) {
        const struct policy_document *policy = query->documents->documents[i];
        if (!policy->has_floor || policy->effective_from_us > query->now_us || !scope_matches(&policy->scopes, segments, count))
            continue;
        TRY(label_join(&label, &policy->floor, err));
        is_labelled = true;
    }
    *label_out = label;
    *is_labelled_out = is_labelled;
    return SUCCESS;
}

struct result policy_stored_label(const struct label_query *query, const struct label *stored, const struct label *own,
                                  struct label *label_out, bool *is_labelled_out, struct error *err)
{
    struct label label;
    bool is_labelled = false;

    TRY(policy_effective_label(query, own, &label, &is_labelled, err));
    if (stored != NULL && is_labelled) TRY(label_join(&label, stored, err));
    if (stored != NULL && !is_labelled) label = *stored;
    *label_out = label;
    *is_labelled_out = is_labelled || stored != NULL;
    return SUCCESS;
}
