/*
 * audit/published_priv.h -- the statements behind audit/published.h.
 */
#pragma once

#include "audit/published.h"

/** The bytes of the entries first .. first+count-1: so many rows, or ERROR_FORKED. */
RESULT published_select_entries(struct pg *pg, uint64_t first, size_t count, struct pg_rows **rows_out, struct error *err);
/** id and note of the next rows with this size, after `cursor`. */
RESULT published_select_of_size(struct pg *pg, uint64_t size, int64_t cursor, struct pg_rows **rows_out, struct error *err);
/** id, note and time. */
struct published_place {
    int64_t size, id;
};
/** size, id and note, behind this place. */
RESULT published_select_larger(struct pg *pg, const struct published_place *after, struct pg_rows **rows_out, struct error *err);
/** The first row from this time on, or the last one before it; `none` if there is none. */
RESULT published_id_at(struct pg *pg, int64_t time_ms, bool is_end, int64_t none, int64_t *id_out, struct error *err);
RESULT published_select_page(struct pg *pg, const struct published_span *span, struct pg_rows **rows_out, struct error *err);
