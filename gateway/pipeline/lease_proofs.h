/*
 * gateway/pipeline/lease_proofs.h -- which leases were proven: so a lease's signatures are checked once, and not at each heartbeat and each request.
 *
 * What is kept is true until the lease's own end: sijil-keyd has signed this lease, for this holder, of this order. Whether the runner may still use it
 * (its document, its certificate, the end of its attempt) is looked up at each request. Thread-safe.
 */
#pragma once

#include "base/owned.h"
#include "training/lease.h"

struct lease_proofs;

RESULT lease_proofs_new(struct lease_proofs **proofs_out, struct error *err);
/** False: it was not proven, or has ended, or is forgotten. `order`: digest of the order; NULL: any. */
bool lease_proofs_find(struct lease_proofs *proofs, const struct run_holder *holder, const char *order, int64_t now_ms,
                       int64_t *ends_ms_out);
void lease_proofs_keep(struct lease_proofs *proofs, const struct run_holder *holder, const char *order, int64_t ends_ms);
void lease_proofs_free(struct lease_proofs *proofs);
DEFINE_OWNED(lease_proofs);
