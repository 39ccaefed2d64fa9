/* Rows of a plan: who, what, where, by which rule; how often, with examples. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "planning/plan_priv.h"

#define ROWS_MAX   20000 /* in memory, of one change: 20 MiB */
#define ROWS_SHOWN 250   /* with 1,000 bytes each, both changes fill half of a plan */
#define ROW_TEXT   4096  /* what makes a row: the longest name of an event, and some hundred bytes */

static const char *const row_names[PLAN_CHANGES] = {
    [PLAN_NEWLY_DENIED] = "newly_denied", [PLAN_NEWLY_ALLOWED] = "newly_allowed", [PLAN_UNDECIDED] = "undecided"};

struct result plan_rows_init(struct plan_rows *rows, struct error *err)
{
    *rows = (struct plan_rows){.rows = {NULL}};
    for (enum plan_change change = 0; change < PLAN_CHANGES; change++) {
        if (row_names[change] == NULL) continue;
        rows->rows[change] = json_object();
        if (rows->rows[change] != NULL) continue;
        plan_rows_done(rows);
        return planning_no_memory(err);
    }
    return SUCCESS;
}

void plan_rows_done(struct plan_rows *rows)
{
    for (enum plan_change change = 0; change < PLAN_CHANGES; change++) json_decref(rows->rows[change]);
    *rows = (struct plan_rows){.rows = {NULL}};
}

/* Of what is undecided only the reason and the action count. */
static json_t *new_row(const struct plan_fact *fact, const struct plan_answer *answer)
{
    if (answer->change == PLAN_UNDECIDED)
        return json_pack("{s:s, s:s, s:I, s:[]}", "action", fact->action, "why", answer->rule, "count", (json_int_t)0,
                         "examples");
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:[]}", "actor", fact->actor, "action", fact->action, "operation",
                     answer->operation, "resource", fact->name, "target", answer->target, "rule", answer->rule, "policy",
                     answer->policy, "count", (json_int_t)0, "examples");
}

static struct result row_text(const struct plan_fact *fact, const struct plan_answer *answer, struct buffer *text,
                              struct error *err)
{
    if (answer->change == PLAN_UNDECIDED) return buffer_format(text, err, "%s\n%s", fact->action, answer->rule);
    return buffer_format(text, err, "%s\n%s\n%s\n%s\n%s\n%s\n%s", fact->actor, fact->action, fact->name, answer->operation,
                         answer->target, answer->rule, answer->policy);
}

static int compare_numbers(const void *a, const void *b)
{
    const json_int_t left = json_integer_value(*(json_t *const *)a), right = json_integer_value(*(json_t *const *)b);

    return left < right ? -1 : left > right;
}

/* The first three of all: a later group may have earlier ones. */
static struct result add_examples(json_t *row, const struct plan_group *group, struct error *err)
{
    json_t *examples = json_object_get(row, "examples"), *all[2 * PLAN_EXAMPLES];
    size_t count = json_array_size(examples);

    for (size_t i = 0; i < count; i++) all[i] = json_incref(json_array_get(examples, i));
    for (size_t i = 0; i < PLAN_EXAMPLES && i < group->count; i++) all[count++] = json_integer((json_int_t)group->examples[i]);
    bool is_added = true;
    for (size_t i = 0; i < count; i++) is_added = is_added && all[i] != NULL;
    if (is_added) qsort(all, count, sizeof all[0], compare_numbers);
    is_added = is_added && json_array_clear(examples) == 0;
    for (size_t i = 0; i < count; i++) {
        if (is_added && i < PLAN_EXAMPLES) is_added = json_array_append(examples, all[i]) == 0;
        json_decref(all[i]);
    }
    return is_added ? SUCCESS : planning_no_memory(err);
}

struct result plan_rows_add(struct plan_rows *rows, const struct plan_fact *fact, const struct plan_answer *answer,
                            const struct plan_group *group, struct error *err)
{
    json_t *all = rows->rows[answer->change];
    struct buffer OWNED_BUFFER text = BUFFER(ROW_TEXT);

    rows->counts[answer->change] += group->count;
    if (all == NULL) return SUCCESS;
    TRY(row_text(fact, answer, &text, err));
    json_t *row = json_object_get(all, buffer_text(&text));
    if (row == NULL) {
        if (json_object_size(all) == ROWS_MAX) return SUCCESS; /* counted, and not shown */
        row = new_row(fact, answer);
        if (row == NULL || json_object_set_new(all, buffer_text(&text), row) != 0) return planning_no_memory(err);
    }
    json_t *count = json_object_get(row, "count");
    if (json_integer_set(count, json_integer_value(count) + (json_int_t)group->count) != 0) return planning_no_memory(err);
    return add_examples(row, group, err);
}

/* ---- the largest ---- */

struct ranked {
    json_int_t number;
    const char *key;
    json_t *row;
};

static int compare_ranked(const void *a, const void *b)
{
    const struct ranked *left = a, *right = b;

    if (left->number != right->number) return left->number > right->number ? -1 : 1;
    return strcmp(left->key, right->key);
}

struct result plan_write_largest(json_t *rows, const char *member, size_t most, json_t *list, struct error *err)
{
    struct ranked *ranked = memory_zeroed(json_object_size(rows) + 1, sizeof *ranked);
    size_t count = 0;
    const char *key;
    json_t *row;
    bool is_added = ranked != NULL && list != NULL;

    if (!is_added) {
        free(ranked);
        return planning_no_memory(err);
    }
    json_object_foreach (rows, key, row)
        ranked[count++] = (struct ranked){json_integer_value(json_object_get(row, member)), key, row};
    qsort(ranked, count, sizeof *ranked, compare_ranked);
    for (size_t i = 0; i < count && i < most; i++) is_added = is_added && json_array_append(list, ranked[i].row) == 0;
    free(ranked);
    return is_added ? SUCCESS : planning_no_memory(err);
}

struct result plan_rows_write(struct plan_rows *rows, struct planning *planning, struct error *err)
{
    const uint64_t *counts = rows->counts;

    TRY(planning_set(planning, "requests",
                     json_pack("{s:I, s:I, s:I, s:I, s:I}", "allowed", (json_int_t)counts[PLAN_ALLOWED], "denied",
                               (json_int_t)counts[PLAN_DENIED], "newly_denied", (json_int_t)counts[PLAN_NEWLY_DENIED],
                               "newly_allowed", (json_int_t)counts[PLAN_NEWLY_ALLOWED], "undecided",
                               (json_int_t)counts[PLAN_UNDECIDED]),
                     err));
    for (enum plan_change change = 0; change < PLAN_CHANGES; change++) {
        if (rows->rows[change] == NULL) continue;
        OWNED_JSON list = json_array();
        TRY(plan_write_largest(rows->rows[change], "count", ROWS_SHOWN, list, err));
        TRY(planning_set(planning, row_names[change], json_incref(list), err));
    }
    return SUCCESS;
}
