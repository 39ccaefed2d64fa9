/*
 * gateway/pipeline/parts.h -- one request that asks for many changes of rights; each is decided and recorded by itself.
 *
 * A part has a decision, an event and a place in the limits of its own, as a request of its own would have, and an answer of its own. What all parts share is the credential, the
 * body, and the groups of the log: many parts wait for one commit. Rule: the request's own decision was recorded before, and stays as it is.
 */
#pragma once

#include <assert.h>

#include "gateway/pipeline/request.h"

#define PARTS_AT_ONCE 16 /* that wait for the log together, in one group of it: what others ask for waits for it, too */
static_assert(PARTS_AT_ONCE <= AUDIT_CHANGES_TOGETHER, "one statement gives them");

struct parts_round; /* of those that wait together */

struct request_part {
    /* Set by the caller. */
    struct action_pair pair; /* of an action that the route lists */
    struct change *change;   /* runs if the decision allows it; outlives the part */

    /* Set by request_do_parts(); if the caller has set a status, the part is left out. */
    unsigned status;   /* 0: it was done; else as of a request of its own: 403, 404, 409, 429, ... */
    bool is_conflict;  /* 409 by the change itself */
    char rule[65];     /* of a refusal by a decision; else "" */
    char why[320];     /* of a refusal: a sentence for its caller; else "" */
    uint64_t sequence; /* of its event; 0: it has none of its own */

    /* Used by request_do_parts() alone. */
    struct record record;
    struct parts_round *round;
    bool is_counted, is_open;
};

/** Does all parts, at most PARTS_AT_ONCE, in order. What fails says so in its part. Afterwards *epoch is at least that of the last change. Blocks: workers only. */
void request_do_parts(struct request *request, struct request_part *parts, size_t count, uint64_t *epoch)
    __attribute__((nonnull));
/** Waits until the changes are in force at this gateway. Blocks. */
void request_await_parts(const struct request *request, uint64_t epoch) __attribute__((nonnull));
