/*
 * audit/own_reads.h -- the server's own reads of its log: hashes and counts, nothing that tells who did what.
 *
 * Rule: it needs no permit, so no code that serves a request may include this (tests/lint/closed_headers.txt).
 */
#pragma once

#include "audit/query.h"

/**
 * The proof that entry `sequence` is in the log of `size`, for a check by sijil-keyd. A proof has only hashes, so no permit
 * is needed. The connection needs audit_tree_table.
 */
RESULT audit_prove_inclusion(struct pg *pg, uint64_t sequence, uint64_t size, struct merkle_proof *proof_out, struct error *err);
/**
 * As audit_count_mints(), in small steps, for a metric. Counts the tokens of at most `most` entries from *next on into
 * *mints, and sets *next to the entry after them. All are counted when *next equals mints->log_size. *mints and *next begin
 * at 0.
 */
RESULT audit_count_more_mints(struct pg *pg, struct audit_mints *mints, uint64_t *next, uint64_t most, struct error *err);
