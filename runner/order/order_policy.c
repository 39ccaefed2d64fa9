#include "runner/order/order_policy.h"

#include <string.h>

#include "policy/evaluate.h"

struct again {
    const struct run_envelope *order;
    const struct policy_set *set;
    const struct order_place *place;
};

/* Any failure other than lack of memory is a refusal: no registry decides with such a set or order. */
static struct result refused(const struct error *why, struct error *err)
{
    return failure(err, why->kind == ERROR_NO_MEMORY ? ERROR_NO_MEMORY : ERROR_DENIED, "%.250s", why->message);
}

static struct result find_set(const struct run_envelope *order, const json_t *sets, const struct ecdsa_key *root,
                              struct policy_set **set_out, struct error *err)
{
    for (size_t i = 0; i < json_array_size(sets); i++) {
        OWNED(policy_set) *set = NULL;
        struct error why = {0};
        if (!policy_set_read(bytes_of_text(json_string_value(json_array_get(sets, i))), root, &set, &why).ok)
            return refused(&why, err);
        if (strcmp(policy_set_digest(set), run_text(order, "policy.digest")) != 0) continue;
        if ((int64_t)policy_set_epoch(set) != run_integer(order, "policy.epoch"))
            return failure(err, ERROR_DENIED, "the order names another epoch than its policy set has");
        *set_out = GIVE(set);
        return SUCCESS;
    }
    return failure(err, ERROR_DENIED, "the order comes without the policy set %.71s", run_text(order, "policy.digest"));
}

/* Floors state no lineage. The least strict one is taken, so this refuses only what the set refuses with every lineage. */
static struct result decide(const struct again *again, const char *repository, struct policy_decision **decision_out,
                            struct error *err)
{
    const int64_t now_us = again->place->now_ms * 1000;
    const struct policy_target *target = policy_set_region(again->set, again->place->region);
    const struct label_query query = {.documents = policy_set_documents(again->set), .scope = repository, .now_us = now_us};
    struct label floor;
    bool is_floor = false;

    TRY(policy_effective_label(&query, NULL, &floor, &is_floor, err));
    floor.lineage = LINEAGE_ATTESTED;
    const struct policy_facts facts = {.op = OP_TRAIN,
                                       .scope = repository,
                                       .policy_epoch = policy_set_epoch(again->set),
                                       .label = is_floor ? &floor : NULL,
                                       .target_id = again->place->region,
                                       .target = target != NULL ? target : policy_set_unknown(again->set),
                                       .now_us = now_us};
    return policy_evaluate(policy_set_documents(again->set), &facts, policy_set_groups(again->set), decision_out, err);
}

/* Without a floor only the registry knows the label, so there is nothing to decide again. */
static bool is_for_lack_of_label(const struct policy_denial *denial)
{
    return strcmp(denial->rule, "SYS-UNLABELLED") == 0;
}

static struct result check_repository(const struct again *again, const char *repository, struct error *err)
{
    OWNED(policy_decision) *decision = NULL;
    struct error why = {0};

    if (!decide(again, repository, &decision, &why).ok) return refused(&why, err);
    for (size_t i = 0; i < policy_decision_denial_count(decision); i++) {
        const struct policy_denial *denial = policy_decision_denial(decision, i);
        if (!is_for_lack_of_label(denial))
            return failure(err, ERROR_DENIED, "%.100s may not be used in %.60s: rule %.50s", repository, again->place->region,
                           denial->rule);
    }
    const int64_t asked = policy_decision_approvals(decision);
    if (asked <= run_integer(again->order, "obligations.approvals")) return SUCCESS;
    return failure(err, ERROR_DENIED, "the policies ask for %lld approvals of a run with %.100s, and the order for %lld",
                   (long long)asked, repository, (long long)run_integer(again->order, "obligations.approvals"));
}

static struct result check_artifact(const struct again *again, const json_t *artifact, struct error *err)
{
    const char *repository = json_text_of(artifact, "repository");

    return repository == NULL ? SUCCESS : check_repository(again, repository, err);
}

static struct result check_list(const struct again *again, const json_t *list, struct error *err)
{
    for (size_t i = 0; i < json_array_size(list); i++) TRY(check_artifact(again, json_array_get(list, i), err));
    return SUCCESS;
}

struct result order_policy_check(const struct run_envelope *order, const json_t *sets, const struct ecdsa_key *root,
                                 const struct order_place *place, struct error *err)
{
    OWNED(policy_set) *set = NULL;

    TRY(find_set(order, sets, root, &set, err));
    const struct again again = {.order = order, .set = set, .place = place};
    TRY(check_artifact(&again, run_member(order, "spec.code"), err));
    TRY(check_artifact(&again, run_member(order, "spec.image"), err));
    TRY(check_artifact(&again, run_member(order, "spec.resume"), err));
    TRY(check_list(&again, run_member(order, "spec.inputs"), err));
    return check_list(&again, run_member(order, "spec.outputs"), err);
}
