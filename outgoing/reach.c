#include "outgoing/reach.h"

#include <string.h>

#define IPV4_BITS 96 /* of the prefix before an IPv4 address */

/* Special networks, such as those in which a cloud gives addresses and credentials to its machines. */
static const char never[] = "0.0.0.0/8, 169.254.0.0/16, 224.0.0.0/3, 100.100.100.200/32, 168.63.129.16/32, 192.0.0.0/24, "
                            "::/128, fe80::/10, ff00::/8, fd00:ec2::/32, fd20:ce::/32";

/* Networks that are private to a machine, a site or a provider, or that only documents use (RFC 6890). At most 16 in a list. */
static const char private[] =
    "10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16, 127.0.0.0/8, 100.64.0.0/10, 198.18.0.0/15, 192.0.2.0/24, "
    "198.51.100.0/24, 203.0.113.0/24, ::1/128, fc00::/7, fec0::/10, 2001::/32, 2001:db8::/32, 64:ff9b:1::/48, 100::/64";

static bool is_in(const char *list, const struct network *address)
{
    struct networks networks;
    struct error ignored = {0};

    return !networks_parse("list", list, &networks, &ignored).ok || networks_hold(&networks, address);
}

/* An IPv6 address that leads to an IPv4 address counts as that address: translated (NAT64, RFC 6052), or 6to4 (RFC 3056). */
static struct network real_of(const struct network *address)
{
    static const uint8_t nat64[12] = {0x00, 0x64, 0xff, 0x9b}, sixtofour[2] = {0x20, 0x02};
    struct network real = {.address = {[10] = 0xff, [11] = 0xff}, .bits = address->bits};
    const uint8_t *four = NULL;

    if (memcmp(address->address, nat64, sizeof nat64) == 0) four = address->address + sizeof nat64;
    if (memcmp(address->address, sixtofour, sizeof sixtofour) == 0) four = address->address + sizeof sixtofour;
    if (four == NULL) return *address;
    memcpy(real.address + IPV4_BITS / 8, four, 4);
    return real;
}

bool outgoing_reaches(enum outgoing_reach reach, const struct networks *listed, const struct network *address)
{
    const struct network real = real_of(address);

    if (reach == OUTGOING_ANY) return true;
    if (reach == OUTGOING_LISTED) return networks_hold(listed, &real);
    return !is_in(never, &real) && (reach != OUTGOING_PUBLIC || !is_in(private, &real));
}
