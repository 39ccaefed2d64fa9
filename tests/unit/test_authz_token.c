/* Tokens of strangers: each has the error that its row names, and the process lives. */
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
#define SECRET   "sijil_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

/* Everything that the rows are tried against; made once, because RSA keys take long. */
static struct {
    struct hostile_issuer *ours, *a, *b, *rsa, *p384;
    struct authz_directory *directory;
    struct authenticator *authenticator;
    char our_kid[ECDSA_THUMBPRINT_SIZE];
    int64_t now_s;
} world;

static struct authz_robot make_robot(const char *name, const char *id, int64_t expires_ms)
{
    struct authz_robot robot = {.enabled = true, .expires_ms = expires_ms};

    assert_true(uuid_parse(bytes_of_text(id), &robot.id));
    (void)snprintf(robot.name, sizeof robot.name, "%s", name);
    sha256_of(bytes_of_text(SECRET), robot.secret_hash);
    return robot;
}

static struct issuer_record make_issuer(const char *url, unsigned algorithms, const char *jwks)
{
    struct issuer_record record = {.algorithms = algorithms,
                                   .types = 1U << GATE_TYPE_JWT | 1U << GATE_TYPE_ACCESS,
                                   .lifetime_max_s = 3600,
                                   .jwks = jwks};

    (void)snprintf(record.url, sizeof record.url, "%s", url);
    (void)snprintf(record.audience, sizeof record.audience, "%s", OURS);
    return record;
}

static void publish(const struct authz_parts *parts)
{
    OWNED(authz_snapshot) *snapshot = NULL;
    struct error err = {0};

    assert_true(authz_snapshot_build(parts, &snapshot, &err).ok);
    assert_int_equal(authz_snapshot_bad_issuers(snapshot), 0);
    authz_directory_publish(world.directory, snapshot);
}

static void publish_all(void)
{
    OWNED_STRING a = hostile_jwks(world.a, "key-a", "ES256");
    OWNED_STRING b = hostile_jwks(world.b, "key-b", NULL);
    OWNED_STRING rsa = hostile_jwks(world.rsa, "key-r", NULL);
    OWNED_STRING p384 = hostile_jwks(world.p384, "key-3", NULL);
    const struct authz_robot robots[] = {
        make_robot("robot$acme+ci", ROBOT, (world.now_s + 86400) * 1000),
        make_robot("robot$old", "22222222-2222-4222-8222-222222222222", (world.now_s - 1) * 1000)};
    const struct issuer_record issuers[] = {
        make_issuer(ISSUER_A, 1U << JOSE_ES256, a), make_issuer(ISSUER_B, 1U << JOSE_ES256, b),
        make_issuer("https://rsa.example", 1U << JOSE_RS256 | 1U << JOSE_PS256, rsa),
        make_issuer("https://rs.example", 1U << JOSE_RS256, rsa),
        make_issuer("https://p384.example", 1U << JOSE_ES384, p384)};

    publish(&(struct authz_parts){.robots = robots, .robot_count = COUNT(robots), .issuers = issuers,
                                  .issuer_count = COUNT(issuers)});
}

static int set_up(void **state)
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
    hostile_point(world.ours, point);
    ecdsa_thumbprint(point, world.our_kid);
    assert_true(authz_directory_new(&world.directory, &err).ok);
    const struct authenticator_options options = {.issuer = OURS, .service = SERVICE, .token_kid = world.our_kid,
                                                  .token_public = point, .directory = world.directory};
    assert_true(authenticator_new(&options, &world.authenticator, &err).ok);
    publish_all();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    authenticator_free(world.authenticator);
    authz_directory_free(world.directory);
    hostile_issuer_free(world.ours);
    hostile_issuer_free(world.a);
    hostile_issuer_free(world.b);
    hostile_issuer_free(world.rsa);
    hostile_issuer_free(world.p384);
    return 0;
}

/* "@+300" in a payload becomes the time in 300 seconds; "$KID" our key's id. */
static char *fill(const char *text)
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
            assert_true(buffer_format(&filled, &err, "%lld",
                                      (long long)(world.now_s + (minus ? -(int64_t)seconds : (int64_t)seconds))).ok);
            text += digits - 1;
        } else {
            assert_true(buffer_add_u8(&filled, (uint8_t)*text, &err).ok);
        }
    }
    return (char *)filled.data;
}

static struct authentication try_at(enum credential_place place, const char *authorization, const char *thumbprint)
{
    const struct credential credential = {
        .place = place, .authorization = authorization, .thumbprint = thumbprint, .now_ms = world.now_s * 1000};
    struct authentication authentication = {.error = OAUTH_INVALID_REQUEST};
    struct error err = {0};

    if (!authenticate(world.authenticator, &credential, &authentication, &err).ok) fail_msg("%s", err.message);
    return authentication;
}

static struct authentication try_bearer(enum credential_place place, const char *token)
{
    OWNED_STRING header = NULL;

    assert_true(asprintf(&header, "Bearer %s", token) > 0);
    return try_at(place, header, NULL);
}

#define A_HEADER "{\"alg\":\"ES256\",\"kid\":\"key-a\"}"
#define A_CLAIMS "\"iss\":\"" ISSUER_A "\",\"sub\":\"ci\",\"aud\":\"" OURS "\""
#define A_PAYLOAD "{" A_CLAIMS ",\"iat\":@-10,\"exp\":@+300}"
#define O_HEADER "{\"alg\":\"ES256\",\"typ\":\"sijil-reg+jwt\",\"kid\":\"$KID\"}"
#define O_CLAIMS "\"iss\":\"" OURS "\",\"sub\":\"robot:" ROBOT "\",\"src\":\"robot:" ROBOT "\",\"jti\":\"j\""
#define O_TIMES  "\"aud\":\"" SERVICE "\",\"iat\":@-10,\"nbf\":@-10,\"exp\":@+290"
#define O_PAYLOAD "{" O_CLAIMS "," O_TIMES ",\"access\":[{\"type\":\"repository\",\"name\":\"acme/m/d\",\"actions\":[\"pull\"]}]}"

enum signer { BY_A, BY_B, BY_US, BY_RSA, BY_384 };

static const struct token_row {
    const char *name;
    enum signer signer;
    const char *alg, *header, *payload;
    const char *why; /* part of the description; NULL: accepted */
} token_rows[] = {
    {"issuer A's token", BY_A, "ES256", A_HEADER, A_PAYLOAD, NULL},
    {"aud as a list of one", BY_A, "ES256", A_HEADER,
     "{\"iss\":\"" ISSUER_A "\",\"sub\":\"ci\",\"aud\":[\"" OURS "\"],\"iat\":@-10,\"exp\":@+300}", NULL},
    {"typ JWT", BY_A, "ES256", "{\"alg\":\"ES256\",\"typ\":\"jwt\",\"kid\":\"key-a\"}", A_PAYLOAD, NULL},
    {"typ at+jwt", BY_A, "ES256", "{\"alg\":\"ES256\",\"typ\":\"at+jwt\",\"kid\":\"key-a\"}", A_PAYLOAD, NULL},
    {"a clock a minute ahead", BY_A, "ES256", A_HEADER, "{" A_CLAIMS ",\"iat\":@+50,\"nbf\":@+50,\"exp\":@+300}", NULL},
    {"RS256", BY_RSA, "RS256", "{\"alg\":\"RS256\",\"kid\":\"key-r\"}",
     "{\"iss\":\"https://rsa.example\",\"sub\":\"ci\",\"aud\":\"" OURS "\",\"iat\":@-10,\"exp\":@+300}", NULL},
    {"PS256", BY_RSA, "PS256", "{\"alg\":\"PS256\",\"kid\":\"key-r\"}",
     "{\"iss\":\"https://rsa.example\",\"sub\":\"ci\",\"aud\":\"" OURS "\",\"iat\":@-10,\"exp\":@+300}", NULL},
    {"ES384", BY_384, "ES384", "{\"alg\":\"ES384\",\"kid\":\"key-3\"}",
     "{\"iss\":\"https://p384.example\",\"sub\":\"ci\",\"aud\":\"" OURS "\",\"iat\":@-10,\"exp\":@+300}", NULL},
    {"a token of ours", BY_US, "ES256", O_HEADER, O_PAYLOAD, NULL},

    {"alg none", BY_A, "ES256", "{\"alg\":\"none\",\"kid\":\"key-a\"}", A_PAYLOAD, "alg is not one of"},
    {"HS256 with the public key", BY_A, "HS256", "{\"alg\":\"HS256\",\"kid\":\"key-a\"}", A_PAYLOAD, "alg is not one of"},
    {"HS256 that says ES256", BY_A, "HS256", A_HEADER, A_PAYLOAD, "does not fit ES256"},
    {"alg as a number", BY_A, "ES256", "{\"alg\":256,\"kid\":\"key-a\"}", A_PAYLOAD, "alg is not one of"},
    {"alg in small letters", BY_A, "ES256", "{\"alg\":\"es256\",\"kid\":\"key-a\"}", A_PAYLOAD, "alg is not one of"},
    {"no alg", BY_A, "ES256", "{\"kid\":\"key-a\"}", A_PAYLOAD, "alg is not one of"},
    {"PS256 where only RS256 is accepted", BY_RSA, "PS256", "{\"alg\":\"PS256\",\"kid\":\"key-r\"}",
     "{\"iss\":\"https://rs.example\",\"sub\":\"ci\",\"aud\":\"" OURS "\",\"iat\":@-10,\"exp\":@+300}",
     "alg is not accepted from its issuer"},
    {"ES384 to an issuer of ES256", BY_384, "ES384", "{\"alg\":\"ES384\",\"kid\":\"key-a\"}", A_PAYLOAD,
     "alg is not accepted from its issuer"},
    {"ES256 with the wrong curve", BY_384, "ES384", "{\"alg\":\"ES256\",\"kid\":\"key-a\"}", A_PAYLOAD,
     "96 bytes does not fit ES256"},
    {"RS256 with ES256's name", BY_RSA, "RS256", A_HEADER, A_PAYLOAD, "256 bytes does not fit ES256"},
    {"signed by another", BY_B, "ES256", A_HEADER, A_PAYLOAD, "signature is not its issuer's"},
    {"issuer A's token in B's name", BY_A, "ES256", "{\"alg\":\"ES256\",\"kid\":\"key-b\"}",
     "{\"iss\":\"" ISSUER_B "\",\"sub\":\"ci\",\"aud\":\"" OURS "\",\"iat\":@-10,\"exp\":@+300}",
     "signature is not its issuer's"},
    {"B's key for A", BY_B, "ES256", "{\"alg\":\"ES256\",\"kid\":\"key-b\"}", A_PAYLOAD, "kid names no key"},
    {"an unknown kid", BY_A, "ES256", "{\"alg\":\"ES256\",\"kid\":\"key-z\"}", A_PAYLOAD, "kid names no key"},
    {"no kid", BY_A, "ES256", "{\"alg\":\"ES256\"}", A_PAYLOAD, "kid is not a plain text"},
    {"an empty kid", BY_A, "ES256", "{\"alg\":\"ES256\",\"kid\":\"\"}", A_PAYLOAD, "kid is not a plain text"},
    {"kid as a path", BY_A, "ES256", "{\"alg\":\"ES256\",\"kid\":\"../../dev/null\"}", A_PAYLOAD, "kid names no key"},
    {"kid as SQL", BY_A, "ES256", "{\"alg\":\"ES256\",\"kid\":\"' OR 1=1 --\"}", A_PAYLOAD, "kid is not a plain text"},
    {"kid as a list", BY_A, "ES256", "{\"alg\":\"ES256\",\"kid\":[\"key-a\"]}", A_PAYLOAD, "kid is not a plain text"},
    {"crit", BY_A, "ES256", "{\"alg\":\"ES256\",\"kid\":\"key-a\",\"crit\":[\"exp\"]}", A_PAYLOAD, "member crit"},
    {"crit that is null", BY_A, "ES256", "{\"alg\":\"ES256\",\"kid\":\"key-a\",\"crit\":null}", A_PAYLOAD, "member crit"},
    {"its own key", BY_B, "ES256", "{\"alg\":\"ES256\",\"kid\":\"key-a\",\"jwk\":{}}", A_PAYLOAD, "member jwk"},
    {"its own key's address", BY_B, "ES256", "{\"alg\":\"ES256\",\"kid\":\"key-a\",\"jku\":\"https://x\"}", A_PAYLOAD,
     "member jku"},
    {"a foreign typ", BY_A, "ES256", "{\"alg\":\"ES256\",\"kid\":\"key-a\",\"typ\":\"dpop+jwt\"}", A_PAYLOAD, "typ is not"},
    {"an issuer that says it is us", BY_A, "ES256", "{\"alg\":\"ES256\",\"kid\":\"key-a\",\"typ\":\"sijil-reg+jwt\"}",
     A_PAYLOAD, "typ is not accepted from its issuer"},
    {"ours with the typ of others", BY_US, "ES256", "{\"alg\":\"ES256\",\"kid\":\"$KID\"}", O_PAYLOAD,
     "typ is not accepted from its issuer"},
    {"duplicate alg", BY_A, "ES256", "{\"alg\":\"none\",\"alg\":\"ES256\",\"kid\":\"key-a\"}", A_PAYLOAD, "header is not plain JSON"},
    {"duplicate aud", BY_A, "ES256", A_HEADER,
     "{" A_CLAIMS ",\"aud\":\"" OURS "\",\"iat\":@-10,\"exp\":@+300}", "payload is not plain JSON"},
    {"a header that is a list", BY_A, "ES256", "[]", A_PAYLOAD, "header is not a JSON object"},
    {"a payload that is a number", BY_A, "ES256", A_HEADER, "1", "payload is not a JSON object"},
    {"a payload that is no JSON", BY_A, "ES256", A_HEADER, "hello", "payload is not plain JSON"},
    {"a number beyond all", BY_A, "ES256", A_HEADER, "{" A_CLAIMS ",\"iat\":@-10,\"exp\":99999999999999999999}",
     "payload is not plain JSON"},
    {"a number near the end of int64", BY_A, "ES256", A_HEADER, "{" A_CLAIMS ",\"iat\":@-10,\"exp\":9223372036854775807}",
     "exp is missing or no whole number"},
    {"negative exp", BY_A, "ES256", A_HEADER, "{" A_CLAIMS ",\"iat\":@-10,\"exp\":-1}", "signature is not its issuer's, or it has expired"},
    {"exp as a text", BY_A, "ES256", A_HEADER, "{" A_CLAIMS ",\"iat\":@-10,\"exp\":\"@+300\"}", "expired"},
    {"exp with a fraction", BY_A, "ES256", A_HEADER, "{" A_CLAIMS ",\"iat\":@-10,\"exp\":@+300.5}", "exp"},
    {"no exp", BY_A, "ES256", A_HEADER, "{" A_CLAIMS ",\"iat\":@-10}", "expired"},
    {"no iat", BY_A, "ES256", A_HEADER, "{" A_CLAIMS ",\"exp\":@+300}", "expired"},
    {"expired", BY_A, "ES256", A_HEADER, "{" A_CLAIMS ",\"iat\":@-400,\"exp\":@-100}", "expired"},
    {"issued in the future", BY_A, "ES256", A_HEADER, "{" A_CLAIMS ",\"iat\":@+120,\"exp\":@+300}", "expired"},
    {"not valid yet", BY_A, "ES256", A_HEADER, "{" A_CLAIMS ",\"nbf\":@+120,\"iat\":@-10,\"exp\":@+300}", "not valid yet"},
    {"nbf as a text", BY_A, "ES256", A_HEADER, "{" A_CLAIMS ",\"nbf\":\"0\",\"iat\":@-10,\"exp\":@+300}", "nbf is no whole"},
    {"lives too long", BY_A, "ES256", A_HEADER, "{" A_CLAIMS ",\"iat\":@-10,\"exp\":@+3600}", "at most 3600"},
    {"ends before it began", BY_A, "ES256", A_HEADER, "{" A_CLAIMS ",\"iat\":@+30,\"exp\":@+20}", "at most 3600"},
    {"no aud", BY_A, "ES256", A_HEADER, "{\"iss\":\"" ISSUER_A "\",\"sub\":\"ci\",\"iat\":@-10,\"exp\":@+300}", "aud must be"},
    {"another's aud", BY_A, "ES256", A_HEADER,
     "{\"iss\":\"" ISSUER_A "\",\"sub\":\"ci\",\"aud\":\"https://other\",\"iat\":@-10,\"exp\":@+300}", "aud must be"},
    {"an aud list without us", BY_A, "ES256", A_HEADER,
     "{\"iss\":\"" ISSUER_A "\",\"sub\":\"ci\",\"aud\":[\"https://other\"],\"iat\":@-10,\"exp\":@+300}", "aud must be"},
    {"an aud beside ours", BY_A, "ES256", A_HEADER,
     "{\"iss\":\"" ISSUER_A "\",\"sub\":\"ci\",\"aud\":[\"" OURS "\",\"https://other\"],\"iat\":@-10,\"exp\":@+300}", "aud must be"},
    {"our aud twice", BY_A, "ES256", A_HEADER,
     "{\"iss\":\"" ISSUER_A "\",\"sub\":\"ci\",\"aud\":[\"" OURS "\",\"" OURS "\"],\"iat\":@-10,\"exp\":@+300}", "aud must be"},
    {"an aud that begins like ours", BY_A, "ES256", A_HEADER,
     "{\"iss\":\"" ISSUER_A "\",\"sub\":\"ci\",\"aud\":\"" OURS ".evil\",\"iat\":@-10,\"exp\":@+300}", "aud must be"},
    {"no sub", BY_A, "ES256", A_HEADER, "{\"iss\":\"" ISSUER_A "\",\"aud\":\"" OURS "\",\"iat\":@-10,\"exp\":@+300}", "sub is missing"},
    {"a sub with a line break", BY_A, "ES256", A_HEADER,
     "{\"iss\":\"" ISSUER_A "\",\"sub\":\"a\\nb\",\"aud\":\"" OURS "\",\"iat\":@-10,\"exp\":@+300}", "sub is missing"},
    {"jti as a number", BY_A, "ES256", A_HEADER, "{" A_CLAIMS ",\"jti\":1,\"iat\":@-10,\"exp\":@+300}", "jti is no plain"},
    {"no iss", BY_A, "ES256", A_HEADER, "{\"sub\":\"ci\",\"aud\":\"" OURS "\",\"iat\":@-10,\"exp\":@+300}", "names no issuer"},
    {"an unknown iss", BY_A, "ES256", A_HEADER, "{\"iss\":\"https://z.example\",\"sub\":\"ci\",\"aud\":\"" OURS "\",\"iat\":@-10,\"exp\":@+300}",
     "issuer is not trusted"},
    {"an iss with a final slash", BY_A, "ES256", A_HEADER, "{\"iss\":\"" ISSUER_A "/\",\"sub\":\"ci\",\"aud\":\"" OURS "\",\"iat\":@-10,\"exp\":@+300}",
     "issuer is not trusted"},
    {"bound to a certificate", BY_A, "ES256", A_HEADER,
     "{" A_CLAIMS ",\"iat\":@-10,\"exp\":@+300,\"cnf\":{\"x5t#S256\":\"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\"}}",
     "certificate that was not presented"},
    {"bound to a DPoP key", BY_A, "ES256", A_HEADER, "{" A_CLAIMS ",\"iat\":@-10,\"exp\":@+300,\"cnf\":{\"jkt\":\"x\"}}",
     "not known here"},
    {"cnf that is no object", BY_A, "ES256", A_HEADER, "{" A_CLAIMS ",\"iat\":@-10,\"exp\":@+300,\"cnf\":true}", "not known here"},

    {"ours without jti", BY_US, "ES256", O_HEADER,
     "{\"iss\":\"" OURS "\",\"sub\":\"robot:" ROBOT "\",\"src\":\"x\"," O_TIMES "}", "no jti"},
    {"ours for 901 seconds", BY_US, "ES256", O_HEADER,
     "{" O_CLAIMS ",\"aud\":\"" SERVICE "\",\"iat\":@-10,\"exp\":@+891}", "at most 900"},
    {"ours without a source", BY_US, "ES256", O_HEADER,
     "{\"iss\":\"" OURS "\",\"sub\":\"robot:" ROBOT "\",\"jti\":\"j\"," O_TIMES "}", "rights are malformed"},
    {"ours with an unknown action", BY_US, "ES256", O_HEADER,
     "{" O_CLAIMS "," O_TIMES ",\"access\":[{\"type\":\"repository\",\"name\":\"a\",\"actions\":[\"own\"]}]}", "rights are malformed"},
    {"ours with catalog as a text", BY_US, "ES256", O_HEADER, "{" O_CLAIMS "," O_TIMES ",\"catalog\":\"yes\"}", "rights are malformed"},
    {"ours for a robot that is gone", BY_US, "ES256", O_HEADER,
     "{\"iss\":\"" OURS "\",\"sub\":\"robot:33333333-3333-4333-8333-333333333333\",\"src\":\"x\",\"jti\":\"j\"," O_TIMES "}", "revoked"},
    {"ours for a robot that expired", BY_US, "ES256", O_HEADER,
     "{\"iss\":\"" OURS "\",\"sub\":\"robot:22222222-2222-4222-8222-222222222222\",\"src\":\"x\",\"jti\":\"j\"," O_TIMES "}", "revoked"},
    {"ours for nobody", BY_US, "ES256", O_HEADER, "{\"iss\":\"" OURS "\",\"sub\":\"root\",\"src\":\"x\",\"jti\":\"j\"," O_TIMES "}",
     "sub is malformed"},
    {"ours for an issuer that is gone", BY_US, "ES256", O_HEADER,
     "{\"iss\":\"" OURS "\",\"sub\":\"ext:00000000000000000000000000000000:ci\",\"src\":\"x\",\"jti\":\"j\"," O_TIMES "}",
     "not trusted any more"},
    {"ours, signed by A", BY_A, "ES256", O_HEADER, O_PAYLOAD, "signature is not its issuer's"},
};

static char *make_token(const struct token_row *row)
{
    const struct hostile_issuer *const signers[] = {world.a, world.b, world.ours, world.rsa, world.p384};
    OWNED_STRING header = fill(row->header);
    OWNED_STRING payload = fill(row->payload);

    return hostile_token(signers[row->signer], row->alg, header, payload);
}

static void judges_tokens(void **state)
{
    const struct token_row *row = *state;
    OWNED_STRING token = make_token(row);

    for (int again = 0; again < 2; again++) { /* the second time the signature may come from the cache */
        const struct authentication found = try_bearer(CREDENTIAL_AT_ROUTE, token);
        if (row->why == NULL) {
            if (found.error != OAUTH_NONE) fail_msg("%s", found.description);
            assert_int_not_equal(found.principal.kind, PRINCIPAL_NONE);
            continue;
        }
        assert_int_equal(found.error, OAUTH_INVALID_TOKEN);
        assert_int_equal(found.principal.kind, PRINCIPAL_NONE);
        if (strstr(found.description, row->why) == NULL) fail_msg("%s", found.description);
    }
}

/* Spellings: what is done to a good token, or a text of its own. */
static const struct spelling_row {
    const char *name;
    const char *text;   /* NULL: the good token, with */
    const char *append; /* this after it */
    const char *why;
} spelling_rows[] = {
    {"as it is", NULL, "", NULL},
    {"an = at the end", NULL, "=", "signature is not base64url"},
    {"two = at the end", NULL, "==", "signature is not base64url"},
    {"one letter more", NULL, "A", "signature"},
    {"four letters more", NULL, "AAAA", "does not fit ES256"},
    {"a fourth segment", NULL, ".AAAA", "three segments"},
    {"an empty fourth segment", NULL, ".", "three segments"},
    {"a blank at the end", NULL, " ", "signature is not base64url"},
    {"what aborts cjose 0.6.2.1", "eyJhbGciOiJFUzI1NiJ9.AAAAA===.AAAA", "", "kid is not a plain text"},
    {"the same with a kid", "eyJhbGciOiJFUzI1NiIsImtpZCI6ImtleS1hIn0.AAAAA===.AAAA", "", "does not fit ES256"},
    {"standard letters", "eyJhbGciOiJFUzI1NiIsImtpZCI6ImtleS1hIn0.e+/9.AAAA", "", "does not fit ES256"},
    {"set pad bits", "eyJhbGciOiJFUzI1NiIsImtpZCI6ImtleS1hIn1.e30.AAAA", "", "header is not base64url"},
    {"one segment", "AAAA", "", "three segments"},
    {"two segments", "AAAA.AAAA", "", "three segments"},
    {"only dots", "..", "", "three segments"},
    {"an empty signature", "eyJhbGciOiJFUzI1NiIsImtpZCI6ImtleS1hIn0.e30.", "", "three segments"},
    {"an address of keys", "https://a.example/jwks", "", "three segments"},
};

static void judges_spellings(void **state)
{
    const struct spelling_row *row = *state;
    OWNED_STRING good = make_token(&token_rows[0]);
    OWNED_STRING token = NULL;

    assert_true(asprintf(&token, "%s%s", row->text == NULL ? good : row->text, row->append) > 0);
    const struct authentication found = try_bearer(CREDENTIAL_AT_ROUTE, token);
    assert_int_equal(found.error, row->why == NULL ? OAUTH_NONE : OAUTH_INVALID_TOKEN);
    if (row->why != NULL && strstr(found.description, row->why) == NULL) fail_msg("%s", found.description);
}

/* Each change of the last letter that stands for pad bits makes another spelling of the same signature. */
static void no_other_spelling_of_a_signature_passes(void **state)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    OWNED_STRING token = make_token(&token_rows[0]);
    const size_t last = strlen(token) - 1;
    const char right = token[last];

    (void)state;
    for (const char *letter = letters; *letter != '\0'; letter++) {
        token[last] = *letter;
        const struct authentication found = try_bearer(CREDENTIAL_AT_ROUTE, token);
        assert_int_equal(found.error == OAUTH_NONE, *letter == right);
    }
}

static void size_is_bounded(void **state)
{
    static char text[GATE_TOKEN_MAX + 2];

    (void)state;
    memset(text, 'A', GATE_TOKEN_MAX + 1);
    text[100] = text[200] = '.';
    struct authentication found = try_bearer(CREDENTIAL_AT_ROUTE, text);
    assert_int_equal(found.error, OAUTH_INVALID_TOKEN);
    assert_non_null(strstr(found.description, "at most 16384"));
    text[GATE_TOKEN_MAX] = '\0';
    found = try_bearer(CREDENTIAL_AT_ROUTE, text);
    assert_int_equal(found.error, OAUTH_INVALID_TOKEN);
    assert_non_null(strstr(found.description, "header is not"));
}

static void deep_nesting_is_refused(void **state)
{
    static uint8_t brackets[11000];
    struct gate_token token;
    struct error err = {0};
    OWNED_STRING text = NULL;

    (void)state;
    memset(brackets, '[', sizeof brackets);
    OWNED_STRING inner = hostile_encode((struct bytes){brackets, sizeof brackets});
    assert_true(asprintf(&text, "%s.%s.AAAA", inner, "e30") > 0);
    assert_false(gate_open(bytes_of_text(text), &token, &err).ok);
    assert_int_equal(err.kind, ERROR_INVALID);

    /* 300,000 of them are beyond the size of a token. */
    OWNED_STRING many = malloc(300001);
    assert_non_null(many);
    memset(many, '[', 300000);
    many[300000] = '\0';
    OWNED_STRING encoded = hostile_encode(bytes_of_text(many));
    OWNED_STRING large = NULL;
    assert_true(asprintf(&large, "%s.e30.AAAA", encoded) > 0);
    assert_false(gate_open(bytes_of_text(large), &token, &err).ok);
    assert_int_equal(err.kind, ERROR_LIMIT);
}

static void a_token_becomes_a_principal(void **state)
{
    OWNED_STRING token = make_token(&token_rows[0]);
    OWNED_STRING own = make_token(&token_rows[8]);

    (void)state;
    struct authentication found = try_bearer(CREDENTIAL_AT_ROUTE, token);
    assert_int_equal(found.principal.kind, PRINCIPAL_EXTERNAL);
    assert_string_equal(found.principal.issuer, ISSUER_A);
    assert_string_equal(found.principal.subject, "ci");
    assert_false(found.principal.is_limited);
    assert_int_equal(found.principal.expires_ms, (world.now_s + 300) * 1000);
    assert_int_equal(strlen(found.principal.source), 70);

    found = try_bearer(CREDENTIAL_AT_ROUTE, own);
    assert_int_equal(found.principal.kind, PRINCIPAL_ROBOT);
    assert_string_equal(found.principal.subject, "robot$acme+ci");
    assert_string_equal(found.principal.source, "robot:" ROBOT);
    assert_true(found.principal.is_limited);
    assert_int_equal(found.principal.access_count, 1);
    assert_string_equal(found.principal.access[0].name, "acme/m/d");
    assert_true(found.principal.access[0].pull && !found.principal.access[0].push);
    assert_false(found.principal.catalog || found.principal.administration);
}

static void a_bound_token_works_with_its_certificate_only(void **state)
{
    static const char thumbprint[] = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    const struct token_row row = {
        "", BY_A, "ES256", A_HEADER,
        "{" A_CLAIMS ",\"iat\":@-10,\"exp\":@+300,\"cnf\":{\"x5t#S256\":\"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\"}}", NULL};
    OWNED_STRING token = make_token(&row);
    OWNED_STRING header = NULL;

    (void)state;
    assert_true(asprintf(&header, "Bearer %s", token) > 0);
    const struct authentication found = try_at(CREDENTIAL_AT_ROUTE, header, thumbprint);
    assert_int_equal(found.error, OAUTH_NONE);
    assert_string_equal(found.principal.confirmation, thumbprint);
    assert_int_equal(try_at(CREDENTIAL_AT_ROUTE, header, "BAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA").error,
                     OAUTH_INVALID_TOKEN);
    assert_int_equal(try_at(CREDENTIAL_AT_ROUTE, header, NULL).error, OAUTH_INVALID_TOKEN);
}

static void a_session_outlives_its_token(void **state)
{
    const struct token_row late = {"", BY_US, "ES256", O_HEADER,
                                   "{" O_CLAIMS ",\"aud\":\"" SERVICE "\",\"iat\":@-700,\"exp\":@-100}", NULL};
    const struct token_row too_late = {"", BY_US, "ES256", O_HEADER,
                                       "{" O_CLAIMS ",\"aud\":\"" SERVICE "\",\"iat\":@-87000,\"exp\":@-86500}", NULL};
    const struct token_row forged = {"", BY_A, "ES256", O_HEADER,
                                     "{" O_CLAIMS ",\"aud\":\"" SERVICE "\",\"iat\":@-700,\"exp\":@-100}", NULL};
    const struct token_row others = {"", BY_A, "ES256", A_HEADER, "{" A_CLAIMS ",\"iat\":@-700,\"exp\":@-100}", NULL};
    OWNED_STRING token = make_token(&late);
    OWNED_STRING old = make_token(&too_late);
    OWNED_STRING bad = make_token(&forged);
    OWNED_STRING external = make_token(&others);

    (void)state;
    assert_int_equal(try_bearer(CREDENTIAL_AT_SESSION, token).error, OAUTH_NONE);
    assert_int_equal(try_bearer(CREDENTIAL_AT_ROUTE, token).error, OAUTH_INVALID_TOKEN);
    assert_int_equal(try_bearer(CREDENTIAL_AT_SESSION, old).error, OAUTH_INVALID_TOKEN);
    assert_int_equal(try_bearer(CREDENTIAL_AT_SESSION, bad).error, OAUTH_INVALID_TOKEN);
    assert_int_equal(try_bearer(CREDENTIAL_AT_SESSION, external).error, OAUTH_INVALID_TOKEN);
}

/* Encoded at run time, so that rows say what they mean. */
static const struct basic_row {
    const char *name;
    enum credential_place place;
    const char *scheme, *credentials; /* credentials NULL: `scheme` is the whole header */
    enum oauth_error error;
} basic_rows[] = {
    {"a robot's secret at /token", CREDENTIAL_AT_TOKEN, "Basic", "robot$acme+ci:" SECRET, OAUTH_NONE},
    {"the scheme in small letters", CREDENTIAL_AT_TOKEN, "basic", "robot$acme+ci:" SECRET, OAUTH_NONE},
    {"a robot's secret elsewhere", CREDENTIAL_AT_ROUTE, "Basic", "robot$acme+ci:" SECRET, OAUTH_INVALID_TOKEN},
    {"a wrong secret", CREDENTIAL_AT_TOKEN, "Basic", "robot$acme+ci:sijil_x", OAUTH_INVALID_CLIENT},
    {"an unknown robot", CREDENTIAL_AT_TOKEN, "Basic", "robot$nobody:" SECRET, OAUTH_INVALID_CLIENT},
    {"a robot that expired", CREDENTIAL_AT_TOKEN, "Basic", "robot$old:" SECRET, OAUTH_INVALID_CLIENT},
    {"a user's password", CREDENTIAL_AT_TOKEN, "Basic", "alice:" SECRET, OAUTH_INVALID_CLIENT},
    {"no password", CREDENTIAL_AT_TOKEN, "Basic", "robot$acme+ci:", OAUTH_INVALID_REQUEST},
    {"no name", CREDENTIAL_AT_TOKEN, "Basic", ":" SECRET, OAUTH_INVALID_REQUEST},
    {"no colon", CREDENTIAL_AT_TOKEN, "Basic", "robot", OAUTH_INVALID_REQUEST},
    {"a token that is none", CREDENTIAL_AT_TOKEN, "Basic", "oidc:hello", OAUTH_INVALID_CLIENT},
    {"not base64", CREDENTIAL_AT_TOKEN, "Basic !!!!", NULL, OAUTH_INVALID_REQUEST},
    {"base64 without padding", CREDENTIAL_AT_TOKEN, "Basic YTpiYw", NULL, OAUTH_INVALID_REQUEST},
    {"nothing after Basic", CREDENTIAL_AT_TOKEN, "Basic ", NULL, OAUTH_INVALID_REQUEST},
    {"nothing after Bearer", CREDENTIAL_AT_ROUTE, "Bearer    ", NULL, OAUTH_INVALID_REQUEST},
    {"another scheme", CREDENTIAL_AT_ROUTE, "Digest username=x", NULL, OAUTH_INVALID_REQUEST},
    {"an empty header", CREDENTIAL_AT_ROUTE, "", NULL, OAUTH_INVALID_REQUEST},
};

static void reads_basic(void **state)
{
    const struct basic_row *row = *state;
    struct buffer OWNED_BUFFER header = BUFFER(4096);
    struct error err = {0};

    assert_true(buffer_format(&header, &err, "%s%s", row->scheme, row->credentials == NULL ? "" : " ").ok);
    if (row->credentials != NULL)
        assert_true(text_base64(&header, BASE64_STANDARD, bytes_of_text(row->credentials), &err).ok);
    const struct authentication found = try_at(row->place, buffer_text(&header), NULL);
    assert_int_equal(found.error, row->error);
    if (row->error != OAUTH_NONE) {
        assert_null(strstr(found.description, SECRET));
        return;
    }
    assert_int_equal(found.principal.kind, PRINCIPAL_ROBOT);
    assert_false(found.principal.is_limited);
    assert_string_equal(found.principal.source, "robot:" ROBOT);
}

static void a_token_may_be_a_password(void **state)
{
    static const char *const names[] = {"oidc", "oauth2accesstoken", "<token>"};
    OWNED_STRING token = make_token(&token_rows[0]);
    OWNED_STRING own = make_token(&token_rows[8]);

    (void)state;
    for (size_t i = 0; i < COUNT(names) * 2; i++) {
        struct buffer OWNED_BUFFER header = BUFFER(8192), pair = BUFFER(8192);
        struct error err = {0};
        const bool is_own = i >= COUNT(names);
        assert_true(buffer_format(&pair, &err, "%s:%s", names[i % COUNT(names)], is_own ? own : token).ok);
        assert_true(buffer_add_text(&header, "Basic ", &err).ok);
        assert_true(text_base64(&header, BASE64_STANDARD, buffer_bytes(&pair), &err).ok);
        const struct authentication found = try_at(CREDENTIAL_AT_TOKEN, buffer_text(&header), NULL);
        assert_int_equal(found.error, is_own ? OAUTH_INVALID_CLIENT : OAUTH_NONE);
        buffer_done(&header);
        buffer_done(&pair);
    }
    const struct credential credential = {.place = CREDENTIAL_AT_TOKEN, .now_ms = world.now_s * 1000};
    struct authentication found;
    struct error err = {0};
    assert_true(authenticate_token(world.authenticator, &credential, bytes_of_text(token), &found, &err).ok);
    assert_int_equal(found.error, OAUTH_NONE);
    assert_true(authenticate_token(world.authenticator, &credential, bytes_of_text(own), &found, &err).ok);
    assert_int_equal(found.error, OAUTH_INVALID_GRANT);
}

static void no_credential_is_no_error(void **state)
{
    (void)state;
    const struct authentication found = try_at(CREDENTIAL_AT_ROUTE, NULL, NULL);
    assert_int_equal(found.error, OAUTH_NONE);
    assert_int_equal(found.principal.kind, PRINCIPAL_NONE);
}

static void only_signatures_are_cached(void **state)
{
    OWNED_STRING token = make_token(&token_rows[0]);
    uint64_t verified = 0, cached = 0, verified_again = 0, cached_again = 0;

    (void)state;
    authenticator_counts(world.authenticator, &verified, &cached);
    assert_int_equal(try_bearer(CREDENTIAL_AT_ROUTE, token).error, OAUTH_NONE);
    assert_int_equal(try_bearer(CREDENTIAL_AT_ROUTE, token).error, OAUTH_NONE);
    authenticator_counts(world.authenticator, &verified_again, &cached_again);
    assert_int_equal(verified_again, verified + 1);
    assert_int_equal(cached_again, cached + 1);

    /* Time goes on: the claims are judged again. */
    OWNED_STRING header = NULL;
    assert_true(asprintf(&header, "Bearer %s", token) > 0);
    const struct credential later = {
        .place = CREDENTIAL_AT_ROUTE, .authorization = header, .now_ms = (world.now_s + 300) * 1000};
    struct authentication found;
    struct error err = {0};
    assert_true(authenticate(world.authenticator, &later, &found, &err).ok);
    assert_int_equal(found.error, OAUTH_INVALID_TOKEN);

    /* The issuer is not trusted any more: its tokens end at once, and ours that were made from them. */
    publish(&(struct authz_parts){.robot_count = 0});
    assert_int_equal(try_bearer(CREDENTIAL_AT_ROUTE, token).error, OAUTH_INVALID_TOKEN);
    OWNED_STRING own = make_token(&token_rows[8]);
    assert_int_equal(try_bearer(CREDENTIAL_AT_ROUTE, own).error, OAUTH_INVALID_TOKEN);
    publish_all();
    assert_int_equal(try_bearer(CREDENTIAL_AT_ROUTE, own).error, OAUTH_NONE);

    /* Another key under the same kid: what was cached under the old one does not count. */
    OWNED_STRING other = hostile_jwks(world.b, "key-a", NULL);
    const struct issuer_record record = make_issuer(ISSUER_A, 1U << JOSE_ES256, other);
    publish(&(struct authz_parts){.issuers = &record, .issuer_count = 1});
    assert_int_equal(try_bearer(CREDENTIAL_AT_ROUTE, token).error, OAUTH_INVALID_TOKEN);
    publish_all();
}

static void keys_are_replaced_as_a_whole(void **state)
{
    OWNED_STRING first = hostile_jwks(world.a, "key-a", NULL);
    OWNED_STRING second = hostile_jwks(world.b, "key-b", NULL);
    OWNED_STRING text = make_token(&token_rows[0]);
    const struct issuer_record record = make_issuer(ISSUER_A, 1U << JOSE_ES256, first);
    struct gate_token OWNED_GATE_TOKEN token = {0};
    OWNED(issuer) *issuer = NULL;
    struct error err = {0};

    (void)state;
    assert_true(issuer_new(&record, &issuer, &err).ok);
    assert_true(gate_open(bytes_of_text(text), &token, &err).ok);
    assert_true(issuer_verify(issuer, &token, &err).ok);
    assert_false(issuer_replace_keys(issuer, "{\"keys\":[]}", &err).ok);
    assert_true(issuer_verify(issuer, &token, &err).ok);
    assert_true(issuer_replace_keys(issuer, second, &err).ok);
    assert_false(issuer_verify(issuer, &token, &err).ok);
    assert_int_equal(err.kind, ERROR_DENIED);
    assert_int_equal(issuer_key_serial(issuer, &token), 0);
}

static void authenticating_survives_lack_of_memory(void **state)
{
    const struct token_row row = {"", BY_A, "ES256", A_HEADER, A_PAYLOAD, NULL};

    (void)state;
    for (unsigned long nth = 1;; nth++) {
        OWNED_STRING token = make_token(&row); /* a fresh signature each time: never from the cache */
        OWNED_STRING header = NULL;
        assert_true(asprintf(&header, "Bearer %s", token) > 0);
        const struct credential credential = {
            .place = CREDENTIAL_AT_ROUTE, .authorization = header, .now_ms = world.now_s * 1000};
        struct authentication found = {.error = OAUTH_INVALID_REQUEST};
        struct error err = {0};
        fault_arm(nth);
        const bool ok = authenticate(world.authenticator, &credential, &found, &err).ok;
        if (!fault_has_fired()) {
            assert_true(ok && found.error == OAUTH_NONE);
            break;
        }
        assert_false(ok);
        assert_int_equal(err.kind, ERROR_NO_MEMORY);
        assert_int_equal(found.error, OAUTH_INVALID_REQUEST);
    }
    fault_arm(0);
}

static void making_issuers_survives_lack_of_memory(void **state)
{
    OWNED_STRING jwks = hostile_jwks(world.a, "key-a", NULL);
    const struct issuer_record record = make_issuer(ISSUER_A, 1U << JOSE_ES256, jwks);
    const struct authz_parts parts = {.issuers = &record, .issuer_count = 1};

    (void)state;
    for (unsigned long nth = 1;; nth++) {
        OWNED(authz_snapshot) *snapshot = NULL;
        struct error err = {0};
        fault_arm(nth);
        const bool ok = authz_snapshot_build(&parts, &snapshot, &err).ok;
        if (!fault_has_fired()) {
            assert_true(ok);
            break;
        }
        assert_false(ok);
        assert_int_equal(err.kind, ERROR_NO_MEMORY);
        assert_null(snapshot);
    }
    fault_arm(0);
}

int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(no_other_spelling_of_a_signature_passes),
        cmocka_unit_test(size_is_bounded),
        cmocka_unit_test(deep_nesting_is_refused),
        cmocka_unit_test(a_token_becomes_a_principal),
        cmocka_unit_test(a_bound_token_works_with_its_certificate_only),
        cmocka_unit_test(a_session_outlives_its_token),
        cmocka_unit_test(a_token_may_be_a_password),
        cmocka_unit_test(no_credential_is_no_error),
        cmocka_unit_test(only_signatures_are_cached),
        cmocka_unit_test(keys_are_replaced_as_a_whole),
        cmocka_unit_test(authenticating_survives_lack_of_memory),
        cmocka_unit_test(making_issuers_survives_lack_of_memory),
    };

    (void)set_up(NULL);
    const int failed = RUN_TABLE(token_rows, judges_tokens) + RUN_TABLE(spelling_rows, judges_spellings) +
                       RUN_TABLE(basic_rows, reads_basic) + cmocka_run_group_tests_name("others", others, NULL, NULL);
    (void)tear_down(NULL);
    return failed;
}
