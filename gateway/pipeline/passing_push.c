/*
 * A push into a region of another gateway, or a list of referrers, whose manifests only that one can open: the request goes there as a whole, with its credential, and the answer of that gateway is the
 * client's. This gateway has decided the request, and recorded it, before the other one hears of it. A body goes through a ring.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/memory.h"
#include "base/text.h"
#include "base/thread.h"
#include "gateway/pipeline/exchange_priv.h"
#include "gateway/pipeline/passing_priv.h"
#include "registry/registry.h"

#define RING_SIZE    ((size_t)1 << 20)
#define ANSWER_MAX   ((size_t)5 << 20) /* a page of referrers; else an error, or nothing */
#define ANSWERS_MAX  25                /* headers of the answer: a pushed index has twelve tags */
#define TEXTS_SIZE   8192
#define CONNECT_S    5
#define SILENCE_S    60
#define SLOWEST_RATE 1
#define WHOLE_S      300    /* of a call whose body is here */
#define PLACE        "/v2/" /* so begins each address in an answer: the client sends its credential there */

struct push {
    struct request *request;
    struct passing_way way;
    struct outgoing_source source;
    struct outgoing_outcome outcome;
    struct error why;
    struct result result;
    size_t header_count;
    struct field headers[ANSWERS_MAX]; /* values in `texts`: the arena is not for two threads */
    char texts[TEXTS_SIZE];
    size_t text_size;
    struct buffer answer;
    atomic_bool gives_up;
    bool has_thread;
    struct thread thread; /* its mutex is for all members below */
    uint8_t *ring;
    uint64_t put, taken;
    bool has_ended, is_over; /* the client's body; the call */
};

bool passing_push_is_due(const struct request *request)
{
    const char *region = request->pair_count == 0 ? "" : request->pairs[0].resource.region;

    return request->route->handler->passes_on && !request->is_passed && request->principal->kind != PRINCIPAL_RUN &&
           passings_have(request->gateway->passings, region) && !registry_region_is_readable(request->gateway->registry, region);
}

/* ---- The answer ---- */

/* What an answer to a push may have; all else is of the connection, or of this gateway. */
static const char *name_of(struct bytes line, size_t *length_out)
{
    static const char *const names[] = {"Location",
                                        "Range",
                                        "Docker-Upload-UUID",
                                        "Docker-Content-Digest",
                                        "OCI-Subject",
                                        "OCI-Tag",
                                        "OCI-Chunk-Min-Length",
                                        "OCI-Filters-Applied",
                                        "Link",
                                        "ETag",
                                        "Warning",
                                        "Retry-After",
                                        "Content-Type",
                                        "Content-Length",
                                        "Content-Range"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        *length_out = strlen(names[i]);
        if (line.length > *length_out && line.data[*length_out] == ':' &&
            strncasecmp((const char *)line.data, names[i], *length_out) == 0)
            return names[i];
    }
    return NULL;
}

static void take_header(void *context, struct bytes line)
{
    struct push *push = context;
    size_t at = 0;
    const char *name = name_of(line, &at);

    if (line.length >= 5 && memcmp(line.data, "HTTP/", 5) == 0)
        push->header_count = push->text_size = 0; /* those of an interim answer are over */
    if (name == NULL || push->header_count == ANSWERS_MAX) return;
    at += at + 1 < line.length && line.data[at + 1] == ' ' ? 2 : 1;
    while (line.length > at && (line.data[line.length - 1] == '\r' || line.data[line.length - 1] == '\n')) line.length--;
    if (line.length < at || line.length - at >= sizeof push->texts - push->text_size) return;
    char *value = push->texts + push->text_size;
    memcpy(value, line.data + at, line.length - at);
    value[line.length - at] = '\0';
    push->text_size += line.length - at + 1;
    push->headers[push->header_count++] = (struct field){name, value};
}

static struct result take(void *context, long status, struct bytes piece, struct error *err)
{
    struct push *push = context;

    (void)status;
    return buffer_add(&push->answer, piece.data, piece.length, err);
}

static bool knows(void *context, struct bytes pem)
{
    const struct push *push = context;

    return passing_way_knows(&push->way, pem);
}

/* What is about the body, of which this gateway makes the header itself. */
static const char *of_body(const struct push *push, const char *name)
{
    for (size_t i = 0; i < push->header_count; i++)
        if (strcmp(push->headers[i].name, name) == 0) return push->headers[i].value;
    return NULL;
}

/* To HEAD: with the length that the body would have. */
static void answer_head(struct request *request, const struct push *push)
{
    const unsigned status = (unsigned)push->outcome.status;
    const char *length = of_body(push, "Content-Length");
    struct response_source described = {0}; /* HEAD never reads it */

    if (length == NULL || !text_to_u64(bytes_of_text(length), ANSWER_MAX, &described.length)) response_empty(request, status);
    else response_from_source(request, status, of_body(push, "Content-Type"), &described);
}

static void answer(struct request *request, struct push *push)
{
    const unsigned status = (unsigned)push->outcome.status;

    if (request->method == METHOD_HEAD) answer_head(request, push);
    else if (push->answer.length == 0) response_empty(request, status);
    else response_buffer(request, status, of_body(push, "Content-Type"), &push->answer, NULL);
    for (size_t i = 0; i < push->header_count; i++)
        if (strcmp(push->headers[i].name, "Content-Type") != 0 && strcmp(push->headers[i].name, "Content-Length") != 0)
            response_header(request, push->headers[i].name, "%s", push->headers[i].value);
    metric_add(&metrics_gateway[METRIC_PASSED], 1);
}

/* The addresses of an answer are of this host. */
static bool is_here(const struct push *push)
{
    bool is_here = true;

    for (size_t i = 0; i < push->header_count; i++) {
        const struct field *header = &push->headers[i];
        const char *begins = strcmp(header->name, "Location") == 0 ? PLACE : strcmp(header->name, "Link") == 0 ? "<" PLACE : "";
        is_here = is_here && strncmp(header->value, begins, strlen(begins)) == 0;
    }
    return is_here;
}

/*
 * A refusal by a rule is the client's, too. That its credential is none there, or that a part of that gateway is down, is not; nor is an answer that sends the client, with its credential, to
 * another host.
 */
static struct result conclude(struct request *request, struct push *push, struct error *err)
{
    const char *region = push->way.peer->region;
    const long status = push->outcome.status;

    if (!push->result.ok) return failure(err, push->why.kind, "%s", push->why.message);
    if (push->outcome.end != OUTGOING_ANSWERED)
        return failure(err, push->outcome.was_sent && request->method != METHOD_GET ? ERROR_UNCERTAIN : ERROR_UNAVAILABLE,
                       "the gateway of region %.63s: %.150s", region, push->outcome.reason);
    if (status == 401 || status < 200 || (status >= 300 && status < 400) || status >= 500 || !is_here(push))
        return failure(err, status == 401 || request->method == METHOD_GET ? ERROR_UNAVAILABLE : ERROR_UNCERTAIN,
                       "the gateway of region %.63s answers %ld", region, status);
    answer(request, push);
    return SUCCESS;
}

/* ---- The call ---- */

static void perform(struct push *push, bool with_body)
{
    const struct request *request = push->request;
    const struct outgoing_request asked = {.method = method_name(request->method),
                                           .url = push->way.url,
                                           .headers = push->way.headers,
                                           .header_count = push->way.header_count,
                                           .with_body = with_body,
                                           .body = request->body,
                                           .source = push->has_thread ? &push->source : NULL,
                                           .limits = {.connect_s = CONNECT_S,
                                                      .silence_s = SILENCE_S,
                                                      .slowest_rate = SLOWEST_RATE,
                                                      .whole_s = push->has_thread ? 0 : WHOLE_S,
                                                      .answer_bytes = ANSWER_MAX},
                                           .gives_up = &push->gives_up,
                                           .knows = knows,
                                           .head = take_header,
                                           .take = take,
                                           .context = push};

    push->result = outgoing_call(push->way.all->outgoing, &asked, &push->outcome, &push->why);
}

/* For libcurl: waits for bytes of the client. 0 bytes: there are no more. */
static struct result give(void *context, uint8_t *destination, size_t room, size_t *length_out, struct error *err)
{
    struct push *push = context;

    pthread_mutex_lock(&push->thread.mutex);
    while (push->put == push->taken && !push->has_ended && !push->thread.is_stopping) thread_wait(&push->thread, INT64_MAX);
    const size_t at = (size_t)(push->taken % RING_SIZE), there = (size_t)(push->put - push->taken);
    size_t length = room < there ? room : there;
    if (length > RING_SIZE - at) length = RING_SIZE - at;
    memcpy(destination, push->ring + at, length);
    push->taken += length;
    const bool is_cut = push->thread.is_stopping && !push->has_ended;
    (void)pthread_cond_signal(&push->thread.woken);
    pthread_mutex_unlock(&push->thread.mutex);
    *length_out = length;
    return is_cut ? failure(err, ERROR_UNAVAILABLE, "the client has gone") : SUCCESS;
}

static void *call(void *argument)
{
    struct push *push = argument;

    perform(push, true);
    pthread_mutex_lock(&push->thread.mutex);
    push->is_over = true;
    (void)pthread_cond_signal(&push->thread.woken);
    pthread_mutex_unlock(&push->thread.mutex);
    return NULL;
}

/* ---- The handler ---- */

static void release(struct request *request)
{
    struct push *push = request->handler_state;

    if (push == NULL) return;
    request->handler_state = NULL;
    atomic_store(&push->gives_up, true);
    thread_stop(&push->thread);
    passing_way_leave(&push->way);
    buffer_done(&push->answer);
    free(push->ring);
    free(push);
}

static struct result open(struct request *request, struct push **push_out, struct error *err)
{
    static const char *const same[] = {"Content-Type", "Content-Range", "If-Match", "If-None-Match"};
    const struct action_pair *pair = &request->pairs[0];
    struct push *push = memory_zeroed(1, sizeof *push);

    if (push == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a push into another region");
    request->handler_state = push;
    push->request = request;
    push->answer = BUFFER(ANSWER_MAX);
    if (request->permit == NULL) TRY(request_record(request, NULL, err)); /* before the other gateway hears of it */
    permit_require(request->permit, pair->action, &pair->resource);
    const struct result found = passing_way_find(request, pair->resource.region, true, &push->way, err);
    if (!found.ok) err->kind = ERROR_UNAVAILABLE; /* ERROR_LIMIT would be about the body */
    TRY(found);
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++)
        passing_way_add(&push->way, same[i], request_header(request, same[i]));
    *push_out = push;
    return SUCCESS;
}

/* Without a body, or with one that is here. */
static struct result handle(struct request *request, struct pg *pg, struct error *err)
{
    struct push *push = NULL;

    (void)pg;
    TRY(open(request, &push, err));
    perform(push, request->body.length > 0);
    return conclude(request, push, err);
}

static struct result begin(struct request *request, struct pg *pg, struct error *err)
{
    const struct exchange *exchange = (const void *)((const char *)request - offsetof(struct exchange, request));
    const struct http_framing *framing = &exchange->http.framing;
    struct push *push = NULL;

    (void)pg;
    TRY(open(request, &push, err));
    if (!framing->has_body) return SUCCESS;
    push->ring = memory_zeroed(1, RING_SIZE);
    if (push->ring == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a push into another region");
    push->source = (struct outgoing_source){give, push, framing->is_chunked ? OUTGOING_LENGTH_UNKNOWN : framing->length};
    push->has_thread = true;
    return thread_start(&push->thread, call, request->handler_state, "passes a body on", err);
}

/* With the mutex: what fits; 0: the call is over. */
static size_t put_some(struct push *push, struct bytes bytes)
{
    while (push->put - push->taken == RING_SIZE && !push->is_over) thread_wait(&push->thread, INT64_MAX);
    const size_t at = (size_t)(push->put % RING_SIZE), room = RING_SIZE - (size_t)(push->put - push->taken);
    size_t length = bytes.length < room ? bytes.length : room;

    if (push->is_over) return 0;
    if (length > RING_SIZE - at) length = RING_SIZE - at;
    memcpy(push->ring + at, bytes.data, length);
    push->put += length;
    (void)pthread_cond_signal(&push->thread.woken);
    return length;
}

/* If the other gateway answers before the end of the body, it refuses it. */
static struct result write(struct request *request, struct pg *pg, struct bytes bytes, struct error *err)
{
    struct push *push = request->handler_state;
    size_t put = 1;

    (void)pg;
    pthread_mutex_lock(&push->thread.mutex);
    while (bytes.length > 0 && put > 0) {
        put = put_some(push, bytes);
        bytes.data += put;
        bytes.length -= put;
    }
    pthread_mutex_unlock(&push->thread.mutex);
    return put > 0 ? SUCCESS : conclude(request, push, err);
}

static struct result finish(struct request *request, struct pg *pg, struct error *err)
{
    struct push *push = request->handler_state;

    (void)pg;
    if (!push->has_thread) {
        perform(push, false);
        return conclude(request, push, err);
    }
    pthread_mutex_lock(&push->thread.mutex);
    push->has_ended = true;
    (void)pthread_cond_signal(&push->thread.woken);
    while (!push->is_over) thread_wait(&push->thread, INT64_MAX);
    pthread_mutex_unlock(&push->thread.mutex);
    return conclude(request, push, err);
}

const struct handler *passing_push_handler(void)
{
    static const struct handler handler = {
        .handle = handle, .begin = begin, .write = write, .finish = finish, .release = release};

    return &handler;
}
