/* Evaluates every region of the catalogue, for explanations. */
#include "policy/evaluate.h"
#include "policy/set_priv.h"

/* The facts of a region for a client with the strongest possible proof. */
static struct result strongest(const struct policy_target *region, struct policy_target **target_out, struct error *err)
{
    const unsigned before = json_lacks();
    OWNED_JSON json = json_copy(region->json); /* a shallow copy */

    if (json == NULL || json_lacks() != before || json_object_set_new(json, "assurance", json_integer(4)) != 0 ||
        json_object_set_new(json, "recipient", json_string("same-controller")) != 0)
        return failure(err, ERROR_NO_MEMORY, "no memory for facts");
    return policy_target_new(json, target_out, err);
}

static struct result try_region(const struct policy_set *set, const struct set_region *region, const struct policy_facts *asked,
                                bool *allowed_out, struct error *err)
{
    OWNED(policy_target) *target = NULL;
    OWNED(policy_decision) *decision = NULL;
    struct policy_facts facts = *asked;

    TRY(strongest(set_region_facts(region, asked->now_us), &target, err));
    facts.target_id = region->id;
    facts.target = target;
    facts.canonical = NULL;
    TRY(policy_evaluate(set->documents, &facts, set->groups, &decision, err));
    *allowed_out = policy_decision_allows(decision);
    return SUCCESS;
}

struct result policy_set_allowed_regions(const struct policy_set *set, const struct policy_facts *facts, const char **allowed_out,
                                         size_t *count_out, struct error *err)
{
    size_t count = 0;

    for (size_t i = 0; i < set->region_count; i++) {
        bool allowed = false;
        TRY(try_region(set, &set->regions[i], facts, &allowed, err));
        if (allowed) allowed_out[count++] = set->regions[i].id;
    }
    *count_out = count;
    return SUCCESS;
}
