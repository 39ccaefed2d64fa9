/* slurmrestd: one call, its errors, and which versions it has. */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "runner/slurm/slurm_priv.h"

#define TOKEN_MAX 4096
#define HTTP_OK   200
#define NO_JOB    2017 /* ESLURM_INVALID_JOB_ID: the job never existed, or ended a while ago */

static struct result on_piece(void *context, long status, struct bytes piece, struct error *err)
{
    (void)status;
    return buffer_add(context, piece.data, piece.length, err);
}

static struct result read_token(const struct slurm *slurm, struct buffer *token, struct error *err)
{
    struct error why = {0};

    if (slurm->token_file[0] == '\0') return buffer_add_text(token, "", err);
    if (!file_read_private(slurm->token_file, token, &why).ok)
        return failure(err, why.kind == ERROR_NO_MEMORY ? ERROR_NO_MEMORY : ERROR_DENIED, "Slurm's token, %.160s: %.160s",
                       slurm->token_file, why.message);
    while (token->length > 0 && (token->data[token->length - 1] == '\n' || token->data[token->length - 1] == '\r'))
        buffer_truncate(token, token->length - 1);
    return SUCCESS;
}

bool slurm_read_errors(const json_t *answer, char text_out[SLURM_TEXT_SIZE])
{
    const json_t *first = json_array_get(json_object_get(answer, "errors"), 0);
    const char *error = json_text_of(first, "error"), *description = json_text_of(first, "description");
    char text[2 * SLURM_TEXT_SIZE];

    if (first == NULL) return false;
    (void)snprintf(text, sizeof text, "%.120s%s%.120s", error == NULL ? "" : error,
                   error != NULL && description != NULL ? ": " : "", description == NULL ? "" : description);
    slurm_copy_text(text_out, SLURM_TEXT_SIZE, text[0] == '\0' ? "it gives no reason" : text);
    return true;
}

static bool is_about_no_job(const json_t *answer)
{
    int64_t number = 0;

    return json_integer_of(json_array_get(json_object_get(answer, "errors"), 0), "error_number", &number) && number == NO_JOB;
}

static struct result check_outcome(const struct slurm *slurm, const struct outgoing_outcome *outcome, struct error *err)
{
    if (outcome->end == OUTGOING_ANSWERED) return SUCCESS;
    if (outcome->end == OUTGOING_TOO_LARGE)
        return failure(err, ERROR_LIMIT, "slurmrestd's answer is larger than %d MiB", SLURM_ANSWER_MAX >> 20);
    return failure(err,
                   outcome->end == OUTGOING_BROKEN || outcome->end == OUTGOING_NOT_AGAIN ? ERROR_UNCERTAIN : ERROR_UNAVAILABLE,
                   "slurmrestd at %.160s: %s", slurm->place, outcome->reason);
}

static struct result read_answer(struct bytes text, long status, json_t **answer_out, struct error *err)
{
    OWNED_JSON answer = NULL;
    struct error why = {0};
    char reason[SLURM_TEXT_SIZE];

    if (status == 401 || status == 403)
        return failure(err, ERROR_DENIED, "slurmrestd refuses the token (HTTP status %ld)", status);
    if (status == 404) return failure(err, ERROR_NOT_FOUND, "slurmrestd has no such path");
    if (!json_read_any_number(text, SLURM_ANSWER_MAX, &answer, &why).ok) {
        if (why.kind == ERROR_NO_MEMORY) return failure(err, ERROR_NO_MEMORY, "no memory for an answer of slurmrestd");
        return failure(err, ERROR_UNAVAILABLE, "slurmrestd's answer (HTTP status %ld) can't be read: %.100s", status,
                       why.message);
    }
    if (slurm_read_errors(answer, reason))
        return failure(err, is_about_no_job(answer) ? ERROR_NOT_FOUND : ERROR_DENIED, "Slurm refuses: %s", reason);
    if (status != HTTP_OK) return failure(err, ERROR_UNAVAILABLE, "slurmrestd answers with HTTP status %ld", status);
    *answer_out = GIVE(answer);
    return SUCCESS;
}

static struct result call_with_token(struct slurm *slurm, struct outgoing_request *request, struct outgoing_outcome *outcome,
                                     struct error *err)
{
    struct buffer OWNED_BUFFER token = BUFFER(TOKEN_MAX);
    struct result called = read_token(slurm, &token, err);

    if (called.ok) {
        const struct outgoing_header headers[] = {{"X-SLURM-USER-NAME", slurm->user},
                                                  {"X-SLURM-USER-TOKEN", buffer_text(&token)},
                                                  {"Content-Type", "application/json"},
                                                  {"Accept", "application/json"}};
        request->headers = headers;
        request->header_count = sizeof headers / sizeof headers[0];
        called = outgoing_call(slurm->outgoing, request, outcome, err);
    }
    if (token.data != NULL) explicit_bzero(token.data, token.length);
    return called;
}

struct result slurm_rest_call(struct slurm *slurm, const char *method, const char *path, const json_t *body, json_t **answer_out,
                              struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(SLURM_ANSWER_MAX), answer = BUFFER(SLURM_ANSWER_MAX);
    struct outgoing_outcome outcome;
    char url[2 * SLURM_PATH_SIZE];

    (void)snprintf(url, sizeof url, "%s/slurm/v0.0.%d%s", slurm->origin, slurm->family, path);
    if (body != NULL) TRY(json_write_canonical(&text, body, err));
    struct outgoing_request request = {
        .method = method,
        .url = url,
        .with_body = body != NULL,
        .body = buffer_bytes(&text),
        .is_repeatable = strcmp(method, "GET") == 0,
        .limits = {.connect_s = 5, .silence_s = 20, .slowest_rate = 1, .whole_s = 60, .answer_bytes = SLURM_ANSWER_MAX},
        .gives_up = slurm->gives_up,
        .take = on_piece,
        .context = &answer};
    TRY(call_with_token(slurm, &request, &outcome, err));
    TRY(check_outcome(slurm, &outcome, err));
    return read_answer(buffer_bytes(&answer), outcome.status, answer_out, err);
}

struct result slurm_rest_discover(struct slurm *slurm, struct error *err)
{
    for (slurm->family = SLURM_NEWEST; slurm->family >= SLURM_OLDEST; slurm->family--) {
        OWNED_JSON answer = NULL;
        (void)snprintf(slurm->version, sizeof slurm->version, "v0.0.%d", slurm->family);
        const struct result answered = slurm_rest_call(slurm, "GET", "/ping", NULL, &answer, err);
        if (answered.ok || err->kind != ERROR_NOT_FOUND) return answered;
    }
    return failure(err, ERROR_INVALID,
                   "%.160s has none of the versions v0.0.%d to v0.0.%d of Slurm's API: is it slurmrestd? Start it with -s "
                   "openapi/v0.0.%d",
                   slurm->place, SLURM_OLDEST, SLURM_NEWEST, SLURM_OLDEST);
}
