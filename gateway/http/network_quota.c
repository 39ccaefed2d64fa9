#include "gateway/http/network_quota.h"

#include <stdatomic.h>

#include "base/memory.h"
#include "base/network.h"
#include "base/share.h"

#define IPV4_BITS 24
#define IPV6_BITS 64 /* providers give a customer a network of this size */

struct network_quota {
    struct quota *networks, *addresses;
    struct network_limits limits;
    _Atomic int64_t count;
};

struct result network_quota_new(const struct network_limits *limits, struct network_quota **quota_out, struct error *err)
{
    OWNED(network_quota) *quota = memory_zeroed(1, sizeof *quota);

    if (quota == NULL) return failure(err, ERROR_NO_MEMORY, "no memory to count connections");
    quota->limits = *limits;
    TRY(quota_new(2 * (unsigned)limits->most, &quota->networks, err));
    TRY(quota_new(2 * (unsigned)limits->most, &quota->addresses, err));
    *quota_out = GIVE(quota);
    return SUCCESS;
}

bool network_of_client(const struct sockaddr *address, char network_out[CLIENT_NETWORK_SIZE])
{
    struct network network;

    if (!network_of_socket(address, &network)) return false;
    network_widen(&network, IPV4_BITS, IPV6_BITS);
    network_write_address(&network, network_out);
    return true;
}

/* The number of connections that one network may have now; at least one. */
static unsigned most_now(const struct network_quota *quota)
{
    const int64_t most = quota->limits.most, share = most * quota->limits.share / 100;
    const int64_t now = share_limit(most, atomic_load(&quota->count), SHARE_LITTLE(most));
    const int64_t least = now < share ? now : share;

    return least < 1 ? 1 : (unsigned)least;
}

enum network_room network_quota_enter(struct network_quota *quota, const struct sockaddr *address,
                                      struct network_ticket *ticket_out)
{
    const struct quota_limits of_network = {.at_a_time = most_now(quota)},
                              of_address = {.at_a_time = (unsigned)quota->limits.of_address};
    char text[CLIENT_NETWORK_SIZE];
    struct network network;
    struct error err = {0};

    if (!network_of_socket(address, &network)) return NETWORK_HAS_ROOM;
    network_write_address(&network, text);
    if (!quota_enter(quota->addresses, "address", text, &of_address, &ticket_out->address, &err).ok)
        return NETWORK_ADDRESS_IS_FULL;
    (void)network_of_client(address, text);
    if (!quota_enter(quota->networks, "network", text, &of_network, &ticket_out->network, &err).ok) {
        quota_leave(quota->addresses, &ticket_out->address);
        return NETWORK_IS_FULL;
    }
    atomic_fetch_add(&quota->count, 1);
    return NETWORK_HAS_ROOM;
}

void network_quota_leave(struct network_quota *quota, struct network_ticket *ticket)
{
    if (ticket->network.slot != 0) atomic_fetch_sub(&quota->count, 1);
    quota_leave(quota->networks, &ticket->network);
    quota_leave(quota->addresses, &ticket->address);
}

enum network_room network_quota_room(struct network_quota *quota, const struct sockaddr *address)
{
    struct network_ticket ticket = {0};

    const enum network_room room = network_quota_enter(quota, address, &ticket);
    network_quota_leave(quota, &ticket);
    return room;
}

void network_quota_free(struct network_quota *quota)
{
    if (quota == NULL) return;
    quota_free(quota->networks);
    quota_free(quota->addresses);
    free(quota);
}
