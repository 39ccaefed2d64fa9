/*
 * crypto/tls.h -- TLS 1.3 between two programs of ours, over a connected socket. The server's key is pinned, and nothing else is trusted: no authority, no
 * name. No sessions. Each call ends at a time on the monotonic clock, whatever the other side does.
 */
#pragma once

#include "base/bytes.h"
#include "base/owned.h"

#define TLS_PIN_SIZE 65 /* hex of the SHA-256 of a public key (SubjectPublicKeyInfo), and '\0' */

/** A new P-256 key, which never leaves this object. */
struct tls_server;
RESULT tls_server_new(struct tls_server **server_out, struct error *err);
const char *tls_server_pin(const struct tls_server *server);
void tls_server_free(struct tls_server *server);
DEFINE_OWNED(tls_server);

struct tls;
/** The server's side of a connection, before the handshake: tls_shake(). Takes the non-blocking socket over in any case. */
RESULT tls_await(int fd, const struct tls_server *server, struct tls **tls_out, struct error *err);
/** Takes the non-blocking socket over in any case. ERROR_UNAVAILABLE: the other side has gone, is silent, or speaks something else. ERROR_DENIED: it has not
 *  the key with this pin. */
RESULT tls_connect(int fd, const char *pin, int64_t until_ms, struct tls **tls_out, struct error *err);

/** One step that waits for nothing. TLS_AGAIN: when poll(2) has *events_out. TLS_GONE: the other side has gone, or speaks something else. */
enum tls_step { TLS_DONE, TLS_AGAIN, TLS_GONE };
enum tls_step tls_shake(struct tls *tls, short *events_out);
/** At least a byte, after the handshake. */
enum tls_step tls_take(struct tls *tls, uint8_t *into, size_t length, size_t *length_out, short *events_out);

/** All of it. ERROR_UNAVAILABLE; then no other call succeeds. */
RESULT tls_write(struct tls *tls, struct bytes bytes, int64_t until_ms, struct error *err);
/** At least a byte; *length_out 0: the other side has ended it in order. */
RESULT tls_read(struct tls *tls, uint8_t *into, size_t length, int64_t until_ms, size_t *length_out, struct error *err);
/** Whether something can be read: waits for the socket until then. */
bool tls_waits(const struct tls *tls, int64_t until_ms);
/** Whether bytes were taken from the socket that were not read yet: poll(2) does not know of them. */
bool tls_has_more(const struct tls *tls);
int tls_descriptor(const struct tls *tls);
/** Tells the other side that this is the end, if it still can, and closes the socket. */
void tls_free(struct tls *tls);
DEFINE_OWNED(tls);
