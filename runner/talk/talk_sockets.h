/*
 * runner/talk/talk_sockets.h -- sockets between runners, and between a runner and the agents of its pods. None of them blocks.
 */
#pragma once

#include <sys/socket.h>

#include "base/result.h"

/** False: the text is no IP address. */
bool talk_fill_address(struct sockaddr_storage *address, socklen_t *size, const char *text, unsigned port);
/** Of a connected socket: a peer that is gone without a word must be noticed by a side that only waits. */
void talk_watch_peer(int fd);

/** Where to listen: at one of `ports` ports from `port` on. */
struct talk_place {
    const char *address;
    unsigned port, ports;
};
#define TALK_ADDRESS_SIZE 48 /* an IPv6 address */
#define TALK_WHERE_SIZE   64 /* with brackets and a port */

/** Reads "192.0.2.7:4711" or "[2001:db8::7]:4711". False: it is not an IP address with a port. */
bool talk_where_read(const char *text, char address_out[TALK_ADDRESS_SIZE], unsigned *port_out);
void talk_where_write(const char *address, unsigned port, char text_out[TALK_WHERE_SIZE]);
/**
 * Whether a machine that is reached at `own` may call `other`, which somebody else has chosen: never a special address (network_is_special()), never
 * itself, and at addresses of the machine or the link only if its own address is such a one. Both are IP addresses; what is none is not called.
 */
bool talk_may_call(const char *own, const char *other);

/** At the first of the ports that is free. ERROR_CONFLICT: none is. ERROR_INVALID: no IP address. */
RESULT talk_listen(const struct talk_place *place, int *fd_out, unsigned *port_out, struct error *err);

/** Begins to connect to an IP address. The socket is watched. ERROR_UNAVAILABLE. */
RESULT talk_dial(const char *address, unsigned port, int *fd_out, struct error *err);
/** When the socket can be written: 0: it is connected, or the error. */
int talk_dial_end(int fd);
