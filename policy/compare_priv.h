/* policy/compare_priv.h -- a comparison while it is made. */
#pragma once

#include "policy/analysis_priv.h"
#include "policy/compare.h"

struct policy_comparison {
    struct arena *arena;
    size_t count, room;
    struct policy_difference *differences;
    json_t **witnesses; /* one for each difference, or NULL; owned */
    bool is_full;
};

/** Takes a difference, and its witness (or NULL). What a comparison has no room for becomes a doubt. ERROR_NO_MEMORY. */
RESULT comparison_add(struct policy_comparison *comparison, const struct policy_difference *difference, json_t *witness,
                      struct error *err);
/** A doubt about everything that was not looked at. */
RESULT comparison_doubt(struct policy_comparison *comparison, const char *why, int64_t now_us, struct error *err);
/** By change, then by rules, name and target. */
void comparison_sort(struct policy_comparison *comparison);
/** compare_documents.c: what exception types, declassifications and records of regions show without any facts. */
RESULT compare_documents(struct policy_comparison *comparison, const struct policy_compared *compared, struct error *err);
