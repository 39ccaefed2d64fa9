/* `sijil run logs`: what a run printed, piece by piece (GET .../log). The registry may forget a connection at any time: the offset is ours. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "base/text.h"
#include "base/uuid.h"
#include "client/commands/printed.h"
#include "client/commands/run_priv.h"

#define WAIT_S    20 /* how long the registry may wait for something new */
#define PIECE_MAX ((size_t)256 << 10)

struct reading {
    struct session *session;
    const struct run_address *address;
    uint64_t node, attempt; /* attempt 0: the newest */
    uint64_t offset;
    uint64_t tail;         /* begin with so many of the last lines; 0: with the first one */
    bool follows, is_over; /* is_over: nothing more will come of this attempt */
    bool is_removed;       /* the registry keeps the log of a run that has succeeded as an artifact alone */
    struct printed *shown;
    FILE *out; /* standard output, or a file of --output */
};

static struct result piece_path(const struct reading *reading, struct buffer *path, struct error *err)
{
    TRY(buffer_add_text(path, "/api/v1", err));
    TRY(run_path(reading->address, "/log", path, err));
    TRY(buffer_format(path, err, "?node=%" PRIu64 "&offset=%" PRIu64 "&wait_s=%d", reading->node, reading->offset,
                      reading->follows ? WAIT_S : 0));
    return reading->attempt == 0 ? SUCCESS : buffer_format(path, err, "&attempt=%" PRIu64, reading->attempt);
}

static struct result get_piece(struct reading *reading, struct http_response *response, struct error *err)
{
    struct buffer OWNED_BUFFER path = BUFFER(RUN_PATH_MAX);

    TRY(piece_path(reading, &path, err));
    const struct http_request request = {.method = "GET", .path = buffer_text(&path), .wanted = 200};
    const struct result called = session_call(reading->session, ADMIN_SCOPE, &request, response, err);
    reading->is_removed = response->status == 410;
    return called;
}

/* The bytes must be those that were asked for, so none is lost or shown twice. */
static struct result check_piece(const struct reading *reading, const struct http_response *response, uint64_t *size_out,
                                 struct error *err)
{
    const size_t length = response->body.length;
    uint64_t offset = 0, size = 0;

    if (!text_to_u64(bytes_of_text(response->log_offset), INT64_MAX, &offset) ||
        !text_to_u64(bytes_of_text(response->log_size), INT64_MAX, &size) || length > PIECE_MAX)
        return failure(err, ERROR_INVALID, "the registry answered without the size of the log: it is older than this program");
    if (offset != reading->offset || size < offset + length)
        return failure(err, ERROR_CORRUPT, "the registry answered with another part of the log than was asked for");
    *size_out = size;
    return SUCCESS;
}

/* `errno` is that of the write that failed. */
static struct result not_written(const struct reading *reading, struct error *err)
{
    return failure(err, ERROR_FULL, "can't write %s: %s", reading->out == stdout ? "to standard output" : "the log",
                   strerror(errno));
}

/* One answer. */
static struct result take_piece(struct reading *reading, const struct http_response *response, bool *is_new_out,
                                struct error *err)
{
    const struct bytes piece = buffer_bytes(&response->body);
    uint64_t size = 0;

    TRY(check_piece(reading, response, &size, err));
    printed_add(reading->shown, piece, reading->out);
    if (ferror(reading->out) != 0) return not_written(reading, err);
    reading->offset += piece.length;
    const bool is_whole = reading->offset == size;
    *is_new_out = piece.length > 0;
    reading->is_over = reading->follows ? is_whole && strcmp(response->log_end, "true") == 0 : is_whole || !*is_new_out;
    return SUCCESS;
}

static struct result read_piece(struct reading *reading, bool *is_new_out, struct error *err)
{
    OWNED_RESPONSE response = RESPONSE;

    TRY(get_piece(reading, &response, err));
    return take_piece(reading, &response, is_new_out, err);
}

static struct result flush(const struct reading *reading, struct error *err)
{
    return fflush(reading->out) == 0 ? SUCCESS : not_written(reading, err);
}

/* ---- the last lines ---- */

static size_t begin_of_last(struct bytes text, uint64_t lines)
{
    size_t at = text.length;

    if (at > 0 && text.data[at - 1] == '\n') at--;
    for (; at > 0; at--)
        if (text.data[at - 1] == '\n' && --lines == 0) break;
    return at;
}

static struct result size_of_log(struct reading *reading, uint64_t *size_out, struct error *err)
{
    OWNED_RESPONSE response = RESPONSE;

    reading->offset = 0;
    TRY(get_piece(reading, &response, err));
    return check_piece(reading, &response, size_out, err);
}

/* Within the last piece, however long its lines are. */
static struct result show_tail(struct reading *reading, struct error *err)
{
    struct buffer OWNED_BUFFER last = BUFFER(2 * PIECE_MAX);
    uint64_t size = 0;

    TRY(size_of_log(reading, &size, err));
    reading->offset = size > PIECE_MAX ? size - PIECE_MAX : 0;
    while (reading->offset < size) {
        OWNED_RESPONSE response = RESPONSE;
        uint64_t ignored = 0;
        TRY(get_piece(reading, &response, err));
        TRY(check_piece(reading, &response, &ignored, err));
        if (response.body.length == 0) break;
        TRY(buffer_add(&last, response.body.data, response.body.length, err));
        reading->offset += response.body.length;
    }
    const struct bytes text = buffer_bytes(&last);
    const size_t begin = begin_of_last(text, reading->tail);
    printed_add(reading->shown, (struct bytes){text.data + begin, text.length - begin}, reading->out);
    reading->tail = 0; /* a later attempt is shown as a whole */
    return flush(reading, err);
}

/* To the end of one attempt; without `follows`, to the end of what is there. */
static struct result read_attempt(struct reading *reading, struct error *err)
{
    unsigned tries = 0, silent = 0;

    reading->is_over = false;
    if (reading->tail > 0) TRY(show_tail(reading, err));
    while (!reading->is_over) {
        bool is_new = false;
        const struct result read = read_piece(reading, &is_new, err);
        if (!read.ok && run_tries_again(reading->session, &tries, err)) continue;
        TRY(read);
        tries = 0;
        if (is_new) TRY(flush(reading, err));
        silent = is_new ? 0 : silent + 1;
        if (silent > 1) look_rest(silent); /* a registry that answers at once, although it might wait */
    }
    printed_end(reading->shown, reading->out);
    return SUCCESS;
}

/* ---- what is not there ---- */

/* The runner of the run has signed how long the log was. ERROR_CORRUPT: the registry has less. */
static struct result check_length(const struct reading *reading, const json_t *run, uint64_t attempt, struct error *err)
{
    OWNED(run_envelope) *result = NULL;

    TRY(run_signed(run, RUN_RESULT, &result, err));
    if (!run_result_is_of(result, attempt, reading->node)) return SUCCESS;
    const uint64_t whole = (uint64_t)run_integer(result, "predicate.runDetails.sijil_usage.log_bytes");
    if (reading->offset >= whole) return SUCCESS;
    return failure(err, ERROR_CORRUPT,
                   "the log is cut: the registry has %" PRIu64 " of its %" PRIu64
                   " bytes, because the runner could not send the rest",
                   reading->offset, whole);
}

/* After the last byte: nothing that is missing passes without a word. */
static struct result check_whole(const struct reading *reading, const json_t *run, struct error *err)
{
    const uint64_t newest = (uint64_t)number_of(run, "attempt"), attempt = reading->attempt == 0 ? newest : reading->attempt;
    char state[CELL_MAX], reason[CELL_MAX];

    if (reading->offset > 0) return check_length(reading, run, attempt, err);
    cell_text(json_object_get(run, "state"), state);
    cell_text(json_object_get(run, "reason"), reason);
    if (newest == 0)
        return failure(err, ERROR_NOT_FOUND, "there is no log, because no runner has begun this run: %.32s%s%.120s", state,
                       reason[0] == '\0' ? "" : ": ", reason);
    if (attempt > newest)
        return failure(err, ERROR_NOT_FOUND, "the run has had %" PRIu64 " of its attempts, and not %" PRIu64, newest, attempt);
    return check_length(reading, run, attempt, err);
}

static struct result check_node(const struct reading *reading, const json_t *run, struct error *err)
{
    OWNED(run_envelope) *request = NULL;

    if (reading->node == 0) return SUCCESS;
    TRY(run_signed_request(run, reading->address, &request, err));
    const int64_t nodes = run_integer(request, "spec.nodes");
    if ((int64_t)reading->node < nodes) return SUCCESS;
    return failure(err, ERROR_NOT_FOUND, "the run has %lld nodes, from 0 on: there is no node %" PRIu64, (long long)nodes,
                   reading->node);
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

/* *run_out: as it has ended. */
static struct result follow_all(struct following *following, json_t **run_out, struct error *err)
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
            *run_out = GIVE(run);
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
    struct reading reading = {.session = session, .address = address, .follows = true, .shown = &shown, .out = stdout};
    struct following following = {.reading = &reading, .invocation = invocation};
    OWNED_JSON run = NULL;
    struct error why = {0};

    TRY(follow_all(&following, &run, err));
    if (!check_whole(&reading, run, &why).ok) (void)fprintf(stderr, "%s\n", why.message); /* how the run has ended counts more */
    return SUCCESS;
}

/* ---- the command ---- */

struct result run_number_option(struct invocation *invocation, const struct run_number *option, uint64_t *number_out,
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
    if (reading->node == 0) TRY(run_log_reference(run, reading->address, &reference, err));
    if (reference.length > 0) invocation_explain(invocation, "try", buffer_text(&reference));
    return failure(err, why.kind, "%s", why.message);
}

static struct result read_one(struct reading *reading, struct error *err)
{
    OWNED_JSON run = NULL;

    if (reading->node > 0) {
        TRY(look(reading, &run, err));
        TRY(check_node(reading, run, err));
        json_decref(GIVE(run));
    }
    TRY(read_attempt(reading, err));
    TRY(look(reading, &run, err));
    return check_whole(reading, run, err);
}

/* ---- into a file ---- */

/* Only the very log that its runner has signed. */
static struct result save_whole(struct reading *reading, struct error *err)
{
    OWNED(run_envelope) *result = NULL;
    OWNED_JSON run = NULL;

    TRY(look(reading, &run, err));
    TRY(check_node(reading, run, err));
    const uint64_t attempt = reading->attempt == 0 ? (uint64_t)number_of(run, "attempt") : reading->attempt;
    TRY(run_saved_result(run, attempt, reading->node, &result, err));
    TRY(read_attempt(reading, err));
    TRY(check_length(reading, run, attempt, err));
    return run_saved_check(reading->session, reading->address, result, fileno(reading->out), err);
}

/* Standard output gets nothing of a log that is not the signed one. */
static struct result save_to_output(struct reading *reading, struct error *err)
{
    reading->out = tmpfile();
    if (reading->out == NULL) {
        reading->out = stdout;
        return failure(err, ERROR_FULL, "can't make a temporary file for the log: %s", strerror(errno));
    }
    struct result saved = save_whole(reading, err);
    if (saved.ok) saved = run_saved_copy(fileno(reading->out), err);
    (void)fclose(reading->out); /* all of it was flushed */
    reading->out = stdout;
    return saved;
}

/* Under another name, until it is known to be the signed one. */
static struct result save(struct reading *reading, const char *path, struct error *err)
{
    struct buffer OWNED_BUFFER part = BUFFER(PATH_MAX);
    const struct uuid number = uuid_random();
    char name[UUID_TEXT_SIZE];

    if (strcmp(path, "-") == 0) return save_to_output(reading, err);
    TRY(run_saved_allowed(path, err));
    uuid_format(&number, name);
    TRY(buffer_format(&part, err, "%s.%.8s.part", path, name));
    TRY(run_saved_begin(buffer_text(&part), &reading->out, err));
    const struct result saved = save_whole(reading, err);
    (void)fclose(reading->out); /* all of it was flushed */
    reading->out = stdout;
    return run_saved_end(buffer_text(&part), path, saved, err);
}

static struct result check_output(struct invocation *invocation, const struct reading *reading, const char *path,
                                  struct error *err)
{
    if (path == NULL || (!reading->follows && reading->tail == 0)) return SUCCESS;
    return line_check(invocation, failure(err, ERROR_INVALID, "--output writes a whole log: not with --follow or --tail"));
}

static struct result follow_to_the_end(struct following *following, struct error *err)
{
    OWNED_JSON run = NULL;

    TRY(follow_all(following, &run, err));
    return check_whole(following->reading, run, err);
}

struct result command_run_logs(struct invocation *invocation, struct error *err)
{
    struct printed shown = {.is_terminal = isatty(STDOUT_FILENO) == 1};
    struct reading reading = {.follows = invocation_option(invocation, 'f') != NULL, .shown = &shown, .out = stdout};
    struct following following = {.reading = &reading, .invocation = invocation};
    const char *path = invocation_option(invocation, 'o');
    OWNED(session) *session = NULL;
    struct run_address address;

    TRY(run_address_of(invocation, &address, err));
    TRY(run_number_option(invocation, &(struct run_number){'t', "tail", 1, UINT32_MAX}, &reading.tail, err));
    TRY(run_number_option(invocation, &(struct run_number){'n', "node", 0, RUN_NODES_MAX - 1}, &reading.node, err));
    TRY(run_number_option(invocation, &(struct run_number){'a', "attempt", 1, RUN_ATTEMPTS_MAX}, &reading.attempt, err));
    TRY(check_output(invocation, &reading, path, err));
    if (path != NULL) shown.is_terminal = false;
    TRY(command_session(invocation, address.host, &session, err));
    reading.session = session;
    reading.address = &address;
    const bool follows_all = reading.follows && reading.attempt == 0;
    const struct result read = path != NULL  ? save(&reading, path, err)
                               : follows_all ? follow_to_the_end(&following, err)
                                             : read_one(&reading, err);
    return read.ok ? SUCCESS : explain_removed(invocation, &reading, err);
}
