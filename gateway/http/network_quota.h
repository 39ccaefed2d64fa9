/*
 * gateway/http/network_quota.h -- limits how many connections one network may have, so that no network can use up all of them.
 *
 * Connections are counted before TLS. A network is the /24 of an IPv4 address, also of one inside an IPv6 address, or the /64 of another
 * IPv6 address. Each network has a share of all connections. Once three quarters of all are in use, a network with a sixteenth or more
 * gets no further one. Connections of the unix socket are not counted.
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

/** `most` connections in all, and `share` percent of them for one network. */
RESULT network_quota_new(int64_t most, int64_t share, struct network_quota **quota_out, struct error *err);
/** The first address of the client's network. False: it is not an IP address. */
bool network_of_client(const struct sockaddr *address, char network_out[CLIENT_NETWORK_SIZE]);
/** Whether the network may have one more connection now. */
bool network_quota_has_room(struct network_quota *quota, const struct sockaddr *address);
/** Counts the connection until network_quota_leave(). False: its network has its share. */
bool network_quota_enter(struct network_quota *quota, const struct sockaddr *address, struct quota_ticket *ticket_out);
void network_quota_leave(struct network_quota *quota, struct quota_ticket *ticket);

void network_quota_free(struct network_quota *quota);
DEFINE_OWNED(network_quota);
