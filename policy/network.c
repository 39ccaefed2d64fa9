/* Which network a client is in: blocks of addresses, longest prefix first. */
#include <arpa/inet.h>
#include <assert.h>
#include <netinet/in.h>
#include <string.h>

#include "base/text.h"
#include "policy/set_priv.h"

static bool bit_is_set(const uint8_t *address, unsigned bit)
{
    return (address[bit / 8] >> (7 - bit % 8) & 1) != 0;
}

static bool has_bits_behind(const struct set_network *network)
{
    for (unsigned bit = network->prefix_bits; bit < (network->is_ipv4 ? 32 : 128); bit++)
        if (bit_is_set(network->address, bit)) return true;
    return false;
}

/* One spelling each, so that the same block can't be there twice under two names. */
static bool is_canonical(const struct set_network *network, const char *text)
{
    char again[INET6_ADDRSTRLEN];

    const char *spelled = inet_ntop(network->is_ipv4 ? AF_INET : AF_INET6, network->address, again, sizeof again);
    assert(spelled != NULL); /* there is room */
    return strcmp(spelled, text) == 0;
}

struct result network_parse(const char *cidr, struct set_network *network, struct error *err)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    const char *slash = strchr(cidr, '/');
    char address[INET6_ADDRSTRLEN] = {0};
    uint64_t bits = 0;

    if (slash == NULL || (size_t)(slash - cidr) >= sizeof address)
        return failure(err, ERROR_INVALID, "networks.cidr: an address and a prefix expected, such as 10.1.0.0/16");
    memcpy(address, cidr, (size_t)(slash - cidr));
    network->cidr = cidr;
    network->is_ipv4 = strchr(address, ':') == NULL;
    if (inet_pton(network->is_ipv4 ? AF_INET : AF_INET6, address, network->address) != 1 ||
        !is_canonical(network, address) ||
        !text_to_u64(bytes_of_text(slash + 1), network->is_ipv4 ? 32 : 128, &bits))
        return failure(err, ERROR_INVALID, "networks.cidr: %.60s is no block of addresses in its one spelling", cidr);
    network->prefix_bits = (unsigned)bits;
    if (has_bits_behind(network))
        return failure(err, ERROR_INVALID, "networks.cidr: %.60s has bits set behind its prefix", cidr);
    if (!network->is_ipv4 && memcmp(network->address, mapped, sizeof mapped) == 0) /* no bit behind: from 96 on */
        return failure(err, ERROR_INVALID, "networks.cidr: %.60s is IPv4 in disguise: write it as IPv4", cidr);
    return SUCCESS;
}

int compare_networks(const void *a, const void *b)
{
    const struct set_network *left = a, *right = b;

    if (left->prefix_bits != right->prefix_bits) return left->prefix_bits > right->prefix_bits ? -1 : 1;
    return strcmp(left->cidr, right->cidr);
}

static bool holds(const struct set_network *network, const uint8_t *address)
{
    const unsigned whole = network->prefix_bits / 8, rest = network->prefix_bits % 8;

    if (memcmp(network->address, address, whole) != 0) return false;
    return rest == 0 || ((network->address[whole] ^ address[whole]) >> (8 - rest)) == 0;
}

/* The raw address; an IPv4 client that came over an IPv6 socket is an IPv4 client. */
static bool raw_address(const struct sockaddr *client, uint8_t raw[16], bool *is_ipv4)
{
    if (client == NULL) return false;
    if (client->sa_family == AF_INET) {
        struct sockaddr_in address;
        memcpy(&address, client, sizeof address);
        memcpy(raw, &address.sin_addr, 4);
        *is_ipv4 = true;
        return true;
    }
    if (client->sa_family != AF_INET6) return false;
    struct sockaddr_in6 address;
    memcpy(&address, client, sizeof address);
    *is_ipv4 = IN6_IS_ADDR_V4MAPPED(&address.sin6_addr);
    memcpy(raw, address.sin6_addr.s6_addr + (*is_ipv4 ? 12 : 0), *is_ipv4 ? 4 : 16);
    return true;
}

const struct target *policy_set_network(const struct policy_set *set, const struct sockaddr *address,
                                        const char **name_out)
{
    uint8_t raw[16] = {0};
    bool is_ipv4 = false;

    if (!raw_address(address, raw, &is_ipv4)) return NULL;
    for (size_t i = 0; i < set->network_count; i++) {
        const struct set_network *network = &set->networks[i];
        if (network->is_ipv4 != is_ipv4 || !holds(network, raw)) continue;
        *name_out = network->cidr;
        return network->target;
    }
    return NULL;
}
