/*
 * audit/query_priv.h -- the statements behind audit/query.h.
 */
#pragma once

#include "audit/format/leaf.h"
#include "audit/query.h"

struct audit_selection {
    bool ascending;
    uint64_t from, until;
    size_t limit, key_count; /* of all keys that are given, an event must stand under each */
    uint8_t keys[2][LEAF_KEY_ID_SIZE];
};
RESULT audit_select(struct pg *pg, const struct audit_selection *selection, struct pg_rows **rows_out,
                    struct error *err);

/** The entries from <= seq < until, at most AUDIT_PAGE_MAX, without a permit: for the server's own checks. */
RESULT audit_page_between(struct pg *pg, uint64_t from, uint64_t until, struct audit_page **page_out, struct error *err);

struct audit_row {
    uint64_t sequence;
    struct bytes leaf, hash; /* what is hashed, and the hash that stands beside it */
    struct bytes salt, box, subject, wrapped_key; /* empty: no payload, or erased */
    int32_t key_version;
};
void audit_read_row(const struct pg_rows *rows, size_t row, struct audit_row *row_out);
