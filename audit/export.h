/*
 * audit/export.h -- the lines of an export of the events under one key, with proofs of inclusion under one checkpoint (docs/formats/audit-export.md).
 *
 * The export is its own closing entry in the log; nothing else is kept about it. So a page of lines can be asked for again, from any gateway. Each
 * function takes the permit first, for audit.read, and shows only events inside its resource.
 */
#pragma once

#include "audit/format/export.h"
#include "audit/query.h"

struct audit_export {
    uint64_t closing; /* sequence number of the closing entry */
    struct export_terms terms;
    uint64_t first, end; /* the range in sequence numbers, first <= seq < end <= closing */
};

/** ERROR_NOT_FOUND: the entry is no export, is outside the permit's resource, or is another auditor's. Needs audit_search_table, too. */
RESULT audit_export_find(const struct permit *permit, struct pg *pg, uint64_t number, struct audit_export *export_out,
                         struct error *err) __attribute__((nonnull));

struct audit_export_lines {
    const struct audit_export *export;
    const struct signed_checkpoint *checkpoint; /* which covers the closing entry */
    enum export_format format;
    struct keyd_client *keyd;
    const char *origin;   /* of the registry: opens sealed parts */
    const char *log_name; /* of the log */
    bool has_after;
    uint64_t after; /* the last number that the caller has; without it the lines begin with the head */
    uint64_t born;  /* the first number that the caller may see */
};

/**
 * Appends the next lines, as many as `text` has room for; the last one of an export is the closing entry. ERROR_CONFLICT: the caller may not see the
 * left neighbour. ERROR_NOT_FOUND: the caller has the closing entry. ERROR_UNAVAILABLE: the closing entry is not signed yet. ERROR_FORKED: the database yields no proof that verifies.
 */
RESULT audit_export_write(const struct permit *permit, struct pg *pg, const struct audit_export_lines *lines, struct buffer *text,
                          struct error *err) __attribute__((nonnull));
#define AUDIT_EXPORT_PAGE_MAX ((size_t)1 << 20) /* bytes of `text`: at least four lines */
