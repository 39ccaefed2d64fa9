/*
 * crypto/keyd_frame.h -- sends and receives whole messages of crypto/keyd_protocol.h over a socket, with a deadline.
 *
 * Messages hold keys, so their memory is locked, and keyd_frame_wipe() wipes it after each message. Only policy sets
 * and envelopes of runs are in ordinary memory, because they hold no secret and may be large. Deadlines are times of clock_monotonic_ms().
 */
#pragma once

#include "base/bytes.h"
#include "crypto/secret.h"

struct keyd_frame {
    struct secret *locked;
    struct buffer message; /* a view of `locked`: the part in use, which is wiped; never freed by itself */
    struct buffer large;
};

/** ERROR_NO_MEMORY, also if the lock limit is too small. */
RESULT keyd_frame_init(struct keyd_frame *frame, struct error *err);
/** The empty buffer over the locked memory, for one message. */
struct buffer *keyd_frame_buffer(struct keyd_frame *frame);
/** The same, or ordinary memory for a type whose messages may be large. */
struct buffer *keyd_frame_buffer_for(struct keyd_frame *frame, uint8_t type);
/** Wipes the part that was in use. */
void keyd_frame_wipe(struct keyd_frame *frame);
void keyd_frame_done(struct keyd_frame *frame);

/** `fd` is a connected, non-blocking stream socket. ERROR_UNAVAILABLE when the peer is gone or too slow. */
RESULT keyd_send(int fd, struct bytes message, int64_t deadline_ms, struct error *err);
/**
 * Receives one whole message with its header, as a view into `frame`. ERROR_UNAVAILABLE as above. ERROR_INVALID for a
 * length that no message of its type has; the connection is then unusable.
 */
RESULT keyd_receive(int fd, struct keyd_frame *frame, int64_t deadline_ms, struct bytes *message_out, struct error *err);
