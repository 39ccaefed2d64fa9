/* Events of the project: decided again, and counted by place, reader and refusal. */
#include <stdio.h>
#include <string.h>

#include "base/terminal_text.h"
#include "base/text.h"
#include "policy/replay.h"
#include "residency/residency_priv.h"

#define KEY_MAX      ((size_t)128 << 10) /* names, an operation, and the facts of a place or a network */
#define REFUSALS_MAX 1000 /* rows: whoever may do nothing here could else fill a report with names, so that none can be made */

static struct residency_set *find_set(struct residency *residency, const char *digest)
{
    for (size_t i = 0; i < residency->findings.sets; i++)
        if (strcmp(policy_set_digest(residency->sets[i].set), digest) == 0) return &residency->sets[i];
    return NULL;
}

/* ---- decided again ---- */

static void count_replay(struct residency_findings *findings, const struct leaf *leaf, const struct replay_report *report)
{
    if (report->is_missing || report->lacks_set || report->lacks_restriction) findings->lacking++;
    if (report->verdict == REPLAY_AGREES) findings->agree++;
    else if (report->verdict == REPLAY_IMPOSSIBLE) findings->impossible++;
    else if (findings->differ++ == 0) {
        findings->first = leaf->sequence;
        memcpy(findings->what, report->what, sizeof findings->what);
        terminal_sanitize(findings->what); /* it is printed, and has names of facts that a hostile registry may write */
    }
}

static struct result replay(struct residency *residency, const struct leaf *leaf, struct error *err)
{
    struct bytes texts[LEAF_TARGETS_MAX];
    struct replay_report report;
    char hex[2 * LEAF_FACTS_DIGEST + 1];
    size_t count = 0;

    for (; count < leaf->facts_count; count++) {
        text_hex(leaf->facts[count], LEAF_FACTS_DIGEST, hex);
        const char *text = json_string_value(json_object_get(residency->texts, hex));
        if (text == NULL) break;
        texts[count] = bytes_of_text(text);
    }
    const struct residency_set *set = find_set(residency, leaf->reason.policy);
    const struct replay_base base = {set == NULL ? NULL : set->set, residency->restrictions,
                                     replay_restrictions_first(residency->restrictions)};
    TRY(policy_replay(leaf, texts, count, &base, &report, err));
    count_replay(&residency->findings, leaf, &report);
    return SUCCESS;
}

/* ---- what was decided ---- */

static size_t name_length(const struct leaf_target *target)
{
    return strcspn(target->resource, "#");
}

static struct result count_place(struct residency *residency, const struct leaf *leaf, const json_t *operation, struct error *err)
{
    struct buffer OWNED_BUFFER key = BUFFER(KEY_MAX);
    json_t *row = NULL;

    TRY(buffer_format(&key, err, "%s\n%s\n", json_text_of(operation, "target_id"), json_text_of(operation, "op")));
    TRY(json_write_canonical(&key, json_object_get(operation, "target"), err));
    TRY(residency_row(residency, TABLE_PLACES, buffer_text(&key), &row, err));
    if (json_object_size(row) == 0) {
        TRY(residency_put_text(row, "region", json_text_of(operation, "target_id"), err));
        TRY(residency_put_text(row, "operation", json_text_of(operation, "op"), err));
        TRY(residency_put(row, "facts", json_deep_copy(json_object_get(operation, "target")), err));
    }
    return residency_count(row, leaf, err);
}

static struct result count_reader(struct residency *residency, const struct leaf *leaf, const struct leaf_target *target,
                                  const json_t *operation, struct error *err)
{
    struct buffer OWNED_BUFFER key = BUFFER(KEY_MAX);
    const int length = (int)name_length(target);
    json_t *row = NULL;

    TRY(buffer_format(&key, err, "%s\n%.*s\n%s\n%s\n", leaf->actor, length, target->resource, json_text_of(operation, "op"),
                      json_text_of(operation, "target_id")));
    TRY(json_write_canonical(&key, json_object_get(operation, "target"), err));
    TRY(residency_row(residency, TABLE_READERS, buffer_text(&key), &row, err));
    if (json_object_size(row) == 0) {
        TRY(residency_put_text(row, "reader", leaf->actor, err));
        TRY(residency_put(row, "repository", json_sprintf("%.*s", length, target->resource), err));
        TRY(residency_put_text(row, "operation", json_text_of(operation, "op"), err));
        TRY(residency_put_text(row, "network", json_text_of(operation, "target_id"), err));
        TRY(residency_put(row, "facts", json_deep_copy(json_object_get(operation, "target")), err));
    }
    return residency_count(row, leaf, err);
}

static bool is_of_client(const char *operation)
{
    return strcmp(operation, "read") == 0 || strcmp(operation, "stat") == 0 || strcmp(operation, "list") == 0;
}

static struct result take_label(struct residency *residency, const struct leaf *leaf, const struct leaf_target *target,
                                const json_t *label, struct error *err)
{
    json_t *row = NULL;
    char name[LEAF_NAME_MAX + 1];

    if (!json_is_object(label)) return SUCCESS;
    (void)snprintf(name, sizeof name, "%.*s", (int)name_length(target), target->resource);
    TRY(residency_row(residency, TABLE_LABELS, name, &row, err));
    if (json_equal(json_object_get(row, "label"), label)) return SUCCESS;
    TRY(residency_put_text(row, "name", name, err));
    TRY(residency_put(row, "label", json_deep_copy(label), err));
    TRY(residency_put(row, "since", json_integer((json_int_t)leaf->sequence), err));
    return residency_put_time(row, "since_at", leaf->time_ms, err);
}

static void note_difference(struct residency_findings *findings, const struct leaf *leaf, const char *what)
{
    if (findings->differ++ > 0) return;
    findings->first = leaf->sequence;
    (void)snprintf(findings->what, sizeof findings->what, "%s", what);
    terminal_sanitize(findings->what);
}

/* The number of the only exception that was used: "use 3 of ID". 0: several were. */
static uint64_t use_number(const struct leaf *leaf)
{
    struct bytes rest = bytes_of_text(leaf->reason.note);
    uint64_t number = 0;

    if (!bytes_equal(text_cut(&rest, ' '), bytes_of_text("use"))) return 0;
    return text_to_u64(text_cut(&rest, ' '), INT64_MAX, &number) ? number : 0;
}

/* All uses of an exception are events of its project, in the order in which they were counted: a number that does not grow was given twice. */
static struct result count_use(struct residency *residency, const struct leaf *leaf, const json_t *used, struct error *err)
{
    const char *key = json_text_of(used, "exception");
    const uint64_t number = use_number(leaf);
    json_t *known = key == NULL ? NULL : json_object_get(residency->uses, key);

    if (key == NULL) return SUCCESS;
    if (known == NULL) {
        known = json_pack("{s:i, s:i, s:i}", "count", 0, "last", 0, "event", -1);
        if (json_object_set_new(residency->uses, key, known) != 0) return residency_no_memory(err);
    }
    if (json_integer_value(json_object_get(known, "event")) == (json_int_t)leaf->sequence)
        return SUCCESS; /* for another operation */
    if (number > 0 && (json_int_t)number <= json_integer_value(json_object_get(known, "last")))
        note_difference(&residency->findings, leaf, "the number of this use of an exception was given to an event before");
    if (number > 0) TRY(residency_put(known, "last", json_integer((json_int_t)number), err));
    TRY(residency_put(known, "event", json_integer((json_int_t)leaf->sequence), err));
    return residency_put(known, "count", json_integer(json_integer_value(json_object_get(known, "count")) + 1), err);
}

static struct result count_uses(struct residency *residency, const struct leaf *leaf, const json_t *entry, struct error *err)
{
    const json_t *used = NULL;
    size_t i = 0;

    if (strncmp(leaf->reason.note, "use", 3) != 0) return SUCCESS; /* a later decision of a request that was counted */
    json_array_foreach (json_object_get(entry, "used"), i, used) TRY(count_use(residency, leaf, used, err));
    return SUCCESS;
}

static struct result take_entry(struct residency *residency, const struct leaf *leaf, const struct leaf_target *target,
                                const json_t *entry, struct error *err)
{
    const json_t *operations = json_object_get(entry, "operations"), *operation = NULL;
    const char *project = json_text_of(entry, "project");
    size_t i = 0;

    if (project != NULL && json_object_set_new(residency->projects, project, json_true()) != 0) return residency_no_memory(err);
    TRY(take_label(residency, leaf, target, json_object_get(entry, "label"), err));
    TRY(count_uses(residency, leaf, entry, err));
    json_array_foreach (operations, i, operation) {
        const char *op = json_text_of(operation, "op");
        if (op == NULL || json_text_of(operation, "target_id") == NULL || !json_is_object(json_object_get(operation, "target")))
            return failure(err, ERROR_DENIED, "the facts of event %llu have not the form of facts",
                           (unsigned long long)leaf->sequence);
        if (!is_of_client(op)) TRY(count_place(residency, leaf, operation, err));
        else if (residency_is_in_period(residency, leaf)) TRY(count_reader(residency, leaf, target, operation, err));
    }
    return SUCCESS;
}

/* Facts of a target outside of the project, such as the source of a mount, are of another project's places. */
static bool is_of_project(const struct residency *residency, const struct leaf_target *target)
{
    const size_t length = strlen(residency->project);

    return strncmp(target->resource, residency->project, length) == 0 &&
           (target->resource[length] == '\0' || target->resource[length] == '/' || target->resource[length] == '#');
}

static struct result take_facts(struct residency *residency, const struct leaf *leaf, size_t target, struct error *err)
{
    char hex[2 * LEAF_FACTS_DIGEST + 1];
    const json_t *entry = NULL;
    size_t i = 0;

    if (target >= leaf->facts_count || !is_of_project(residency, &leaf->targets[target])) return SUCCESS;
    text_hex(leaf->facts[target], LEAF_FACTS_DIGEST, hex);
    const json_t *judged = json_object_get(json_object_get(residency->facts, hex), "judged");
    json_array_foreach (judged, i, entry) TRY(take_entry(residency, leaf, &leaf->targets[target], entry, err));
    return SUCCESS;
}

static struct result count_other_refusal(struct residency *residency, const struct leaf *leaf, struct error *err)
{
    struct buffer OWNED_BUFFER key = BUFFER(KEY_MAX);
    json_t *row = NULL;

    TRY(buffer_format(&key, err, "%s\n*", leaf->targets[0].action));
    TRY(residency_row(residency, TABLE_REFUSALS, buffer_text(&key), &row, err));
    if (json_object_size(row) == 0) {
        TRY(residency_put(row, "rules", json_array(), err));
        TRY(residency_put_text(row, "action", leaf->targets[0].action, err));
        TRY(residency_put(row, "name", json_sprintf("%s/*", residency->project), err));
    }
    return residency_count(row, leaf, err);
}

static struct result count_refusal(struct residency *residency, const struct leaf *leaf, struct error *err)
{
    const json_t *found = residency->found[TABLE_REFUSALS];
    struct buffer OWNED_BUFFER key = BUFFER(KEY_MAX);
    const int length = (int)name_length(&leaf->targets[0]);
    json_t *row = NULL;

    if (!residency_is_in_period(residency, leaf)) return SUCCESS;
    TRY(buffer_format(&key, err, "%s\n%.*s", leaf->targets[0].action, length, leaf->targets[0].resource));
    for (size_t i = 0; i < leaf->reason.rule_count; i++) TRY(buffer_format(&key, err, "\n%s", leaf->reason.rules[i]));
    if (json_object_size(found) >= REFUSALS_MAX && json_object_get(found, buffer_text(&key)) == NULL)
        return count_other_refusal(residency, leaf, err);
    TRY(residency_row(residency, TABLE_REFUSALS, buffer_text(&key), &row, err));
    if (json_object_size(row) == 0) {
        json_t *rules = json_array();
        for (size_t i = 0; rules != NULL && i < leaf->reason.rule_count; i++)
            if (json_array_append_new(rules, json_string(leaf->reason.rules[i])) != 0) break;
        const bool is_whole = json_array_size(rules) == leaf->reason.rule_count;
        TRY(residency_put(row, "rules", rules, err));
        if (!is_whole) return residency_no_memory(err);
        TRY(residency_put_text(row, "action", leaf->targets[0].action, err));
        TRY(residency_put(row, "name", json_sprintf("%.*s", length, leaf->targets[0].resource), err));
    }
    return residency_count(row, leaf, err);
}

/* The set under which something was decided. */
static struct result count_set(struct residency *residency, const struct leaf *leaf, struct error *err)
{
    json_t *row = NULL;

    if (leaf->reason.policy[0] == '\0') return SUCCESS;
    TRY(residency_row(residency, TABLE_SETS, leaf->reason.policy, &row, err));
    TRY(residency_put_text(row, "digest", leaf->reason.policy, err));
    return residency_count(row, leaf, err);
}

void residency_take_closing(struct residency *residency, const struct leaf *leaf)
{
    memcpy(residency->closing_set, leaf->reason.policy, sizeof residency->closing_set);
}

struct result residency_take_event(struct residency *residency, const struct leaf *leaf, struct error *err)
{
    residency->last_ms = leaf->time_ms;
    TRY(replay(residency, leaf, err));
    TRY(count_set(residency, leaf, err));
    if (strcmp(leaf->outcome, "denied") == 0) return count_refusal(residency, leaf, err);
    TRY(residency_take_content(residency, leaf, err));
    for (size_t i = 0; i < leaf->target_count && strcmp(leaf->outcome, "allowed") == 0; i++)
        TRY(take_facts(residency, leaf, i, err));
    return SUCCESS;
}
