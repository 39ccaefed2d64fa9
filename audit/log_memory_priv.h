/*
 * audit/log_memory_priv.h -- the log as this gateway's last append left it, so that the next one need not read first.
 *
 * Only ever a guess: another gateway may have appended since. Whoever uses it appends behind a fence that lets nothing
 * through unless the guess is right (audit_open_at_once()). The group thread's own.
 */
#pragma once

#include "audit/audit_store.h"
#include "audit/format/leaf.h"
#include "base/owned.h"

#define LOG_MEMORY_HEADS   16384 /* keys; two that share a place drive each other out. 512 KiB */
#define LOG_MEMORY_FACTS   4096  /* digests of facts that are stored; likewise. 192 KiB */
#define LOG_MEMORY_SYNC_MS 1000  /* so often the clock of the database is looked at */

struct log_memory;

RESULT log_memory_new(struct log_memory **memory_out, struct error *err);
void log_memory_free(struct log_memory *memory);
DEFINE_OWNED(log_memory);

/** The log was read under its lock. If nobody else appended, it is as this gateway left it, or ERROR_FORKED. Before log_memory_read(). */
RESULT log_memory_compare(const struct log_memory *memory, const struct audit_state *state, struct error *err);
/** The log was read under its lock. What is known of keys stays if nobody else appended. */
void log_memory_read(struct log_memory *memory, const struct audit_state *state, int64_t monotonic_ms);
/** The log is as `append` left it. */
void log_memory_appended(struct log_memory *memory, const struct audit_append *append,
                         const struct merkle_frontier *frontier);
/** The guess was wrong, or may be: nothing is known until it is read. */
void log_memory_forget(struct log_memory *memory);

/** What log_memory_read() would say now; false: it has to be read. */
bool log_memory_state(const struct log_memory *memory, int64_t monotonic_ms, struct audit_state *state_out);
/** Fills in heads->numbers; false if one of them is not known. */
bool log_memory_heads(const struct log_memory *memory, const struct audit_heads *heads);

/** A new attempt to append: what an earlier one was to store, and did not, is wanted again. */
void log_memory_begin_facts(struct log_memory *memory);
/** Are facts of this digest to be stored with the append? False: they are there, or were wanted by this attempt already. */
bool log_memory_wants_facts(struct log_memory *memory, const uint8_t digest[LEAF_FACTS_DIGEST]);
