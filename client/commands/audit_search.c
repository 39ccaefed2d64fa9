/* `sijil audit search`: events that meet all conditions, and the pages of such a search. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"
#include "client/commands/audit_priv.h"
#include "client/commands/commands_priv.h"
#include "client/terminal.h"

#define MOST_DEFAULT 100
#define PAGE         1000
#define UNTIL_MAX    ((uint64_t)1 << 53)

/* The options that are parameters of the same name. */
const struct audit_condition audit_conditions[AUDIT_CONDITIONS] = {
    {'a', "actor"},   {'A', "action"},  {'r', "resource"}, {'P', "prefix"}, {'d', "digest"},   {'t', "tag"},
    {'o', "outcome"}, {'R', "rule"},    {'g', "region"},   {'x', "run"},    {'D', "decision"}, {'q', "request"},
    {'e', "detail"},  {'c', "country"}, {'i', "address"},  {'N', "network"}};

struct result audit_add_parameter(struct buffer *path, const char *name, const char *value, struct error *err)
{
    TRY(buffer_format(path, err, "&%s=", name));
    return http_escape(path, value, err);
}

/* "2026-11-20" is the beginning of that day where the reader is. */
static bool read_day(const char *value, int64_t *wall_ms_out)
{
    struct tm day = {.tm_isdst = -1};
    const char *rest = strlen(value) == strlen("2026-11-20") ? strptime(value, "%Y-%m-%d", &day) : NULL;
    const time_t seconds = rest == NULL || *rest != '\0' ? -1 : mktime(&day);

    *wall_ms_out = (int64_t)seconds * 1000;
    return seconds >= 0;
}

/* A number is one of an entry, where a command takes that, too. */
static struct result given_time(const char *value, struct buffer *text, struct error *err)
{
    const struct bytes given = bytes_of_text(value);
    char time_text[CLOCK_TEXT_SIZE];
    int64_t wall_ms = 0;

    if (clock_parse(given, &wall_ms) || text_consists_of(given, "0123456789"))
        return buffer_add(text, given.data, given.length, err);
    if (!read_day(value, &wall_ms))
        return failure(
            err, ERROR_INVALID,
            "'%.40s' is no time: 2026-11-20T10:39:46Z (RFC 3339), 2026-11-20 (a day in your time zone), or 7d, 12h, 30m ago",
            value);
    clock_format(wall_ms, time_text);
    return buffer_add_text(text, time_text, err);
}

struct result audit_time_of(const char *value, struct buffer *text, struct error *err)
{
    static const char units[] = "mhd";
    static const int64_t lengths_ms[] = {60000, 3600000, 86400000};
    char time_text[CLOCK_TEXT_SIZE];
    uint64_t number = 0;

    if (value == NULL) return SUCCESS;
    const size_t length = strlen(value);
    const char *unit = length < 2 ? NULL : strchr(units, value[length - 1]);
    if (unit == NULL || !text_to_u64((struct bytes){(const uint8_t *)value, length - 1}, 1000000, &number))
        return given_time(value, text, err);
    clock_format(clock_wall_ms() - (int64_t)number * lengths_ms[unit - units], time_text);
    return buffer_add_text(text, time_text, err);
}

struct result audit_check_times(const struct invocation *invocation, const char *letters, struct error *err)
{
    for (; *letters != '\0'; letters++) {
        struct buffer OWNED_BUFFER ignored = BUFFER(512);
        TRY(audit_time_of(invocation_option(invocation, *letters), &ignored, err));
    }
    return SUCCESS;
}

static struct result add_time(const struct invocation *invocation, int letter, const char *name, struct buffer *path,
                              struct error *err)
{
    struct buffer OWNED_BUFFER value = BUFFER(4096);

    TRY(audit_time_of(invocation_option(invocation, letter), &value, err));
    return value.length == 0 ? SUCCESS : audit_add_parameter(path, name, buffer_text(&value), err);
}

/* Those of `rows` that the command line has. */
static struct result add_given(const struct invocation *invocation, const struct audit_condition *rows, size_t count,
                               struct buffer *path, struct error *err)
{
    for (size_t i = 0; i < count; i++) {
        const char *value = invocation_option(invocation, rows[i].letter);
        if (value != NULL) TRY(audit_add_parameter(path, rows[i].name, value, err));
    }
    return SUCCESS;
}

static struct result search_path(const struct invocation *invocation, const char *what, struct buffer *path, struct error *err)
{
    static const struct audit_condition further[] = {{'k', "key"}, {'p', "purpose"}, {'w', "within"}};

    TRY(buffer_format(path, err, "/audit/%s?order=%s", what,
                      invocation_option(invocation, 'O') == NULL ? "descending" : "ascending"));
    TRY(add_given(invocation, audit_conditions, AUDIT_CONDITIONS, path, err));
    TRY(add_given(invocation, further, sizeof further / sizeof further[0], path, err));
    TRY(add_time(invocation, 's', "since", path, err));
    return add_time(invocation, 'u', "until", path, err);
}

static void show_progress(uint64_t events, const json_t *answer)
{
    terminal_progress("%" PRIu64 " events; searched to %" PRId64 " of %" PRId64, events, number_of(answer, "searched_to"),
                      number_of(answer, "known_to"));
}

static struct result visit_counts(const json_t *answer, const struct audit_visitor *visitor, struct audit_searched *searched,
                                  struct error *err)
{
    const json_t *counts = json_object_get(answer, "counts");

    terminal_progress_end();
    if (!json_is_array(counts)) return failure(err, ERROR_INVALID, "the registry answered without 'counts'");
    for (size_t i = 0; i < json_array_size(counts); i++) TRY(visitor->visit(visitor->context, json_array_get(counts, i), err));
    searched->events += (uint64_t)number_of(answer, "events");
    return SUCCESS;
}

static struct result visit_page(const json_t *answer, uint64_t most, const struct audit_visitor *visitor,
                                struct audit_searched *searched, struct error *err)
{
    const json_t *events = json_object_get(answer, "events");

    terminal_progress_end();
    if (!json_is_array(events)) return failure(err, ERROR_INVALID, "the registry answered without 'events'");
    for (size_t i = 0; i < json_array_size(events) && searched->events < most; i++, searched->events++)
        TRY(visitor->visit(visitor->context, json_array_get(events, i), err));
    return SUCCESS;
}

/* How far the registry searched. Going back, the first page tells: those after it are below what was known. Going forward, the last one does. */
static void note_known(bool ascending, const json_t *answer, struct audit_searched *searched)
{
    if (!ascending && searched->known < searched->wanted) return;
    searched->known = (uint64_t)number_of(answer, "known_to");
    searched->wanted = (uint64_t)number_of(answer, "wanted_to");
}

struct result audit_check_whole(const struct audit_searched *searched, struct error *err)
{
    if (searched->known >= searched->wanted) return SUCCESS;
    return failure(err, ERROR_UNAVAILABLE,
                   "this answer is not complete: the registry's index of searches has the events before number %" PRIu64
                   " of %" PRIu64 " yet. Ask again in some minutes",
                   searched->known, searched->wanted);
}

static bool read_place(const json_t *next, uint64_t *place_out)
{
    return json_is_string(next) && text_to_u64(bytes_of_text(json_string_value(next)), INT64_MAX, place_out);
}

/* The place to go on at, which must be another one each time: a false registry could otherwise keep this program for ever. */
static struct result next_page_of(bool ascending, const json_t *answer, json_t **next, struct error *err)
{
    const json_t *found = json_object_get(answer, "next");
    uint64_t before = 0, after = 0;

    if (found != NULL && *next != NULL) {
        const bool are_numbers = read_place(found, &after) && read_place(*next, &before);
        if (!are_numbers || (ascending ? after <= before : after >= before))
            return failure(err, ERROR_INVALID, "the registry's pages go round in a circle");
    }
    json_decref(*next);
    *next = json_incref((json_t *)(uintptr_t)found);
    return SUCCESS;
}

/* Only searches of a command have a limit; `most` is then the number of events that are wanted. */
static struct result fetch_pages(struct invocation *invocation, struct session *session, const struct audit_query *query,
                                 const struct audit_visitor *visitor, struct audit_searched *searched, struct error *err)
{
    const uint64_t most = query->most == 0 ? UINT64_MAX : query->most;
    OWNED_JSON next = NULL;

    while (searched->events < most) {
        OWNED_JSON answer = NULL;
        struct buffer OWNED_BUFFER path = BUFFER(16384);
        const uint64_t left = most - searched->events;
        TRY(buffer_add_text(&path, query->path, err));
        if (!query->counts) TRY(buffer_format(&path, err, "&limit=%u", left < PAGE ? (unsigned)left : PAGE));
        TRY(api_add_after(&path, next, err));
        TRY(audit_advised(invocation, session, api_call_in(session, "GET", buffer_text(&path), NULL, &answer, err), err));
        note_known(query->is_ascending, answer, searched);
        if (query->counts) TRY(visit_counts(answer, visitor, searched, err));
        else TRY(visit_page(answer, most, visitor, searched, err));
        TRY(next_page_of(query->is_ascending, answer, &next, err));
        searched->is_whole = next == NULL;
        if (next == NULL) return SUCCESS;
        if (searched->events < most) show_progress(searched->events, answer);
    }
    return SUCCESS;
}

struct result audit_fetch_events(struct invocation *invocation, struct session *session, const struct audit_query *query,
                                 const struct audit_visitor *visitor, struct audit_searched *searched_out, struct error *err)
{
    struct audit_searched searched = {.events = 0};
    const struct result fetched = fetch_pages(invocation, session, query, visitor, &searched, err);

    terminal_progress_end();
    TRY(fetched);
    if (query->is_ascending && !searched.is_whole)
        searched.wanted = searched.known; /* what is left out is behind what was asked for */
    *searched_out = searched;
    return SUCCESS;
}

struct result audit_search_counts(struct invocation *invocation, const char *by, const struct audit_visitor *visitor,
                                  struct audit_searched *searched_out, struct error *err)
{
    struct buffer OWNED_BUFFER path = BUFFER(16384);
    OWNED(session) *session = NULL;

    TRY(line_check(invocation, search_path(invocation, "counts", &path, err)));
    TRY(audit_add_parameter(&path, "by", by, err));
    TRY(command_session(invocation, invocation->operands[0], &session, err));
    const struct audit_query query = {
        .path = buffer_text(&path), .is_ascending = invocation_option(invocation, 'O') != NULL, .counts = true};
    return audit_fetch_events(invocation, session, &query, visitor, searched_out, err);
}

/* ---- one line for each event ---- */

void audit_time_text(int64_t wall_ms, char text_out[AUDIT_TIME_SIZE])
{
    const time_t seconds = (time_t)(wall_ms / 1000);
    char day[24], zone[8];
    struct tm tm;

    (void)snprintf(text_out, AUDIT_TIME_SIZE, "%" PRId64, wall_ms);
    if (wall_ms < 0 || localtime_r(&seconds, &tm) == NULL || strftime(day, sizeof day, "%Y-%m-%d %H:%M:%S", &tm) == 0) return;
    if (strftime(zone, sizeof zone, "%z", &tm) == 0) return;
    (void)snprintf(text_out, AUDIT_TIME_SIZE, "%s.%03d %s", day, (int)(wall_ms % 1000), zone);
}

struct line {
    char time_text[AUDIT_TIME_SIZE], outcome[CELL_MAX], action[CELL_MAX], resource[CELL_MAX], actor[CELL_MAX], address[CELL_MAX];
    char rules[CELL_MAX];
    int64_t sequence;
};

/* The name of the actor if it is known, else its pseudonym. */
static void read_line(const json_t *event, struct line *line_out)
{
    const json_t *entry = json_object_get(event, "entry"), *who = json_object_get(event, "who");
    const json_t *subject = json_object_get(who, "subject");

    line_out->sequence = number_of(event, "seq");
    audit_time_text(number_of(entry, "ts"), line_out->time_text);
    cell_text(json_object_get(entry, "out"), line_out->outcome);
    cell_text(json_object_get(entry, "act"), line_out->action);
    cell_text(json_object_get(entry, "res"), line_out->resource);
    cell_text(subject != NULL ? subject : json_object_get(entry, "actor"), line_out->actor);
    cell_text(json_object_get(who, "address"), line_out->address);
    audit_rules_text(entry, line_out->rules);
}

struct table {
    bool has_title, with_reasons;
    bool is_narrow; /* two lines for each event: one of them would not fit the terminal */
};

static void print_columns(const struct table *table, const char *sequence, const struct line *line)
{
    (void)printf("%8s  %-29s  %-9s  ", sequence, line->time_text, line->outcome);
    if (table->is_narrow)
        (void)printf("%s\n          %s  %s  %s  %s\n", line->action, line->resource, line->actor, line->address, line->rules);
    else (void)printf("%-18s  %-40s  %-24s  %-15s  %s\n", line->action, line->resource, line->actor, line->address, line->rules);
}

static struct result print_line(void *context, const json_t *event, struct error *err)
{
    static const struct line titles = {"TIME", "OUTCOME", "ACTION", "RESOURCE", "ACTOR", "ADDRESS", "RULES", 0};
    struct line line;
    struct table *table = context;
    char sequence[24];

    (void)err;
    read_line(event, &line);
    (void)snprintf(sequence, sizeof sequence, "%" PRId64, line.sequence);
    if (!table->has_title) print_columns(table, "SEQ", &titles);
    table->has_title = true;
    print_columns(table, sequence, &line);
    if (table->with_reasons) audit_print_denials(event, "          ");
    return SUCCESS;
}

void audit_print_csv_titles(void)
{
    (void)printf("seq,time,outcome,action,resource,region,actor,address,rules,decision\r\n");
}

void audit_print_csv_event(const json_t *event)
{
    const json_t *entry = json_object_get(event, "entry");
    char utc[CLOCK_TEXT_SIZE], number[24], region[CELL_MAX], decision[CELL_MAX];
    struct line line;

    read_line(event, &line);
    clock_format(number_of(entry, "ts"), utc);
    (void)snprintf(number, sizeof number, "%" PRId64, line.sequence);
    cell_text(json_object_get(entry, "rgn"), region);
    cell_text(json_object_get(json_object_get(entry, "why"), "id"), decision);
    const char *const cells[] = {number, utc,        line.outcome, line.action, line.resource,
                                 region, line.actor, line.address, line.rules,  decision};
    audit_print_csv(cells, sizeof cells / sizeof cells[0]);
}

static void print_csv_title(struct table *table)
{
    if (!table->has_title) audit_print_csv_titles();
    table->has_title = true;
}

static struct result print_csv(void *context, const json_t *event, struct error *err)
{
    (void)err;
    print_csv_title(context);
    audit_print_csv_event(event);
    return SUCCESS;
}

static struct result print_json(void *context, const json_t *event, struct error *err)
{
    (void)context;
    return api_print_json(event, err);
}

/* A person must see that there is more, and that there is nothing. */
static void tell_rest(const struct invocation *invocation, const struct audit_searched *searched)
{
    if (!searched->is_whole) (void)fprintf(stderr, "There are more events: --lines shows more of them.\n");
    if (!searched->is_whole || searched->events > 0 || searched->known < searched->wanted) return;
    (void)fprintf(stderr, "No event meets these conditions.\n");
    if (invocation_option(invocation, 'a') != NULL) /* a name that nobody has gives the same answer */
        (void)fprintf(
            stderr, "Is the actor spelt as in the log? `sijil audit actors` shows the names and pseudonyms that have events.\n");
}

static struct result lines_of(const struct invocation *invocation, uint64_t *most, struct error *err)
{
    const char *text = invocation_option(invocation, 'n');

    if (text == NULL) return SUCCESS;
    if (strcmp(text, "all") == 0) *most = UNTIL_MAX;
    else if (!text_to_u64(bytes_of_text(text), UNTIL_MAX, most) || *most == 0)
        return failure(err, ERROR_INVALID, "--lines %.20s: a whole number from 1 on, or all", text);
    return SUCCESS;
}

struct result audit_show_events(struct invocation *invocation, struct session *session, const struct audit_query *query,
                                struct error *err)
{
    struct table table = {.with_reasons = invocation_option(invocation, 'y') != NULL,
                          .is_narrow = terminal_is_narrow(AUDIT_WIDE)};
    const bool is_csv = invocation_option(invocation, 'C') != NULL;
    const struct audit_visitor visitor = {invocation->json ? print_json : is_csv ? print_csv : print_line, &table};
    struct audit_searched searched;

    TRY(audit_fetch_events(invocation, session, query, &visitor, &searched, err));
    if (is_csv && !invocation->json) print_csv_title(&table);
    tell_rest(invocation, &searched);
    return audit_check_whole(&searched, err);
}

struct result audit_check_lines(const struct invocation *invocation, uint64_t *most, struct error *err)
{
    *most = MOST_DEFAULT;
    TRY(lines_of(invocation, most, err));
    return audit_check_form(invocation, err);
}

/* "actor=alice&since=7d": without the purpose, which each search states anew. Times stay as they were given. */
static struct result conditions_text(const struct invocation *invocation, struct buffer *text, struct error *err)
{
    static const struct audit_condition further[] = {{'k', "key"}, {'s', "since"}, {'u', "until"}};

    TRY(add_given(invocation, audit_conditions, AUDIT_CONDITIONS, text, err));
    return add_given(invocation, further, sizeof further / sizeof further[0], text, err);
}

static struct result save(const struct invocation *invocation, struct session *session, const char *name, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(16384);

    TRY(conditions_text(invocation, &text, err));
    if (text.length == 0) return failure(err, ERROR_INVALID, "--save: the search has no condition");
    OWNED_JSON body = json_pack("{s:s, s:s, s:s*}", "name", name, "search", buffer_text(&text) + 1, "within",
                                invocation_option(invocation, 'w'));
    if (body == NULL) return failure(err, ERROR_INVALID, "the name of the search is not UTF-8");
    return api_call_in(session, "POST", "/audit/searches", body, NULL, err);
}

struct result command_audit_search(struct invocation *invocation, struct error *err)
{
    const char *name = invocation_option(invocation, 'S');
    struct buffer OWNED_BUFFER path = BUFFER(16384);
    OWNED(session) *session = NULL;
    uint64_t most = 0;

    TRY(line_check(invocation, audit_check_lines(invocation, &most, err)));
    TRY(line_check(invocation, search_path(invocation, "events", &path, err)));
    TRY(command_session(invocation, invocation->operands[0], &session, err));
    if (name != NULL) TRY(audit_advised(invocation, session, save(invocation, session, name, err), err));
    const struct audit_query query = {buffer_text(&path), invocation_option(invocation, 'O') != NULL, most, false};
    return audit_show_events(invocation, session, &query, err);
}
