/*
 * authz/dpop_spent.h -- a proof counts once, at all gateways (RFC 9449, 11.1).
 *
 * A row of the table spent_proof stays for longer than any gateway accepts the proof, and each use sweeps old rows, so the table
 * holds little more than the proofs of four minutes. The commit waits for no disk: a crash of the database may forget the proofs of its last
 * second, and nothing else.
 */
#pragma once

#include "authz/dpop.h"
#include "storage/pg.h"

extern const struct pg_table dpop_spent_table;

#define DPOP_SPENT_S 240 /* twice the window, and two minutes for the clocks of gateways */

/** ERROR_CONFLICT: the proof was used before. */
RESULT dpop_spend(struct pg *pg, const struct dpop_proof *proof, struct error *err);
