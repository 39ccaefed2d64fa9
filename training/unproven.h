/*
 * training/unproven.h -- the envelopes of a lease as the rows have them. They prove nothing: a thief of the database's role can write any row.
 *
 * Rule: what a runner may do is decided from an order and a lease that are proven to be sijil-keyd's, by run_lease_prove() of
 * gateway/pipeline/run_gate.h. So only the files in tests/lint/closed_headers.txt may include this.
 */
#pragma once

#include "storage/lookup.h"
#include "training/lease.h"

/** The order of a run, whose repositories are decided again. ERROR_NOT_FOUND. */
RESULT run_order_find(struct lookup *lookup, const struct uuid *run, struct run_envelope **order_out, struct error *err);
/** The envelope of a lease. ERROR_NOT_FOUND: sijil-keyd has not signed it yet. */
RESULT run_lease_find(struct lookup *lookup, const struct run_holder *holder, struct run_envelope **lease_out, struct error *err);
