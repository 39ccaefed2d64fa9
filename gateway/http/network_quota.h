/*
 * gateway/http/network_quota.h -- limits how many connections one address and one network may have, so that nobody can use up all of them.
 *
 * Connections are counted before TLS. A network is the /24 of an IPv4 address, also of one inside an IPv6 address, or the /64 of another
 * IPv6 address. Each network has a share of all connections. Once three quarters of all are in use, a network with a sixteenth or more
 * gets no further one. Connections of the unix socket are not counted, and those of a load balancer only when its head has named the client.
 */
#pragma once

#include <netinet/in.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/owned.h"
#include "base/result.h"
#include "gateway/http/quota.h"

#define CLIENT_NETWORK_SIZE INET6_ADDRSTRLEN

struct network_quota;

/** One connection, from network_quota_enter() to network_quota_leave(). Zeroed: none. */
struct network_ticket {
    struct quota_ticket network, address;
};

enum network_room { NETWORK_HAS_ROOM, NETWORK_ADDRESS_IS_FULL, NETWORK_IS_FULL };

struct network_limits {
    int64_t most, share, of_address; /* connections in all; percent of them for one network; for one address */
};

RESULT network_quota_new(const struct network_limits *limits, struct network_quota **quota_out, struct error *err);
/** The first address of the client's network. False: it is not an IP address. */
bool network_of_client(const struct sockaddr *address, char network_out[CLIENT_NETWORK_SIZE]);
/** Whether address and network may have one more connection now. */
enum network_room network_quota_room(struct network_quota *quota, const struct sockaddr *address);
/** Counts the connection until network_quota_leave(), if there is room for it. */
enum network_room network_quota_enter(struct network_quota *quota, const struct sockaddr *address,
                                      struct network_ticket *ticket_out);
void network_quota_leave(struct network_quota *quota, struct network_ticket *ticket);

void network_quota_free(struct network_quota *quota);
DEFINE_OWNED(network_quota);
