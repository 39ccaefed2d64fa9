/*
 * audit/kept_answer_priv.h -- the statements behind audit/kept_answer.h.
 */
#pragma once

#include "audit/kept_answer.h"

/** The row of the subject with this index under the key, if it has not expired: request, salt, box, and whether it is new. */
RESULT kept_select(struct pg *pg, const uint8_t subject[32], const struct kept_request *request, struct pg_rows **rows_out,
                   struct error *err);
/** Sweeps a few expired rows, too. */
RESULT kept_claim(struct pg *pg, const uint8_t subject[32], const struct kept_request *request, bool *is_new_out,
                  struct error *err);
/** Fills the row, unless it has an answer, and empties those of the subject beyond KEPT_MOST. */
RESULT kept_fill(struct pg *pg, const uint8_t subject[32], const struct kept_request *request, const uint8_t salt[32],
                 struct bytes box, struct error *err);
