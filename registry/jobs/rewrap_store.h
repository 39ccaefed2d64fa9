/* registry/jobs/rewrap_store.h -- reads and replaces wrapped keys in all tables that have them. */
#pragma once

#include "registry/jobs/job.h"
#include "registry/key_cache.h"

#define REWRAP_BATCH 100 /* keys that one statement replaces */

struct rewrap_key {
    struct uuid row; /* of the table: blob, project key or upload */
    struct key_scope scope;
    struct key_record record;
    struct wrapped_key fresh;
};
/** The next keys under a version below `version`, after the row `after`. *count_out is at most `limit`. */
struct rewrap_page {
    enum key_table table;
    const char *ring; /* the region whose own sijil-keyd has the keys; "": those under the main one */
    uint32_t version;
    struct uuid after;
    size_t limit;
};
RESULT rewrap_keys(struct pg *pg, const struct rewrap_page *page, struct rewrap_key *keys_out, size_t *count_out,
                   struct error *err);
/**
 * Replaces the keys of the records by `fresh`, in rows that still have the key of the record. Never waits for a lock:
 * locked rows are left for the next pass. *changed_out: how many were replaced.
 */
RESULT rewrap_replace(struct pg *pg, enum key_table table, const struct rewrap_key *keys, size_t count, uint64_t *changed_out,
                      struct error *err);

/** As job_count_keys(), for one ring. */
RESULT rewrap_count(struct pg *pg, const char *ring, struct key_count counts_out[KEY_COUNTS_MAX], size_t *count_out,
                    struct error *err);
