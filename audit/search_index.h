/*
 * audit/search_index.h -- writes the index of searches, behind the log and by number.
 *
 * One batch is one transaction: the rows of the index, and the number of entries that it knows. So a kill loses no entry and counts none twice.
 * An advisory lock lets one gateway work at a time; any gateway can go on. Rule: it needs no permit, so no code that serves a request may
 * include this (tests/lint/closed_headers.txt).
 */
#pragma once

#include "crypto/keyd_client.h"
#include "storage/pg.h"

struct search_index;

extern const struct pg_table audit_search_index_table;

/** `pg` needs audit_query_table, audit_subject_table and audit_search_index_table; it and `keyd` belong to the caller. */
RESULT search_index_new(struct pg *pg, struct keyd_client *keyd, const char *origin, struct search_index **index_out,
                        struct error *err) __attribute__((nonnull));

struct search_index_state {
    uint64_t indexed, size; /* of the index and the log after the step */
    bool is_mine;           /* false: another gateway is at it, and this step did nothing */
};
/**
 * Indexes the next entries, up to the end of a block of 4,096; all again, if the log has become shorter than the index. ERROR_FORKED: an entry does not match its hash. ERROR_UNAVAILABLE without
 * database or keyd. After a failure nothing was indexed.
 */
RESULT search_index_step(struct search_index *index, struct search_index_state *state_out, struct error *err)
    __attribute__((nonnull));
void search_index_free(struct search_index *index);
DEFINE_OWNED(search_index);
