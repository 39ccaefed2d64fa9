/*
 * runner/serve/leased.h -- what a worker does with a lease: it runs it, refuses it, or sends its kept result.
 */
#pragma once

#include "runner/serve/worker.h"

/** Runs a lease that was taken, and tells the registry how it ended. True: the lease has ended. */
bool leased_execute(struct worker *worker, const struct verdict *verdict);
/** Sends a result until the registry has taken or refused it, or the lease is over. True: the lease has ended. */
bool leased_send(struct worker *worker, const struct taken_lease *lease, struct bytes body);
/** Signs and sends a refusal likewise. False: the registry has not taken it. */
bool leased_refuse(struct worker *worker, const struct run_envelope *lease, const struct order_refusal *refusal);
