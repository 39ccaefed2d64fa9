/*
 * policy/analysis_priv.h -- one or two policy sets as formulas: which facts they allow, over all names, labels, targets and times.
 *
 * The universe is finite: of each fact, values that no predicate of the sets tells apart are one value. So an answer of the solver stands
 * for all facts there can be, and its facts are a witness. The truth of each predicate comes from the evaluator's own target_meets().
 */
#pragma once

#include "policy/evaluate.h"
#include "policy/logic_priv.h"
#include "policy/set_priv.h"

#define ANALYSIS_BYTES_MAX   ((size_t)256 * 1024 * 1024)
#define ANALYSIS_STATES_MAX  16384 /* of the automaton of all scope patterns */
#define ANALYSIS_NAMES_MAX   1024  /* kinds of names that the patterns tell apart */
#define ANALYSIS_MOMENTS_MAX 1024  /* in which policies and exceptions begin or end */

/* A list of texts, each once; grows in the arena. */
struct text_set {
    size_t count, room;
    const char **texts;
};

struct name_class {
    const char *name; /* a name; at least three segments if there is one */
    unsigned depth;
    const bool *in_scope[2]; /* for each document of each set, in force or not */
};

struct analysis {
    const struct policy_set *sets[2];
    size_t set_count;
    struct arena *arena;
    uint64_t steps;
    bool is_lost;      /* out of memory */
    const char *doubt; /* why not everything can be looked at; NULL: it can */
    size_t unused_id_count;
    const char *const *unused_ids;
    size_t name_count;
    struct name_class *names;
    size_t group_count;
    uint32_t groups[OP_COUNT]; /* operations that no rule and no exception of the sets tells apart, as bits */
    size_t moment_count;
    int64_t *moments; /* sorted; the first is the one that was asked for */
    /* what the predicates and tests of both sets mention */
    struct text_set places, key_places, key_controls, controllers, regimes_of_labels, pins, projects, targets, digests,
        facts[FACT_COUNT];
};

/** Collects what the sets mention, the kinds of names and the moments. `analysis` has its sets and steps. ERROR_NO_MEMORY. */
RESULT analysis_prepare(struct analysis *analysis, int64_t now_us, struct error *err);
void analysis_done(struct analysis *analysis);
/** Adds a text that is not there yet. */
void text_set_add(struct analysis *analysis, struct text_set *set, const char *text);
bool text_set_has(const struct text_set *set, const char *text);
/** analysis_names.c: fills analysis->names. */
void analysis_find_names(struct analysis *analysis);
/** Takes steps; false: none is left, and analysis->doubt says so. */
bool analysis_spend(struct analysis *analysis, uint64_t steps);

/* --- the universe: a variable for each thing that may be so --- */

/* One of several values; the first is "unknown", or "another". */
struct choice {
    size_t count;
    const char *const *texts; /* texts[0] is NULL */
    int *literals;
};

/* Any of several values. */
struct choices {
    int is_known;
    size_t count;
    const char *const *texts;
    int *literals;
};

struct universe {
    struct analysis *analysis;
    struct arena *arena;
    struct logic *logic;
    /* the content's own label */
    int no_label, class_from[4], lineage_from[3], subjects[LABEL_SUBJECT_COUNT];
    struct choices regimes, pins;
    /* what is known of the target */
    struct choice geo, key_geo, key_control, one_of[FACT_COUNT]; /* the last for IS_ONE_OF and IS_AT_LEAST */
    struct choices controllers, any_of[FACT_COUNT];              /* the last for HAS_ALL and HAS_ANY */
    /* what exceptions are bound to */
    struct choice projects, targets, digests;
    /* for each rule of each set, in the order of documents: whether its condition is met, for a free target; 0: not made yet */
    int *harmless[2];
};

RESULT universe_new(struct analysis *analysis, struct universe **universe_out, struct error *err);
void universe_free(struct universe *universe);
DEFINE_OWNED(universe);
/** The literal of a text; LOGIC_FALSE if it is none of the choices. */
int choice_literal(const struct choice *choice, const char *text);
int choices_literal(const struct choices *choices, const char *text);
/** Whether a test of a target is proven true, or proven false. */
struct proof {
    int is_true, is_false;
};
struct proof universe_target_meets(struct universe *universe, const struct target_test *test, const struct policy_groups *groups);

/* --- what a set says of one operation on one name --- */

struct cell {
    unsigned set; /* of analysis->sets */
    enum policy_operation op;
    const struct name_class *name;
    int64_t now_us;
    struct label floor; /* what policies and stored labels give to the name */
    bool has_floor;
    const struct policy_target *target; /* NULL: any facts */
    const char *target_id;              /* NULL: any */
};

#define NO_RULE SIZE_MAX /* the number of a rule of the system */

struct denial_literal {
    int literal;
    const char *policy, *rule;
    size_t number; /* of the rule, over all documents of the set in their order */
};
struct duty_literal {
    int literal;
    const struct policy_document *policy;
    const struct rule *rule;
    size_t number;
};
struct verdict {
    int allows;
    size_t denial_count, grant_count, duty_count, active_count;
    struct denial_literal *denials; /* each is enough to deny */
    struct denial_literal *grants;  /* permits of policies in scope */
    struct duty_literal *duties;    /* rules that oblige */
    struct duty_literal *active;    /* all rules: whether operation, label and policy apply */
};

/** The floors in force for a name, joined; without those of policies that `but` (or NULL) declassifies. False: more than a label has. */
bool cell_floor(struct cell *cell, const struct analysis *analysis, const struct policy_set *but);
/** NULL when memory or steps are used up. */
struct verdict *cell_verdict(struct universe *universe, const struct cell *cell);

/* --- from what the solver found back to facts --- */

struct witness {
    struct policy_facts facts;
    struct label own, label;
    bool has_own;
    struct policy_target *target; /* of the solver; owned, NULL for a fixed one */
};
/** The facts of a cell in what the solver found last. ERROR_LIMIT: more regimes or pins than a label has. */
RESULT witness_find(const struct universe *universe, const struct cell *cell, struct witness *witness_out, struct error *err);
/** Whether the evaluator allows these facts under the set of the cell. */
RESULT witness_ask(const struct analysis *analysis, const struct cell *cell, const struct witness *witness, bool *allows_out,
                   struct error *err);
/** The facts as policy_facts_read() takes them. */
RESULT witness_json(const struct witness *witness, json_t **json_out, struct error *err);
void witness_done(struct witness *witness);
#define OWNED_WITNESS __attribute__((cleanup(witness_done)))

/* --- duties --- */

#define DUTY_THINGS_MAX 16 /* the members of an obligation, and room: each list of texts is one thing */

/* Something that a rule demands. `literal`: the rule is active, and none of the others demands as much. */
struct duty_gap {
    int literal;
    const char *name; /* "retain_min_days" */
};
/** What `duty` demands and the duties of `others`, without those of the rule `but` (or NULL), may not. Returns the count. */
size_t duty_gaps(struct universe *universe, const struct duty_literal *duty, const struct verdict *others, const struct rule *but,
                 struct duty_gap gaps_out[DUTY_THINGS_MAX]);

/* --- operations and places --- */

/** Fills analysis->groups. */
void analysis_find_operations(struct analysis *analysis);

/* A region or network whose facts are not the same in both sets. */
struct changed_place {
    const char *id, *ids[2]; /* as a row names it, and as each set does */
    const struct policy_target *targets[2];
    uint32_t operations; /* which such a target decides */
};
/** Those of both catalogues; sorted by kind and name. Only with two sets. */
struct changed_place *analysis_places(struct analysis *analysis, size_t *count_out);
