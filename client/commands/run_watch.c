/* Waiting for the end of a run: one line that changes on a terminal, a line for each change elsewhere. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "client/commands/run_priv.h"
#include "client/terminal.h"

#define TRIES_MAX  10 /* with pauses of 1, 2, 4, 8, 16, and then of 30 s: about three minutes */
#define PAUSE_MAX  30
#define PLAIN_REST 10000 /* ms between two lines that differ in progress alone, where each stays */

/* What was shown last. */
struct shown {
    char state[CELL_MAX], phase[CELL_MAX];
    int64_t attempt, approvals, progress, at_ms;
};

bool run_tries_again(struct session *session, unsigned *tries, const struct error *err)
{
    if (err->kind != ERROR_UNAVAILABLE || *tries >= TRIES_MAX) return false;
    const unsigned pause = *tries < 5 ? 1u << *tries : PAUSE_MAX;
    session_pause(session, pause, err);
    ++*tries;
    return !session_gives_up(session);
}

static bool is_news(struct shown *shown, const json_t *run, int64_t now_ms)
{
    struct shown now = {.attempt = number_of(run, "attempt"),
                        .approvals = number_of(run, "approvals"),
                        .progress = number_of(run, "progress"),
                        .at_ms = now_ms};

    cell_text(json_object_get(run, "state"), now.state);
    cell_text(json_object_get(run, "phase"), now.phase);
    const bool is_step = strcmp(now.state, shown->state) != 0 || strcmp(now.phase, shown->phase) != 0 ||
                         now.attempt != shown->attempt || now.approvals != shown->approvals;
    const bool is_progress = now.progress != shown->progress && now_ms - shown->at_ms >= PLAIN_REST;
    if (is_step || is_progress) *shown = now;
    return is_step || is_progress;
}

/* The last column stays free, because a terminal may begin a new line when it is filled. */
static void show(struct shown *shown, const json_t *run, bool is_terminal)
{
    const int64_t now_ms = clock_wall_ms();
    char line[RUN_LINE_MAX];
    unsigned used = 0;

    run_line(run, now_ms, line);
    if (!is_terminal && is_news(shown, run, now_ms)) (void)fprintf(stderr, "%s\n", line);
    if (!is_terminal) return;
    line[terminal_fit(line, terminal_columns() - 1, &used)] = '\0';
    (void)fprintf(stderr, "\r\033[K%s%s", line, run_has_ended(run) ? "\n" : "");
    (void)fflush(stderr);
}

struct result run_watch(struct invocation *invocation, struct session *session, const struct run_address *address,
                        json_t **run_out, struct error *err)
{
    const bool is_terminal = isatty(STDERR_FILENO) == 1;
    struct shown shown = {.state = ""};
    unsigned tries = 0;

    for (unsigned looks = 0;; looks++) {
        OWNED_JSON run = NULL;
        const struct result read = run_read(session, address, &run, err);
        if (!read.ok && run_tries_again(session, &tries, err)) continue;
        TRY(read);
        tries = 0;
        if (!invocation->json) show(&shown, run, is_terminal);
        if (run_has_ended(run)) {
            *run_out = GIVE(run);
            return SUCCESS;
        }
        look_rest(looks);
    }
}

/* The state is a row of the database. Outputs are shown, be it none, only of an admission that sijil-keyd has signed. */
static bool has_admission(const json_t *run)
{
    return json_is_array(json_object_get(run, "outputs"));
}

struct result run_verdict(struct invocation *invocation, const struct run_address *address, const json_t *run, struct error *err)
{
    struct buffer OWNED_BUFFER advice = BUFFER(RUN_PATH_MAX);
    char state[CELL_MAX], reason[CELL_MAX];

    cell_text(json_object_get(run, "state"), state);
    cell_text(json_object_get(run, "reason"), reason);
    const bool has_succeeded = strcmp(state, "succeeded") == 0;
    if (has_succeeded && has_admission(run)) return SUCCESS;
    TRY(run_advice(address, run, &advice, err));
    if (advice.length > 0) invocation_explain(invocation, "try", buffer_text(&advice));
    invocation->ends_with = EXIT_RUN;
    if (has_succeeded)
        return failure(err, ERROR_INVALID, "the registry says that the run has succeeded, and has no admission of it that holds");
    const bool has_reason = json_object_get(run, "reason") != NULL;
    return failure(err, ERROR_INVALID, "the run has ended: %.32s%s%.180s", state, has_reason ? ": " : "",
                   has_reason ? reason : "");
}

struct result run_wait(struct invocation *invocation, struct session *session, const struct run_address *address,
                       struct error *err)
{
    OWNED_JSON run = NULL;

    TRY(run_watch(invocation, session, address, &run, err));
    TRY(run_print(invocation, address, run, err));
    return run_verdict(invocation, address, run, err);
}
