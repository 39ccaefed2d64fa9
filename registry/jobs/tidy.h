/*
 * registry/jobs/tidy.h -- sessions that expired, and bytes that nothing names any more.
 */
#pragma once

#include "registry/registry.h"

/**
 * One round of cleaning: ends sessions that expired, each with its event, and removes the bytes of ended ones. At
 * most a hundred of each, and region, so that it can be repeated often. *count_out: how many were removed; 0 while another
 * gateway does it. Blocks.
 */
RESULT registry_tidy(struct registry *registry, struct pg *pg, size_t *count_out, struct error *err);
struct tidy_turn {
    int64_t lasts_ms;                   /* no round begins after that; at least one does */
    bool (*is_stopping)(void *context); /* asked before each round */
    void *context;
};
/** Rounds of registry_tidy(), one behind the other. *has_more_out: the time was over before one found nothing. */
RESULT registry_tidy_in_turn(struct registry *registry, struct pg *pg, const struct tidy_turn *turn, bool *has_more_out,
                             struct error *err);
/** Of it the first part: up to a hundred sessions that expired. Several may do it at once. */
RESULT registry_end_expired(struct registry *registry, struct pg *pg, size_t *count_out, struct error *err);
