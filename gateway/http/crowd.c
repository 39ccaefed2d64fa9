#include "gateway/http/crowd.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <string.h>

#include "base/memory.h"
#include "base/share.h"

#define IPV4_NETWORK_BYTES 3 /* /24 */
#define IPV6_NETWORK_BYTES 8 /* /64: what one customer gets */

struct crowd {
    struct quota *networks;
    int64_t most, share;
    _Atomic int64_t count;
};

struct result crowd_new(int64_t most, int64_t share, struct crowd **crowd_out, struct error *err)
{
    OWNED(crowd) *crowd = memory_zeroed(1, sizeof *crowd);

    if (crowd == NULL) return failure(err, ERROR_NO_MEMORY, "no memory to count connections");
    crowd->most = most;
    crowd->share = share;
    TRY(quota_new(2 * (unsigned)most, &crowd->networks, err));
    *crowd_out = GIVE(crowd);
    return SUCCESS;
}

static void write_network(int family, const void *address, size_t size, size_t kept, char network_out[CROWD_NETWORK_SIZE])
{
    uint8_t bytes[sizeof(struct in6_addr)] = {0};

    memcpy(bytes, address, kept < size ? kept : size);
    (void)inet_ntop(family, bytes, network_out, CROWD_NETWORK_SIZE);
}

bool crowd_network_of(const struct sockaddr *address, char network_out[CROWD_NETWORK_SIZE])
{
    const struct sockaddr_in *four = (const void *)address;
    const struct sockaddr_in6 *six = (const void *)address;

    if (address == NULL || (address->sa_family != AF_INET && address->sa_family != AF_INET6)) return false;
    if (address->sa_family == AF_INET)
        write_network(AF_INET, &four->sin_addr, sizeof four->sin_addr, IPV4_NETWORK_BYTES, network_out);
    else if (IN6_IS_ADDR_V4MAPPED(&six->sin6_addr))
        write_network(AF_INET, six->sin6_addr.s6_addr + 12, sizeof four->sin_addr, IPV4_NETWORK_BYTES, network_out);
    else write_network(AF_INET6, &six->sin6_addr, sizeof six->sin6_addr, IPV6_NETWORK_BYTES, network_out);
    return true;
}

/* Of one network, at least one. */
static unsigned most_now(const struct crowd *crowd)
{
    const int64_t share = crowd->most * crowd->share / 100;
    const int64_t now = share_most(crowd->most, atomic_load(&crowd->count), SHARE_LITTLE(crowd->most));
    const int64_t most = now < share ? now : share;

    return most < 1 ? 1 : (unsigned)most;
}

bool crowd_enter(struct crowd *crowd, const struct sockaddr *address, struct quota_ticket *place_out)
{
    const struct quota_limits limits = {.at_a_time = most_now(crowd)};
    char network[CROWD_NETWORK_SIZE];
    struct error err = {0};

    if (!crowd_network_of(address, network)) return true;
    if (!quota_enter(crowd->networks, "network", network, &limits, place_out, &err).ok) return false;
    atomic_fetch_add(&crowd->count, 1);
    return true;
}

void crowd_leave(struct crowd *crowd, struct quota_ticket *place)
{
    if (place->slot != 0) atomic_fetch_sub(&crowd->count, 1);
    quota_leave(crowd->networks, place);
}

bool crowd_has_room(struct crowd *crowd, const struct sockaddr *address)
{
    struct quota_ticket place = {0};

    const bool has_room = crowd_enter(crowd, address, &place);
    crowd_leave(crowd, &place);
    return has_room;
}

void crowd_free(struct crowd *crowd)
{
    if (crowd == NULL) return;
    quota_free(crowd->networks);
    free(crowd);
}
