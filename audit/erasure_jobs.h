/*
 * audit/erasure_jobs.h -- what the server's own work asks about erasures before it records that it begins one.
 *
 * Rule: it needs no permit, so no code that serves a request may include this (tests/lint/closed_headers.txt).
 */
#pragma once

#include "audit/erasure.h"

/** As erasure_row_find(). It tells how far an erasure is, and names nobody. */
RESULT erasure_row_now(struct pg *pg, const char *pseudonym, struct erasure_row *row_out, struct error *err)
    __attribute__((nonnull));
