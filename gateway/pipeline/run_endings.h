/*
 * gateway/pipeline/run_endings.h -- which leases have ended: a body that moves under the token of a run ends with its lease.
 *
 * A request is checked when it comes (gateway/pipeline/run_gate.h). While its body moves, the right is decided again from memory, on threads
 * without a database. So each lease that was asked for is watched: the dispatcher looks at the watched leases every few seconds, and notes here which
 * have ended. What becomes of other leases has no effect on it, however many they are. Thread-safe.
 */
#pragma once

#include "base/owned.h"
#include "training/content.h"

struct run_endings;

/** `capacity`: how many leases can be watched: at least one for each connection. */
RESULT run_endings_new(size_t capacity, struct run_endings **endings_out, struct error *err);
/** Whether the lease has ended; also true if nobody has looked for a minute, though its body has asked meanwhile. Watches it for two minutes. */
bool run_endings_have(struct run_endings *endings, const struct run_holder *holder);
/** The next watched leases, from *at on, which begins with 0; none: these were all. Returns how many. */
size_t run_endings_watched(struct run_endings *endings, size_t *at, struct run_watched watched_out[RUN_WATCHED_MAX]);
/** What was found about them. */
void run_endings_note(struct run_endings *endings, const struct run_watched *watched, size_t count);
void run_endings_free(struct run_endings *endings);
DEFINE_OWNED(run_endings);
