/* `sijil audit subject`: a person's own copy of what is held about it (docs/audit.md). */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"
#include "client/commands/audit_priv.h"
#include "client/commands/commands_priv.h"
#include "client/terminal.h"

#define LIMIT        1000
#define PATH_ROOM    256
#define SUBJECT_WIDE 145 /* columns of a line with short names */

struct copy {
    const struct invocation *invocation;
    struct session *session;
    bool is_csv, has_title;
    bool is_narrow;  /* two lines for each event */
    uint64_t events; /* so far */
};

static void print_csv_title(struct copy *copy)
{
    if (!copy->has_title) (void)printf("seq,time,outcome,action,resource,address,agent\r\n");
    copy->has_title = true;
}

static struct result print_csv(struct copy *copy, const json_t *event, struct error *err)
{
    const json_t *entry = json_object_get(event, "entry"), *who = json_object_get(event, "who");
    char utc[CLOCK_TEXT_SIZE], number[24], outcome[CELL_MAX], action[CELL_MAX], resource[CELL_MAX], address[CELL_MAX];
    char agent[CELL_MAX];

    (void)err;
    print_csv_title(copy);
    clock_format(number_of(entry, "ts"), utc);
    (void)snprintf(number, sizeof number, "%" PRId64, number_of(event, "seq"));
    cell_text(json_object_get(entry, "out"), outcome);
    cell_text(json_object_get(entry, "act"), action);
    cell_text(json_object_get(entry, "res"), resource);
    cell_text(json_object_get(who, "address"), address);
    cell_text(json_object_get(who, "agent"), agent);
    const char *const cells[] = {number, utc, outcome, action, resource, address, agent};
    audit_print_csv(cells, sizeof cells / sizeof cells[0]);
    return SUCCESS;
}

static void print_columns(const struct copy *copy, const char *sequence, const char *time, const char *const cells[4])
{
    (void)printf("%8s  %-29s  %-9s  ", sequence, time, cells[0]);
    if (copy->is_narrow) (void)printf("%s\n          %s  %s\n", cells[1], cells[2], cells[3]);
    else (void)printf("%-18s  %-60s  %s\n", cells[1], cells[2], cells[3]);
}

static struct result print_line(struct copy *copy, const json_t *event, struct error *err)
{
    static const char *const titles[4] = {"OUTCOME", "ACTION", "RESOURCE", "ADDRESS"};
    const json_t *entry = json_object_get(event, "entry"), *who = json_object_get(event, "who");
    char sequence[24], time_text[AUDIT_TIME_SIZE], outcome[CELL_MAX], action[CELL_MAX], resource[CELL_MAX], address[CELL_MAX];
    const char *const cells[4] = {outcome, action, resource, address};

    (void)err;
    if (!copy->has_title) print_columns(copy, "SEQ", "TIME", titles);
    copy->has_title = true;
    audit_time_text(number_of(entry, "ts"), time_text);
    cell_text(json_object_get(entry, "out"), outcome);
    cell_text(json_object_get(entry, "act"), action);
    cell_text(json_object_get(entry, "res"), resource);
    cell_text(json_object_get(who, "address"), address);
    (void)snprintf(sequence, sizeof sequence, "%" PRId64, number_of(event, "seq"));
    print_columns(copy, sequence, time_text, cells);
    return SUCCESS;
}

static struct result print_page(struct copy *copy, const json_t *answer, struct error *err)
{
    const json_t *events = json_object_get(answer, "events");

    terminal_progress_end();
    if (!json_is_array(events)) return failure(err, ERROR_INVALID, "the registry answered without 'events'");
    for (size_t i = 0; i < json_array_size(events); i++) {
        const json_t *event = json_array_get(events, i);
        copy->events++;
        if (copy->invocation->json) TRY(api_print_json(event, err));
        else TRY(copy->is_csv ? print_csv(copy, event, err) : print_line(copy, event, err));
    }
    return SUCCESS;
}

static void show_progress(const struct copy *copy, const json_t *answer)
{
    terminal_progress("%" PRIu64 " of %" PRId64 " events", copy->events, number_of(answer, "total"));
}

/* On standard error, or as a last line of JSON: the events alone are on standard output. */
static struct result tell_rest(struct copy *copy, const json_t *answer, struct error *err)
{
    const json_t *held = json_object_get(answer, "held");
    OWNED_JSON rest = json_pack("{s:O?, s:O?, s:O?}", "pseudonym", json_object_get(answer, "pseudonym"), "total",
                                json_object_get(answer, "total"), "held", held);

    if (rest == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for an answer");
    terminal_progress_end();
    if (copy->invocation->json) return api_print_json(rest, err);
    if (copy->is_csv) print_csv_title(copy);
    (void)fprintf(stderr,
                  "%" PRId64 " events. Elsewhere: %" PRId64 " roles, %" PRId64 " ended ones, %" PRId64 " robots, %" PRId64
                  " open uploads, %" PRId64 " signed documents, %" PRId64 " given roles\n",
                  number_of(answer, "total"), number_of(held, "roles"), number_of(held, "roles_ended"), number_of(held, "robots"),
                  number_of(held, "uploads"), number_of(held, "documents"), number_of(held, "given"));
    return SUCCESS;
}

/* `after` NULL: the first page. */
static struct result fetch_own(const struct copy *copy, const char *after, json_t **answer_out, struct error *err)
{
    struct buffer OWNED_BUFFER path = BUFFER(PATH_ROOM);

    TRY(buffer_format(&path, err, "/self/events?limit=%d", LIMIT));
    if (after != NULL) TRY(audit_add_parameter(&path, "after", after, err));
    return api_call_in(copy->session, "GET", buffer_text(&path), NULL, answer_out, err);
}

static struct result fetch_of(const struct copy *copy, const char *after, json_t **answer_out, struct error *err)
{
    const struct invocation *invocation = copy->invocation;
    OWNED_JSON body = json_pack("{s:s, s:s*, s:s*, s:s*, s:i}", "subject", invocation->operands[1], "issuer",
                                invocation_option(invocation, 'i'), "purpose", invocation_option(invocation, 'p'), "after", after,
                                "limit", LIMIT);

    if (body == NULL) return failure(err, ERROR_INVALID, "the name is not UTF-8");
    return api_call_in(copy->session, "POST", "/audit/subjects", body, answer_out, err);
}

/* Each page begins behind the one before: a false registry could otherwise keep this program for ever. */
static struct result take_next(const json_t *answer, char next[24], struct error *err)
{
    const char *found = json_text_of(answer, "next");
    uint64_t before = 0, after = 0;

    if (found == NULL) {
        next[0] = '\0';
        return SUCCESS;
    }
    const bool has_before = next[0] != '\0' && text_to_u64(bytes_of_text(next), INT64_MAX, &before);
    if (!text_to_u64(bytes_of_text(found), INT64_MAX, &after) || (has_before && after <= before) || !text_copy(next, 24, found))
        return failure(err, ERROR_INVALID, "the registry's pages go round in a circle");
    return SUCCESS;
}

static struct result show_all(struct copy *copy, bool is_own, struct error *err)
{
    char next[24] = "";

    do {
        OWNED_JSON answer = NULL;
        const char *after = next[0] == '\0' ? NULL : next;
        TRY(is_own ? fetch_own(copy, after, &answer, err) : fetch_of(copy, after, &answer, err));
        TRY(print_page(copy, answer, err));
        show_progress(copy, answer);
        TRY(take_next(answer, next, err));
        if (next[0] == '\0') TRY(tell_rest(copy, answer, err));
    } while (next[0] != '\0');
    return SUCCESS;
}

struct result command_audit_subject(struct invocation *invocation, struct error *err)
{
    const bool is_own = invocation->operand_count < 2;
    struct copy copy = {.invocation = invocation,
                        .is_csv = invocation_option(invocation, 'C') != NULL,
                        .is_narrow = terminal_is_narrow(SUBJECT_WIDE)};
    OWNED(session) *session = NULL;

    if (!is_own && invocation_option(invocation, 'p') == NULL)
        return line_check(invocation,
                          failure(err, ERROR_INVALID, "--purpose is needed: why you look at what is held about another person"));
    TRY(line_check(invocation, audit_check_form(invocation, err)));
    TRY(command_session(invocation, invocation->operands[0], &session, err));
    copy.session = session;
    const struct result shown = show_all(&copy, is_own, err);
    terminal_progress_end();
    return shown;
}
