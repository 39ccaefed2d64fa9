/*
 * audit/permit.h -- permission to do one thing, given because it was decided and recorded.
 *
 * Each function that a handler calls and that reads or changes an artifact, a right, a policy or a run takes a permit as its first
 * argument, never null, and requires that it fits what the function does. Only the sequencer makes permits: when the event is
 * durable, or, for a change, inside the transaction that makes event and change durable together. So an operation without a
 * decision and a record does not compile (tests/lint/rogue.py).
 *
 * The compiler refuses a call without a permit, and one with the constant NULL. It does not follow a variable that is NULL: the analyser
 * does (script/check analyzer), and the functions below abort.
 */
#pragma once

#include "audit/decision.h"

struct permit;

/**
 * Aborts the program unless `permit` allows `action` on exactly this resource: kind, name, and each id that both sides
 * know. A mismatch, NULL, and a pointer to anything but a permit are bugs of the caller, never bad input.
 */
void permit_require(const struct permit *permit, enum action action, const struct resource *resource) __attribute__((nonnull(3)));

/**
 * Aborts unless the resource of the pair with this action has this detail, or one that begins with it and a blank: of
 * "RUN ATTEMPT NODE" the whole names a lease, and "RUN" its run.
 */
void permit_require_detail(const struct permit *permit, enum action action, const char *detail) __attribute__((nonnull(3)));

/** Aborts unless the resource of the pair with this action is above `below`, or is `below`: the registry, its organisation, its project. */
void permit_require_above(const struct permit *permit, enum action action, const struct resource *below)
    __attribute__((nonnull(3)));

/** The resource of the pair with this action, for functions that take their resource from the permit. Aborts if there is none. */
const struct resource *permit_resource(const struct permit *permit, enum action action) __attribute__((returns_nonnull));

/** Whether the event of the permit has counted a use of the exception with this SHA-256. NULL has counted none. */
bool permit_has_use(const struct permit *permit, const uint8_t key[32]) __attribute__((nonnull(2)));

/** The sequence number of the event in the log. */
uint64_t permit_sequence(const struct permit *permit);
uint64_t permit_epoch(const struct permit *permit);

void permit_free(struct permit *permit);
DEFINE_OWNED(permit);
