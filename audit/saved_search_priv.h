/*
 * audit/saved_search_priv.h -- the statements behind audit/saved_search.h.
 */
#pragma once

#include "audit/saved_search.h"

/** Rows of the subject with this index: id, salt, box, time; oldest first. */
RESULT saved_select(struct pg *pg, const uint8_t subject[32], struct pg_rows **rows_out, struct error *err);
/** ERROR_LIMIT. */
RESULT saved_insert(struct pg *pg, const struct saved_search_change *change, struct error *err);
RESULT saved_delete(struct pg *pg, const uint8_t subject[32], const struct uuid *id, bool *was_there_out, struct error *err);
