/* Duties that one set has and another may lack. */
#include <string.h>

#include "policy/analysis_priv.h"

/* Whether `other` demands at least as much of one thing as `one`; asked only if `one` demands it. */
typedef bool covers(const struct obligation *one, const struct obligation *other);

static bool covers_sites(const struct obligation *one, const struct obligation *other)
{
    return other->has_min_sites && other->min_sites >= one->min_sites;
}

static bool covers_retain_min(const struct obligation *one, const struct obligation *other)
{
    return other->has_retain_min && other->retain_min_days >= one->retain_min_days;
}

static bool covers_retain_max(const struct obligation *one, const struct obligation *other)
{
    return other->has_retain_max && other->retain_max_days <= one->retain_max_days;
}

static bool covers_audit(const struct obligation *one, const struct obligation *other)
{
    return other->has_audit_retain_min && other->audit_retain_min_days >= one->audit_retain_min_days;
}

static bool covers_approvals(const struct obligation *one, const struct obligation *other)
{
    return other->has_approvals && other->approvals >= one->approvals;
}

static bool covers_receipt(const struct obligation *one, const struct obligation *other)
{
    return !one->receipt || other->receipt;
}

static bool covers_signed(const struct obligation *one, const struct obligation *other)
{
    return !one->signed_request || other->signed_request;
}

static bool covers_anchor(const struct obligation *one, const struct obligation *other)
{
    return other->anchor_copy != NULL && strcmp(one->anchor_copy, other->anchor_copy) == 0;
}

struct gap_finding {
    struct universe *universe;
    const struct duty_literal *duty;
    const struct verdict *others;
    const struct rule *but;
    struct duty_gap *gaps;
    size_t count;
};

static void add_gap(struct gap_finding *finding, const char *name, int lacks)
{
    const int literal = logic_both(finding->universe->logic, finding->duty->literal, lacks);

    if (literal != LOGIC_FALSE) finding->gaps[finding->count++] = (struct duty_gap){literal, name};
}

static void find_gap(struct gap_finding *finding, bool demands, const char *name, covers *is_covered)
{
    struct terms OWNED_TERMS any = TERMS(finding->universe->logic);

    if (!demands) return;
    for (size_t i = 0; i < finding->others->duty_count; i++) {
        const struct duty_literal *other = &finding->others->duties[i];
        if (other->rule != finding->but && is_covered(&finding->duty->rule->oblige, &other->rule->oblige))
            terms_add(&any, other->literal);
    }
    (void)analysis_spend(finding->universe->analysis, finding->others->duty_count + 1);
    add_gap(finding, name, -terms_any(&any));
}

static bool has_text(const struct text_list *list, const char *text)
{
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->texts[i], text) == 0) return true;
    return false;
}

static const struct text_list *list_of(const struct obligation *duty, bool of_notify)
{
    return of_notify ? &duty->notify : &duty->evidence;
}

/* Each text must be demanded by one of the others. */
static void find_list_gap(struct gap_finding *finding, const char *name, bool of_notify)
{
    const struct text_list *wanted = list_of(&finding->duty->rule->oblige, of_notify);
    struct terms OWNED_TERMS all = TERMS(finding->universe->logic);
    struct terms OWNED_TERMS any = TERMS(finding->universe->logic);

    for (size_t t = 0; t < wanted->count; t++) {
        for (size_t i = 0; i < finding->others->duty_count; i++) {
            const struct duty_literal *other = &finding->others->duties[i];
            if (other->rule != finding->but && has_text(list_of(&other->rule->oblige, of_notify), wanted->texts[t]))
                terms_add(&any, other->literal);
        }
        (void)analysis_spend(finding->universe->analysis, finding->others->duty_count + 1);
        terms_add(&all, terms_any(&any));
    }
    add_gap(finding, name, -terms_all(&all));
}

size_t duty_gaps(struct universe *universe, const struct duty_literal *duty, const struct verdict *others, const struct rule *but,
                 struct duty_gap gaps_out[DUTY_THINGS_MAX])
{
    struct gap_finding finding = {universe, duty, others, but, gaps_out, 0};
    const struct obligation *one = &duty->rule->oblige;

    find_gap(&finding, one->has_min_sites, "min_sites", covers_sites);
    find_gap(&finding, one->has_retain_min, "retain_min_days", covers_retain_min);
    find_gap(&finding, one->has_retain_max, "retain_max_days", covers_retain_max);
    find_gap(&finding, one->has_audit_retain_min, "audit_retain_min_days", covers_audit);
    find_gap(&finding, one->has_approvals, "approvals", covers_approvals);
    find_gap(&finding, one->receipt, "receipt", covers_receipt);
    find_gap(&finding, one->signed_request, "signed_request", covers_signed);
    find_gap(&finding, one->anchor_copy != NULL, "anchor_copy", covers_anchor);
    find_list_gap(&finding, "notify", true);
    find_list_gap(&finding, "evidence", false);
    return finding.count;
}
