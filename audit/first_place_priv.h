/* audit/first_place_priv.h -- the statements behind audit/first_place.h. Rows: block, list; by block. */
#pragma once

#include "audit/first_place.h"

struct first_place_query {
    int64_t key;
    struct bytes subject;
    uint64_t block; /* rows up to this block */
};
/** The first row of the key and the subject. */
RESULT first_place_rows(struct pg *pg, const struct first_place_query *query, struct pg_rows **rows_out, struct error *err);
/** Some rows of the subject, of the first blocks. */
RESULT first_place_subject_rows(struct pg *pg, struct bytes subject, uint64_t block, struct pg_rows **rows_out,
                                struct error *err);
