/*
 * gateway/http/transport.h -- moves TLS records between GnuTLS and the socket, several with one system call.
 *
 * GnuTLS reads twice for each incoming record (its head, then the rest) and sends each outgoing record by itself. Here one recv() takes all
 * that has arrived while a body comes in. Outgoing records are kept back until the last byte that libmicrohttpd already has is among them.
 * The rule: a record is kept back only while more records are certain to follow at once, and the record that ends the wait counts as sent
 * only when the kernel has taken all of them. So no record can be forgotten.
 *
 * Belongs to the event thread of the connection. An idle connection keeps no memory here.
 */
#pragma once

#include <gnutls/gnutls.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/blocks.h"

/*
 * Size of the blocks that bodies move in, chosen by measurement. Outgoing bodies move in pieces of 256 KiB, because each piece may wake
 * the client. Incoming bodies move in halves of that, because two of those pieces fit into the cache while they are hashed, sealed and written.
 */
#define BLOCK_SIZE ((size_t)256 * 1024)

struct proxy_head;

struct transport {
    gnutls_session_t session; /* NULL: no TLS, and the members below are unused */
    struct blocks *blocks;
    int fd;
    void *owner; /* gateway/http/tls.c keeps its connection here */

    struct proxy_head *head;         /* comes before TLS; NULL: none, or it has come */
    bool (*head_ended)(void *owner); /* false: the connection ends */

    bool is_receiving; /* a body arrives: reads ahead */
    uint8_t *inbox;    /* bytes read ahead; from `blocks`, NULL when empty */
    size_t inbox_at, inbox_end;

    bool is_head_next; /* the next record is the head of an answer whose body follows at once */
    uint64_t promised; /* plain bytes that libmicrohttpd still has to send, and will */
    uint8_t *outbox;   /* records kept back; from `blocks`, NULL when empty */
    size_t outbox_at, outbox_end;
};

/** Installs itself under the session of the connection `fd`, before the handshake. */
void transport_enter(struct transport *transport, gnutls_session_t session, int fd, struct blocks *blocks);
/** After transport_enter() and with an owner: a load balancer sends `head` before TLS. */
void transport_await_head(struct transport *transport, struct proxy_head *head, bool (*head_ended)(void *owner));
/** Before the descriptor is closed. */
void transport_leave(struct transport *transport);

/** A body begins to arrive. */
void transport_receive(struct transport *transport);
/** An answer was queued. `follows`: it has a body; `length`: the part of the body that libmicrohttpd already has. */
void transport_answer(struct transport *transport, bool follows, uint64_t length);
/** libmicrohttpd got `length` more bytes of the body. */
void transport_promise(struct transport *transport, uint64_t length);
/** The request ended, with success or not. */
void transport_rest(struct transport *transport);
