/* Paths, queries and routes: the parts of a request that are parsed before anything is done. */
#include "tests/support/unit.h"

#include <string.h>

#include "gateway/http/path.h"
#include "gateway/http/query.h"
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
    {"an encoded slash in a repository", "/api/v1/repositories/acme/models/a%2Fb%2fdeletion/label",
     "api|v1|repositories|acme|models|a/b/deletion|label"},
    {"a whole name with encoded slashes", "/api/v1/repositories/acme%2Fmodels%2Fa", "api|v1|repositories|acme/models/a"},
    {"an encoded slash first", "/api/v1/repositories/acme/models/%2Fa", NULL},
    {"an encoded slash last", "/api/v1/repositories/acme/models/a%2F", NULL},
    {"an encoded slash alone", "/api/v1/repositories/acme/models/%2F", NULL},
    {"two encoded slashes", "/api/v1/repositories/acme/models/a%2F%2Fb", NULL},
    {"a doubly encoded slash in a repository", "/api/v1/repositories/acme/models/a%252Fb", NULL},
    {"dots between encoded slashes", "/api/v1/repositories/acme/models/a%2F..%2Fb", NULL},
    {"encoded dots behind an encoded slash", "/api/v1/repositories/acme/models/a%2F%2e%2E", NULL},
    {"a dot before an encoded slash", "/api/v1/repositories/acme/models/.%2Fa", NULL},
    {"an encoded backslash in a repository", "/api/v1/repositories/acme/models/a%5Cb", NULL},
    {"NUL behind an encoded slash", "/api/v1/repositories/acme/models/a%2F%00", NULL},
    {"an encoded slash before repositories end", "/api/v1/repositories%2Facme/models/a", NULL},
    {"an encoded slash in another path of the API", "/api/v1/projects/acme%2Fmodels", NULL},
    {"an encoded slash below /v2", "/v2/acme%2Fmodels/a/tags/list", NULL},
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
    {"a repository's label", METHOD_PUT, "/api/v1/repositories/acme/models/a/b/label", "repository_label", "acme/models/a/b",
     NULL},
    {"encoded slashes", METHOD_PUT, "/api/v1/repositories/acme/models/a%2Fb/label", "repository_label", "acme/models/a/b", NULL},
    {"a repository called label", METHOD_PUT, "/api/v1/repositories/acme/models/a%2Flabel", "405", NULL, NULL},
    {"a repository called deletion", METHOD_GET, "/api/v1/repositories/acme/models/a%2Fdeletion/deletion", "repository_plan",
     "acme/models/a/deletion", NULL},
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

/*
 * Every row is complete: a route that is decided has an action, one that is recorded is decided, and one that streams has its
 * functions.
 */
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
        /*
         * A client that may send only a form is refused before a body is stored: manifests were gathered from every known client.
         */
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

static void reading_survives_lack_of_memory(void **state)
{
    (void)state;
    fail_each(read_once, NULL, ERROR_NO_MEMORY, 5);
}

int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(a_path_of_too_many_segments),
        cmocka_unit_test(each_route_is_complete),
        cmocka_unit_test(reading_survives_lack_of_memory),
    };

    return RUN_TABLE(path_rows, paths_are_decoded_once) + RUN_TABLE(target_rows, targets_are_split) +
           RUN_TABLE(query_rows, queries_are_decoded_once) + RUN_TABLE(route_rows, routes_match_from_the_right) +
           cmocka_run_group_tests_name("others", others, NULL, NULL);
}
