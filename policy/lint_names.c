/* Names in a set that lead nowhere: groups, regimes, regions, policies, operations that nothing asks, and scopes without a project. */
#include <string.h>

#include "base/text.h"
#include "policy/lint_priv.h"

static bool lists(const struct text_list *list, const char *text)
{
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->texts[i], text) == 0) return true;
    return false;
}

/* --- groups and regimes --- */

struct naming {
    struct policy_findings *findings;
    const struct policy_set *set;
    const struct policy_document *policy;
    const struct rule *rule;
    bool *group_is_used;
};

static struct result check_group(struct naming *naming, const char *name, enum group_kind kind, struct error *err)
{
    const struct policy_groups *groups = naming->set->groups;
    const struct policy_finding finding = {
        .code = FINDING_UNKNOWN_GROUP, .policy = naming->policy->name, .rule = naming->rule->id, .about = name};

    for (size_t i = 0; i < groups->count; i++) {
        if (strcmp(groups->groups[i].name, name) != 0) continue;
        naming->group_is_used[i] = true;
        if (groups->groups[i].kind == kind) return SUCCESS;
        return findings_say(naming->findings, finding, err,
                            "the group %.64s has another kind, so the rule finds it unknown and denies", name);
    }
    return findings_say(naming->findings, finding, err, "there is no group %.64s, so the rule finds it unknown and denies", name);
}

static bool target_has_regime(const struct policy_target *target, const char *regime)
{
    return lists(&target->facts[FACT_REGIMES].texts, regime);
}

static bool is_regime_anywhere(const struct policy_set *set, const char *regime)
{
    for (size_t i = 0; i < set->region_count; i++)
        if (target_has_regime(set->regions[i].target, regime)) return true;
    for (size_t i = 0; i < set->place_count; i++)
        if (target_has_regime(set->networks[i].target, regime)) return true;
    return false;
}

static struct result check_regimes(struct naming *naming, const struct text_list *regimes, struct error *err)
{
    for (size_t i = 0; i < regimes->count; i++) {
        const struct policy_finding finding = {
            .code = FINDING_UNKNOWN_REGIME, .policy = naming->policy->name, .rule = naming->rule->id, .about = regimes->texts[i]};
        if (!is_regime_anywhere(naming->set, regimes->texts[i]))
            TRY(findings_say(naming->findings, finding, err, "nothing in the catalogue is under the regime %.24s",
                             regimes->texts[i]));
    }
    return SUCCESS;
}

static struct result check_predicate(struct naming *naming, const struct predicate *predicate, struct error *err)
{
    const enum group_kind kind = (unsigned)predicate->kind == TEST_GEO_IN_GROUP ? GROUP_GEO : GROUP_REGIME;

    if ((unsigned)predicate->kind == TEST_OF_FACT + FACT_REGIMES) return check_regimes(naming, &predicate->texts, err);
    for (size_t i = 0; i < predicate->group_facts.count; i++) TRY(check_group(naming, predicate->texts.texts[i], kind, err));
    return SUCCESS;
}

/* What keeps, ends or copies content asks for these duties as a push would, and a push or a promotion for evidence. */
static struct result check_asked(struct naming *naming, struct error *err)
{
    const struct policy_finding finding = {.code = FINDING_NEVER_ASKED, .policy = naming->policy->name, .rule = naming->rule->id};
    const struct obligation *duties = &naming->rule->oblige;
    const uint32_t operations = naming->rule->operations, of_pushes = OP_INGEST | OP_METADATA | OP_LOG;
    const bool is_of_content =
        duties->has_retain_min || duties->has_retain_max || duties->has_min_sites || duties->anchor_copy != NULL;

    if (!rule_is_asked(naming->rule))
        return findings_say(naming->findings, finding, err, "no policy is ever asked about the operations of the rule");
    if (is_of_content && (operations & of_pushes) == 0)
        TRY(findings_say(naming->findings, finding, err,
                         "how long content stays, and how many copies it has, is asked of a push"));
    if (duties->has_evidence && (operations & (of_pushes | OP_PROMOTE)) == 0)
        TRY(findings_say(naming->findings, finding, err, "evidence is asked of pushes and promotions alone"));
    return SUCCESS;
}

static struct result check_rule(struct naming *naming, struct error *err)
{
    TRY(check_asked(naming, err));
    for (size_t i = 0; i < naming->rule->alternative_count; i++) {
        const struct target_test *test = &naming->rule->alternatives[i];
        for (size_t j = 0; j < test->count; j++) TRY(check_predicate(naming, &test->predicates[j], err));
    }
    return SUCCESS;
}

static struct result check_groups(struct policy_findings *findings, const struct policy_set *set, struct error *err)
{
    struct naming naming = {.findings = findings, .set = set};

    naming.group_is_used = arena_take(findings->arena, (set->groups->count + 1) * sizeof(bool));
    if (naming.group_is_used == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for findings");
    for (size_t i = 0; i < set->documents->count; i++)
        for (size_t j = 0; j < set->documents->documents[i]->rule_count; j++) {
            naming.policy = set->documents->documents[i];
            naming.rule = &naming.policy->rules[j];
            TRY(check_rule(&naming, err));
        }
    for (size_t i = 0; i < set->groups->count; i++) {
        const struct policy_finding finding = {.code = FINDING_UNUSED_GROUP, .about = set->groups->groups[i].name};
        if (!naming.group_is_used[i]) TRY(findings_say(findings, finding, err, "no rule names the group %.64s", finding.about));
    }
    return SUCCESS;
}

/* --- exceptions --- */

static bool is_place(const struct policy_set *set, const char *id)
{
    if (strcmp(id, "client") == 0 || strcmp(id, "region") == 0) return true; /* as decisions call what is in no catalogue */
    return set_place(set, id) != NULL || set_region(set, id) != NULL;
}

static struct result check_exception(struct policy_findings *findings, const struct policy_set *set,
                                     const struct policy_exception *exception, struct error *err)
{
    const struct policy_document *policy = exception_policy(set, exception);
    struct policy_finding finding = {.code = FINDING_UNKNOWN_REGION, .about = exception->id};

    for (size_t i = 0; i < exception->targets.count; i++)
        if (!is_place(set, exception->targets.texts[i]))
            TRY(findings_say(findings, finding, err, "the exception is for %.255s, which is no region and no network of the set",
                             exception->targets.texts[i]));
    if (policy == NULL) {
        finding.code = FINDING_UNKNOWN_POLICY;
        return findings_say(findings, finding, err,
                            "the exception is bound to %.64s@%lld with another content, or not in this set", exception->policy_id,
                            (long long)exception->policy_version);
    }
    finding.code = FINDING_LIFTS_NOTHING;
    finding.policy = policy->name;
    if (exception_lifts_something(exception, policy)) return SUCCESS;
    return findings_say(findings, finding, err, "the exception lifts no rule");
}

/* --- scopes --- */

/* Whether a pattern matches this project, or some name in it: as many of its segments are used up as the project has. */
static bool reaches(const struct scope_pattern *pattern, const struct bytes *segments, size_t count)
{
    struct bytes any[SCOPE_SEGMENTS_MAX];
    const struct scope_list one = {1, pattern};
    size_t extended = count;

    if (scope_matches(&one, segments, count)) return true;
    memcpy(any, segments, count * sizeof *any);
    for (size_t i = 0; i < pattern->count && extended < SCOPE_SEGMENTS_MAX; i++) {
        /* the rest of the pattern, read as a name, comes behind the project */
        const struct bytes rest = pattern->segments[pattern->count - 1 - i];
        memmove(any + count + 1, any + count, (extended - count) * sizeof *any);
        any[count] = rest.data[0] == '*' ? bytes_of_text("x") : rest;
        extended++;
        if (scope_matches(&one, any, extended)) return true;
    }
    return false;
}

static bool has_project(const struct policy_linted *linted, const struct scope_pattern *pattern)
{
    struct bytes segments[SCOPE_SEGMENTS_MAX];
    size_t count = 0;

    for (size_t i = 0; i < linted->project_count; i++)
        if (scope_cut(linted->projects[i], segments, &count) && reaches(pattern, segments, count)) return true;
    return false;
}

static struct result check_scopes(struct policy_findings *findings, const struct policy_linted *linted, struct error *err)
{
    const struct policy_documents *documents = linted->set->documents;

    for (size_t i = 0; i < documents->count && linted->projects != NULL; i++)
        for (size_t j = 0; j < documents->documents[i]->scopes.count; j++) {
            const struct scope_pattern *pattern = &documents->documents[i]->scopes.patterns[j];
            const struct policy_finding finding = {.code = FINDING_NO_PROJECT,
                                                   .policy = documents->documents[i]->name,
                                                   .about = (const char *)pattern->segments[0].data}; /* the whole text */
            if (!has_project(linted, pattern))
                TRY(findings_say(findings, finding, err, "no project is in the scope %.255s", finding.about));
        }
    return SUCCESS;
}

struct result lint_names(struct policy_findings *findings, const struct policy_linted *linted, struct error *err)
{
    TRY(check_groups(findings, linted->set, err));
    for (size_t i = 0; i < linted->set->exception_count; i++)
        TRY(check_exception(findings, linted->set, linted->set->exceptions[i], err));
    return check_scopes(findings, linted, err);
}
