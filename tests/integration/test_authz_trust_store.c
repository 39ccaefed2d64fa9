/* Trust rules and the database: their grants become bindings of a snapshot, rows add nothing to them, and a token is spent once. */
#include "authz/snapshot_load.h"
#include "tests/integration/authz_fixture.h"

#include "authz/snapshot_priv.h"
#include "authz/trust_rule.h"
#include "base/clock.h"
#include "base/json.h"

#define LATER "10000000-0000-4000-8000-000000000009"
#define RULE(on)                                                                                                                \
    "{\"audience\":\"us\",\"grant\":[{\"on\":\"" on "\",\"role\":\"publisher\"},{\"on\":\"beta/none\",\"role\":\"consumer\"}]," \
    "\"immutable\":[\"/id\"],\"issuer\":\"https://i\",\"match\":{\"/id\":{\"eq\":\"7\"},\"/sub\":{\"eq\":\"x\"}},"              \
    "\"max_ttl\":300,\"priority\":1,\"single_use\":true,\"system\":\"generic\"}"

static struct document *document_of(const char *name, const char *text)
{
    struct buffer OWNED_BUFFER payload = BUFFER(TRUST_RULE_BYTES_MAX);
    OWNED_JSON body = json_loads(text, 0, NULL);
    const int64_t now_ms = clock_wall_ms();
    const struct document_parts parts = {.kind = DOCUMENT_TRUST_RULE,
                                         .scope = "",
                                         .name = name,
                                         .version = 1,
                                         .effective_ms = now_ms - 1000,
                                         .expires_ms = now_ms + 3600000,
                                         .body = body};
    struct document *document = NULL;
    struct error err = {0};

    must(document_compose(&parts, &payload, &err), &err);
    must(document_read_payload(DOCUMENT_TRUST_RULE, buffer_bytes(&payload), &document, &err), &err);
    return document;
}

/* Three rules: on a project, on a path in it, and one that was signed before its organisation was made. */
static struct trust_rules *make_rules(void)
{
    OWNED(document) *project = document_of("project", RULE("acme/models"));
    OWNED(document) *path = document_of("path", RULE("acme/models/team/*"));
    OWNED(document) *early = document_of("early", RULE("later"));
    const struct pinned_document pinned[] = {{project, 1000}, {path, 1000}, {early, 1}};
    struct trust_rules *rules = NULL;
    struct error err = {0};

    must(trust_rules_of(pinned, COUNT(pinned), &rules, &err), &err);
    return rules;
}

static bool may_push(const struct authz_snapshot *snapshot, const char *key, const char *name)
{
    struct principal principal = {.kind = PRINCIPAL_EXTERNAL, .issuer = TRUST_ISSUER};
    struct resource resource = resource_of(RESOURCE_REPOSITORY, name);

    (void)snprintf(principal.subject, sizeof principal.subject, "%s", key);
    return authz_snapshot_authorize(snapshot, &principal, ACTION_MANIFEST_PUSH, &resource, clock_wall_ms()).verdict ==
           AUTHZ_ALLOWED;
}

static void trust_issuer(struct pg *pg)
{
    static const struct issuer_record issuer = {
        .url = "https://i", .audience = "us", .algorithms = 1U << JOSE_ES256, .lifetime_max_s = 600, .jwks = JWKS};
    const struct resource all = resource_of(RESOURCE_SYSTEM, "");
    struct issuer_trust trust;
    struct error err = {0};

    must(issuer_trust_init(&trust, &issuer, &err), &err);
    assert_true(run(pg, &trust.change, ACTION_ISSUER_TRUST, &all, &err));
}

static void grants_become_bindings(void **state)
{
    struct fixture *fixture = *state;
    OWNED(trust_rules) *rules = make_rules();
    OWNED(authz_snapshot) *snapshot = NULL;
    OWNED(authz_snapshot) *renewed = NULL;
    const struct uuid acme = uuid_of(ACME);
    struct error err = {0};

    trust_issuer(fixture->pg);
    database_execute(fixture->database,
                     "INSERT INTO organisation (organisation_id, name, born) VALUES ('" LATER "', 'later', 100)");
    database_execute(fixture->database, "INSERT INTO binding (binding_id, issuer, subject, role, organisation_id, granted_by)"
                                        " VALUES (gen_random_uuid(), 'sijil:rule', ':path', 'publisher', '" ACME "', 'system')");
    must(authz_snapshot_load(fixture->pg, rules, &snapshot, &err), &err);
    must(authz_snapshot_renew(fixture->pg, snapshot, &(struct rights_change){&acme, 1}, &renewed, &err), &err);
    const struct uuid later = uuid_of(LATER);
    assert_null(snapshot_part(snapshot, &later));
    assert_int_equal(snapshot_part(snapshot, &acme)->binding_count, 2);
    assert_int_equal(snapshot_part(renewed, &acme)->binding_count, 2);
    for (size_t i = 0; i < 2; i++) {
        const struct authz_snapshot *each = i == 0 ? snapshot : renewed;
        assert_true(may_push(each, ":project", "acme/models/x"));
        assert_true(may_push(each, ":path", "acme/models/team/x"));
        assert_false(may_push(each, ":path", "acme/models/x")); /* nor by the row */
        assert_ptr_equal(authz_snapshot_rules(each), rules);
    }
    OWNED(authz_snapshot) *without = NULL;
    must(authz_snapshot_load(fixture->pg, NULL, &without, &err), &err);
    assert_false(may_push(without, ":project", "acme/models/x"));
}

struct attempt {
    struct pg *pg;
    const struct trust_rules *rules;
};

static struct result load_once(void *context, struct error *err)
{
    const struct attempt *attempt = context;
    OWNED(authz_snapshot) *snapshot = NULL;

    if (pg_is_broken(attempt->pg)) TRY(pg_reopen(attempt->pg, err));
    TRY_UNTOUCHED_BYTES(snapshot, authz_snapshot_load(attempt->pg, attempt->rules, &snapshot, err));
    return SUCCESS;
}

static void loading_survives_every_failure(void **state)
{
    struct fixture *fixture = *state;
    OWNED(trust_rules) *rules = make_rules();
    struct attempt attempt = {fixture->pg, rules};

    fail_each(load_once, &attempt, ERROR_NONE, 10);
}

static bool mint(struct pg *pg, uint8_t first, int64_t until_ms, bool single_use, struct error *err)
{
    struct trust_use use = {.key = "acme:x", .single_use = single_use, .spent = {first}, .spent_until_ms = until_ms};
    const struct resource all = resource_of(RESOURCE_SYSTEM, "");
    struct trust_mint mint;

    (void)snprintf(use.digest, sizeof use.digest, "sha256:0");
    trust_mint_init(&mint, &use, "registry:admin:*");
    assert_int_equal(strncmp(mint.change.detail, "registry:admin:* rule acme:x sha256:", 36), 0);
    return run(pg, &mint.change, ACTION_TOKEN_MINT, &all, err);
}

static void a_token_is_spent_once(void **state)
{
    struct fixture *fixture = *state;
    const int64_t later_ms = clock_wall_ms() + 60000;
    struct error err = {0};

    for (uint8_t i = 0; i < 3; i++) assert_true(mint(fixture->pg, (uint8_t)(100 + i), clock_wall_ms() - 1000, true, &err));
    assert_true(mint(fixture->pg, 1, later_ms, true, &err));
    assert_false(mint(fixture->pg, 1, later_ms, true, &err));
    assert_int_equal(err.kind, ERROR_CONFLICT);
    assert_non_null(strstr(err.message, "was used before"));
    assert_true(mint(fixture->pg, 1, later_ms, false, &err)); /* a rule that lets it be used more often */
    assert_true(mint(fixture->pg, 2, later_ms, true, &err));
    assert_string_equal(database_ask(fixture->database, "SELECT count(*) FROM spent_token"), "2"); /* the old ones are swept */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(grants_become_bindings),
        TEST(loading_survives_every_failure),
        TEST(a_token_is_spent_once),
    };

    return cmocka_run_group_tests_name("trust rules in the database", tests, NULL, NULL);
}
