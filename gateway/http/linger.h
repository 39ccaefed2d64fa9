/*
 * gateway/http/linger.h -- lingering close: for connections that are answered and closed while the client still sends.
 *
 * If a socket is closed with unread bytes, the kernel sends a reset, which may arrive before the answer. So the server shuts down its own
 * end, and reads and drops the client's bytes until the client closes, or until a limit of time, bytes or connections is reached (RFC
 * 9112 section 9.6).
 */
#pragma once

#include <stdint.h>

#include "base/result.h"

struct lingerer;

/** `bytes_max`: limit of one connection. */
RESULT lingerer_start(int64_t bytes_max, struct lingerer **lingerer_out, struct error *err);
/** Closes all connections now. NULL is allowed. */
void lingerer_stop(struct lingerer *lingerer);
/** Keeps the connection of `fd` open in the background. The caller closes its descriptor as usual. */
void lingerer_take(struct lingerer *lingerer, int fd);
