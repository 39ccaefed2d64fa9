/*
 * gateway/http/transport.h -- how TLS records get to the socket and from it: several with one call of the kernel.
 *
 * GnuTLS asks twice for each record that comes (its head, then the rest) and sends each record by itself. Here one
 * recv() brings what is there, while a body is taken in, and records gather until the last byte that libmicrohttpd
 * already has is among them. The rule: a record is kept back only while more are certain to follow at once, and the
 * one that ends the wait counts as sent only when the kernel has all, so nothing can be forgotten.
 *
 * Belongs to the event thread of the connection. An idle connection keeps no memory here.
 */
#pragma once

#include <gnutls/gnutls.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/blocks.h"

/*
 * Of the blocks in which bodies lie on their way. Measured: what goes out, in pieces of 256 KiB, because each piece may wake
 * the client; what comes in, in halves of that, because hashing, sealing and writing find a piece in the cache that holds two of them.
 */
#define BLOCK_SIZE ((size_t)256 * 1024)

struct transport {
    gnutls_session_t session; /* NULL: not TLS, and all below is unused */
    struct blocks *blocks;
    int fd;
    void *owner;              /* gateway/http/tls.c has its connection here */

    bool is_receiving;        /* a body comes in: reads ahead */
    uint8_t *inbox;           /* what was read ahead; from `blocks`, NULL when empty */
    size_t inbox_at, inbox_end;

    bool is_head_next;        /* the next record is the head of an answer, and its body follows at once */
    uint64_t promised;        /* plain bytes that libmicrohttpd has to send still, and will */
    uint8_t *outbox;          /* records kept back; from `blocks`, NULL when empty */
    size_t outbox_at, outbox_end;
};

/** Puts itself under the session of the connection `fd`, before the handshake. */
void transport_enter(struct transport *transport, gnutls_session_t session, int fd, struct blocks *blocks);
/** Before the descriptor is closed. */
void transport_leave(struct transport *transport);

/** A body comes in. */
void transport_receive(struct transport *transport);
/** An answer was queued. `follows`: it has a body; `length`: how much of that libmicrohttpd has already. */
void transport_answer(struct transport *transport, bool follows, uint64_t length);
/** libmicrohttpd was given more of the body. */
void transport_promise(struct transport *transport, uint64_t length);
/** The request is over, well or not. */
void transport_rest(struct transport *transport);
