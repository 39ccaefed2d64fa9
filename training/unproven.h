/*
 * training/unproven.h -- the envelopes of a run as the rows have them. They prove nothing: a thief of the database's role can write any row.
 *
 * Rule: what a runner may do is decided from an order and a lease that are proven to be sijil-keyd's, by run_lease_prove() of
 * gateway/pipeline/run_gate.h. So only the files in tests/lint/closed_headers.txt may include this.
 */
#pragma once

#include "storage/lookup.h"
#include "training/lease.h"

/** The order of a run, whose repositories are decided again. ERROR_NOT_FOUND. */
RESULT run_order_find(struct lookup *lookup, const struct uuid *run, struct run_envelope **order_out, struct error *err);
/** The same, and the request, in one question. */
struct run_ordered {
    struct run_envelope *order, *request; /* owned; NULL at first */
};
void run_ordered_done(struct run_ordered *ordered);
#define OWNED_ORDERED __attribute__((cleanup(run_ordered_done))) struct run_ordered
RESULT run_ordered_find(struct lookup *lookup, const struct uuid *run, struct run_ordered *ordered, struct error *err);
/** The request of a run alone. Whoever has the proven order compares its digest (run_standing_check()). ERROR_NOT_FOUND. */
RESULT run_request_find(struct lookup *lookup, const struct uuid *run, struct run_envelope **request_out, struct error *err);
/** The envelope of a lease. ERROR_NOT_FOUND: sijil-keyd has not signed it yet. */
RESULT run_lease_find(struct lookup *lookup, const struct run_holder *holder, struct run_envelope **lease_out, struct error *err);
