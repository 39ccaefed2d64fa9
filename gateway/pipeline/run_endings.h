/*
 * gateway/pipeline/run_endings.h -- which leases have ended lately: a body that moves under the token of a run ends with its lease.
 *
 * A request is checked when it comes (gateway/pipeline/run_gate.h). While its body moves, the right is decided again from memory, on threads
 * without a database. So the dispatcher reads the ended leases every few seconds, and keeps them here. Thread-safe.
 */
#pragma once

#include "base/owned.h"
#include "training/content.h"

struct run_endings;

RESULT run_endings_new(struct run_endings **endings_out, struct error *err);
/** The leases that ended in the last minutes, all of them, or `is_whole` is false. Replaces those of the call before. */
void run_endings_set(struct run_endings *endings, const struct run_ended *ended, size_t count, bool is_whole);
/** Whether the lease has ended; also true if that is not known. */
bool run_endings_have(struct run_endings *endings, const struct run_holder *holder);
void run_endings_free(struct run_endings *endings);
DEFINE_OWNED(run_endings);
