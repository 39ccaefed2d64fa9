#include "policy/evaluate.h"

#include <assert.h>
#include <string.h>

#include "policy/evaluation_priv.h"
#include "policy/facts_priv.h"

#define DAY_US ((int64_t)86400 * 1000000)

static bool is_in_force(const struct policy_document *policy, int64_t now_us)
{
    return policy->effective_from_us <= now_us;
}

static bool is_in_scope(const struct evaluation *evaluation, const struct policy_document *policy)
{
    return scope_matches(&policy->scopes, evaluation->segments, evaluation->segment_count);
}

static bool is_pinned(const struct policy_document *policy, const struct label *label)
{
    for (size_t i = 0; i < label->pin_count; i++)
        if (strcmp(label->pins[i], policy->id) == 0) return true;
    return false;
}

static struct result deny_system(struct evaluation *evaluation, const char *rule, const char *policy, const char *message,
                                 struct error *err)
{
    const struct policy_denial denial = {.rule = rule, .policy = policy, .message = message};

    return decision_deny(evaluation->decision, &denial, err);
}

static struct result deny_missing_pin(struct evaluation *evaluation, const char *pin, struct error *err)
{
    static const char prefix[] = "policy:";
    const char **names = arena_take(evaluation->decision->arena, sizeof *names);
    const char *name = arena_format(evaluation->decision->arena, "%s%s", prefix, pin);

    if (names == NULL || name == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a decision");
    names[0] = name;
    const struct policy_denial denial = {.rule = "SYS-PIN-MISSING",
                                         .policy = name + sizeof prefix - 1,
                                         .message = "inherited policy not in force here",
                                         .unknown_count = 1,
                                         .unknown = names};
    return decision_deny(evaluation->decision, &denial, err);
}

/* --- conditions of a rule --- */

static size_t sort_names(const char **names, size_t count)
{
    size_t kept = 0;

    if (count < 2) return count;
    qsort(names, count, sizeof *names, compare_texts);
    for (size_t i = 0; i < count; i++)
        if (kept == 0 || strcmp(names[kept - 1], names[i]) != 0) names[kept++] = names[i];
    return kept;
}

/* The facts that made alternatives unknown, and those that made others false. */
static struct result name_facts(const struct rule *rule, const struct evaluation *evaluation, struct text_list *unknown_out,
                                struct text_list *failed_out, struct error *err)
{
    const struct policy_facts *facts = evaluation->facts;
    const char **unknown = arena_take(evaluation->decision->arena, 2 * rule->names_max * sizeof *unknown);
    size_t unknown_count = 0, failed_count = 0;

    if (unknown == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a decision");
    const char **failed = unknown + rule->names_max;
    if (rule->is_of_label) failed_count = label_names(&rule->label, facts->label, failed, 0);
    for (size_t i = 0; i < rule->alternative_count; i++) {
        const struct target_test *test = &rule->alternatives[i];
        const enum truth truth = target_meets(test, facts->target, evaluation->groups);
        const struct target_question question = {facts->target, evaluation->groups, truth};
        if (truth == TRUTH_UNKNOWN) unknown_count = target_names(test, &question, unknown, unknown_count);
        if (truth == TRUTH_FALSE) failed_count = target_names(test, &question, failed, failed_count);
    }
    *unknown_out = (struct text_list){sort_names(unknown, unknown_count), unknown};
    *failed_out = (struct text_list){sort_names(failed, failed_count), failed};
    return SUCCESS;
}

static struct result deny_by_rule(struct evaluation *evaluation, const struct policy_document *policy, const struct rule *rule,
                                  struct error *err)
{
    struct text_list unknown, failed;

    TRY(name_facts(rule, evaluation, &unknown, &failed, err));
    const struct policy_denial denial = {.rule = rule->id,
                                         .policy = policy->name,
                                         .message = rule->message,
                                         .unknown_count = unknown.count,
                                         .failed_count = failed.count,
                                         .unknown = unknown.texts,
                                         .failed = failed.texts,
                                         .basis = rule->basis};
    return decision_deny(evaluation->decision, &denial, err);
}

/* --- exceptions --- */

static bool lists(const struct text_list *list, const char *text)
{
    for (size_t i = 0; text != NULL && i < list->count; i++)
        if (strcmp(list->texts[i], text) == 0) return true;
    return false;
}

static const struct exception_type *type_of(const struct policy_document *policy, const char *name)
{
    for (size_t i = 0; i < policy->type_count; i++)
        if (strcmp(policy->types[i].name, name) == 0) return &policy->types[i];
    return NULL;
}

static bool has_evidence(const struct policy_exception *exception, const struct exception_type *type)
{
    for (size_t i = 0; i < type->required_evidence.count; i++)
        if (json_object_get(exception->evidence, type->required_evidence.texts[i]) == NULL) return false;
    return true;
}

static bool is_bound_to(const struct policy_exception *exception, const struct policy_document *policy)
{
    return strcmp(exception->policy_id, policy->id) == 0 && exception->policy_version == policy->version &&
           strcmp(exception->policy_digest, policy->digest) == 0;
}

static bool is_dated(const struct policy_exception *exception, const struct exception_type *type, int64_t now_us)
{
    return exception->not_before_us <= now_us && now_us < exception->not_after_us &&
           exception->not_after_us - exception->not_before_us <= type->max_days * DAY_US;
}

const struct exception_type *exception_covers(const struct policy_exception *exception, const struct policy_document *policy,
                                              const struct rule *rule, enum policy_operation op, int64_t now_us)
{
    const struct exception_type *type = type_of(policy, exception->type);

    if (type == NULL || !is_bound_to(exception, policy) || !lists(&type->lifts, rule->id) ||
        !lists(&exception->lifts, rule->id) || (exception->operations & (uint32_t)op) == 0 ||
        !is_dated(exception, type, now_us) || (int64_t)exception->approver_count < type->approvals ||
        !has_evidence(exception, type) || exception->is_revoked || exception->uses_left <= 0)
        return NULL;
    return type;
}

/* Whether this well-formed exception lifts this rule for these facts. An unknown digest matches no exception. */
static bool lifts(const struct policy_exception *exception, const struct policy_document *policy, const struct rule *rule,
                  const struct policy_facts *facts)
{
    return uuid_equal(&exception->project, &facts->project) && lists(&exception->targets, facts->target_id) &&
           lists(&exception->digests, facts->digest) &&
           exception_covers(exception, policy, rule, facts->op, facts->now_us) != NULL;
}

/* The place of the first exception that lifts the rule; exception_count if none does. */
static size_t lifting_exception(const struct evaluation *evaluation, const struct policy_document *policy,
                                const struct rule *rule)
{
    const struct policy_facts *facts = evaluation->facts;
    size_t i = 0;

    while (i < facts->exception_count &&
           (policy_exception_problem(facts->exceptions[i]) != NULL || !lifts(facts->exceptions[i], policy, rule, facts)))
        i++;
    return i;
}

/* A lifted rule always leaves a receipt in the decision. */
static struct result lift(struct evaluation *evaluation, const struct policy_document *policy, const struct rule *rule,
                          size_t place, struct error *err)
{
    const struct policy_exception *exception = evaluation->facts->exceptions[place];
    struct obligation adds = type_of(policy, exception->type)->adds;
    struct policy_decision *decision = evaluation->decision;
    const char *id = arena_copy_text(decision->arena, bytes_of_text(exception->id)); /* a copy, because the exception may be freed
                                                                                        before the decision */
    const struct lifting lifting = {rule->id, policy->name, id, place};
    void *destination = NULL;

    if (id == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a decision");
    TRY(list_add(decision->arena, &decision->lifted, sizeof lifting, &destination, err));
    memcpy(destination, &lifting, sizeof lifting);
    adds.has_receipt = adds.receipt = true;
    return duties_merge(decision, &adds, err);
}

/* --- policies --- */

static void note_retention(struct policy_decision *decision, const struct policy_document *policy, const struct rule *rule)
{
    const struct obligation *sums = &decision->duties.sums, *added = &rule->oblige;

    if (added->has_retain_max && (!sums->has_retain_max || sums->retain_max_days > added->retain_max_days)) {
        decision->ending_rule = rule->id;
        decision->ending_policy = policy->name;
    }
    if (added->has_audit_retain_min &&
        (!sums->has_audit_retain_min || sums->audit_retain_min_days < added->audit_retain_min_days)) {
        decision->keeping_rule = rule->id;
        decision->keeping_policy = policy->name;
    }
    if (!added->has_retain_min || (sums->has_retain_min && sums->retain_min_days >= added->retain_min_days)) return;
    decision->retaining_rule = rule->id;
    decision->retaining_policy = policy->name;
}

static struct result refuse_by_rule(struct evaluation *evaluation, const struct policy_document *policy, const struct rule *rule,
                                    struct error *err)
{
    const size_t place = lifting_exception(evaluation, policy, rule);

    if (place < evaluation->facts->exception_count) return lift(evaluation, policy, rule, place, err);
    return deny_by_rule(evaluation, policy, rule, err);
}

static struct result warn_of_review(struct evaluation *evaluation, const struct policy_document *policy, struct error *err)
{
    const int64_t now_us = evaluation->facts->now_us;
    const int64_t today = now_us / DAY_US - (now_us % DAY_US < 0);
    const struct warning warning = {"REVIEW-OVERDUE", policy->name, policy->review_by};

    return today > policy->review_by_day ? decision_warn(evaluation->decision, &warning, err) : SUCCESS;
}

static void note_permit(struct policy_decision *decision, const struct policy_document *policy, const struct rule *rule)
{
    if (decision->permitting_rule != NULL) return;
    decision->permitting_rule = rule->id;
    decision->permitting_policy = policy->name;
}

static bool applies(const struct evaluation *evaluation, const struct policy_document *policy, bool in_scope)
{
    const struct label *label = evaluation->facts->label;

    return in_scope || is_pinned(policy, label) || (policy->has_applies_to && label_meets(&policy->applies_to, label));
}

static struct result evaluate_policy(struct evaluation *evaluation, size_t index, struct error *err)
{
    const struct policy_document *policy = evaluation->documents->documents[index];
    const bool in_scope = (evaluation->in_scope >> index & 1) != 0;
    uint16_t rules[POLICY_LIST_MAX];
    bool permitted = false;

    if (!applies(evaluation, policy, in_scope)) return SUCCESS;
    TRY(warn_of_review(evaluation, policy, err));
    const size_t count = speaking_rules(evaluation, index, rules);
    for (size_t i = 0; i < count; i++) {
        const struct rule *rule = &policy->rules[rules[i]];
        if (rule->effect == EFFECT_OBLIGE) {
            note_retention(evaluation->decision, policy, rule);
            TRY(duties_merge(evaluation->decision, &rule->oblige, err));
        } else if (rule->effect != EFFECT_PERMIT) TRY(refuse_by_rule(evaluation, policy, rule, err));
        else if (in_scope) note_permit(evaluation->decision, policy, rule);
        permitted = permitted || rule->effect == EFFECT_PERMIT;
    }
    if (policy->is_closed && !permitted)
        TRY(deny_system(evaluation, "SYS-CLOSED", policy->name, "no permit rule of this policy matches the label and op", err));
    evaluation->is_granted |= permitted && in_scope;
    return SUCCESS;
}

/* How "ID@" compares with the name of a policy, which begins so if it has this id. */
static int compare_id(const char *id, const struct policy_document *policy)
{
    const size_t length = strlen(id);
    const int by_id = strncmp(id, policy->name, length);

    return by_id != 0 ? by_id : (int)'@' - (int)(unsigned char)policy->name[length];
}

/* What an organisation adds for itself satisfies no pin: else it would free what a policy of the registry has left. */
static bool has_policy_in_force(const struct evaluation *evaluation, const char *id)
{
    struct policy_document *const *documents = evaluation->documents->documents;
    size_t low = 0, high = evaluation->documents->count;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (compare_id(id, documents[middle]) > 0) low = middle + 1;
        else high = middle;
    }
    for (; low < evaluation->documents->count && compare_id(id, documents[low]) == 0; low++)
        if (documents[low]->organisation == NULL && is_in_force(documents[low], evaluation->facts->now_us)) return true;
    return false;
}

static struct result check_pins(struct evaluation *evaluation, struct error *err)
{
    const struct label *label = evaluation->facts->label;

    for (size_t i = 0; i < label->pin_count; i++)
        if (!has_policy_in_force(evaluation, label->pins[i])) TRY(deny_missing_pin(evaluation, label->pins[i], err));
    return SUCCESS;
}

static struct result check_presence(struct evaluation *evaluation, struct error *err)
{
    static_assert(POLICY_COUNT_MAX <= 64, "a bit for each document");
    for (size_t i = 0; i < evaluation->documents->count; i++) {
        const struct policy_document *policy = evaluation->documents->documents[i];
        if (is_in_force(policy, evaluation->facts->now_us) && is_in_scope(evaluation, policy))
            evaluation->in_scope |= UINT64_C(1) << i;
    }
    if (evaluation->in_scope == 0) TRY(deny_system(evaluation, "SYS-NO-POLICY", "sys", "no policy in scope", err));
    return check_pins(evaluation, err);
}

static struct result evaluate_policies(struct evaluation *evaluation, struct error *err)
{
    static const char *const label = "label";
    static const struct policy_denial unlabelled = {
        .rule = "SYS-UNLABELLED", .policy = "sys", .message = "no effective label", .unknown_count = 1, .unknown = &label};

    if (evaluation->facts->label == NULL) return decision_deny(evaluation->decision, &unlabelled, err);
    TRY(check_presence(evaluation, err));
    for (size_t i = 0; i < evaluation->documents->count; i++)
        if (is_in_force(evaluation->documents->documents[i], evaluation->facts->now_us)) TRY(evaluate_policy(evaluation, i, err));
    if (evaluation->is_granted) return SUCCESS;
    return deny_system(evaluation, "SYS-CLOSED", "sys", "no policy in scope permits this", err);
}

static struct result warn_of_exceptions(struct evaluation *evaluation, struct error *err)
{
    const struct policy_facts *facts = evaluation->facts;

    for (size_t i = 0; i < facts->exception_count; i++) {
        const struct warning warning = {"EXCEPTION-MALFORMED", "sys", facts->exceptions[i]->problem};
        if (policy_exception_problem(facts->exceptions[i]) != NULL) TRY(decision_warn(evaluation->decision, &warning, err));
    }
    return SUCCESS;
}

static struct result check_retention(struct evaluation *evaluation, struct error *err)
{
    const struct obligation *sums = &evaluation->decision->duties.sums;

    if (!sums->has_retain_max || !sums->has_retain_min || sums->retain_max_days >= sums->retain_min_days) return SUCCESS;
    return deny_system(evaluation, "RETENTION-CONFLICT", "sys", "minimum and maximum retention cannot both hold", err);
}

static struct result identify(struct evaluation *evaluation, struct error *err)
{
    struct buffer OWNED_BUFFER inputs = BUFFER(2 * POLICY_FACTS_BYTES_MAX);
    uint8_t *destination = NULL;

    TRY(buffer_reserve(&inputs, INPUTS_USUAL, &destination, err)); /* one allocation instead of five */
    TRY(buffer_add_text(&inputs, "{\"evaluator\":\"" POLICY_EVALUATOR "\",\"facts\":", err));
    TRY(facts_write(&inputs, evaluation->facts, err));
    TRY(buffer_format(&inputs, err, ",\"groups\":\"%s\",\"policies\":%s}", evaluation->groups->digest,
                      evaluation->documents->digests));
    sha_text(buffer_bytes(&inputs), evaluation->decision->id);
    return SUCCESS;
}

/* Copies the texts of warnings, because the exceptions may be freed before the decision. */
static struct result keep_details(struct policy_decision *decision, struct error *err)
{
    struct warning *warnings = decision->warnings.items;

    for (size_t i = 0; i < decision->warnings.count; i++) {
        warnings[i].detail = arena_copy_text(decision->arena, bytes_of_text(warnings[i].detail));
        if (warnings[i].detail == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a decision");
    }
    return SUCCESS;
}

static struct result evaluate(struct evaluation *evaluation, struct error *err)
{
    struct policy_decision *decision = evaluation->decision;

    decision->groups_digest = evaluation->groups->digest;
    decision->documents_digests = evaluation->documents->digests;
    evaluation->whens = arena_take(decision->arena, evaluation->documents->index->when_count + 1);
    evaluation->conditions = arena_take(decision->arena, evaluation->documents->index->condition_count + 1);
    if (evaluation->whens == NULL || evaluation->conditions == NULL)
        return failure(err, ERROR_NO_MEMORY, "no memory for a decision");
    TRY(known_truths_of(evaluation->facts->target, evaluation->documents->index, evaluation->groups, &evaluation->truths, err));
    if (!scope_cut(evaluation->facts->scope, evaluation->segments, &evaluation->segment_count))
        return failure(err, ERROR_LIMIT, "a scope of more than %d bytes", POLICY_SCOPE_MAX);
    TRY(warn_of_exceptions(evaluation, err));
    TRY(evaluate_policies(evaluation, err));
    TRY(check_retention(evaluation, err));
    return keep_details(decision, err);
}

static struct result make(const struct policy_documents *documents, const struct policy_facts *facts,
                          const struct policy_groups *groups, bool is_identified, struct policy_decision **decision_out,
                          struct error *err)
{
    OWNED(arena) *arena = NULL;

    TRY(arena_new(DECISION_ARENA_MAX, &arena, err));
    struct policy_decision *decision = arena_take(arena, sizeof *decision);
    if (decision == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a decision");
    decision->arena = arena;
    struct evaluation evaluation = {.documents = documents, .facts = facts, .groups = groups, .decision = decision};
    TRY(evaluate(&evaluation, err));
    if (is_identified) TRY(identify(&evaluation, err));
    (void)GIVE(arena); /* the decision owns its arena and lies in it */
    *decision_out = decision;
    return SUCCESS;
}

struct result policy_evaluate(const struct policy_documents *documents, const struct policy_facts *facts,
                              const struct policy_groups *groups, struct policy_decision **decision_out, struct error *err)
{
    return make(documents, facts, groups, true, decision_out, err);
}

struct result policy_judge(const struct policy_documents *documents, const struct policy_facts *facts,
                           const struct policy_groups *groups, struct policy_decision **decision_out, struct error *err)
{
    return make(documents, facts, groups, false, decision_out, err);
}
