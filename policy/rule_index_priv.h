/*
 * policy/rule_index_priv.h -- the rules of a set by operation, those with equal tests together.
 *
 * Sets repeat their tests: hundreds of rules ask for the same label or the same place. Equal tests have one number in the whole set, so an evaluation
 * makes each test once, and what all rules of a group would say it learns from one of them. Groups of one effect and one `when` follow each other: if the `when` does
 * not hold, or none of them had anything to say about the target before, all of them are passed over at once.
 */
#pragma once

#include "policy/compiled_priv.h"

/* Rules of one document with the same effect, `when`, and condition. */
struct rule_group {
    uint16_t effect;    /* enum effect */
    uint16_t when;      /* the number of its `when` */
    uint16_t condition; /* the number of what it requires or denies; of an obligation, of its duties */
    uint16_t first, count;
    bool is_of_label; /* the condition is about the label, not about the target */
};

/* Groups with the same effect and `when`. */
struct rule_run {
    uint32_t silence;      /* the number of its place among the known truths of a target; 0: it has none */
    uint16_t first, count; /* of the groups */
};

struct rule_groups {
    size_t run_count;
    const struct rule_run *runs;
    const struct rule_group *groups;
    const uint16_t *rules; /* indices in the document; those of a group from `first` on, in the order of the document */
};

struct rule_index {
    struct arena *arena;
    uint64_t serial;
    size_t when_count, condition_count;
    size_t truth_count; /* conditions, and behind them the runs that say something by the target alone */
    struct rule_groups (
        *documents)[OP_COUNT]; /* by document, then by operation: bit 1 << n of enum policy_operation has number n */
};

/** The index of documents that it borrows; ERROR_NO_MEMORY. */
RESULT rule_index_new(struct policy_document *const *documents, size_t count, struct rule_index **index_out, struct error *err);
void rule_index_free(struct rule_index *index);
