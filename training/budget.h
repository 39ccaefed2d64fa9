/*
 * training/budget.h -- the budget of a project: seconds of processors and devices that its runs may use (docs/quotas.md).
 *
 * A run reserves the most that one attempt can use when it is ordered, and until it ends. What its attempts have used counts for ever.
 * Both happen under the log's lock, in the transaction of a change, so the sums are exact with any number of gateways.
 */
#pragma once

#include "storage/pg.h"
#include "training/format/envelope.h"

extern const struct pg_table run_budget_table;

struct run_cost {
    int64_t cpu_s, gpu_s;
};
/** The most that one attempt can use, on all its nodes. Of a request or an order. */
struct run_cost run_cost_of(const struct run_envelope *envelope);
