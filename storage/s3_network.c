#include "storage/s3_network.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

#include "base/text.h"

#define IPV4_BITS 96 /* before an IPv4 address */

static const uint8_t ipv4_prefix[12] = {[10] = 0xff, [11] = 0xff};

/* Where machines get addresses, credentials or orders from what is around them; none of it stores objects. */
static const char never[] = "0.0.0.0/8, 169.254.0.0/16, 224.0.0.0/3, 100.100.100.200/32, 168.63.129.16/32, 192.0.0.0/24, "
                            "::/128, fe80::/10, ff00::/8, fd00:ec2::/32, fd20:ce::/32";

static bool bit_is_set(const uint8_t *address, unsigned bit)
{
    return (address[bit / 8] >> (7 - bit % 8) & 1) != 0;
}

static struct result parse_one(struct bytes text, struct s3_network *network_out, struct error *err)
{
    char copy[INET6_ADDRSTRLEN + 4] = {0}; /* and "/128" */
    struct s3_network network = {0};
    uint64_t bits = 0;

    if (text.length < sizeof copy) memcpy(copy, text.data, text.length);
    char *slash = strchr(copy, '/');
    if (slash == NULL) return failure(err, ERROR_INVALID, "endpoint_networks: a network is an address and a prefix, such as 10.1.0.0/16");
    *slash = '\0';
    const bool is_ipv4 = strchr(copy, ':') == NULL;
    if (is_ipv4) memcpy(network.address, ipv4_prefix, sizeof ipv4_prefix);
    if (inet_pton(is_ipv4 ? AF_INET : AF_INET6, copy, network.address + (is_ipv4 ? sizeof ipv4_prefix : 0)) != 1 ||
        !text_to_u64(bytes_of_text(slash + 1), is_ipv4 ? 32 : 128, &bits))
        return failure(err, ERROR_INVALID, "endpoint_networks: %.60s/%.10s is no network: 10.1.0.0/16 or 2001:db8::/32 is one", copy, slash + 1);
    network.bits = (unsigned)bits + (is_ipv4 ? IPV4_BITS : 0);
    for (unsigned bit = network.bits; bit < 128; bit++)
        if (bit_is_set(network.address, bit))
            return failure(err, ERROR_INVALID, "endpoint_networks: %.60s/%.10s has bits set behind its prefix", copy, slash + 1);
    *network_out = network;
    return SUCCESS;
}

struct result s3_networks_parse(const char *text, struct s3_networks *networks_out, struct error *err)
{
    static const char between[] = ", \t";
    struct s3_networks networks = {0};

    for (text += strspn(text, between); *text != '\0'; text += strspn(text, between)) {
        const size_t length = strcspn(text, between);
        if (networks.count == S3_NETWORKS_MAX) return failure(err, ERROR_LIMIT, "endpoint_networks: more than %d networks", S3_NETWORKS_MAX);
        TRY(parse_one((struct bytes){(const uint8_t *)text, length}, &networks.each[networks.count], err));
        networks.count++;
        text += length;
    }
    *networks_out = networks;
    return SUCCESS;
}

static bool holds(const struct s3_network *network, const uint8_t address[16])
{
    for (unsigned bit = 0; bit < network->bits; bit++)
        if (bit_is_set(network->address, bit) != bit_is_set(address, bit)) return false;
    return true;
}

static bool one_holds(const struct s3_networks *networks, const uint8_t address[16])
{
    for (size_t i = 0; i < networks->count; i++)
        if (holds(&networks->each[i], address)) return true;
    return false;
}

/* What reaches an IPv4 address in other clothes counts as that address: mapped, translated (NAT64), 6to4. */
static void undress(uint8_t address[16])
{
    static const uint8_t nat64[12] = {0x00, 0x64, 0xff, 0x9b};
    uint8_t four[4];

    if (memcmp(address, nat64, sizeof nat64) == 0) memcpy(four, address + 12, sizeof four);
    else if (address[0] == 0x20 && address[1] == 0x02) memcpy(four, address + 2, sizeof four);
    else return;
    memcpy(address, ipv4_prefix, sizeof ipv4_prefix);
    memcpy(address + 12, four, sizeof four);
}

static bool raw_address(const struct sockaddr *address, uint8_t raw_out[16])
{
    if (address->sa_family == AF_INET) {
        struct sockaddr_in four;
        memcpy(&four, address, sizeof four);
        memcpy(raw_out, ipv4_prefix, sizeof ipv4_prefix);
        memcpy(raw_out + sizeof ipv4_prefix, &four.sin_addr, 4);
        return true;
    }
    if (address->sa_family != AF_INET6) return false;
    struct sockaddr_in6 six;
    memcpy(&six, address, sizeof six);
    memcpy(raw_out, &six.sin6_addr, 16);
    undress(raw_out);
    return true;
}

bool s3_networks_allow(const struct s3_networks *networks, const struct sockaddr *address)
{
    struct s3_networks forbidden;
    struct error ignored = {0};
    uint8_t raw[16];

    if (!raw_address(address, raw)) return false;
    if (networks->count > 0) return one_holds(networks, raw);
    return s3_networks_parse(never, &forbidden, &ignored).ok && !one_holds(&forbidden, raw);
}
