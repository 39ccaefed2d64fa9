/* `sijil admin grant`: many roles from a file, such as a directory's nightly export. */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/terminal_text.h"
#include "base/text.h"
#include "client/commands/api_priv.h"
#include "client/commands/commands_priv.h"
#include "client/local.h"

#define FILE_MAX  ((size_t)64 << 20)
#define ROW_MAX   4096 /* bytes of one line */
#define WHY_SIZE  512
#define BATCH_MAX 1000 /* as docs/api.md says */
#define TRIES_MAX 3    /* of a batch whose answer was lost: what was given is there already then */

/* The rows are {"line": number, "place": organisation, "body": what is asked for}. */
struct walk {
    struct invocation *invocation;
    struct session *session;
    json_t *rows, *refused;
    size_t given, there;
};

static struct result refuse(const struct walk *walk, json_int_t line, json_int_t status, const char *why, struct error *err)
{
    json_t *row = json_pack("{s:I, s:I, s:s}", "line", line, "status", status, "detail", why == NULL ? "" : why);
    char shown[WHY_SIZE]; /* text of the registry, or of the file */

    if (json_array_append_new(walk->refused, row) != 0) return api_no_memory(err);
    (void)text_copy(shown, sizeof shown, why == NULL ? "refused" : why);
    terminal_sanitize(shown);
    if (!walk->invocation->json) (void)fprintf(stderr, "line %lld: %s\n", (long long)line, shown);
    return SUCCESS;
}

/* "acme" of "acme/models": a batch is for one organisation. */
static json_t *place_of(const char *scope)
{
    return json_stringn(scope, strcspn(scope, "/"));
}

/* A robot may be named as in `admin robot create`. */
static bool name_robot(json_t *body)
{
    const char *robot = json_text_of(body, "robot");
    char name[ROBOT_LOGIN_SIZE];

    if (robot == NULL || (strlen(robot) == 36 && strchr(robot, '$') == NULL && strchr(robot, '/') == NULL)) return true;
    robot_login_name(robot, name);
    return json_object_set_new(body, "robot", json_string(name)) == 0;
}

static struct result add_row(const struct walk *walk, json_int_t line, struct bytes text, struct error *err)
{
    const char *within = invocation_option(walk->invocation, 's');
    struct error why = {0};
    OWNED_JSON body = NULL;

    if (text.length > ROW_MAX) return refuse(walk, line, 400, "a line has at most 4096 bytes", err);
    if (!json_read(text, ROW_MAX, &body, &why).ok) return refuse(walk, line, 400, why.message, err);
    const char *scope = json_text_of(body, "scope");
    if (!json_is_object(body) || scope == NULL)
        return refuse(walk, line, 400, "a line is an object with role, scope, and robot, or issuer and subject", err);
    if (!name_robot(body)) return api_no_memory(err);
    json_t *row =
        json_pack("{s:I, s:o, s:O}", "line", line, "place", within != NULL ? json_string(within) : place_of(scope), "body", body);
    return json_array_append_new(walk->rows, row) == 0 ? SUCCESS : api_no_memory(err);
}

static struct result read_file(const struct walk *walk, const char *path, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(FILE_MAX);
    json_int_t line = 0;

    TRY(local(file_read(path, &text, err), path, err));
    for (size_t at = 0; at < text.length; at++) {
        const uint8_t *begin = text.data + at, *end = memchr(begin, '\n', text.length - at);
        const size_t length = end == NULL ? text.length - at : (size_t)(end - begin);
        line++;
        if (length > 0 && memchr("\r#", begin[0], 2) == NULL) TRY(add_row(walk, line, (struct bytes){begin, length}, err));
        at += length;
    }
    return SUCCESS;
}

/* Takes the next rows of one place out of the list. */
static struct result take_batch(const struct walk *walk, json_t *batch, json_t *bodies, const char **place_out, struct error *err)
{
    json_t *left = json_array();
    bool is_good = left != NULL;

    *place_out = json_text_of(json_array_get(walk->rows, 0), "place");
    for (size_t i = 0; is_good && i < json_array_size(walk->rows); i++) {
        json_t *row = json_array_get(walk->rows, i);
        const bool is_next = json_array_size(batch) < BATCH_MAX && strcmp(json_text_of(row, "place"), *place_out) == 0;
        is_good = json_array_append(is_next ? batch : left, row) == 0;
        if (is_next) is_good = is_good && json_array_append(bodies, json_object_get(row, "body")) == 0;
    }
    if (is_good) is_good = json_array_clear(walk->rows) == 0 && json_array_extend(walk->rows, left) == 0;
    json_decref(left);
    return is_good ? SUCCESS : api_no_memory(err);
}

/* What was too much for a limit comes again. */
static struct result take_answer(struct walk *walk, json_t *row, const json_t *answer, bool *is_too_fast, struct error *err)
{
    const int64_t status = number_of(answer, "status");

    if (status == 201) walk->given++;
    else if (json_is_true(json_object_get(answer, "is_there"))) walk->there++;
    else if (status == 429) {
        *is_too_fast = true;
        return json_array_append(walk->rows, row) == 0 ? SUCCESS : api_no_memory(err);
    } else {
        return refuse(walk, (json_int_t)number_of(row, "line"), (json_int_t)status, json_text_of(answer, "detail"), err);
    }
    return SUCCESS;
}

static struct result take_answers(struct walk *walk, const json_t *batch, const json_t *answer, struct error *err)
{
    static const struct error too_fast = {ERROR_LIMIT, "rights are made too fast here"};
    const json_t *list = json_object_get(answer, "bindings");
    bool is_too_fast = false;

    if (json_array_size(list) != json_array_size(batch))
        return failure(err, ERROR_INVALID, "the registry answered for another number of roles");
    for (size_t i = 0; i < json_array_size(batch); i++)
        TRY(take_answer(walk, json_array_get(batch, i), json_array_get(list, i), &is_too_fast, err));
    if (!walk->invocation->json)
        (void)fprintf(stderr, "%zu given, %zu there already, %zu refused, %zu left\n", walk->given, walk->there,
                      json_array_size(walk->refused), json_array_size(walk->rows));
    if (is_too_fast) session_pause(walk->session, 5, &too_fast);
    return SUCCESS;
}

/* If the answer was lost, the roles that were given are there already at the next try. */
static struct result send_batch(struct walk *walk, const char *place, const json_t *bodies, json_t **answer_out,
                                struct error *err)
{
    struct buffer OWNED_BUFFER path = BUFFER(1024);
    OWNED_JSON body = json_pack("{s:O}", "bindings", bodies);

    if (body == NULL) return api_no_memory(err);
    TRY(buffer_add_text(&path, "/bindings/batch?scope=", err));
    TRY(http_escape(&path, place, err));
    for (unsigned tries = 1;; tries++) {
        const struct result sent = api_call_in(walk->session, "POST", buffer_text(&path), body, answer_out, err);
        if (sent.ok || err->kind != ERROR_CONFLICT || tries == TRIES_MAX) return sent;
    }
}

static struct result send_some(struct walk *walk, struct error *err)
{
    OWNED_JSON batch = json_array();
    OWNED_JSON bodies = json_array();
    OWNED_JSON answer = NULL;
    const char *place = NULL;

    if (batch == NULL || bodies == NULL) return api_no_memory(err);
    TRY(take_batch(walk, batch, bodies, &place, err));
    TRY(send_batch(walk, place, bodies, &answer, err));
    return take_answers(walk, batch, answer, err);
}

static struct result conclude(const struct walk *walk, struct error *err)
{
    const size_t refused = json_array_size(walk->refused);

    if (walk->invocation->json) {
        OWNED_JSON said = json_pack("{s:I, s:I, s:O}", "given", (json_int_t)walk->given, "there", (json_int_t)walk->there,
                                    "refused", walk->refused);
        if (said == NULL) return api_no_memory(err);
        TRY(api_print_json(said, err));
    }
    if (refused == 0) return SUCCESS;
    return failure(err, ERROR_DENIED, "%zu of the lines were refused; all others are given", refused);
}

struct result command_grant(struct invocation *invocation, struct error *err)
{
    const char *path = invocation_option(invocation, 'f');
    OWNED(session) *session = NULL;
    OWNED_JSON rows = json_array();
    OWNED_JSON refused = json_array();
    struct walk walk = {.invocation = invocation, .rows = rows, .refused = refused};

    if (path == NULL) return line_check(invocation, failure(err, ERROR_INVALID, "--file FILE: a role to be given on each line"));
    if (rows == NULL || refused == NULL) return api_no_memory(err);
    TRY(read_file(&walk, path, err));
    TRY(command_session(invocation, invocation->operands[0], &session, err));
    walk.session = session;
    while (json_array_size(walk.rows) > 0) TRY(send_some(&walk, err));
    return conclude(&walk, err);
}
