/* Outgoing calls: the request, the limits of the answer and of time, and local failures. */
#include "tests/support/unit.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "outgoing/call.h"
#include "tests/support/tls_peer.h"

static struct tls_peer peer;

static const struct outgoing_limits usual_limits = {
    .connect_s = 10, .silence_s = 10, .slowest_rate = 1, .whole_s = 20, .answer_bytes = 100000};

static struct result take_body(void *context, long status, struct bytes piece, struct error *err)
{
    (void)status;
    return buffer_add(context, piece.data, piece.length, err);
}

static struct outgoing *make(void)
{
    const struct outgoing_options options = {.reach = OUTGOING_USUAL, .ca_file = peer.ca_file};
    struct outgoing *outgoing = NULL;
    struct error err = {0};

    if (!outgoing_new(&options, &outgoing, &err).ok) fail_msg("%s", err.message);
    return outgoing;
}

static void url_of(const char *path, char url_out[128])
{
    (void)snprintf(url_out, 128, "https://peer.example:%u%s", peer.main_port, path);
}

/* A request with the values of the row or the test, and usual values for the others. */
static struct result call(struct outgoing *outgoing, struct outgoing_request request, struct outgoing_outcome *outcome_out,
                          struct buffer *body, struct error *err)
{
    char url[128];

    url_of(request.url, url);
    if (request.url[0] == '/') request.url = url;
    if (request.method == NULL) request.method = "GET";
    if (request.limits.connect_s == 0) request.limits = usual_limits;
    if (request.take == NULL) request.take = take_body;
    if (request.context == NULL) request.context = body;
    return outgoing_call(outgoing, &request, outcome_out, err);
}

/* ---- Answers ---- */

/* Seconds of silence, bytes a second, seconds in all, bytes of an answer. */
#define LIMITS(silence, rate, whole, bytes)                                                                          \
    {                                                                                                                \
        .connect_s = 10, .silence_s = (silence), .slowest_rate = (rate), .whole_s = (whole), .answer_bytes = (bytes) \
    }
static const struct answer_row {
    const char *name, *path;
    struct outgoing_limits limits;
    enum outgoing_end end;
    int64_t length; /* as in the head */
    size_t bytes;   /* of the body, taken */
    int64_t within_ms;
} answer_rows[] = {
    {"all that may be", "/bytes/1000", LIMITS(10, 1, 20, 1000), OUTGOING_ANSWERED, 1000, 1000, 10000},
    {"a byte more", "/bytes/1001", LIMITS(10, 1, 20, 1000), OUTGOING_TOO_LARGE, -1, 0, 10000},
    {"all that may be, without a length", "/chunks/1000", LIMITS(10, 1, 20, 1000), OUTGOING_ANSWERED, -1, 1000, 10000},
    {"a byte more, without a length", "/chunks/1001", LIMITS(10, 1, 20, 1000), OUTGOING_TOO_LARGE, -1, 0, 10000},
    {"much more than libcurl reads at once", "/bytes/9000000", LIMITS(10, 1, 20, 1000), OUTGOING_TOO_LARGE, -1, 0, 10000},
    {"nothing may come, and nothing does", "/bytes/0", LIMITS(10, 1, 20, 0), OUTGOING_ANSWERED, 0, 0, 10000},
    {"nothing may come, but a byte does", "/bytes/1", LIMITS(10, 1, 20, 0), OUTGOING_TOO_LARGE, -1, 0, 10000},
    {"a head without an end", "/head", LIMITS(10, 1, 20, 1000), OUTGOING_TOO_LARGE, -1, 0, 10000},
    {"interim answers without an end", "/interim", LIMITS(10, 1, 20, 1000), OUTGOING_TOO_LARGE, -1, 0, 10000},
    {"a slow drip, and a limit of the whole", "/drip", LIMITS(10, 1, 1, 1000), OUTGOING_BROKEN, -1, 0, 5000},
    {"a slow drip, and a least rate", "/drip", LIMITS(1, 1000, 20, 1000), OUTGOING_BROKEN, -1, 0, 8000},
    {"silence, and a limit of silence", "/silent", LIMITS(1, 1, 20, 1000), OUTGOING_BROKEN, -1, 0, 8000},
    {"half an answer", "/cut", LIMITS(10, 1, 20, 1000), OUTGOING_BROKEN, -1, 5, 10000},
};

static void an_answer_has_its_limits(void **state)
{
    const struct answer_row *row = *state;
    struct buffer OWNED_BUFFER body = BUFFER(1 << 20);
    OWNED(outgoing) *outgoing = make();
    struct outgoing_outcome outcome;
    struct error err = {0};

    resolver_says("127.0.0.1");
    const int64_t began_ms = clock_monotonic_ms();
    assert_true(call(outgoing, (struct outgoing_request){.url = row->path, .limits = row->limits}, &outcome, &body, &err).ok);
    const int64_t took_ms = clock_monotonic_ms() - began_ms;
    if (outcome.end != row->end) fail_msg("%d: %s", (int)outcome.end, outcome.reason);
    assert_int_equal(outcome.length, row->length);
    assert_int_equal(outcome.status, row->end == OUTGOING_ANSWERED ? 200 : 0);
    assert_int_equal(outcome.reason[0] == '\0', row->end == OUTGOING_ANSWERED);
    assert_true(body.length <= row->limits.answer_bytes);
    if (row->end == OUTGOING_ANSWERED) assert_int_equal(body.length, row->bytes);
    if (row->bytes > 0) assert_true(body.length > 0);
    if (took_ms > row->within_ms) fail_msg("it took %lld ms", (long long)took_ms);
}

static const struct url_row {
    const char *name, *url;
} url_rows[] = {
    {"without TLS", "http://peer.example/"},
    {"a file", "file:///etc/passwd"},
    {"another protocol", "ftp://peer.example/"},
    {"with a name and a secret", "https://one:secret@peer.example/"},
    {"with a name", "https://one@peer.example/"},
    {"no host", "https://"},
    {"a port that is none", "https://peer.example:123456/"},
};

static void a_wrong_url_calls_nobody(void **state)
{
    const struct url_row *row = *state;
    struct buffer OWNED_BUFFER body = BUFFER(1 << 20);
    OWNED(outgoing) *outgoing = make();
    struct outgoing_outcome outcome;
    struct error err = {0};

    resolver_says("127.0.0.1");
    assert_true(call(outgoing, (struct outgoing_request){.url = row->url}, &outcome, &body, &err).ok);
    assert_int_equal(outcome.end, OUTGOING_MALFORMED);
    assert_int_equal(resolver_questions(), 0);
}

/* ---- Requests ---- */

static struct result read_some(void *context, uint8_t *place, size_t room, size_t *length_out, struct error *err)
{
    struct bytes *left = context;
    const size_t length = left->length < room ? left->length : room;

    (void)err;
    if (length > 0) memcpy(place, left->data, length);
    left->data += length;
    left->length -= length;
    *length_out = length;
    return SUCCESS;
}

static const struct send_row {
    const char *name, *method;
    bool with_body, with_source;
    const char *body, *first, *has, *has_not;
} send_rows[] = {
    {"a GET", "GET", false, false, "", "GET /echo HTTP/1.1", "X-One: 1", "Content-Length"},
    {"a DELETE", "DELETE", false, false, "", "DELETE /echo HTTP/1.1", "X-One: 1", "Content-Length"},
    {"a DELETE with an empty body", "DELETE", true, false, "", "DELETE /echo HTTP/1.1", "Content-Length: 0", "Expect"},
    {"a POST", "POST", true, false, "some text", "POST /echo HTTP/1.1", "\n\nsome text", "Expect"},
    {"a PUT out of memory", "PUT", true, false, "some text", "PUT /echo HTTP/1.1", "\n\nsome text", "Expect"},
    {"a PUT from a source", "PUT", true, true, "some text", "PUT /echo HTTP/1.1", "Content-Length: 9\n", "Expect"},
    {"a PATCH from a source", "PATCH", true, true, "some text", "PATCH /echo HTTP/1.1", "\n\nsome text", "Transfer-Encoding"},
    {"a PUT from an empty source", "PUT", true, true, "", "PUT /echo HTTP/1.1", "Content-Length: 0", "Expect"},
};

static void a_request_is_sent_as_it_is(void **state)
{
    static const struct outgoing_header headers[] = {{"X-One", "1"}};
    const struct send_row *row = *state;
    struct buffer OWNED_BUFFER body = BUFFER(1 << 20);
    OWNED(outgoing) *outgoing = make();
    struct bytes left = bytes_of_text(row->body);
    const struct outgoing_source source = {.read = read_some, .context = &left, .length = left.length};
    struct outgoing_outcome outcome;
    struct error err = {0};

    resolver_says("127.0.0.1");
    const struct outgoing_request request = {.method = row->method,
                                             .url = "/echo",
                                             .headers = headers,
                                             .header_count = 1,
                                             .with_body = row->with_body,
                                             .body = row->with_source ? (struct bytes){0} : left,
                                             .source = row->with_source ? &source : NULL};
    assert_true(call(outgoing, request, &outcome, &body, &err).ok);
    if (outcome.end != OUTGOING_ANSWERED) fail_msg("%s", outcome.reason);
    assert_true(strncmp(buffer_text(&body), row->first, strlen(row->first)) == 0);
    assert_non_null(strstr(buffer_text(&body), row->has));
    assert_null(strstr(buffer_text(&body), row->has_not));
}

static void a_header_is_one_line(void **state)
{
    static const struct outgoing_header headers[] = {{"X-One", "1\r\nX-Two: 2"}};
    struct buffer OWNED_BUFFER body = BUFFER(1 << 20);
    OWNED(outgoing) *outgoing = make();
    struct outgoing_outcome outcome;
    struct error err = {0};

    (void)state;
    resolver_says("127.0.0.1");
    const struct outgoing_request request = {.url = "/echo", .headers = headers, .header_count = 1};
    assert_false(call(outgoing, request, &outcome, &body, &err).ok);
    assert_int_equal(err.kind, ERROR_INVALID);
    assert_int_equal(resolver_questions(), 0);
}

/* The peer ends a kept connection when the next request comes. It is unknown whether the request took effect. */
static void what_must_not_come_twice_does_not(void **state)
{
    static const struct {
        bool is_repeatable;
        enum outgoing_end end;
        unsigned requests;
    } rows[] = {{true, OUTGOING_ANSWERED, 2}, {false, OUTGOING_NOT_AGAIN, 1}};

    (void)state;
    resolver_says("127.0.0.1");
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct buffer OWNED_BUFFER body = BUFFER(1 << 20);
        OWNED(outgoing) *outgoing = make();
        struct outgoing_outcome outcome;
        struct error err = {0};
        assert_true(call(outgoing, (struct outgoing_request){.url = "/last"}, &outcome, &body, &err).ok);
        const unsigned before = tls_peer_requests(&peer, "POST /plain");
        const struct outgoing_request request = {
            .method = "POST", .url = "/plain", .with_body = true, .is_repeatable = rows[i].is_repeatable};
        assert_true(call(outgoing, request, &outcome, &body, &err).ok);
        assert_int_equal(outcome.end, rows[i].end);
        assert_int_equal(tls_peer_requests(&peer, "POST /plain") - before, rows[i].requests);
    }
}

static void connections_are_kept(void **state)
{
    struct buffer OWNED_BUFFER body = BUFFER(1 << 20);
    OWNED(outgoing) *outgoing = make();
    struct outgoing_outcome outcome;
    struct error err = {0};

    (void)state;
    resolver_says("127.0.0.1;127.0.0.2");
    for (unsigned i = 0; i < 5; i++) {
        assert_true(call(outgoing, (struct outgoing_request){.url = "/plain"}, &outcome, &body, &err).ok);
        assert_int_equal(outcome.status, 200);
    }
    assert_int_equal(resolver_questions(), 1);
}

/* It is asked each time, before the peer gets a request: a kept connection would show no certificate. */
struct acquaintance {
    bool is_known;
    unsigned asked;
};

static bool knows(void *context, struct bytes pem)
{
    static const char begin[] = "-----BEGIN CERTIFICATE-----";
    struct acquaintance *acquaintance = context;

    assert_true(pem.length > sizeof begin && memcmp(pem.data, begin, sizeof begin - 1) == 0);
    acquaintance->asked++;
    return acquaintance->is_known;
}

static struct result take_nothing(void *context, long status, struct bytes piece, struct error *err)
{
    (void)context, (void)status, (void)piece, (void)err;
    return SUCCESS;
}

static void who_is_not_known_gets_no_request(void **state)
{
    struct acquaintance acquaintance = {.is_known = true};
    const struct outgoing_request request = {.url = "/bytes/7", .knows = knows, .take = take_nothing, .context = &acquaintance};
    OWNED(outgoing) *outgoing = make();
    struct outgoing_outcome outcome;
    struct error err = {0};

    (void)state;
    resolver_says("127.0.0.1");
    for (unsigned i = 0; i < 2; i++) {
        assert_true(call(outgoing, request, &outcome, NULL, &err).ok);
        if (outcome.end != OUTGOING_ANSWERED) fail_msg("%s", outcome.reason);
    }
    acquaintance.is_known = false;
    assert_true(call(outgoing, request, &outcome, NULL, &err).ok);
    assert_int_equal(outcome.end, OUTGOING_UNTRUSTED);
    assert_false(outcome.was_sent);
    assert_string_equal(outcome.reason, "its certificate is of somebody else");
    assert_int_equal(acquaintance.asked, 3);
    assert_int_equal(tls_peer_requests(&peer, "GET /bytes/7 "), 2);
}

/* ---- Ending early, and failing here ---- */

static void *stop_soon(void *context)
{
    (void)usleep(50000);
    atomic_store((atomic_bool *)context, true);
    return NULL;
}

static void a_call_is_given_up(void **state)
{
    struct buffer OWNED_BUFFER body = BUFFER(1 << 20);
    OWNED(outgoing) *outgoing = make();
    atomic_bool gives_up = false;
    struct outgoing_outcome outcome;
    struct error err = {0};
    pthread_t thread;

    (void)state;
    resolver_says("127.0.0.1");
    assert_int_equal(pthread_create(&thread, NULL, stop_soon, &gives_up), 0);
    const int64_t began_ms = clock_monotonic_ms();
    assert_true(call(outgoing, (struct outgoing_request){.url = "/silent", .gives_up = &gives_up}, &outcome, &body, &err).ok);
    assert_int_equal(outcome.end, OUTGOING_GIVEN_UP);
    assert_true(clock_monotonic_ms() - began_ms < 5000);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

static struct result refuse_to_take(void *context, long status, struct bytes piece, struct error *err)
{
    (void)context, (void)status, (void)piece;
    return failure(err, ERROR_FULL, "there is no room");
}

static struct result refuse_to_read(void *context, uint8_t *place, size_t room, size_t *length_out, struct error *err)
{
    (void)context, (void)place, (void)room, (void)length_out;
    return failure(err, ERROR_CORRUPT, "the file is damaged");
}

static void what_fails_here_is_said_as_it_is(void **state)
{
    const struct outgoing_source source = {.read = refuse_to_read, .length = 10};
    struct buffer OWNED_BUFFER body = BUFFER(1 << 20);
    OWNED(outgoing) *outgoing = make();
    struct outgoing_outcome outcome;
    struct error err = {0};

    (void)state;
    resolver_says("127.0.0.1");
    memset(&outcome, UNTOUCHED_BYTE, sizeof outcome);
    assert_false(call(outgoing, (struct outgoing_request){.url = "/plain", .take = refuse_to_take}, &outcome, &body, &err).ok);
    assert_int_equal(err.kind, ERROR_FULL);
    const struct outgoing_request upload = {.method = "PUT", .url = "/echo", .with_body = true, .source = &source};
    assert_false(call(outgoing, upload, &outcome, &body, &err).ok);
    assert_int_equal(err.kind, ERROR_CORRUPT);
    assert_true(is_untouched(&outcome, sizeof outcome));
    assert_true(
        call(outgoing, (struct outgoing_request){.url = "/plain"}, &outcome, &body, &err).ok); /* and then it is as before */
    assert_int_equal(outcome.status, 200);
}

static void long_options_are_refused(void **state)
{
    char text[600];
    const struct outgoing_options rows[] = {
        {.ca_file = text}, {.certificate_file = text}, {.key_file = text}, {.reach = OUTGOING_ANY, .proxy = text}};

    (void)state;
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct outgoing *outgoing = NULL;
        struct error err = {0};
        assert_false(outgoing_new(&rows[i], &outgoing, &err).ok);
        assert_int_equal(err.kind, ERROR_INVALID);
    }
}

/* Socket failures are outcomes; lack of memory is an error. */
static struct result call_once(void *context, struct error *err)
{
    static const struct outgoing_header headers[] = {{"X-One", "1"}, {"X-Two", "2"}};
    const struct outgoing_options options = {.ca_file = peer.ca_file};
    struct buffer OWNED_BUFFER body = BUFFER(1 << 20);
    OWNED(outgoing) *outgoing = NULL;
    struct outgoing_outcome outcome = {0};

    (void)context;
    resolver_says("127.0.0.1");
    TRY_UNTOUCHED(outgoing, outgoing_new(&options, &outgoing, err));
    const struct outgoing_request request = {.url = "/plain", .headers = headers, .header_count = 2};
    TRY_UNTOUCHED_BYTES(outcome, call(outgoing, request, &outcome, &body, err));
    if (outcome.end != OUTGOING_ANSWERED) return failure(err, ERROR_UNAVAILABLE, "%s", outcome.reason);
    assert_string_equal(buffer_text(&body), "hello");
    return SUCCESS;
}

static void each_failure_is_said(void **state)
{
    (void)state;
    fail_each(call_once, NULL, ERROR_NONE, 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_header_is_one_line),     cmocka_unit_test(what_must_not_come_twice_does_not),
        cmocka_unit_test(connections_are_kept),     cmocka_unit_test(who_is_not_known_gets_no_request),
        cmocka_unit_test(a_call_is_given_up),       cmocka_unit_test(what_fails_here_is_said_as_it_is),
        cmocka_unit_test(long_options_are_refused), cmocka_unit_test(each_failure_is_said),
    };

    tls_peer_start(&peer);
    const int failed = RUN_TABLE(answer_rows, an_answer_has_its_limits) + RUN_TABLE(url_rows, a_wrong_url_calls_nobody) +
                       RUN_TABLE(send_rows, a_request_is_sent_as_it_is) +
                       cmocka_run_group_tests_name("others", tests, NULL, NULL);
    tls_peer_stop(&peer);
    return failed;
}
