/* Rules without which the set would decide the same, and scopes in which nothing is allowed: proven over all facts. */
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "policy/lint_priv.h"

/* What is known of one rule so far. */
struct rule_note {
    const struct policy_document *policy;
    const struct rule *rule;
    bool matches;             /* it is active somewhere */
    bool acts;                /* it denies, or permits, or demands something somewhere */
    bool matters;             /* without it, something would be decided otherwise */
    uint32_t permits, allows; /* of a permit: operations that it permits somewhere, and that are then allowed somewhere */
    bool has_other, others_differ;
    struct denial_literal other; /* denies where this rule denies, or denies what it permits */
};

struct linting {
    struct policy_findings *findings;
    const struct policy_linted *linted;
    struct analysis *analysis;
    struct universe *universe;
    size_t note_count;
    struct rule_note *notes;
    struct cell cell;
    const struct verdict *verdict;
    uint32_t operations, allowed; /* of this cell; of this name at any moment */
    bool has_conflict;
    size_t names_done; /* kinds of names that were looked at to the end */
};

static bool can(struct linting *linting, const int *literals, size_t count)
{
    return logic_solve(linting->universe->logic, literals, count) == LOGIC_YES;
}

/* --- rules that deny --- */

/* One other denial that is always there, if there is one: the first candidate is from what the solver has found. */
static void look_for_other(struct linting *linting, struct rule_note *note, const struct denial_literal *denial)
{
    const struct verdict *verdict = linting->verdict;
    bool is_found = false;

    for (size_t i = 0; i < verdict->denial_count && !is_found; i++) {
        const struct denial_literal *other = &verdict->denials[i];
        if (other == denial || !logic_value(linting->universe->logic, other->literal)) continue;
        if (note->has_other && (strcmp(note->other.rule, other->rule) != 0 || strcmp(note->other.policy, other->policy) != 0))
            continue;
        note->other = *other;
        note->has_other = is_found = true;
    }
    if (!is_found || can(linting, (int[]){denial->literal, -note->other.literal}, 2)) note->others_differ = true;
}

static void check_denial(struct linting *linting, const struct denial_literal *denial, struct rule_note *note)
{
    const struct verdict *verdict = linting->verdict;
    struct terms OWNED_TERMS asked = TERMS(linting->universe->logic);

    if (note->matters || !can(linting, &denial->literal, 1)) return;
    note->acts = true;
    look_for_other(linting, note, denial);
    terms_add(&asked, denial->literal);
    for (size_t i = 0; i < verdict->denial_count; i++)
        if (&verdict->denials[i] != denial) terms_add(&asked, -verdict->denials[i].literal);
    note->matters = can(linting, asked.literals, asked.count);
}

static void check_denials(struct linting *linting)
{
    const struct verdict *verdict = linting->verdict;

    for (size_t i = 0; i < verdict->denial_count; i++) {
        const struct denial_literal *denial = &verdict->denials[i];
        if (denial->number != NO_RULE) check_denial(linting, denial, &linting->notes[denial->number]);
        else if (strcmp(denial->rule, "RETENTION-CONFLICT") == 0 && can(linting, &denial->literal, 1))
            linting->has_conflict = true;
    }
}

/* --- rules that permit --- */

static int others_of_policy(struct linting *linting, const struct duty_literal *permit)
{
    const struct verdict *verdict = linting->verdict;
    struct terms OWNED_TERMS others = TERMS(linting->universe->logic);

    for (size_t i = 0; i < verdict->active_count; i++) {
        const struct duty_literal *other = &verdict->active[i];
        if (other->policy == permit->policy && other->rule != permit->rule && other->rule->effect == EFFECT_PERMIT)
            terms_add(&others, other->literal);
    }
    return terms_any(&others);
}

static int other_grants(struct linting *linting, const struct duty_literal *permit)
{
    const struct verdict *verdict = linting->verdict;
    struct terms OWNED_TERMS others = TERMS(linting->universe->logic);

    for (size_t i = 0; i < verdict->grant_count; i++)
        if (verdict->grants[i].rule != permit->rule->id || verdict->grants[i].policy != permit->policy->name)
            terms_add(&others, verdict->grants[i].literal);
    return terms_any(&others);
}

/* It matters if its policy, or all policies in scope, would permit nothing without it, where all is allowed with it. */
static void check_permit(struct linting *linting, const struct duty_literal *permit, struct rule_note *note)
{
    struct logic *logic = linting->universe->logic;
    const int without = permit->policy->is_closed ? others_of_policy(linting, permit) : LOGIC_TRUE;
    const int lost = -logic_both(logic, without, other_grants(linting, permit));

    note->permits |= linting->operations;
    if ((note->allows & linting->operations) == linting->operations && note->matters) return;
    if (!can(linting, (int[]){permit->literal, linting->verdict->allows}, 2)) return;
    note->allows |= linting->operations;
    note->acts = true;
    note->matters = note->matters || can(linting, (int[]){permit->literal, linting->verdict->allows, lost}, 3);
}

static void check_duty(struct linting *linting, const struct duty_literal *duty, struct rule_note *note)
{
    struct duty_gap gaps[DUTY_THINGS_MAX];
    const size_t count = duty_gaps(linting->universe, duty, linting->verdict, duty->rule, gaps);

    for (size_t i = 0; i < count && !note->matters; i++) note->matters = can(linting, &gaps[i].literal, 1);
    note->acts = true;
}

static void check_active(struct linting *linting)
{
    const struct verdict *verdict = linting->verdict;

    for (size_t i = 0; i < verdict->active_count; i++) {
        const struct duty_literal *active = &verdict->active[i];
        struct rule_note *note = &linting->notes[active->number];
        if ((note->matters && active->rule->effect != EFFECT_PERMIT) || !can(linting, &active->literal, 1)) continue;
        note->matches = true;
        if (active->rule->effect == EFFECT_PERMIT) check_permit(linting, active, note);
        if (active->rule->effect == EFFECT_OBLIGE) check_duty(linting, active, note);
    }
}

static void check_cell(struct linting *linting)
{
    linting->cell.op = (enum policy_operation)(linting->operations & -linting->operations);
    linting->verdict = cell_verdict(linting->universe, &linting->cell);
    if (linting->verdict == NULL) return;
    if (can(linting, &linting->verdict->allows, 1)) linting->allowed |= linting->operations;
    check_active(linting);
    check_denials(linting);
    (void)analysis_spend(linting->analysis, 1);
}

/* --- what is said --- */

/* It permits this, and nothing of it is ever allowed: other rules forbid it in any case. */
static struct result say_contradiction(struct linting *linting, const struct rule_note *note, struct error *err)
{
    for (unsigned op = 0; op < OP_COUNT; op++) {
        const struct policy_finding finding = {.code = FINDING_CONTRADICTED,
                                               .policy = note->policy->name,
                                               .rule = note->rule->id,
                                               .about = policy_operation_name(1U << op)};
        if ((note->permits & ~note->allows & 1U << op) != 0)
            TRY(findings_say(linting->findings, finding, err, "the rule permits %s, and other rules deny it in any case",
                             finding.about));
    }
    return SUCCESS;
}

static struct result say_rule(struct linting *linting, const struct rule_note *note, struct error *err)
{
    struct policy_finding finding = {.policy = note->policy->name, .rule = note->rule->id};
    const bool permits = note->rule->effect == EFFECT_PERMIT;

    if (note->acts && (note->permits & ~note->allows) != 0) TRY(say_contradiction(linting, note, err));
    if (note->matters) return SUCCESS;
    if (!note->matches) {
        finding.code = FINDING_NEVER_MATCHES;
        return findings_say(linting->findings, finding, err, "the rule never applies");
    }
    if (!note->acts) {
        finding.code = permits ? FINDING_NEVER_ALLOWS : FINDING_NEVER_DENIES;
        return findings_say(linting->findings, finding, err,
                            permits ? "nothing that the rule permits is allowed" : "the rule never denies");
    }
    finding.code = FINDING_SHADOWED;
    if (!note->has_other || note->others_differ)
        return findings_say(linting->findings, finding, err, "other rules together do all that it does");
    return findings_say(linting->findings, finding, err, "%.64s of %.100s denies all that it denies", note->other.rule,
                        note->other.policy);
}

/* The region's facts as the strongest client would have them, because some rules ask for those. */
static struct result check_regions(struct linting *linting, struct error *err)
{
    const struct policy_set *set = linting->linted->set;
    struct label label = linting->cell.has_floor ? linting->cell.floor : label_initial();
    struct policy_facts facts = {.op = OP_INGEST,
                                 .scope = linting->cell.name->name,
                                 .label = &label,
                                 .target_id = "any",
                                 .target = policy_set_unknown(set),
                                 .now_us = linting->cell.now_us};
    const char **allowed = arena_take(linting->analysis->arena, (set->region_count + 1) * sizeof *allowed);
    size_t count = 0;

    if (allowed == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for findings");
    TRY(policy_set_allowed_regions(set, &facts, allowed, &count, err));
    if (count > 0) return SUCCESS;
    return findings_say(linting->findings, (struct policy_finding){.code = FINDING_NO_REGION, .about = facts.scope}, err,
                        "content of names such as this may be taken in by none of the %zu regions", set->region_count);
}

static bool is_permitted(const struct linting *linting)
{
    const struct policy_documents *documents = linting->linted->set->documents;

    for (size_t i = 0; i < documents->count; i++)
        for (size_t j = 0; j < documents->documents[i]->rule_count && linting->cell.name->in_scope[0][i]; j++)
            if (documents->documents[i]->rules[j].effect == EFFECT_PERMIT) return true;
    return false;
}

static bool is_covered(const struct linting *linting)
{
    const struct policy_set *set = linting->linted->set;

    for (size_t i = 0; i < set->documents->count; i++)
        if (linting->cell.name->in_scope[0][i]) return true;
    return false;
}

static struct result say_name(struct linting *linting, struct error *err)
{
    const char *name = linting->cell.name->name;

    if (linting->analysis->steps == 0 || !is_covered(linting)) return SUCCESS; /* outside of all scopes that is meant so */
    if (linting->has_conflict)
        TRY(findings_say(linting->findings, (struct policy_finding){.code = FINDING_RETENTION, .about = name}, err,
                         "the duties of retention contradict each other for content of names such as this"));
    if (linting->allowed == 0 && !is_permitted(linting))
        return findings_say(linting->findings, (struct policy_finding){.code = FINDING_NOT_PERMITTED, .about = name}, err,
                            "no policy in scope of names such as this permits anything");
    if (linting->allowed == 0)
        return findings_say(linting->findings, (struct policy_finding){.code = FINDING_NOTHING_ALLOWED, .about = name}, err,
                            "no operation is ever allowed on names such as this, although a policy permits some");
    return (linting->allowed & OP_INGEST) != 0 && linting->linted->set->region_count > 0 ? check_regions(linting, err) : SUCCESS;
}

/* --- all names and moments --- */

static struct result check_moment(struct linting *linting, struct error *err)
{
    OWNED(universe) *universe = NULL;
    const struct analysis *analysis = linting->analysis;

    if (!cell_floor(&linting->cell, linting->analysis, NULL)) {
        linting->analysis->doubt = "the policies of one name give it more regimes or pins than a label has";
        return SUCCESS;
    }
    TRY(universe_new(linting->analysis, &universe, err));
    linting->universe = universe;
    for (size_t g = 0; g < analysis->group_count && analysis->steps > 0; g++) {
        linting->operations = analysis->groups[g];
        check_cell(linting);
    }
    if (linting->analysis->is_lost || logic_is_lost(universe->logic))
        return failure(err, ERROR_NO_MEMORY, "no memory for an analysis");
    return SUCCESS;
}

static struct result check_name(struct linting *linting, const struct name_class *name, struct error *err)
{
    linting->allowed = 0;
    linting->has_conflict = false;
    for (size_t m = 0; m < linting->analysis->moment_count && linting->analysis->steps > 0; m++) {
        linting->cell = (struct cell){.name = name, .now_us = linting->analysis->moments[m]};
        TRY(check_moment(linting, err));
    }
    return say_name(linting, err);
}

static struct result make_notes(struct linting *linting, struct error *err)
{
    const struct policy_documents *documents = linting->linted->set->documents;
    size_t count = 0;

    for (size_t i = 0; i < documents->count; i++) count += documents->documents[i]->rule_count;
    linting->notes = arena_take(linting->analysis->arena, (count + 1) * sizeof *linting->notes);
    if (linting->notes == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for findings");
    for (size_t i = 0; i < documents->count; i++)
        for (size_t j = 0; j < documents->documents[i]->rule_count; j++)
            linting->notes[linting->note_count++] =
                (struct rule_note){.policy = documents->documents[i], .rule = &documents->documents[i]->rules[j]};
    return SUCCESS;
}

/* A rule that was found to matter does so, whatever the rest would show. Of the others nothing is said. */
static struct result say_unjudged(struct linting *linting, const struct policy_document *policy, struct error *err)
{
    const struct policy_finding finding = {.code = FINDING_UNFINISHED, .policy = policy->name};
    const struct rule_note *first = NULL;
    size_t rules = 0, unjudged = 0;

    for (size_t i = 0; i < linting->note_count; i++) {
        const struct rule_note *note = &linting->notes[i];
        if (note->policy != policy) continue;
        rules++;
        if (!note->matters && unjudged++ == 0) first = note;
    }
    if (unjudged == 0) return SUCCESS;
    return findings_say(linting->findings, finding, err, "%zu of its %zu rules were not judged, %.64s is the first", unjudged,
                        rules, first->rule->id);
}

static struct result say_unfinished(struct linting *linting, struct error *err)
{
    const struct analysis *analysis = linting->analysis;
    const size_t done = linting->names_done, names = analysis->name_count;
    const struct policy_documents *documents = linting->linted->set->documents;
    const struct policy_finding finding = {.code = FINDING_UNFINISHED, .about = done < names ? analysis->names[done].name : NULL};

    TRY(findings_say(linting->findings, finding, err, "%.160s; %zu of %zu kinds of names were looked at%s", analysis->doubt, done,
                     names, done < names ? ", and names such as this were not" : ""));
    for (size_t i = 0; i < documents->count; i++) TRY(say_unjudged(linting, documents->documents[i], err));
    return SUCCESS;
}

static struct result check_all(struct linting *linting, struct error *err)
{
    struct analysis *analysis = linting->analysis;

    TRY(analysis_prepare(analysis, linting->linted->now_us, err));
    TRY(make_notes(linting, err));
    for (size_t i = 0; i < analysis->name_count && analysis->steps > 0; i++) {
        TRY(check_name(linting, &analysis->names[i], err));
        linting->names_done += analysis->steps > 0;
    }
    (void)analysis_spend(analysis, 0); /* the solver may have taken the last step */
    if (analysis->doubt != NULL) return say_unfinished(linting, err);
    for (size_t i = 0; i < linting->note_count; i++) TRY(say_rule(linting, &linting->notes[i], err));
    return SUCCESS;
}

struct result lint_rules(struct policy_findings *findings, const struct policy_linted *linted, struct error *err)
{
    struct analysis analysis = {
        .sets = {linted->set}, .set_count = 1, .steps = linted->steps_max == 0 ? POLICY_LINT_STEPS_MAX : linted->steps_max};
    struct linting linting = {.findings = findings, .linted = linted, .analysis = &analysis};
    const struct result checked = check_all(&linting, err);

    analysis_done(&analysis);
    return checked;
}
