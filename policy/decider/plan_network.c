/* The network of a client of which only the network in another set is known: its address is sealed. */
#include <string.h>

#include "policy/decider/plan_priv.h"

static bool is_same(const struct network *a, const struct network *b)
{
    return network_holds(a, b) && network_holds(b, a);
}

static bool has_network(const struct policy_set *set, const struct network *block)
{
    for (size_t i = 0; i < set->network_count; i++)
        if (is_same(&set->networks[i].block, block)) return true;
    return false;
}

/* The longest prefix first: the first one that contains `block`. */
static const struct set_network *around(const struct policy_set *set, const struct network *block)
{
    for (size_t i = 0; i < set->network_count; i++)
        if (network_holds(&set->networks[i].block, block)) return &set->networks[i];
    return NULL;
}

/* `then` found `block`, or nothing (NULL). A network that `then` had inside of it does not have the client, or it would have been found. */
static bool may_have(const struct set_network *network, const struct network *block, const struct policy_set *then)
{
    if (block != NULL && (!network_holds(block, &network->block) || is_same(block, &network->block))) return false;
    if (then == NULL) return true;
    return block == NULL ? around(then, &network->block) == NULL : !has_network(then, &network->block);
}

bool plan_network(const struct policy_set *set, const char *cidr, const struct policy_set *then, struct plan_question *question)
{
    struct network block;
    const struct set_network *same = set_place(set, cidr);

    if (then == NULL ? set->place_count > set->network_count : set_places_differ(set, then)) return false;
    if (same != NULL && then != NULL && set->place_count > set->network_count) {
        question->target_id = same->cidr;
        question->target = same->target;
        return true;
    }
    const bool is_named = network_read(bytes_of_text(cidr), &block) == NETWORK_GOOD;

    for (size_t i = 0; set != then && i < set->network_count; i++)
        if (may_have(&set->networks[i], is_named ? &block : NULL, then)) return false;
    const struct set_network *found = is_named ? around(set, &block) : NULL;
    question->target_id = found == NULL ? "client" : found->cidr;
    question->target = found == NULL ? NULL : found->target;
    return true;
}
