/*
 * policy/decider/set_install.h -- the policy set in force, as rows and sijil-keyd have it, and the first one of a registry.
 *
 * Neither takes a permit: the set is found before anything can be decided, and the first one is installed before any principal has the right to
 * load one. So nothing that serves a request may include this (tests/lint/closed_headers.txt).
 */
#pragma once

#include "policy/decider/set_load.h"

/** Rows that are newer than the set in force and have no event: they were not written by the application. */
#define UNRECORDED_SETS_MAX 1000 /* rows or events that one search reads; it reads none of their envelopes */
struct unrecorded_sets {
    uint64_t count, newest; /* newest: the highest epoch; count is at most UNRECORDED_SETS_MAX */
};

/** `pg` needs policy_set_table and audit_tree_table; its sequencer document_table, too. */
struct policy_set_source {
    struct pg *pg;
    struct keyd_client *keyd;
    struct sequencer *sequencer;       /* has the log signed, which proves an event */
    struct unrecorded_sets unrecorded; /* set by the last policy_set_load() */
};
/**
 * Finds the set in force: the stored set that sijil-keyd has pinned. If a newer set was loaded and is not pinned yet, it
 * is pinned first. If the set is still `current` (may be NULL), this adds an owner to it. *set_out is NULL if no set is
 * in force yet. ERROR_CORRUPT if the pinned set is not stored; ERROR_UNAVAILABLE. Blocks: the log may have to be signed.
 */
RESULT policy_set_load(struct policy_set_source *source, struct policy_set *current, struct policy_set **set_out,
                       struct error *err);

/**
 * For the first start. Records the load of the set as the server's own work, unless it is recorded already; then
 * sijil-keyd pins it. The sequencer must know policy_set_table.
 */
RESULT policy_set_install(struct policy_set_source *source, struct bytes envelope, struct error *err);

/**
 * For a repetition of the first start: the envelope must have the set in force, or one that the log says was loaded before. ERROR_CONFLICT
 * for another set, ERROR_DENIED for one of another signer.
 */
RESULT policy_set_check_repeated(const struct policy_set_source *source, struct bytes envelope, const struct policy_set *in_force,
                                 struct error *err);
