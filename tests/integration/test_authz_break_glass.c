/* Broken glasses and the database: a role needs the signed document and the subject that has its hash; rows alone give nothing. */
#include "authz/snapshot_load.h"
#include "tests/integration/authz_fixture.h"

#include "authz/snapshot_priv.h"
#include "base/clock.h"
#include "base/json.h"

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

static const struct principal ann = {.kind = PRINCIPAL_EXTERNAL, .issuer = "https://i", .subject = "ann"};

static enum authz_verdict may(const struct authz_snapshot *snapshot, enum action action, const char *name)
{
    const struct resource resource = resource_of(RESOURCE_REPOSITORY, name);

    return authz_snapshot_authorize(snapshot, &ann, action, &resource, clock_wall_ms()).verdict;
}

static struct authz_snapshot *load_with(struct pg *pg, const struct trust_rules *rules)
{
    struct authz_snapshot *snapshot = NULL;
    struct error err = {0};

    must(authz_snapshot_load(pg, rules, &snapshot, &err), &err);
    return snapshot;
}

/* Of ann, on acme/models, and in force from the event `sequence` on. */
static struct trust_rules *make_glass(uint64_t sequence)
{
    struct buffer OWNED_BUFFER payload = BUFFER(BREAK_GLASS_BYTES_MAX);
    struct break_glass glass = {.on = "acme/models", .reason = "a test"};
    const int64_t now_ms = clock_wall_ms();
    OWNED(ecdsa_key) *key = NULL;
    OWNED(document) *document = NULL;
    struct trust_rules *rules = NULL;
    char holder[PRINCIPAL_KEY_SIZE];
    struct error err = {0};

    must(ecdsa_key_new(&key, &err), &err);
    ecdsa_key_public(key, glass.point);
    principal_key(&ann, holder);
    glass.principal = holder;
    OWNED_JSON body = break_glass_body(&glass);
    const struct document_parts parts = {.kind = DOCUMENT_BREAK_GLASS,
                                         .scope = "",
                                         .name = "bg-1",
                                         .version = 1,
                                         .effective_ms = now_ms - 1000,
                                         .expires_ms = now_ms + 600000,
                                         .body = body};
    must(document_compose(&parts, &payload, &err), &err);
    must(document_read_payload(DOCUMENT_BREAK_GLASS, buffer_bytes(&payload), &document, &err), &err);
    const struct pinned_document pinned = {document, sequence};
    must(trust_rules_of(&pinned, 1, &rules, &err), &err);
    return rules;
}

static void hold(struct fixture *fixture, const char *subject)
{
    char text[512], holder[PRINCIPAL_KEY_SIZE];

    principal_key(&ann, holder);
    (void)snprintf(text, sizeof text,
                   "INSERT INTO break_glass_holder VALUES ('bg-1', '%s', 'https://i', '%s', now() + interval '1 hour')"
                   " ON CONFLICT (name, principal) DO UPDATE SET subject = excluded.subject",
                   holder, subject);
    database_execute(fixture->database, text);
}

static size_t bindings_with(struct pg *pg, const struct trust_rules *rules)
{
    OWNED(authz_snapshot) *snapshot = load_with(pg, rules);
    const struct uuid acme = uuid_of(ACME);
    const struct rights_part *part = snapshot_part(snapshot, &acme);

    return part == NULL ? 0 : part->binding_count;
}

/* The document names a hash, and the row the subject that has it. */
static void a_glass_needs_its_document_and_its_holder(void **state)
{
    struct fixture *fixture = *state;
    OWNED(trust_rules) *rules = make_glass(1000);
    OWNED(authz_snapshot) *snapshot = NULL;
    OWNED(authz_snapshot) *renewed = NULL;
    OWNED(authz_snapshot) *elsewhere = NULL;
    const struct uuid acme = uuid_of(ACME), beta = uuid_of(BETA);
    struct error err = {0};

    trust_issuer(fixture->pg);
    assert_int_equal(bindings_with(fixture->pg, rules), 0); /* nobody knows whose the hash is */
    hold(fixture, "bob");
    assert_int_equal(bindings_with(fixture->pg, rules), 0); /* bob has another hash */
    hold(fixture, "ann");
    assert_int_equal(bindings_with(fixture->pg, NULL), 0); /* a row without a document */
    snapshot = load_with(fixture->pg, rules);
    must(authz_snapshot_renew(fixture->pg, snapshot, &(struct rights_change){&acme, 1, 0}, &renewed, &err), &err);
    must(authz_snapshot_renew(fixture->pg, renewed, &(struct rights_change){&beta, 1, 0}, &elsewhere, &err), &err);
    const struct authz_snapshot *const all[] = {snapshot, renewed, elsewhere};
    for (size_t i = 0; i < COUNT(all); i++) {
        assert_int_equal(may(all[i], ACTION_MANIFEST_READ, "acme/models/x"), AUTHZ_ALLOWED);
        assert_int_equal(may(all[i], ACTION_MANIFEST_PUSH, "acme/models/x"), AUTHZ_NOT_ALLOWED);
        assert_int_equal(may(all[i], ACTION_MANIFEST_READ, "beta/models/x"), AUTHZ_INVISIBLE);
        assert_int_equal(authz_snapshot_ending(all[i], clock_wall_ms(), INT64_MAX), 0); /* nobody is warned of its end */
    }
    const struct resource project = resource_of(RESOURCE_REPOSITORY, "acme/models/x");
    assert_int_equal(authz_snapshot_authorize(snapshot, &ann, ACTION_MANIFEST_READ, &project, clock_wall_ms() + 600001).verdict,
                     AUTHZ_INVISIBLE); /* it ends by itself */
}

static void a_row_with_the_role_gives_nothing(void **state)
{
    struct fixture *fixture = *state;

    trust_issuer(fixture->pg);
    database_execute(
        fixture->database,
        "INSERT INTO binding (binding_id, issuer, subject, role, organisation_id, granted_by, approved_by, expires_at)"
        " VALUES (gen_random_uuid(), 'https://i', 'ann', 'break-glass', '" ACME "', 'one', 'two', now() + interval '1 hour')");
    assert_int_equal(bindings_with(fixture->pg, NULL), 0);
}

/* The organisation or the project of the name was made after the document, which meant a deleted one. */
static void a_glass_of_a_deleted_place_gives_nothing(void **state)
{
    struct fixture *fixture = *state;
    OWNED(trust_rules) *rules = make_glass(1);

    trust_issuer(fixture->pg);
    hold(fixture, "ann");
    assert_int_equal(bindings_with(fixture->pg, rules), 1);
    database_execute(fixture->database, "DELETE FROM project WHERE project_id = '" MODELS "';"
                                        "INSERT INTO project (project_id, organisation_id, name, home_region, born)"
                                        " VALUES ('" MODELS "', '" ACME "', 'models', 'local/main', 100)");
    assert_int_equal(bindings_with(fixture->pg, rules), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_glass_needs_its_document_and_its_holder),
        TEST(a_row_with_the_role_gives_nothing),
        TEST(a_glass_of_a_deleted_place_gives_nothing),
    };

    return cmocka_run_group_tests_name("broken glasses in the database", tests, NULL, NULL);
}
