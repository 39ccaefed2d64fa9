/* Trust rules as principals: which rule a token of a CI system gets, for whom it counts, and what its grants allow. */
#include "tests/support/unit.h"

#include <arpa/inet.h>
#include <stdio.h>

#include "authz/trust_login.h"
#include "base/json.h"

#define NOW_MS INT64_C(1795000000000)
#define ISSUER "https://i"
#define US     "https://reg.acme.ae"

/* Rules of the organisation acme; the roles of `low` and `high` differ. */
#define RULE(system_members, match, role, priority, more)                                                                        \
    "{\"audience\":\"" US "\",\"grant\":[{\"on\":\"acme/m\",\"role\":\"" role "\"}],\"issuer\":\"" ISSUER "\",\"match\":{" match \
    "},\"max_ttl\":120,\"priority\":" priority system_members more "}"
#define GENERIC ",\"system\":\"generic\",\"immutable\":[\"/id\"]"
#define OF(id)  "\"/id\":{\"eq\":\"" id "\"},\"/sub\":{\"in\":[\"one\",\"two\"]}"

static const struct given {
    const char *name, *body;
    int64_t from_ms, until_ms;
} given[] = {
    {"low", RULE(GENERIC, OF("7"), "consumer", "1", ",\"single_use\":true"), -1000, 60000},
    {"high", RULE(GENERIC, OF("7") ",\"/ref\":{\"eq\":\"main\"}", "publisher", "2", ",\"single_use\":false"), -1000, 60000},
    {"same", RULE(GENERIC, OF("8"), "consumer", "5", ",\"single_use\":false"), -1000, 60000},
    {"same-again", RULE(GENERIC, OF("8"), "consumer", "5", ",\"single_use\":false"), -1000, 60000},
    {"over", RULE(GENERIC, OF("9"), "consumer", "5", ",\"single_use\":false"), -60000, -1},
    {"to-come", RULE(GENERIC, OF("9"), "consumer", "5", ",\"single_use\":false"), 61000, 120000},
    {"inside", RULE(GENERIC, OF("10"), "consumer", "5", ",\"single_use\":false,\"networks\":[\"10.0.0.0/8\"]"), -1000, 60000},
    {"homeless", RULE(GENERIC, OF("11"), "consumer", "9", ",\"single_use\":false"), -1000, 60000}, /* its project was deleted */
};
static const struct uuid acme = {{0xac}}, project = {{0x0d}};
static struct document *documents[COUNT(given)];
static struct authz_snapshot *snapshot;

static struct document *document_of(const struct given *row)
{
    struct buffer OWNED_BUFFER payload = BUFFER(TRUST_RULE_BYTES_MAX);
    OWNED_JSON body = json_loads(row->body, 0, NULL);
    const struct document_parts parts = {.kind = DOCUMENT_TRUST_RULE,
                                         .scope = "acme",
                                         .name = row->name,
                                         .version = 1,
                                         .effective_ms = NOW_MS + row->from_ms,
                                         .expires_ms = NOW_MS + row->until_ms,
                                         .body = body};
    struct document *document = NULL;
    struct error err = {0};

    assert_non_null(body);
    must(document_compose(&parts, &payload, &err), &err);
    must(document_read_payload(DOCUMENT_TRUST_RULE, buffer_bytes(&payload), &document, &err), &err);
    return document;
}

static struct authz_binding binding_of(size_t number)
{
    const bool may_push = strcmp(given[number].name, "high") == 0;
    struct authz_binding binding = {.id = {{(uint8_t)(number + 1)}},
                                    .kind = PRINCIPAL_EXTERNAL,
                                    .issuer = TRUST_ISSUER,
                                    .role = may_push ? ROLE_PUBLISHER : ROLE_CONSUMER,
                                    .scope = RESOURCE_PROJECT,
                                    .organisation = acme,
                                    .project = project,
                                    .expires_ms = NOW_MS + given[number].until_ms};

    (void)snprintf(binding.subject, sizeof binding.subject, "acme:%s", given[number].name);
    return binding;
}

static struct result make(bool with_issuer, struct authz_snapshot **snapshot_out, struct error *err)
{
    static const char jwks[] = "{\"keys\":[{\"kty\":\"EC\",\"crv\":\"P-256\",\"kid\":\"k\",\"alg\":\"ES256\","
                               "\"x\":\"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU\","
                               "\"y\":\"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0\"}]}";
    const struct issuer_record issuer = {
        .url = ISSUER, .audience = US, .algorithms = 1U << JOSE_ES256, .types = 1, .lifetime_max_s = 60, .jwks = jwks};
    struct pinned_document pinned[COUNT(given)];
    struct authz_binding bindings[COUNT(given)];
    OWNED(trust_rules) *rules = NULL;

    for (size_t i = 0; i < COUNT(given); i++) pinned[i] = (struct pinned_document){documents[i], i + 1};
    for (size_t i = 0; i < COUNT(given); i++) bindings[i] = binding_of(i);
    TRY(trust_rules_of(pinned, COUNT(given), &rules, err));
    const struct authz_parts parts = {.bindings = bindings,
                                      .binding_count = COUNT(given) - 1,
                                      .issuers = &issuer,
                                      .issuer_count = with_issuer ? 1 : 0,
                                      .rules = rules};
    return authz_snapshot_build(&parts, snapshot_out, err);
}

static const struct row {
    const char *name, *id, *more; /* claims */
    const char *jti, *address;
    bool is_elsewhere;
    const char *key;  /* of the rule; "": none */
    const char *says; /* NULL: success */
} rows[] = {
    {"one rule", "7", "", "j", NULL, false, "acme:low", NULL},
    {"the higher priority alone", "7", ",\"ref\":\"main\"", "j", NULL, false, "acme:high", NULL},
    {"no rule", "6", "", "j", NULL, false, "", NULL},
    {"no rule, elsewhere", "6", "", "j", NULL, true, "", NULL},
    {"another subject", "7", ",\"sub\":\"three\"", "j", NULL, false, "", NULL},
    {"a rule, elsewhere", "7", "", "j", NULL, true, "", "only /token takes it"},
    {"two of one priority", "8", "", "j", NULL, false, "", "acme:same and acme:same-again both match"},
    {"rules that have ended or not begun", "9", "", "j", NULL, false, "", NULL},
    {"a rule of a deleted project", "11", "", "j", NULL, false, "", NULL},
    {"once, without jti", "7", "", NULL, NULL, false, "", "has no jti"},
    {"more often, without jti", "7", ",\"ref\":\"main\"", NULL, NULL, false, "acme:high", NULL},
    {"inside the network", "10", "", "j", "10.2.3.4", false, "acme:inside", NULL},
    {"outside the network", "10", "", "j", "11.2.3.4", false, "", "other networks"},
    {"nowhere", "10", "", "j", NULL, false, "", "other networks"},
};

static const struct sockaddr *address_of(const char *text, struct sockaddr_in *address)
{
    *address = (struct sockaddr_in){.sin_family = AF_INET};
    if (text == NULL) return NULL;
    assert_int_equal(inet_pton(AF_INET, text, &address->sin_addr), 1);
    return (const struct sockaddr *)address;
}

static struct result log_in(const struct row *row, struct principal *principal, struct trust_use *use, struct error *err)
{
    char text[512];
    struct sockaddr_in address;

    (void)snprintf(text, sizeof text, "{\"iss\":\"" ISSUER "\",\"aud\":\"" US "\",\"sub\":\"one\",\"id\":\"%s\"%s}", row->id,
                   row->more);
    OWNED_JSON payload = json_loads(text, 0, NULL); /* of two members of one name the last counts */
    assert_non_null(payload);
    const struct claims claims = {.issuer = ISSUER, .subject = "one", .id = row->jti, .expires_s = NOW_MS / 1000 + 30};
    const struct trust_login login = {.snapshot = snapshot,
                                      .payload = payload,
                                      .claims = &claims,
                                      .client = address_of(row->address, &address),
                                      .now_ms = NOW_MS};
    *principal =
        (struct principal){.kind = PRINCIPAL_EXTERNAL, .issuer = ISSUER, .subject = "one", .expires_ms = claims.expires_s * 1000};
    return trust_login(&login, principal, row->is_elsewhere ? NULL : use, err);
}

static void finds_the_rule(void **state)
{
    const struct row *row = *state;
    struct principal principal;
    struct trust_use use = {.key = ""};
    struct error err = {0};

    const bool ok = log_in(row, &principal, &use, &err).ok;
    if (ok != (row->says == NULL)) fail_msg("%s", ok ? "it is accepted" : err.message);
    if (!ok && strstr(err.message, row->says) == NULL) fail_msg("%s", err.message);
    assert_string_equal(use.key, row->key);
    assert_string_equal(principal.issuer, row->key[0] == '\0' ? ISSUER : TRUST_ISSUER);
    assert_string_equal(principal.subject, row->key[0] == '\0' ? "one" : row->key);
    if (row->key[0] != '\0') assert_int_equal(use.ttl_max_s, 120);
}

/* The same jti of the same issuer is the same use, whatever else the token says. */
static void names_a_use(void **state)
{
    struct principal principal;
    struct trust_use one = {.key = ""}, same = {.key = ""}, other = {.key = ""};
    struct error err = {0};

    (void)state;
    must(log_in(&(struct row){.id = "7", .more = "", .jti = "j"}, &principal, &one, &err), &err);
    must(log_in(&(struct row){.id = "7", .more = ",\"x\":1.5", .jti = "j"}, &principal, &same, &err), &err);
    must(log_in(&(struct row){.id = "7", .more = "", .jti = "k"}, &principal, &other, &err), &err);
    assert_true(one.single_use && one.spent_until_ms > NOW_MS + 30000);
    assert_memory_equal(one.spent, same.spent, sizeof one.spent);
    assert_memory_not_equal(one.spent, other.spent, sizeof one.spent);
    assert_non_null(strstr(one.claims, "\"id\":\"7\""));
    assert_string_equal(same.claims, ""); /* a fraction has no canonical spelling */
    assert_true(principal.expires_ms == NOW_MS + 30000);
    assert_memory_equal(one.digest, "sha256:", 7);
}

static enum authz_verdict verdict_of(const struct authz_snapshot *of, const char *key, enum action action, int64_t now_ms)
{
    struct principal principal = {.kind = PRINCIPAL_EXTERNAL, .issuer = TRUST_ISSUER};
    const struct resource resource = {
        .kind = RESOURCE_REPOSITORY, .name = "acme/m/digits", .organisation = acme, .project = project, .repository = {{9}}};

    (void)snprintf(principal.subject, sizeof principal.subject, "%s", key);
    const struct persons_scope scope = {of, &acme, now_ms};
    const struct persons persons = persons_of(&scope, &principal);
    assert_false(persons_are_known(&persons));
    return authz_snapshot_authorize(of, &principal, action, &resource, now_ms).verdict;
}

static void decides_by_the_rule(void **state)
{
    OWNED(authz_snapshot) *without = NULL;
    struct error err = {0};

    (void)state;
    assert_int_equal(verdict_of(snapshot, "acme:low", ACTION_MANIFEST_READ, NOW_MS), AUTHZ_ALLOWED);
    assert_int_equal(verdict_of(snapshot, "acme:low", ACTION_MANIFEST_PUSH, NOW_MS), AUTHZ_NOT_ALLOWED);
    assert_int_equal(verdict_of(snapshot, "acme:high", ACTION_MANIFEST_PUSH, NOW_MS), AUTHZ_ALLOWED);
    assert_int_equal(verdict_of(snapshot, "acme:low", ACTION_MANIFEST_READ, NOW_MS + 60000), AUTHZ_NOT_LIVE);
    assert_int_equal(verdict_of(snapshot, "acme:over", ACTION_MANIFEST_READ, NOW_MS), AUTHZ_NOT_LIVE);
    assert_int_equal(verdict_of(snapshot, "acme:none", ACTION_MANIFEST_READ, NOW_MS), AUTHZ_NOT_LIVE);
    must(make(false, &without, &err), &err);
    assert_int_equal(verdict_of(without, "acme:low", ACTION_MANIFEST_READ, NOW_MS), AUTHZ_NOT_LIVE);
}

static void resumes_only_what_counts(void **state)
{
    struct sockaddr_in address;
    struct trust_resumption resumption = {.snapshot = snapshot, .key = "acme:inside", .now_ms = NOW_MS};
    struct error err = {0};

    (void)state;
    assert_false(trust_resume(&resumption, &err).ok);
    resumption.client = address_of("11.0.0.1", &address);
    assert_false(trust_resume(&resumption, &err).ok);
    resumption.client = address_of("10.0.0.1", &address);
    must(trust_resume(&resumption, &err), &err);
    resumption.now_ms = NOW_MS + 60000;
    assert_false(trust_resume(&resumption, &err).ok);
    assert_non_null(strstr(err.message, "was withdrawn or has expired"));
}

static struct result make_once(void *context, struct error *err)
{
    OWNED(authz_snapshot) *made = NULL;

    (void)context;
    TRY(make(true, &made, err));
    return SUCCESS;
}

static void survives_every_failure(void **state)
{
    (void)state;
    fail_each(make_once, NULL, ERROR_NO_MEMORY, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_a_use),
        cmocka_unit_test(decides_by_the_rule),
        cmocka_unit_test(resumes_only_what_counts),
        cmocka_unit_test(survives_every_failure),
    };
    struct error err = {0};

    for (size_t i = 0; i < COUNT(given); i++) documents[i] = document_of(&given[i]);
    must(make(true, &snapshot, &err), &err);
    int failed = RUN_TABLE(rows, finds_the_rule);
    failed += cmocka_run_group_tests_name("trust rules", tests, NULL, NULL);
    authz_snapshot_free(snapshot);
    for (size_t i = 0; i < COUNT(given); i++) document_free(documents[i]);
    return failed;
}
