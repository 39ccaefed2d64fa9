/*
 * training/expire.h -- ends the runs whose request has expired.
 *
 * Rule: no code that serves a request may include this (tests/lint/closed_headers.txt). Each end records its own permit.
 */
#pragma once

#include "audit/sequencer.h"

/** Ends runs whose request has expired, at most a hundred, each with its event. Blocks. */
RESULT run_expire_due(struct sequencer *sequencer, struct pg *pg, size_t *count_out, struct error *err);
