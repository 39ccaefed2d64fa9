/*
 * audit/cosigned_jobs.h -- what the gateway itself does with checkpoints and witnesses: it gives hashes and checkpoints to the witnesses of
 * its configuration, and keeps what they have cosigned.
 *
 * No permit is needed, because no client gets an answer. So no code that serves a request may include this
 * (tests/lint/closed_headers.txt).
 */
#pragma once

#include "audit/cosigned.h"

/** The largest one that is stored, and of several the last that was stored. ERROR_NOT_FOUND: none counts. */
RESULT cosigned_newest(struct pg *pg, const struct log_keys *keys, const struct witness_policy *policy,
                       struct cosigned *cosigned_out, struct error *err);
RESULT cosigned_store(struct pg *pg, const struct cosigned *cosigned, struct error *err);

/** ERROR_FORKED, with what to do: the log in the database ends before what sijil-keyd has signed. */
RESULT cosigned_check_end(struct pg *pg, uint64_t signed_size, struct error *err);

/** Appends the body of add-checkpoint: the proof from `old_size` to `newer`. Needs audit_tree_table. ERROR_INVALID if old_size is larger. */
RESULT cosigned_prove(struct pg *pg, uint64_t old_size, const struct signed_checkpoint *newer, struct buffer *body,
                      struct error *err);
