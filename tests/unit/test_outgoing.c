/* Outgoing calls: the allowed addresses, the trusted certificates, and hostile peers. */
#include "tests/support/unit.h"

#include <openssl/x509_vfy.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "outgoing/call.h"
#include "tests/support/tls_peer.h"

static struct tls_peer peer;

/* The result of one call. */
struct got {
    struct outgoing_outcome outcome;
    struct buffer body;
    unsigned lines; /* of the head */
    bool has_proxys_line;
};

static void take_line(void *context, struct bytes line)
{
    struct got *got = context;

    got->lines++;
    got->has_proxys_line |= line.length > 7 && memcmp(line.data, "X-Proxy", 7) == 0;
}

static struct result take_body(void *context, long status, struct bytes piece, struct error *err)
{
    (void)status;
    return buffer_add(&((struct got *)context)->body, piece.data, piece.length, err);
}

static const struct outgoing_limits usual_limits = {
    .connect_s = 10, .silence_s = 10, .slowest_rate = 1, .whole_s = 20, .answer_bytes = 100000};

static struct outgoing *make(struct outgoing_options options)
{
    struct outgoing *outgoing = NULL;
    struct error err = {0};

    if (options.ca_file == NULL) options.ca_file = peer.ca_file;
    if (!outgoing_new(&options, &outgoing, &err).ok) fail_msg("%s", err.message);
    return outgoing;
}

static struct networks networks_of(const char *text)
{
    struct networks networks;
    struct error err = {0};

    if (!networks_parse("networks", text, &networks, &err).ok) fail_msg("%s", err.message);
    return networks;
}

static void url_of(const char *host, unsigned port, const char *path, char url_out[128])
{
    (void)snprintf(url_out, 128, "https://%s:%u%s", host, port, path);
}

/* A GET that must not fail locally, with any outcome at the peer. */
static void call(struct outgoing *outgoing, struct outgoing_request request, struct got *got)
{
    struct error err = {0};

    *got = (struct got){.body = BUFFER(1 << 20)};
    if (request.method == NULL) request.method = "GET";
    if (request.limits.connect_s == 0) request.limits = usual_limits;
    request.head = take_line;
    request.take = take_body;
    request.context = got;
    if (!outgoing_call(outgoing, &request, &got->outcome, &err).ok) fail_msg("%s", err.message);
}

static enum outgoing_end end_of(struct outgoing_options options, const char *url)
{
    OWNED(outgoing) *outgoing = make(options);
    struct got got;

    call(outgoing, (struct outgoing_request){.url = url}, &got);
    buffer_done(&got.body);
    return got.outcome.end;
}

/* ---- Which addresses ---- */

static const struct reach_row {
    const char *name, *listed; /* NULL: usual ones */
    const char *address;
    bool is_called;
} reach_rows[] = {
    {"a public address", NULL, "52.95.110.1", true},
    {"a private one", NULL, "10.1.2.3", true},
    {"this machine", NULL, "127.0.0.1", true},
    {"this machine by IPv6", NULL, "::1", true},
    {"link-local", NULL, "169.254.169.254", false},
    {"just before it", NULL, "169.253.255.255", true},
    {"just behind it", NULL, "169.255.0.0", true},
    {"link-local by IPv6", NULL, "fe80::1", false},
    {"the end of link-local", NULL, "febf::1", false},
    {"behind it", NULL, "fec0::1", true},
    {"mapped", NULL, "::ffff:169.254.169.254", false},
    {"translated", NULL, "64:ff9b::a9fe:a9fe", false},
    {"through 6to4", NULL, "2002:a9fe:a9fe::1", false},
    {"credentials at one provider", NULL, "100.100.100.200", false},
    {"orders at another", NULL, "168.63.129.16", false},
    {"credentials by IPv6", NULL, "fd00:ec2::254", false},
    {"nowhere", NULL, "0.0.0.0", false},
    {"nowhere by IPv6", NULL, "::", false},
    {"to many", NULL, "239.1.1.1", false},
    {"to all", NULL, "255.255.255.255", false},
    {"in the list", "10.1.0.0/16", "10.1.255.1", true},
    {"beside the list", "10.1.0.0/16", "10.2.0.1", false},
    {"a public address beside the list", "10.1.0.0/16", "52.95.110.1", false},
    {"the second of the list", "10.1.0.0/16,  2001:db8::/33", "2001:db8:7fff::1", true},
    {"beside the second", "10.1.0.0/16, 2001:db8::/33", "2001:db8:8000::1", false},
    {"one address", "192.0.2.7/32", "192.0.2.7", true},
    {"the next", "192.0.2.7/32", "192.0.2.6", false},
    {"all of IPv4 is no IPv6", "0.0.0.0/0", "2001:db8::1", false},
    {"all of IPv6 is no IPv4", "::/0", "169.254.169.254", false},
    {"all of IPv4 has mapped ones", "0.0.0.0/0", "::ffff:10.0.0.1", true},
    {"link-local that is listed", "169.254.7.0/24", "169.254.7.1", true},
    {"an empty list", "", "52.95.110.1", false},
};

/* What others choose must not lead into the operator's own networks. */
static void a_public_address_is_called_or_not(void **state)
{
    static const char *const called[] = {"52.95.110.1", "11.0.0.0",     "172.32.0.1",
                                         "192.169.0.1", "2a00:1450::1", "64:ff9b::345f:6e01"};
    static const char *const not_called[] = {
        "10.1.2.3",      "127.0.0.1",   "::1",     "172.16.0.1",      "172.31.255.255",  "192.168.7.7",     "100.64.0.1",
        "198.19.0.1",    "fd12::1",     "fec0::1", "169.254.169.254", "fe80::1",         "::ffff:10.0.0.1", "64:ff9b::a00:1",
        "2002:a00:1::1", "2001:0:1::1", "0.0.0.0", "192.0.2.1",       "64:ff9b:1::a00:1"};
    const struct networks none = {0};
    struct network address;

    (void)state;
    for (size_t i = 0; i < COUNT(called); i++) {
        assert_true(network_of_address(called[i], &address));
        if (!outgoing_reaches(OUTGOING_PUBLIC, &none, &address)) fail_msg("%s is not called", called[i]);
    }
    for (size_t i = 0; i < COUNT(not_called); i++) {
        assert_true(network_of_address(not_called[i], &address));
        if (outgoing_reaches(OUTGOING_PUBLIC, &none, &address)) fail_msg("%s is called", not_called[i]);
    }
}

static void an_address_is_called_or_not(void **state)
{
    const struct reach_row *row = *state;
    const struct networks listed = networks_of(row->listed == NULL ? "" : row->listed);
    struct network address;

    assert_true(network_of_address(row->address, &address));
    assert_int_equal(outgoing_reaches(row->listed == NULL ? OUTGOING_USUAL : OUTGOING_LISTED, &listed, &address), row->is_called);
    assert_true(outgoing_reaches(OUTGOING_ANY, &listed, &address));
}

static const struct resolved_row {
    const char *name, *host, *answers, *listed; /* NULL: usual ones */
    enum outgoing_end end;
    const char *called; /* the called address; NULL: none */
} resolved_rows[] = {
    {"an address in the list", "peer.example", "127.0.0.1", "127.0.0.1/32", OUTGOING_ANSWERED, "127.0.0.1"},
    {"a usual one", "peer.example", "127.0.0.2", NULL, OUTGOING_ANSWERED, "127.0.0.2"},
    {"one beside the list", "peer.example", "127.0.0.2", "127.0.0.1/32", OUTGOING_FORBIDDEN, NULL},
    {"an empty list", "peer.example", "127.0.0.1", "", OUTGOING_FORBIDDEN, NULL},
    {"credentials of a cloud", "peer.example", "169.254.169.254", NULL, OUTGOING_FORBIDDEN, NULL},
    {"them, mapped", "peer.example", "::ffff:169.254.169.254", NULL, OUTGOING_FORBIDDEN, NULL},
    {"them, and one that may be called", "peer.example", "169.254.169.254 127.0.0.2", NULL, OUTGOING_ANSWERED, "127.0.0.2"},
    {"one that may be called, and others", "peer.example", "127.0.0.2 127.0.0.1 10.0.0.1", "127.0.0.1/32", OUTGOING_ANSWERED,
     "127.0.0.1"},
    {"two that may not", "peer.example", "169.254.169.254 0.0.0.0", NULL, OUTGOING_FORBIDDEN, NULL},
    {"one that may not, and one where nobody is", "peer.example", "169.254.169.254 127.0.0.3", NULL, OUTGOING_BROKEN, NULL},
    {"no name", "169.254.169.254", "127.0.0.1", NULL, OUTGOING_FORBIDDEN, NULL},
    {"a number", "2852039166", "169.254.169.254", NULL, OUTGOING_FORBIDDEN, NULL},
    {"no name, in the list", "127.0.0.2", "", "127.0.0.2/32", OUTGOING_ANSWERED, "127.0.0.2"},
    {"a name that nobody knows", "peer.example", "", NULL, OUTGOING_BROKEN, NULL},
    /* DNS rebinding: a program that checks one answer and connects to another one is misled by the second */
    {"another answer later", "peer.example", "127.0.0.1;127.0.0.2", "127.0.0.1/32", OUTGOING_ANSWERED, "127.0.0.1"},
    {"a forbidden one first", "peer.example", "127.0.0.2;127.0.0.1", "127.0.0.1/32", OUTGOING_FORBIDDEN, NULL},
};

static void a_name_leads_to_an_address_that_was_checked(void **state)
{
    const struct resolved_row *row = *state;
    const struct outgoing_options options = {.reach = row->listed == NULL ? OUTGOING_USUAL : OUTGOING_LISTED,
                                             .networks = networks_of(row->listed == NULL ? "" : row->listed)};
    OWNED(outgoing) *outgoing = make(options);
    const unsigned first = tls_peer_requests(&peer, "127.0.0.1 "), second = tls_peer_requests(&peer, "127.0.0.2 ");
    char url[128];
    struct got got;

    url_of(row->host, peer.main_port, "/plain", url);
    resolver_says(row->answers);
    call(outgoing, (struct outgoing_request){.url = url}, &got);
    if (got.outcome.end != row->end) fail_msg("%d: %s", (int)got.outcome.end, got.outcome.reason);
    assert_true(resolver_questions() <= 1);
    assert_int_equal(tls_peer_requests(&peer, "127.0.0.1 ") - first,
                     row->called != NULL && strcmp(row->called, "127.0.0.1") == 0);
    assert_int_equal(tls_peer_requests(&peer, "127.0.0.2 ") - second,
                     row->called != NULL && strcmp(row->called, "127.0.0.2") == 0);
    assert_int_equal(got.outcome.status, row->called == NULL ? 0 : 200);
    if (row->end == OUTGOING_FORBIDDEN) assert_non_null(strstr(got.outcome.reason, "resolves to no address that may be called"));
    buffer_done(&got.body);
}

/* A kept connection stays at its address; a new one is checked again. */
static void a_name_that_moved_is_checked_again(void **state)
{
    const struct outgoing_options options = {.reach = OUTGOING_LISTED, .networks = networks_of("127.0.0.1/32")};
    char url[128];

    (void)state;
    url_of("peer.example", peer.main_port, "/plain", url);
    resolver_says("127.0.0.1;127.0.0.2");
    assert_int_equal(end_of(options, url), OUTGOING_ANSWERED);
    assert_int_equal(end_of(options, url), OUTGOING_FORBIDDEN);
    assert_int_equal(resolver_questions(), 2);
}

/* ---- Redirects and proxies ---- */

static void a_redirect_is_an_answer_and_nothing_more(void **state)
{
    OWNED(outgoing) *outgoing = make((struct outgoing_options){.reach = OUTGOING_USUAL});
    const unsigned before = tls_peer_requests(&peer, "127.0.0.2 ");
    char url[128];
    struct got got;

    (void)state;
    resolver_says("127.0.0.1");
    url_of("peer.example", peer.main_port, "/redirect", url);
    call(outgoing, (struct outgoing_request){.url = url}, &got);
    assert_int_equal(got.outcome.status, 302);
    assert_int_equal(tls_peer_requests(&peer, "127.0.0.2 "), before);
    buffer_done(&got.body);
}

static void set_environment(const char *proxy, const char *none)
{
    static const char *const names[] = {"HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"};

    for (size_t i = 0; i < COUNT(names); i++)
        assert_int_equal(proxy == NULL ? unsetenv(names[i]) : setenv(names[i], proxy, 1), 0);
    assert_int_equal(none == NULL ? unsetenv("no_proxy") : setenv("no_proxy", none, 1), 0);
}

static void the_environment_names_no_proxy(void **state)
{
    char url[128], proxy[64];
    static const enum outgoing_reach reaches[] = {OUTGOING_USUAL, OUTGOING_ANY};

    (void)state;
    resolver_says("127.0.0.1");
    url_of("peer.example", peer.main_port, "/plain", url);
    (void)snprintf(proxy, sizeof proxy, "http://127.0.0.1:%u", peer.proxy_port);
    set_environment(proxy, NULL);
    for (size_t i = 0; i < COUNT(reaches); i++)
        assert_int_equal(end_of((struct outgoing_options){.reach = reaches[i]}, url), OUTGOING_ANSWERED);
    set_environment(NULL, NULL);
    assert_int_equal(tls_peer_requests(&peer, " proxy "), 0);
}

/* With TLS to the peer: the proxy sees only the name, and no_proxy has no effect. */
static void a_proxy_that_is_asked_for_gets_a_tunnel(void **state)
{
    static const struct outgoing_header headers[] = {{"Authorization", "Bearer of-the-registry"}};
    char url[128], proxy[64];
    struct got got;

    (void)state;
    resolver_says("127.0.0.2");
    url_of("peer.example", peer.main_port, "/echo", url);
    (void)snprintf(proxy, sizeof proxy, "http://one:secret@127.0.0.1:%u", peer.proxy_port);
    OWNED(outgoing) *outgoing = make((struct outgoing_options){.reach = OUTGOING_ANY, .proxy = proxy});
    set_environment(NULL, "*");
    call(outgoing, (struct outgoing_request){.url = url, .headers = headers, .header_count = 1}, &got);
    set_environment(NULL, NULL);
    if (got.outcome.end != OUTGOING_ANSWERED) fail_msg("%s", got.outcome.reason);
    assert_int_equal(tls_peer_requests(&peer, " proxy CONNECT peer.example"), 1);
    assert_int_equal(tls_peer_requests(&peer, "of-the-registry"), 0);
    assert_int_equal(tls_peer_requests(&peer, "Proxy-Authorization: Basic b25lOnNlY3JldA=="), 1);
    assert_non_null(strstr(buffer_text(&got.body), "Authorization: Bearer of-the-registry"));
    assert_null(strstr(buffer_text(&got.body), "Proxy-Authorization"));
    assert_false(got.has_proxys_line);
    buffer_done(&got.body);
}

static void a_proxy_gets_around_no_check(void **state)
{
    static const enum outgoing_reach reaches[] = {OUTGOING_USUAL, OUTGOING_LISTED};

    (void)state;
    for (size_t i = 0; i < COUNT(reaches); i++) {
        const struct outgoing_options options = {.reach = reaches[i], .proxy = "http://127.0.0.1:1"};
        struct outgoing *outgoing = NULL;
        struct error err = {0};
        assert_false(outgoing_new(&options, &outgoing, &err).ok);
        assert_null(outgoing);
        assert_int_equal(err.kind, ERROR_INVALID);
    }
}

/* ---- Trust ---- */

static unsigned paths_loaded;

/* Replaces OpenSSL's function, also for libcurl: it notes the folder of authorities. */
__attribute__((visibility("default"))) int X509_STORE_load_path(X509_STORE *store, const char *path)
{
    (void)store, (void)path;
    paths_loaded++;
    return 1;
}

static void only_who_is_named_vouches(void **state)
{
    char url[128], wrong[128];

    (void)state;
    resolver_says("127.0.0.1");
    url_of("peer.example", peer.main_port, "/plain", url);
    url_of("other.example", peer.main_port, "/plain", wrong);
    const unsigned before = tls_peer_requests(&peer, "");
    assert_int_equal(end_of((struct outgoing_options){.ca_file = peer.other_file}, url), OUTGOING_UNTRUSTED);
    assert_int_equal(end_of((struct outgoing_options){.ca_file = "/no/such/file"}, url), OUTGOING_UNTRUSTED);
    assert_int_equal(end_of((struct outgoing_options){0}, wrong), OUTGOING_UNTRUSTED);
    assert_int_equal(tls_peer_requests(&peer, ""), before);
    assert_int_equal(end_of((struct outgoing_options){0}, url), OUTGOING_ANSWERED);
    assert_int_equal(paths_loaded, 0); /* the folder of the system's authorities counted beside the file once */
    assert_int_equal(end_of((struct outgoing_options){.ca_file = ""}, url), OUTGOING_UNTRUSTED);
    assert_int_equal(tls_peer_requests(&peer, ""), before + 1);
}

static void tls_has_its_least_version(void **state)
{
    char url[128];

    (void)state;
    resolver_says("127.0.0.1");
    url_of("peer.example", peer.tls12_port, "/plain", url);
    assert_int_equal(end_of((struct outgoing_options){0}, url), OUTGOING_BROKEN);
    assert_int_equal(end_of((struct outgoing_options){.takes_tls12 = true}, url), OUTGOING_ANSWERED);
}

static void a_peer_may_ask_for_a_certificate(void **state)
{
    const struct outgoing_options known = {.certificate_file = peer.client_file, .key_file = peer.client_key};
    const struct outgoing_options without_key = {.certificate_file = peer.client_file, .key_file = "/no/such/key"};
    char url[128];

    (void)state;
    resolver_says("127.0.0.1");
    url_of("peer.example", peer.mutual_port, "/plain", url);
    assert_int_equal(end_of((struct outgoing_options){0}, url), OUTGOING_BROKEN);
    assert_int_equal(end_of(known, url), OUTGOING_ANSWERED);
    assert_int_equal(end_of(without_key, url), OUTGOING_UNTRUSTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_public_address_is_called_or_not),
        cmocka_unit_test(a_name_that_moved_is_checked_again),
        cmocka_unit_test(a_redirect_is_an_answer_and_nothing_more),
        cmocka_unit_test(the_environment_names_no_proxy),
        cmocka_unit_test(a_proxy_that_is_asked_for_gets_a_tunnel),
        cmocka_unit_test(a_proxy_gets_around_no_check),
        cmocka_unit_test(only_who_is_named_vouches),
        cmocka_unit_test(tls_has_its_least_version),
        cmocka_unit_test(a_peer_may_ask_for_a_certificate),
    };

    tls_peer_start(&peer);
    const int failed = RUN_TABLE(reach_rows, an_address_is_called_or_not) +
                       RUN_TABLE(resolved_rows, a_name_leads_to_an_address_that_was_checked) +
                       cmocka_run_group_tests_name("others", tests, NULL, NULL);
    tls_peer_stop(&peer);
    return failed;
}
