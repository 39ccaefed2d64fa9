#include "base/network.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

#define ALL_BITS  128
#define IPV4_BITS 96 /* of the prefix before an IPv4 address */

static const uint8_t ipv4_prefix[IPV4_BITS / 8] = {[10] = 0xff, [11] = 0xff};

static uint8_t *ipv4_part(struct network *network)
{
    memcpy(network->address, ipv4_prefix, sizeof ipv4_prefix);
    return network->address + sizeof ipv4_prefix;
}

bool network_is_ipv4(const struct network *network)
{
    return network->bits >= IPV4_BITS && memcmp(network->address, ipv4_prefix, sizeof ipv4_prefix) == 0;
}

bool network_of_socket(const struct sockaddr *address, struct network *network_out)
{
    struct network network = {.bits = ALL_BITS};

    if (address == NULL) return false;
    if (address->sa_family == AF_INET) {
        struct sockaddr_in four;
        memcpy(&four, address, sizeof four);
        memcpy(ipv4_part(&network), &four.sin_addr, sizeof four.sin_addr);
    } else if (address->sa_family == AF_INET6) {
        struct sockaddr_in6 six;
        memcpy(&six, address, sizeof six);
        memcpy(network.address, &six.sin6_addr, sizeof six.sin6_addr);
    } else {
        return false;
    }
    *network_out = network;
    return true;
}

bool network_of_address(const char *text, struct network *network_out)
{
    struct network network = {.bits = ALL_BITS};
    const bool is_ipv4 = strchr(text, ':') == NULL;

    if (inet_pton(is_ipv4 ? AF_INET : AF_INET6, text, is_ipv4 ? ipv4_part(&network) : network.address) != 1) return false;
    *network_out = network;
    return true;
}

/* Sets the bits after the first `bits` to 0. */
static void clear_behind(uint8_t address[16], unsigned bits)
{
    for (unsigned i = 0; i < ALL_BITS / 8; i++) {
        const unsigned kept = bits <= 8 * i ? 0 : bits - 8 * i;
        if (kept < 8) address[i] &= (uint8_t)(0xff00u >> kept);
    }
}

void network_widen(struct network *network, unsigned ipv4_bits, unsigned ipv6_bits)
{
    const unsigned bits = network_is_ipv4(network) ? IPV4_BITS + ipv4_bits : ipv6_bits;

    if (bits >= network->bits) return;
    network->bits = bits;
    clear_behind(network->address, bits);
}

enum network_form network_read(struct bytes text, struct network *network_out)
{
    char copy[NETWORK_TEXT_SIZE] = "";
    struct network network;
    uint64_t bits = 0;

    if (text.length > 0 && text.length < sizeof copy) memcpy(copy, text.data, text.length);
    char *slash = strchr(copy, '/');
    if (slash == NULL || strlen(copy) != text.length) return NETWORK_WITHOUT_PREFIX;
    *slash = '\0';
    const bool is_ipv4 = strchr(copy, ':') == NULL;
    if (!network_of_address(copy, &network) || !text_to_u64(bytes_of_text(slash + 1), is_ipv4 ? 32 : ALL_BITS, &bits))
        return NETWORK_MALFORMED;
    network.bits = (unsigned)bits + (is_ipv4 ? IPV4_BITS : 0);
    struct network cleared = network;
    clear_behind(cleared.address, cleared.bits);
    if (memcmp(cleared.address, network.address, sizeof cleared.address) != 0) return NETWORK_WITH_BITS_BEHIND;
    *network_out = network;
    return NETWORK_GOOD;
}

bool network_holds(const struct network *network, const struct network *other)
{
    const unsigned whole = network->bits / 8, rest = network->bits % 8;

    if (other->bits < network->bits || memcmp(network->address, other->address, whole) != 0) return false;
    if (rest != 0 && (network->address[whole] ^ other->address[whole]) >> (8 - rest) != 0) return false;
    return network_is_ipv4(other) == network_is_ipv4(network);
}

struct network network_real(const struct network *address)
{
    static const uint8_t nat64[12] = {0x00, 0x64, 0xff, 0x9b}, sixtofour[2] = {0x20, 0x02};
    struct network real = {.bits = address->bits};
    const uint8_t *four = NULL;

    if (memcmp(address->address, nat64, sizeof nat64) == 0) four = address->address + sizeof nat64;
    if (memcmp(address->address, sixtofour, sizeof sixtofour) == 0) four = address->address + sizeof sixtofour;
    if (four == NULL) return *address;
    memcpy(ipv4_part(&real), four, 4);
    return real;
}

bool network_is_loopback(const struct network *address)
{
    static const uint8_t six[16] = {[15] = 1};

    return network_is_ipv4(address) ? address->address[12] == 127 : memcmp(address->address, six, sizeof six) == 0;
}

bool network_is_special(const struct network *address)
{
    static const char *const special[] = {"0.0.0.0/8",        "169.254.0.0/16", "224.0.0.0/3", "100.100.100.200/32",
                                          "168.63.129.16/32", "192.0.0.0/24",   "::/128",      "fe80::/10",
                                          "ff00::/8",         "fd00:ec2::/32",  "fd20:ce::/32"};
    const struct network real = network_real(address);
    struct network network;

    for (size_t i = 0; i < sizeof special / sizeof special[0]; i++)
        if (network_read(bytes_of_text(special[i]), &network) != NETWORK_GOOD || network_holds(&network, &real)) return true;
    return false;
}

void network_write_address(const struct network *network, char text_out[INET6_ADDRSTRLEN])
{
    const bool is_ipv4 = network_is_ipv4(network);

    (void)inet_ntop(is_ipv4 ? AF_INET : AF_INET6, network->address + (is_ipv4 ? sizeof ipv4_prefix : 0), text_out,
                    INET6_ADDRSTRLEN);
}

void network_write(const struct network *network, char text_out[NETWORK_TEXT_SIZE])
{
    char address[INET6_ADDRSTRLEN];

    network_write_address(network, address);
    (void)snprintf(text_out, NETWORK_TEXT_SIZE, "%s/%u", address, network->bits - (network_is_ipv4(network) ? IPV4_BITS : 0));
}

/* ---- Lists ---- */

static struct result parse_one(const char *setting, struct bytes text, struct network *network_out, struct error *err)
{
    const int length = (int)text.length; /* network_read() accepted it, so it is shorter than NETWORK_TEXT_SIZE */
    const char *shown = (const char *)text.data;

    switch (network_read(text, network_out)) {
    case NETWORK_WITHOUT_PREFIX:
        return failure(err, ERROR_INVALID, "%s: a network is an address and a prefix, such as 10.1.0.0/16", setting);
    case NETWORK_MALFORMED:
        return failure(err, ERROR_INVALID, "%s: %.*s is no network: 10.1.0.0/16 or 2001:db8::/32 is one", setting, length, shown);
    case NETWORK_WITH_BITS_BEHIND:
        return failure(err, ERROR_INVALID, "%s: %.*s has bits set behind its prefix", setting, length, shown);
    case NETWORK_GOOD: break;
    }
    return SUCCESS;
}

struct result networks_parse(const char *setting, const char *text, struct networks *networks_out, struct error *err)
{
    static const char between[] = ", \t";
    struct networks networks = {0};

    for (text += strspn(text, between); *text != '\0'; text += strspn(text, between)) {
        const size_t length = strcspn(text, between);
        if (networks.count == NETWORKS_MAX) return failure(err, ERROR_LIMIT, "%s: more than %d networks", setting, NETWORKS_MAX);
        TRY(parse_one(setting, (struct bytes){(const uint8_t *)text, length}, &networks.each[networks.count], err));
        networks.count++;
        text += length;
    }
    *networks_out = networks;
    return SUCCESS;
}

bool networks_hold(const struct networks *networks, const struct network *other)
{
    for (size_t i = 0; i < networks->count; i++)
        if (network_holds(&networks->each[i], other)) return true;
    return false;
}
