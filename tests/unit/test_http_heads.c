/* Heads, hosts and ranges: the parts of a request besides its target that are parsed before anything is done. */
#include "tests/support/unit.h"

#include <string.h>

#include "base/fault.h"
#include "gateway/http/hosts.h"
#include "gateway/http/http_check.h"
#include "gateway/http/path.h"
#include "gateway/http/range.h"
#include "gateway/pipeline/response.h"
#include "gateway/routes.h"

#define ARENA_SIZE ((size_t)1 << 20)

/* ---- ranges ---- */
static const struct range_row {
    const char *name, *value;
    uint64_t size;
    enum range_kind kind;
    uint64_t first, last;
} range_rows[] = {
    {"none", NULL, 10, RANGE_WHOLE, 0, 0},
    {"the first five", "bytes=0-4", 10, RANGE_PART, 0, 4},
    {"from the third on", "bytes=2-", 10, RANGE_PART, 2, 9},
    {"the last three", "bytes=-3", 10, RANGE_PART, 7, 9},
    {"more than there are, from the end", "bytes=-30", 10, RANGE_PART, 0, 9},
    {"past the end", "bytes=5-99", 10, RANGE_PART, 5, 9},
    {"far past the end", "bytes=5-99999999999999999999999", 10, RANGE_PART, 5, 9},
    {"the unit in capitals", "Bytes=1-1", 10, RANGE_PART, 1, 1},
    {"all of it", "bytes=0-9", 10, RANGE_PART, 0, 9},
    {"after the end", "bytes=10-", 10, RANGE_UNSATISFIABLE, 0, 0},
    {"far after the end", "bytes=99999999999999999999999-", 10, RANGE_UNSATISFIABLE, 0, 0},
    {"the last none", "bytes=-0", 10, RANGE_UNSATISFIABLE, 0, 0},
    {"of nothing", "bytes=0-", 0, RANGE_UNSATISFIABLE, 0, 0},
    {"the last of nothing", "bytes=-1", 0, RANGE_UNSATISFIABLE, 0, 0},
    {"backwards", "bytes=4-2", 10, RANGE_UNSATISFIABLE, 0, 0},
    {"several", "bytes=0-1,3-4", 10, RANGE_WHOLE, 0, 0},
    {"another unit", "items=0-1", 10, RANGE_WHOLE, 0, 0},
    {"a space", "bytes= 0-1", 10, RANGE_WHOLE, 0, 0},
    {"a sign", "bytes=+0-1", 10, RANGE_WHOLE, 0, 0},
    {"no numbers", "bytes=-", 10, RANGE_WHOLE, 0, 0},
    {"no dash", "bytes=5", 10, RANGE_WHOLE, 0, 0},
    {"hexadecimal", "bytes=0x1-2", 10, RANGE_WHOLE, 0, 0},
    {"something after it", "bytes=0-1x", 10, RANGE_WHOLE, 0, 0},
};

static void ranges(void **state)
{
    const struct range_row *row = *state;
    struct range range = {0};

    assert_int_equal(range_read(row->value, row->size, &range), row->kind);
    assert_true(range.first == row->first && range.last == row->last);
}

static void a_range_is_for_get_and_the_same_bytes(void **state)
{
    struct field list[] = {{"Range", "bytes=0-1"}, {"if-range", "\"a\""}};
    struct request request = {.method = METHOD_GET, .headers = {2, list}};
    struct range range;

    (void)state;
    assert_int_equal(range_of_request(request.method, &request.headers, 10, "\"a\"", &range), RANGE_PART);
    assert_int_equal(range_of_request(request.method, &request.headers, 10, "\"b\"", &range), RANGE_WHOLE);
    request.method = METHOD_HEAD;
    assert_int_equal(range_of_request(request.method, &request.headers, 10, "\"a\"", &range), RANGE_WHOLE);
}

static const struct content_range_row {
    const char *name, *value;
    bool valid;
    uint64_t first, last;
} content_range_rows[] = {
    {"as OCI has it", "0-1023", true, 0, 1023},
    {"one byte", "5-5", true, 5, 5},
    {"as HTTP has it", "bytes 0-9/10", true, 0, 9},
    {"of unknown size", "bytes 0-9/*", true, 0, 9},
    {"backwards", "5-4", false, 0, 0},
    {"more than the size", "bytes 0-10/10", false, 0, 0},
    {"no unit but a size", "0-9/10", false, 0, 0},
    {"a unit but no size", "bytes 0-9", false, 0, 0},
    {"past 63 bits", "0-9223372036854775808", false, 0, 0},
    {"a leading zero", "00-5", false, 0, 0},
    {"a space", "0 - 5", false, 0, 0},
    {"nothing", "", false, 0, 0},
    {"a dash", "-", false, 0, 0},
    {"no end", "5-", false, 0, 0},
    {"something after it", "0-5,", false, 0, 0},
};

static void content_ranges(void **state)
{
    const struct content_range_row *row = *state;
    struct range range = {0};

    assert_int_equal(content_range_read(row->value, &range), row->valid);
    assert_true(range.first == row->first && range.last == row->last);
}

/* ---- heads; tests with a connection are in tests/gateway ---- */
#define HOST        \
    {               \
        "Host", "x" \
    }
static const struct head_row {
    const char *name, *method, *target, *version;
    struct field fields[3];
    unsigned status; /* 0: good */
    bool has_body, is_chunked;
} head_rows[] = {
    {"a plain one", "GET", "/a", "HTTP/1.1", {HOST}, 0, false, false},
    {"a length", "PUT", "/a", "HTTP/1.1", {HOST, {"content-length", "5"}}, 0, true, false},
    {"no length", "PUT", "/a", "HTTP/1.1", {HOST, {"Content-Length", "0"}}, 0, false, false},
    {"chunks", "PUT", "/a", "HTTP/1.1", {HOST, {"Transfer-Encoding", "Chunked"}}, 0, true, true},
    {"chunks in HTTP/1.0", "PUT", "/a", "HTTP/1.0", {HOST, {"Transfer-Encoding", "chunked"}}, 400, false, false},
    {"a huge length", "PUT", "/a", "HTTP/1.1", {HOST, {"Content-Length", "9223372036854775808"}}, 400, false, false},
    {"both framings",
     "PUT",
     "/a",
     "HTTP/1.1",
     {HOST, {"Content-Length", "5"}, {"Transfer-Encoding", "chunked"}},
     400,
     false,
     false},
    {"no host", "GET", "/a", "HTTP/1.1", {{"Accept", "x"}}, 400, false, false},
    {"a method with a space", "G T", "/a", "HTTP/1.1", {HOST}, 400, false, false},
    {"no method", "", "/a", "HTTP/1.1", {HOST}, 400, false, false},
    {"a tab in a value is fine", "GET", "/a", "HTTP/1.1", {HOST, {"X", "a\tb"}}, 0, false, false},
    {"an escape character in a value", "GET", "/a", "HTTP/1.1", {HOST, {"X", "a\x1b"}}, 400, false, false},
    {"DEL in a value", "GET", "/a", "HTTP/1.1", {HOST, {"X", "a\x7f"}}, 400, false, false},
    {"a name with a space", "GET", "/a", "HTTP/1.1", {HOST, {"X ", "a"}}, 400, false, false},
    {"a long path",
     "GET",
     "/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
     "HTTP/1.1",
     {HOST},
     414,
     false,
     false},
    {"a long query",
     "GET",
     "/?aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
     "HTTP/1.1",
     {HOST},
     414,
     false,
     false},
    {"HTTP/1.2", "GET", "/a", "HTTP/1.2", {HOST}, 505, false, false},
    {"an expectation that nobody knows", "PUT", "/a", "HTTP/1.1", {HOST, {"Expect", "x"}}, 417, false, false},
};

static void heads(void **state)
{
    static const struct http_limits limits = {.headers = 1000, .path = 64, .query = 64};
    const struct head_row *row = *state;
    struct field list[3];
    struct http_framing framing = {0};
    struct http_refusal refusal = {0};
    struct http_head head = {
        .method = row->method, .version = row->version, .target = bytes_of_text(row->target), .headers.list = list};

    memcpy(list, row->fields, sizeof list);
    while (head.headers.count < COUNT(list) && list[head.headers.count].name != NULL) head.headers.count++;
    assert_int_equal(http_check(&head, &limits, &framing, &refusal), row->status == 0);
    assert_int_equal(refusal.status, row->status);
    assert_int_equal(framing.has_body, row->has_body);
    assert_int_equal(framing.is_chunked, row->is_chunked);
}

/* ---- by which name the registry is called ---- */
#define OURS "https://registry.example"
static const struct host_row {
    const char *name, *allowed, *host, *url;
} host_rows[] = {
    {"none is allowed", "", "localhost", OURS},
    {"a name", "localhost", "localhost", "https://localhost"},
    {"its usual port", "localhost", "localhost:443", "https://localhost"},
    {"a usual port that is listed", "localhost:443", "localhost", "https://localhost"},
    {"another port", "localhost", "localhost:8443", OURS},
    {"its own port", "localhost:8443", "localhost:8443", "https://localhost:8443"},
    {"not the usual one", "localhost:8443", "localhost", OURS},
    {"any port", "localhost:*", "localhost:65535", "https://localhost:65535"},
    {"any port is a number", "localhost:*", "localhost:*", OURS},
    {"a port that is none", "localhost:*", "localhost:65536", OURS},
    {"a port of zeros", "localhost:*", "localhost:00443", OURS},
    {"no port behind the colon", "localhost:*", "localhost:", OURS},
    {"the second", "registry.internal, localhost:8443", "localhost:8443", "https://localhost:8443"},
    {"capitals", "Registry.Internal", "REGISTRY.internal", "https://registry.internal"},
    {"an address of version 6", "[::1]:*", "[::1]:8443", "https://[::1]:8443"},
    {"not without its brackets", "[::1]:*", "::1", OURS},
    {"a longer name", "localhost:*", "localhost.other.example", OURS},
    {"a shorter name", "localhost:*", "local", OURS},
    {"another's name behind ours", "localhost:*", "localhost:1@other.example", OURS},
    {"another's path", "localhost:*", "localhost:1/x", OURS},
    {"a quote", "localhost:*", "localhost\"", OURS},
    {"nothing", "localhost:*", "", OURS},
    {"a word that is no host", "* https://x localhost/", "x", OURS},
};

static void clients_are_answered_by_their_name_for_us(void **state)
{
    const struct host_row *row = *state;
    const struct hosts hosts = {OURS, row->allowed};
    char url[HOSTS_URL_SIZE];

    hosts_url(&hosts, row->host, url);
    assert_string_equal(url, row->url);
}

/* An answer that is not sent: its request has only the members for answers. */
static void warnings_are_quoted_and_bounded(void **state)
{
    OWNED(arena) *arena = NULL;
    struct response response = {0};
    struct request request = {.response_space = &response};
    struct error err = {0};
    size_t bytes = 0;

    (void)state;
    assert_true(arena_new(ARENA_SIZE, &arena, &err).ok);
    request.arena = arena;
    response_empty(&request, 200);
    response_warning(&request, "the tag \"%s\" moved\r\nX: y\xc3", "a\\b");
    assert_string_equal(response.headers.list[0].name, "Warning");
    assert_string_equal(response.headers.list[0].value, "299 - \"the tag \\\"a\\\\b\\\" moved??X: y?\"");
    for (int i = 0; i < 40; i++) response_warning(&request, "%02d%02000d", i, 0);
    assert_false(response.is_broken);
    for (size_t i = 0; i < response.headers.count; i++) bytes += strlen(response.headers.list[i].value);
    assert_true(response.headers.count == 4 && bytes <= 4096);
    for (int i = 0; i < 40; i++) response_warning(&request, "\"%0590d\"", 0);
    assert_true(response.headers.count == 4 && !response.is_broken);
}

int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(a_range_is_for_get_and_the_same_bytes),
        cmocka_unit_test(warnings_are_quoted_and_bounded),
    };

    return RUN_TABLE(range_rows, ranges) + RUN_TABLE(host_rows, clients_are_answered_by_their_name_for_us) +
           RUN_TABLE(content_range_rows, content_ranges) + RUN_TABLE(head_rows, heads) +
           cmocka_run_group_tests_name("others", others, NULL, NULL);
}
