#include "outgoing/reach.h"

/* Networks that are private to a machine, a site or a provider, or that only documents use (RFC 6890). At most 16 in a list. */
static const char private[] =
    "10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16, 127.0.0.0/8, 100.64.0.0/10, 198.18.0.0/15, 192.0.2.0/24, "
    "198.51.100.0/24, 203.0.113.0/24, ::1/128, fc00::/7, fec0::/10, 2001::/32, 2001:db8::/32, 64:ff9b:1::/48, 100::/64";

static bool is_private(const struct network *address)
{
    struct networks networks;
    struct error ignored = {0};

    return !networks_parse("list", private, &networks, &ignored).ok || networks_hold(&networks, address);
}

bool outgoing_reaches(enum outgoing_reach reach, const struct networks *listed, const struct network *address)
{
    const struct network real = network_real(address);

    if (reach == OUTGOING_ANY) return true;
    if (reach == OUTGOING_LISTED) return networks_hold(listed, &real);
    return !network_is_special(&real) && (reach != OUTGOING_PUBLIC || !is_private(&real));
}
