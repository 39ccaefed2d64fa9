/* One call of the API, and its errors. */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/text.h"
#include "runner/kubernetes/kubernetes_priv.h"

#define TOKEN_LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~+/="

static struct result on_piece(void *context, long status, struct bytes piece, struct error *err)
{
    (void)status;
    return buffer_add(context, piece.data, piece.length, err);
}

static void wipe(struct buffer *buffer)
{
    if (buffer->data != NULL) explicit_bzero(buffer->data, buffer->length);
}

/* "Bearer " and the token. */
static struct result read_token(const struct kubernetes *kubernetes, struct buffer *header, struct error *err)
{
    struct error why = {0};

    TRY(buffer_add_text(header, "Bearer ", err));
    const size_t begin = header->length;
    if (!file_read_private(kubernetes->token_file, header, &why).ok)
        return failure(err, why.kind == ERROR_NO_MEMORY ? ERROR_NO_MEMORY : ERROR_DENIED,
                       "the token for Kubernetes, %.100s: %.120s", kubernetes->token_file, why.message);
    while (header->length > begin && (header->data[header->length - 1] == '\n' || header->data[header->length - 1] == '\r'))
        buffer_truncate(header, header->length - 1);
    const struct bytes token = {header->data + begin, header->length - begin};
    if (token.length == 0 || !text_consists_of(token, TOKEN_LETTERS))
        return failure(err, ERROR_DENIED, "the token for Kubernetes, %.160s: it is no token", kubernetes->token_file);
    return SUCCESS;
}

static struct result check_outcome(const struct kubernetes *kubernetes, const struct outgoing_request *request,
                                   const struct outgoing_outcome *outcome, struct error *err)
{
    const bool may_have_arrived = outcome->end == OUTGOING_BROKEN || outcome->end == OUTGOING_NOT_AGAIN;

    if (outcome->end == OUTGOING_ANSWERED) return SUCCESS;
    if (outcome->end == OUTGOING_TOO_LARGE)
        return failure(err, ERROR_LIMIT, "an answer of the Kubernetes API is larger than %d MiB", KUBERNETES_ANSWER_MAX >> 20);
    return failure(err, may_have_arrived && !request->is_repeatable ? ERROR_UNCERTAIN : ERROR_UNAVAILABLE,
                   "the Kubernetes API at %.120s: %.100s", kubernetes->origin, outcome->reason);
}

static enum error_kind kind_of(long status, bool is_change)
{
    switch (status) {
    case 401:
    case 403: return ERROR_DENIED;
    case 404: return ERROR_NOT_FOUND;
    case 409: return ERROR_CONFLICT;
    case 429: return ERROR_UNAVAILABLE;
    default: break;
    }
    if (status >= 500) return is_change ? ERROR_UNCERTAIN : ERROR_UNAVAILABLE;
    return status >= 400 ? ERROR_INVALID : ERROR_UNAVAILABLE; /* a redirect is not followed */
}

/* A token ends after hours, and somebody renews it or does not. */
static struct result refuse(const struct kubernetes *kubernetes, long status, bool is_change, const char *said, struct error *err)
{
    if (status == 401)
        return failure(err, ERROR_DENIED, "the Kubernetes API refuses the token (HTTP status 401): %.60s: renew %.120s", said,
                       kubernetes->token_file);
    return failure(err, kind_of(status, is_change), "the Kubernetes API refuses (HTTP status %ld): %s", status, said);
}

static struct result read_answer(const struct kubernetes *kubernetes, struct bytes text, long status, bool is_change,
                                 json_t **answer_out, struct error *err)
{
    OWNED_JSON answer = NULL;
    struct error why = {0};
    char said[KUBERNETES_TEXT_SIZE];
    const bool is_good = status >= 200 && status < 300;

    if (!json_read_any_number(text, KUBERNETES_ANSWER_MAX, &answer, &why).ok) {
        if (why.kind == ERROR_NO_MEMORY) return failure(err, ERROR_NO_MEMORY, "no memory for an answer of the Kubernetes API");
        if (is_good)
            return failure(err, is_change ? ERROR_UNCERTAIN : ERROR_UNAVAILABLE,
                           "an answer of the Kubernetes API can't be read: %.100s", why.message);
    }
    if (is_good) {
        *answer_out = GIVE(answer);
        return SUCCESS;
    }
    const char *message = json_text_of(answer, "message");
    kubernetes_copy_text(said, sizeof said, message == NULL ? "it gives no reason" : message);
    return refuse(kubernetes, status, is_change, said, err);
}

static struct result call_with_token(struct kubernetes *kubernetes, struct outgoing_request *request,
                                     struct outgoing_outcome *outcome, struct error *err)
{
    struct buffer OWNED_BUFFER header = BUFFER(KUBERNETES_TOKEN_MAX);
    struct result called = read_token(kubernetes, &header, err);

    if (called.ok) {
        const struct outgoing_header headers[] = {
            {"Authorization", buffer_text(&header)}, {"Content-Type", "application/json"}, {"Accept", "application/json"}};
        request->headers = headers;
        request->header_count = sizeof headers / sizeof headers[0];
        called = outgoing_call(kubernetes->outgoing, request, outcome, err);
    }
    wipe(&header);
    return called;
}

struct result kubernetes_call(struct kubernetes *kubernetes, const char *method, const char *path, struct bytes body,
                              json_t **answer_out, struct error *err)
{
    struct buffer OWNED_BUFFER answer = BUFFER(KUBERNETES_ANSWER_MAX);
    struct outgoing_outcome outcome;
    const bool is_change = strcmp(method, "GET") != 0;
    char url[3 * KUBERNETES_PATH_SIZE];

    (void)snprintf(url, sizeof url, "%s%s", kubernetes->origin, path);
    struct outgoing_request request = {
        .method = method,
        .url = url,
        .with_body = body.data != NULL,
        .body = body,
        .is_repeatable = !is_change,
        .limits = {.connect_s = 5, .silence_s = 20, .slowest_rate = 1, .whole_s = 60, .answer_bytes = KUBERNETES_ANSWER_MAX},
        .gives_up = kubernetes->gives_up,
        .take = on_piece,
        .context = &answer};
    struct result called = call_with_token(kubernetes, &request, &outcome, err);
    if (called.ok) called = check_outcome(kubernetes, &request, &outcome, err);
    if (called.ok) called = read_answer(kubernetes, buffer_bytes(&answer), outcome.status, is_change, answer_out, err);
    wipe(&answer); /* a TokenReview comes back with the token */
    return called;
}
