#include "runner/calls/calls.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "client/session.h"
#include "client/terminal.h"
#include "training/format/bundle.h"

#define ROUTE      "/api/v1/runner/"
#define BODY_MAX   ((size_t)24 << 20) /* a result with 18 manifests; each is below 1 MiB with the most files */
#define SMALL_MAX  65536
#define ROUTE_SIZE 256 /* a route with a UUID and numbers */

struct calls {
    struct http *http;
    struct report report; /* of refusals */
    char session[2 * CALLS_SESSION_SIZE + 1];
};

struct result calls_open(const struct http_options *options, const uint8_t session[CALLS_SESSION_SIZE], struct calls **calls_out,
                         struct error *err)
{
    OWNED(calls) *calls = memory_zeroed(1, sizeof *calls);

    if (calls == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for calls to the registry");
    TRY(http_new(options, &calls->http, err));
    text_hex(session, CALLS_SESSION_SIZE, calls->session);
    calls->report.waits_for_room = true;
    *calls_out = GIVE(calls);
    return SUCCESS;
}

void calls_give_up_when(struct calls *calls, const atomic_bool *gives_up)
{
    http_give_up_when(calls->http, gives_up);
}

void calls_free(struct calls *calls)
{
    if (calls == NULL) return;
    http_free(calls->http);
    free(calls);
}

/* Any other status than the two that the request wants becomes an error, in the registry's words. */
static struct result call(struct calls *calls, const struct http_request *request, struct http_response *response,
                          struct error *err)
{
    struct http_request named = *request;

    named.session = calls->session;
    TRY(http_call(calls->http, &named, response, err));
    if (response->status == request->wanted || (request->also != 0 && response->status == request->also)) return SUCCESS;
    const struct result refused = refusal(&calls->report, response, err);
    terminal_sanitize(err->message); /* it goes into a log, and maybe into a signed reason */
    if (calls->report.explanation[0] != '\0')
        log_line(LOG_INFO, "the registry explains a refusal", "request", request->path, "explanation", calls->report.explanation,
                 NULL);
    return refused;
}

static struct result post(struct calls *calls, const char *path, struct bytes body, long wanted, struct http_response *response,
                          struct error *err)
{
    const struct http_request request = {.method = "POST",
                                         .path = path,
                                         .content_type = "application/json",
                                         .accept = "application/json",
                                         .body = body,
                                         .wanted = wanted};

    return call(calls, &request, response, err);
}

/* Posts a JSON object to a route of the run. */
static struct result post_json(struct calls *calls, const char *path, const json_t *json, long wanted,
                               struct http_response *response, struct error *err)
{
    struct buffer OWNED_BUFFER body = BUFFER(BODY_MAX);

    if (json == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a call to the registry");
    TRY(json_write_canonical(&body, json, err));
    return post(calls, path, buffer_bytes(&body), wanted, response, err);
}

static const char *path_of(const char *run, const char *what, char path[ROUTE_SIZE])
{
    (void)snprintf(path, ROUTE_SIZE, ROUTE "runs/%.36s/%s", run, what);
    return path;
}

/* ---- a lease ---- */

static struct result take_bundle(void *context, struct bytes piece, struct error *err)
{
    return buffer_add(context, piece.data, piece.length, err);
}

static json_t *offer_json(const struct lease_offer *offer)
{
    char session[2 * CALLS_SESSION_SIZE + 1];

    text_hex(offer->session, sizeof offer->session, session);
    OWNED_JSON json =
        json_pack("{s:s s:I s:i s:s s:I s:I s:O s:s* s:i}", "session", session, "generation", (json_int_t)offer->generation,
                  "wait_s", offer->wait_s, "isolation", offer->isolation, "cpus", (json_int_t)offer->cpus, "memory_bytes",
                  (json_int_t)offer->memory_bytes, "devices", offer->devices, "run", offer->run, "nodes", offer->nodes);
    if (json == NULL || offer->run == NULL) return GIVE(json);
    return json_object_set_new(json, "attempt", json_integer(offer->attempt)) == 0 ? GIVE(json) : NULL;
}

struct result calls_lease(struct calls *calls, const struct lease_offer *offer, struct buffer *bundle,
                          enum lease_answer *answer_out, struct error *err)
{
    OWNED_JSON json = offer_json(offer);
    OWNED_RESPONSE response = RESPONSE;
    struct buffer OWNED_BUFFER body = BUFFER(SMALL_MAX);

    if (json == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a call to the registry");
    TRY(json_write_canonical(&body, json, err));
    const struct http_request request = {.method = "POST",
                                         .path = ROUTE "leases",
                                         .content_type = "application/json",
                                         .accept = "application/json",
                                         .body = buffer_bytes(&body),
                                         .take = take_bundle,
                                         .context = bundle,
                                         .wanted = 200,
                                         .also = 204};
    const struct result called = call(calls, &request, &response, err);
    if (!called.ok && response.status == 409 && answer_is_suspension(buffer_bytes(&response.body))) {
        *answer_out = LEASE_SUSPENDED;
        return SUCCESS;
    }
    TRY(called);
    *answer_out = response.status == 200 ? LEASE_GIVEN : LEASE_NONE;
    return SUCCESS;
}

/* ---- what waits ---- */

static json_t *wish_json(const struct queue_wish *wish)
{
    OWNED_JSON regions = json_array();
    char session[2 * CALLS_SESSION_SIZE + 1];

    for (size_t i = 0; regions != NULL && i < wish->region_count; i++)
        if (json_array_append_new(regions, json_string(wish->regions[i])) != 0) return NULL;
    text_hex(wish->session, sizeof wish->session, session);
    return regions == NULL
               ? NULL
               : json_pack("{s:s s:I s:O}", "session", session, "generation", (json_int_t)wish->generation, "regions", regions);
}

struct result calls_queue(struct calls *calls, const struct queue_wish *wish, struct queue_answer *queue_out,
                          enum lease_answer *answer_out, struct error *err)
{
    OWNED_JSON json = wish_json(wish);
    OWNED_RESPONSE response = RESPONSE;

    const struct result called = post_json(calls, ROUTE "queue", json, 200, &response, err);
    if (!called.ok && response.status == 409 && answer_is_suspension(buffer_bytes(&response.body))) {
        *answer_out = LEASE_SUSPENDED;
        return SUCCESS;
    }
    TRY(called);
    *answer_out = LEASE_GIVEN;
    return answer_read_queue(buffer_bytes(&response.body), queue_out, err);
}

/* ---- a leased run ---- */

/* A run of one node starts at once (204); of others the answer says whether all are there (200). */
struct result calls_start(struct calls *calls, const struct leased_run *leased, const char *listen,
                          struct start_answer *answer_out, struct error *err)
{
    OWNED_JSON json = json_pack("{s:i s:i s:s s:s*}", "attempt", leased->attempt, "node", leased->node, "certificate",
                                leased->certificate, "listen", listen);
    OWNED_RESPONSE response = RESPONSE;
    struct buffer OWNED_BUFFER body = BUFFER(SMALL_MAX), peers = BUFFER(START_ANSWER_MAX);
    char path[ROUTE_SIZE];

    if (json == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a call to the registry");
    TRY(json_write_canonical(&body, json, err));
    const struct http_request request = {.method = "POST",
                                         .path = path_of(leased->run, "start", path),
                                         .content_type = "application/json",
                                         .accept = "application/json",
                                         .body = buffer_bytes(&body),
                                         .take = take_bundle,
                                         .context = &peers,
                                         .wanted = 204,
                                         .also = 200};
    TRY(call(calls, &request, &response, err));
    if (response.status == 200) return start_answer_read(buffer_bytes(&peers), answer_out, err);
    *answer_out = (struct start_answer){.is_ready = true};
    return SUCCESS;
}

struct result calls_heartbeat(struct calls *calls, const struct leased_run *leased, const struct heartbeat *heartbeat,
                              struct heartbeat_answer *answer_out, struct error *err)
{
    OWNED_JSON json = json_pack("{s:i s:i s:s s:I s:I s:I}", "attempt", leased->attempt, "node", leased->node, "phase",
                                heartbeat->phase, "cpu_ms", (json_int_t)heartbeat->cpu_ms, "device_ms",
                                (json_int_t)heartbeat->device_ms, "memory_bytes", (json_int_t)heartbeat->memory_bytes);
    OWNED_RESPONSE response = RESPONSE;
    char path[ROUTE_SIZE];

    if (json != NULL && heartbeat->progress >= 0 && json_object_set_new(json, "progress", json_integer(heartbeat->progress)) != 0)
        return failure(err, ERROR_NO_MEMORY, "no memory for a heartbeat");
    TRY(post_json(calls, path_of(leased->run, "heartbeat", path), json, 200, &response, err));
    return answer_read_heartbeat(buffer_bytes(&response.body), answer_out, err);
}

struct result calls_token(struct calls *calls, const struct leased_run *leased, struct buffer *token, int64_t *lifetime_s_out,
                          struct error *err)
{
    OWNED_JSON json = json_pack("{s:i s:i}", "attempt", leased->attempt, "node", leased->node);
    OWNED_RESPONSE response = RESPONSE;
    char path[ROUTE_SIZE];

    TRY(post_json(calls, path_of(leased->run, "token", path), json, 200, &response, err));
    const struct result taken = answer_read_token(buffer_bytes(&response.body), token, lifetime_s_out, err);
    explicit_bzero(response.body.data, response.body.length);
    return taken;
}

struct result calls_log(struct calls *calls, const struct leased_run *leased, uint64_t offset, struct bytes piece,
                        uint64_t *next_out, struct error *err)
{
    OWNED_RESPONSE response = RESPONSE;
    char path[ROUTE_SIZE];
    struct error why;

    (void)snprintf(path, sizeof path, ROUTE "runs/%.36s/log?attempt=%d&node=%d&offset=%llu", leased->run, leased->attempt,
                   leased->node, (unsigned long long)offset);
    const struct http_request request = {
        .method = "POST", .path = path, .content_type = "application/octet-stream", .body = piece, .wanted = 204};
    const struct result called = call(calls, &request, &response, err);
    if (!called.ok)
        return response.status == 409 && answer_read_offset(buffer_bytes(&response.body), next_out, &why).ok ? SUCCESS : called;
    *next_out = offset + piece.length;
    return SUCCESS;
}

struct result calls_checkpoint(struct calls *calls, const struct leased_run *leased, struct bytes manifest, struct error *err)
{
    OWNED_RESPONSE response = RESPONSE;
    char path[ROUTE_SIZE];

    (void)snprintf(path, sizeof path, ROUTE "runs/%.36s/checkpoint?attempt=%d", leased->run, leased->attempt);
    const struct http_request request = {.method = "POST",
                                         .path = path,
                                         .content_type = "application/vnd.oci.image.manifest.v1+json",
                                         .body = manifest,
                                         .wanted = 204};
    return call(calls, &request, &response, err);
}

struct result calls_refuse(struct calls *calls, const struct leased_run *leased, const char *envelope, struct error *err)
{
    OWNED_JSON json = json_pack("{s:i s:i s:s}", "attempt", leased->attempt, "node", leased->node, "refusal", envelope);
    OWNED_RESPONSE response = RESPONSE;
    char path[ROUTE_SIZE];

    return post_json(calls, path_of(leased->run, "refusal", path), json, 204, &response, err);
}

struct result calls_write_result(const struct leased_run *leased, const char *envelope, json_t *manifests, struct buffer *body,
                                 struct error *err)
{
    OWNED_JSON json = json_pack("{s:i s:i s:s s:s s:O}", "attempt", leased->attempt, "node", leased->node, "certificate",
                                leased->certificate, "result", envelope, "manifests", manifests);

    return json == NULL ? failure(err, ERROR_NO_MEMORY, "no memory for a result") : json_write_canonical(body, json, err);
}

struct result calls_result(struct calls *calls, const char *run, struct bytes body, char state_out[ANSWER_STATE_SIZE],
                           struct error *err)
{
    OWNED_RESPONSE response = RESPONSE;
    char path[ROUTE_SIZE];

    TRY(post(calls, path_of(run, "result", path), body, 200, &response, err));
    return answer_read_result(buffer_bytes(&response.body), state_out, err);
}
