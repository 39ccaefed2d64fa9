/* Scopes, challenges, key sets. */
#include "tests/support/unit.h"

#include <stdio.h>
#include <string.h>

#include "authz/authenticate.h"
#include "authz/challenge.h"
#include "authz/jwk.h"
#include "base/fault.h"
#include "base/json.h"
#include "crypto/ecdsa.h"
#include "crypto/key_proof.h"

static const struct scope_row {
    const char *name, *text;
    const char *again; /* what token_scope_write() makes of it */
    enum error_kind kind;
} scope_rows[] = {
    {"pull", "repository:acme/m/d:pull", "repository:acme/m/d:pull", ERROR_NONE},
    {"all in our order", "repository:a:delete,push,pull", "repository:a:pull,push,delete", ERROR_NONE},
    {"push alone", "repository:a:push", "repository:a:push", ERROR_NONE},
    {"delete alone", "repository:a:delete", "repository:a:delete", ERROR_NONE},
    {"pull and delete", "repository:a:pull,delete", "repository:a:pull,delete", ERROR_NONE},
    {"a star", "repository:a:*", "repository:a:pull,push,delete", ERROR_NONE},
    {"a port in the name", "repository:localhost:5000/a/b:pull,push", "repository:localhost:5000/a/b:pull,push", ERROR_NONE},
    {"two of them", "repository:a:pull repository:b:push", "repository:a:pull repository:b:push", ERROR_NONE},
    {"the same twice", "repository:a:pull repository:a:push", "repository:a:pull,push", ERROR_NONE},
    {"unknown actions are ignored", "repository:a:pull,own,,pull", "repository:a:pull", ERROR_NONE},
    {"unknown types are ignored", "repository(plugin):a:pull aws:x:y offline_access", "", ERROR_NONE},
    {"no actions", "repository:a:", "repository:a:", ERROR_NONE},
    {"no name", "repository::pull", "", ERROR_NONE},
    {"no colon", "repository", "", ERROR_NONE},
    {"one colon", "repository:pull", "", ERROR_NONE},
    {"the catalog", "registry:catalog:*", "registry:catalog:*", ERROR_NONE},
    {"the API", "registry:admin:*", "registry:admin:*", ERROR_NONE},
    {"all kinds", "registry:admin:* repository:a:pull registry:catalog:*",
     "repository:a:pull registry:catalog:* registry:admin:*", ERROR_NONE},
    {"blanks around", "  repository:a:pull  ", "repository:a:pull", ERROR_NONE},
    {"nothing", "", "", ERROR_NONE},
    {"a quote", "repository:a\":pull", NULL, ERROR_INVALID},
    {"a backslash", "repository:a\\:pull", NULL, ERROR_INVALID},
    {"a line break", "repository:a:pull\r\nX: y", NULL, ERROR_INVALID},
    {"another alphabet", "repository:\xd8\xb3:pull", NULL, ERROR_INVALID},
    {"sixteen",
     "repository:0:pull repository:1:pull repository:2:pull repository:3:pull repository:4:pull "
     "repository:5:pull repository:6:pull repository:7:pull repository:8:pull repository:9:pull "
     "repository:a:pull repository:b:pull repository:c:pull repository:d:pull repository:e:pull repository:f:pull",
     "repository:0:pull repository:1:pull repository:2:pull repository:3:pull repository:4:pull "
     "repository:5:pull repository:6:pull repository:7:pull repository:8:pull repository:9:pull "
     "repository:a:pull repository:b:pull repository:c:pull repository:d:pull repository:e:pull repository:f:pull",
     ERROR_NONE},
    {"seventeen",
     "repository:0:pull repository:1:pull repository:2:pull repository:3:pull repository:4:pull "
     "repository:5:pull repository:6:pull repository:7:pull repository:8:pull repository:9:pull "
     "repository:a:pull repository:b:pull repository:c:pull repository:d:pull repository:e:pull repository:f:pull "
     "repository:g:pull",
     NULL, ERROR_LIMIT},
};

static void reads_scopes(void **state)
{
    const struct scope_row *row = *state;
    struct buffer OWNED_BUFFER text = BUFFER(8192);
    struct token_scope scope = {.count = 0};
    struct error err = {0};

    const bool ok = token_scope_add(&scope, bytes_of_text(row->text), &err).ok;
    assert_int_equal(err.kind, row->kind);
    assert_int_equal(ok, row->kind == ERROR_NONE);
    if (!ok) return;
    assert_true(token_scope_write(&scope, &text, &err).ok);
    assert_string_equal(buffer_text(&text), row->again);
}

static void long_scopes_are_bounded(void **state)
{
    static char text[TOKEN_SCOPE_MAX + 1], name[300];
    struct token_scope scope = {.count = 0};
    struct error err = {0};

    (void)state;
    memset(text, 'a', sizeof text);
    assert_false(token_scope_add(&scope, (struct bytes){(uint8_t *)text, sizeof text}, &err).ok);
    assert_int_equal(err.kind, ERROR_LIMIT);
    assert_true(token_scope_add(&scope, (struct bytes){(uint8_t *)text, TOKEN_SCOPE_MAX}, &err).ok);
    (void)snprintf(name, sizeof name, "repository:%.256s:pull", text);
    assert_true(token_scope_add(&scope, bytes_of_text(name), &err).ok);
    assert_int_equal(scope.count, 0); /* a name of 256 can't exist */
    (void)snprintf(name, sizeof name, "repository:%.255s:pull", text);
    assert_true(token_scope_add(&scope, bytes_of_text(name), &err).ok);
    assert_int_equal(scope.count, 1);
}

static void fewer_rights_than_asked(void **state)
{
    struct token_scope scope = {.count = 0};
    const struct principal_access live = {.repository = {{1}}, .pull = true, .remove = true}, none = {.pull = false};
    struct error err = {0};

    (void)state;
    assert_true(token_scope_add(&scope, bytes_of_text("repository:a:pull repository:b:pull,push repository:c:push"), &err).ok);
    token_scope_narrow(&scope.access[0], &none);
    token_scope_narrow(&scope.access[1], &live);
    token_scope_narrow(&scope.access[2], &live);
    token_scope_compact(&scope);
    assert_int_equal(scope.count, 1);
    assert_string_equal(scope.access[0].name, "b");
    assert_true(scope.access[0].pull && !scope.access[0].push && !scope.access[0].remove);
    assert_int_equal(scope.access[0].repository.bytes[0], 1);
}

static const struct challenge_row {
    const char *name;
    enum action actions[2];
    const char *names[2];
    enum oauth_error error;
    const char *value;
} challenge_rows[] = {
    {"a ping", {ACTION_PING, ACTION_COUNT}, {"", NULL}, OAUTH_NONE, ""},
    {"a pull", {ACTION_BLOB_READ, ACTION_COUNT}, {"acme/m/d", NULL}, OAUTH_NONE, ",scope=\"repository:acme/m/d:pull\""},
    {"a push", {ACTION_UPLOAD_BEGIN, ACTION_COUNT}, {"acme/m/d", NULL}, OAUTH_NONE, ",scope=\"repository:acme/m/d:pull,push\""},
    {"a deletion", {ACTION_TAG_DELETE, ACTION_COUNT}, {"acme/m/d", NULL}, OAUTH_NONE, ",scope=\"repository:acme/m/d:delete\""},
    {"a mount",
     {ACTION_BLOB_MOUNT, ACTION_BLOB_READ},
     {"acme/m/d", "acme/m/e"},
     OAUTH_NONE,
     ",scope=\"repository:acme/m/d:pull,push repository:acme/m/e:pull\""},
    {"the catalog", {ACTION_CATALOG_LIST, ACTION_COUNT}, {"", NULL}, OAUTH_NONE, ",scope=\"registry:catalog:*\""},
    {"the API", {ACTION_ROBOT_CREATE, ACTION_COUNT}, {"acme", NULL}, OAUTH_NONE, ",scope=\"registry:admin:*\""},
    {"too little",
     {ACTION_BLOB_READ, ACTION_COUNT},
     {"acme/m/d", NULL},
     OAUTH_INSUFFICIENT_SCOPE,
     ",scope=\"repository:acme/m/d:pull\",error=\"insufficient_scope\",error_description=\"why\""},
    {"a name that would break out",
     {ACTION_BLOB_READ, ACTION_COUNT},
     {"a\",error=\"x", NULL},
     OAUTH_INVALID_TOKEN,
     ",error=\"invalid_token\",error_description=\"why\""},
};

static struct authenticator *authenticator;

static void challenges(void **state)
{
    const struct challenge_row *row = *state;
    struct buffer OWNED_BUFFER value = BUFFER(CHALLENGE_MAX);
    struct action_pair pairs[2] = {{.action = row->actions[0]}, {.action = row->actions[1]}};
    const size_t count = row->actions[1] == ACTION_COUNT ? 1 : 2;
    struct authentication authentication = {.error = row->error, .description = "why"};
    struct token_scope scope;
    struct error err = {0};

    for (size_t i = 0; i < count; i++) (void)snprintf(pairs[i].resource.name, sizeof pairs[i].resource.name, "%s", row->names[i]);
    token_scope_of_pairs(pairs, count, &scope);
    const struct challenge challenge = {
        "https://reg.acme.ae", authenticator_service(authenticator), &scope, &authentication, NULL, false};
    assert_true(challenge_write(&challenge, &value, &err).ok);
    assert_memory_equal(buffer_text(&value), "Bearer realm=\"https://reg.acme.ae/token\",service=\"sijil\"", 56);
    assert_string_equal(buffer_text(&value) + 56, row->value);
}

#define POINT "\"x\":\"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU\",\"y\":\"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0\""
#define MODULUS                                                                                                    \
    "0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4"   \
    "n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zg" \
    "dAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCu" \
    "r-kEgU8awapJzKnqDKgw"

static const struct jwk_row {
    const char *name, *key;
    unsigned algorithms; /* 0: not usable */
    size_t signature_size;
} jwk_rows[] = {
    {"P-256", "{\"kty\":\"EC\",\"crv\":\"P-256\",\"kid\":\"k\"," POINT "}", 1U << JOSE_ES256, 64},
    {"Ed25519 (RFC 8037, A.2)",
     "{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"kid\":\"k\",\"x\":\"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo\"}",
     1U << JOSE_EDDSA, 64},
    {"Ed25519 that is too short",
     "{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"kid\":\"k\",\"x\":\"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHUQ\"}", 0, 0},
    {"Ed448", "{\"kty\":\"OKP\",\"crv\":\"Ed448\",\"kid\":\"k\",\"x\":\"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo\"}", 0, 0},
    {"X25519", "{\"kty\":\"OKP\",\"crv\":\"X25519\",\"kid\":\"k\",\"x\":\"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo\"}", 0, 0},
    {"P-256 for ES256", "{\"kty\":\"EC\",\"crv\":\"P-256\",\"kid\":\"k\",\"alg\":\"ES256\",\"use\":\"sig\"," POINT "}",
     1U << JOSE_ES256, 64},
    {"P-256 for verifying", "{\"kty\":\"EC\",\"crv\":\"P-256\",\"kid\":\"k\",\"key_ops\":[\"verify\"]," POINT "}",
     1U << JOSE_ES256, 64},
    {"RSA (RFC 7517, A.1)", "{\"kty\":\"RSA\",\"kid\":\"k\",\"e\":\"AQAB\",\"n\":\"" MODULUS "\"}",
     1U << JOSE_RS256 | 1U << JOSE_PS256, 256},
    {"RSA for PS256", "{\"kty\":\"RSA\",\"kid\":\"k\",\"alg\":\"PS256\",\"e\":\"AQAB\",\"n\":\"" MODULUS "\"}", 1U << JOSE_PS256,
     256},
    {"for encryption", "{\"kty\":\"EC\",\"crv\":\"P-256\",\"kid\":\"k\",\"use\":\"enc\"," POINT "}", 0, 0},
    {"for signing only", "{\"kty\":\"EC\",\"crv\":\"P-256\",\"kid\":\"k\",\"key_ops\":[\"sign\"]," POINT "}", 0, 0},
    {"for another algorithm", "{\"kty\":\"EC\",\"crv\":\"P-256\",\"kid\":\"k\",\"alg\":\"ES512\"," POINT "}", 0, 0},
    {"for RSA's algorithm", "{\"kty\":\"EC\",\"crv\":\"P-256\",\"kid\":\"k\",\"alg\":\"RS256\"," POINT "}", 0, 0},
    {"no kid", "{\"kty\":\"EC\",\"crv\":\"P-256\"," POINT "}", 0, 0},
    {"a kid with a quote", "{\"kty\":\"EC\",\"crv\":\"P-256\",\"kid\":\"a\\\"b\"," POINT "}", 0, 0},
    {"a curve that is not taken", "{\"kty\":\"EC\",\"crv\":\"secp256k1\",\"kid\":\"k\"," POINT "}", 0, 0},
    {"a short coordinate", "{\"kty\":\"EC\",\"crv\":\"P-256\",\"kid\":\"k\",\"x\":\"AAAA\",\"y\":\"AAAA\"}", 0, 0},
    {"the point of another curve's size", "{\"kty\":\"EC\",\"crv\":\"P-384\",\"kid\":\"k\"," POINT "}", 0, 0},
    {"a shared secret", "{\"kty\":\"oct\",\"kid\":\"k\",\"k\":\"AAAA\"}", 0, 0},
    {"Ed25519", "{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"kid\":\"k\",\"x\":\"AAAA\"}", 0, 0},
    {"a small RSA key", "{\"kty\":\"RSA\",\"kid\":\"k\",\"e\":\"AQAB\",\"n\":\"AQAB\"}", 0, 0},
    {"the exponent 3", "{\"kty\":\"RSA\",\"kid\":\"k\",\"e\":\"Aw\",\"n\":\"" MODULUS "\"}", 0, 0},
    {"a modulus with padding", "{\"kty\":\"RSA\",\"kid\":\"k\",\"e\":\"AQAB\",\"n\":\"" MODULUS "==\"}", 0, 0},
    {"not an object", "[]", 0, 0},
    {"numbers for texts", "{\"kty\":1,\"kid\":2,\"crv\":3,\"x\":4,\"y\":5}", 0, 0},
};

static void knows_public_keys(void **state)
{
    static const struct {
        const char *key;
        bool is_public;
    } rows[] = {
        {"{\"kty\":\"RSA\",\"n\":\"AA\",\"e\":\"AQAB\",\"kid\":\"d\"}", true},
        {"{\"kty\":\"RSA\",\"n\":\"AA\",\"e\":\"AQAB\",\"d\":\"AA\"}", false},
        {"{\"kty\":\"RSA\",\"n\":\"AA\",\"e\":\"AQAB\",\"qi\":\"AA\"}", false},
        {"{\"kty\":\"RSA\",\"n\":\"AA\",\"e\":\"AQAB\",\"oth\":[]}", false},
        {"{\"kty\":\"oct\",\"k\":\"AA\"}", false},
        {"{\"kty\":\"EC\",\"d\":null}", false},
        {"[]", true},
    };
    struct error err = {0};

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        OWNED_JSON key = NULL;
        assert_true(json_read(bytes_of_text(rows[i].key), 4096, &key, &err).ok);
        assert_int_equal(jwk_is_public(key), rows[i].is_public);
    }
}

static void reads_keys(void **state)
{
    const struct jwk_row *row = *state;
    OWNED_JSON key = NULL;
    struct jwk jwk;
    struct error err = {0};

    assert_true(json_read(bytes_of_text(row->key), 4096, &key, &err).ok);
    assert_true(jwk_read(key, &jwk, &err).ok);
    assert_int_equal(jwk.is_usable, row->algorithms != 0);
    if (!jwk.is_usable) return;
    assert_int_equal(jwk.algorithms, row->algorithms);
    assert_int_equal(jwk.signature_size, row->signature_size);
    OWNED_JSON again = NULL;
    struct buffer OWNED_BUFFER canonical = BUFFER(4096);
    assert_true(json_read(bytes_of_text(jwk.text), 4096, &again, &err).ok);
    assert_true(json_write_canonical(&canonical, again, &err).ok);
    assert_string_equal(buffer_text(&canonical), jwk.text);
}

static const struct issuer_row {
    const char *name, *url, *jwks;
    unsigned lifetime_s;
    enum error_kind kind;
    const char *said; /* NULL: not checked */
} issuer_rows[] = {
    {"one key", "https://i", "{\"keys\":[{\"kty\":\"EC\",\"crv\":\"P-256\",\"kid\":\"k\"," POINT "}]}", 60, ERROR_NONE, NULL},
    {"one that is not usable beside it", "https://i",
     "{\"keys\":[{\"kty\":\"oct\",\"k\":\"AA\",\"kid\":\"k\"},{\"kty\":\"EC\",\"crv\":\"P-256\",\"kid\":\"k\"," POINT "}]}", 60,
     ERROR_NONE, NULL},
    {"the same kid twice", "https://i",
     "{\"keys\":[{\"kty\":\"EC\",\"crv\":\"P-256\",\"kid\":\"k\"," POINT
     "},{\"kty\":\"EC\",\"crv\":\"P-256\",\"kid\":\"k\"," POINT "}]}",
     60, ERROR_INVALID, NULL},
    {"a point that is not on the curve", "https://i",
     "{\"keys\":[{\"kty\":\"EC\",\"crv\":\"P-256\",\"kid\":\"k\",\"x\":\"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU\","
     "\"y\":\"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU\"}]}",
     60, ERROR_INVALID, NULL},
    {"no keys", "https://i", "{\"keys\":[]}", 60, ERROR_INVALID, "has no key that is accepted here"},
    {"no set", "https://i", "[]", 60, ERROR_INVALID, NULL},
    {"no JSON", "https://i", "", 60, ERROR_INVALID, NULL},
    {"a key without a kid", "https://i", "{\"keys\":[{\"kty\":\"EC\",\"crv\":\"P-256\"," POINT "}]}", 60, ERROR_INVALID,
     "no key of https://i has a kid of 1 to 128 of A-Z"},
    {"a kid with a blank", "https://i", "{\"keys\":[{\"kty\":\"EC\",\"crv\":\"P-256\",\"kid\":\"a b\"," POINT "}]}", 60,
     ERROR_INVALID, "no key of https://i has a kid of"},
    {"a key of another algorithm beside one without a kid", "https://i",
     "{\"keys\":[{\"kty\":\"oct\",\"k\":\"AA\",\"kid\":\"k\"},{\"kty\":\"EC\",\"crv\":\"P-256\"," POINT "}]}", 60, ERROR_INVALID,
     "has no key that is accepted here"},
    {"not over TLS", "http://i", "{\"keys\":[{\"kty\":\"EC\",\"crv\":\"P-256\",\"kid\":\"k\"," POINT "}]}", 60, ERROR_INVALID,
     NULL},
    {"no lifetime", "https://i", "{\"keys\":[{\"kty\":\"EC\",\"crv\":\"P-256\",\"kid\":\"k\"," POINT "}]}", 0, ERROR_INVALID,
     NULL},
};

static void makes_issuers(void **state)
{
    const struct issuer_row *row = *state;
    struct issuer_record record = {
        .audience = "us", .algorithms = 1U << JOSE_ES256, .types = 1, .lifetime_max_s = row->lifetime_s, .jwks = row->jwks};
    OWNED(issuer) *issuer = NULL;
    struct error err = {0};

    (void)snprintf(record.url, sizeof record.url, "%s", row->url);
    assert_int_equal(issuer_new(&record, &issuer, &err).ok, row->kind == ERROR_NONE);
    assert_int_equal(err.kind, row->kind);
    if (row->said != NULL && strstr(err.message, row->said) == NULL) fail_msg("%s", err.message);
}

static struct result challenge_once(void *context, struct error *err)
{
    struct buffer OWNED_BUFFER value = BUFFER(CHALLENGE_MAX);
    struct token_scope scope = {.catalog = true, .administration = true};
    const struct authentication authentication = {.error = OAUTH_INVALID_TOKEN, .description = "why"};

    const struct challenge challenge = {
        "https://reg.acme.ae", authenticator_service(authenticator), &scope, &authentication, NULL, false};

    (void)context;
    return challenge_write(&challenge, &value, err);
}

static void challenges_survive_lack_of_memory(void **state)
{
    (void)state;
    fail_each(challenge_once, NULL, ERROR_NO_MEMORY, 1);
}

static void start(struct authz_directory **directory_out)
{
    OWNED(ecdsa_key) *key = NULL;
    uint8_t point[ECDSA_PUBLIC_SIZE];
    char kid[ECDSA_THUMBPRINT_SIZE];
    struct error err = {0};

    if (!ecdsa_key_new(&key, &err).ok || !authz_directory_new(directory_out, &err).ok) exit(1);
    ecdsa_key_public(key, point);
    ecdsa_thumbprint(point, kid);
    const struct authenticator_options options = {.issuer = "https://reg.acme.ae",
                                                  .service = "sijil",
                                                  .token_kid = kid,
                                                  .token_public = point,
                                                  .directory = *directory_out};
    if (!authenticator_new(&options, &authenticator, &err).ok) exit(1);
}

int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(knows_public_keys),
        cmocka_unit_test(long_scopes_are_bounded),
        cmocka_unit_test(fewer_rights_than_asked),
        cmocka_unit_test(challenges_survive_lack_of_memory),
    };
    OWNED(authz_directory) *directory = NULL;

    start(&directory);
    const int failed = RUN_TABLE(scope_rows, reads_scopes) + RUN_TABLE(challenge_rows, challenges) +
                       RUN_TABLE(jwk_rows, reads_keys) + RUN_TABLE(issuer_rows, makes_issuers) +
                       cmocka_run_group_tests_name("others", others, NULL, NULL);
    authenticator_free(authenticator);
    return failed;
}
