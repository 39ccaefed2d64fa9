/*
 * policy/compiled_priv.h -- compiled documents, as the evaluator reads them.
 *
 * Texts are views into the parsed JSON, which the compiled document owns; lists are in its arena. Nothing changes
 * after compilation.
 */
#pragma once

#include "audit/action.h"
#include "base/arena.h"
#include "crypto/digest.h"
#include "policy/document.h"
#include "policy/known_truths_priv.h"
#include "policy/label.h"
#include "policy/shape_priv.h"
#include "policy/target.h"

#define POLICY_ARENA_MAX ((size_t)16 * 1024 * 1024) /* many times the size of the largest compiled document */
#define INPUTS_USUAL     1000                       /* usual size of the text that a decision's id is computed over */
#define SHA_TEXT_SIZE    72                         /* "sha256:", 64 digits and '\0' */

enum truth { TRUTH_FALSE, TRUTH_UNKNOWN, TRUTH_TRUE };

struct text_list {
    size_t count;
    const char *const *texts;
};

enum fact_index {
#define FACT(constant, ...) FACT_##constant,
#include "policy/facts.def"
#undef FACT
    FACT_COUNT
};

/* A fact of facts.def; its JSON type determines which of the last three members is used. */
struct fact {
    bool is_known;
    const char *text;
    int64_t number;
    struct text_list texts;
};

struct policy_target {
    json_t *json;
    char *canonical;
    const char *geo, *key_geo, *key_control; /* NULL: unknown */
    struct text_list controllers;            /* none: unknown */
    struct fact facts[FACT_COUNT];
    struct arena *arena;
    _Atomic(struct known_truths *) *known; /* owned: all else of a target never changes */
};

struct policy_group {
    const char *name;
    enum group_kind kind;
    struct text_list members;
};

struct policy_groups {
    json_t *json;
    struct arena *arena;
    uint64_t serial;
    char digest[SHA_TEXT_SIZE];
    size_t count;
    struct policy_group *groups; /* sorted by name */
};

/* One condition on a target: a fact, and the values that it is compared with. */
enum predicate_kind {
    TEST_OF_FACT, /* TEST_OF_FACT + FACT_...: a row of facts.def */
    TEST_GEO_WITHIN = TEST_OF_FACT + FACT_COUNT,
    TEST_GEO_IN_GROUP,
    TEST_REGIME_IN_GROUP,
    TEST_OPERATOR,
    TEST_KEY_GEO,
    TEST_KEY_CONTROL,
    TEST_COUNT
};

/* How a fact of facts.def is compared. */
enum comparison { IS_ONE_OF, HAS_ALL, HAS_ANY, IS_AT_LEAST };
extern const enum comparison fact_comparisons[FACT_COUNT];
extern const char *const fact_names[FACT_COUNT];

struct predicate {
    enum predicate_kind kind;
    struct text_list texts;
    struct text_list group_facts; /* "group:GCC" for each group named */
    int64_t number;
};

struct target_test { /* all must hold */
    size_t count;
    const struct predicate *predicates;
};

struct label_test {                                      /* all conditions must hold; an absent one holds */
    int class_at_least, class_at_most, lineage_at_least; /* -1: absent */
    uint32_t subjects_any, subjects_none;                /* 0: absent */
    struct text_list attached_any;                       /* empty: absent */
};

struct obligation {
    bool has_min_sites, has_retain_min, has_retain_max, has_audit_retain_min, has_receipt, has_notify, has_evidence;
    bool has_approvals, has_signed_request;
    bool receipt, signed_request;
    int64_t min_sites, retain_min_days, retain_max_days, audit_retain_min_days, approvals;
    const char *anchor_copy; /* its canonical JSON; NULL: none */
    struct text_list notify, evidence;
};

struct rule {
    const char *id, *message; /* message "" if there is none */
    enum effect effect;
    uint32_t operations;
    struct label_test when;
    bool is_of_label; /* `label` instead of alternatives */
    struct label_test label;
    size_t alternative_count;
    const struct target_test *alternatives;
    size_t names_max; /* the most facts that a denial by this rule names */
    struct obligation oblige;
    const json_t *basis;
};

struct exception_type {
    const char *name;
    struct text_list lifts, required_evidence;
    int64_t max_days, approvals;
    struct obligation adds;
};

struct scope_pattern {
    size_t count;
    const struct bytes *segments;
};

struct scope_list {
    size_t count;
    const struct scope_pattern *patterns;
};

struct policy_document {
    json_t *json;
    struct arena *arena;
    const char *id, *name, *review_by; /* name: "health-ae@3" */
    const char *organisation;          /* that has added it for itself; NULL: it is the registry's */
    char digest[SHA_TEXT_SIZE];
    int64_t version, effective_from_us, review_by_day;
    struct scope_list scopes;
    bool has_applies_to, is_closed, has_floor;
    struct label_test applies_to;
    struct label floor;
    size_t rule_count, type_count;
    const struct rule *rules;
    const struct exception_type *types;
};

struct policy_documents {
    size_t count;
    struct policy_document **documents; /* owned */
    char *digests;                      /* canonical JSON array of all digests, sorted; owned */
    struct rule_index *index;           /* owned */
};

struct policy_exception {
    uint8_t key[SHA256_SIZE]; /* of the canonical text: its uses are counted under it */
    json_t *json;
    struct arena *arena;
    char *canonical;
    char problem[256]; /* "" for a well-formed one; the rest is then set */
    const char *id, *type, *policy_id, *policy_digest;
    struct uuid project;
    int64_t policy_version, not_before_us, not_after_us, uses_left;
    int64_t uses; /* that it allows; INT64_MAX: any number */
    bool is_revoked;
    struct text_list lifts, targets, digests;
    uint32_t operations;
    size_t approver_count; /* distinct persons, without the requester */
    const json_t *evidence;
};

/* --- helpers for compiling; all ERROR_NO_MEMORY --- */
/** The texts of a JSON array that the shapes have checked; empty for NULL. */
RESULT compile_texts(struct arena *arena, const json_t *array, struct text_list *list_out, struct error *err);
RESULT compile_label_test(struct arena *arena, const json_t *json, struct label_test *test_out, struct error *err);
RESULT compile_target_test(struct arena *arena, const json_t *json, struct target_test *test_out, struct error *err);
RESULT compile_obligation(struct arena *arena, const json_t *json, struct obligation *oblige_out, struct error *err);
RESULT compile_rules(struct policy_document *document, const json_t *rules, struct error *err);

/** Whether anything is decided by the rule. Operations that no action of the log has are asked for one duty alone: how long events are kept. */
bool rule_is_asked(const struct rule *rule);
/** Patterns that the shapes have checked. */
RESULT compile_scopes(struct arena *arena, const json_t *array, struct scope_list *scopes_out, struct error *err);
/**
 * The operations in `ops` of a document, as bits of enum policy_operation. In "sijil.policy/v1" `read` means read,
 * stat and list; stat and list have no names there, so they are ERROR_INVALID.
 */
RESULT compile_operations(const json_t *document, const json_t *ops, const char *where, uint32_t *operations_out,
                          struct error *err);
/** A bit for each word, at its index in the list. */
uint32_t compile_words(const json_t *array, const char *const *words);
/** The canonical text, in the arena, and its "sha256:...". */
RESULT canonical_copy(const json_t *json, size_t maximum, char **text_out, struct error *err);
RESULT canonical_take(struct arena *arena, const json_t *json, const char **text_out, struct error *err);
void sha_text(struct bytes bytes, char text_out[SHA_TEXT_SIZE]);
int compare_texts(const void *a, const void *b); /* of const char *, for qsort and bsearch */

/* --- evaluating --- */
enum truth target_meets(const struct target_test *test, const struct policy_target *target, const struct policy_groups *groups);
bool label_meets(const struct label_test *test, const struct label *label);
struct target_question {
    const struct policy_target *target;
    const struct policy_groups *groups;
    enum truth truth; /* as target_meets() says */
};
/** Appends the names of the facts that gave a test its truth value. The caller has made room. Returns the new count. */
size_t target_names(const struct target_test *test, const struct target_question *question, const char **names, size_t count);
size_t label_names(const struct label_test *test, const struct label *label, const char **names, size_t count);
/** The type of an exception that would lift this rule of this policy, whatever project, target and digest are asked for; NULL: it would not. */
const struct exception_type *exception_covers(const struct policy_exception *exception, const struct policy_document *policy,
                                              const struct rule *rule, enum policy_operation op, int64_t now_us);
bool scope_matches(const struct scope_list *scopes, const struct bytes *segments, size_t count);

#define SCOPE_SEGMENTS_MAX 256 /* a scope of 255 bytes has no more, even if all are "/" */
/** Cuts a scope at its slashes; false if it is longer than POLICY_SCOPE_MAX. */
bool scope_cut(const char *scope, struct bytes segments_out[SCOPE_SEGMENTS_MAX], size_t *count_out);
