/*
 * crypto/tls_peer.h -- TLS 1.3 between equals: each side proves that it has the private half of a P-256 key (crypto/ecdsa.h) that the other side knows. Nothing else
 * is trusted: no authority, no name. No sessions. Sockets do not block, and no call waits. A connection is for one thread.
 */
#pragma once

#include "base/bytes.h"
#include "base/owned.h"
#include "crypto/ecdsa.h"

/** Our key, and whom we know: for any number of connections. */
struct tls_self_options {
    const struct ecdsa_key *key; /* a pair whose private half is here; it must live longer */
    /** Whether a key with this thumbprint may be at the other side. */
    bool (*is_known)(const void *context, const char thumbprint[ECDSA_THUMBPRINT_SIZE]);
    const void *context;
};
struct tls_self;
RESULT tls_self_new(const struct tls_self_options *options, struct tls_self **self_out, struct error *err);
void tls_self_free(struct tls_self *self);
DEFINE_OWNED(tls_self);

enum tls_step {
    TLS_DONE,
    TLS_READS,  /* it can go on when the socket can be read */
    TLS_WRITES, /* or written */
    TLS_ENDED,  /* the other side has ended it in order */
    TLS_FAILED  /* the other side has gone, has not the right key, or speaks something else */
};

struct tls_peer;
/** Takes the connected socket over in any case. `calls`: this side has connected. `self` must live longer. */
RESULT tls_peer_new(const struct tls_self *self, int fd, bool calls, struct tls_peer **peer_out, struct error *err);
/** Goes on with the handshake. Nothing can be read or written before it is TLS_DONE. */
enum tls_step tls_peer_shake(struct tls_peer *peer);
/** After the handshake: the thumbprint of the key that the other side has. */
const char *tls_peer_key(const struct tls_peer *peer);
/** TLS_DONE: at least a byte. */
enum tls_step tls_peer_read(struct tls_peer *peer, uint8_t *into, size_t length, size_t *length_out);
/** TLS_DONE: at least a byte of `bytes`, which are not empty. After TLS_READS or TLS_WRITES the next call has the same bytes, and maybe more. */
enum tls_step tls_peer_write(struct tls_peer *peer, struct bytes bytes, size_t *length_out);
int tls_peer_descriptor(const struct tls_peer *peer);
/** Tells the other side that this is the end, if it still can, and closes the socket. */
void tls_peer_free(struct tls_peer *peer);
DEFINE_OWNED(tls_peer);
