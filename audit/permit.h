/*
 * audit/permit.h -- leave to do one thing, given because it was decided and recorded.
 *
 * In authz/ and registry/ each function for handlers that reads or changes an artifact, a right or a project takes a permit as its
 * first argument, never null, and asserts that it fits what the function does. Only the sequencer makes one, when the event is
 * durable (or, for a change, inside the transaction that makes event and change durable together). So an operation without a
 * decision and a record does not compile (tests/lint/rogue.py).
 */
#pragma once

#include "audit/decision.h"

struct permit;

/**
 * Aborts the program unless `permit` allows `action` on exactly this resource (kind, name, and the ids where both
 * sides know them): a mismatch is a bug in the caller, never bad input.
 */
void permit_require(const struct permit *permit, enum action action, const struct resource *resource)
    __attribute__((nonnull));

/** The pair of this action, for functions that take their resource from the permit; aborts if there is none. */
const struct resource *permit_resource(const struct permit *permit, enum action action) __attribute__((nonnull));

/** The event's sequence number in the log. */
uint64_t permit_sequence(const struct permit *permit);
uint64_t permit_epoch(const struct permit *permit);

void permit_free(struct permit *permit);
DEFINE_OWNED(permit);
