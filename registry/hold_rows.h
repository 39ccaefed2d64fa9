/*
 * registry/hold_rows.h -- the rows of signed holds of content (docs/deletion.md, "Signed holds"), so that the statements that remove manifests see them.
 *
 * A row says nothing by itself: gateway/background/holds.h makes the rows equal to the documents that sijil-keyd has pinned, whoever wrote them.
 */
#pragma once

#include "storage/pg.h"

struct hold_row {
    const char *name;    /* of the document */
    const char *content; /* as in struct legal_hold */
    const char *digest;  /* "": all of it */
    int64_t until_ms;
};
/** Makes the rows exactly these, and counts the rows that were not so. */
RESULT hold_rows_write(struct pg *pg, const struct hold_row *rows, size_t count, int64_t *changed_out, struct error *err)
    __attribute__((nonnull(1, 4, 5)));
