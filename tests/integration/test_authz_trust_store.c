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

static struct document *document_of(enum document_kind kind, const char *name, const char *text)
{
    struct buffer OWNED_BUFFER payload = BUFFER(TRUST_RULE_BYTES_MAX);
    OWNED_JSON body = json_loads(text, 0, NULL);
    const int64_t now_ms = clock_wall_ms();
    const struct document_parts parts = {.kind = kind,
                                         .scope = "",
                                         .name = name,
                                         .version = 1,
                                         .effective_ms = now_ms - 1000,
                                         .expires_ms = now_ms + 3600000,
                                         .body = body};
    struct document *document = NULL;
    struct error err = {0};

    must(document_compose(&parts, &payload, &err), &err);
    must(document_read_payload(kind, buffer_bytes(&payload), &document, &err), &err);
    return document;
}

/* Three rules: on a project, on a path in it, and one that was signed before its organisation was made. */
static struct trust_rules *make_rules(void)
{
    OWNED(document) *project = document_of(DOCUMENT_TRUST_RULE, "project", RULE("acme/models"));
    OWNED(document) *path = document_of(DOCUMENT_TRUST_RULE, "path", RULE("acme/models/team/*"));
    OWNED(document) *early = document_of(DOCUMENT_TRUST_RULE, "early", RULE("later"));
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
    must(authz_snapshot_renew(fixture->pg, snapshot, &(struct rights_change){&acme, 1, 0}, &renewed, &err), &err);
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

static const struct principal ann = {.kind = PRINCIPAL_EXTERNAL, .issuer = "https://i", .subject = "ann"};

static enum authz_verdict may(const struct authz_snapshot *snapshot, enum action action, const char *name)
{
    const struct resource resource = resource_of(RESOURCE_REPOSITORY, name);

    return authz_snapshot_authorize(snapshot, &ann, action, &resource, clock_wall_ms()).verdict;
}

/* ---- roles of an organisation's own ---- */

#define ROLE(organisation, actions) "{\"meaning\":\"m\"," organisation "\"actions\":[" actions "]}"

/* What the role of a binding, and of a grant of a rule, permits: its document says it, if the organisation was there when it was signed. */
static void a_role_is_what_its_document_says(void **state)
{
    struct fixture *fixture = *state;
    OWNED(document) *here = document_of(DOCUMENT_OWN_ROLE, "a.push", ROLE("\"organisation\":\"acme\",", "\"manifest.push\""));
    OWNED(document) *early = document_of(DOCUMENT_OWN_ROLE, "l.push", ROLE("\"organisation\":\"later\",", "\"manifest.push\""));
    OWNED(document) *rule = document_of(
        DOCUMENT_TRUST_RULE, "own",
        "{\"audience\":\"us\",\"grant\":[{\"on\":\"acme/models\",\"role\":\"a.push\"},{\"on\":\"later/x\",\"role\":\"l.push\"},"
        "{\"on\":\"later/x\",\"role\":\"a.push\"}],\"immutable\":[\"/id\"],\"issuer\":\"https://i\",\"match\":{\"/id\":{\"eq\":\"7\"},"
        "\"/sub\":{\"eq\":\"x\"}},\"max_ttl\":300,\"priority\":1,\"single_use\":true,\"system\":\"generic\"}");
    const struct pinned_document pinned[] = {{here, 50}, {early, 50}, {rule, 1000}};
    OWNED(trust_rules) *rules = NULL;
    OWNED(authz_snapshot) *snapshot = NULL;
    OWNED(authz_snapshot) *renewed = NULL;
    const struct uuid acme = uuid_of(ACME);
    struct error err = {0};

    trust_issuer(fixture->pg);
    database_execute(fixture->database,
                     "INSERT INTO organisation (organisation_id, name, born) VALUES ('" LATER "', 'later', 100);"
                     "INSERT INTO project (project_id, organisation_id, name, home_region) SELECT gen_random_uuid(), '" LATER "',"
                     " 'x', home_region FROM project LIMIT 1");
    database_execute(fixture->database,
                     "INSERT INTO binding (binding_id, issuer, subject, role, organisation_id, granted_by) VALUES"
                     " (gen_random_uuid(), 'https://i', 'ann', 'a.push', '" ACME "', 'system')");
    must(trust_rules_of(pinned, COUNT(pinned), &rules, &err), &err);
    must(authz_snapshot_load(fixture->pg, rules, &snapshot, &err), &err);
    must(authz_snapshot_renew(fixture->pg, snapshot, &(struct rights_change){&acme, 1, 0}, &renewed, &err), &err);
    for (size_t i = 0; i < 2; i++) {
        const struct authz_snapshot *each = i == 0 ? snapshot : renewed;
        assert_true(may_push(each, ":own", "acme/models/x"));
        assert_false(
            may_push(each, ":own", "later/x/y")); /* one was signed before the organisation was there, the other is acme's */
        assert_int_equal(may(each, ACTION_MANIFEST_PUSH, "acme/models/x"), AUTHZ_ALLOWED);
        assert_int_not_equal(may(each, ACTION_MANIFEST_READ, "acme/models/x"), AUTHZ_ALLOWED);
    }
}

/* ---- groups ---- */

#define GROUPS                                                                                                                     \
    "{\"issuer\":\"https://i\",\"claim\":\"/groups\",\"grant\":[{\"group\":\"ds\",\"role\":\"publisher\",\"on\":\"acme/models\"}," \
    "{\"group\":\"all\",\"role\":\"consumer\",\"on\":\"acme/models/team/*\"},{\"group\":\"ds\",\"role\":\"consumer\",\"on\":\"later\"}]}"

static struct trust_rules *make_groups(uint64_t sequence)
{
    OWNED(document) *bank = document_of(DOCUMENT_GROUP_ROLES, "bank", GROUPS);
    const struct pinned_document pinned = {bank, sequence};
    struct trust_rules *rules = NULL;
    struct error err = {0};

    must(trust_rules_of(&pinned, 1, &rules, &err), &err);
    return rules;
}

/* What a token with these groups says, compared with the snapshot. */
static struct group_use use_of(const struct authz_snapshot *snapshot, const char *payload, int64_t issued_s)
{
    OWNED_JSON json = json_loads(payload, 0, NULL);
    const struct claims claims = {.issuer = "https://i", .subject = "ann", .issued_s = issued_s, .expires_s = issued_s + 300};
    const struct group_login login = {snapshot, json, &claims, clock_wall_ms(), false};
    struct group_use use = {.is_new = false};
    struct error err = {0};

    assert_non_null(json);
    must(group_login(&login, &use, &err), &err);
    return use;
}

/* The log of a server tells each row by the event of its token. */
static void tell_rows(const struct fixture *fixture)
{
    database_execute(
        fixture->database,
        "WITH told AS (SELECT issuer, subject, row_number() OVER () + (SELECT coalesce(max(seq), 0) FROM audit_entry) AS seq,"
        " convert_to(' login=' || told_groups(salt, issuer, subject, groups), 'UTF8') AS leaf FROM group_login),"
        " noted AS (UPDATE group_login l SET told = t.seq FROM told t WHERE (l.issuer, l.subject) = (t.issuer, t.subject))"
        " INSERT INTO audit_entry (seq, ts, leaf, leaf_hash, action, outcome) SELECT seq, extract(epoch FROM now()) * 1000, leaf,"
        " sha256('\\x00'::bytea || leaf), 'token.mint', 'allowed' FROM told");
}

static bool log_in(const struct fixture *fixture, const struct group_use *use)
{
    const struct resource all = resource_of(RESOURCE_SYSTEM, "");
    struct group_mint mint;
    struct error err = {0};

    group_mint_init(&mint, use, "registry:admin:*");
    if (!run(fixture->pg, &mint.change, ACTION_TOKEN_MINT, &all, &err)) return false;
    tell_rows(fixture);
    return true;
}

static struct authz_snapshot *load_with(struct pg *pg, const struct trust_rules *rules)
{
    struct authz_snapshot *snapshot = NULL;
    struct error err = {0};

    must(authz_snapshot_load(pg, rules, &snapshot, &err), &err);
    return snapshot;
}

static void groups_of_the_newest_token_count(void **state)
{
    struct fixture *fixture = *state;
    struct pg *pg = fixture->pg;
    const int64_t now_s = clock_wall_ms() / 1000;
    OWNED(trust_rules) *rules = make_groups(1000);
    OWNED(authz_snapshot) *before = NULL;
    OWNED(authz_snapshot) *in = NULL;
    OWNED(authz_snapshot) *again = NULL;
    OWNED(authz_snapshot) *left = NULL;
    struct error err = {0};
    const struct uuid acme = uuid_of(ACME);

    trust_issuer(pg);
    before = load_with(pg, rules);
    assert_int_equal(may(before, ACTION_MANIFEST_PUSH, "acme/models/x"), AUTHZ_INVISIBLE);
    const struct group_use first = use_of(before, "{\"groups\":[\"ds\",\"none\"]}", now_s);
    assert_true(first.is_new && first.count == 1 && first.grants == 1 && first.organisation_count == 1);
    assert_true(log_in(fixture, &first));
    must(authz_snapshot_renew(pg, before, &(struct rights_change){&acme, 1, 0}, &in, &err), &err);
    assert_int_equal(may(in, ACTION_MANIFEST_PUSH, "acme/models/x"), AUTHZ_ALLOWED);
    assert_false(use_of(in, "{\"groups\":[\"ds\"]}", now_s).is_new); /* nothing is written again */

    const struct group_use second = use_of(in, "{\"groups\":[\"all\"]}", now_s + 10);
    assert_true(second.is_new && second.left_count == 1);
    assert_true(log_in(fixture, &second));
    assert_true(log_in(fixture, &first)); /* an older token, which comes later: it changes nothing */
    again = load_with(pg, rules);
    assert_int_equal(may(again, ACTION_MANIFEST_PUSH, "acme/models/team/x"), AUTHZ_NOT_ALLOWED);
    assert_int_equal(may(again, ACTION_MANIFEST_READ, "acme/models/team/x"), AUTHZ_ALLOWED);
    assert_int_equal(may(again, ACTION_MANIFEST_READ, "acme/models/x"), AUTHZ_INVISIBLE);

    const struct group_use none = use_of(again, "{}", now_s + 20);
    assert_true(none.is_new && none.count == 0);
    assert_true(log_in(fixture, &none));
    left = load_with(pg, rules);
    assert_int_equal(may(left, ACTION_MANIFEST_READ, "acme/models/team/x"), AUTHZ_INVISIBLE);
    assert_false(use_of(left, "{}", now_s + 20).is_new);
}

static void rows_give_nothing_that_no_document_gives(void **state)
{
    struct fixture *fixture = *state;
    OWNED(trust_rules) *rules = make_groups(1000);
    OWNED(trust_rules) *early = make_groups(1);
    OWNED(authz_snapshot) *snapshot = NULL;
    OWNED(authz_snapshot) *without = NULL;
    OWNED(authz_snapshot) *deleted = NULL;

    trust_issuer(fixture->pg);
    database_execute(fixture->database,
                     "INSERT INTO organisation (organisation_id, name, born) VALUES ('" LATER "', 'later', 100)");
    database_execute(fixture->database,
                     "INSERT INTO group_login VALUES ('https://i', 'ann', '{ds,admins}', now(), now() + interval '1 hour'),"
                     " ('https://j', 'ann', '{ds}', now(), now() + interval '1 hour'),"
                     " ('https://i', 'old', '{ds}', now(), now() - interval '1 hour'),"
                     " ('https://i', 'for ever', '{ds}', now(), now() + interval '2 days'),"
                     " ('https://i', 'unborn', '{ds}', now() + interval '1 hour', now() + interval '1 hour')");
    tell_rows(fixture);
    database_execute(
        fixture->database, /* another row of the same token */
        "INSERT INTO group_login (issuer, subject, groups, issued_at, until, told) SELECT issuer, 'eve', groups, issued_at, until, told"
        " FROM group_login WHERE (issuer, subject) = ('https://i', 'ann')");
    snapshot = load_with(fixture->pg, rules);
    const struct uuid acme = uuid_of(ACME), later = uuid_of(LATER);
    assert_int_equal(snapshot_part(snapshot, &acme)->binding_count, 1);
    assert_int_equal(snapshot_part(snapshot, &later)->binding_count, 1);
    assert_int_equal(may(snapshot, ACTION_MANIFEST_PUSH, "acme/models/x"), AUTHZ_ALLOWED);
    without = load_with(fixture->pg, NULL);
    assert_int_equal(may(without, ACTION_MANIFEST_PUSH, "acme/models/x"), AUTHZ_INVISIBLE);
    deleted = load_with(fixture->pg, early); /* it was signed before the organisation was made */
    assert_null(snapshot_part(deleted, &later));
    assert_int_equal(snapshot_part(deleted, &acme)->binding_count, 1);
}

/* Else each token would have all gateways read the rights of the organisation again. */
static void a_place_that_was_deleted_tells_nothing_new(void **state)
{
    struct fixture *fixture = *state;
    const int64_t now_s = clock_wall_ms() / 1000;
    OWNED(trust_rules) *rules = make_groups(1000);
    OWNED(authz_snapshot) *before = NULL;
    OWNED(authz_snapshot) *other = NULL;
    OWNED(authz_snapshot) *after = NULL;
    const struct uuid acme = uuid_of(ACME), beta = uuid_of(BETA);
    struct error err = {0};

    before = load_with(fixture->pg, rules);
    assert_true(use_of(before, "{\"groups\":[\"ds\",\"all\"]}", now_s).is_new);
    database_execute(fixture->database,
                     "UPDATE project SET name = 'gone' WHERE organisation_id = '" ACME "' AND name = 'models'");
    must(authz_snapshot_renew(fixture->pg, before, &(struct rights_change){&beta, 1, 0}, &other, &err), &err);
    assert_true(use_of(other, "{\"groups\":[\"ds\",\"all\"]}", now_s).is_new); /* acme was not read again */
    must(authz_snapshot_renew(fixture->pg, other, &(struct rights_change){&acme, 1, 0}, &after, &err), &err);
    const struct group_use use = use_of(after, "{\"groups\":[\"ds\",\"all\"]}", now_s);
    assert_true(!use.is_new && use.grants == 0 && use.count == 0);
}

static void other_routes_take_no_such_token(void **state)
{
    struct fixture *fixture = *state;
    OWNED(trust_rules) *rules = make_groups(1000);
    OWNED(authz_snapshot) *snapshot = load_with(fixture->pg, rules);
    OWNED_JSON payload = json_pack("{s:[s]}", "groups", "ds");
    struct claims claims = {.issuer = "https://i", .subject = "ann", .issued_s = 1, .expires_s = 2};
    struct group_login login = {snapshot, payload, &claims, clock_wall_ms(), false};
    struct group_use use = {.is_new = false};
    struct error err = {0};

    assert_false(group_login(&login, NULL, &err).ok);
    assert_int_equal(err.kind, ERROR_DENIED);
    must(group_login(&login, &use, &err), &err);
    login.is_undated = true; /* an old opaque token would seem to be the newest */
    assert_false(group_login(&login, &use, &err).ok);
    assert_int_equal(err.kind, ERROR_DENIED);
    assert_non_null(strstr(err.message, "iat"));
    claims.issuer = "https://j";
    must(group_login(&login, NULL, &err), &err);
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
        TEST(a_role_is_what_its_document_says),
        TEST(a_token_is_spent_once),
        TEST(groups_of_the_newest_token_count),
        TEST(rows_give_nothing_that_no_document_gives),
        TEST(a_place_that_was_deleted_tells_nothing_new),
        TEST(other_routes_take_no_such_token),
    };

    return cmocka_run_group_tests_name("trust rules in the database", tests, NULL, NULL);
}
