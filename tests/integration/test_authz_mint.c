/* Tokens that the real sijil-keyd signs, from a principal's rights to a principal again. */
#include "tests/support/unit.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "authz/authenticate.h"
#include "authz/mint.h"
#include "base/clock.h"
#include "base/json.h"
#include "crypto/digest.h"
#include "tests/support/keyd_daemon.h"

#define URL     "https://reg.acme.ae:8443"
#define SERVICE "sijil"
#define ROBOT   "11111111-1111-4111-8111-111111111111"
#define ISSUER  "https://token.actions.example"
#define THUMB   "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

static struct {
    struct keyd_daemon daemon;
    struct keyd_client *client;
    struct authz_directory *directory;
    struct authenticator *authenticator;
} world;

static void publish(void)
{
    static const char jwks[] = "{\"keys\":[{\"kty\":\"EC\",\"crv\":\"P-256\",\"kid\":\"k\","
                               "\"x\":\"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU\","
                               "\"y\":\"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0\"}]}";
    const struct issuer_record issuer = {
        .url = ISSUER, .audience = URL, .algorithms = 1U << JOSE_ES256, .types = 1, .lifetime_max_s = 600, .jwks = jwks};
    struct authz_robot robot = {.name = "robot$acme+ci", .enabled = true, .expires_ms = clock_wall_ms() + 86400000};
    const struct authz_parts parts = {.robots = &robot, .robot_count = 1, .issuers = &issuer, .issuer_count = 1};
    OWNED(authz_snapshot) *snapshot = NULL;
    struct error err = {0};

    assert_true(uuid_parse(bytes_of_text(ROBOT), &robot.id));
    if (!authz_snapshot_build(&parts, &snapshot, &err).ok) fail_msg("%s", err.message);
    authz_directory_publish(world.directory, snapshot);
}

static int set_up(void **state)
{
    struct keyd_identity identity;
    struct error err = {0};

    (void)state;
    keyd_daemon_prepare(&world.daemon, KEYD_DAEMON_ORIGIN);
    keyd_daemon_start(&world.daemon, NULL);
    if (!keyd_client_new(world.daemon.socket, 5000, &world.client, &err).ok || !keyd_identify(world.client, &identity, &err).ok ||
        !authz_directory_new(&world.directory, &err).ok)
        fail_msg("%s", err.message);
    const struct authenticator_options options = {.issuer = URL,
                                                  .service = SERVICE,
                                                  .token_kid = identity.token_kid,
                                                  .token_public = identity.token_public,
                                                  .directory = world.directory};
    if (!authenticator_new(&options, &world.authenticator, &err).ok) fail_msg("%s", err.message);
    publish();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    authenticator_free(world.authenticator);
    authz_directory_free(world.directory);
    keyd_client_free(world.client);
    keyd_daemon_remove(&world.daemon);
    return 0;
}

static struct principal robot_principal(int64_t left_ms)
{
    struct principal principal = {.kind = PRINCIPAL_ROBOT, .source = "robot:" ROBOT, .expires_ms = clock_wall_ms() + left_ms};

    assert_true(uuid_parse(bytes_of_text(ROBOT), &principal.id));
    return principal;
}

static bool mint(const struct mint_request *wanted, json_t **answer_out, struct error *err)
{
    struct buffer OWNED_BUFFER answer = BUFFER(MINT_ANSWER_MAX);
    struct mint_request request = *wanted;

    request.issuer = URL;
    request.service = SERVICE;
    request.now_ms = clock_wall_ms();
    if (!mint_token(world.client, &request, &answer, err).ok) return false;
    assert_true(json_read(buffer_bytes(&answer), MINT_ANSWER_MAX, answer_out, err).ok);
    return true;
}

static struct authentication present(const json_t *answer, enum credential_endpoint endpoint, const char *thumbprint,
                                     int64_t later_ms)
{
    struct buffer OWNED_BUFFER header = BUFFER(16384);
    struct authentication found = {.error = OAUTH_INVALID_REQUEST};
    struct error err = {0};

    assert_true(buffer_format(&header, &err, "Bearer %s", json_text_of(answer, "token")).ok);
    const struct credential credential = {.endpoint = endpoint,
                                          .authorization = buffer_text(&header),
                                          .thumbprint = thumbprint,
                                          .now_ms = clock_wall_ms() + later_ms};
    assert_true(authenticate(world.authenticator, &credential, &found, &err).ok);
    return found;
}

static void a_robot_gets_what_it_may_have(void **state)
{
    const struct principal principal = robot_principal(86400000);
    struct token_scope granted = {
        .count = 2,
        .access = {{.name = "acme/m/digits", .pull = true, .push = true}, {.name = "acme/m/new", .remove = true}},
        .catalog = true};
    const struct mint_request request = {.principal = &principal, .granted = &granted};
    OWNED_JSON answer = NULL;
    int64_t seconds = 0, issued_ms = 0;
    struct error err = {0};

    (void)state;
    granted.access[0].repository = uuid_random();
    if (!mint(&request, &answer, &err)) fail_msg("%s", err.message);
    assert_string_equal(json_text_of(answer, "token"), json_text_of(answer, "access_token"));
    assert_string_equal(json_text_of(answer, "token_type"), "Bearer");
    assert_string_equal(json_text_of(answer, "scope"),
                        "repository:acme/m/digits:pull,push repository:acme/m/new:delete registry:catalog:*");
    assert_true(json_integer_of(answer, "expires_in", &seconds) && seconds == MINT_SECONDS_DEFAULT);
    assert_true(clock_parse(bytes_of_text(json_text_of(answer, "issued_at")), &issued_ms));
    assert_in_range((uint64_t)(clock_wall_ms() - issued_ms), 0, 5000);
    assert_null(json_object_get(answer, "refresh_token"));
    assert_null(json_object_get(answer, "issued_token_type"));

    const struct authentication found = present(answer, CREDENTIAL_AT_ROUTE, NULL, 0);
    if (found.error != OAUTH_NONE) fail_msg("%s", found.description);
    assert_int_equal(found.principal.kind, PRINCIPAL_ROBOT);
    assert_string_equal(found.principal.subject, "robot$acme+ci");
    assert_string_equal(found.principal.source, "robot:" ROBOT);
    assert_true(found.principal.is_limited && found.principal.catalog && !found.principal.administration);
    assert_int_equal(found.principal.access_count, 2);
    assert_true(uuid_equal(&found.principal.access[0].repository, &granted.access[0].repository));
    assert_true(uuid_is_nil(&found.principal.access[1].repository) && found.principal.access[1].remove);

    assert_int_equal(present(answer, CREDENTIAL_AT_TOKEN, NULL, 0).error, OAUTH_INVALID_TOKEN);
    assert_int_equal(present(answer, CREDENTIAL_AT_ROUTE, NULL, 301000).error, OAUTH_INVALID_TOKEN);
}

static void no_rights_are_a_token_too(void **state)
{
    const struct principal principal = robot_principal(86400000);
    const struct token_scope granted = {.count = 1, .access = {{.name = "acme/m/digits"}}};
    const struct mint_request request = {.principal = &principal, .granted = &granted};
    OWNED_JSON answer = NULL;
    struct error err = {0};

    (void)state;
    assert_true(mint(&request, &answer, &err));
    const struct authentication found = present(answer, CREDENTIAL_AT_ROUTE, NULL, 0);
    assert_int_equal(found.error, OAUTH_NONE);
    assert_int_equal(found.principal.access_count, 0);
    assert_true(found.principal.is_limited);
}

static void an_external_subject_gets_one(void **state)
{
    struct principal principal = {
        .kind = PRINCIPAL_EXTERNAL, .issuer = ISSUER, .source = "token:1", .expires_ms = clock_wall_ms() + 60000};
    const struct token_scope granted = {.administration = true};
    const struct mint_request request = {.principal = &principal, .granted = &granted, .is_exchange = true, .lifetime_s = 900};
    OWNED_JSON answer = NULL;
    int64_t seconds = 0;
    struct error err = {0};

    (void)state;
    memset(principal.subject, 's', sizeof principal.subject - 1); /* the longest that claims let through */
    memcpy(principal.subject, "repo:acme/train:ref:refs/heads/main", 35);
    if (!mint(&request, &answer, &err)) fail_msg("%s", err.message);
    assert_true(json_integer_of(answer, "expires_in", &seconds));
    assert_in_range(seconds, 50, 59); /* never past the source's end */
    assert_string_equal(json_text_of(answer, "issued_token_type"), "urn:ietf:params:oauth:token-type:access_token");
    const struct authentication found = present(answer, CREDENTIAL_AT_ROUTE, NULL, 0);
    if (found.error != OAUTH_NONE) fail_msg("%s", found.description);
    assert_int_equal(found.principal.kind, PRINCIPAL_EXTERNAL);
    assert_string_equal(found.principal.issuer, ISSUER);
    assert_string_equal(found.principal.subject, principal.subject);
    assert_true(found.principal.administration);
}

static void lifetimes_are_cut(void **state)
{
    const struct principal soon = robot_principal(1500), later = robot_principal(86400000);
    const struct token_scope granted = {.count = 0};
    struct mint_request request = {.principal = &soon, .granted = &granted};
    OWNED_JSON answer = NULL;
    int64_t seconds = 0;
    struct error err = {0};

    (void)state;
    assert_false(mint(&request, &answer, &err));
    assert_int_equal(err.kind, ERROR_DENIED);
    request.principal = &later;
    request.lifetime_s = 86400;
    assert_true(mint(&request, &answer, &err));
    assert_true(json_integer_of(answer, "expires_in", &seconds) && seconds == 900);
    assert_int_equal(present(answer, CREDENTIAL_AT_ROUTE, NULL, 0).error, OAUTH_NONE);
}

static void a_token_may_be_bound_to_a_certificate(void **state)
{
    const struct principal principal = robot_principal(86400000);
    const struct token_scope granted = {.count = 0};
    const struct mint_request request = {.principal = &principal, .granted = &granted, .thumbprint = THUMB};
    OWNED_JSON answer = NULL;
    struct error err = {0};

    (void)state;
    assert_true(mint(&request, &answer, &err));
    assert_int_equal(present(answer, CREDENTIAL_AT_ROUTE, NULL, 0).error, OAUTH_INVALID_TOKEN);
    const struct authentication found = present(answer, CREDENTIAL_AT_ROUTE, THUMB, 0);
    assert_int_equal(found.error, OAUTH_NONE);
    assert_string_equal(found.principal.confirmation, THUMB);
}

static void sixteen_long_names_fit(void **state)
{
    const struct principal principal = robot_principal(86400000);
    struct token_scope granted = {.count = PRINCIPAL_ACCESS_MAX, .catalog = true, .administration = true};
    const struct mint_request request = {.principal = &principal, .granted = &granted};
    OWNED_JSON answer = NULL;
    struct error err = {0};

    (void)state;
    for (size_t i = 0; i < granted.count; i++) {
        memset(granted.access[i].name, 'a' + (int)i, RESOURCE_NAME_MAX);
        granted.access[i].repository = uuid_random();
        granted.access[i].pull = granted.access[i].push = granted.access[i].remove = true;
    }
    if (!mint(&request, &answer, &err)) fail_msg("%s", err.message);
    const struct authentication found = present(answer, CREDENTIAL_AT_ROUTE, NULL, 0);
    if (found.error != OAUTH_NONE) fail_msg("%s", found.description);
    assert_int_equal(found.principal.access_count, PRINCIPAL_ACCESS_MAX);
}

static void a_dead_keyd_makes_none(void **state)
{
    const struct principal principal = robot_principal(86400000);
    const struct token_scope granted = {.count = 0};
    const struct mint_request request = {.principal = &principal, .granted = &granted};
    OWNED_JSON answer = NULL;
    struct error err = {0};

    (void)state;
    (void)keyd_daemon_end(&world.daemon, SIGKILL);
    assert_false(mint(&request, &answer, &err));
    assert_int_equal(err.kind, ERROR_UNAVAILABLE);
    assert_null(answer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_robot_gets_what_it_may_have),
        cmocka_unit_test(no_rights_are_a_token_too),
        cmocka_unit_test(an_external_subject_gets_one),
        cmocka_unit_test(lifetimes_are_cut),
        cmocka_unit_test(a_token_may_be_bound_to_a_certificate),
        cmocka_unit_test(sixteen_long_names_fit),
        cmocka_unit_test(a_dead_keyd_makes_none), /* the last: keyd stays dead */
    };

    return cmocka_run_group_tests_name("mint", tests, set_up, tear_down);
}
