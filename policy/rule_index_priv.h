/*
 * policy/rule_index_priv.h -- the rules of a set by operation, those with equal tests together.
 *
 * Sets repeat their tests: hundreds of rules ask for the same label or the same place. Equal tests have one number in the whole set, so an evaluation
 * makes each test once, and what all rules of a group would say it learns from one of them.
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

struct rule_groups {
    size_t count;
    const struct rule_group *groups;
    const uint16_t *rules; /* indices in the document; those of a group from `first` on, in the order of the document */
};

struct rule_index {
    struct arena *arena;
    uint64_t serial;
    size_t when_count, condition_count;
    struct rule_groups (
        *documents)[OP_COUNT]; /* by document, then by operation: bit 1 << n of enum policy_operation has number n */
};

/** The index of documents that it borrows; ERROR_NO_MEMORY. */
RESULT rule_index_new(struct policy_document *const *documents, size_t count, struct rule_index **index_out, struct error *err);
void rule_index_free(struct rule_index *index);
