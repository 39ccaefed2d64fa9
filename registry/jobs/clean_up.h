/* registry/jobs/clean_up.h -- ends expired sessions and removes bytes without a row. */
#pragma once

#include "registry/registry.h"

/**
 * One round: ends expired sessions, each with its event, and removes the bytes of ended ones. At most a hundred
 * sessions, and a hundred objects of each region, so that it can be repeated often. *count_out: how many were
 * removed; 0 while another gateway cleans up. Blocks.
 */
RESULT registry_clean_up(struct registry *registry, struct pg *pg, size_t *count_out, struct error *err);
struct clean_up_options {
    int64_t lasts_ms;                   /* no round begins after this time; at least one round runs */
    bool (*is_stopping)(void *context); /* asked before each round */
    void *context;
};
/** Repeats registry_clean_up() until a round finds nothing. *has_more_out: the time was over before that. */
RESULT registry_clean_up_for(struct registry *registry, struct pg *pg, const struct clean_up_options *options, bool *has_more_out,
                             struct error *err);
/** The first part of a round only: ends up to a hundred expired sessions. Several gateways may do it at the same time. */
RESULT registry_end_expired(struct registry *registry, struct pg *pg, size_t *count_out, struct error *err);
