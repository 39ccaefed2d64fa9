/*
 * registry/jobs/turn.h -- what only one of the gateways on a database does at a time.
 *
 * Rule: nobody waits for a turn; who does not get it leaves the work to whoever has it. A turn belongs to the connection: it
 * ends with turn_end(), or when the connection breaks, also because its gateway was killed.
 */
#pragma once

#include "storage/pg.h"

enum turn {
    TURN_OF_UNWRAPS = 5 /* asking sijil-keyd for its count and recording that: so the log never counts backwards */
};

RESULT turn_begin(struct pg *pg, enum turn turn, bool *is_ours_out, struct error *err);
RESULT turn_end(struct pg *pg, enum turn turn, struct error *err);
