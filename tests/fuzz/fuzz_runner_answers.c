/*
 * A runner's calls against a hostile registry: with any answer, what is taken is within its bounds and has no letter that steers a terminal.
 *
 * Input: a byte that picks the call, then the answer: "STATUS\n" and the body. client/http.c alone is replaced (http_stand_in.h).
 */
#include <assert.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "client/terminal.h"
#include "runner/calls/calls.h"
#include "tests/fuzz/http_stand_in.h"
#include "training/format/bundle.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static long status;
static struct bytes body;

struct result http_call(struct http *http, const struct http_request *request, struct http_response *response, struct error *err)
{
    (void)http;
    response->status = status;
    if (request->take != NULL && status >= 200 && status < 300) return request->take(request->context, body, err);
    return buffer_add(&response->body, body.data, body.length, err);
}

static void check_text(const char *text, size_t room)
{
    assert(strlen(text) < room && terminal_is_printable(text));
}

static void beat(struct calls *calls, const struct leased_run *leased, struct error *err)
{
    const struct heartbeat heartbeat = {.phase = "running", .progress = 5};
    struct heartbeat_answer answer;

    if (!calls_heartbeat(calls, leased, &heartbeat, &answer, err).ok) return;
    check_text(answer.state, sizeof answer.state);
    check_text(answer.reason, sizeof answer.reason);
    assert(answer.every_ms >= 1000 && answer.every_ms <= 60000);
}

static void ask_for_token(struct calls *calls, const struct leased_run *leased, struct error *err)
{
    struct buffer OWNED_BUFFER token = BUFFER(16384);
    int64_t lifetime_s = 0;

    if (!calls_token(calls, leased, &token, &lifetime_s, err).ok) return;
    assert(token.length > 0 && token.length <= 12288 && lifetime_s >= 1 && lifetime_s <= 2592000);
    for (size_t i = 0; i < token.length; i++) assert(token.data[i] > ' ' && token.data[i] <= '~');
}

static void ask_for_lease(struct calls *calls, struct error *err)
{
    struct buffer OWNED_BUFFER bundle = BUFFER(RUN_BUNDLE_MAX);
    OWNED_JSON devices = json_array();
    const struct lease_offer offer = {.isolation = "rlimits", .cpus = 1, .memory_bytes = 1, .devices = devices};
    enum lease_answer answer = LEASE_NONE;

    if (!calls_lease(calls, &offer, &bundle, &answer, err).ok) return;
    assert(answer != LEASE_SUSPENDED || status == 409);
    assert((answer == LEASE_GIVEN) == (status == 200) && bundle.length <= body.length);
}

static void ask_for_queue(struct calls *calls, struct error *err)
{
    const char *const regions[] = {"ae/dxb"};
    const struct queue_wish wish = {.region_count = 1, .regions = regions};
    struct queue_answer queue = {.count = 0};
    enum lease_answer answer = LEASE_NONE;
    struct uuid uuid;

    if (calls_queue(calls, &wish, &queue, &answer, err).ok) assert((answer == LEASE_SUSPENDED) == (status == 409));
    for (size_t i = 0; i < queue.count; i++) {
        const struct queued_run *run = &queue.runs[i];
        assert(uuid_parse(bytes_of_text(run->run), &uuid) && run->attempt >= 1 && run->attempt <= 100);
        assert(run->nodes > 0 && run->cpus > 0 && run->devices >= 0 && run->region_count <= QUEUE_REGIONS_MAX);
        check_text(run->device_type, sizeof run->device_type);
        for (size_t j = 0; j < run->region_count; j++) check_text(run->regions[j], sizeof run->regions[j]);
    }
    queue_answer_done(&queue);
}

static void send_log(struct calls *calls, const struct leased_run *leased, struct error *err)
{
    uint64_t next = 0;

    if (calls_log(calls, leased, 5, bytes_of_text("abc"), &next, err).ok) assert(status == 204 ? next == 8 : status == 409);
}

static void send_result(struct calls *calls, const struct leased_run *leased, struct error *err)
{
    char state[ANSWER_STATE_SIZE];

    if (calls_result(calls, leased->run, bytes_of_text("{}"), state, err).ok) check_text(state, sizeof state);
}

static void start(struct calls *calls, const struct leased_run *leased, struct error *err)
{
    struct start_answer answer;

    if (!calls_start(calls, leased, "127.0.0.1:4700", &answer, err).ok) return;
    assert(answer.is_ready || (answer.every_ms >= 200 && answer.every_ms <= 10000));
    assert(answer.count <= START_PEERS_MAX && (answer.is_ready || answer.count == 0));
    for (size_t i = 0; i < answer.count; i++) {
        assert(answer.peers[i].node >= 0 && answer.peers[i].node <= START_PEERS_MAX && answer.peers[i].lease != NULL);
        (void)strlen(answer.peers[i].lease);
        assert(answer.peers[i].certificate != NULL && strlen(answer.peers[i].certificate) < START_ANSWER_MAX);
    }
    start_answer_done(&answer);
}

static void call(struct calls *calls, unsigned which, struct error *err)
{
    const struct leased_run leased = {.run = "3d0c2f1a-9b1e-4a57-8a43-0d6f5f0c7a11", .attempt = 1, .certificate = "{}"};

    switch (which % 8) {
    case 0: ask_for_lease(calls, err); break;
    case 1: beat(calls, &leased, err); break;
    case 2: ask_for_token(calls, &leased, err); break;
    case 3: send_log(calls, &leased, err); break;
    case 4: send_result(calls, &leased, err); break;
    case 6: ask_for_queue(calls, err); break;
    case 5: start(calls, &leased, err); break;
    default: (void)calls_refuse(calls, &leased, "{}", err).ok; break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct http_options options = {.host = "registry.example"};
    OWNED(calls) *calls = NULL;
    struct error err = {0};
    uint64_t number = 0;

    if (size == 0) return 0;
    body = (struct bytes){data + 1, size - 1};
    const struct bytes head = text_cut(&body, '\n');
    status = text_to_u64(head, 999, &number) ? (long)number : 0;
    static const uint8_t session[CALLS_SESSION_SIZE] = {1};
    assert(calls_open(&options, session, &calls, &err).ok);
    call(calls, data[0], &err);
    assert(terminal_is_printable(err.message));
    return 0;
}
