/* Tokens: the claims of a token whose form is valid must keep their promises, and no token may do harm to liboauth2 and cjose. */
#include <assert.h>
#include <string.h>

#include "authz/claims.h"
#include "authz/verifier.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Keys of RFC 7515, A.3 and RFC 7517, A.1; no input can be signed by them, so every answer must be no. */
static const char point[] = "{\"crv\":\"P-256\",\"kid\":\"k\",\"kty\":\"EC\","
                            "\"x\":\"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU\","
                            "\"y\":\"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0\"}";
static const char modulus[] =
    "{\"e\":\"AQAB\",\"kid\":\"k\",\"kty\":\"RSA\",\"n\":\""
    "0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3oknj"
    "hMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQ"
    "vRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzK"
    "nqDKgw\"}";

/* RFC 8032, 7.1, test 1. */
static const uint8_t edwards[32] = {0xd7, 0x5a, 0x98, 0x01, 0x82, 0xb1, 0x0a, 0xb7, 0xd5, 0x4b, 0xfe,
                                    0xd3, 0xc9, 0x64, 0x07, 0x3a, 0x0e, 0xe1, 0x72, 0xf3, 0xda, 0xa6,
                                    0x23, 0x25, 0xaf, 0x02, 0x1a, 0x68, 0xf7, 0x07, 0x51, 0x1a};

static struct verifier *verifier_for(enum jose_algorithm algorithm)
{
    static struct verifier *verifiers[3];
    struct verifier **verifier = &verifiers[algorithm == JOSE_EDDSA ? 2 : algorithm == JOSE_RS256 || algorithm == JOSE_PS256];
    struct error err;

    if (algorithm == JOSE_EDDSA && *verifier == NULL) assert(verifier_new_ed25519(edwards, verifier, &err).ok);
    if (*verifier == NULL) assert(verifier_new(verifier == verifiers ? point : modulus, verifier, &err).ok);
    return *verifier;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct jws OWNED_JWS token = {0};
    const struct claims_rule rule = {.audience = "us", .lifetime_max_s = 900, .subject_max = 255, .now_ms = 1};
    struct claims claims;
    struct error err = {0};

    if (!jws_parse((struct bytes){data, size}, &token, &err).ok) {
        assert(err.message[0] != '\0' && (err.kind == ERROR_INVALID || err.kind == ERROR_LIMIT));
        return 0;
    }
    assert(size <= JWS_SIZE_MAX && memchr(data, '=', size) == NULL && memchr(data, '\0', size) == NULL);
    assert(strlen(token.kid) < JWS_KID_SIZE && token.issuer[0] != '\0');
    assert(!verifier_check(verifier_for(token.algorithm), &token, false, &err).ok);
    assert(!verifier_check(verifier_for(token.algorithm), &token, true, &err).ok);
    if (claims_check(token.payload, &rule, &claims, &err).ok) assert(claims.expires_s > 0);
    return 0;
}
