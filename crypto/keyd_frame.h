/*
 * crypto/keyd_frame.h -- carries whole messages of crypto/keyd_protocol.h over a socket, by a deadline.
 *
 * Messages hold keys: their memory is locked, and wiped by keyd_frame_wipe() as soon as a message is done with.
 * Only a policy set, which is public and may be large, lives in plain memory. Deadlines are clock_monotonic_ms().
 */
#pragma once

#include "base/bytes.h"
#include "crypto/secret.h"

struct keyd_frame {
    struct secret *locked;
    struct buffer message; /* over `locked`: what is in use, and is wiped; never released by itself */
    struct buffer large;
};

/** ERROR_NO_MEMORY also when the lock limit is too small. */
RESULT keyd_frame_init(struct keyd_frame *frame, struct error *err);
/** The empty buffer over the locked memory, to write one message into. */
struct buffer *keyd_frame_buffer(struct keyd_frame *frame);
/** Of as much as was in use. */
void keyd_frame_wipe(struct keyd_frame *frame);
void keyd_frame_done(struct keyd_frame *frame);

/** `fd` is a connected, non-blocking stream socket. ERROR_UNAVAILABLE when the peer is gone or too slow. */
RESULT keyd_send(int fd, struct bytes message, int64_t deadline_ms, struct error *err);
/**
 * One whole message with its header, a view into `frame`. ERROR_UNAVAILABLE as above; ERROR_INVALID for a length
 * that no message of its type has: the connection is of no more use.
 */
RESULT keyd_receive(int fd, struct keyd_frame *frame, int64_t deadline_ms, struct bytes *message_out,
                    struct error *err);
