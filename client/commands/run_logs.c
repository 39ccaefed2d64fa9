/* `sijil run logs`: what a run printed, piece by piece (GET .../log). The registry may forget a connection at any time: the offset is ours. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "client/commands/printed.h"
#include "client/commands/run_priv.h"

#define WAIT_S      20 /* how long the registry may wait for something new */
#define PIECE_MAX   ((size_t)256 << 10)
#define NODE_MAX    255 /* docs/formats/run.md */
#define ATTEMPT_MAX 100

struct reading {
    struct session *session;
    const struct run_address *address;
    uint64_t node, attempt; /* attempt 0: the newest */
    uint64_t offset;
    bool follows, is_over; /* is_over: nothing more will come of this attempt */
    bool is_removed;       /* the registry keeps the log of a run that has succeeded as an artifact alone */
    struct printed *shown;
};

static struct result piece_path(const struct reading *reading, struct buffer *path, struct error *err)
{
    TRY(buffer_add_text(path, "/api/v1", err));
    TRY(run_path(reading->address, "/log", path, err));
    TRY(buffer_format(path, err, "?node=%" PRIu64 "&offset=%" PRIu64 "&wait_s=%d", reading->node, reading->offset,
                      reading->follows ? WAIT_S : 0));
    return reading->attempt == 0 ? SUCCESS : buffer_format(path, err, "&attempt=%" PRIu64, reading->attempt);
}

/* One answer. The bytes must be those that were asked for, so none is lost or shown twice. */
static struct result take_piece(struct reading *reading, const struct http_response *response, bool *is_new_out,
                                struct error *err)
{
    uint64_t offset = 0, size = 0;
    const struct bytes piece = buffer_bytes(&response->body);

    if (!text_to_u64(bytes_of_text(response->log_offset), INT64_MAX, &offset) ||
        !text_to_u64(bytes_of_text(response->log_size), INT64_MAX, &size) || piece.length > PIECE_MAX)
        return failure(err, ERROR_INVALID, "the registry answered without the size of the log: it is older than this program");
    if (offset != reading->offset || size < offset + piece.length)
        return failure(err, ERROR_CORRUPT, "the registry answered with another part of the log than was asked for");
    printed_add(reading->shown, piece, stdout);
    reading->offset += piece.length;
    const bool is_whole = reading->offset == size;
    *is_new_out = piece.length > 0;
    reading->is_over = reading->follows ? is_whole && strcmp(response->log_end, "true") == 0 : is_whole || !*is_new_out;
    return SUCCESS;
}

static struct result read_piece(struct reading *reading, bool *is_new_out, struct error *err)
{
    struct buffer OWNED_BUFFER path = BUFFER(RUN_PATH_MAX);
    OWNED_RESPONSE response = RESPONSE;

    TRY(piece_path(reading, &path, err));
    const struct http_request request = {.method = "GET", .path = buffer_text(&path), .wanted = 200};
    const struct result called = session_call(reading->session, ADMIN_SCOPE, &request, &response, err);
    reading->is_removed = response.status == 410;
    TRY(called);
    return take_piece(reading, &response, is_new_out, err);
}

/* To the end of one attempt; without `follows`, to the end of what is there. */
static struct result read_attempt(struct reading *reading, struct error *err)
{
    unsigned tries = 0, silent = 0;

    reading->is_over = false;
    while (!reading->is_over) {
        bool is_new = false;
        const struct result read = read_piece(reading, &is_new, err);
        if (!read.ok && run_tries_again(reading->session, &tries, err)) continue;
        TRY(read);
        tries = 0;
        if (is_new && fflush(stdout) != 0) return failure(err, ERROR_INVALID, "can't write to standard output");
        silent = is_new ? 0 : silent + 1;
        if (silent > 1) look_rest(silent); /* a registry that answers at once, although it might wait */
    }
    printed_end(reading->shown, stdout);
    return SUCCESS;
}

/* ---- following, through all attempts ---- */

struct following {
    struct reading *reading;
    struct invocation *invocation;
    char line[RUN_LINE_MAX]; /* shown last */
};

static void show_state(struct following *following, const json_t *run)
{
    char line[RUN_LINE_MAX];

    run_line(run, 0, line); /* before the request: without a time, so that a line is shown once */
    if (following->invocation->json || strcmp(line, following->line) == 0) return;
    (void)snprintf(following->line, sizeof following->line, "%s", line);
    (void)fprintf(stderr, "%s\n", line);
}

/* The run as it is now, also after lost connections. */
static struct result look(const struct reading *reading, json_t **run_out, struct error *err)
{
    for (unsigned tries = 0;;) {
        const struct result read = run_read(reading->session, reading->address, run_out, err);
        if (read.ok || !run_tries_again(reading->session, &tries, err)) return read;
    }
}

static struct result begin_attempt(struct reading *reading, uint64_t attempt, struct error *err)
{
    if (attempt > 1) (void)fprintf(stderr, "attempt %" PRIu64 "\n", attempt);
    reading->attempt = attempt;
    reading->offset = 0;
    return read_attempt(reading, err);
}

static struct result follow_all(struct following *following, struct error *err)
{
    struct reading *reading = following->reading;

    for (unsigned looks = 0;; looks++) {
        OWNED_JSON run = NULL;
        TRY(look(reading, &run, err));
        const uint64_t newest = (uint64_t)number_of(run, "attempt");
        if (newest > reading->attempt) {
            TRY(begin_attempt(reading, newest, err));
            looks = 0;
        } else if (run_has_ended(run)) {
            return SUCCESS;
        } else {
            show_state(following, run);
            look_rest(looks);
        }
    }
}

struct result run_follow_log(struct invocation *invocation, struct session *session, const struct run_address *address,
                             struct error *err)
{
    struct printed shown = {.is_terminal = isatty(STDOUT_FILENO) == 1};
    struct reading reading = {.session = session, .address = address, .follows = true, .shown = &shown};
    struct following following = {.reading = &reading, .invocation = invocation};

    return follow_all(&following, err);
}

/* ---- the command ---- */

/* An option that is a number. */
struct number {
    int letter;
    const char *name;
    uint64_t least, most;
};

static struct result number_option(struct invocation *invocation, const struct number *option, uint64_t *number_out,
                                   struct error *err)
{
    const char *text = invocation_option(invocation, option->letter);
    uint64_t number = 0;

    if (text == NULL) return SUCCESS;
    if (!text_to_u64(bytes_of_text(text), option->most, &number) || number < option->least)
        return line_check(invocation, failure(err, ERROR_INVALID, "--%s %.20s: a number from %" PRIu64 " to %" PRIu64,
                                              option->name, text, option->least, option->most));
    *number_out = number;
    return SUCCESS;
}

/* A log that the registry keeps no longer is an artifact that the result names. */
static struct result explain_removed(struct invocation *invocation, const struct reading *reading, struct error *err)
{
    struct buffer OWNED_BUFFER reference = BUFFER(RUN_PATH_MAX);
    OWNED_JSON run = NULL;
    const struct error why = *err;

    if (!reading->is_removed) return (struct result){.ok = false};
    TRY(run_read(reading->session, reading->address, &run, err));
    TRY(run_log_reference(run, reading->address, &reference, err));
    if (reference.length > 0) invocation_explain(invocation, "try", buffer_text(&reference));
    return failure(err, why.kind, "%s", why.message);
}

struct result command_run_logs(struct invocation *invocation, struct error *err)
{
    struct printed shown = {.is_terminal = isatty(STDOUT_FILENO) == 1};
    struct reading reading = {.follows = invocation_option(invocation, 'f') != NULL, .shown = &shown};
    struct following following = {.reading = &reading, .invocation = invocation};
    OWNED(session) *session = NULL;
    struct run_address address;

    TRY(run_address_of(invocation, &address, err));
    TRY(number_option(invocation, &(struct number){'n', "node", 0, NODE_MAX}, &reading.node, err));
    TRY(number_option(invocation, &(struct number){'a', "attempt", 1, ATTEMPT_MAX}, &reading.attempt, err));
    TRY(command_session(invocation, address.host, &session, err));
    reading.session = session;
    reading.address = &address;
    const bool follows_all = reading.follows && reading.attempt == 0;
    const struct result read = follows_all ? follow_all(&following, err) : read_attempt(&reading, err);
    return read.ok ? SUCCESS : explain_removed(invocation, &reading, err);
}
