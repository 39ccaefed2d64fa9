/* Sinks of the log: what a document may say, and whose signatures bring one into force. */
#include "tests/support/unit.h"

#include "base/json.h"
#include "documents/format/audit_sink.h"

#define NOW_MS INT64_C(1795000000000)
#define DAY_MS INT64_C(86400000)

#define CLASSES       "\"classes\":{\"api-activity\":[]}"
#define REST          "\"region\":\"ae/dxb\"," CLASSES
#define SYSLOG(more)  "{\"transport\":\"syslog\",\"address\":\"siem.example:6514\"," REST more "}"
#define AT(address)   "{\"transport\":\"syslog\",\"address\":\"" address "\"," REST "}"
#define WEBHOOK(url)  "{\"transport\":\"webhook\",\"signature\":\"v1\",\"address\":\"" url "\"," REST "}"
#define FILE_AT(name) "{\"transport\":\"file\",\"address\":\"" name "\"," REST "}"
#define OF(classes)   "{\"transport\":\"file\",\"address\":\"a.ndjson\",\"region\":\"ae/dxb\",\"classes\":" classes "}"

static const struct sink_row {
    const char *name, *body, *says; /* says NULL: it is accepted */
} sink_rows[] = {
    {"syslog", SYSLOG(""), NULL},
    {"an address of IPv6", AT("[2001:db8::1]:6514"), NULL},
    {"no port", AT("siem.example"), "a host and its port"},
    {"a port that is none", AT("siem.example:0"), "a host and its port"},
    {"a port that is too large", AT("siem.example:65536"), "a host and its port"},
    {"no host", AT(":6514"), "a host and its port"},
    {"a path behind it", AT("siem.example/x:6514"), "a host and its port"},
    {"another user", AT("root@siem.example:6514"), "a host and its port"},
    {"an address in brackets that is none", AT("[siem]:6514"), "a host and its port"},
    {"IPv4 in brackets", AT("[192.0.2.1]:6514"), "a host and its port"},
    {"no address", AT(""), "address: 1 to"},
    {"a webhook", WEBHOOK("https://siem.example/hook?of=us"), NULL},
    {"a webhook without TLS", WEBHOOK("http://siem.example/hook"), "an https:// URL"},
    {"a webhook with a user", WEBHOOK("https://me@siem.example/hook"), "an https:// URL"},
    {"a webhook without a host", WEBHOOK("https:///hook"), "an https:// URL"},
    {"a webhook that signs nothing", "{\"transport\":\"webhook\",\"address\":\"https://a.example/\"," REST "}", "signature"},
    {"syslog that signs", SYSLOG(",\"signature\":\"v1\""), "only of a webhook"},
    {"a file", FILE_AT("siem.ndjson"), NULL},
    {"a file elsewhere", FILE_AT("../siem.ndjson"), "of a file its name"},
    {"a hidden file", FILE_AT(".siem"), "of a file its name"},
    {"a folder", FILE_AT("a/b"), "of a file its name"},
    {"the key of deliveries", FILE_AT("client.key"), "not .pem or .key"},
    {"a certificate", FILE_AT("client.pem"), "not .pem or .key"},
    {"a key in its name", FILE_AT("client.key.ndjson"), NULL},
    {"a file with an authority", "{\"transport\":\"file\",\"address\":\"a\",\"ca\":\"-----BEGIN CERTIFICATE-----\\n\"," REST "}",
     "neither"},
    {"an authority that is none", SYSLOG(",\"ca\":\"trust me\""), "ca: certificates in PEM"},
    {"networks", SYSLOG(",\"networks\":[\"10.1.0.0/16\"]"), NULL},
    {"a network in another spelling", SYSLOG(",\"networks\":[\"10.1.0.1/16\"]"), "networks: each is"},
    {"no networks", SYSLOG(",\"networks\":[]"), "networks: 1 to"},
    {"names for a purpose", SYSLOG(",\"names\":{\"purpose\":\"case 4711\"}"), NULL},
    {"names for nothing", SYSLOG(",\"names\":{\"purpose\":\"\"}"), "names: \"purpose\" says why"},
    {"names without a purpose", SYSLOG(",\"names\":{}"), "\"purpose\" is missing"},
    {"names as a switch", SYSLOG(",\"names\":true"), "names: an object is expected"},
    {"no class", OF("{}"), "classes: an object"},
    {"an unknown class", OF("{\"secrets\":[]}"), "there is no class \"secrets\""},
    {"a class with a word", OF("{\"authentication\":\"actor\"}"), "each is a list"},
    {"a class without an actor", OF("{\"authentication\":[\"actor\",\"raw\"]}"), NULL},
    {"an unknown part", OF("{\"authentication\":[\"name\"]}"), "is left out"},
    {"a part twice", OF("{\"authentication\":[\"raw\",\"raw\"]}"), "is left out twice"},
    {"an unknown transport", "{\"transport\":\"smtp\",\"address\":\"a\"," REST "}", "transport: syslog"},
    {"no region", "{\"transport\":\"file\",\"address\":\"a\",\"region\":\"\"," CLASSES "}", "region: the id"},
    {"an unknown member", SYSLOG(",\"secret\":\"x\""), "there is no member \"secret\""},
};

struct made {
    const char *scope, *body, *withdrawn;
    int64_t days;
};

static struct document *make(const struct made *made)
{
    struct buffer OWNED_BUFFER payload = BUFFER(AUDIT_SINK_BYTES_MAX);
    OWNED_JSON body = json_loads(made->body, 0, NULL);
    const struct document_parts parts = {.kind = DOCUMENT_AUDIT_SINK,
                                         .scope = made->scope,
                                         .name = "siem",
                                         .version = made->withdrawn == NULL ? 1 : 2,
                                         .effective_ms = NOW_MS - 1000,
                                         .expires_ms = NOW_MS + made->days * DAY_MS,
                                         .withdrawn = made->withdrawn,
                                         .body = body};
    struct document *document = NULL;
    struct error err = {0};

    assert_non_null(body);
    must(document_compose(&parts, &payload, &err), &err);
    must(document_read_payload(DOCUMENT_AUDIT_SINK, buffer_bytes(&payload), &document, &err), &err);
    return document;
}

static void says_what_is_wrong(void **state)
{
    const struct sink_row *row = *state;
    OWNED(document) *document = make(&(struct made){"", row->body, NULL, 90});
    struct audit_sink sink;
    struct error err = {0};

    const bool ok = audit_sink_read(document, &sink, &err).ok;
    if (ok != (row->says == NULL)) fail_msg("%s", ok ? "it is accepted" : err.message);
    if (!ok && strstr(err.message, row->says) == NULL) fail_msg("%s", err.message);
    if (!ok) assert_int_equal(err.kind, ERROR_INVALID);
}

static void has_all_that_was_signed(void **state)
{
    OWNED(document) *document = make(&(struct made){
        "",
        "{\"transport\":\"webhook\",\"address\":\"https://a.example/\",\"signature\":\"v1a\",\"region\":\"ae/dxb\","
        "\"names\":{\"purpose\":\"the SOC\"},\"networks\":[\"10.1.0.0/16\"],"
        "\"classes\":{\"authentication\":[\"actor\",\"raw\"],\"api-activity\":[]}}",
        NULL, 90});
    struct audit_sink sink;
    struct error err = {0};

    (void)state;
    must(audit_sink_read(document, &sink, &err), &err);
    assert_true(sink.transport == SINK_WEBHOOK && sink.signs_ed25519 && sink.networks.count == 1 && sink.ca == NULL);
    assert_string_equal(sink.region, "ae/dxb");
    assert_string_equal(sink.purpose, "the SOC");
    assert_int_equal(sink.classes, 1U << SINK_AUTHENTICATION | 1U << SINK_API_ACTIVITY);
    assert_int_equal(sink.hides[SINK_AUTHENTICATION], 1U << SINK_HIDES_ACTOR | 1U << SINK_HIDES_RAW);
    assert_int_equal(sink.hides[SINK_API_ACTIVITY], 0);
}

static const struct head_row {
    const char *name;
    struct made made;
    enum error_kind kind; /* the root has signed */
} head_rows[] = {
    {"of the registry", {"", SYSLOG(""), NULL, 90}, ERROR_NONE},
    {"of an organisation", {"acme", SYSLOG(""), NULL, 90}, ERROR_INVALID},
    {"for three years", {"", SYSLOG(""), NULL, 1000}, ERROR_INVALID},
    {"a withdrawal", {"", "{}", "a test", 90}, ERROR_NONE},
    {"a withdrawal with a body", {"", SYSLOG(""), "a test", 90}, ERROR_INVALID},
};

/* The document as read from one envelope, which `key` has signed. */
static struct result check_signed(const struct made *made, const struct ecdsa_key *key, const struct document_trust *trust,
                                  struct error *err)
{
    struct buffer OWNED_BUFFER envelope = BUFFER(DOCUMENT_ENVELOPE_MAX(AUDIT_SINK_BYTES_MAX)),
                               payload = BUFFER(AUDIT_SINK_BYTES_MAX);
    OWNED(document) *unsigned_one = make(made);
    OWNED(document) *document = NULL;

    must(json_write_canonical(&payload, unsigned_one->json, err), err);
    must(document_sign(DOCUMENT_AUDIT_SINK, buffer_bytes(&payload), key, &envelope, err), err);
    must(document_read(&(struct bytes){envelope.data, envelope.length}, 1, &document, err), err);
    return document_check(document, trust, err);
}

static void comes_into_force_as_its_head_allows(void **state)
{
    const struct head_row *row = *state;
    struct document_trust trust = {.now_ms = NOW_MS};
    OWNED(ecdsa_key) *root = NULL, *stranger = NULL;
    struct error err = {0};

    must(ecdsa_key_new(&root, &err), &err);
    must(ecdsa_key_new(&stranger, &err), &err);
    ecdsa_key_public(root, trust.root);
    (void)check_signed(&row->made, root, &trust, &err).ok;
    assert_int_equal(err.kind, row->kind);
    err = (struct error){0};
    assert_false(check_signed(&row->made, stranger, &trust, &err).ok);
    assert_int_equal(err.kind, row->kind == ERROR_NONE ? ERROR_DENIED : row->kind);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(has_all_that_was_signed)};
    int failed = RUN_TABLE(sink_rows, says_what_is_wrong);

    failed += RUN_TABLE(head_rows, comes_into_force_as_its_head_allows);
    return failed + cmocka_run_group_tests(tests, NULL, NULL);
}
