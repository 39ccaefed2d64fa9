/* `sijil audit stats`, `actors` and `timeline`: counts over all events that a search finds. The registry counts; the rows of its answers are added up here. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/memory.h"
#include "client/commands/audit_priv.h"
#include "client/commands/commands_priv.h"

#define GROUPS_MAX 100000 /* of one table: they are in memory */

/* Rows by their name, in the order in which they came: {"name":..., "events":n, "denied":n, "first":ms, "last":ms, ...} */
struct groups {
    const char *by; /* that the registry counts by */
    json_t *by_name;
    json_t *rules;
    struct audit_searched searched;
    bool in_utc;                                                                 /* CSV: another program reads the times */
    enum step { STEP_MINUTE, STEP_HOUR, STEP_DAY, STEP_MONTH, STEP_COUNT } step; /* of `timeline` */
};

static struct result group_of(json_t *groups, const char *name, json_t **group_out, struct error *err)
{
    json_t *group = json_object_get(groups, name);

    if (group == NULL) {
        if (json_object_size(groups) == GROUPS_MAX)
            return failure(err, ERROR_LIMIT, "more than %d rows: search for less, with --since and --until", GROUPS_MAX);
        group = json_pack("{s:s}", "name", name);
        if (group == NULL || json_object_set_new(groups, name, group) != 0)
            return failure(err, ERROR_NO_MEMORY, "no memory for rows");
    }
    *group_out = group;
    return SUCCESS;
}

static struct result add_counts(json_t *group, const json_t *row, struct error *err)
{
    static const char *const counts[] = {"allowed", "denied", "failed", "completed", "events"};

    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        const json_int_t sum = (json_int_t)number_of(group, counts[i]) + (json_int_t)number_of(row, counts[i]);
        if (json_object_set_new(group, counts[i], json_integer(sum)) != 0)
            return failure(err, ERROR_NO_MEMORY, "no memory for rows");
    }
    return SUCCESS;
}

static struct result add_row(json_t *groups, const char *name, const json_t *row, struct error *err)
{
    json_t *group = NULL;

    TRY(group_of(groups, name, &group, err));
    return add_counts(group, row, err);
}

/* ---- stats ---- */

static struct result visit_stats(void *context, const json_t *row, struct error *err)
{
    const struct groups *groups = context;
    const char *by = json_text_of(row, "by"), *name = json_text_of(row, "name");

    if (by == NULL || name == NULL) return SUCCESS;
    return add_row(strcmp(by, "rule") == 0 ? groups->rules : groups->by_name, name, row, err);
}

static int by_events(const void *a, const void *b)
{
    const int64_t first = number_of(*(json_t *const *)a, "events"), second = number_of(*(json_t *const *)b, "events");

    if (first != second) return first > second ? -1 : 1;
    const char *one = json_text_of(*(json_t *const *)a, "name"), *other = json_text_of(*(json_t *const *)b, "name");
    return strcmp(one == NULL ? "" : one, other == NULL ? "" : other);
}

/* The rows as an array, those with the most events first, or in the order of their names (which are times). */
static struct result rows_of(json_t *groups, bool sorts, json_t **rows_out, struct error *err)
{
    OWNED_JSON rows = json_array();
    const size_t size = json_object_size(groups);
    json_t **list = memory_zeroed(size + 1, sizeof *list);
    const char *name;
    json_t *group;
    size_t i = 0;
    bool is_good = rows != NULL && list != NULL;

    if (list != NULL)
        json_object_foreach (groups, name, group) list[i++] = group;
    if (list != NULL && sorts) qsort(list, size, sizeof(json_t *), by_events);
    for (i = 0; is_good && i < size; i++) is_good = json_array_append(rows, list[i]) == 0;
    free(list);
    if (!is_good) return failure(err, ERROR_NO_MEMORY, "no memory for rows");
    *rows_out = GIVE(rows);
    return SUCCESS;
}

/* As a table, as JSON, or as CSV. */
static struct result print_counts(const struct invocation *invocation, const json_t *rows, const struct column *columns,
                                  size_t count, struct error *err)
{
    if (invocation_option(invocation, 'C') == NULL) return api_print_rows(invocation, rows, columns, count, err);
    audit_print_csv_rows(rows, columns, count);
    return SUCCESS;
}

static struct result check_form(struct invocation *invocation, struct error *err)
{
    return line_check(invocation, audit_check_form(invocation, err));
}

static const struct column outcome_columns[] = {{"ACTION", "name"},   {"EVENTS", "events"}, {"ALLOWED", "allowed"},
                                                {"DENIED", "denied"}, {"FAILED", "failed"}, {"COMPLETED", "completed"}};
static const struct column rule_columns[] = {{"RULE", "name"}, {"DENIALS", "events"}};
#define COLUMNS(columns) (columns), sizeof(columns) / sizeof((columns)[0])

/* Readers of CSV take one table: the rows of actions, and then those of rules. */
static struct result print_stats_csv(json_t *actions, json_t *rules, struct error *err)
{
    static const struct column columns[] = {{"KIND", "kind"},          {"NAME", "name"},     {"EVENTS", "events"},
                                            {"ALLOWED", "allowed"},    {"DENIED", "denied"}, {"FAILED", "failed"},
                                            {"COMPLETED", "completed"}};
    json_t *row;
    size_t i;
    bool is_good = true;

    json_array_foreach (actions, i, row) is_good = json_object_set_new(row, "kind", json_string("action")) == 0 && is_good;
    json_array_foreach (rules, i, row) is_good = json_object_set_new(row, "kind", json_string("rule")) == 0 && is_good;
    if (!is_good || json_array_extend(actions, rules) != 0) return failure(err, ERROR_NO_MEMORY, "no memory for rows");
    audit_print_csv_rows(actions, COLUMNS(columns));
    return SUCCESS;
}

static struct result print_stats(const struct invocation *invocation, const struct groups *groups, struct error *err)
{
    OWNED_JSON actions = NULL;
    OWNED_JSON rules = NULL;

    TRY(rows_of(groups->by_name, true, &actions, err));
    TRY(rows_of(groups->rules, true, &rules, err));
    if (invocation->json) {
        OWNED_JSON all =
            json_pack("{s:I,s:O,s:O}", "events", (json_int_t)groups->searched.events, "actions", actions, "rules", rules);
        return all == NULL ? failure(err, ERROR_NO_MEMORY, "no memory for an answer") : api_print_json(all, err);
    }
    if (invocation_option(invocation, 'C') != NULL) return print_stats_csv(actions, rules, err);
    (void)printf("%" PRIu64 " events\n\n", groups->searched.events);
    TRY(api_print_rows(invocation, actions, COLUMNS(outcome_columns), err));
    if (json_array_size(rules) == 0) return SUCCESS;
    (void)printf("\n");
    return api_print_rows(invocation, rules, COLUMNS(rule_columns), err);
}

static struct result gather(struct invocation *invocation, struct result (*visit)(void *, const json_t *, struct error *),
                            struct groups *groups, struct error *err)
{
    const struct audit_visitor visitor = {visit, groups};
    struct audit_searched searched;

    TRY(check_form(invocation, err));
    groups->in_utc = invocation_option(invocation, 'C') != NULL;
    if (groups->by_name == NULL || groups->rules == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for rows");
    TRY(audit_search_counts(invocation, groups->by, &visitor, &searched, err));
    groups->searched = searched;
    return SUCCESS;
}

struct result command_audit_stats(struct invocation *invocation, struct error *err)
{
    OWNED_JSON names = json_object();
    OWNED_JSON rules = json_object();
    struct groups groups = {.by = "action,rule", .by_name = names, .rules = rules};

    TRY(gather(invocation, visit_stats, &groups, err));
    TRY(print_stats(invocation, &groups, err));
    return audit_check_whole(&groups.searched, err);
}

/* ---- actors ---- */

static struct result set_time(json_t *group, const char *member, const char *in_ms, int64_t time_ms, bool in_utc,
                              struct error *err)
{
    char text[AUDIT_TIME_SIZE];

    if (in_utc) clock_format(time_ms, text);
    else audit_time_text(time_ms, text);
    if (json_object_set_new(group, in_ms, json_integer(time_ms)) == 0 &&
        json_object_set_new(group, member, json_string(text)) == 0)
        return SUCCESS;
    return failure(err, ERROR_NO_MEMORY, "no memory for rows");
}

static bool time_of(const json_t *row, const char *member, int64_t *wall_ms_out)
{
    const char *text = json_text_of(row, member);

    return text != NULL && clock_parse(bytes_of_text(text), wall_ms_out);
}

static struct result note_times(json_t *group, const json_t *row, bool in_utc, struct error *err)
{
    int64_t first_ms = 0, last_ms = 0;

    if (!time_of(row, "first", &first_ms) || !time_of(row, "last", &last_ms)) return SUCCESS;
    if (json_object_get(group, "first_ms") == NULL || first_ms < number_of(group, "first_ms"))
        TRY(set_time(group, "first", "first_ms", first_ms, in_utc, err));
    if (json_object_get(group, "last_ms") == NULL || last_ms > number_of(group, "last_ms"))
        TRY(set_time(group, "last", "last_ms", last_ms, in_utc, err));
    return SUCCESS;
}

/* By pseudonym, because two issuers may have subjects of one name. */
static struct result visit_actor(void *context, const json_t *row, struct error *err)
{
    const struct groups *groups = context;
    const char *actor = json_text_of(row, "name"), *name = json_text_of(row, "subject");
    json_t *group = NULL;

    if (actor == NULL) return SUCCESS;
    TRY(add_row(groups->by_name, actor, row, err));
    TRY(group_of(groups->by_name, actor, &group, err));
    if (name != NULL && json_object_get(group, "subject") == NULL &&
        json_object_set_new(group, "subject", json_string(name)) != 0)
        return failure(err, ERROR_NO_MEMORY, "no memory for rows");
    return note_times(group, row, groups->in_utc, err);
}

struct result command_audit_actors(struct invocation *invocation, struct error *err)
{
    static const struct column columns[] = {{"SUBJECT", "subject"}, {"EVENTS", "events"}, {"DENIED", "denied"},
                                            {"FAILED", "failed"},   {"FIRST", "first"},   {"LAST", "last"},
                                            {"PSEUDONYM", "name"}};
    OWNED_JSON names = json_object();
    OWNED_JSON rules = json_object();
    OWNED_JSON rows = NULL;
    struct groups groups = {.by = "actor", .by_name = names, .rules = rules};

    TRY(gather(invocation, visit_actor, &groups, err));
    TRY(rows_of(names, true, &rows, err));
    TRY(print_counts(invocation, rows, COLUMNS(columns), err));
    return audit_check_whole(&groups.searched, err);
}

/* ---- timeline ---- */

/* "2026-11-20 11:00 +0100", "2026-11-20" or "2026-11". */
static size_t name_step(const struct tm *tm, enum step step, char *name, size_t room)
{
    switch (step) {
    case STEP_MINUTE: return strftime(name, room, "%Y-%m-%d %H:%M %z", tm);
    case STEP_HOUR: return strftime(name, room, "%Y-%m-%d %H:00 %z", tm);
    case STEP_DAY: return strftime(name, room, "%Y-%m-%d", tm);
    case STEP_MONTH:
    case STEP_COUNT: break;
    }
    return strftime(name, room, "%Y-%m", tm);
}

static struct result visit_time(void *context, const json_t *row, struct error *err)
{
    const struct groups *groups = context;
    int64_t begin_ms = 0;
    char name[32];
    struct tm tm;

    if (!time_of(row, "name", &begin_ms)) return SUCCESS;
    const time_t seconds = (time_t)(begin_ms / 1000);
    if ((groups->in_utc ? gmtime_r(&seconds, &tm) : localtime_r(&seconds, &tm)) == NULL ||
        name_step(&tm, groups->step, name, sizeof name) == 0)
        return SUCCESS;
    return add_row(groups->by_name, name, row, err);
}

struct result command_audit_timeline(struct invocation *invocation, struct error *err)
{
    static const struct column columns[] = {{"TIME", "name"},     {"EVENTS", "events"}, {"ALLOWED", "allowed"},
                                            {"DENIED", "denied"}, {"FAILED", "failed"}, {"COMPLETED", "completed"}};
    static const char *const steps[STEP_COUNT] = {"minute", "hour", "day", "month"};
    const char *step = invocation_option(invocation, 'b');
    OWNED_JSON names = json_object();
    OWNED_JSON rules = json_object();
    OWNED_JSON rows = NULL;
    struct groups groups = {.by = "quarter", .by_name = names, .rules = rules};

    while (groups.step < STEP_COUNT && strcmp(step == NULL ? "hour" : step, steps[groups.step]) != 0) groups.step++;
    if (groups.step == STEP_COUNT)
        return line_check(invocation, failure(err, ERROR_INVALID, "--by is minute, hour, day or month"));
    if (groups.step == STEP_MINUTE) groups.by = "minute";
    TRY(gather(invocation, visit_time, &groups, err));
    TRY(rows_of(names, false, &rows, err));
    TRY(print_counts(invocation, rows, COLUMNS(columns), err));
    return audit_check_whole(&groups.searched, err);
}
