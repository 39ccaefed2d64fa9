/*
 * policy/decision_priv.h -- a decision of the policy engine while it is made.
 *
 * Everything is in the decision's arena, or a view into documents.
 */
#pragma once

#include "policy/compiled_priv.h"
#include "policy/evaluate.h"

#define DECISION_ARENA_MAX ((size_t)64 * 1024 * 1024) /* the worst set, with every rule denying */

struct warning {
    const char *code, *policy, *detail;
};

struct lifting {
    const char *rule, *policy, *exception;
    size_t place; /* of the exception in the facts */
};

/* A growing list in an arena. */
struct list {
    size_t count, capacity;
    void *items;
};

struct duties {
    struct obligation sums;                /* numbers and flags; its lists and anchor are not used */
    struct list anchors, notify, evidence; /* of const char *; sorted, each once */
};

struct policy_decision {
    struct arena *arena;
    char id[SHA_TEXT_SIZE];
    const char *groups_digest, *documents_digests;
    struct list denials; /* of struct policy_denial */
    struct list lifted, warnings;
    struct duties duties;
    const char *retaining_rule, *retaining_policy;   /* with the longest retain_min_days; NULL: none */
    const char *keeping_rule, *keeping_policy;       /* with the longest audit_retain_min_days; NULL: none */
    const char *ending_rule, *ending_policy;         /* with the shortest retain_max_days; NULL: none */
    const char *permitting_rule, *permitting_policy; /* the first permit of a policy in scope; NULL: none */
};

/** Adds an element of `size` zero bytes; ERROR_NO_MEMORY. */
RESULT list_add(struct arena *arena, struct list *list, size_t size, void **place_out, struct error *err);
RESULT decision_deny(struct policy_decision *decision, const struct policy_denial *denial, struct error *err);
RESULT decision_warn(struct policy_decision *decision, const struct warning *warning, struct error *err);
/** Largest minimum, smallest maximum, true over false, union of the lists. */
RESULT duties_merge(struct policy_decision *decision, const struct obligation *added, struct error *err);
