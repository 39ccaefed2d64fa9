/*
 * registry/copies/placement.h -- looks through all repositories, page by page, whether what they have may rest at its home, and closes and opens them (docs/policies.md, "Content out of place").
 *
 * Rule: the look is for the server alone (registry/copies/placement_jobs.h). Each change is an event; no byte moves.
 */
#pragma once

#include "audit/permit.h"
#include "registry/registry.h"

extern const struct pg_table placement_statements;

#define MISPLACED_MAX 100 /* that a list names */
struct misplaced {
    char name[RESOURCE_NAME_MAX + 1], operation[9], rule[65], policy[80];
    int64_t found_ms; /* wall */
};
/** Repositories of the permit's project (project.read) that are out of place, by name: the first MISPLACED_MAX. *all_out counts them. */
RESULT placement_list(const struct permit *permit, struct pg *pg, struct misplaced list_out[MISPLACED_MAX], size_t *count_out,
                      uint64_t *all_out, struct error *err) __attribute__((nonnull));
