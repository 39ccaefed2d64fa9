/* Tokens of strangers: each has the error that its row names, and the process lives. */
#include "tests/support/token_world.h"

#include "authz/token_cache.h"

static const struct token_row token_rows[] = {
    {"issuer A's token", BY_A, "ES256", A_HEADER, A_PAYLOAD, NULL},
    {"aud as a list of one", BY_A, "ES256", A_HEADER,
     "{\"iss\":\"" ISSUER_A "\",\"sub\":\"ci\",\"aud\":[\"" OURS "\"],\"iat\":@-10,\"exp\":@+300}", NULL},
    {"typ JWT", BY_A, "ES256", "{\"alg\":\"ES256\",\"typ\":\"jwt\",\"kid\":\"key-a\"}", A_PAYLOAD, NULL},
    {"typ at+jwt", BY_A, "ES256", "{\"alg\":\"ES256\",\"typ\":\"at+jwt\",\"kid\":\"key-a\"}", A_PAYLOAD, NULL},
    {"typ application/at+jwt", BY_A, "ES256", "{\"alg\":\"ES256\",\"typ\":\"application/at+jwt\",\"kid\":\"key-a\"}", A_PAYLOAD,
     NULL},
    {"typ in capitals", BY_A, "ES256", "{\"alg\":\"ES256\",\"typ\":\"APPLICATION/AT+JWT\",\"kid\":\"key-a\"}", A_PAYLOAD, NULL},
    {"typ application/jwt", BY_A, "ES256", "{\"alg\":\"ES256\",\"typ\":\"application/jwt\",\"kid\":\"key-a\"}", A_PAYLOAD, NULL},
    {"times with fractions", BY_A, "ES256", A_HEADER, "{" A_CLAIMS ",\"iat\":@-10.75,\"nbf\":@-10.999999,\"exp\":@+300.5}", NULL},
    {"times near the bounds", BY_A, "ES256", A_HEADER, "{" A_CLAIMS ",\"iat\":@+59.5,\"nbf\":0.0,\"exp\":@+3659.9}", NULL},
    {"times with exponents", BY_A, "ES256", A_HEADER, "{" A_CLAIMS ",\"iat\":@-10.0e0,\"nbf\":1e-300,\"exp\":@+300.5E+0}", NULL},
    {"a clock a minute ahead", BY_A, "ES256", A_HEADER, "{" A_CLAIMS ",\"iat\":@+50,\"nbf\":@+50,\"exp\":@+300}", NULL},
    {"RS256", BY_RSA, "RS256", "{\"alg\":\"RS256\",\"kid\":\"key-r\"}",
     "{\"iss\":\"https://rsa.example\",\"sub\":\"ci\",\"aud\":\"" OURS "\",\"iat\":@-10,\"exp\":@+300}", NULL},
    {"PS256", BY_RSA, "PS256", "{\"alg\":\"PS256\",\"kid\":\"key-r\"}",
     "{\"iss\":\"https://rsa.example\",\"sub\":\"ci\",\"aud\":\"" OURS "\",\"iat\":@-10,\"exp\":@+300}", NULL},
    {"ES384", BY_384, "ES384", "{\"alg\":\"ES384\",\"kid\":\"key-3\"}",
     "{\"iss\":\"https://p384.example\",\"sub\":\"ci\",\"aud\":\"" OURS "\",\"iat\":@-10,\"exp\":@+300}", NULL},
    {"EdDSA", BY_ED, "EdDSA", "{\"alg\":\"EdDSA\",\"kid\":\"key-e\"}", E_PAYLOAD, NULL},
    {"Ed25519, as RFC 9864 calls it", BY_ED, "EdDSA", "{\"alg\":\"Ed25519\",\"kid\":\"key-e\"}", E_PAYLOAD, NULL},
    {"a token of ours", BY_US, "ES256", O_HEADER, O_PAYLOAD, NULL},

    {"alg none", BY_A, "ES256", "{\"alg\":\"none\",\"kid\":\"key-a\"}", A_PAYLOAD, "alg is not one of"},
    {"HS256 with the public key", BY_A, "HS256", "{\"alg\":\"HS256\",\"kid\":\"key-a\"}", A_PAYLOAD, "alg is not one of"},
    {"EdDSA by another", BY_A, "ES256", "{\"alg\":\"EdDSA\",\"kid\":\"key-e\"}", E_PAYLOAD, "signature is not its issuer's"},
    {"EdDSA that says ES256", BY_ED, "EdDSA", "{\"alg\":\"ES256\",\"kid\":\"key-e\"}", E_PAYLOAD,
     "alg is not accepted from its issuer"},
    {"EdDSA to an issuer of ES256", BY_ED, "EdDSA", "{\"alg\":\"EdDSA\",\"kid\":\"key-a\"}", A_PAYLOAD,
     "alg is not accepted from its issuer"},
    {"Ed448", BY_ED, "EdDSA", "{\"alg\":\"Ed448\",\"kid\":\"key-e\"}", E_PAYLOAD, "alg is not one of"},
    {"an ID token (nonce)", BY_A, "ES256", A_HEADER, "{" A_CLAIMS ",\"iat\":@-10,\"exp\":@+300,\"nonce\":\"n\"}",
     "is an ID token"},
    {"an ID token (at_hash)", BY_A, "ES256", A_HEADER, "{" A_CLAIMS ",\"iat\":@-10,\"exp\":@+300,\"at_hash\":\"n\"}",
     "is an ID token"},
    {"an ID token (c_hash)", BY_A, "ES256", A_HEADER, "{" A_CLAIMS ",\"iat\":@-10,\"exp\":@+300,\"c_hash\":null}",
     "is an ID token"},
    {"a nonce in an access token", BY_A, "ES256", "{\"alg\":\"ES256\",\"typ\":\"at+jwt\",\"kid\":\"key-a\"}",
     "{" A_CLAIMS ",\"iat\":@-10,\"exp\":@+300,\"nonce\":\"n\"}", NULL},
    {"a logout token", BY_A, "ES256", A_HEADER,
     "{" A_CLAIMS ",\"iat\":@-10,\"exp\":@+300,\"events\":{\"http://schemas.openid.net/event/backchannel-logout\":{}}}",
     "tells of an event"},
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
    {"a foreign typ behind application/", BY_A, "ES256", "{\"alg\":\"ES256\",\"kid\":\"key-a\",\"typ\":\"application/dpop+jwt\"}",
     A_PAYLOAD, "typ is not"},
    {"another kind of at+jwt", BY_A, "ES256", "{\"alg\":\"ES256\",\"kid\":\"key-a\",\"typ\":\"text/at+jwt\"}", A_PAYLOAD,
     "typ is not"},
    {"application/ alone", BY_A, "ES256", "{\"alg\":\"ES256\",\"kid\":\"key-a\",\"typ\":\"application/\"}", A_PAYLOAD,
     "typ is not"},
    {"application/ twice", BY_A, "ES256", "{\"alg\":\"ES256\",\"kid\":\"key-a\",\"typ\":\"application/application/at+jwt\"}",
     A_PAYLOAD, "typ is not"},
    {"typ as a number", BY_A, "ES256", "{\"alg\":\"ES256\",\"kid\":\"key-a\",\"typ\":1}", A_PAYLOAD, "typ is not"},
    {"our typ in another spelling", BY_US, "ES256", "{\"alg\":\"ES256\",\"kid\":\"$KID\",\"typ\":\"application/sijil-reg+jwt\"}",
     O_PAYLOAD, "typ is not"},
    {"an issuer that says it is us", BY_A, "ES256", "{\"alg\":\"ES256\",\"kid\":\"key-a\",\"typ\":\"sijil-reg+jwt\"}", A_PAYLOAD,
     "typ is not accepted from its issuer"},
    {"ours with the typ of others", BY_US, "ES256", "{\"alg\":\"ES256\",\"kid\":\"$KID\"}", O_PAYLOAD,
     "typ is not accepted from its issuer"},
    {"duplicate alg", BY_A, "ES256", "{\"alg\":\"none\",\"alg\":\"ES256\",\"kid\":\"key-a\"}", A_PAYLOAD,
     "header: JSON in which a member is there twice"},
    {"duplicate aud", BY_A, "ES256", A_HEADER, "{" A_CLAIMS ",\"aud\":\"" OURS "\",\"iat\":@-10,\"exp\":@+300}",
     "payload: JSON in which a member is there twice"},
    {"aud again, with other letters", BY_A, "ES256", A_HEADER, "{" A_CLAIMS ",\"Aud\":\"" OURS "\",\"iat\":@-10,\"exp\":@+300}",
     "payload has a member twice, with letters of another case"},
    {"kid again, with other letters", BY_A, "ES256", "{\"alg\":\"ES256\",\"kid\":\"key-a\",\"KID\":\"key-b\"}", A_PAYLOAD,
     "header has a member twice, with letters of another case"},
    {"a header that is a list", BY_A, "ES256", "[]", A_PAYLOAD, "header is not a JSON object"},
    {"a payload that is a number", BY_A, "ES256", A_HEADER, "1", "payload is not a JSON object"},
    {"a payload that is no JSON", BY_A, "ES256", A_HEADER, "hello", "payload: not JSON"},
    {"a number beyond all", BY_A, "ES256", A_HEADER, "{" A_CLAIMS ",\"iat\":@-10,\"exp\":99999999999999999999}",
     "payload: JSON in which a number does not fit 64 bits"},
    {"a number near the end of int64", BY_A, "ES256", A_HEADER, "{" A_CLAIMS ",\"iat\":@-10,\"exp\":9223372036854775807}",
     "exp is missing or no number"},
    {"negative exp", BY_A, "ES256", A_HEADER, "{" A_CLAIMS ",\"iat\":@-10,\"exp\":-1}", "exp is missing or no number"},
    {"exp as a text", BY_A, "ES256", A_HEADER, "{" A_CLAIMS ",\"iat\":@-10,\"exp\":\"@+300\"}", "exp is missing or no number"},
    {"the last fraction of a second is cut off", BY_A, "ES256", A_HEADER, "{" A_CLAIMS ",\"iat\":@-400,\"exp\":@+0.999}",
     "expired"},
    {"negative nbf with a fraction", BY_A, "ES256", A_HEADER, "{" A_CLAIMS ",\"nbf\":-0.5,\"iat\":@-10,\"exp\":@+300}",
     "nbf is no number"},
    {"nbf past all with an exponent", BY_A, "ES256", A_HEADER, "{" A_CLAIMS ",\"nbf\":1e300,\"iat\":@-10,\"exp\":@+300}",
     "nbf is no number"},
    {"nbf that no double holds", BY_A, "ES256", A_HEADER, "{" A_CLAIMS ",\"nbf\":1e400,\"iat\":@-10,\"exp\":@+300}",
     "payload: JSON in which a number does not fit 64 bits"},
    {"exp at the end of what is read", BY_A, "ES256", A_HEADER, "{" A_CLAIMS ",\"iat\":@-10,\"exp\":1099511627776.0}",
     "exp is missing or no number"},
    {"not valid yet by a fraction", BY_A, "ES256", A_HEADER, "{" A_CLAIMS ",\"nbf\":@+120.5,\"iat\":@-10,\"exp\":@+300}",
     "not valid yet"},
    {"expired, with a fraction", BY_A, "ES256", A_HEADER, "{" A_CLAIMS ",\"iat\":@-400.5,\"exp\":@-100.5}", "expired"},
    {"no exp", BY_A, "ES256", A_HEADER, "{" A_CLAIMS ",\"iat\":@-10}", "exp is missing or no number"},
    {"no iat", BY_A, "ES256", A_HEADER, "{" A_CLAIMS ",\"exp\":@+300}", "iat is missing or no number"},
    {"expired", BY_A, "ES256", A_HEADER, "{" A_CLAIMS ",\"iat\":@-400,\"exp\":@-100}", "expired"},
    {"issued in the future", BY_A, "ES256", A_HEADER, "{" A_CLAIMS ",\"iat\":@+120,\"exp\":@+300}", "issued in the future"},
    {"not valid yet", BY_A, "ES256", A_HEADER, "{" A_CLAIMS ",\"nbf\":@+120,\"iat\":@-10,\"exp\":@+300}", "not valid yet"},
    {"nbf as a text", BY_A, "ES256", A_HEADER, "{" A_CLAIMS ",\"nbf\":\"0\",\"iat\":@-10,\"exp\":@+300}", "nbf is no number"},
    {"lives too long", BY_A, "ES256", A_HEADER, "{" A_CLAIMS ",\"iat\":@-10,\"exp\":@+3600}", "at most 3600"},
    {"ends before it began", BY_A, "ES256", A_HEADER, "{" A_CLAIMS ",\"iat\":@+30,\"exp\":@+20}", "at most 3600"},
    {"no aud", BY_A, "ES256", A_HEADER, "{\"iss\":\"" ISSUER_A "\",\"sub\":\"ci\",\"iat\":@-10,\"exp\":@+300}", "aud must be"},
    {"another's aud", BY_A, "ES256", A_HEADER,
     "{\"iss\":\"" ISSUER_A "\",\"sub\":\"ci\",\"aud\":\"https://other\",\"iat\":@-10,\"exp\":@+300}", "aud must be"},
    {"an aud list without us", BY_A, "ES256", A_HEADER,
     "{\"iss\":\"" ISSUER_A "\",\"sub\":\"ci\",\"aud\":[\"https://other\"],\"iat\":@-10,\"exp\":@+300}", "aud must be"},
    {"an aud beside ours", BY_A, "ES256", A_HEADER,
     "{\"iss\":\"" ISSUER_A "\",\"sub\":\"ci\",\"aud\":[\"" OURS "\",\"https://other\"],\"iat\":@-10,\"exp\":@+300}",
     "aud must be"},
    {"our aud twice", BY_A, "ES256", A_HEADER,
     "{\"iss\":\"" ISSUER_A "\",\"sub\":\"ci\",\"aud\":[\"" OURS "\",\"" OURS "\"],\"iat\":@-10,\"exp\":@+300}", "aud must be"},
    {"an aud that begins like ours", BY_A, "ES256", A_HEADER,
     "{\"iss\":\"" ISSUER_A "\",\"sub\":\"ci\",\"aud\":\"" OURS ".evil\",\"iat\":@-10,\"exp\":@+300}", "aud must be"},
    {"no sub", BY_A, "ES256", A_HEADER, "{\"iss\":\"" ISSUER_A "\",\"aud\":\"" OURS "\",\"iat\":@-10,\"exp\":@+300}",
     "sub is missing"},
    {"a sub with a line break", BY_A, "ES256", A_HEADER,
     "{\"iss\":\"" ISSUER_A "\",\"sub\":\"a\\nb\",\"aud\":\"" OURS "\",\"iat\":@-10,\"exp\":@+300}", "sub is missing"},
    {"jti as a number", BY_A, "ES256", A_HEADER, "{" A_CLAIMS ",\"jti\":1,\"iat\":@-10,\"exp\":@+300}", "jti is no plain"},
    {"no iss", BY_A, "ES256", A_HEADER, "{\"sub\":\"ci\",\"aud\":\"" OURS "\",\"iat\":@-10,\"exp\":@+300}", "names no issuer"},
    {"an unknown iss", BY_A, "ES256", A_HEADER,
     "{\"iss\":\"https://z.example\",\"sub\":\"ci\",\"aud\":\"" OURS "\",\"iat\":@-10,\"exp\":@+300}", "issuer is not trusted"},
    {"an iss with a final slash", BY_A, "ES256", A_HEADER,
     "{\"iss\":\"" ISSUER_A "/\",\"sub\":\"ci\",\"aud\":\"" OURS "\",\"iat\":@-10,\"exp\":@+300}", "issuer is not trusted"},
    {"bound to a certificate", BY_A, "ES256", A_HEADER,
     "{" A_CLAIMS ",\"iat\":@-10,\"exp\":@+300,\"cnf\":{\"x5t#S256\":\"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\"}}",
     "certificate that was not presented"},
    {"bound to a DPoP key", BY_A, "ES256", A_HEADER, "{" A_CLAIMS ",\"iat\":@-10,\"exp\":@+300,\"cnf\":{\"jkt\":\"x\"}}",
     "jkt that is no SHA-256"},
    {"bound to a DPoP key that nobody has proven", BY_A, "ES256", A_HEADER,
     "{" A_CLAIMS ",\"iat\":@-10,\"exp\":@+300,\"cnf\":{\"jkt\":\"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\"}}",
     "no proof of this key"},
    {"somebody acts for its subject", BY_A, "ES256", A_HEADER,
     "{" A_CLAIMS ",\"iat\":@-10,\"exp\":@+300,\"act\":{\"sub\":\"mallory\"}}", "acts for its subject"},
    {"cnf that is no object", BY_A, "ES256", A_HEADER, "{" A_CLAIMS ",\"iat\":@-10,\"exp\":@+300,\"cnf\":true}",
     "not known here"},

    {"ours without jti", BY_US, "ES256", O_HEADER, "{\"iss\":\"" OURS "\",\"sub\":\"robot:" ROBOT "\",\"src\":\"x\"," O_TIMES "}",
     "no jti"},
    {"ours for 901 seconds", BY_US, "ES256", O_HEADER, "{" O_CLAIMS ",\"aud\":\"" SERVICE "\",\"iat\":@-10,\"exp\":@+891}",
     "at most 900"},
    {"ours without a source", BY_US, "ES256", O_HEADER,
     "{\"iss\":\"" OURS "\",\"sub\":\"robot:" ROBOT "\",\"jti\":\"j\"," O_TIMES "}", "rights are malformed"},
    {"ours with an unknown action", BY_US, "ES256", O_HEADER,
     "{" O_CLAIMS "," O_TIMES ",\"access\":[{\"type\":\"repository\",\"name\":\"a\",\"actions\":[\"own\"]}]}",
     "rights are malformed"},
    {"ours with catalog as a text", BY_US, "ES256", O_HEADER, "{" O_CLAIMS "," O_TIMES ",\"catalog\":\"yes\"}",
     "rights are malformed"},
    {"ours for a robot that is gone", BY_US, "ES256", O_HEADER,
     "{\"iss\":\"" OURS "\",\"sub\":\"robot:33333333-3333-4333-8333-333333333333\",\"src\":\"x\",\"jti\":\"j\"," O_TIMES "}",
     "revoked"},
    {"ours for a robot that expired", BY_US, "ES256", O_HEADER,
     "{\"iss\":\"" OURS "\",\"sub\":\"robot:22222222-2222-4222-8222-222222222222\",\"src\":\"x\",\"jti\":\"j\"," O_TIMES "}",
     "revoked"},
    {"ours for nobody", BY_US, "ES256", O_HEADER,
     "{\"iss\":\"" OURS "\",\"sub\":\"root\",\"src\":\"x\",\"jti\":\"j\"," O_TIMES "}", "sub is malformed"},
    {"ours for an issuer that is gone", BY_US, "ES256", O_HEADER,
     "{\"iss\":\"" OURS "\",\"sub\":\"ext:00000000000000000000000000000000:ci\",\"src\":\"x\",\"jti\":\"j\"," O_TIMES "}",
     "not trusted any more"},
    {"ours, signed by A", BY_A, "ES256", O_HEADER, O_PAYLOAD, "signature is not its issuer's"},
};

static void checks_tokens(void **state)
{
    const struct token_row *row = *state;
    OWNED_STRING token = make_token(row);

    struct authentication first = {.error = OAUTH_NONE};

    for (int again = 0; again < 2; again++) { /* the second time a good token may come from the cache */
        const struct authentication found = try_bearer(CREDENTIAL_AT_ROUTE, token);
        if (again == 0) first = found;
        assert_memory_equal(&found.principal, &first.principal, sizeof found.principal);
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

/* Spellings: a change of a good token, or another text. */
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

static void checks_spellings(void **state)
{
    const struct spelling_row *row = *state;
    OWNED_STRING good = make_token(&GOOD_ROW);
    OWNED_STRING token = NULL;

    assert_true(asprintf(&token, "%s%s", row->text == NULL ? good : row->text, row->append) > 0);
    const struct authentication found = try_bearer(CREDENTIAL_AT_ROUTE, token);
    assert_int_equal(found.error, row->why == NULL ? OAUTH_NONE : OAUTH_INVALID_TOKEN);
    if (row->why != NULL && strstr(found.description, row->why) == NULL) fail_msg("%s", found.description);
}

/* A change of the pad bits in the last letter makes another spelling of the same signature. */
static void no_other_spelling_of_a_signature_passes(void **state)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    OWNED_STRING token = make_token(&GOOD_ROW);
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
    static char text[JWS_SIZE_MAX + 2];

    (void)state;
    memset(text, 'A', JWS_SIZE_MAX + 1);
    text[100] = text[200] = '.';
    struct authentication found = try_bearer(CREDENTIAL_AT_ROUTE, text);
    assert_int_equal(found.error, OAUTH_INVALID_TOKEN);
    assert_non_null(strstr(found.description, "at most 16384"));
    text[JWS_SIZE_MAX] = '\0';
    found = try_bearer(CREDENTIAL_AT_ROUTE, text);
    assert_int_equal(found.error, OAUTH_INVALID_TOKEN);
    assert_non_null(strstr(found.description, "the token's header: "));
}

static void deep_nesting_is_refused(void **state)
{
    static uint8_t brackets[11000];
    struct jws token;
    struct error err = {0};
    OWNED_STRING text = NULL;

    (void)state;
    memset(brackets, '[', sizeof brackets);
    OWNED_STRING inner = hostile_encode((struct bytes){brackets, sizeof brackets});
    assert_true(asprintf(&text, "%s.%s.AAAA", inner, "e30") > 0);
    assert_false(jws_parse(bytes_of_text(text), &token, &err).ok);
    assert_int_equal(err.kind, ERROR_INVALID);

    /* 300,000 of them are beyond the size of a token. */
    OWNED_STRING many = malloc(300001);
    assert_non_null(many);
    memset(many, '[', 300000);
    many[300000] = '\0';
    OWNED_STRING encoded = hostile_encode(bytes_of_text(many));
    OWNED_STRING large = NULL;
    assert_true(asprintf(&large, "%s.e30.AAAA", encoded) > 0);
    assert_false(jws_parse(bytes_of_text(large), &token, &err).ok);
    assert_int_equal(err.kind, ERROR_LIMIT);
}

/* ---- The cache ---- */

/* A digest for each place of the cache in turn. */
static void make_digest(uint32_t number, uint8_t digest_out[SHA256_SIZE])
{
    memset(digest_out, 0, SHA256_SIZE);
    digest_out[0] = number % 16;
    digest_out[1] = (uint8_t)(number / 16);
    digest_out[2] = (uint8_t)(number / 4096);
}

static uint64_t find_in(struct token_cache *cache, const struct jws *token, uint32_t number, int64_t now_s, struct jws *found_out)
{
    uint8_t digest[SHA256_SIZE];

    make_digest(number, digest);
    return token_cache_find(cache, digest, token->text, now_s, found_out);
}

static void add_to(struct token_cache *cache, const struct jws *token, uint32_t number, uint64_t serial, int64_t expires_s)
{
    uint8_t digest[SHA256_SIZE];

    make_digest(number, digest);
    token_cache_add(cache, digest, token, serial, expires_s);
}

/* The found token is the same one, with views of the caller's text, and outlives the cache. */
static void what_was_opened_once_is_shared(void **state)
{
    OWNED_STRING text = make_token(&GOOD_ROW);
    OWNED_STRING same = strdup(text);
    struct jws OWNED_JWS token = {0}, other = {0}, found = {0}, none = {0};
    OWNED(token_cache) *cache = NULL;
    struct error err = {0};

    (void)state;
    assert_true(token_cache_new(&cache, &err).ok);
    assert_true(jws_parse(bytes_of_text(text), &token, &err).ok);
    assert_true(jws_parse(bytes_of_text(same), &other, &err).ok);
    assert_true(find_in(cache, &other, 7, 100, &none) == 0);
    add_to(cache, &token, 7, 3, 200);
    assert_true(find_in(cache, &other, 7, 200, &none) == 0); /* it has ended */
    assert_null(none.header);
    assert_true(find_in(cache, &other, 7, 199, &found) == 3);
    token_cache_free(GIVE(cache));
    jws_done(&token);
    assert_ptr_equal(found.text.data, same);
    assert_int_equal(found.signature_at, other.signature_at);
    assert_int_equal(found.algorithm, other.algorithm);
    assert_string_equal(found.kid, other.kid);
    assert_string_equal(found.issuer, other.issuer);
    assert_true(json_equal(found.payload, other.payload) && json_equal(found.header, other.header));
}

/* Of a large token only the right signature is cached; if there are too many tokens, those stay that expire last. */
static void the_cache_is_bounded(void **state)
{
    OWNED_STRING text = make_token(&GOOD_ROW);
    struct jws OWNED_JWS token = {0}, found = {0};
    OWNED(token_cache) *cache = NULL;
    struct error err = {0};
    size_t known = 0;

    (void)state;
    assert_true(token_cache_new(&cache, &err).ok);
    assert_true(jws_parse(bytes_of_text(text), &token, &err).ok);
    const struct bytes whole = token.text;
    token.text.length = 2049;
    add_to(cache, &token, 0, 1, INT64_MAX);
    assert_true(find_in(cache, &token, 0, 100, &found) == 1);
    assert_null(found.header);
    token.text = whole;
    for (uint32_t i = 1; i <= 20000; i++) add_to(cache, &token, i, i, 1000 + i);
    for (uint32_t i = 1; i <= 20000; i++) {
        struct jws OWNED_JWS here = {0};
        const uint64_t serial = find_in(cache, &token, i, 100, &here);
        if (serial != 0) assert_true(serial == i && here.header == token.header);
        if (i > 20000 - 3 * 1024) assert_true(serial == i);
        known += serial != 0;
    }
    assert_int_equal(known, 4096 - 1);
    assert_true(find_in(cache, &token, 0, 100, &found) == 1);
}

int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(no_other_spelling_of_a_signature_passes),
        cmocka_unit_test(size_is_bounded),
        cmocka_unit_test(deep_nesting_is_refused),
        cmocka_unit_test(what_was_opened_once_is_shared),
        cmocka_unit_test(the_cache_is_bounded),
    };

    (void)set_up(NULL);
    const int failed = RUN_TABLE(token_rows, checks_tokens) + RUN_TABLE(spelling_rows, checks_spellings) +
                       cmocka_run_group_tests_name("others", others, NULL, NULL);
    (void)tear_down(NULL);
    return failed;
}
