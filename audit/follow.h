/*
 * audit/follow.h -- reads the log by number for work of the server that follows it: deliveries to other systems, detection.
 *
 * Rule: it needs no permit, so no code that serves a request may include this (tests/lint/closed_headers.txt). Connections need
 * audit_query_table and audit_tree_table; and audit_archive_table and audit_subject_table, with which leaves that were released are read.
 */
#pragma once

#include "audit/query.h"

struct audit_span {
    uint64_t from, until; /* numbers: from <= seq < until, at most AUDIT_PAGE_MAX */
};
/**
 * The entries of a span below `checkpoint`. Each entry was proven to lead to the signed root. ERROR_FORKED: one does not, or is missing.
 * ERROR_UNAVAILABLE, ERROR_CORRUPT: the region of an archived entry can't be read, or has lost it.
 */
RESULT audit_follow(struct pg *pg, const struct signed_checkpoint *checkpoint, const struct audit_span *span,
                    struct audit_page **page_out, struct error *err) __attribute__((nonnull));
/** The time of an entry, in milliseconds since 1970. ERROR_FORKED, as above. */
RESULT audit_follow_time(struct pg *pg, const struct signed_checkpoint *checkpoint, uint64_t sequence, int64_t *time_ms_out,
                         struct error *err) __attribute__((nonnull));
