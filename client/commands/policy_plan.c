/* `sijil policy plan`: what a proposed set would change. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "base/text.h"
#include "client/commands/api_priv.h"
#include "client/commands/commands_priv.h"
#include "client/commands/policy_priv.h"
#include "client/local.h"
#include "client/session.h"
#include "client/terminal.h"
#include "policy/set.h"

#define COUNT(array)   (sizeof(array) / sizeof((array)[0]))
#define ACTOR_SHOWN    16 /* digits of a pseudonym: enough to tell some thousands apart */
#define PLANS_POLICIES "/policies"

/* ---- the question ---- */

static struct result read_number(struct invocation *invocation, char option, const char *name, uint64_t *number,
                                 struct error *err)
{
    const char *text = invocation_option(invocation, option);

    if (text == NULL || text_to_u64(bytes_of_text(text), INT64_MAX, number)) return SUCCESS;
    return line_check(invocation, failure(err, ERROR_INVALID, "--%s %.30s: a whole number", name, text));
}

/* One more than that of the set in force. */
static struct result next_epoch(struct session *session, uint64_t *epoch, struct error *err)
{
    OWNED_JSON answer = NULL;

    if (*epoch > 0) return SUCCESS;
    const struct result asked = api_call_in(session, "GET", PLANS_POLICIES, NULL, &answer, err);
    if (!asked.ok && err->kind != ERROR_NOT_FOUND) return asked;
    *epoch = asked.ok ? (uint64_t)number_of(answer, "epoch") + 1 : 1;
    return SUCCESS;
}

static struct result make_body(struct invocation *invocation, struct session *session, json_t **body_out, struct error *err)
{
    struct buffer OWNED_BUFFER payload = BUFFER(POLICY_SET_BYTES_MAX);
    const char *restriction = invocation_option(invocation, 'P');
    uint64_t epoch = 0, days = 30;
    OWNED_JSON set = NULL;

    TRY(read_number(invocation, 'e', "epoch", &epoch, err));
    TRY(read_number(invocation, 'd', "days", &days, err));
    TRY(next_epoch(session, &epoch, err));
    if (restriction != NULL) TRY(restriction_compose(session, restriction, epoch, &payload, err));
    else TRY(policy_compose_file(invocation->operands[1], epoch, &payload, err));
    TRY(json_read(buffer_bytes(&payload), POLICY_SET_BYTES_MAX, &set, err));
    *body_out = json_pack("{s:O, s:I}", "set", set, "days", (json_int_t)days);
    return *body_out == NULL ? api_no_memory(err) : SUCCESS;
}

/* ---- the answer, for a person ---- */

static void print_numbers(const json_t *plan)
{
    const json_t *base = json_object_get(plan, "base"), *set = json_object_get(plan, "set"), *log = json_object_get(plan, "log");
    const json_t *requests = json_object_get(plan, "requests"), *inventory = json_object_get(plan, "inventory");
    char digest[CELL_MAX], now[CELL_MAX];

    cell_text(json_object_get(set, "digest"), digest);
    cell_text(json_object_get(base, "digest"), now);
    (void)printf("proposed   epoch %" PRId64 "  %s\nin force   epoch %" PRId64 "  %s\n", number_of(set, "epoch"), digest,
                 number_of(base, "epoch"), now);
    (void)printf("log        events %" PRId64 " to %" PRId64 ", of %" PRId64 " days\n", number_of(log, "from"),
                 number_of(log, "until"), number_of(log, "days"));
    (void)printf("requests   %" PRId64 " newly denied, %" PRId64 " newly allowed; %" PRId64 " allowed and %" PRId64
                 " denied as before, %" PRId64 " not decided\n",
                 number_of(requests, "newly_denied"), number_of(requests, "newly_allowed"), number_of(requests, "allowed"),
                 number_of(requests, "denied"), number_of(requests, "undecided"));
    if (number_of(log, "released") > 0)
        (void)printf("           %" PRId64 " more were not looked at: their entries are in a region\n",
                     number_of(log, "released"));
    (void)printf("stored     %" PRId64 " artifacts in %" PRId64 " repositories\n", number_of(inventory, "manifests"),
                 number_of(inventory, "repositories"));
}

/* A title, a table below it; nothing for an empty list. */
static struct result print_part(const struct invocation *invocation, const char *title, const json_t *rows,
                                const struct column *columns, size_t count, struct error *err)
{
    if (json_array_size(rows) == 0) return SUCCESS;
    (void)printf("\n%s\n", title);
    return api_print_rows(invocation, rows, columns, count, err);
}

/* The whole pseudonym is in --json. */
static void cut_actors(json_t *rows)
{
    for (size_t i = 0; i < json_array_size(rows); i++) {
        json_t *row = json_array_get(rows, i);
        const char *actor = json_text_of(row, "actor");
        if (actor != NULL && strlen(actor) > ACTOR_SHOWN)
            (void)json_object_set_new(row, "actor", json_stringn(actor, ACTOR_SHOWN));
    }
}

static struct result print_requests(const struct invocation *invocation, const json_t *plan, struct error *err)
{
    static const struct column columns[] = {{"COUNT", "count"},       {"ACTOR", "actor"},    {"ACTION", "action"},
                                            {"RESOURCE", "resource"}, {"TARGET", "target"},  {"RULE", "rule"},
                                            {"POLICY", "policy"},     {"EVENTS", "examples"}};
    static const struct column doubts[] = {{"COUNT", "count"}, {"ACTION", "action"}, {"WHY", "why"}, {"EVENTS", "examples"}};

    cut_actors(json_object_get(plan, "newly_denied"));
    cut_actors(json_object_get(plan, "newly_allowed"));
    TRY(print_part(invocation, "newly denied", json_object_get(plan, "newly_denied"), columns, COUNT(columns), err));
    TRY(print_part(invocation, "newly allowed (the rule that denies now)", json_object_get(plan, "newly_allowed"), columns,
                   COUNT(columns), err));
    return print_part(invocation, "not decided: the log does not have what it takes", json_object_get(plan, "undecided"), doubts,
                      COUNT(doubts), err);
}

static struct result print_content(const struct invocation *invocation, const json_t *plan, struct error *err)
{
    static const struct column places[] = {{"REPOSITORY", "repository"}, {"REGION", "region"},       {"RULE", "rule"},
                                           {"POLICY", "policy"},         {"ARTIFACTS", "manifests"}, {"BYTES", "bytes"},
                                           {"COULD GO TO", "regions"}};
    static const struct column pins[] = {
        {"POLICY", "policy"}, {"REPOSITORIES", "repositories"}, {"ARTIFACTS", "manifests"}, {"FOR EXAMPLE", "examples"}};
    static const struct column runs[] = {
        {"RUN", "run"},       {"PROJECT", "project"}, {"STATE", "state"},  {"REPOSITORY", "repository"},
        {"REGION", "region"}, {"RULE", "rule"},       {"POLICY", "policy"}};
    static const struct column exceptions[] = {
        {"EXCEPTION", "exception"}, {"POLICY", "policy"}, {"PROJECT", "project"}, {"WHY", "why"}};
    const json_t *unplaceable = json_object_get(plan, "unplaceable");
    char title[128];

    (void)snprintf(title, sizeof title, "could not stay where it is: %" PRId64 " artifacts, %" PRId64 " bytes to move",
                   number_of(unplaceable, "manifests"), number_of(unplaceable, "bytes"));
    TRY(print_part(invocation, title, json_object_get(unplaceable, "rows"), places, COUNT(places), err));
    TRY(print_part(invocation, "policies that labels pin, and that would be gone (SYS-PIN-MISSING)",
                   json_object_get(plan, "pins_lost"), pins, COUNT(pins), err));
    TRY(print_part(invocation, "runs that would stop", json_object_get(json_object_get(plan, "runs"), "rows"), runs, COUNT(runs),
                   err));
    return print_part(invocation, "exceptions that no longer fit", json_object_get(plan, "exceptions"), exceptions,
                      COUNT(exceptions), err);
}

static struct result print_plan(const struct invocation *invocation, const json_t *plan, struct error *err)
{
    char digest[CELL_MAX];

    if (invocation->json) return api_print_json(plan, err);
    cell_text(json_object_get(plan, "digest"), digest);
    print_numbers(plan);
    TRY(print_requests(invocation, plan, err));
    TRY(print_content(invocation, plan, err));
    (void)printf("\nplan       %s\n", digest);
    return SUCCESS;
}

/* ---- waiting for it ---- */

static void show(const struct invocation *invocation, const json_t *job, bool is_last)
{
    char phase[CELL_MAX];

    if (invocation->json) return;
    cell_text(json_object_get(job, "phase"), phase);
    (void)fprintf(stderr, "%s%s: %" PRId64 " of %" PRId64, isatty(STDERR_FILENO) ? "\r\033[K" : "", phase, number_of(job, "done"),
                  number_of(job, "total"));
    if (is_last || !isatty(STDERR_FILENO)) (void)fputc('\n', stderr);
}

static struct result conclude(const struct invocation *invocation, const json_t *answer, struct error *err)
{
    const json_t *job = json_object_get(answer, "job"), *plan = json_object_get(answer, "plan");
    char state[CELL_MAX], why[CELL_MAX], by[CELL_MAX];

    cell_text(json_object_get(job, "state"), state);
    cell_text(json_object_get(job, "waits_for"), why);
    cell_text(json_object_get(job, "stopped_by"), by);
    if (strcmp(state, "completed") == 0 && json_is_object(plan)) return print_plan(invocation, plan, err);
    if (json_object_get(job, "stopped_by") != NULL)
        return failure(err, ERROR_INVALID, "the plan was not completed: %.40s by %.200s", state, by);
    return failure(err, ERROR_INVALID, "the plan was not completed: %.40s: %.200s", state, why);
}

/* ---- stopping it ---- */

static volatile sig_atomic_t is_interrupted;

static void note_interrupt(int number)
{
    (void)number;
    is_interrupted = 1;
}

/* Ctrl-C asks only where a person can answer; the second one, at the question, ends this program and not the plan. */
static void watch_interrupt(bool is_watched)
{
    const struct sigaction action = {.sa_handler = is_watched ? note_interrupt : SIG_DFL};

    if (terminal_is_there()) (void)sigaction(SIGINT, &action, NULL);
}

static struct result plan_path(struct buffer *path, const char *id, struct error *err)
{
    return buffer_format(path, err, PLANS_POLICIES "/plans/%.40s", id);
}

static struct result cancel(struct session *session, const char *id, struct error *err)
{
    struct buffer OWNED_BUFFER path = BUFFER(256);

    TRY(plan_path(&path, id, err));
    TRY(api_call_in(session, "DELETE", buffer_text(&path), NULL, NULL, err));
    (void)fprintf(stderr, "stops: %.40s\n", id);
    return SUCCESS;
}

static struct result ask_to_stop(struct session *session, const char *id, struct error *err)
{
    char answer[16];

    watch_interrupt(false);
    (void)fputc('\n', stderr);
    TRY(terminal_ask("stop the plan? yes, no, or leave: it goes on, and this ends", answer, sizeof answer, err));
    if (strcmp(answer, "yes") == 0) TRY(cancel(session, id, err));
    if (strcmp(answer, "leave") == 0) return failure(err, ERROR_INVALID, "the plan goes on; --show %.40s shows it", id);
    is_interrupted = 0;
    watch_interrupt(true);
    return SUCCESS;
}

/* ---- following it ---- */

static struct result follow(const struct invocation *invocation, struct session *session, const char *id, struct error *err)
{
    struct buffer OWNED_BUFFER path = BUFFER(256);

    TRY(plan_path(&path, id, err));
    watch_interrupt(true);
    for (unsigned looks = 0;; looks++) {
        OWNED_JSON answer = NULL;
        TRY(api_call_in(session, "GET", buffer_text(&path), NULL, &answer, err));
        const json_t *job = json_object_get(answer, "job");
        const bool is_over = json_object_get(job, "ended") != NULL;
        show(invocation, job, is_over);
        if (is_over) return conclude(invocation, answer, err);
        if (is_interrupted) TRY(ask_to_stop(session, id, err));
        else look_rest(looks);
    }
}

static struct result begin(struct invocation *invocation, struct session *session, char id_out[CELL_MAX], struct error *err)
{
    OWNED_JSON body = NULL;
    OWNED_JSON job = NULL;

    TRY(make_body(invocation, session, &body, err));
    TRY(api_call_in(session, "POST", PLANS_POLICIES "/plan", body, &job, err));
    cell_text(json_object_get(job, "id"), id_out);
    if (!invocation->json) (void)fprintf(stderr, "plan %s; it goes on also when this ends\n", id_out);
    return SUCCESS;
}

struct result command_policy_plan(struct invocation *invocation, struct error *err)
{
    const char *shown = invocation_option(invocation, 's'), *stopped = invocation_option(invocation, 'x');
    OWNED(session) *session = NULL;
    char id[CELL_MAX];

    const bool is_restriction = invocation_option(invocation, 'P') != NULL;

    if ((invocation->operand_count == 2) + is_restriction + (shown != NULL) + (stopped != NULL) != 1)
        return line_check(invocation,
                          failure(err, ERROR_INVALID, "one of SET.json, --restriction POLICY.json, --show ID and --cancel ID"));
    TRY(command_session(invocation, invocation->operands[0], &session, err));
    if (stopped != NULL) return cancel(session, stopped, err);
    if (shown == NULL) TRY(begin(invocation, session, id, err));
    return follow(invocation, session, shown == NULL ? id : shown, err);
}
