/*
 * audit/format/leaf_glance.h -- what an event was about, in a fifth of the time that reading all of its leaf takes: for those that count events by the million.
 */
#pragma once

#include "audit/format/leaf.h"

struct leaf_glance {
    struct bytes actor;  /* the texts are views of the leaf's text */
    size_t target_count; /* at least 1 */
    struct {
        struct bytes action, resource;
    } targets[LEAF_TARGETS_MAX];
    size_t facts_count;
    uint8_t facts[LEAF_TARGETS_MAX][LEAF_FACTS_DIGEST];
    char policy[72]; /* as in struct leaf_reason */
};

/**
 * Reads a leaf whose texts are printable ASCII without '"' and '\', as nearly all are. What leaf_read() reads too, both read alike; but this does not look at
 * numbers under keys, and whether the keys follow from the other members: it is for leaves that the log has. False: it decides nothing; leaf_read() does.
 */
bool leaf_glance(struct bytes text, struct leaf_glance *glance_out) __attribute__((nonnull));
