/*
 * tests/support/token_world.h -- issuers, robots and an authenticator, for tests of tokens.
 */
#pragma once

#include "tests/support/unit.h"

#include <stdio.h>
#include <string.h>

#include "authz/authenticate.h"
#include "authz/challenge.h"
#include "authz/claims.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/text.h"
#include "crypto/digest.h"
#include "crypto/ecdsa.h"
#include "tests/support/hostile_issuer.h"

#define OURS     "https://reg.acme.ae"
#define SERVICE  "sijil"
#define ISSUER_A "https://a.example"
#define ISSUER_B "https://b.example"
#define ROBOT    "11111111-1111-4111-8111-111111111111"
#define OFFICER  "55555555-5555-4555-8555-555555555555"
#define RETIRED  "44444444-4444-4444-8444-444444444444"
#define SECRET   "sijil_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

/* The objects that all rows use; made once, because RSA keys take long. */
static struct world {
    struct hostile_issuer *ours, *a, *b, *rsa, *p384, *ed;
    struct authz_directory *directory;
    struct authenticator *authenticator;
    char our_kid[ECDSA_THUMBPRINT_SIZE];
    int64_t now_s;
} world;

static inline struct authz_robot make_robot(const char *name, const char *id, int64_t expires_ms)
{
    struct authz_robot robot = {.enabled = true, .expires_ms = expires_ms};

    assert_true(uuid_parse(bytes_of_text(id), &robot.id));
    (void)snprintf(robot.name, sizeof robot.name, "%s", name);
    sha256_of(bytes_of_text(SECRET), robot.secret_hash);
    return robot;
}

/* On the whole registry. */
static inline struct authz_binding make_binding(uint8_t number, const char *robot, enum role role, int64_t expires_ms)
{
    struct authz_binding binding = {
        .id = {.bytes = {number}}, .kind = PRINCIPAL_ROBOT, .role = role, .scope = RESOURCE_SYSTEM, .expires_ms = expires_ms};

    assert_true(uuid_parse(bytes_of_text(robot), &binding.robot));
    return binding;
}

static inline struct issuer_record make_issuer(const char *url, unsigned algorithms, const char *jwks)
{
    struct issuer_record record = {
        .algorithms = algorithms, .types = 1U << JWS_TYPE_JWT | 1U << JWS_TYPE_ACCESS, .lifetime_max_s = 3600, .jwks = jwks};

    (void)snprintf(record.url, sizeof record.url, "%s", url);
    (void)snprintf(record.audience, sizeof record.audience, "%s", OURS);
    return record;
}

static inline void publish(const struct authz_parts *parts)
{
    OWNED(authz_snapshot) *snapshot = NULL;
    struct error err = {0};

    assert_true(authz_snapshot_build(parts, &snapshot, &err).ok);
    assert_int_equal(authz_snapshot_bad_issuers(snapshot), 0);
    authz_directory_publish(world.directory, snapshot);
}

static inline void publish_all(void)
{
    OWNED_STRING a = hostile_jwks(world.a, "key-a", "ES256");
    OWNED_STRING b = hostile_jwks(world.b, "key-b", NULL);
    OWNED_STRING rsa = hostile_jwks(world.rsa, "key-r", NULL);
    OWNED_STRING p384 = hostile_jwks(world.p384, "key-3", NULL);
    OWNED_STRING ed = hostile_jwks(world.ed, "key-e", NULL);
    const struct authz_robot robots[] = {
        make_robot("robot$acme+ci", ROBOT, (world.now_s + 86400) * 1000),
        make_robot("robot$old", "22222222-2222-4222-8222-222222222222", (world.now_s - 1) * 1000),
        make_robot("robot$officer", OFFICER, (world.now_s + 86400) * 1000),
        make_robot("robot$retired", RETIRED, (world.now_s + 86400) * 1000)};
    const struct authz_binding bindings[] = {make_binding(1, ROBOT, ROLE_PUBLISHER, 0), make_binding(2, ROBOT, ROLE_CONSUMER, 0),
                                             make_binding(3, OFFICER, ROLE_PUBLISHER, 0),
                                             make_binding(4, OFFICER, ROLE_SECURITY_OFFICER, 0),
                                             make_binding(5, RETIRED, ROLE_REGISTRY_ADMIN, (world.now_s - 1) * 1000)};
    const struct issuer_record issuers[] = {make_issuer(ISSUER_A, 1U << JOSE_ES256, a),
                                            make_issuer(ISSUER_B, 1U << JOSE_ES256, b),
                                            make_issuer("https://rsa.example", 1U << JOSE_RS256 | 1U << JOSE_PS256, rsa),
                                            make_issuer("https://rs.example", 1U << JOSE_RS256, rsa),
                                            make_issuer("https://p384.example", 1U << JOSE_ES384, p384),
                                            make_issuer("https://ed.example", 1U << JOSE_EDDSA, ed)};

    publish(&(struct authz_parts){.robots = robots,
                                  .robot_count = COUNT(robots),
                                  .bindings = bindings,
                                  .binding_count = COUNT(bindings),
                                  .issuers = issuers,
                                  .issuer_count = COUNT(issuers)});
}

static inline int set_up(void **state)
{
    uint8_t point[65];
    struct error err = {0};

    (void)state;
    world.now_s = clock_wall_ms() / 1000;
    world.ours = hostile_issuer_new(HOSTILE_P256);
    world.a = hostile_issuer_new(HOSTILE_P256);
    world.b = hostile_issuer_new(HOSTILE_P256);
    world.rsa = hostile_issuer_new(HOSTILE_RSA);
    world.p384 = hostile_issuer_new(HOSTILE_P384);
    world.ed = hostile_issuer_new(HOSTILE_ED25519);
    hostile_point(world.ours, point);
    ecdsa_thumbprint(point, world.our_kid);
    assert_true(authz_directory_new(&world.directory, &err).ok);
    const struct authenticator_options options = {
        .issuer = OURS, .service = SERVICE, .token_kid = world.our_kid, .token_public = point, .directory = world.directory};
    assert_true(authenticator_new(&options, &world.authenticator, &err).ok);
    publish_all();
    return 0;
}

static inline int tear_down(void **state)
{
    (void)state;
    authenticator_free(world.authenticator);
    authz_directory_free(world.directory);
    hostile_issuer_free(world.ours);
    hostile_issuer_free(world.a);
    hostile_issuer_free(world.b);
    hostile_issuer_free(world.rsa);
    hostile_issuer_free(world.p384);
    hostile_issuer_free(world.ed);
    return 0;
}

/* "@+300" in a payload becomes the time in 300 seconds; "$KID" our key's id. */
static inline char *fill(const char *text)
{
    struct buffer filled = BUFFER(1 << 16);
    struct error err = {0};

    for (; *text != '\0'; text++) {
        if (strncmp(text, "$KID", 4) == 0) {
            assert_true(buffer_add_text(&filled, world.our_kid, &err).ok);
            text += 3;
        } else if (*text == '@') {
            const bool minus = text[1] == '-';
            uint64_t seconds = 0;
            size_t digits = 0;
            for (text += 2; text[digits] >= '0' && text[digits] <= '9'; digits++) continue;
            assert_true(text_to_u64((struct bytes){(const uint8_t *)text, digits}, 1U << 30, &seconds));
            assert_true(
                buffer_format(&filled, &err, "%lld", (long long)(world.now_s + (minus ? -(int64_t)seconds : (int64_t)seconds)))
                    .ok);
            text += digits - 1;
        } else {
            assert_true(buffer_add_u8(&filled, (uint8_t)*text, &err).ok);
        }
    }
    return (char *)filled.data;
}

static inline struct authentication try_credential(struct credential credential)
{
    credential.now_ms = world.now_s * 1000;
    struct authentication authentication = {.error = OAUTH_INVALID_REQUEST};
    struct error err = {0};

    if (!authenticate(world.authenticator, &credential, &authentication, &err).ok) fail_msg("%s", err.message);
    return authentication;
}

static inline struct authentication try_at(enum credential_endpoint endpoint, const char *authorization, const char *thumbprint)
{
    return try_credential((struct credential){.endpoint = endpoint, .authorization = authorization, .thumbprint = thumbprint});
}

static inline struct authentication try_bearer(enum credential_endpoint endpoint, const char *token)
{
    OWNED_STRING header = NULL;

    assert_true(asprintf(&header, "Bearer %s", token) > 0);
    return try_at(endpoint, header, NULL);
}

#define A_HEADER  "{\"alg\":\"ES256\",\"kid\":\"key-a\"}"
#define A_CLAIMS  "\"iss\":\"" ISSUER_A "\",\"sub\":\"ci\",\"aud\":\"" OURS "\""
#define A_PAYLOAD "{" A_CLAIMS ",\"iat\":@-10,\"exp\":@+300}"
#define E_PAYLOAD "{\"iss\":\"https://ed.example\",\"sub\":\"ci\",\"aud\":\"" OURS "\",\"iat\":@-10,\"exp\":@+300}"
#define O_HEADER  "{\"alg\":\"ES256\",\"typ\":\"sijil-reg+jwt\",\"kid\":\"$KID\"}"
#define O_CLAIMS  "\"iss\":\"" OURS "\",\"sub\":\"robot:" ROBOT "\",\"src\":\"robot:" ROBOT "\",\"jti\":\"j\""
#define O_TIMES   "\"aud\":\"" SERVICE "\",\"iat\":@-10,\"nbf\":@-10,\"exp\":@+290"
#define O_PAYLOAD "{" O_CLAIMS "," O_TIMES ",\"access\":[{\"type\":\"repository\",\"name\":\"acme/m/d\",\"actions\":[\"pull\"]}]}"

enum signer { BY_A, BY_B, BY_US, BY_RSA, BY_384, BY_ED };

struct token_row {
    const char *name;
    enum signer signer;
    const char *alg, *header, *payload;
    const char *why; /* part of the description; NULL: accepted */
};

#define GOOD_ROW ((struct token_row){"", BY_A, "ES256", A_HEADER, A_PAYLOAD, NULL})
#define OWN_ROW  ((struct token_row){"", BY_US, "ES256", O_HEADER, O_PAYLOAD, NULL})

static inline char *make_token(const struct token_row *row)
{
    const struct hostile_issuer *const signers[] = {world.a, world.b, world.ours, world.rsa, world.p384, world.ed};
    OWNED_STRING header = fill(row->header);
    OWNED_STRING payload = fill(row->payload);

    return hostile_token(signers[row->signer], row->alg, header, payload);
}
