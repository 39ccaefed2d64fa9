/* `sijil run list` and `show`: where a run is, what came of it, and what to do next. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/typo.h"
#include "client/commands/run_priv.h"
#include "client/terminal.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

bool run_is_in(const json_t *run, const char *state)
{
    const char *now = json_text_of(run, "state");

    return now != NULL && strcmp(now, state) == 0;
}

bool run_has_ended(const json_t *run)
{
    return json_object_get(run, "ended") != NULL;
}

/* ---- one line ---- */

/* "(1 of 2 approvals)", "(for a runner of the pool gpu)", "42%", "(attempt 2 of 3)" */
static void line_detail(const json_t *run, char detail[RUN_LINE_MAX])
{
    int64_t percent = 0, nodes = 0;
    char pool[CELL_MAX], phase[CELL_MAX], why[RUN_WAIT_MAX];

    run_wait_text(run, why);
    cell_text(json_object_get(run, "pool"), pool);
    cell_text(json_object_get(run, "phase"), phase);
    detail[0] = '\0';
    if (run_has_ended(run)) return;
    if (run_is_in(run, "awaiting approval"))
        (void)snprintf(detail, RUN_LINE_MAX, " (%lld of %lld)", (long long)number_of(run, "approvals"),
                       (long long)number_of(run, "approvals_wanted"));
    else if (run_is_in(run, "requested")) (void)snprintf(detail, RUN_LINE_MAX, " (waits for its order)");
    else if (run_is_in(run, "ordered") && json_integer_of(run, "nodes_wanted", &nodes))
        (void)snprintf(detail, RUN_LINE_MAX, " (waits for runners of the pool %.64s: %lld of %lld nodes have one)", pool,
                       (long long)number_of(run, "nodes_kept"), (long long)nodes);
    else if (run_is_in(run, "ordered"))
        (void)snprintf(detail, RUN_LINE_MAX, " (waits for a runner of the pool %.64s%s)", pool, why);
    else if (run_is_in(run, "finishing")) (void)snprintf(detail, RUN_LINE_MAX, " (waits for its admission)");
    else if (json_integer_of(run, "progress", &percent)) (void)snprintf(detail, RUN_LINE_MAX, " %lld%%", (long long)percent);
    else if (json_object_get(run, "phase") != NULL && !run_is_in(run, "running"))
        (void)snprintf(detail, RUN_LINE_MAX, " (%.16s)", phase);
}

/* Since the request; "" if the registry's clock is ahead. */
static void elapsed_text(const json_t *run, int64_t now_ms, char text[32])
{
    const char *requested = json_text_of(run, "requested"), *ended = json_text_of(run, "ended");
    int64_t from_ms = 0, to_ms = now_ms;

    text[0] = '\0';
    if (requested == NULL || !clock_parse(bytes_of_text(requested), &from_ms)) return;
    if (ended != NULL) (void)clock_parse(bytes_of_text(ended), &to_ms);
    const long long seconds = (long long)(to_ms - from_ms) / 1000;
    if (seconds >= 0) (void)snprintf(text, 32, ", %lld:%02lld:%02lld", seconds / 3600, seconds / 60 % 60, seconds % 60);
}

void run_line(const json_t *run, int64_t now_ms, char line_out[RUN_LINE_MAX])
{
    char state[CELL_MAX], detail[RUN_LINE_MAX], elapsed[32], attempt[48] = "";

    cell_text(json_object_get(run, "state"), state);
    line_detail(run, detail);
    elapsed_text(run, now_ms, elapsed);
    if (number_of(run, "attempt") > 1)
        (void)snprintf(attempt, sizeof attempt, ", attempt %lld of %lld", (long long)number_of(run, "attempt"),
                       (long long)number_of(run, "attempts"));
    (void)snprintf(line_out, RUN_LINE_MAX, "%.32s%.120s%s%s", state, detail, attempt, elapsed);
}

/* ---- what to do next ---- */

/* " --node 1" if the result of that node ended the run; "" for node 0, whose log is shown anyway. */
static struct result node_option(const json_t *run, char option_out[32], struct error *err)
{
    OWNED(run_envelope) *result = NULL;

    option_out[0] = '\0';
    TRY(run_signed(run, RUN_RESULT, &result, err));
    if (result == NULL || strcmp(run_text(result, "predicate.runDetails.sijil_outcome.status"), "succeeded") == 0) return SUCCESS;
    const long long node = (long long)run_integer(result, "predicate.buildDefinition.internalParameters.node");
    if (node > 0) (void)snprintf(option_out, 32, " --node %lld", node);
    return SUCCESS;
}

/* The same again, as it was asked for: with a key, or by a token. */
static struct result advise_start(const struct run_address *address, const json_t *run, const char *rest, struct buffer *advice,
                                  struct error *err)
{
    OWNED(run_envelope) *request = NULL;

    TRY(run_signed(run, RUN_REQUEST, &request, err));
    const bool by_token = request != NULL && run_member(request, "claims") != NULL;
    return buffer_format(advice, err, "sijil run start %s %s SPEC %s%s", address->host, address->project,
                         by_token ? "--by-token" : "--key KEY", rest);
}

struct result run_advice(const struct run_address *address, const json_t *run, struct buffer *advice, struct error *err)
{
    static const struct {
        const char *state, *command, *rest;
    } next[] = {
        {"awaiting approval", "sijil run approve", " --key KEY"},
        {"ordered", "sijil run show --follow", ""},
        {"leased", "sijil run logs --follow", ""},
        {"running", "sijil run logs --follow", ""},
        {"succeeded", "sijil run bundle", " -o run.json"},
        {"failed", "sijil run logs", ""},
        {"expired", "sijil run start", " --expires HOURS"},
        {"refused", "sijil run start", ""},
        {"quarantined", "sijil run bundle", " -o run.json"},
    };
    const bool never_began = run_is_in(run, "failed") && number_of(run, "attempt") == 0;
    char node[32];

    for (size_t i = 0; i < COUNT(next); i++) {
        if (!run_is_in(run, next[i].state)) continue;
        if (never_began || strcmp(next[i].command, "sijil run start") == 0)
            return advise_start(address, run, next[i].rest, advice, err);
        TRY(node_option(run, node, err));
        return buffer_format(advice, err, "%s %s %s %s%s%s", next[i].command, address->host, address->project, address->run,
                             next[i].rest, run_is_in(run, "failed") ? node : "");
    }
    return SUCCESS;
}

/* ---- outputs ---- */

static const char *repository_of(const struct run_envelope *request, const char *name)
{
    const json_t *outputs = run_member(request, "spec.outputs");

    for (size_t i = 0; i < json_array_size(outputs); i++)
        if (strcmp(json_text_of(json_array_get(outputs, i), "name"), name) == 0)
            return json_text_of(json_array_get(outputs, i), "repository");
    return NULL;
}

static struct result add_output(const struct run_address *address, const struct run_envelope *request, const json_t *subject,
                                json_t *outputs, struct error *err)
{
    const char *name = json_text_of(subject, "name"), *hex = json_text_of(json_object_get(subject, "digest"), "sha256");
    const char *repository = name == NULL ? NULL : repository_of(request, name);
    struct buffer OWNED_BUFFER digest = BUFFER(RUN_DIGEST_TEXT), reference = BUFFER(RUN_PATH_MAX);

    if (repository == NULL || hex == NULL) return SUCCESS; /* the log */
    TRY(buffer_format(&digest, err, "sha256:%s", hex));
    TRY(buffer_format(&reference, err, "%s/%s@%s", address->host, repository, buffer_text(&digest)));
    json_t *output = json_pack("{s:s, s:s, s:s, s:s}", "name", name, "repository", repository, "digest", buffer_text(&digest),
                               "reference", buffer_text(&reference));
    return json_array_append_new(outputs, output) == 0 ? SUCCESS : failure(err, ERROR_NO_MEMORY, "no memory for the outputs");
}

/* The result of the run and its request; both NULL if there is no result. */
struct made {
    struct run_envelope *request, *result;
};

static void made_done(struct made *made)
{
    run_envelope_free(made->request);
    run_envelope_free(made->result);
}
#define OWNED_MADE __attribute__((cleanup(made_done))) struct made

static struct result read_made(const json_t *run, const struct run_address *address, struct made *made, struct error *err)
{
    TRY(run_signed(run, RUN_RESULT, &made->result, err));
    if (made->result == NULL) return SUCCESS;
    TRY(run_signed_request(run, address, &made->request, err));
    if (strcmp(run_text(made->result, "predicate.buildDefinition.externalParameters.run"), address->run) == 0) return SUCCESS;
    return failure(err, ERROR_CORRUPT, "the registry answered with the result of another run");
}

struct result run_signed_outputs(const json_t *run, const struct run_address *address, json_t **outputs_out, struct error *err)
{
    OWNED_MADE made = {.result = NULL};
    OWNED_JSON outputs = json_array();

    TRY(read_made(run, address, &made, err));
    const json_t *subjects = made.result == NULL ? NULL : run_member(made.result, "subject");
    for (size_t i = 0; i < json_array_size(subjects); i++)
        TRY(add_output(address, made.request, json_array_get(subjects, i), outputs, err));
    if (outputs == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the outputs");
    *outputs_out = GIVE(outputs);
    return SUCCESS;
}

struct result run_log_reference(const json_t *run, const struct run_address *address, struct buffer *command, struct error *err)
{
    OWNED_MADE made = {.result = NULL};

    TRY(read_made(run, address, &made, err));
    if (made.result == NULL) return SUCCESS;
    const char *repository = json_text_of(json_array_get(run_member(made.request, "spec.outputs"), 0), "repository");
    const json_t *subjects = run_member(made.result, "subject"), *log = json_array_get(subjects, json_array_size(subjects) - 1);
    return buffer_format(command, err, "sijil pull %s/%s@sha256:%s", address->host, repository,
                         json_text_of(json_object_get(log, "digest"), "sha256"));
}

/* Only admitted outputs can be pulled. */
static void print_outputs(const json_t *run, const json_t *outputs)
{
    char name[CELL_MAX], reference[RUN_PATH_MAX];

    for (size_t i = 0; i < json_array_size(outputs); i++) {
        const json_t *output = json_array_get(outputs, i);
        cell_text(json_object_get(output, "name"), name);
        (void)snprintf(reference, sizeof reference, "%s", json_text_of(output, "reference"));
        terminal_sanitize(reference);
        (void)printf("%-16s %s%s\n", i == 0 ? "outputs" : "", name, run_is_in(run, "succeeded") ? "" : " (not admitted)");
        (void)printf("%-16s %s%s\n", "", run_is_in(run, "succeeded") ? "sijil pull " : "", reference);
    }
}

/* Runners whose results do not count any more (docs/runs.md). */
static void print_doubts(const json_t *doubts)
{
    char runner[CELL_MAX], since[CELL_MAX], reason[CELL_MAX];

    for (size_t i = 0; i < json_array_size(doubts); i++) {
        const json_t *doubt = json_array_get(doubts, i);
        cell_text(json_object_get(doubt, "runner"), runner);
        cell_text(json_object_get(doubt, "since"), since);
        cell_text(json_object_get(doubt, "reason"), reason);
        (void)printf("%-16s results of the runner %s do not count since %s: %s\n", i == 0 ? "doubts" : "", runner, since, reason);
    }
}

/* A request names one, as `resume` or by --resume. */
static void print_checkpoints(const json_t *checkpoints)
{
    char repository[CELL_MAX], digest[CELL_MAX], kept[CELL_MAX], until[CELL_MAX];

    for (size_t i = 0; i < json_array_size(checkpoints); i++) {
        const json_t *checkpoint = json_array_get(checkpoints, i);
        const bool ends = json_object_get(checkpoint, "until") != NULL;
        cell_text(json_object_get(checkpoint, "repository"), repository);
        cell_text(json_object_get(checkpoint, "digest"), digest);
        cell_text(json_object_get(checkpoint, "kept"), kept);
        cell_text(json_object_get(checkpoint, "until"), until);
        (void)printf("%-16s %s@%s\n", i == 0 ? "checkpoints" : "", repository, digest);
        (void)printf("%-16s %lld bytes, attempt %lld, %s%s%s\n", "", (long long)number_of(checkpoint, "bytes"),
                     (long long)number_of(checkpoint, "attempt"), kept, ends ? ", until " : "", ends ? until : "");
    }
}

static void print_nodes(const json_t *nodes)
{
    char runner[CELL_MAX], phase[CELL_MAX], percent[32];
    int64_t progress = 0;

    for (size_t i = 0; i < json_array_size(nodes); i++) {
        const json_t *node = json_array_get(nodes, i);
        cell_text(json_object_get(node, "runner"), runner);
        cell_text(json_object_get(node, "phase"), phase);
        percent[0] = '\0';
        if (json_integer_of(node, "progress", &progress)) (void)snprintf(percent, sizeof percent, " %lld%%", (long long)progress);
        (void)printf("%-16s %lld %s%s, runner %s\n", i == 0 ? "nodes" : "", (long long)number_of(node, "node"), phase, percent,
                     runner);
    }
}

/* The lines of a run: first its plain members. */
static struct result print_lines(const struct invocation *invocation, const struct run_address *address, json_t *run,
                                 const json_t *outputs, struct error *err)
{
    struct buffer OWNED_BUFFER advice = BUFFER(RUN_PATH_MAX);
    OWNED_JSON doubts = json_incref(json_object_get(run, "doubts"));
    OWNED_JSON checkpoints = json_incref(json_object_get(run, "checkpoints"));
    OWNED_JSON nodes = json_incref(json_object_get(run, "nodes"));
    char line[RUN_LINE_MAX];

    (void)json_object_del(run, "doubts");
    (void)json_object_del(run, "nodes");
    (void)json_object_del(run, "checkpoints");
    (void)json_object_del(run, "outputs"); /* as the registry says; they are shown as they were signed */
    run_line(run, clock_wall_ms(), line);
    TRY(run_advice(address, run, &advice, err));
    (void)json_object_del(run, "envelopes");
    (void)json_object_del(run, "people"); /* shown with the request, as the runners are */
    (void)json_object_del(run, "runners");
    TRY(api_print(invocation, run, err));
    print_outputs(run, outputs);
    print_checkpoints(checkpoints);
    print_nodes(nodes);
    print_doubts(doubts);
    (void)printf("%-16s %s\n", "now", line);
    if (advice.length > 0) (void)printf("%-16s %s\n", "next", buffer_text(&advice));
    return SUCCESS;
}

/* From what they have signed. */
static struct result name_approvers(json_t *run, struct error *err)
{
    struct buffer OWNED_BUFFER names = BUFFER(RUN_APPROVALS_MAX * SIGNING_PRINCIPAL_SIZE * 2);
    const json_t *rows = json_object_get(run, "envelopes"), *row;
    size_t i;

    json_array_foreach (rows, i, row) {
        const char *kind = json_text_of(row, "kind"), *text = json_text_of(row, "envelope");
        OWNED(run_envelope) *approval = NULL;
        if (kind == NULL || text == NULL || strcmp(kind, run_type_name(RUN_APPROVAL)) != 0) continue;
        TRY(run_envelope_read(bytes_of_text(text), RUN_APPROVAL, &approval, err));
        TRY(buffer_format(&names, err, "%s%s", names.length == 0 ? "" : ", ", run_text(approval, "approver")));
    }
    if (names.length == 0 || json_object_set_new(run, "approved_by", json_string(buffer_text(&names))) == 0) return SUCCESS;
    return failure(err, ERROR_NO_MEMORY, "no memory for the approvers");
}

struct result run_print(const struct invocation *invocation, const struct run_address *address, const json_t *run,
                        struct error *err)
{
    OWNED_JSON outputs = NULL;
    OWNED_JSON shown = json_copy((json_t *)(uintptr_t)run);

    if (shown == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the run");
    TRY(run_signed_outputs(run, address, &outputs, err));
    if (!invocation->json) {
        TRY(name_approvers(shown, err));
        return print_lines(invocation, address, shown, outputs, err);
    }
    (void)json_object_del(shown, "envelopes");
    return api_print_json(shown, err);
}

/* ---- the commands ---- */

static struct result check_state(struct invocation *invocation, const char *state, struct error *err)
{
    static const char *const names[] = {
#define STATE(constant, name, is_end) name,
#include "training/states.def"
    };
    const char *nearest = NULL;
    unsigned best = TYPO_BEST;

    for (size_t i = 0; i < COUNT(names); i++) {
        if (state == NULL || strcmp(names[i], state) == 0) return SUCCESS;
        if (typo_is_near(state, names[i], &best)) nearest = names[i];
    }
    return line_check(invocation,
                      failure(err, ERROR_INVALID, "--state %.40s: %s%s%s", state,
                              nearest == NULL ? "there is no such state: sijil help run list has all" : "did you mean '",
                              nearest == NULL ? "" : nearest, nearest == NULL ? "" : "'?"));
}

struct result command_run_list(struct invocation *invocation, struct error *err)
{
    static const struct column columns[] = {{"ID", "id"},           {"STATE", "state"},         {"DOUBTS", "doubts"},
                                            {"COMMAND", "command"}, {"REQUESTED", "requested"}, {"ENDED", "ended"},
                                            {"ATTEMPT", "attempt"}, {"APPROVALS", "approvals"}, {"OF", "approvals_wanted"},
                                            {"POOL", "pool"},       {"REASON", "reason"},       {"REQUESTER", "requester"}};
    const char *state = invocation_option(invocation, 't');
    struct buffer OWNED_BUFFER path = BUFFER(RUN_PATH_MAX);
    uint64_t most = UINT32_MAX;

    TRY(run_project_check(invocation, err));
    TRY(check_state(invocation, state, err));
    TRY(run_number_option(invocation, &(struct run_number){'l', "limit", 1, UINT32_MAX}, &most, err));
    TRY(buffer_format(&path, err, "/projects/%s/runs%s", invocation->operands[1], state == NULL ? "" : "?state="));
    if (state != NULL) TRY(http_escape(&path, state, err));
    const struct newest runs = {buffer_text(&path), "runs", columns, COUNT(columns)};
    return api_list_newest(invocation, &runs, (size_t)most, err);
}

static struct result print_whole(const struct invocation *invocation, const struct run_address *address, const json_t *run,
                                 struct error *err)
{
    OWNED(run_envelope) *request = NULL;

    TRY(run_signed_request(run, address, &request, err));
    TRY(run_print(invocation, address, run, err));
    run_show_needs(request, run, json_object_get(run, "runners"), address->host);
    run_show_people(json_object_get(run, "people"), stdout);
    return run_show_request(request, stdout, err);
}

struct result command_run_show(struct invocation *invocation, struct error *err)
{
    OWNED(session) *session = NULL;
    OWNED_JSON run = NULL;
    struct run_address address;

    TRY(run_address_of(invocation, &address, err));
    TRY(command_session(invocation, address.host, &session, err));
    if (invocation_option(invocation, 'f') != NULL) return run_wait(invocation, session, &address, err);
    TRY(run_read(session, &address, &run, err));
    return invocation->json ? api_print_json(run, err) : print_whole(invocation, &address, run, err);
}
