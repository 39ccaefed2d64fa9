/*
 * audit/cosigned_priv.h -- the statements behind audit/cosigned.h.
 */
#pragma once

#include "audit/cosigned.h"

/** id, size and note, from the largest size down, and of one size from the newest row down. `before` is the last row that was seen. */
struct cosigned_cursor {
    int64_t size, id;
};
RESULT cosigned_select_down(struct pg *pg, const struct cosigned_cursor *before, struct pg_rows **rows_out, struct error *err);
RESULT cosigned_insert(struct pg *pg, uint64_t size, const char *note, struct error *err);
