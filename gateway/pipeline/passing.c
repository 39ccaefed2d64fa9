#include "gateway/pipeline/passing.h"

#include <assert.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "authz/act.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/share.h"
#include "base/thread.h"
#include "base/work.h"
#include "crypto/certificate.h"
#include "gateway/http/path.h"
#include "gateway/pipeline/exchange_priv.h"
#include "gateway/pipeline/passing_priv.h"

#define PASSINGS_MAX 48                /* a gateway takes 64 connections of all others (gateway/pipeline/serve.c) */
#define RING_SIZE    ((size_t)1 << 20) /* the other gateway may be this far ahead of the client */
#define REFUSAL_MAX  ((size_t)4096)    /* bytes of an answer without content */
#define CONNECT_S    5
#define SILENCE_S    60 /* as long as the client takes what is in the ring, at the slowest rate that it may have */
#define ANSWER_MS    ((CONNECT_S + SILENCE_S + 5) * (int64_t)1000) /* until the first byte */
#define SLOWEST_RATE 64
#define URI_PREFIX   "sijil:region:"
#define SAN_PREFIX   "uri:" URI_PREFIX

struct passing {
    struct passing_way way;
    struct passing_part part;
    char range[64];
    atomic_bool gives_up;
    struct thread thread; /* makes the call; its mutex is for all members below */
    uint8_t *ring;
    uint64_t put, taken; /* bytes of the part */
    struct buffer refusal;
    unsigned refusal_status; /* 0: it is not refused by a rule */
    bool is_over, has_failed;
    struct error why;
};

/* ---- The other gateways ---- */

static struct result start_threads(struct passings *passings, struct error *err)
{
    const struct work_options options = {
        .name = "passing", .threads = PASSINGS_MAX, .queue_max = UINT_MAX, .is_background = true};

    return work_pool_new(&options, &passings->threads, err);
}

struct work_pool *passings_threads(const struct passings *passings)
{
    return passings->threads;
}

struct result passings_new(const struct settings *settings, struct passings **passings_out, struct error *err)
{
    struct networks networks = {0};

    *passings_out = NULL;
    if (settings->region_peers[0] == '\0' || settings->peer_certificate[0] == '\0') return SUCCESS;
    OWNED(passings) *passings = memory_zeroed(1, sizeof *passings);
    if (passings == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for other gateways");
    TRY(peers_parse("region_peers", settings->region_peers, &passings->peers, err));
    TRY(networks_parse("peer_networks", settings->peer_networks, &networks, err));
    const struct outgoing_options rules = {.reach = networks.count == 0 ? OUTGOING_USUAL : OUTGOING_LISTED,
                                           .networks = networks,
                                           .ca_file = settings->peer_ca,
                                           .certificate_file = settings->peer_certificate,
                                           .key_file = settings->peer_key};
    TRY(outgoing_new(&rules, &passings->outgoing, err));
    TRY(start_threads(passings, err));
    *passings_out = GIVE(passings);
    return SUCCESS;
}

bool passings_have(const struct passings *passings, const char *region)
{
    const struct peer *peer = passings == NULL ? NULL : peers_find(&passings->peers, region);

    return peer != NULL && peer->url[0] != '\0';
}

void passings_free(struct passings *passings)
{
    if (passings == NULL) return;
    work_pool_free(passings->threads);
    outgoing_free(passings->outgoing);
    free(passings);
}

static struct exchange *exchange_of_request(struct request *request)
{
    return (struct exchange *)(void *)((char *)request - offsetof(struct exchange, request));
}

void passings_do(struct request *request, void (*next)(struct http_exchange *http, void *worker_state))
{
    struct http_exchange *http = &exchange_of_request(request)->http;
    struct work_pool *threads = request->gateway->passings->threads;

    if (work_waiting(threads) < PASSINGS_MAX && http_submit(http, threads, next)) return;
    request->is_late = true;
    next(http, NULL);
}

static void run_rest(struct http_exchange *http, void *worker_state)
{
    struct exchange *exchange = exchange_of(http);
    struct error err = {0};

    (void)worker_state;
    outcome_conclude(exchange, exchange->request.rest(&exchange->request, &err), &err);
    exchange_answer(exchange, NULL);
}

void passings_do_rest(struct request *request)
{
    passings_do(request, run_rest);
}

void passing_way_add(struct passing_way *way, const char *name, const char *value)
{
    assert(way->header_count < PASSING_HEADERS_MAX);
    if (value != NULL && value[0] != '\0') way->headers[way->header_count++] = (struct outgoing_header){name, value};
}

/* Without the authority that a target may have (RFC 9112, 3.2.2): that of the other gateway takes its place. */
static struct result write_url(const struct request *request, bool with_query, struct passing_way *way, struct error *err)
{
    const struct exchange *exchange = (const void *)((const char *)request - offsetof(struct exchange, request));
    struct bytes path, query;

    if (!request_target_split(bytes_of_text(exchange->http.request_target), &path, &query))
        return failure(err, ERROR_INVALID, "a path begins with '/'");
    const char *target = (const char *)path.data;
    const size_t length = with_query ? strlen(target) : path.length;

    if (length > PASSING_TARGET_MAX)
        return failure(err, ERROR_UNAVAILABLE, "the path is too long for the gateway of another region");
    (void)snprintf(way->url, sizeof way->url, "%s%.*s", way->peer->url, (int)length, target);
    return SUCCESS;
}

/* What the other gateway checks the credential with: a proof of a key is about the host and the path that the client has used. */
static void add_credential(struct passing_way *way, const struct request *request)
{
    static const char *const same[] = {"Authorization", "DPoP", ACT_HEADER, "Host", "User-Agent", "traceparent"};

    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) passing_way_add(way, same[i], request_header(request, same[i]));
    passing_way_add(way, PASSED_CERTIFICATE, request->client_confirmation);
}

/* The last quarter is for regions and organisations that have few: one that is silent, or whose clients read slowly, leaves some to others. */
static bool enter_shares(const struct request *request, int now, struct passing_way *way)
{
    const int64_t most = share_limit(PASSINGS_MAX, now, SHARE_LITTLE(PASSINGS_MAX));
    char organisation[UUID_TEXT_SIZE];
    const struct quota_limits limits = {.at_a_time = (unsigned)most}, own = {.at_a_time = (unsigned)most, .realm = organisation};
    struct error ignored = {0};

    if (now >= PASSINGS_MAX || request->is_late) return false;
    uuid_format(&request->pairs[0].resource.organisation, organisation);
    return quota_enter(way->quota, "passed to a region", way->peer->region, &limits, &way->tickets[0], &ignored).ok &&
           quota_enter(way->quota, "passed for an organisation", organisation, &own, &way->tickets[1], &ignored).ok;
}

struct result passing_way_find(const struct request *request, const char *region, bool with_query, struct passing_way *way,
                               struct error *err)
{
    struct passings *all = request->gateway->passings;

    way->peer = all == NULL ? NULL : peers_find(&all->peers, region);
    if (way->peer == NULL || way->peer->url[0] == '\0')
        return failure(err, ERROR_UNAVAILABLE, "no gateway of region %.63s is known here", region);
    TRY(write_url(request, with_query, way, err));
    add_credential(way, request);
    way->all = all;
    way->quota = request->gateway->quota;
    if (enter_shares(request, atomic_fetch_add(&all->count, 1), way)) return SUCCESS;
    return failure(err, ERROR_LIMIT, "too many requests wait for gateways of other regions; try again in a few seconds");
}

bool passing_way_knows(const struct passing_way *way, struct bytes pem)
{
    char uri[sizeof URI_PREFIX + PEER_NAME_MAX];
    struct error ignored;
    bool is_it = false;

    (void)snprintf(uri, sizeof uri, URI_PREFIX "%s", way->peer->region);
    return certificate_has_uri(pem, uri, &is_it, &ignored).ok && is_it;
}

void passing_way_leave(struct passing_way *way)
{
    if (way->all == NULL) return;
    for (size_t i = 0; i < sizeof way->tickets / sizeof way->tickets[0]; i++) quota_leave(way->quota, &way->tickets[i]);
    atomic_fetch_sub(&way->all->count, 1);
    way->all = NULL;
}

/* ---- The call, on its thread ---- */

static bool is_part(const struct passing *passing)
{
    return passing->part.length < passing->part.size;
}

static bool is_content(const struct passing *passing, long status)
{
    return status == (is_part(passing) ? 206 : 200);
}

/* With the mutex: waits until the client has taken some. False: it takes nothing more. */
static bool await_room(struct passing *passing)
{
    while (passing->put - passing->taken == RING_SIZE && !passing->thread.is_stopping) thread_wait(&passing->thread, INT64_MAX);
    return !passing->thread.is_stopping;
}

/* With the mutex. */
static size_t put_some(struct passing *passing, struct bytes piece)
{
    const size_t at = (size_t)(passing->put % RING_SIZE), room = RING_SIZE - (size_t)(passing->put - passing->taken);
    size_t length = piece.length < room ? piece.length : room;

    if (length > RING_SIZE - at) length = RING_SIZE - at;
    memcpy(passing->ring + at, piece.data, length);
    passing->put += length;
    (void)pthread_cond_signal(&passing->thread.woken);
    return length;
}

static struct result put(struct passing *passing, struct bytes piece, struct error *err)
{
    bool is_wanted = true;

    pthread_mutex_lock(&passing->thread.mutex);
    while (piece.length > 0 && (is_wanted = await_room(passing))) {
        const size_t length = put_some(passing, piece);
        piece.data += length;
        piece.length -= length;
    }
    pthread_mutex_unlock(&passing->thread.mutex);
    return is_wanted ? SUCCESS : failure(err, ERROR_UNAVAILABLE, "the client takes nothing more");
}

static struct result take(void *context, long status, struct bytes piece, struct error *err)
{
    struct passing *passing = context;

    if (!is_content(passing, status)) {
        if (piece.length <= REFUSAL_MAX - passing->refusal.length)
            return buffer_add(&passing->refusal, piece.data, piece.length, err);
        return failure(err, ERROR_UNAVAILABLE, "the gateway of region %.63s says too much", passing->way.peer->region);
    }
    if (piece.length > passing->part.length - passing->put)
        return failure(err, ERROR_UNAVAILABLE, "the gateway of %.63s sends more than was asked for", passing->way.peer->region);
    return put(passing, piece, err);
}

static bool is_of_region(void *context, struct bytes pem)
{
    const struct passing *passing = context;

    return passing_way_knows(&passing->way, pem);
}

static struct result conclude(const struct passing *passing, const struct outgoing_outcome *outcome, struct error *err)
{
    const char *region = passing->way.peer->region;

    if (outcome->end != OUTGOING_ANSWERED)
        return failure(err, ERROR_UNAVAILABLE, "the gateway of region %.63s: %.150s", region, outcome->reason);
    if (!is_content(passing, outcome->status))
        return failure(err, ERROR_UNAVAILABLE, "the gateway of region %.63s answers %ld", region, outcome->status);
    if (passing->put == passing->part.length) return SUCCESS;
    return failure(err, ERROR_UNAVAILABLE, "the gateway of region %.63s has sent too little", region);
}

static void *call(void *argument)
{
    struct passing *passing = argument;
    const uint64_t most = passing->part.length < REFUSAL_MAX ? REFUSAL_MAX : passing->part.length;
    const struct outgoing_request request = {
        .method = "GET",
        .url = passing->way.url,
        .headers = passing->way.headers,
        .header_count = passing->way.header_count,
        .limits = {.connect_s = CONNECT_S, .silence_s = SILENCE_S, .slowest_rate = SLOWEST_RATE, .answer_bytes = most},
        .gives_up = &passing->gives_up,
        .knows = is_of_region,
        .take = take,
        .context = passing};
    struct outgoing_outcome outcome;
    struct error why = {0};
    const struct result called = outgoing_call(passing->way.all->outgoing, &request, &outcome, &why);
    const struct result result = called.ok ? conclude(passing, &outcome, &why) : called;

    pthread_mutex_lock(&passing->thread.mutex);
    passing->is_over = true;
    passing->refusal_status = called.ok && (outcome.status == 403 || outcome.status == 404) ? (unsigned)outcome.status : 0;
    passing->has_failed = !result.ok;
    passing->why = why;
    (void)pthread_cond_signal(&passing->thread.woken);
    pthread_mutex_unlock(&passing->thread.mutex);
    return NULL;
}

/* ---- The client's side ---- */

static void add_range(struct passing *passing)
{
    if (is_part(passing))
        (void)snprintf(passing->range, sizeof passing->range, "bytes=%" PRIu64 "-%" PRIu64, passing->part.first,
                       passing->part.first + passing->part.length - 1);
    passing_way_add(&passing->way, "Range", passing->range);
}

/* Until the first byte is there, or the call has ended. A gateway that sends a byte now and then, and no answer, is not waited for. */
static struct result await_answer(struct passing *passing, struct error *err)
{
    const int64_t until_ms = clock_monotonic_ms() + ANSWER_MS;

    pthread_mutex_lock(&passing->thread.mutex);
    while (passing->put == 0 && !passing->is_over && clock_monotonic_ms() < until_ms) thread_wait(&passing->thread, until_ms);
    const bool is_over = passing->is_over, has_failed = passing->put == 0 && (passing->has_failed || !is_over);
    if (has_failed && is_over) *err = passing->why;
    pthread_mutex_unlock(&passing->thread.mutex);
    if (!has_failed || is_over) return (struct result){.ok = !has_failed};
    return failure(err, ERROR_UNAVAILABLE, "the gateway of region %.63s does not answer", passing->way.peer->region);
}

/* What a rule says there is for the client, too. */
static struct result refuse(struct request *request, struct passing *passing)
{
    pthread_mutex_lock(&passing->thread.mutex);
    const bool is_refused = passing->is_over && passing->refusal_status != 0;
    pthread_mutex_unlock(&passing->thread.mutex);
    const char *text = is_refused ? arena_copy_text(request->arena, buffer_bytes(&passing->refusal)) : NULL;

    if (text == NULL) return (struct result){.ok = false};
    response_bytes(request, passing->refusal_status, "application/json",
                   (struct bytes){(const uint8_t *)text, passing->refusal.length});
    return SUCCESS;
}

struct result passing_open(const struct permit *permit, struct request *request, const struct passing_part *part,
                           struct passing **passing_out, struct error *err)
{
    const struct action_pair *pair = &request->pairs[0];

    *passing_out = NULL;
    permit_require(permit, pair->action, &pair->resource);
    OWNED(passing) *passing = memory_zeroed(1, sizeof *passing);
    if (passing == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for an answer of another gateway");
    passing->part = *part;
    passing->refusal = BUFFER(REFUSAL_MAX);
    TRY(passing_way_find(request, pair->resource.region, false, &passing->way, err));
    add_range(passing);
    passing->ring = memory_zeroed(1, RING_SIZE);
    if (passing->ring == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for an answer of another gateway");
    TRY(thread_start(&passing->thread, call, passing, "reads from another gateway", err));
    if (!await_answer(passing, err).ok) return refuse(request, passing);
    metric_add(&metrics_gateway[METRIC_PASSED], 1);
    *passing_out = GIVE(passing);
    return SUCCESS;
}

/* With the mutex: some bytes of the ring. 0: none are left. */
static size_t take_some(struct passing *passing, uint8_t *into, size_t length)
{
    const size_t at = (size_t)(passing->taken % RING_SIZE), there = (size_t)(passing->put - passing->taken);
    size_t taken = length < there ? length : there;

    if (taken > RING_SIZE - at) taken = RING_SIZE - at;
    memcpy(into, passing->ring + at, taken);
    passing->taken += taken;
    (void)pthread_cond_signal(&passing->thread.woken);
    return taken;
}

struct result passing_read(struct passing *passing, uint64_t offset, uint8_t *into, size_t length, struct error *err)
{
    size_t read = 0;

    pthread_mutex_lock(&passing->thread.mutex);
    const bool is_next = offset == passing->taken;
    while (is_next && read < length) {
        while (passing->put == passing->taken && !passing->is_over) thread_wait(&passing->thread, INT64_MAX);
        const size_t taken = take_some(passing, into + read, length - read);
        if (taken == 0) break;
        read += taken;
    }
    if (passing->has_failed) *err = passing->why;
    pthread_mutex_unlock(&passing->thread.mutex);
    if (is_next && read == length) return SUCCESS;
    return failure(err, ERROR_UNAVAILABLE, "an answer of the gateway of region %.63s has ended: %.120s",
                   passing->way.peer->region, is_next ? err->message : "it can be read once");
}

void passing_free(struct passing *passing)
{
    if (passing == NULL) return;
    atomic_store(&passing->gives_up, true);
    thread_stop(&passing->thread);
    passing_way_leave(&passing->way);
    buffer_done(&passing->refusal);
    free(passing->ring);
    free(passing);
}

/* ---- The other end ---- */

bool passing_is_of_gateway(const struct request *request)
{
    for (const char *line = request->client_names; line[0] != '\0'; line += strcspn(line, "\n") + 1) {
        if (strncmp(line, SAN_PREFIX, sizeof SAN_PREFIX - 1) == 0) return true;
        if (line[strcspn(line, "\n")] == '\0') return false;
    }
    return false;
}
