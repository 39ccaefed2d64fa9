/*
 * gateway/http/linger.h -- connections that were answered and closed while their client was still sending.
 *
 * A socket that is closed with bytes unread makes the kernel send a reset, which may overtake the answer. So such a connection is kept for
 * a while: our end of it says that nothing more comes, and what the client sends is thrown away, until the client closes, or a
 * bound of time, of bytes, or of connections is reached (RFC 9112 section 9.6).
 */
#pragma once

#include <stdint.h>

#include "base/result.h"

struct lingerer;

/** `bytes_max`: of one connection. */
RESULT lingerer_start(int64_t bytes_max, struct lingerer **lingerer_out, struct error *err);
/** Closes all at once. NULL is nothing. */
void lingerer_stop(struct lingerer *lingerer);
/** Takes part in the connection `fd`, which the caller closes as ever. */
void lingerer_take(struct lingerer *lingerer, int fd);
