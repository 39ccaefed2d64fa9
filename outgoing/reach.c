#include "outgoing/reach.h"

#include <string.h>

#define IPV4_BITS 96 /* of the prefix before an IPv4 address */

/* Special networks, such as those in which a cloud gives addresses and credentials to its machines. */
static const char never[] = "0.0.0.0/8, 169.254.0.0/16, 224.0.0.0/3, 100.100.100.200/32, 168.63.129.16/32, 192.0.0.0/24, "
                            "::/128, fe80::/10, ff00::/8, fd00:ec2::/32, fd20:ce::/32";

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
    struct networks forbidden;
    struct error ignored = {0};

    if (reach == OUTGOING_ANY) return true;
    if (reach == OUTGOING_LISTED) return networks_hold(listed, &real);
    return networks_parse("never", never, &forbidden, &ignored).ok && !networks_hold(&forbidden, &real);
}
