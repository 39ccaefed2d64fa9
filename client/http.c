#include "client/http.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "client/trace.h"
#include "outgoing/call.h"

#define CONNECT_SECONDS 15
#define IDLE_SECONDS    60 /* a transfer that moves less than one byte a second for so long is cut */
#define HEADERS_MAX     9

struct http {
    struct outgoing *outgoing;
    char origin[300]; /* "https://host:port" */
    bool verbose;
    const atomic_bool *gives_up;     /* or NULL */
    const struct ecdsa_key *key;     /* of proofs; NULL: none */
    const struct ecdsa_key *act_key; /* signs requests that change something; NULL: none */
    char nonce[DPOP_NONCE_MAX];      /* the newest that the registry has told */
};

/* The state that the callbacks of one request share. */
struct exchange {
    const struct http_request *request;
    struct http_response *response;
    struct http *http;
    const char *proof; /* or NULL */
    const char *act;   /* Sijil-Act; NULL: none */
    uint64_t sent, received;
};

struct result http_new(const struct http_options *options, struct http **http_out, struct error *err)
{
    OWNED(http) *http = memory_zeroed(1, sizeof *http);

    if (http == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a connection");
    const int length = snprintf(http->origin, sizeof http->origin, "https://%s", options->host);
    if (length < 0 || (size_t)length >= sizeof http->origin) return failure(err, ERROR_INVALID, "the host's name is too long");
    http->verbose = options->verbose;
    http->act_key = options->act_key;
    const struct outgoing_options rules = {.reach = OUTGOING_ANY,
                                           .ca_file = options->ca_file,
                                           .certificate_file = options->certificate_file,
                                           .key_file = options->key_file,
                                           .proxy = options->proxy};
    TRY(outgoing_new(&rules, &http->outgoing, err));
    *http_out = GIVE(http);
    return SUCCESS;
}

static struct result on_send(void *context, uint8_t *destination, size_t room, size_t *length_out, struct error *err)
{
    struct exchange *exchange = context;
    const struct http_upload *upload = exchange->request->upload;
    const uint64_t left = upload->length - exchange->sent;
    const size_t wanted = left < room ? (size_t)left : room;

    const ssize_t length = pread(upload->fd, destination, wanted, (off_t)(upload->offset + exchange->sent));
    if (length < 0 || (length == 0 && wanted > 0))
        return failure(err, ERROR_INVALID, "can't read a file that is sent: %s",
                       length == 0 ? "it became shorter meanwhile" : strerror(errno));
    exchange->sent += (uint64_t)length;
    if (exchange->request->moved != NULL) exchange->request->moved(exchange->request->moved_context, exchange->sent);
    *length_out = (size_t)length;
    return SUCCESS;
}

static struct result on_receive(void *context, long status, struct bytes piece, struct error *err)
{
    struct exchange *exchange = context;
    const struct http_request *request = exchange->request;

    if (request->take != NULL && status >= 200 && status < 300) TRY(request->take(request->context, piece, err));
    else TRY(buffer_add(&exchange->response->body, piece.data, piece.length, err));
    exchange->received += piece.length;
    if (request->take != NULL && request->moved != NULL) request->moved(request->moved_context, exchange->received);
    return SUCCESS;
}

static void on_head(void *context, struct bytes line)
{
    http_response_take(((struct exchange *)context)->response, line);
}

static bool changes_something(const struct http_request *request)
{
    return strcmp(request->method, "GET") != 0 && strcmp(request->method, "HEAD") != 0;
}

static size_t take_headers(const struct exchange *exchange, struct outgoing_header headers_out[HEADERS_MAX])
{
    const struct http_request *request = exchange->request;
    const struct outgoing_header all[HEADERS_MAX] = {{"Authorization", request->authorization},
                                                     {"Content-Type", request->content_type},
                                                     {"Accept", request->accept},
                                                     {"Range", request->range},
                                                     {"Content-Range", request->content_range},
                                                     {"DPoP", exchange->proof},
                                                     {"Sijil-Act", exchange->act},
                                                     {"Sijil-Runner-Session", request->session},
                                                     {"Idempotency-Key", request->repeat_key}};
    size_t count = 0;

    for (size_t i = 0; i < HEADERS_MAX; i++)
        if (all[i].value != NULL) headers_out[count++] = all[i];
    return count;
}

static struct result check_same_host(const struct http *http, const char *url, struct error *err)
{
    const size_t length = strlen(http->origin);

    if (strncmp(url, http->origin, length) == 0 && (url[length] == '/' || url[length] == '\0')) return SUCCESS;
    /* The host only, because the rest may hold an upload's secret. */
    const size_t scheme = strcspn(url, ":") + strspn(url + strcspn(url, ":"), ":/");
    return failure(err, ERROR_DENIED, "the registry sent us to another host, which we do not follow: %.*s",
                   (int)(scheme + strcspn(url + scheme, "/?#")), url);
}

/* For --verbose. The request does not fail if there is no memory to show it. */
static void show(const struct exchange *exchange, int64_t began_ms)
{
    struct buffer OWNED_BUFFER text = BUFFER(8192);
    struct error ignored = {0};
    const struct http_request *request = exchange->request;
    const struct trace trace = {.origin = exchange->http->origin,
                                .request = request,
                                .response = exchange->response,
                                .sent_bytes = request->upload != NULL ? exchange->sent : request->body.length,
                                .received_bytes = exchange->received,
                                .duration_ms = clock_monotonic_ms() - began_ms};

    if (exchange->http->verbose && trace_write(&trace, &text, &ignored).ok) (void)fputs(buffer_text(&text), stderr);
}

static struct result refused(const struct http *http, const struct outgoing_outcome *outcome, struct error *err)
{
    switch (outcome->end) {
    case OUTGOING_GIVEN_UP: return failure(err, ERROR_UNAVAILABLE, "given up, because something else failed");
    case OUTGOING_NOT_AGAIN:
        return failure(err, ERROR_UNAVAILABLE,
                       "%s: the connection ended before the answer: look whether it was done, then try again", http->origin);
    case OUTGOING_UNTRUSTED:
        if (strstr(outcome->reason, "subject name") != NULL)
            return failure(err, ERROR_DENIED,
                           "%s: its certificate is good for another name: use a name that stands in it (%.100s)", http->origin,
                           outcome->reason);
        return failure(
            err, ERROR_DENIED,
            "%s: its certificate can't be trusted: %.120s (name its authority with --ca-file of sijil login or sijil ci login, or with SIJIL_CA_FILE)",
            http->origin, outcome->reason);
    case OUTGOING_ANSWERED:
    case OUTGOING_FORBIDDEN:
    case OUTGOING_MALFORMED:
    case OUTGOING_TOO_LARGE:
    case OUTGOING_BROKEN: break;
    }
    return failure(err, ERROR_UNAVAILABLE, "%s: %.150s", http->origin, outcome->reason);
}

static struct result exchange_run(struct exchange *exchange, const char *url, struct outgoing_outcome *outcome_out,
                                  struct error *err)
{
    const struct http_request *request = exchange->request;
    const struct http_upload *upload = request->upload;
    const struct outgoing_source source = {.read = on_send, .context = exchange, .length = upload == NULL ? 0 : upload->length};
    struct outgoing_header headers[HEADERS_MAX];
    const struct outgoing_request call = {
        .method = request->method,
        .url = url,
        .headers = headers,
        .header_count = take_headers(exchange, headers),
        .with_body = changes_something(request),
        .body = request->body,
        .source = upload == NULL ? NULL : &source,
        .is_repeatable = !changes_something(request),
        .limits = {.connect_s = CONNECT_SECONDS,
                   .silence_s = IDLE_SECONDS,
                   .slowest_rate = 1,
                   .answer_bytes = UINT64_MAX}, /* a blob may have any length; other bodies have HTTP_ANSWER_MAX */
        .gives_up = exchange->http->gives_up,
        .head = on_head,
        .take = on_receive,
        .context = exchange};

    return outgoing_call(exchange->http->outgoing, &call, outcome_out, err);
}

static struct result sign_act(const struct http *http, const struct dpop_call *call, const struct http_request *request,
                              struct buffer *act, struct error *err)
{
    const struct dpop_act signed_act = {call->url + strlen(http->origin), request->body};

    if (http->act_key == NULL || !changes_something(request) || request->authorization == NULL) return SUCCESS;
    return dpop_write_act(http->act_key, call, &signed_act, act, err);
}

static struct result call_once(struct http *http, const struct http_request *request, const char *url,
                               struct http_response *response, struct error *err)
{
    struct buffer OWNED_BUFFER proof = BUFFER(DPOP_PROOF_MAX), act = BUFFER(DPOP_PROOF_MAX);
    struct exchange exchange = {.request = request, .response = response, .http = http};
    struct outgoing_outcome outcome = {.end = OUTGOING_BROKEN};
    const struct dpop_call call = {request->method, url, request->authorization, http->nonce};

    response->status = 0;
    /* What may be left from the request before. */
    response->request_id[0] = response->audit[0] = response->nonce[0] = response->retry_after[0] = '\0';
    if (http->key != NULL) TRY(dpop_write(http->key, &call, &proof, err));
    if (http->key != NULL) exchange.proof = buffer_text(&proof);
    TRY(sign_act(http, &call, request, &act, err));
    if (act.length > 0) exchange.act = buffer_text(&act);
    const int64_t began_ms = clock_monotonic_ms();
    const struct result called = exchange_run(&exchange, url, &outcome, err);
    response->was_cut = outcome.was_sent && (outcome.end == OUTGOING_NOT_AGAIN || outcome.end == OUTGOING_BROKEN);
    response->status = outcome.status;
    response->length = outcome.length;
    show(&exchange, began_ms);
    TRY(called);
    return outcome.end == OUTGOING_ANSWERED ? SUCCESS : refused(http, &outcome, err);
}

/* RFC 9449, 8 and 9: 400 at /token, 401 elsewhere. */
static bool wants_other_nonce(const struct http *http, const struct http_response *response)
{
    return http->key != NULL && (response->status == 400 || response->status == 401) && response->nonce[0] != '\0' &&
           strcmp(response->nonce, http->nonce) != 0;
}

static void take_nonce(struct http *http, const struct http_response *response)
{
    if (response->nonce[0] != '\0') memcpy(http->nonce, response->nonce, sizeof http->nonce);
}

struct result http_call(struct http *http, const struct http_request *request, struct http_response *response, struct error *err)
{
    char url[4096];
    const bool whole = strncmp(request->path, "https://", 8) == 0;

    if (whole) TRY(check_same_host(http, request->path, err));
    const int length = snprintf(url, sizeof url, "%s%s", whole ? "" : http->origin, request->path);
    if (length < 0 || (size_t)length >= sizeof url) return failure(err, ERROR_LIMIT, "a URL of %d characters", length);

    TRY(call_once(http, request, url, response, err));
    if (wants_other_nonce(http, response)) {
        take_nonce(http, response);
        buffer_clear(&response->body);
        TRY(call_once(http, request, url, response, err));
    }
    take_nonce(http, response);
    return SUCCESS;
}

void http_use_key(struct http *http, const struct ecdsa_key *key)
{
    http->key = key;
}

void http_share_key(struct http *http, const struct http *from)
{
    http->key = from->key;
    memcpy(http->nonce, from->nonce, sizeof http->nonce);
}

void http_give_up_when(struct http *http, const atomic_bool *gives_up)
{
    http->gives_up = gives_up;
}

const char *http_host(const struct http *http)
{
    return http->origin + strlen("https://");
}

void http_free(struct http *http)
{
    if (http == NULL) return;
    outgoing_free(http->outgoing);
    free(http);
}
