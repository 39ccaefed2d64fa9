/* audit/first_place_priv.h -- the statements behind audit/first_place.h. Rows: block, list, the list of denied events of the block or NULL, key; by block and key. */
#pragma once

#include "audit/first_place.h"

#define FIRST_PLACE_ROWS 64 /* of an answer */

struct first_place_query {
    bool has_key; /* else the rows of all places */
    int64_t key;
    struct bytes subject;
    uint64_t block; /* rows up to this block */
};
/** Where the next rows begin: behind this one. */
struct first_place_cursor {
    int64_t block, key;
};
/** The next FIRST_PLACE_ROWS rows of the subject. */
RESULT first_place_rows(struct pg *pg, const struct first_place_query *query, const struct first_place_cursor *after,
                        struct pg_rows **rows_out, struct error *err);
