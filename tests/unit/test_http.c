/* Paths, queries, ranges, heads and routes: what is understood of a request before anybody acts on it. */
#include "tests/support/unit.h"

#include <stdio.h>
#include <string.h>

#include "base/fault.h"
#include "gateway/http/hosts.h"
#include "gateway/http/http_check.h"
#include "gateway/http/path.h"
#include "gateway/http/query.h"
#include "gateway/http/range.h"
#include "gateway/pipeline/response.h"
#include "gateway/routes.h"

#define ARENA_SIZE ((size_t)1 << 20)

/* ---- paths ---- */
static const struct path_row {
    const char *name, *text, *joined; /* joined with '|'; NULL: refused */
} path_rows[] = {
    {"the root", "/", ""},
    {"segments", "/v2/a/b", "v2|a|b"},
    {"a final slash", "/v2/", "v2|"},
    {"an encoded colon", "/v2/sha256%3Aab", "v2|sha256:ab"},
    {"what robots' names hold", "/robot$acme+ci", "robot$acme+ci"},
    {"an encoded slash", "/a%2fb", NULL},
    {"a doubly encoded slash", "/a%252fb", NULL},
    {"dots", "/a/../b", NULL},
    {"one dot", "/a/./b", NULL},
    {"encoded dots", "/a/%2e%2e/b", NULL},
    {"half encoded dots", "/a/.%2E/b", NULL},
    {"three dots are a name", "/...", "..."},
    {"NUL", "/a%00", NULL},
    {"a control character", "/a%0ab", NULL},
    {"a space", "/a%20b", NULL},
    {"a backslash", "/a%5cb", NULL},
    {"another alphabet", "/%d8%b3", NULL},
    {"half an escape", "/a%4", NULL},
    {"a lone percent sign", "/a%", NULL},
    {"letters that are no digits", "/a%zz", NULL},
    {"an empty segment", "/a//b", NULL},
    {"two slashes first", "//a", NULL},
    {"no slash first", "a", NULL},
    {"nothing", "", NULL},
};

static void paths_are_decoded_once(void **state)
{
    const struct path_row *row = *state;
    struct buffer OWNED_BUFFER joined = BUFFER(256);
    OWNED(arena) *arena = NULL;
    struct path path = {0};
    struct error err = {0};

    assert_true(arena_new(ARENA_SIZE, &arena, &err).ok);
    const bool ok = path_split(bytes_of_text(row->text), arena, &path, &err).ok;
    assert_int_equal(ok, row->joined != NULL);
    if (!ok) {
        assert_int_equal(err.kind, ERROR_INVALID);
        return;
    }
    for (size_t i = 0; i < path.count; i++)
        assert_true(buffer_format(&joined, &err, "%s%s", i == 0 ? "" : "|", path.segments[i]).ok);
    assert_string_equal(buffer_text(&joined), row->joined);
}

static void a_path_of_too_many_segments(void **state)
{
    OWNED(arena) *arena = NULL;
    char text[2 * PATH_SEGMENTS_MAX + 3];
    struct path path;
    struct error err = {0};

    (void)state;
    assert_true(arena_new(ARENA_SIZE, &arena, &err).ok);
    for (size_t i = 0; i < sizeof text; i++) text[i] = i % 2 == 0 ? '/' : 'a';
    assert_true(path_split((struct bytes){(const uint8_t *)text, 2 * PATH_SEGMENTS_MAX}, arena, &path, &err).ok);
    assert_int_equal(path.count, PATH_SEGMENTS_MAX);
    assert_false(path_split((struct bytes){(const uint8_t *)text, sizeof text - 1}, arena, &path, &err).ok);
}

static const struct target_row {
    const char *name, *text, *path, *query; /* path NULL: refused */
} target_rows[] = {
    {"origin-form", "/a?b=c", "/a", "b=c"},
    {"no query", "/a", "/a", ""},
    {"an empty query", "/a?", "/a", ""},
    {"a second question mark", "/a?b?c", "/a", "b?c"},
    {"absolute-form", "https://host:1/a?b", "/a", "b"},
    {"absolute-form of old", "http://host/a", "/a", ""},
    {"absolute-form without a path", "https://host", NULL, NULL},
    {"asterisk-form", "*", NULL, NULL},
    {"authority-form", "host:443", NULL, NULL},
    {"another scheme", "ftp://host/a", NULL, NULL},
    {"nothing", "", NULL, NULL},
};

static void targets_are_split(void **state)
{
    const struct target_row *row = *state;
    struct bytes path = {0}, query = {0};

    assert_int_equal(request_target_split(bytes_of_text(row->text), &path, &query), row->path != NULL);
    if (row->path == NULL) return;
    assert_true(bytes_equal(path, bytes_of_text(row->path)));
    assert_true(bytes_equal(query, bytes_of_text(row->query)));
}

/* ---- queries ---- */
static const struct query_row {
    const char *name, *text, *joined; /* NULL: refused */
} query_rows[] = {
    {"nothing", "", ""},
    {"one", "a=b", "a=b;"},
    {"several", "a=b&c=d&a=e", "a=b;c=d;a=e;"},
    {"no value", "a&b=", "a=;b=;"},
    {"empty parts", "&&a=b&", "a=b;"},
    {"a plus is a space", "a=b+c%2Bd", "a=b c+d;"},
    {"an equals sign in the value", "a=b=c", "a=b=c;"},
    {"an encoded ampersand", "a=b%26c", "a=b&c;"},
    {"a line feed", "a=b%0ac", NULL},
    {"NUL", "a=%00", NULL},
    {"another alphabet", "a=%d8%b3", NULL},
    {"half an escape", "a=%2", NULL},
    {"half an escape in a name", "%=b", NULL},
};

static void queries_are_decoded_once(void **state)
{
    const struct query_row *row = *state;
    struct buffer OWNED_BUFFER joined = BUFFER(256);
    OWNED(arena) *arena = NULL;
    struct fields fields = {0};
    struct error err = {0};

    assert_true(arena_new(ARENA_SIZE, &arena, &err).ok);
    assert_int_equal(query_read(bytes_of_text(row->text), arena, &fields, &err).ok, row->joined != NULL);
    if (row->joined == NULL) return;
    for (size_t i = 0; i < fields.count; i++)
        assert_true(buffer_format(&joined, &err, "%s=%s;", fields.list[i].name, fields.list[i].value).ok);
    assert_string_equal(buffer_text(&joined), row->joined);
}

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

/* ---- heads; what needs a connection is in tests/gateway ---- */
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

/* ---- routes: the real table ---- */
static const struct route_row {
    const char *name;
    enum method method;
    const char *path, *route, *captured, *reference; /* route NULL: unknown; "405": other methods only */
} route_rows[] = {
    {"ping", METHOD_GET, "/v2/", "ping", NULL, NULL},
    {"ping without its slash", METHOD_GET, "/v2", "ping_bare", NULL, NULL},
    {"DELETE of it", METHOD_DELETE, "/v2", "405", NULL, NULL},
    {"a blob", METHOD_GET, "/v2/a/b/c/blobs/sha256:0", "blob_read", "a/b/c", "sha256:0"},
    {"HEAD is read too", METHOD_HEAD, "/v2/a/blobs/sha256:0", "blob_read", "a", "sha256:0"},
    {"a repository called blobs", METHOD_GET, "/v2/a/blobs/blobs/sha256:0", "blob_read", "a/blobs", "sha256:0"},
    {"only called blobs", METHOD_GET, "/v2/blobs/blobs/sha256:0", "blob_read", "blobs", "sha256:0"},
    {"a repository called manifests", METHOD_GET, "/v2/a/manifests/blobs/sha256:0", "blob_read", "a/manifests", "sha256:0"},
    {"a tag called blobs", METHOD_GET, "/v2/a/manifests/blobs", "manifest_read", "a", "blobs"},
    {"a repository called uploads", METHOD_POST, "/v2/a/uploads/blobs/uploads/", "upload_begin", "a/uploads", NULL},
    {"called blobs/uploads", METHOD_PATCH, "/v2/blobs/uploads/blobs/uploads/x", "upload_write", "blobs/uploads", "x"},
    {"a repository called tags", METHOD_GET, "/v2/a/tags/tags/list", "tag_list", "a/tags", NULL},
    {"called tags/list", METHOD_GET, "/v2/tags/list/tags/list", "tag_list", "tags/list", NULL},
    {"a tag called list", METHOD_GET, "/v2/a/manifests/list", "manifest_read", "a", "list"},
    {"a repository called v2", METHOD_GET, "/v2/v2/manifests/x", "manifest_read", "v2", "x"},
    {"no name", METHOD_GET, "/v2/manifests/x", NULL, NULL, NULL},
    {"no reference", METHOD_GET, "/v2/a/manifests/", NULL, NULL, NULL},
    {"a name that ends in a slash", METHOD_GET, "/v2/a/", NULL, NULL, NULL},
    {"no such method", METHOD_POST, "/v2/a/manifests/x", "405", NULL, NULL},
    {"DELETE of a ping", METHOD_DELETE, "/v2/", "405", NULL, NULL},
    {"a project", METHOD_GET, "/api/v1/projects/acme/models", "project_read", "acme/models", NULL},
    {"a project's label", METHOD_PUT, "/api/v1/projects/acme/label/label", "project_label", "acme/label", NULL},
    {"probes", METHOD_GET, "/healthz", "alive", NULL, NULL},
    {"nothing", METHOD_GET, "/", NULL, NULL, NULL},
    {"capitals are other letters", METHOD_GET, "/V2/", NULL, NULL, NULL},
};

static void assert_text(const char *found, const char *wanted)
{
    assert_int_equal(found == NULL, wanted == NULL);
    if (wanted != NULL) assert_string_equal(found, wanted);
}

static void routes_match_from_the_right(void **state)
{
    const struct route_row *row = *state;
    OWNED(arena) *arena = NULL;
    struct path path;
    struct route_match match = {0};
    struct error err = {0};

    assert_true(arena_new(ARENA_SIZE, &arena, &err).ok);
    assert_true(path_split(bytes_of_text(row->path), arena, &path, &err).ok);
    assert_true(route_find(&route_table, &path, row->method, arena, &match, &err).ok);
    if (row->route == NULL || strcmp(row->route, "405") == 0) {
        assert_int_equal(match.answer, row->route == NULL ? ROUTE_UNKNOWN : ROUTE_METHOD);
        return;
    }
    assert_int_equal(match.answer, ROUTE_FOUND);
    assert_string_equal(match.route->name, row->route);
    assert_text(match.name, row->captured);
    assert_text(match.reference, row->reference);
}

/* Every row is complete: who decides has an action, who records decides, who streams has its functions. */
static void each_route_is_complete(void **state)
{
    (void)state;
    for (size_t i = 0; i < route_table.count; i++) {
        const struct route *route = &route_table.rows[i];
        const bool is_probe = route->record == RECORD_NONE;
        print_message("%s\n", route->name);
        assert_int_equal(is_probe, route->credential == CREDENTIAL_NONE);
        assert_int_equal(is_probe, route->target == target_none);
        assert_int_equal(is_probe, route->action_count == 0);
        assert_true(route->methods != 0 && route->duration != NULL);
        if (route->body == BODY_STREAMED) {
            assert_true(route->handler->begin != NULL && route->handler->write != NULL);
            assert_true(route->handler->finish != NULL);
        } else {
            assert_non_null(route->handler->handle);
        }
        assert_int_equal(route->body_limit > 0, route->body != BODY_NONE && route->body != BODY_STREAMED);
        /* Who may not send more than a form is told so before it is stored: manifests once were gathered from everybody known. */
        if (route->body == BODY_FORM || route->body == BODY_GATHERED) assert_true(route->body_limit <= BODY_UNDECIDED_MAX);
        if (route->body == BODY_ALLOWED) assert_true(route->body_limit <= BODY_ALLOWED_MAX);
    }
}

static struct result read_once(void *context, struct error *err)
{
    OWNED(arena) *arena = NULL;
    struct path path;
    struct route_match match;
    struct fields fields;

    (void)context;
    TRY_UNTOUCHED_BYTES(arena, arena_new(ARENA_SIZE, &arena, err));
    TRY_UNTOUCHED_BYTES(path, path_split(bytes_of_text("/v2/a/b/manifests/latest"), arena, &path, err));
    TRY_UNTOUCHED_BYTES(match, route_find(&route_table, &path, METHOD_GET, arena, &match, err));
    TRY_UNTOUCHED_BYTES(fields, query_read(bytes_of_text("a=b&c=d"), arena, &fields, err));
    return SUCCESS;
}

/* An answer that nobody sends: its request has what answers are made from, and no more. */
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

static void reading_survives_lack_of_memory(void **state)
{
    (void)state;
    fail_each(read_once, NULL, ERROR_NO_MEMORY, 5);
}

int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(a_path_of_too_many_segments),     cmocka_unit_test(a_range_is_for_get_and_the_same_bytes),
        cmocka_unit_test(each_route_is_complete),          cmocka_unit_test(warnings_are_quoted_and_bounded),
        cmocka_unit_test(reading_survives_lack_of_memory),
    };

    return RUN_TABLE(path_rows, paths_are_decoded_once) + RUN_TABLE(target_rows, targets_are_split) +
           RUN_TABLE(query_rows, queries_are_decoded_once) + RUN_TABLE(range_rows, ranges) +
           RUN_TABLE(host_rows, clients_are_answered_by_their_name_for_us) + RUN_TABLE(content_range_rows, content_ranges) +
           RUN_TABLE(head_rows, heads) + RUN_TABLE(route_rows, routes_match_from_the_right) +
           cmocka_run_group_tests_name("others", others, NULL, NULL);
}
