/*
 * audit/kept_answer_jobs.h -- the end of answers that were kept for repeats, without a permit. A handler can't see this header.
 */
#pragma once

#include "storage/pg.h"

/** Deletes rows that have ended, also if no request with a key comes any more. Connections need kept_answer_table. */
RESULT kept_answer_forget(struct pg *pg, struct error *err) __attribute__((nonnull));
