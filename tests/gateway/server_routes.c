#include "tests/gateway/server_routes.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "authz/authenticate.h"
#include "base/text.h"
#include "crypto/digest.h"
#include "crypto/runner_certificate.h"
#include "gateway/pipeline/pause.h"
#include "gateway/pipeline/route.h"
#include "tests/gateway/doubles.h"

static uint64_t number_of(const struct request *request, const char *key)
{
    const char *text = request_argument(request, key);
    uint64_t number = 0;

    return text != NULL && text_to_u64(bytes_of_text(text), INT64_MAX, &number) ? number : 0;
}

static void pause_ms(uint64_t milliseconds)
{
    const struct timespec pause = {.tv_sec = (time_t)(milliseconds / 1000), .tv_nsec = (long)(milliseconds % 1000) * 1000000};
    (void)nanosleep(&pause, NULL);
}

/* The first letter of a name stands for its organisation. */
static struct result target_named(struct request *request, struct lookup *lookup, struct error *err)
{
    const char *name = request->name == NULL ? request->reference : request->name;

    (void)lookup;
    (void)err;
    struct resource *resource = request_add_pair(request, ACTION_PING, name == NULL ? "" : name);
    if (name != NULL) resource->organisation.bytes[0] = (uint8_t)name[0];
    return SUCCESS;
}

static _Atomic int hanging;   /* handlers that hang now */
static _Atomic bool is_stuck; /* handlers that may hang do so */

static void hang(const struct request *request)
{
    if (request_argument(request, "may_hang") == NULL) return;
    atomic_fetch_add(&hanging, 1);
    while (is_stuck) pause_ms(10);
    atomic_fetch_sub(&hanging, 1);
}

/* Answers with the request as it arrived, in the form of the smuggling table. */
static struct result echo(struct request *request, struct pg *pg, struct error *err)
{
    char text[256];

    (void)pg;
    pause_ms(number_of(request, "sleep_ms"));
    hang(request);
    if (request->waits < number_of(request, "waits")) {
        request_wait(request, (int64_t)number_of(request, "wait_ms"));
        return SUCCESS;
    }
    if (request_argument(request, "answer_later") != NULL) request_wait(request, (int64_t)number_of(request, "answer_later"));
    if (request_argument(request, "fail") != NULL) return failure(err, ERROR_CORRUPT, "a secret detail");
    (void)snprintf(text, sizeof text, "%s %s body=%zu;\n", method_name(request->method),
                   request->name == NULL ? request->reference : request->name, request->body.length);
    response_text(request, 200, text);
    return SUCCESS;
}
static const struct handler handler_echo = {.handle = echo};
static const struct handler handler_long = {.handle = echo, .is_long = true};

struct doing {
    struct change change;
    bool fails;
};

static struct result run_change(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    (void)pg;
    (void)permit;
    if (((struct doing *)change)->fails) return failure(err, ERROR_CONFLICT, "it was changed meanwhile");
    return SUCCESS;
}

static struct result change_it(struct request *request, struct pg *pg, struct error *err)
{
    struct doing doing = {.change.run = run_change, .fails = request_argument(request, "conflict") != NULL};

    (void)pg;
    if (request_argument(request, "invalid") != NULL) return failure(err, ERROR_INVALID, "that is not a name");
    if (request_argument(request, "lazy") == NULL) TRY(request_record(request, &doing.change, err));
    response_empty(request, 201);
    return SUCCESS;
}
static const struct handler handler_change = {.handle = change_it};

/* Waits until somebody rings. `late_ms`: from the look to the beginning of the wait, where a slow machine may stop for long. */
static _Atomic uint64_t rings;

static struct result wait_for_bell(struct request *request, struct pg *pg, struct error *err)
{
    char text[64];

    (void)pg;
    (void)err;
    request_listen(request, request->name);
    const uint64_t seen = rings;
    pause_ms(number_of(request, "late_ms"));
    if (seen >= number_of(request, "rings") || request->waits > number_of(request, "looks")) {
        (void)snprintf(text, sizeof text, "%llu rings, %u waits\n", (unsigned long long)seen, request->waits);
        response_text(request, 200, text);
        return SUCCESS;
    }
    request_wait_for(request, request->name, (int64_t)number_of(request, "wait_ms"));
    return SUCCESS;
}
static const struct handler handler_bell = {.handle = wait_for_bell};

/* ---- bodies in ---- */
static _Atomic int open_sinks, cut_sinks;

struct sink {
    struct hasher *hasher;
    uint64_t slow_ms, fail_at;
};

static struct result sink_begin(struct request *request, struct pg *pg, struct error *err)
{
    struct sink *sink = arena_take(request->arena, sizeof *sink);

    (void)pg;
    if (sink == NULL) return failure(err, ERROR_NO_MEMORY, "no memory");
    TRY(hasher_new(DIGEST_SHA256, &sink->hasher, err));
    atomic_fetch_add(&open_sinks, 1);
    request->handler_state = sink;
    sink->slow_ms = number_of(request, "slow_ms");
    sink->fail_at = number_of(request, "fail_at");
    if (request_argument(request, "refuse") != NULL) response_oci_error(request, 403, "DENIED", "no", NULL);
    return SUCCESS;
}

static struct result sink_write(struct request *request, struct pg *pg, struct bytes bytes, struct error *err)
{
    struct sink *sink = request->handler_state;

    (void)pg;
    pause_ms(sink->slow_ms);
    hasher_add(sink->hasher, bytes);
    if (sink->fail_at != 0 && hasher_length(sink->hasher) >= sink->fail_at) return failure(err, ERROR_FULL, "the disk is full");
    return SUCCESS;
}

static struct result sink_finish(struct request *request, struct pg *pg, struct error *err)
{
    const struct sink *sink = request->handler_state;
    const struct digest digest = hasher_digest(sink->hasher);
    char text[DIGEST_TEXT_SIZE + 24], name[DIGEST_TEXT_SIZE];

    (void)pg;
    TRY(request_record_outcome(request, OUTCOME_COMPLETED, "done", NULL, err));
    digest_format(&digest, name);
    (void)snprintf(text, sizeof text, "%llu %s\n", (unsigned long long)hasher_length(sink->hasher), name);
    response_text(request, 201, text);
    return SUCCESS;
}

static void sink_cut(struct request *request, struct pg *pg)
{
    (void)request;
    (void)pg;
    atomic_fetch_add(&cut_sinks, 1);
}

static void sink_release(struct request *request)
{
    struct sink *sink = request->handler_state;

    if (sink == NULL) return;
    hasher_free(sink->hasher);
    atomic_fetch_sub(&open_sinks, 1);
}
static const struct handler handler_sink = {
    .begin = sink_begin, .write = sink_write, .finish = sink_finish, .cut = sink_cut, .release = sink_release};

/* ---- bodies out ---- */
static _Atomic int open_sources, reads_of_sources;

struct spring {
    uint64_t fail_at, slow_ms;
    uint64_t misses, tries; /* each misses-th block can't be read at once; 0: no block can */
    bool may_hang;
};

static struct result spring_read(void *state, uint64_t offset, uint8_t *place, size_t length, struct error *err)
{
    const struct spring *spring = state;

    atomic_fetch_add(&reads_of_sources, 1);
    pause_ms(spring->slow_ms);
    while (spring->may_hang && is_stuck) pause_ms(10);
    if (spring->fail_at != 0 && offset + length > spring->fail_at - 1)
        return failure(err, ERROR_CORRUPT, "record 7 of a secret place");
    for (size_t i = 0; i < length; i++) place[i] = (uint8_t)((offset + i) * 7 % 251);
    return SUCCESS;
}

static bool spring_read_at_once(void *state, uint64_t offset, uint8_t *place, size_t length)
{
    struct spring *spring = state;
    struct error ignored;

    return ++spring->tries % spring->misses != 0 && spring_read(state, offset, place, length, &ignored).ok;
}

static void spring_close(void *state)
{
    (void)state;
    atomic_fetch_sub(&open_sources, 1);
}

static struct result pour(struct request *request, struct pg *pg, struct error *err)
{
    struct spring *spring = arena_take(request->arena, sizeof *spring);

    (void)pg;
    if (spring == NULL) return failure(err, ERROR_NO_MEMORY, "no memory");
    spring->fail_at = number_of(request, "fail_at");
    spring->slow_ms = number_of(request, "slow_ms");
    spring->misses = number_of(request, "misses");
    spring->may_hang = request_argument(request, "may_hang") != NULL;
    const struct response_source source = {.state = spring,
                                           .length = number_of(request, "size"),
                                           .read = spring_read,
                                           .read_cached = spring->misses == 0 ? NULL : spring_read_at_once,
                                           .close = spring_close};
    atomic_fetch_add(&open_sources, 1);
    response_from_source(request, 200, "application/octet-stream", &source);
    return SUCCESS;
}
static const struct handler handler_pour = {.handle = pour};

/* ---- the test's own levers ---- */
static struct result control(struct request *request, struct pg *pg, struct error *err)
{
    char text[256];

    (void)pg;
    (void)err;
    if (request_argument(request, "log") != NULL)
        double_mode = strcmp(request_argument(request, "log"), "down") == 0 ? DOUBLE_LOG_DOWN : DOUBLE_GOOD;
    if (request_argument(request, "stale") != NULL) double_stale = (int)number_of(request, "stale");
    if (request_argument(request, "revoked") != NULL) double_revoked = (int)number_of(request, "revoked");
    if (request_argument(request, "ring") != NULL)
        (void)pause_wake(request->gateway, request_argument(request, "ring"), atomic_fetch_add(&rings, 1) + 1, SIZE_MAX);
    if (request_argument(request, "stuck") != NULL) is_stuck = number_of(request, "stuck") != 0;
    (void)snprintf(
        text, sizeof text,
        "{\"refused\":%d,\"recorded\":%d,\"outcomes\":%d,\"sinks\":%d,\"cut\":%d,\"sources\":%d,\"reads\":%d,\"hanging\":%d}",
        double_refused, double_recorded, double_outcomes, open_sinks, cut_sinks, open_sources, reads_of_sources, hanging);
    response_text(request, 200, text);
    return SUCCESS;
}
static const struct handler handler_control = {.handle = control};

/* Answers with the client's address, the runner of its certificate, and whether a token would be bound to that certificate. */
static struct result tell_runner(struct request *request, struct pg *pg, struct error *err)
{
    char text[192], id[UUID_TEXT_SIZE] = "";

    (void)pg;
    (void)err;
    if (request->client_runner != NULL) uuid_format(&request->client_runner->runner, id);
    (void)snprintf(text, sizeof text, "{\"runner\":\"%s\",\"bound\":%s,\"client\":\"%s\"}", id,
                   request->client_confirmation[0] != '\0' ? "true" : "false", request->client_address);
    response_text(request, 200, text);
    return SUCCESS;
}
static const struct handler handler_tell_runner = {.handle = tell_runner};

#define ANY        (METHOD_BIT(METHOD_GET) | METHOD_BIT(METHOD_HEAD) | METHOD_BIT(METHOD_POST) | METHOD_BIT(METHOD_PUT))
#define READ       (METHOD_BIT(METHOD_GET) | METHOD_BIT(METHOD_HEAD))
#define TEST_ROUTE .credential = CREDENTIAL_REGISTRY, .target = target_named, .action_count = 1, .actions = {0, ACTION_PING}
static const struct route rows[] = {
    {.name = "alive", .methods = READ, .pattern = "/healthz", .handler = &handler_alive},
    {.name = "ready", .methods = READ, .pattern = "/readyz", .handler = &handler_ready},
    {.name = "metrics", .methods = READ, .pattern = "/metrics", .handler = &handler_metrics},
    {.name = "control", .methods = READ, .pattern = "/control", .handler = &handler_control},
    {.name = "runner", .methods = READ, .pattern = "/runner", .handler = &handler_tell_runner},
    {.name = "ping", .methods = READ, .pattern = "/v2/", .record = RECORD_FIRST, .handler = &handler_ping, TEST_ROUTE},
    {.name = "change",
     .methods = ANY,
     .pattern = "/change/{name}",
     .record = RECORD_WITH_CHANGE,
     .handler = &handler_change,
     TEST_ROUTE},
    {.name = "sink",
     .methods = ANY,
     .pattern = "/v2/{name}/sink",
     .record = RECORD_FIRST,
     .body = BODY_STREAMED,
     .handler = &handler_sink,
     TEST_ROUTE},
    {.name = "pour", .methods = READ, .pattern = "/v2/{name}/pour", .record = RECORD_FIRST, .handler = &handler_pour, TEST_ROUTE},
    {.name = "bell", .methods = READ, .pattern = "/bell/{name}", .record = RECORD_FIRST, .handler = &handler_bell, TEST_ROUTE},
    {.name = "long", .methods = READ, .pattern = "/long/{name}", .record = RECORD_FIRST, .handler = &handler_long, TEST_ROUTE},
    {.name = "form",
     .methods = ANY,
     .pattern = "/form/{name}",
     .record = RECORD_FIRST,
     .body = BODY_FORM,
     .body_limit = 1000,
     .handler = &handler_echo,
     TEST_ROUTE},
    {.name = "taken",
     .methods = ANY,
     .pattern = "/taken/{name}",
     .record = RECORD_WITH_CHANGE,
     .body = BODY_ALLOWED,
     .body_limit = 4 << 20,
     .handler = &handler_change,
     TEST_ROUTE},
    {.name = "echo",
     .methods = ANY,
     .pattern = "/{reference}",
     .record = RECORD_FIRST,
     .body = BODY_FORM,
     .body_limit = 100000,
     .handler = &handler_echo,
     TEST_ROUTE},
};
const struct route_table server_routes = {.count = sizeof rows / sizeof rows[0], .rows = rows};
