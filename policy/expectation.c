#include "policy/expectation.h"

#include <string.h>

#include "policy/set_priv.h"

struct result policy_expectations_check(const json_t *document, struct error *err)
{
    return shape_check(&shape_expectations, document, "expectations", err);
}

uint32_t policy_expectation_operations(const json_t *expectation)
{
    return compile_words(json_object_get(expectation, "ops"), operation_names);
}

/* --- the label: what is not stated is the least strict, and its lineage unknown --- */

static struct result read_label(const json_t *stated, json_t **json_out, struct label *label_out, struct error *err)
{
    OWNED_JSON whole = json_pack("{s:[], s:s, s:s, s:[], s:[]}", "attached", "class", class_names[LABEL_OPEN], "lineage",
                                 lineage_names[LINEAGE_UNKNOWN], "pins", "subjects");

    if (whole == NULL || json_object_update(whole, (json_t *)(uintptr_t)stated) != 0)
        return failure(err, ERROR_NO_MEMORY, "no memory for a label");
    TRY(label_read(whole, label_out, err));
    *json_out = GIVE(whole); /* the label borrows from it */
    return SUCCESS;
}

/* --- the target --- */

struct aimed {
    const char *id;
    const struct policy_target *target;
    struct policy_target *own; /* owned */
    enum policy_operation op;
    int64_t now_us;
};

static struct result aim_at_address(const struct policy_set *set, const char *text, struct aimed *aimed, struct error *err)
{
    struct network address;

    if (!network_of_address(text, &address)) return failure(err, ERROR_INVALID, "address: %.60s is no IP address", text);
    aimed->id = "client"; /* as policy/decider/decide_policies.c calls it */
    aimed->target = policy_set_unknown(set);
    for (size_t i = 0; i < set->network_count; i++) {
        if (!network_holds(&set->networks[i].block, &address)) continue;
        aimed->id = set->networks[i].cidr;
        aimed->target = set->networks[i].target;
        return SUCCESS;
    }
    return SUCCESS;
}

static struct result aim_at_network(const struct policy_set *set, const char *cidr, struct aimed *aimed, struct error *err)
{
    const struct set_network *place = set_place(set, cidr);

    if (place == NULL) return failure(err, ERROR_INVALID, "network: the set has no network %.96s", cidr);
    *aimed = (struct aimed){.id = cidr, .target = place->target};
    return SUCCESS;
}

static struct result aim(const struct policy_set *set, const json_t *expectation, struct aimed *aimed, struct error *err)
{
    const char *region = json_text_of(expectation, "region"), *network = json_text_of(expectation, "network");
    const char *address = json_text_of(expectation, "address");
    const json_t *target = json_object_get(expectation, "target");

    if ((region != NULL) + (network != NULL) + (address != NULL) + (target != NULL) != 1)
        return failure(err, ERROR_INVALID, "exactly one of region, network, address and target expected");
    if (network != NULL) return aim_at_network(set, network, aimed, err);
    if (address != NULL) return aim_at_address(set, address, aimed, err);
    if (target != NULL) {
        TRY(policy_target_new(target, &aimed->own, err));
        aimed->id = "test";
        aimed->target = aimed->own;
        return SUCCESS;
    }
    aimed->id = region;
    aimed->target = policy_set_region(set, region, aimed->now_us);
    if (aimed->op != OP_TRAIN && strncmp(region, POLICY_ATTESTED_MARK, strlen(POLICY_ATTESTED_MARK)) == 0)
        return failure(err, ERROR_INVALID, "region: %.80s is the place of a runner, for train alone", region);
    return aimed->target != NULL ? SUCCESS : failure(err, ERROR_INVALID, "region: the set has no region %.60s", region);
}

/* --- the answer --- */

static bool is_policy(const char *wanted, const char *name)
{
    const size_t length = strlen(wanted);

    return wanted[0] == '\0' || (strncmp(name, wanted, length) == 0 && (name[length] == '\0' || name[length] == '@'));
}

/* Whether the decision has this rule ("": any) of this policy ("": any), which may be named without its version. */
static bool names(const struct policy_decision *decision, bool allows, const char *rule, const char *policy)
{
    const char *permitting_policy = NULL;
    const char *permit = policy_decision_permit(decision, &permitting_policy);

    if (allows) return permit != NULL && (rule[0] == '\0' || strcmp(permit, rule) == 0) && is_policy(policy, permitting_policy);
    for (size_t i = 0; i < policy_decision_denial_count(decision); i++) {
        const struct policy_denial *denial = policy_decision_denial(decision, i);
        if ((rule[0] == '\0' || strcmp(denial->rule, rule) == 0) && is_policy(policy, denial->policy)) return true;
    }
    return false;
}

static const char *text_or_none(const json_t *object, const char *name)
{
    const char *text = json_text_of(object, name);

    return text == NULL ? "" : text;
}

static struct result decide(const struct policy_set *set, struct policy_facts *facts, const struct label *own,
                            struct policy_decision **decision_out, struct error *err)
{
    const struct label_query query = {set->documents, facts->scope, facts->now_us};
    struct label label;
    bool is_labelled = false;

    TRY(policy_effective_label(&query, own, &label, &is_labelled, err));
    facts->label = is_labelled ? &label : NULL;
    facts->exceptions = policy_set_exceptions(set, &facts->project, &facts->exception_count);
    const struct result decided = policy_evaluate(set->documents, facts, set->groups, decision_out, err);
    facts->label = NULL;
    return decided;
}

static struct result ask_target(const struct policy_set *set, const json_t *expectation, struct policy_facts *facts,
                                struct policy_expectation_answer *answer, struct error *err)
{
    const json_t *stated = json_object_get(expectation, "label");
    OWNED_JSON label_json = NULL;
    struct label own;

    if (stated != NULL) TRY(read_label(stated, &label_json, &own, err));
    TRY(decide(set, facts, stated == NULL ? NULL : &own, &answer->decision, err));
    answer->allows = policy_decision_allows(answer->decision);
    const bool wanted = strcmp(json_text_of(expectation, "expect"), "allow") == 0;
    answer->holds = answer->allows == wanted &&
                    names(answer->decision, wanted, text_or_none(expectation, "rule"), text_or_none(expectation, "policy"));
    return SUCCESS;
}

struct result policy_expectation_ask(const struct policy_set *set, const json_t *expectation, enum policy_operation op,
                                     int64_t now_us, struct policy_expectation_answer *answer_out, struct error *err)
{
    const char *project = json_text_of(expectation, "project"), *now = json_text_of(expectation, "now");
    struct policy_facts facts = {.op = op,
                                 .scope = json_text_of(expectation, "scope"),
                                 .digest = json_text_of(expectation, "digest"),
                                 .policy_epoch = set->epoch,
                                 .now_us = now_us};
    struct aimed aimed = {.id = NULL};

    if (project != NULL) (void)uuid_parse(bytes_of_text(project), &facts.project); /* the shapes have read both */
    if (now != NULL) (void)policy_time_parse(bytes_of_text(now), &facts.now_us);
    facts.now_us = facts.now_us / 1000 * 1000; /* decisions are made at milliseconds */
    *answer_out = (struct policy_expectation_answer){.decision = NULL};
    aimed.now_us = facts.now_us;
    aimed.op = op;
    TRY(aim(set, expectation, &aimed, err));
    facts.target_id = aimed.id;
    facts.target = aimed.target;
    const struct result asked = ask_target(set, expectation, &facts, answer_out, err);
    policy_target_free(aimed.own);
    return asked;
}

void policy_expectation_answer_done(struct policy_expectation_answer *answer)
{
    policy_decision_free(answer->decision);
    answer->decision = NULL;
}
