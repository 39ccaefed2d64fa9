/* What `sijil login` reads from an issuer, and from the browser that comes back. */
#include "tests/support/unit.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/json.h"
#include "client/provider/callback.h"
#include "client/provider/device.h"

#define ISSUER "https://id.example"
#define STATE  "0123456789012345678901234567890123456789012"

static const struct url_row {
    const char *name, *url;
    bool is_good;
} url_rows[] = {
    {"a host", "https://id.example", true},
    {"a port, a path and a query", "https://id.example:8443/a/b?c=d", true},
    {"an @ in the path", "https://id.example/@ann", true},
    {"plain http", "http://id.example/", false},
    {"no host", "https:///token", false},
    {"a port without a host", "https://:443/", false},
    {"a user", "https://ann@id.example/", false},
    {"a user before a query", "https://ann:x@id.example?x", false},
    {"a fragment", "https://id.example/#x", false},
    {"a space", "https://id.example/a b", false},
    {"a line end", "https://id.example/\r\nX: y", false},
    {"an escape", "https://id.example/\x1b[2J", false},
    {"letters that are not ASCII", "https://id.ex\xc3\xa4mple/", false},
    {"another scheme", "javascript:alert(1)", false},
};

static void check_url(void **state)
{
    const struct url_row *row = *state;

    assert_int_equal(provider_url_is_good(row->url), row->is_good);
}

static const struct callback_row {
    const char *name, *head;
    bool is_good;
    const char *code, *error, *issuer;
} callback_rows[] = {
    {"a code", "GET /callback?code=a%2Fb+c&state=" STATE " HTTP/1.1\r\n\r\n", true, "a/b c", "", ""},
    {"with the issuer", "GET /callback?state=" STATE "&code=a&iss=https%3A%2F%2Fid.example HTTP/1.1\r\n\r\n", true, "a", "",
     ISSUER},
    {"with what some issuers add", "GET /callback?state=" STATE "&code=a&session_state=x&scope=y HTTP/1.0\r\n\r\n", true, "a", "",
     ""},
    {"an error", "GET /callback?error=access_denied&error_description=no&state=" STATE " HTTP/1.1\r\n\r\n", true, "",
     "access_denied", ""},
    {"no state", "GET /callback?code=a HTTP/1.1\r\n\r\n", false, NULL, NULL, NULL},
    {"neither code nor error", "GET /callback?state=" STATE " HTTP/1.1\r\n\r\n", false, NULL, NULL, NULL},
    {"code and error", "GET /callback?state=" STATE "&code=a&error=b HTTP/1.1\r\n\r\n", false, NULL, NULL, NULL},
    {"a code twice", "GET /callback?state=" STATE "&code=a&code=b HTTP/1.1\r\n\r\n", false, NULL, NULL, NULL},
    {"a longer state", "GET /callback?state=" STATE "3&code=a HTTP/1.1\r\n\r\n", false, NULL, NULL, NULL},
    {"a cut escape", "GET /callback?state=" STATE "&code=a%2 HTTP/1.1\r\n\r\n", false, NULL, NULL, NULL},
    {"a NUL", "GET /callback?state=" STATE "&code=a%00b HTTP/1.1\r\n\r\n", false, NULL, NULL, NULL},
    {"another path", "GET /callback2?state=" STATE "&code=a HTTP/1.1\r\n\r\n", false, NULL, NULL, NULL},
    {"another method", "POST /callback?state=" STATE "&code=a HTTP/1.1\r\n\r\n", false, NULL, NULL, NULL},
    {"no HTTP", "GET /callback?state=" STATE "&code=a\r\n\r\n", false, NULL, NULL, NULL},
};

static void check_callback(void **state)
{
    const struct callback_row *row = *state;
    struct callback callback;

    assert_int_equal(callback_parse(bytes_of_text(row->head), &callback), row->is_good);
    if (!row->is_good) return;
    assert_string_equal(callback.state, STATE);
    assert_string_equal(callback.code, row->code);
    assert_string_equal(callback.error, row->error);
    assert_string_equal(callback.issuer, row->issuer);
}

#define METADATA(more) "{\"issuer\":\"" ISSUER "\",\"token_endpoint\":\"" ISSUER "/token\"" more "}"

static const struct metadata_row {
    const char *name, *text;
    enum error_kind kind; /* ERROR_NONE: it is accepted */
    bool names_itself, without_s256, revokes_for_bearer;
} metadata_rows[] = {
    {"the least", METADATA(""), ERROR_NONE, false, false, false},
    {"all",
     METADATA(",\"authorization_response_iss_parameter_supported\":true,\"code_challenge_methods_supported\":[\"plain\"],"
              "\"revocation_endpoint_auth_methods_supported\":[\"bearer\"]"),
     ERROR_NONE, true, true, true},
    {"methods with S256, revocation without a token",
     METADATA(
         ",\"code_challenge_methods_supported\":[7,\"S256\"],\"revocation_endpoint_auth_methods_supported\":[\"none\",\"bearer\"]"),
     ERROR_NONE, false, false, false},
    {"of another issuer", "{\"issuer\":\"https://id.example/\",\"token_endpoint\":\"https://id.example/token\"}", ERROR_DENIED,
     false, false, false},
    {"of nobody", "{}", ERROR_DENIED, false, false, false},
    {"without a token endpoint", "{\"issuer\":\"" ISSUER "\"}", ERROR_INVALID, false, false, false},
    {"an endpoint without TLS", METADATA(",\"revocation_endpoint\":\"http://id.example/\""), ERROR_INVALID, false, false, false},
    {"an endpoint that is no text", METADATA(",\"revocation_endpoint\":7"), ERROR_INVALID, false, false, false},
    {"no JSON", "<html>", ERROR_INVALID, false, false, false},
};

static void check_metadata(void **state)
{
    const struct metadata_row *row = *state;
    struct provider_metadata metadata;
    struct error err = {0};

    assert_int_equal(metadata_parse(bytes_of_text(row->text), ISSUER, &metadata, &err).ok, row->kind == ERROR_NONE);
    assert_int_equal(err.kind, row->kind);
    if (row->kind != ERROR_NONE) return;
    assert_string_equal(metadata.token, ISSUER "/token");
    assert_int_equal(metadata.names_itself, row->names_itself);
    assert_int_equal(metadata.without_s256, row->without_s256);
    assert_int_equal(metadata.revokes_for_bearer, row->revokes_for_bearer);
}

static int visit(const char *address, const char *text)
{
    struct sockaddr_in place = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    unsigned long port = strtoul(address + strlen("http://127.0.0.1:"), NULL, 10);

    place.sin_port = htons((uint16_t)port);
    assert_int_equal(connect(fd, (const struct sockaddr *)&place, sizeof place), 0);
    assert_int_equal(send(fd, text, strlen(text), 0), strlen(text));
    return fd;
}

/* Connections that send nothing, as browsers open them in advance, keep nobody out, even if they take all places. */
static void idle_visitors_keep_nobody_out(void **state)
{
    OWNED(callback_listener) *listener = NULL;
    struct callback callback;
    struct error err = {0};
    char answer[512] = "";
    int idle[8]; /* as many as there are places; the backlog holds them before */

    (void)state;
    must(callback_listen(0, &listener, &err), &err);
    for (size_t i = 0; i < COUNT(idle); i++)
        idle[i] = visit(callback_address(listener), i % 2 == 0 ? "" : "GET /callback?code=x");
    const int fd = visit(callback_address(listener), "GET /callback?code=c&state=" STATE " HTTP/1.1\r\nHost: x\r\n\r\n");
    must(callback_wait(listener, STATE, 20000, &callback, &err), &err);
    assert_string_equal(callback.code, "c");
    assert_true(recv(fd, answer, sizeof answer - 1, 0) > 0);
    assert_non_null(strstr(answer, "200 OK"));
    for (size_t i = 0; i < COUNT(idle); i++) (void)close(idle[i]);
    (void)close(fd);
}

/* Some issuers allow one port only: the next login has it at once, and not a minute later. */
static void a_port_is_free_after_its_login(void **state)
{
    OWNED(callback_listener) *next = NULL;
    struct callback_listener *first = NULL;
    struct callback callback;
    struct error err = {0};

    (void)state;
    must(callback_listen(0, &first, &err), &err);
    const unsigned port = (unsigned)strtoul(callback_address(first) + strlen("http://127.0.0.1:"), NULL, 10);
    const int fd = visit(callback_address(first), "GET /callback?code=c&state=" STATE " HTTP/1.1\r\nHost: x\r\n\r\n");
    must(callback_wait(first, STATE, 20000, &callback, &err), &err);
    callback_listener_free(first);
    (void)close(fd);
    must(callback_listen(port, &next, &err), &err);
}

static void nobody_comes(void **state)
{
    OWNED(callback_listener) *listener = NULL;
    OWNED(callback_listener) *second = NULL;
    struct callback callback;
    struct error err = {0};
    unsigned port = 0;

    (void)state;
    must(callback_listen(0, &listener, &err), &err);
    assert_false(callback_wait(listener, STATE, 10, &callback, &err).ok);
    assert_int_equal(err.kind, ERROR_DENIED);
    port = (unsigned)strtoul(callback_address(listener) + strlen("http://127.0.0.1:"), NULL, 10);
    assert_false(callback_listen(port, &second, &err).ok);
    assert_int_equal(err.kind, ERROR_CONFLICT);
}

static struct result read_all(void *context, struct error *err)
{
    struct provider_metadata metadata;
    struct device_offer offer;
    struct buffer OWNED_BUFFER form = BUFFER(4096);
    OWNED_JSON answer = NULL;

    (void)context;
    TRY(metadata_parse(bytes_of_text(METADATA("")), ISSUER, &metadata, err));
    TRY(json_read(
        bytes_of_text("{\"device_code\":\"d\",\"user_code\":\"u\",\"verification_uri\":\"" ISSUER "\",\"expires_in\":9}"), 4096,
        &answer, err));
    TRY(device_offer_take(answer, &offer, err));
    assert_int_equal(offer.interval_s, 5);
    TRY(form_add(&form, "a", "b c", err));
    TRY(form_add(&form, "d", "\xff~", err));
    assert_string_equal(buffer_text(&form), "a=b%20c&d=%FF~");
    OWNED(callback_listener) *listener = NULL;
    return callback_listen(0, &listener, err);
}

static void memory_fails(void **state)
{
    (void)state;
    fail_each(read_all, NULL, ERROR_NO_MEMORY, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(idle_visitors_keep_nobody_out),
        cmocka_unit_test(a_port_is_free_after_its_login),
        cmocka_unit_test(nobody_comes),
        cmocka_unit_test(memory_fails),
    };

    return RUN_TABLE(url_rows, check_url) + RUN_TABLE(callback_rows, check_callback) + RUN_TABLE(metadata_rows, check_metadata) +
           cmocka_run_group_tests_name("issuer", tests, NULL, NULL);
}
