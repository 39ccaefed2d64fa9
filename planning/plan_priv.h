/* planning/plan_priv.h -- shared by the sources of this folder. */
#pragma once

#include <jansson.h>
#include <pthread.h>

#include "audit/format/leaf.h"
#include "crypto/digest.h"
#include "planning/plan_make.h"
#include "policy/decider/plan.h"

#define PLAN_EXAMPLES 3

/** A plan that is being made. */
struct planning {
    const struct plan_source *source;
    struct policy_plan *plan;
    struct policy_set *proposed;
    int64_t days;
    json_t *answer; /* grows */
    bool is_stopped;
    const char *there; /* a repository that exists, because it was just read; NULL: none */
};
/** Whether it goes on; false sets `is_stopped`. */
bool planning_goes_on(struct planning *planning, enum plan_phase phase, uint64_t done, uint64_t total);
struct result planning_no_memory(struct error *err);
/** Sets a member of the answer; takes `value`, which may be NULL: out of memory. */
RESULT planning_set(struct planning *planning, const char *member, json_t *value, struct error *err);

/* ---- the three phases; each sets its members of the answer ---- */
RESULT plan_events(struct planning *planning, struct error *err);
RESULT plan_content(struct planning *planning, struct error *err);
RESULT plan_runs(struct planning *planning, struct error *err);

/* ---- plan_groups.c: equal events ---- */

/** Events that differ in nothing that a decision or a row looks at. */
struct plan_group {
    uint64_t hash, count, examples[PLAN_EXAMPLES];
    uint32_t key_at, key_length;
};
struct plan_groups;
RESULT plan_groups_new(struct plan_groups **groups_out, struct error *err);
/** False: they are full, and it was not added; empty them first. */
bool plan_groups_add(struct plan_groups *groups, struct bytes key, uint64_t sequence);
/** In the order of their keys, so that equal beginnings follow each other. The array lives until the next add. */
const struct plan_group *plan_groups_sort(struct plan_groups *groups, size_t *count_out);
struct bytes plan_groups_key(const struct plan_groups *groups, const struct plan_group *group);
void plan_groups_clear(struct plan_groups *groups);
void plan_groups_free(struct plan_groups *groups);
DEFINE_OWNED(plan_groups);

/* ---- plan_ahead.c: a page of the log that is read meanwhile ---- */

struct plan_ahead {
    struct pg *pg; /* nobody else may use it until plan_ahead_settle() */
    uint64_t from, until;
    pthread_t thread;
    bool is_reading;
    struct result read;
    struct error err;
    struct pg_rows *rows;
};
/** Begins to read these entries. The one before was taken. */
void plan_ahead_begin(struct plan_ahead *ahead, uint64_t from, uint64_t until);
/** Waits until they are there, or the failure is. May be called at any time. */
void plan_ahead_settle(struct plan_ahead *ahead);
/** The rows of plan_log_page(), or its failure. */
RESULT plan_ahead_take(struct plan_ahead *ahead, struct pg_rows **rows_out, struct error *err);
void plan_ahead_done(struct plan_ahead *ahead);

/* ---- plan_classes.c: names that the same facts decide alike ---- */

struct plan_classes;
RESULT plan_classes_new(const struct planning *planning, struct plan_classes **classes_out, struct error *err);
/** *class_out: from 1; 0: there are too many classes, and this name is decided by itself. */
RESULT plan_classes_find(struct plan_classes *classes, const char *name, unsigned *class_out, struct error *err);
void plan_classes_free(struct plan_classes *classes);
DEFINE_OWNED(plan_classes);

/* ---- plan_sets.c: sets that were in force before ---- */

struct plan_sets;
RESULT plan_sets_new(const struct planning *planning, struct plan_sets **sets_out, struct error *err);
/**
 * *set_out: the set of this digest, as the log names it; NULL: it is not stored, or the text is "". It lives until other sets are asked for. It is
 * the one of the event, whoever has stored it: the digest says so.
 */
RESULT plan_sets_find(struct plan_sets *sets, const char *digest, const struct policy_set **set_out, struct error *err);
void plan_sets_free(struct plan_sets *sets);
DEFINE_OWNED(plan_sets);

/* ---- plan_rows.c ---- */

struct plan_rows {
    json_t *rows[PLAN_CHANGES]; /* objects, by the text of what makes a row; NULL for changes without rows */
    uint64_t counts[PLAN_CHANGES];
};
struct plan_fact {
    const char *actor, *action, *name;
};
RESULT plan_rows_init(struct plan_rows *rows, struct error *err);
void plan_rows_done(struct plan_rows *rows);
RESULT plan_rows_add(struct plan_rows *rows, const struct plan_fact *fact, const struct plan_answer *answer,
                     const struct plan_group *group, struct error *err);
/** Sets "requests", "newly_denied", "newly_allowed" and "undecided". */
RESULT plan_rows_write(struct plan_rows *rows, struct planning *planning, struct error *err);
/** Appends rows with the largest member first, at most `most`. */
RESULT plan_write_largest(json_t *rows, const char *member, size_t most, json_t *list, struct error *err);

/* ---- plan_store.c ---- */
RESULT plan_log_size(struct pg *pg, uint64_t *size_out, struct error *err);
/** The first entry from `sequence` on: number and time. *is_there_out false: there is none. */
RESULT plan_log_entry(struct pg *pg, uint64_t sequence, int64_t *time_ms_out, bool *is_there_out, struct error *err);
/** Columns: number, leaf ("": released). Allowed and denied requests alone. */
RESULT plan_log_page(struct pg *pg, uint64_t from, uint64_t until, struct pg_rows **rows_out, struct error *err);
RESULT plan_facts(struct pg *pg, const uint8_t digest[LEAF_FACTS_DIGEST], struct pg_rows **rows_out, struct error *err);
/** Columns: id, name, home region, number of manifests. By id, after `after`. */
RESULT plan_repositories(struct pg *pg, const struct uuid *after, int64_t limit, struct pg_rows **rows_out, struct error *err);
/** Column: an envelope of a policy set with this digest. */
RESULT plan_set_envelope(struct pg *pg, const uint8_t digest[SHA256_SIZE], struct pg_rows **rows_out, struct error *err);
RESULT plan_has_repository(struct pg *pg, const char *name, bool *has_out, struct error *err);
RESULT plan_repository_count(struct pg *pg, uint64_t *count_out, struct error *err);
RESULT plan_repository_bytes(struct pg *pg, const struct uuid *repository, uint64_t *bytes_out, struct error *err);
/** Columns: number, id, project, state, regions with blanks between, the envelope of the request, number of approvals. After `after`. */
RESULT plan_open_runs(struct pg *pg, int64_t after, int64_t limit, struct pg_rows **rows_out, struct error *err);
