#include "gateway/http/network_quota.h"

#include <stdatomic.h>

#include "base/memory.h"
#include "base/network.h"
#include "base/share.h"

#define IPV4_BITS 24
#define IPV6_BITS 64 /* providers give a customer a network of this size */

struct network_quota {
    struct quota *networks;
    int64_t most, share;
    _Atomic int64_t count;
};

struct result network_quota_new(int64_t most, int64_t share, struct network_quota **quota_out, struct error *err)
{
    OWNED(network_quota) *quota = memory_zeroed(1, sizeof *quota);

    if (quota == NULL) return failure(err, ERROR_NO_MEMORY, "no memory to count connections");
    quota->most = most;
    quota->share = share;
    TRY(quota_new(2 * (unsigned)most, &quota->networks, err));
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
    const int64_t share = quota->most * quota->share / 100;
    const int64_t now = share_limit(quota->most, atomic_load(&quota->count), SHARE_LITTLE(quota->most));
    const int64_t most = now < share ? now : share;

    return most < 1 ? 1 : (unsigned)most;
}

bool network_quota_enter(struct network_quota *quota, const struct sockaddr *address, struct quota_ticket *ticket_out)
{
    const struct quota_limits limits = {.at_a_time = most_now(quota)};
    char network[CLIENT_NETWORK_SIZE];
    struct error err = {0};

    if (!network_of_client(address, network)) return true;
    if (!quota_enter(quota->networks, "network", network, &limits, ticket_out, &err).ok) return false;
    atomic_fetch_add(&quota->count, 1);
    return true;
}

void network_quota_leave(struct network_quota *quota, struct quota_ticket *ticket)
{
    if (ticket->slot != 0) atomic_fetch_sub(&quota->count, 1);
    quota_leave(quota->networks, ticket);
}

bool network_quota_has_room(struct network_quota *quota, const struct sockaddr *address)
{
    struct quota_ticket ticket = {0};

    const bool has_room = network_quota_enter(quota, address, &ticket);
    network_quota_leave(quota, &ticket);
    return has_room;
}

void network_quota_free(struct network_quota *quota)
{
    if (quota == NULL) return;
    quota_free(quota->networks);
    free(quota);
}
