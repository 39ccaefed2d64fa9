/* Documents of runners: their allowed bodies, and the signatures that bring one into force. */
#include "tests/support/unit.h"

#include <stdio.h>

#include "base/json.h"
#include "base/text.h"
#include "documents/format/runner_key.h"

#define NOW_MS INT64_C(1795000000000)
#define DAY_MS INT64_C(86400000)

#define EVIDENCE          "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define ATTESTED(network) "{\"by\":\"Mona, on site\",\"evidence\":\"" EVIDENCE "\",\"networks\":[\"" network "\"]}"

enum { ROOT, ONE, TWO, TWO_AGAIN, RUNNER, STRANGER, KEYS };
#define BY(key) (1U << (key))
static struct ecdsa_key *keys[KEYS];

static const struct row {
    const char *name;
    unsigned signers;
    const char *member, *value; /* of the body, as JSON; a value of NULL removes it */
    const char *withdrawn, *scope;
    enum error_kind kind;
    const char *says;
} rows[] = {
    {"two persons", BY(RUNNER) | BY(ONE) | BY(TWO), "devices", "0", NULL, "", ERROR_NONE, ""},
    {"the root alone", BY(RUNNER) | BY(ROOT), "devices", "64", NULL, "acme", ERROR_NONE, ""},
    {"the root and an approver", BY(RUNNER) | BY(ROOT) | BY(ONE), "devices", "1", NULL, "", ERROR_NONE, ""},
    {"one person", BY(RUNNER) | BY(ONE), "devices", "0", NULL, "", ERROR_DENIED, "and there are 1"},
    {"one person with two keys", BY(RUNNER) | BY(TWO) | BY(TWO_AGAIN), "devices", "0", NULL, "", ERROR_DENIED, "and there are 1"},
    {"nobody", BY(RUNNER), "devices", "0", NULL, "", ERROR_DENIED, "and there are 0"},
    {"strangers", BY(RUNNER) | BY(STRANGER), "devices", "0", NULL, "", ERROR_DENIED, "and there are 0"},
    {"without the runner's own key", BY(ONE) | BY(TWO), "devices", "0", NULL, "", ERROR_DENIED, "own key has not signed"},
    {"withdrawn by an approver", BY(ONE), "since", "\"2026-11-18T00:00:00Z\"", "stolen", "", ERROR_NONE, ""},
    {"withdrawn by the root", BY(ROOT), "since", "\"2026-11-18T00:00:00Z\"", "stolen", "", ERROR_NONE, ""},
    {"withdrawn by the runner itself", BY(RUNNER), "since", "\"2036-11-18T00:00:00Z\"", "tired", "", ERROR_DENIED,
     "needs the signature of an approver"},
    {"withdrawn without since", BY(ROOT), "devices", "0", "stolen", "", ERROR_INVALID, "since: "},
    {"withdrawn since no time", BY(ROOT), "since", "\"yesterday\"", "stolen", "", ERROR_INVALID, "since: a time"},
    {"enrolled with since", BY(RUNNER) | BY(ROOT), "since", "\"2026-11-18T00:00:00Z\"", NULL, "", ERROR_INVALID, "since: "},
    {"of a project", BY(RUNNER) | BY(ROOT), "devices", "0", NULL, "acme/models", ERROR_INVALID,
     "to the registry or to an organisation"},
    {"a member that is not known", BY(RUNNER) | BY(ROOT), "more", "1", NULL, "", ERROR_INVALID, "the body of a runner"},
    {"no pool", BY(RUNNER) | BY(ROOT), "pool", NULL, NULL, "", ERROR_INVALID, "the body of a runner"},
    {"a pool with a blank", BY(RUNNER) | BY(ROOT), "pool", "\"a b\"", NULL, "", ERROR_INVALID, "pool, region: "},
    {"an empty region", BY(RUNNER) | BY(ROOT), "region", "\"\"", NULL, "", ERROR_INVALID, "pool, region: "},
    {"no jurisdiction", BY(RUNNER) | BY(ROOT), "jurisdictions", "[]", NULL, "", ERROR_INVALID, "jurisdictions: "},
    {"a jurisdiction that is a number", BY(RUNNER) | BY(ROOT), "jurisdictions", "[1]", NULL, "", ERROR_INVALID,
     "jurisdictions: "},
    {"a jurisdiction in lower case", BY(RUNNER) | BY(ROOT), "jurisdictions", "[\"ae\"]", NULL, "", ERROR_INVALID,
     "jurisdictions: "},
    {"an unknown isolation", BY(RUNNER) | BY(ROOT), "isolation", "\"vm\"", NULL, "", ERROR_INVALID, "isolation: "},
    {"an assurance of 4", BY(RUNNER) | BY(ROOT), "assurance", "4", NULL, "", ERROR_INVALID, "assurance: "},
    {"attested by two persons", BY(RUNNER) | BY(ONE) | BY(TWO), "attestation", ATTESTED("10.1.7.0/28"), NULL, "", ERROR_NONE, ""},
    {"attested by the root and an approver", BY(RUNNER) | BY(ROOT) | BY(ONE), "attestation", ATTESTED("10.1.7.0/28"), NULL, "",
     ERROR_NONE, ""},
    {"attested by the root alone", BY(RUNNER) | BY(ROOT), "attestation", ATTESTED("10.1.7.0/28"), NULL, "", ERROR_DENIED,
     "two persons who approve are needed, and there are 1"},
    {"attested by one person", BY(RUNNER) | BY(TWO) | BY(TWO_AGAIN), "attestation", ATTESTED("10.1.7.0/28"), NULL, "",
     ERROR_DENIED, "and there are 1"},
    {"an attestation of the assurance 3", BY(RUNNER) | BY(ONE) | BY(TWO), "attestation assurance 3", ATTESTED("10.1.7.0/28"),
     NULL, "", ERROR_INVALID, "assurance: 4 for an attested runner"},
    {"attested from a network with bits behind it", BY(RUNNER) | BY(ONE) | BY(TWO), "attestation", ATTESTED("10.1.7.1/28"), NULL,
     "", ERROR_INVALID, "attestation.networks: 10.1.7.1/28"},
    {"attested from a network in another spelling", BY(RUNNER) | BY(ONE) | BY(TWO), "attestation", ATTESTED("2001:DB8::/32"),
     NULL, "", ERROR_INVALID, "attestation.networks: 2001:DB8::/32"},
    {"attested from an address", BY(RUNNER) | BY(ONE) | BY(TWO), "attestation", ATTESTED("10.1.7.1"), NULL, "", ERROR_INVALID,
     "attestation.networks: "},
    {"attested from everywhere", BY(RUNNER) | BY(ONE) | BY(TWO), "attestation", ATTESTED("0.0.0.0/0"), NULL, "", ERROR_INVALID,
     "attestation.networks: 0.0.0.0/0 is wider than /16 of IPv4"},
    {"attested from more than a site", BY(RUNNER) | BY(ONE) | BY(TWO), "attestation", ATTESTED("2001:db8::/47"), NULL, "",
     ERROR_INVALID, "attestation.networks: 2001:db8::/47 is wider"},
    {"attested from a site", BY(RUNNER) | BY(ONE) | BY(TWO), "attestation", ATTESTED("10.1.0.0/16"), NULL, "", ERROR_NONE, ""},
    {"attested from nowhere", BY(RUNNER) | BY(ONE) | BY(TWO), "attestation",
     "{\"by\":\"Mona\",\"evidence\":\"" EVIDENCE "\",\"networks\":[]}", NULL, "", ERROR_INVALID, "attestation.networks: 1 to 8"},
    {"attested by nobody", BY(RUNNER) | BY(ONE) | BY(TWO), "attestation",
     "{\"by\":\"\",\"evidence\":\"" EVIDENCE "\",\"networks\":[\"10.1.7.0/28\"]}", NULL, "", ERROR_INVALID, "attestation: "},
    {"attested by control characters", BY(RUNNER) | BY(ONE) | BY(TWO), "attestation",
     "{\"by\":\"a\\n\",\"evidence\":\"" EVIDENCE "\",\"networks\":[\"10.1.7.0/28\"]}", NULL, "", ERROR_INVALID, "attestation: "},
    {"attested on no evidence", BY(RUNNER) | BY(ONE) | BY(TWO), "attestation",
     "{\"by\":\"Mona\",\"evidence\":\"a file\",\"networks\":[\"10.1.7.0/28\"]}", NULL, "", ERROR_INVALID,
     "attestation.evidence: "},
    {"an attestation with another member", BY(RUNNER) | BY(ONE) | BY(TWO), "attestation",
     "{\"by\":\"Mona\",\"evidence\":\"" EVIDENCE "\",\"networks\":[\"10.1.7.0/28\"],\"until\":1}", NULL, "", ERROR_INVALID,
     "attestation: "},
    {"an attestation that is a text", BY(RUNNER) | BY(ONE) | BY(TWO), "attestation", "\"yes\"", NULL, "", ERROR_INVALID,
     "attestation: "},
    {"an assurance of 0", BY(RUNNER) | BY(ROOT), "assurance", "0", NULL, "", ERROR_INVALID, "assurance: "},
    {"65 devices", BY(RUNNER) | BY(ROOT), "devices", "65", NULL, "", ERROR_INVALID, "devices: "},
    {"a runner that is no UUID", BY(RUNNER) | BY(ROOT), "runner", "\"gpu-1\"", NULL, "", ERROR_INVALID, "runner: "},
    {"nodes of a cluster", BY(RUNNER) | BY(ROOT), "nodes",
     "[\"0b5a1b9e-55a0-4f0e-9d55-0f4d3c1e2b22\",\"1b5a1b9e-55a0-4f0e-9d55-0f4d3c1e2b22\"]", NULL, "", ERROR_NONE, ""},
    {"no node", BY(RUNNER) | BY(ROOT), "nodes", "[]", NULL, "", ERROR_INVALID, "nodes: "},
    {"a node by its name", BY(RUNNER) | BY(ROOT), "nodes", "[\"gpu-1\"]", NULL, "", ERROR_INVALID, "nodes: "},
    {"a node twice", BY(RUNNER) | BY(ROOT), "nodes",
     "[\"0b5a1b9e-55a0-4f0e-9d55-0f4d3c1e2b22\",\"0b5a1b9e-55a0-4f0e-9d55-0f4d3c1e2b22\"]", NULL, "", ERROR_INVALID, "nodes: "},
    {"nodes that are no list", BY(RUNNER) | BY(ROOT), "nodes", "{}", NULL, "", ERROR_INVALID, "nodes: "},
    {"a key that is none", BY(RUNNER) | BY(ROOT), "public_key", "\"AAAA\"", NULL, "", ERROR_INVALID, "public_key: "},
};

static json_t *body_of(const struct row *row)
{
    struct buffer OWNED_BUFFER point = BUFFER(128);
    uint8_t bytes[ECDSA_PUBLIC_SIZE];
    struct error err = {0};

    ecdsa_key_public(keys[RUNNER], bytes);
    assert_true(text_base64(&point, BASE64_URL, (struct bytes){bytes, sizeof bytes}, &err).ok);
    json_t *body = json_pack("{s:s, s:s, s:s, s:s, s:s, s:i, s:i, s:[s]}", "runner", "7b5a1b9e-55a0-4f0e-9d55-0f4d3c1e2b22",
                             "public_key", buffer_text(&point), "pool", "uae-gpu", "region", "local/dxb", "isolation",
                             "cgroup-v2", "assurance", 3, "devices", 1, "jurisdictions", "AE");
    if (strncmp(row->member, "attestation", strlen("attestation")) == 0) {
        assert_int_equal(json_object_set_new(body, "attestation", json_loads(row->value, JSON_DECODE_ANY, NULL)), 0);
        if (strcmp(row->member, "attestation") == 0) assert_int_equal(json_object_set_new(body, "assurance", json_integer(4)), 0);
    } else if (row->value == NULL) assert_int_equal(json_object_del(body, row->member), 0);
    else assert_int_equal(json_object_set_new(body, row->member, json_loads(row->value, JSON_DECODE_ANY, NULL)), 0);
    return body;
}

static void compose(const struct row *row, struct buffer *payload)
{
    OWNED_JSON body = body_of(row);
    uint8_t point[ECDSA_PUBLIC_SIZE];
    char name[ECDSA_THUMBPRINT_SIZE];
    struct error err = {0};

    ecdsa_key_public(keys[RUNNER], point);
    ecdsa_thumbprint(point, name);
    const struct document_parts parts = {.kind = DOCUMENT_RUNNER,
                                         .scope = row->scope,
                                         .name = name,
                                         .version = row->withdrawn == NULL ? 1 : 2,
                                         .effective_ms = NOW_MS - 1000,
                                         .expires_ms = NOW_MS + 30 * DAY_MS,
                                         .withdrawn = row->withdrawn,
                                         .body = body};
    assert_true(document_compose(&parts, payload, &err).ok);
}

/* Both keys of TWO are of one principal. */
static void trust_all(struct document_trust *trust)
{
    static const int approvers[] = {ONE, TWO, TWO_AGAIN};

    *trust = (struct document_trust){.now_ms = NOW_MS};
    ecdsa_key_public(keys[ROOT], trust->root);
    for (size_t i = 0; i < COUNT(approvers); i++) {
        struct document_approver *approver = &trust->approvers[i];
        ecdsa_key_public(keys[approvers[i]], approver->point);
        approver->expires_ms = NOW_MS + DAY_MS;
        approver->principal[0] = approvers[i] == ONE ? 1 : 2;
    }
}

static struct result check(const struct row *row, struct error *err)
{
    struct buffer OWNED_BUFFER payload = BUFFER(8192);
    struct buffer texts[KEYS] = {{0}};
    struct bytes views[DOCUMENT_SIGNATURES_MAX];
    OWNED(document) *document = NULL;
    struct document_trust trust;
    size_t count = 0;

    compose(row, &payload);
    for (size_t i = 0; i < KEYS; i++) {
        texts[i] = BUFFER(16384);
        if ((row->signers & BY(i)) == 0) continue;
        assert_true(document_sign(DOCUMENT_RUNNER, buffer_bytes(&payload), keys[i], &texts[i], err).ok);
        views[count++] = buffer_bytes(&texts[i]);
    }
    assert_true(document_read(views, count, &document, err).ok);
    for (size_t i = 0; i < KEYS; i++) buffer_done(&texts[i]);
    trust_all(&trust);
    return document_check(document, &trust, err);
}

static void counts_signatures(void **state)
{
    const struct row *row = *state;
    struct error err = {0};

    const bool ok = check(row, &err).ok;
    if (ok != (row->kind == ERROR_NONE)) fail_msg("%s", ok ? "it is accepted" : err.message);
    if (ok) return;
    if (strstr(err.message, row->says) == NULL) fail_msg("%s", err.message);
    assert_int_equal(err.kind, row->kind);
}

int main(void)
{
    struct error err = {0};

    for (size_t i = 0; i < KEYS; i++) assert_true(ecdsa_key_new(&keys[i], &err).ok);
    const int failed = RUN_TABLE(rows, counts_signatures);
    for (size_t i = 0; i < KEYS; i++) ecdsa_key_free(keys[i]);
    return failed;
}
