/* Roles for some hours and the database: what waits gives nothing, what is granted is what was asked for, once, and ends with its hours. */
#include "authz/elevation.h"

#include "authz/snapshot_load.h"
#include "tests/integration/authz_fixture.h"

#include "base/clock.h"

#define HOUR_MS INT64_C(3600000)

static const struct principal ann = {.kind = PRINCIPAL_EXTERNAL, .issuer = "https://i", .subject = "ann"};
static const struct principal bob = {.kind = PRINCIPAL_EXTERNAL, .issuer = "https://i", .subject = "bob"};

static bool ask(struct pg *pg, const struct principal *person, const char *on, struct uuid *id_out, struct error *err)
{
    struct elevation_request request = {.person = person, .role = "publisher", .reason = "a test", .hours = 2};
    struct resource scope = resource_of(RESOURCE_PROJECT, on);

    (void)snprintf(scope.detail, sizeof scope.detail, "%s", request.role);
    elevation_request_init(&request, &scope);
    *id_out = request.id;
    return run(pg, &request.change, ACTION_ELEVATION_REQUEST, &scope, err);
}

static bool grant_for(struct pg *pg, const struct uuid *id, const struct authz_binding *of, int64_t hours, struct error *err)
{
    struct authz_binding wanted = *of;
    struct resource scope = resource_of(RESOURCE_PROJECT, "acme/models");
    struct elevation_grant change;

    authz_grant_detail(&wanted, scope.detail);
    elevation_grant_init(&change, id, &wanted, hours);
    (void)snprintf(change.create.binding.granted_by, sizeof change.create.binding.granted_by, "system");
    return run(pg, &change.change, ACTION_BINDING_CREATE, &scope, err);
}

static bool grant(struct pg *pg, const struct uuid *id, const struct principal *person, enum role role, struct error *err)
{
    struct authz_binding wanted = {.kind = PRINCIPAL_EXTERNAL, .role = role};

    memcpy(wanted.issuer, person->issuer, sizeof wanted.issuer);
    memcpy(wanted.subject, person->subject, sizeof wanted.subject);
    return grant_for(pg, id, &wanted, 2, err);
}

static bool end_by(struct pg *pg, const struct uuid *id, const char *on, const struct elevation_end *how, struct error *err)
{
    struct resource scope = resource_of(RESOURCE_PROJECT, on);
    struct elevation_end change;

    uuid_format(id, scope.detail);
    elevation_end_init(&change, id, how->by);
    change.role = how->role;
    change.is_of_others = how->is_of_others;
    return run(pg, &change.change, ACTION_ELEVATION_END, &scope, err);
}

static bool end(struct pg *pg, const struct uuid *id, const char *on, struct error *err)
{
    return end_by(pg, id, on, &(struct elevation_end){.by = &ann, .role = "publisher"}, err);
}

static enum authz_verdict may_push(struct pg *pg, int64_t later_ms)
{
    const struct resource resource = resource_of(RESOURCE_REPOSITORY, "acme/models/x");
    OWNED(authz_snapshot) *snapshot = load(pg);

    return authz_snapshot_authorize(snapshot, &ann, ACTION_MANIFEST_PUSH, &resource, clock_wall_ms() + later_ms).verdict;
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

static void what_is_granted_is_what_was_asked_for(void **state)
{
    struct fixture *fixture = *state;
    struct pg *pg = fixture->pg;
    struct uuid id, other;
    struct error err = {0};

    trust_issuer(pg);
    assert_true(ask(pg, &ann, "acme/models", &id, &err));
    assert_int_equal(may_push(pg, 0), AUTHZ_INVISIBLE);
    assert_false(grant(pg, &id, &bob, ROLE_PUBLISHER, &err));
    assert_int_equal(err.kind, ERROR_CONFLICT);
    assert_false(grant(pg, &id, &ann, ROLE_TRAINER, &err));
    assert_int_equal(err.kind, ERROR_CONFLICT);
    other = uuid_random();
    assert_false(grant(pg, &other, &ann, ROLE_PUBLISHER, &err));
    assert_int_equal(err.kind, ERROR_CONFLICT);
    /* Who writes into the database makes more hours of it: they are not those that were granted. */
    database_execute(fixture->database, "UPDATE elevation SET hours = 72");
    assert_false(grant(pg, &id, &ann, ROLE_PUBLISHER, &err));
    assert_int_equal(err.kind, ERROR_CONFLICT);
    database_execute(fixture->database, "UPDATE elevation SET hours = 2");
    assert_true(grant(pg, &id, &ann, ROLE_PUBLISHER, &err));
    assert_int_equal(may_push(pg, 0), AUTHZ_ALLOWED);
    assert_int_equal(may_push(pg, 2 * HOUR_MS - 60000), AUTHZ_ALLOWED);
    assert_int_not_equal(may_push(pg, 2 * HOUR_MS + 60000), AUTHZ_ALLOWED); /* by the gateway's clock */
    assert_false(grant(pg, &id, &ann, ROLE_PUBLISHER, &err));
    assert_int_equal(err.kind, ERROR_CONFLICT);
}

static void an_end_is_final_and_on_its_scope(void **state)
{
    struct fixture *fixture = *state;
    struct pg *pg = fixture->pg;
    struct uuid granted, waiting, late;
    struct error err = {0};

    trust_issuer(pg);
    assert_true(ask(pg, &ann, "acme/models", &granted, &err) && grant(pg, &granted, &ann, ROLE_PUBLISHER, &err));
    assert_false(end(pg, &granted, "acme", &err));
    assert_int_equal(err.kind, ERROR_NOT_FOUND);
    assert_false(end_by(pg, &granted, "acme/models", &(struct elevation_end){.by = &bob, .role = "publisher"}, &err));
    assert_int_equal(err.kind, ERROR_NOT_FOUND); /* another's */
    assert_false(
        end_by(pg, &granted, "acme/models", &(struct elevation_end){.by = &bob, .role = "consumer", .is_of_others = true}, &err));
    assert_int_equal(err.kind, ERROR_NOT_FOUND); /* who may grant another role only */
    assert_int_equal(may_push(pg, 0), AUTHZ_ALLOWED);
    assert_true(end(pg, &granted, "acme/models", &err));
    assert_int_equal(may_push(pg, 0), AUTHZ_INVISIBLE);
    assert_false(end(pg, &granted, "acme/models", &err));
    assert_int_equal(err.kind, ERROR_NOT_FOUND);
    assert_true(ask(pg, &ann, "acme/models", &waiting, &err));
    assert_true(end_by(pg, &waiting, "acme/models",
                       &(struct elevation_end){.by = &bob, .role = "publisher", .is_of_others = true}, &err));
    assert_false(grant(pg, &waiting, &ann, ROLE_PUBLISHER, &err));
    assert_true(ask(pg, &ann, "acme/models", &late, &err));
    database_execute(fixture->database, "UPDATE elevation SET waits_until = now() - interval '1 s'");
    assert_false(grant(pg, &late, &ann, ROLE_PUBLISHER, &err));
    assert_int_equal(err.kind, ERROR_CONFLICT);
}

static void requests_are_bounded_and_swept(void **state)
{
    struct fixture *fixture = *state;
    struct uuid id;
    struct error err = {0};

    for (unsigned i = 0; i < ELEVATIONS_WAITING_MAX; i++) assert_true(ask(fixture->pg, &ann, "acme/models", &id, &err));
    const struct uuid last = id;
    assert_false(ask(fixture->pg, &ann, "acme/models", &id, &err));
    assert_int_equal(err.kind, ERROR_LIMIT);
    assert_true(end(fixture->pg, &last, "acme/models", &err)); /* what has ended waits no more */
    assert_true(ask(fixture->pg, &ann, "acme/models", &id, &err));
    assert_true(grant(fixture->pg, &id, &ann, ROLE_PUBLISHER, &err));
    assert_true(ask(fixture->pg, &ann, "acme/models", &id, &err));
    assert_false(ask(fixture->pg, &ann, "acme/models", &id, &err));
    assert_int_equal(err.kind, ERROR_LIMIT);
    assert_true(ask(fixture->pg, &bob, "acme/models", &id, &err));
    database_execute(fixture->database, "UPDATE elevation SET waits_until = now() - interval '91 days'");
    assert_true(ask(fixture->pg, &ann, "acme/models", &id, &err));
    assert_string_equal(database_ask(fixture->database, "SELECT count(*) FROM elevation"), "1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_is_granted_is_what_was_asked_for),
        TEST(an_end_is_final_and_on_its_scope),
        TEST(requests_are_bounded_and_swept),
    };

    return cmocka_run_group_tests_name("roles for some hours", tests, NULL, NULL);
}
