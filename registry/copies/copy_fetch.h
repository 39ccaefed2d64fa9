/*
 * registry/copies/copy_fetch.h -- the end of a copy that is read, when another gateway has it: the bytes come over mutual TLS, decided there as well.
 *
 * Rule: what comes is not trusted: the target compares the digest before it commits. No key is sent.
 */
#pragma once

#include <stdatomic.h>

#include "base/bytes.h"
#include "outgoing/peers.h"
#include "registry/copies/copy_request.h"

struct outgoing;

struct copy_fetch {
    struct outgoing *outgoing;
    const atomic_bool *gives_up;
    const struct peer *peer;
    const struct copy_request *request;
    uint64_t offset, length; /* the blob has `length` bytes, more than `offset` */
    /** Gets the bytes from `offset` on, in order. A failure ends the call. */
    RESULT (*take)(void *context, struct bytes piece, struct error *err);
    void *context;
    const char *refusal; /* set: what the other end has against it, "SYS-...: why"; points into `text` */
    char text[200];
};
/**
 * Success: all bytes came. ERROR_UNAVAILABLE: the other gateway can't be reached, has ended in the middle, or refuses now (`refusal`); ERROR_CONFLICT: it has
 * no such blob; ERROR_CORRUPT: what it has stored does not verify.
 */
RESULT copy_fetch(struct copy_fetch *fetch, struct error *err);
