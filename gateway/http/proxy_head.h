/*
 * gateway/http/proxy_head.h -- what a load balancer sends before a connection that it forwards: the head of the PROXY protocol, version 2.
 *
 * It names the client (the specification is proxy-protocol.txt of HAProxy, section 2.2). Only connections from the networks of `proxy_networks`
 * begin with one, and they must; so a client can't name itself. Only TCP over IPv4 and IPv6 is accepted, and the command LOCAL of a balancer
 * that checks us. Extensions (TLVs) are skipped.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define PROXY_HEAD_FIXED     16   /* signature, version and command, family, length */
#define PROXY_HEAD_ADDRESSES 36   /* of IPv6: two addresses and two ports */
#define PROXY_HEAD_MAX       2048 /* bytes of a head with its extensions; balancers send a few hundred */

struct proxy_head {
    bool is_wanted;       /* the connection begins with one */
    size_t count, length; /* bytes that arrived, and of the whole head; length 0: not known yet */
    uint8_t bytes[PROXY_HEAD_FIXED + PROXY_HEAD_ADDRESSES]; /* the first ones; the extensions are not kept */
};

enum proxy_head_end {
    PROXY_HEAD_COMES,  /* more bytes belong to it */
    PROXY_HEAD_CLIENT, /* it names a client */
    PROXY_HEAD_OWN,    /* the balancer speaks for itself */
    PROXY_HEAD_WRONG   /* the connection must be closed */
};

/** How many bytes of the head may be read next; never more than belong to it. 0: proxy_head_end() says how it ended. */
size_t proxy_head_wants(const struct proxy_head *head);
/** `size` is at most what proxy_head_wants() gave. */
void proxy_head_take(struct proxy_head *head, const uint8_t *bytes, size_t size);
/** *client_out is written with PROXY_HEAD_CLIENT, and *why_out, a constant, with PROXY_HEAD_WRONG. */
enum proxy_head_end proxy_head_end(const struct proxy_head *head, struct sockaddr_storage *client_out, const char **why_out);
