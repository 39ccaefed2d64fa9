/*
 * registry/maintenance.h -- the server's own work on regions, keys, notes and counts. No client asks for it, so it needs no
 * permit.
 *
 * Rule: no code that serves a request may include this (tests/lint/closed_headers.txt). Work that removes or records something
 * gets a permit of its own from permit_for_job().
 */
#pragma once

#include "registry/quota.h"
#include "registry/registry.h"

struct decider;

/**
 * For the start. If a region has rows of blobs but its store has no object, its file system is not mounted, or the
 * configuration names the wrong folder: ERROR_UNAVAILABLE. If it were served, each blob that is read would be marked
 * as damaged. A bucket must be in bucket_location.
 */
RESULT registry_check_regions(const struct registry *registry, struct pg *pg, struct error *err);
/**
 * Call it every few seconds, from one thread. Checks that each folder can be used and, less often, that each bucket
 * is still in its location. Checks all regions, stores the results for registry_regions_ready(), and returns the first
 * problem.
 */
RESULT registry_check_stores(struct registry *registry, struct error *err);
/**
 * Call it from the thread of registry_check_stores(). Closes stores whose region is quarantined or retired, and opens them again; compares each store
 * with its region's record after interval_ms, and whenever another policy set is in force. Errors of the log.
 */
RESULT registry_scan_regions(struct registry *registry, struct decider *decider, int64_t interval_ms, struct error *err);
/**
 * Call it from the same thread, before. Serves each region of the policy set in force that the configuration lacks and whose record says which store it
 * is, if this gateway has the place for it (struct registry_recorded). A region that can't be opened is named by `err`; the others are opened.
 */
RESULT registry_open_recorded(struct registry *registry, struct decider *decider, struct error *err);
/**
 * Call it every few seconds, from the same thread, before registry_open_recorded(). Asks the sijil-keyd of each region that has one of its own who and where it
 * is, and gives it the statement of the main one about the policy set in force (docs/region-keyd.md). `err` names the first region with which something is wrong;
 * the others are asked, too.
 */
RESULT registry_follow_keys(struct registry *registry, struct decider *decider, struct error *err);
/** The regions that are quarantined or retired, or whose own sijil-keyd opens no key, as this gateway knows it: "" or "a/b, c/d". For /readyz. */
void registry_closed_regions(struct registry *registry, char *text, size_t size);
/** ERROR_INVALID: the database has blobs in a region that is not configured here. Stores the result as well. */
RESULT registry_check_served(struct registry *registry, struct pg *pg, struct error *err);
/**
 * For /readyz, from memory. ERROR_UNAVAILABLE names a region that has blobs and is not configured here, that a person
 * must repair, or that does not answer a check. An unreachable store of a bucket does not make the gateway unready.
 */
RESULT registry_regions_ready(struct registry *registry, struct error *err);
/** Metrics of each region, with its free space. Never waits for a region. */
RESULT registry_write_metrics(struct registry *registry, struct buffer *text, struct error *err);
/** Wipes cached keys that are older than their lifetime. Call it about twice a lifetime. */
void registry_forget_old_keys(struct registry *registry);
/** Wipes all cached keys, because a shredding was announced. */
void registry_forget_keys(struct registry *registry);

/** Writes the notes of pulls to the database; those that fail are kept for the next call. Blocks. */
RESULT registry_write_notes(struct registry *registry, struct pg *pg, struct error *err);
/** Are there so many notes that they should be written now? */
bool registry_notes_are_many(struct registry *registry);

/**
 * As quota_count_new(), for any project whose count is pending because a gateway stopped in between. *found_out: there was one.
 * Several gateways may do it at the same time.
 */
RESULT quota_count_pending(struct pg *pg, bool *found_out, struct error *err);
