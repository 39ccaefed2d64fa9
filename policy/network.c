/* Finds the network of a client: blocks of addresses, longest prefix first. */
#include <string.h>

#include "policy/set_priv.h"

/* Only the canonical form is valid, so a set can't have the same block under two names. */
static bool is_canonical(const struct set_network *network)
{
    char again[NETWORK_TEXT_SIZE];

    network_write(&network->block, again);
    return strcmp(again, network->cidr) == 0;
}

struct result set_network_parse(const char *cidr, struct set_network *network, struct error *err)
{
    const enum network_form form = network_read(bytes_of_text(cidr), &network->block);

    network->cidr = cidr;
    if (form == NETWORK_WITHOUT_PREFIX)
        return failure(err, ERROR_INVALID, "networks.cidr: an address and a prefix expected, such as 10.1.0.0/16");
    if (form == NETWORK_WITH_BITS_BEHIND)
        return failure(err, ERROR_INVALID, "networks.cidr: %.60s has bits set behind its prefix", cidr);
    if (form == NETWORK_GOOD && strchr(cidr, ':') != NULL && network_is_ipv4(&network->block))
        return failure(err, ERROR_INVALID, "networks.cidr: %.60s is IPv4 in disguise: write it as IPv4", cidr);
    if (form == NETWORK_MALFORMED || !is_canonical(network))
        return failure(err, ERROR_INVALID, "networks.cidr: %.60s is no block of addresses in its one spelling", cidr);
    return SUCCESS;
}

int compare_networks(const void *a, const void *b)
{
    const struct set_network *left = a, *right = b;

    if (left->block.bits != right->block.bits) return left->block.bits > right->block.bits ? -1 : 1;
    return strcmp(left->cidr, right->cidr);
}

const struct policy_target *policy_set_network(const struct policy_set *set, const struct sockaddr *address,
                                               const char **name_out)
{
    struct network client;

    if (!network_of_socket(address, &client)) return NULL;
    for (size_t i = 0; i < set->network_count; i++) {
        if (!network_holds(&set->networks[i].block, &client)) continue;
        *name_out = set->networks[i].cidr;
        return set->networks[i].target;
    }
    return NULL;
}
