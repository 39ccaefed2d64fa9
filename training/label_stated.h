/*
 * training/label_stated.h -- the label that the manifests of what a run makes must state (docs/formats/run.md, "Labels").
 *
 * The registry computes it as the runner does: from the policy set that the order names, the names of the repositories, and the labels that the
 * manifests of the run's artifacts state. The runner may state more. What the registry knows besides counts by the names of the repositories.
 */
#pragma once

#include "audit/permit.h"
#include "policy/decider/decider.h"
#include "training/format/envelope.h"

extern const struct pg_table run_stated_table;

struct run_floor;
/** An order, and the beginning of the lease: policies that come into force later do not count. */
struct run_floor_query {
    enum action action; /* of the permit on the run's project: run.finish */
    const struct run_envelope *order;
    int64_t at_ms;
};
/** ERROR_CORRUPT: the policy set of the order is not stored any more, or a stored label can't be read; ERROR_UNAVAILABLE, ERROR_NO_MEMORY. */
RESULT run_floor_find(const struct permit *permit, struct pg *pg, struct decider *decider, const struct run_floor_query *query,
                      struct run_floor **floor_out, struct error *err) __attribute__((nonnull));
/** From what is in memory: the names alone, and nothing if the order's policy set is not in force any more. */
RESULT run_floor_of_names(struct decider *decider, const struct run_floor_query *query, struct run_floor **floor_out,
                          struct error *err);
/** `label` is that of the manifest (struct manifest). ERROR_INVALID: it has none, or one that lacks something. */
RESULT run_floor_check(const struct run_floor *floor, const char *what, const char *label, struct error *err);
void run_floor_free(struct run_floor *floor);
DEFINE_OWNED(run_floor);
