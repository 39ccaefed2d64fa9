/* What has ended, ends soon, or has not begun. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "policy/lint_priv.h"

#define DAY_US ((int64_t)86400 * 1000000)

/* `ends_us`: the first moment after the end. */
static struct result check_end(struct policy_findings *findings, const struct policy_linted *linted,
                               struct policy_finding finding, int64_t ends_us, const char *what, struct error *err)
{
    char end[CLOCK_TEXT_SIZE];

    if (ends_us > linted->now_us + (int64_t)linted->ending_days * DAY_US) return SUCCESS;
    clock_format(ends_us / 1000, end);
    finding.code = ends_us <= linted->now_us ? FINDING_EXPIRED : FINDING_ENDS_SOON;
    return findings_say(findings, finding, err, "%s %s at %s", what, ends_us <= linted->now_us ? "ended" : "ends", end);
}

static struct result check_policy(struct policy_findings *findings, const struct policy_linted *linted,
                                  const struct policy_document *policy, struct error *err)
{
    const struct policy_finding finding = {.policy = policy->name};
    char begin[CLOCK_TEXT_SIZE];

    TRY(check_end(findings, linted, finding, (policy->review_by_day + 1) * DAY_US, "the time for its review", err));
    if (policy->effective_from_us <= linted->now_us) return SUCCESS;
    clock_format(policy->effective_from_us / 1000, begin);
    return findings_say(findings, (struct policy_finding){.code = FINDING_NOT_YET, .policy = policy->name}, err,
                        "the policy begins at %s", begin);
}

/* The date of a group is free text; what is a day is looked at. */
static struct result check_group(struct policy_findings *findings, const struct policy_linted *linted, const char *name,
                                 const json_t *group, struct error *err)
{
    const char *text = json_text_of(group, "review_by");
    const struct policy_finding finding = {.about = name};
    int64_t day = 0;

    if (text == NULL || !day_parse(bytes_of_text(text), &day)) return SUCCESS;
    return check_end(findings, linted, finding, (day + 1) * DAY_US, "the time for the review of the group", err);
}

static struct result check_region(struct policy_findings *findings, const struct policy_linted *linted,
                                  const struct set_region *region, struct error *err)
{
    char what[160];
    const char *name = NULL;
    json_t *each = NULL;
    int64_t day = 0;

    json_object_foreach (json_object_get(region->record, "attested"), name, each) {
        const struct policy_finding finding = {.about = region->id};
        (void)day_parse(bytes_of_text(json_text_of(each, "until")), &day); /* the shape has checked it */
        (void)snprintf(what, sizeof what, "the attestation of %.60s, without which nothing is known of its attributes,", name);
        TRY(check_end(findings, linted, finding, (day + 1) * DAY_US, what, err));
    }
    return SUCCESS;
}

struct result lint_dates(struct policy_findings *findings, const struct policy_linted *linted, struct error *err)
{
    const struct policy_set *set = linted->set;
    const char *name = NULL;
    json_t *group = NULL;

    for (size_t i = 0; i < set->documents->count; i++) TRY(check_policy(findings, linted, set->documents->documents[i], err));
    for (size_t i = 0; i < set->exception_count; i++) {
        const struct policy_finding finding = {.about = set->exceptions[i]->id};
        if (!set->exceptions[i]->is_revoked)
            TRY(check_end(findings, linted, finding, set->exceptions[i]->not_after_us, "the exception", err));
    }
    for (size_t i = 0; i < set->region_count; i++) TRY(check_region(findings, linted, &set->regions[i], err));
    json_object_foreach (set->groups->json, name, group) TRY(check_group(findings, linted, name, group, err));
    return SUCCESS;
}
