/*
 * gateway/http/crowd.h -- how many connections one network has, counted before TLS: from one network nobody takes the places of all.
 *
 * A network is the /24 of an IPv4 address, also of one that is written as an IPv6 address, or the /64 of another IPv6 address. It has
 * its share of all connections. Once three quarters of all are taken, a network with a sixteenth or more gets no other one.
 * Connections of the unix socket are not counted.
 */
#pragma once

#include <stdint.h>
#include <sys/socket.h>

#include "base/owned.h"
#include "base/result.h"
#include "gateway/http/quota.h"

#define CROWD_NETWORK_SIZE 46 /* INET6_ADDRSTRLEN */

struct crowd;

/** `most` connections in all, and `share` percent of them for one network. */
RESULT crowd_new(int64_t most, int64_t share, struct crowd **crowd_out, struct error *err);
/** The first address of its network; false: it is no IP address. */
bool crowd_network_of(const struct sockaddr *address, char network_out[CROWD_NETWORK_SIZE]);
/** Whether one more connection from there would be let in now. */
bool crowd_has_room(struct crowd *crowd, const struct sockaddr *address);
/** Takes a place, which crowd_leave() gives back; false: there is none. */
bool crowd_enter(struct crowd *crowd, const struct sockaddr *address, struct quota_ticket *place_out);
void crowd_leave(struct crowd *crowd, struct quota_ticket *place);

void crowd_free(struct crowd *crowd);
DEFINE_OWNED(crowd);
