/* Trust rules: what the linter refuses, whose signatures bring one into force, and which claims match. */
#include "tests/support/unit.h"

#include <arpa/inet.h>

#include "base/json.h"
#include "documents/format/trust_rule.h"

#define NOW_MS INT64_C(1795000000000)
#define DAY_MS INT64_C(86400000)

#define REST                                                                                                            \
    "\"grant\":[{\"role\":\"publisher\",\"on\":\"acme/prod/*\"}],\"priority\":100,\"max_ttl\":300,\"single_use\":true," \
    "\"audience\":\"https://reg.acme.ae\""
#define OF(system, issuer, match) "{\"system\":\"" system "\",\"issuer\":\"" issuer "\",\"match\":{" match "}," REST "}"
#define GITHUB_IS                 "https://token.actions.githubusercontent.com"
#define GITHUB(match)             OF("github", GITHUB_IS, match)
#define GITLAB(match)             OF("gitlab", "https://gitlab.example", match)
#define KUBERNETES(match)         OF("kubernetes", "https://kubernetes.example", match)
#define NAMED(system, immutable, match) \
    "{\"immutable\":" immutable ",\"system\":\"" system "\",\"issuer\":\"https://ci.example\",\"match\":{" match "}," REST "}"
#define ID         "\"/repository_id\":{\"eq\":\"260064828\"}"
#define REF        "\"/ref\":{\"eq\":\"refs/heads/main\"}"
#define GOOD       GITHUB(ID "," REF)
#define MORE(text) "{" text ",\"system\":\"github\",\"issuer\":\"" GITHUB_IS "\",\"match\":{" ID "," REF "}"

/* ---- the linter ---- */

static const struct lint {
    const char *name, *body, *says; /* says NULL: it is accepted */
} lints[] = {
    {"a repository and a branch", GOOD, NULL},
    {"branches of a kind", GITHUB(ID ",\"/ref\":{\"prefix\":\"refs/heads/release/\"}"), NULL},
    {"a pinned workflow", GITHUB(ID ",\"/job_workflow_ref\":{\"eq\":\"acme/ci/.github/workflows/t.yml@refs/tags/v3\"}"), NULL},
    {"one of two repositories", GITHUB("\"/repository_id\":{\"in\":[\"1\",\"2\"]}," REF), NULL},
    {"a repository by its name", GITHUB("\"/repository\":{\"eq\":\"acme/model\"}," REF),
     "/repository_id with eq or in is missing"},
    {"a part of an id", GITHUB("\"/repository_id\":{\"prefix\":\"26/\"}," REF), "/repository_id with eq or in is missing"},
    {"any branch", GITHUB(ID), "any branch could use the rule"},
    {"an environment alone", GITHUB(ID ",\"/environment\":{\"eq\":\"prod\"}"), "unless it is protected"},
    {"every branch", GITHUB(ID ",\"/ref\":{\"prefix\":\"refs/heads/\"}"), "says nothing"},
    {"a workflow of any version", GITHUB(ID ",\"/workflow_ref\":{\"eq\":\"acme/ci/.github/workflows/t.yml\"}"), "is not pinned"},
    {"a workflow with an empty version", GITHUB(ID ",\"/workflow_ref\":{\"eq\":\"acme/ci/t.yml@\"}"), "is not pinned"},
    {"one workflow of two without a version", GITHUB(ID ",\"/workflow_ref\":{\"in\":[\"a@b\",\"a\"]}"), "is not pinned"},
    {"the beginning of a workflow", GITHUB(ID ",\"/workflow_ref\":{\"prefix\":\"acme/ci/t.yml@refs/heads/\"}"),
     "eq or in expected"},
    {"GitHub in disguise", OF("generic", GITHUB_IS, ID "," REF), "is the issuer of github"},
    {"gitlab.com in disguise", OF("jenkins", "https://gitlab.com", "\"/sub\":{\"eq\":\"x\"}"), "is the issuer of gitlab"},
    {"a project of GitLab", GITLAB("\"/project_id\":{\"eq\":\"7\"},\"/ref\":{\"eq\":\"main\"},\"/ref_type\":{\"eq\":\"branch\"}"),
     NULL},
    {"a pipeline of GitLab",
     GITLAB("\"/project_id\":{\"eq\":\"7\"},\"/ci_config_ref_uri\":{\"eq\":\"g/p//.gitlab-ci.yml@refs/heads/main\"}"), NULL},
    {"a branch or a tag", GITLAB("\"/project_id\":{\"eq\":\"7\"},\"/ref\":{\"eq\":\"main\"}"), "/ref_type with eq is missing"},
    {"a project of GitLab by its path", GITLAB("\"/project_path\":{\"eq\":\"g/p\"},\"/ref_path\":{\"eq\":\"refs/heads/main\"}"),
     "/project_id"},
    {"any branch of GitLab", GITLAB("\"/project_id\":{\"eq\":\"7\"},\"/environment\":{\"eq\":\"prod\"}"), "any branch"},
    {"a service account",
     KUBERNETES("\"/kubernetes.io/serviceaccount/uid\":{\"eq\":\"0b5a\"},\"/sub\":{\"eq\":\"system:serviceaccount:ci:train\"}"),
     NULL},
    {"a service account by its name", KUBERNETES("\"/sub\":{\"eq\":\"system:serviceaccount:ci:train\"}"), "is another one"},
    {"a service account of any name", KUBERNETES("\"/kubernetes.io/serviceaccount/uid\":{\"eq\":\"0b5a\"}"), "/sub is missing"},
    {"all service accounts of a namespace",
     KUBERNETES("\"/kubernetes.io/serviceaccount/uid\":{\"eq\":\"0b5a\"},\"/sub\":{\"prefix\":\"system:serviceaccount:ci:\"}"),
     "eq or in expected"},
    {"a job of Jenkins", NAMED("jenkins", "[\"/sub\"]", "\"/sub\":{\"eq\":\"https://ci.example/job/train/\"}"), NULL},
    {"a named id", NAMED("generic", "[\"/tenant/uid\"]", "\"/tenant/uid\":{\"eq\":4},\"/sub\":{\"eq\":\"x\"}"), NULL},
    {"no named id", OF("jenkins", "https://ci.example", "\"/sub\":{\"eq\":\"x\"}"), "immutable is missing"},
    {"a named id that is not matched", NAMED("generic", "[\"/uid\"]", "\"/sub\":{\"eq\":\"x\"}"), "otherwise it says nothing"},
    {"a part of a named id", NAMED("generic", "[\"/sub\"]", "\"/sub\":{\"prefix\":\"x:\"}"), "otherwise it says nothing"},
    {"a name as an id", NAMED("generic", "[\"/email\"]", "\"/email\":{\"eq\":\"a@b\"},\"/sub\":{\"eq\":\"x\"}"),
     "others can get"},
    {"nobody in particular", NAMED("generic", "[\"/uid\"]", "\"/uid\":{\"eq\":\"x\"}"), "/sub is missing"},
    {"a named id for GitHub", MORE("\"immutable\":[\"/repository_id\"]") "," REST "}", "immutable is for jenkins and generic"},
    {"a prefix within a name", GITHUB(ID ",\"/ref\":{\"prefix\":\"refs/heads/rel\"}"), "longer names"},
    {"two tests of one claim", GITHUB(ID ",\"/ref\":{\"eq\":\"a\",\"prefix\":\"a/\"}"), "one member expected"},
    {"an unknown test", GITHUB(ID ",\"/ref\":{\"glob\":\"*\"}"), "one member expected"},
    {"an empty text", GITHUB(ID ",\"/ref\":{\"eq\":\"\"}"), "a text of 1 to"},
    {"no value", GITHUB(ID ",\"/ref\":{\"in\":[]}"), "1 to 32 values"},
    {"an object as a value", GITHUB(ID ",\"/ref\":{\"in\":[{}]}"), "each value is a text"},
    {"no pointer", GITHUB(ID "," REF ",\"ref\":{\"eq\":\"x\"}"), "is no JSON Pointer"},
    {"an empty part", GITHUB(ID "," REF ",\"/a//b\":{\"eq\":\"x\"}"), "is no JSON Pointer"},
    {"a wrong escape", GITHUB(ID "," REF ",\"/a~2\":{\"eq\":\"x\"}"), "is no JSON Pointer"},
    {"nine parts", GITHUB(ID "," REF ",\"/1/2/3/4/5/6/7/8/9\":{\"eq\":\"x\"}"), "is no JSON Pointer"},
    {"nothing matched", GITHUB(""), "1 to 16 JSON Pointers"},
    {"an issuer without TLS", OF("github", "http://ci.example", ID "," REF), "begins with https://"},
    {"an unknown system", OF("travis", "https://ci.example", ID "," REF), "system: github, gitlab"},
    {"an administrator",
     MORE("\"grant\":[{\"role\":\"org-admin\",\"on\":\"acme\"}]") ",\"priority\":1,\"max_ttl\":300,"
                                                                  "\"single_use\":true,\"audience\":\"us\"}",
     "makes no officer"},
    {"another organisation",
     MORE("\"grant\":[{\"role\":\"consumer\",\"on\":\"acme2/prod\"}]") ",\"priority\":1,\"max_ttl\":300,"
                                                                       "\"single_use\":true,\"audience\":\"us\"}",
     "outside the rule's scope"},
    {"everything",
     MORE("\"grant\":[{\"role\":\"consumer\",\"on\":\"\"}]") ",\"priority\":1,\"max_ttl\":300,"
                                                             "\"single_use\":true,\"audience\":\"us\"}",
     "on: an organisation"},
    {"a star for projects",
     MORE("\"grant\":[{\"role\":\"consumer\",\"on\":\"acme/*\"}]") ",\"priority\":1,\"max_ttl\":300,"
                                                                   "\"single_use\":true,\"audience\":\"us\"}",
     "on: an organisation"},
    {"a long life",
     MORE("\"grant\":[{\"role\":\"consumer\",\"on\":\"acme\"}]") ",\"priority\":1,\"max_ttl\":901,"
                                                                 "\"single_use\":true,\"audience\":\"us\"}",
     "max_ttl: 60 to 900"},
    {"a negative priority",
     MORE("\"grant\":[{\"role\":\"consumer\",\"on\":\"acme\"}]") ",\"priority\":-1,\"max_ttl\":300,"
                                                                 "\"single_use\":true,\"audience\":\"us\"}",
     "priority: 0 to 1000"},
    {"a use that is a text",
     MORE("\"grant\":[{\"role\":\"consumer\",\"on\":\"acme\"}]") ",\"priority\":1,\"max_ttl\":300,"
                                                                 "\"single_use\":\"yes\",\"audience\":\"us\"}",
     "single_use: true or false"},
    {"networks and a certificate",
     MORE("\"networks\":[\"10.1.0.0/16\",\"2001:db8::/32\"],"
          "\"certificate\":\"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\"") "," REST "}",
     NULL},
    {"a network in another spelling", MORE("\"networks\":[\"10.1.0.1/16\"]") "," REST "}", "in its one spelling"},
    {"a short thumbprint", MORE("\"certificate\":\"AAAA\"") "," REST "}", "certificate: base64url"},
    {"an unknown member", MORE("\"claims\":{}") "," REST "}", "there is no member \"claims\""},
};

static void compose(const char *body_text, const char *withdrawn, struct buffer *payload)
{
    OWNED_JSON body = json_loads(body_text, 0, NULL);
    const struct document_parts parts = {.kind = DOCUMENT_TRUST_RULE,
                                         .scope = "acme",
                                         .name = "gh-acme-train",
                                         .version = withdrawn == NULL ? 1 : 2,
                                         .effective_ms = NOW_MS - 1000,
                                         .expires_ms = NOW_MS + 90 * DAY_MS,
                                         .withdrawn = withdrawn,
                                         .body = body};
    struct error err = {0};

    assert_non_null(body);
    must(document_compose(&parts, payload, &err), &err);
}

static struct document *document_of(const char *body)
{
    struct buffer OWNED_BUFFER payload = BUFFER(TRUST_RULE_BYTES_MAX);
    struct document *document = NULL;
    struct error err = {0};

    compose(body, NULL, &payload);
    must(document_read_payload(DOCUMENT_TRUST_RULE, buffer_bytes(&payload), &document, &err), &err);
    return document;
}

static void refuses_what_is_open(void **state)
{
    const struct lint *row = *state;
    OWNED(document) *document = document_of(row->body);
    struct trust_rule rule;
    struct error err = {0};

    const bool ok = trust_rule_read(document, &rule, &err).ok;
    if (ok != (row->says == NULL)) fail_msg("%s", ok ? "it is accepted" : err.message);
    if (!ok && strstr(err.message, row->says) == NULL) fail_msg("%s", err.message);
    if (!ok) assert_int_equal(err.kind, ERROR_INVALID);
}

/* ---- signatures ---- */

enum { ROOT, ONE, TWO, TWO_AGAIN, STRANGER, KEYS };
#define BY(key) (1U << (key))
static struct ecdsa_key *keys[KEYS];

static const struct signed_row {
    const char *name;
    unsigned signers;
    const char *body, *withdrawn;
    enum error_kind kind;
} signed_rows[] = {
    {"two approvers", BY(ONE) | BY(TWO), GOOD, NULL, ERROR_NONE},
    {"the root", BY(ROOT), GOOD, NULL, ERROR_NONE},
    {"one approver", BY(ONE), GOOD, NULL, ERROR_DENIED},
    {"one approver with two keys", BY(TWO) | BY(TWO_AGAIN), GOOD, NULL, ERROR_DENIED},
    {"an approver and a stranger", BY(ONE) | BY(STRANGER), GOOD, NULL, ERROR_DENIED},
    {"an open rule of the root", BY(ROOT), GITHUB(ID), NULL, ERROR_INVALID},
    {"withdrawn by one approver", BY(TWO), "{}", "a leak", ERROR_NONE},
    {"withdrawn by the root", BY(ROOT), "{}", "a leak", ERROR_NONE},
    {"withdrawn by a stranger", BY(STRANGER), "{}", "a leak", ERROR_DENIED},
    {"a withdrawal with a rule", BY(ROOT), GOOD, "a leak", ERROR_INVALID},
};

/* Both keys of TWO are of one principal. */
static void trust_all(struct document_trust *trust)
{
    *trust = (struct document_trust){.now_ms = NOW_MS};
    ecdsa_key_public(keys[ROOT], trust->root);
    for (int key = ONE; key <= TWO_AGAIN; key++) {
        struct document_approver *approver = &trust->approvers[key - ONE];
        ecdsa_key_public(keys[key], approver->point);
        approver->expires_ms = NOW_MS + DAY_MS;
        approver->principal[0] = key == ONE ? 1 : 2;
    }
}

static void sign_all(const struct signed_row *row, struct document **document_out)
{
    struct buffer OWNED_BUFFER payload = BUFFER(TRUST_RULE_BYTES_MAX);
    struct buffer texts[KEYS] = {{0}};
    struct bytes views[DOCUMENT_SIGNATURES_MAX];
    struct error err = {0};
    size_t count = 0;

    compose(row->body, row->withdrawn, &payload);
    for (size_t i = 0; i < KEYS; i++) {
        texts[i] = BUFFER(2 * TRUST_RULE_BYTES_MAX);
        if ((row->signers & BY(i)) == 0) continue;
        must(document_sign(DOCUMENT_TRUST_RULE, buffer_bytes(&payload), keys[i], &texts[i], &err), &err);
        views[count++] = buffer_bytes(&texts[i]);
    }
    must(document_read(views, count, document_out, &err), &err);
    for (size_t i = 0; i < KEYS; i++) buffer_done(&texts[i]);
}

static void counts_signatures(void **state)
{
    const struct signed_row *row = *state;
    OWNED(document) *document = NULL;
    struct document_trust trust;
    struct error err = {0};

    sign_all(row, &document);
    trust_all(&trust);
    const bool ok = document_check(document, &trust, &err).ok;
    if (ok != (row->kind == ERROR_NONE)) fail_msg("%s", ok ? "it is accepted" : err.message);
    assert_int_equal(err.kind, row->kind);
}

/* Signatures that are older than a week bring nothing into force. A withdrawal may come at any time. */
static void a_rule_comes_into_force_within_a_week(void **state)
{
    static const struct signed_row rule = {.signers = BY(ROOT), .body = GOOD};
    static const struct signed_row withdrawal = {.signers = BY(ROOT), .body = "{}", .withdrawn = "a leak"};
    OWNED(document) *document = NULL, *withdrawn = NULL;
    struct document_trust trust;
    struct error err = {0};

    (void)state;
    sign_all(&rule, &document);
    sign_all(&withdrawal, &withdrawn);
    trust_all(&trust);
    trust.now_ms = document->effective_ms + 7 * DAY_MS;
    assert_true(document_check(document, &trust, &err).ok);
    trust.now_ms++;
    assert_false(document_check(document, &trust, &err).ok);
    assert_int_equal(err.kind, ERROR_DENIED);
    assert_true(document_check(withdrawn, &trust, &err).ok);
}

/* ---- matching ---- */

#define CLAIMS(more) "{\"iss\":\"" GITHUB_IS "\",\"aud\":\"https://reg.acme.ae\"" more "}"
#define MAIN         ",\"ref\":\"refs/heads/main\""
#define NUMBER_ID    ",\"repository_id\":\"260064828\""
static const struct match {
    const char *name, *claims;
    bool matches;
} matches[] = {
    {"all claims", CLAIMS(NUMBER_ID MAIN), true},
    {"an audience in an array", "{\"iss\":\"" GITHUB_IS "\",\"aud\":[\"https://reg.acme.ae\"]" NUMBER_ID MAIN "}", true},
    {"two audiences", "{\"iss\":\"" GITHUB_IS "\",\"aud\":[\"https://reg.acme.ae\",\"x\"]" NUMBER_ID MAIN "}", false},
    {"another audience", "{\"iss\":\"" GITHUB_IS "\",\"aud\":\"https://other.example\"" NUMBER_ID MAIN "}", false},
    {"another issuer", "{\"iss\":\"https://gitlab.com\",\"aud\":\"https://reg.acme.ae\"" NUMBER_ID MAIN "}", false},
    {"no issuer", "{\"aud\":\"https://reg.acme.ae\"" NUMBER_ID MAIN "}", false},
    {"another branch", CLAIMS(NUMBER_ID ",\"ref\":\"refs/heads/main2\""), false},
    {"no branch", CLAIMS(NUMBER_ID), false},
    {"another repository", CLAIMS(",\"repository_id\":\"1\"" MAIN), false},
    {"a repository as a number", CLAIMS(",\"repository_id\":260064828" MAIN), false},
    {"a repository as an array", CLAIMS(",\"repository_id\":[\"260064828\"]" MAIN), false},
    {"an empty object", "{}", false},
};

static void matches_claims(void **state)
{
    const struct match *row = *state;
    OWNED(document) *document = document_of(GOOD);
    OWNED_JSON claims = json_loads(row->claims, 0, NULL);
    struct trust_rule rule;
    struct error err = {0};

    must(trust_rule_read(document, &rule, &err), &err);
    assert_non_null(claims);
    assert_int_equal(trust_rule_matches(&rule, claims), row->matches);
}

static const struct test_row {
    const char *name, *pointer, *condition, *claims;
    enum claim_answer answer;
} test_rows[] = {
    {"a name with dots", "/kubernetes.io/serviceaccount/uid", "{\"eq\":\"u\"}",
     "{\"kubernetes.io\":{\"serviceaccount\":{\"uid\":\"u\"}}}", CLAIM_MATCHES},
    {"a name with a slash and a tilde", "/a~1b~0c", "{\"eq\":1}", "{\"a/b~c\":1}", CLAIM_MATCHES},
    {"an element", "/groups/1", "{\"eq\":\"b\"}", "{\"groups\":[\"a\",\"b\"]}", CLAIM_MATCHES},
    {"an element with a leading zero", "/groups/01", "{\"eq\":\"b\"}", "{\"groups\":[\"a\",\"b\"]}", CLAIM_IS_ABSENT},
    {"an element behind the end", "/groups/2", "{\"eq\":\"b\"}", "{\"groups\":[\"a\",\"b\"]}", CLAIM_IS_ABSENT},
    {"a part of a text", "/a/b", "{\"eq\":\"b\"}", "{\"a\":\"b\"}", CLAIM_IS_ABSENT},
    {"true is not \"true\"", "/ref_protected", "{\"eq\":\"true\"}", "{\"ref_protected\":true}", CLAIM_IS_OF_ANOTHER_TYPE},
    {"true is not false", "/ref_protected", "{\"eq\":true}", "{\"ref_protected\":false}", CLAIM_DIFFERS},
    {"one of several", "/event_name", "{\"in\":[\"push\",\"workflow_dispatch\"]}", "{\"event_name\":\"workflow_dispatch\"}",
     CLAIM_MATCHES},
    {"none of several", "/event_name", "{\"in\":[\"push\",3]}", "{\"event_name\":\"pull_request\"}", CLAIM_DIFFERS},
    {"of no type of several", "/event_name", "{\"in\":[\"push\",3]}", "{\"event_name\":null}", CLAIM_IS_OF_ANOTHER_TYPE},
    {"below a prefix", "/ref", "{\"prefix\":\"refs/heads/release/\"}", "{\"ref\":\"refs/heads/release/1\"}", CLAIM_MATCHES},
    {"the prefix itself", "/ref", "{\"prefix\":\"refs/heads/release/\"}", "{\"ref\":\"refs/heads/release/\"}", CLAIM_DIFFERS},
    {"beside a prefix", "/ref", "{\"prefix\":\"refs/heads/release/\"}", "{\"ref\":\"refs/heads/release2/1\"}", CLAIM_DIFFERS},
    {"a prefix of a number", "/ref", "{\"prefix\":\"1/\"}", "{\"ref\":1}", CLAIM_IS_OF_ANOTHER_TYPE},
    {"other letters", "/ref", "{\"eq\":\"Main\"}", "{\"ref\":\"main\"}", CLAIM_DIFFERS},
};

static void tests_one_claim(void **state)
{
    const struct test_row *row = *state;
    OWNED_JSON wanted = json_loads(row->condition, 0, NULL);
    OWNED_JSON claims = json_loads(row->claims, 0, NULL);
    struct claim_condition condition;
    struct error err = {0};

    must(claim_condition_read(row->pointer, wanted, &condition, &err), &err);
    assert_int_equal(claim_test(&condition, claims), row->answer);
}

/* ---- two rules ---- */

static const struct meeting {
    const char *name, *other; /* beside GOOD */
    bool meet;
} meetings[] = {
    {"the same", GOOD, true},
    {"one of several repositories", GITHUB("\"/repository_id\":{\"in\":[\"1\",\"260064828\"]}," REF), true},
    {"more claims", GITHUB(ID "," REF ",\"/event_name\":{\"eq\":\"push\"}"), true},
    {"a pinned workflow of any branch", GITHUB(ID ",\"/workflow_ref\":{\"eq\":\"a@b\"}"), true},
    {"branches of a kind", GITHUB(ID ",\"/ref\":{\"prefix\":\"refs/heads/release/\"}"), false},
    {"another repository", GITHUB("\"/repository_id\":{\"eq\":\"1\"}," REF), false},
    {"a repository as a number", GITHUB("\"/repository_id\":{\"eq\":260064828}," REF), false},
    {"other repositories", GITHUB("\"/repository_id\":{\"in\":[\"1\",\"2\"]}," REF), false},
    {"another branch", GITHUB(ID ",\"/ref\":{\"eq\":\"refs/heads/x\"}"), false},
    {"another issuer", NAMED("generic", "[\"/repository_id\"]", ID "," REF ",\"/sub\":{\"eq\":\"x\"}"), false},
};

static void meet_or_not(void **state)
{
    const struct meeting *row = *state;
    OWNED(document) *one = document_of(GOOD), *other = document_of(row->other);
    struct trust_rule rule, another;
    struct error err = {0};

    must(trust_rule_read(one, &rule, &err), &err);
    must(trust_rule_read(other, &another, &err), &err);
    assert_int_equal(trust_rules_meet(&rule, &another), row->meet);
    assert_int_equal(trust_rules_meet(&another, &rule), row->meet);
}

static const struct prefix_row {
    const char *name, *one, *other;
    bool meet;
} prefixes[] = {
    {"the same prefix", "{\"prefix\":\"a/\"}", "{\"prefix\":\"a/\"}", true},
    {"a longer prefix", "{\"prefix\":\"a/\"}", "{\"prefix\":\"a/b/\"}", true},
    {"another prefix", "{\"prefix\":\"a/\"}", "{\"prefix\":\"b/\"}", false},
    {"a value below it", "{\"prefix\":\"a/\"}", "{\"in\":[\"x\",\"a/b\"]}", true},
    {"a value beside it", "{\"prefix\":\"a/\"}", "{\"eq\":\"ab\"}", false},
    {"a number", "{\"prefix\":\"1/\"}", "{\"eq\":1}", false},
};

static void prefixes_meet(void **state)
{
    const struct prefix_row *row = *state;
    OWNED_JSON one = json_loads(row->one, 0, NULL);
    OWNED_JSON other = json_loads(row->other, 0, NULL);
    struct claim_condition first, second;
    struct error err = {0};

    must(claim_condition_read("/ref", one, &first, &err), &err);
    must(claim_condition_read("/ref", other, &second, &err), &err);
    assert_int_equal(claim_conditions_meet(&first, &second), row->meet);
    assert_int_equal(claim_conditions_meet(&second, &first), row->meet);
}

/* ---- the client ---- */

#define THUMBPRINT "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
static const struct place {
    const char *name, *more, *address, *thumbprint;
    bool permits;
} places[] = {
    {"anywhere", "\"certificate\":\"" THUMBPRINT "\"", NULL, THUMBPRINT, true},
    {"another certificate", "\"certificate\":\"" THUMBPRINT "\"", "10.1.2.3", "BAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
     false},
    {"no certificate", "\"certificate\":\"" THUMBPRINT "\"", "10.1.2.3", NULL, false},
    {"inside the network", "\"networks\":[\"10.1.0.0/16\",\"10.3.0.0/16\"]", "10.3.2.3", NULL, true},
    {"outside the network", "\"networks\":[\"10.1.0.0/16\"]", "10.2.2.3", NULL, false},
    {"nowhere", "\"networks\":[\"10.1.0.0/16\"]", NULL, NULL, false},
};

static void permits_clients(void **state)
{
    const struct place *row = *state;
    char body[2048];
    struct sockaddr_in address = {.sin_family = AF_INET};
    struct trust_rule rule;
    struct error err = {0};

    (void)snprintf(body, sizeof body, "{%s,%s", row->more, GOOD + 1);
    OWNED(document) *document = document_of(body);
    must(trust_rule_read(document, &rule, &err), &err);
    if (row->address != NULL) assert_int_equal(inet_pton(AF_INET, row->address, &address.sin_addr), 1);
    const struct sockaddr *client = row->address == NULL ? NULL : (const struct sockaddr *)&address;
    assert_int_equal(trust_rule_permits_client(&rule, client, row->thumbprint), row->permits);
}

int main(void)
{
    const struct CMUnitTest others[] = {cmocka_unit_test(a_rule_comes_into_force_within_a_week)};
    struct error err = {0};

    for (size_t i = 0; i < KEYS; i++) must(ecdsa_key_new(&keys[i], &err), &err);
    int failed = RUN_TABLE(lints, refuses_what_is_open);
    failed += RUN_TABLE(signed_rows, counts_signatures);
    failed += RUN_TABLE(matches, matches_claims);
    failed += RUN_TABLE(test_rows, tests_one_claim);
    failed += RUN_TABLE(meetings, meet_or_not);
    failed += RUN_TABLE(prefixes, prefixes_meet);
    failed += RUN_TABLE(places, permits_clients);
    failed += cmocka_run_group_tests_name("others", others, NULL, NULL);
    for (size_t i = 0; i < KEYS; i++) ecdsa_key_free(keys[i]);
    return failed;
}
