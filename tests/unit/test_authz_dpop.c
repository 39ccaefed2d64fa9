/* Proofs of a client's key (RFC 9449): what each check refuses, what a proof is good for, and which nonces count. */
#include "tests/support/token_world.h"

#include "base/json.h"

#define URL     "https://reg.acme.ae"
#define PATH    "/v2/acme/models/x/manifests/v1"
#define NONCE   "AAAAAAAAAAAAAAAAAAAAAA"
#define HEADER  "{\"alg\":\"ES256\",\"jwk\":$JWK,\"typ\":\"dpop+jwt\"}"
#define TIMED   "\"iat\":@-1,\"jti\":\"one\""
#define REQUEST "\"htm\":\"GET\",\"htu\":\"" URL PATH "\""
#define PAYLOAD "{" REQUEST "," TIMED ",\"nonce\":\"" NONCE "\"}"

static struct hostile_issuer *holder, *stranger, *edwards;
static struct dpop_nonces *nonces;
static char held_key[DPOP_KEY_SIZE]; /* the thumbprint of the holder's key */

static int begin(void **state)
{
    struct keyd_nonces known = {.first = 0};
    uint8_t point[65];
    struct error err = {0};

    assert_int_equal(set_up(state), 0);
    holder = hostile_issuer_new(HOSTILE_P256);
    stranger = hostile_issuer_new(HOSTILE_P256);
    edwards = hostile_issuer_new(HOSTILE_ED25519);
    hostile_point(holder, point);
    ecdsa_thumbprint(point, held_key);
    known.first = (uint64_t)(world.now_s / KEYD_NONCE_PERIOD_S) - 1;
    for (size_t i = 0; i < KEYD_NONCES_COUNT; i++) known.each[i][KEYD_NONCE_SIZE - 1] = (uint8_t)(i == 1 ? 0 : i + 1);
    must(dpop_nonces_new(&nonces, &err), &err);
    must(dpop_nonces_set(nonces, &known, &err), &err);
    return 0;
}

static int end(void **state)
{
    hostile_issuer_free(holder);
    hostile_issuer_free(stranger);
    hostile_issuer_free(edwards);
    dpop_nonces_free(nonces);
    return tear_down(state);
}

/* "$JWK" becomes the holder's public key, "$OTHER" another one, "$EDWARDS" one of Ed25519. */
static char *with_keys(const char *text)
{
    const struct {
        const char *word;
        const struct hostile_issuer *key;
    } words[] = {{"$JWK", holder}, {"$OTHER", stranger}, {"$EDWARDS", edwards}};
    struct buffer OWNED_BUFFER made = BUFFER(1 << 14);
    struct error err = {0};

    for (const char *at = text; *at != '\0'; at++) {
        size_t i = 0;
        while (i < COUNT(words) && strncmp(at, words[i].word, strlen(words[i].word)) != 0) i++;
        if (i == COUNT(words)) {
            must(buffer_add_u8(&made, (uint8_t)*at, &err), &err);
            continue;
        }
        OWNED_STRING set = hostile_jwks(words[i].key, "k", NULL);
        OWNED_JSON parsed = json_loads(set, 0, NULL);
        OWNED_STRING key = json_dumps(json_array_get(json_object_get(parsed, "keys"), 0), JSON_COMPACT);
        must(buffer_add_text(&made, key, &err), &err);
        at += strlen(words[i].word) - 1;
    }
    return fill(buffer_text(&made));
}

static char *proof_of(const struct hostile_issuer *key, const char *algorithm, const char *header, const char *payload)
{
    OWNED_STRING whole_header = with_keys(header);
    OWNED_STRING whole_payload = with_keys(payload);

    return hostile_token(key, algorithm, whole_header, whole_payload);
}

static struct result read_at(const char *text, const char *method, const char *path, struct dpop_proof *proof_out,
                             struct error *err)
{
    const struct dpop_rule rule = {
        .method = method, .url = URL, .path = bytes_of_text(path), .nonces = nonces, .now_ms = world.now_s * 1000};

    return dpop_read(text, &rule, proof_out, err);
}

/* One thing is wrong in each, or nothing. */
static const struct row {
    const char *name, *header, *payload;
    const char *why; /* NULL: it is good; else a part of the message */
} rows[] = {
    {"a good one", HEADER, PAYLOAD, NULL},
    {"a claim that is not known", HEADER, "{" REQUEST "," TIMED ",\"x\":1,\"nonce\":\"" NONCE "\"}", NULL},
    {"typ of a token", "{\"alg\":\"ES256\",\"jwk\":$JWK,\"typ\":\"JWT\"}", PAYLOAD, "typ must be"},
    {"no typ", "{\"alg\":\"ES256\",\"jwk\":$JWK}", PAYLOAD, "typ must be"},
    {"another key in the header", "{\"alg\":\"ES256\",\"jwk\":$OTHER,\"typ\":\"dpop+jwt\"}", PAYLOAD, "not that of its key"},
    {"no key", "{\"alg\":\"ES256\",\"typ\":\"dpop+jwt\"}", PAYLOAD, "has no jwk"},
    {"a key that is a text", "{\"alg\":\"ES256\",\"jwk\":\"x\",\"typ\":\"dpop+jwt\"}", PAYLOAD, "has no jwk"},
    {"a private key", "{\"alg\":\"ES256\",\"jwk\":{\"kty\":\"EC\",\"crv\":\"P-256\",\"d\":\"AA\"},\"typ\":\"dpop+jwt\"}", PAYLOAD,
     "never send it"},
    {"a symmetric key", "{\"alg\":\"ES256\",\"jwk\":{\"kty\":\"oct\",\"k\":\"AA\"},\"typ\":\"dpop+jwt\"}", PAYLOAD,
     "never send it"},
    {"a point off the curve",
     "{\"alg\":\"ES256\",\"jwk\":{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\",\"y\":"
     "\"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\"},\"typ\":\"dpop+jwt\"}",
     PAYLOAD, "is no P-256 key"},
    {"another curve", "{\"alg\":\"ES256\",\"jwk\":{\"kty\":\"EC\",\"crv\":\"P-384\"},\"typ\":\"dpop+jwt\"}", PAYLOAD,
     "is no P-256 key"},
    {"a key of another algorithm", "{\"alg\":\"ES256\",\"jwk\":$EDWARDS,\"typ\":\"dpop+jwt\"}", PAYLOAD, "is no P-256 key"},
    {"an algorithm that does not fit the key", "{\"alg\":\"EdDSA\",\"jwk\":$JWK,\"typ\":\"dpop+jwt\"}", PAYLOAD,
     "is no Ed25519 key"},
    {"alg none", "{\"alg\":\"none\",\"jwk\":$JWK,\"typ\":\"dpop+jwt\"}", PAYLOAD, "alg is not one of"},
    {"a symmetric algorithm", "{\"alg\":\"HS256\",\"jwk\":$JWK,\"typ\":\"dpop+jwt\"}", PAYLOAD, "alg is not one of"},
    {"no alg", "{\"jwk\":$JWK,\"typ\":\"dpop+jwt\"}", PAYLOAD, "alg is not one of"},
    {"crit", "{\"alg\":\"ES256\",\"crit\":[\"x\"],\"jwk\":$JWK,\"typ\":\"dpop+jwt\"}", PAYLOAD, "crit"},
    {"a key elsewhere", "{\"alg\":\"ES256\",\"jku\":\"https://x.example\",\"jwk\":$JWK,\"typ\":\"dpop+jwt\"}", PAYLOAD, "jku"},
    {"a member twice", "{\"alg\":\"ES256\",\"alg\":\"ES256\",\"jwk\":$JWK,\"typ\":\"dpop+jwt\"}", PAYLOAD, "not a JSON object"},
    {"a claim twice", HEADER, "{" REQUEST "," TIMED ",\"jti\":\"two\",\"nonce\":\"" NONCE "\"}", "not a JSON object"},
    {"another method", HEADER, "{\"htm\":\"POST\",\"htu\":\"" URL PATH "\"," TIMED "}", "htm"},
    {"a method in small letters", HEADER, "{\"htm\":\"get\",\"htu\":\"" URL PATH "\"," TIMED "}", "htm"},
    {"no method", HEADER, "{\"htu\":\"" URL PATH "\"," TIMED "}", "htm"},
    {"another path", HEADER, "{\"htm\":\"GET\",\"htu\":\"" URL "/v2/\"," TIMED "}", "htu"},
    {"a longer path", HEADER, "{\"htm\":\"GET\",\"htu\":\"" URL PATH "/\"," TIMED "}", "htu"},
    {"another host", HEADER, "{\"htm\":\"GET\",\"htu\":\"https://reg.acme.ae.evil" PATH "\"," TIMED "}", "htu"},
    {"a user before the host", HEADER, "{\"htm\":\"GET\",\"htu\":\"https://x\\u0040reg.acme.ae" PATH "\"," TIMED "}", "htu"},
    {"another port", HEADER, "{\"htm\":\"GET\",\"htu\":\"" URL ":8443" PATH "\"," TIMED "}", "htu"},
    {"plain HTTP", HEADER, "{\"htm\":\"GET\",\"htu\":\"http://reg.acme.ae" PATH "\"," TIMED "}", "htu"},
    {"a path alone", HEADER, "{\"htm\":\"GET\",\"htu\":\"" PATH "\"," TIMED "}", "htu"},
    {"no URL", HEADER, "{\"htm\":\"GET\"," TIMED "}", "htu"},
    {"the standard port", HEADER, "{\"htm\":\"GET\",\"htu\":\"" URL ":443" PATH "\"," TIMED "}", NULL},
    {"capital letters in the host", HEADER, "{\"htm\":\"GET\",\"htu\":\"HTTPS://Reg.Acme.AE" PATH "\"," TIMED "}", NULL},
    {"query and fragment", HEADER, "{\"htm\":\"GET\",\"htu\":\"" URL PATH "?n=1#x\"," TIMED "}", NULL},
    {"made a minute ago", HEADER, "{" REQUEST ",\"iat\":@-60,\"jti\":\"one\"}", NULL},
    {"made too long ago", HEADER, "{" REQUEST ",\"iat\":@-61,\"jti\":\"one\"}", "61 s ago"},
    {"a clock that is ahead", HEADER, "{" REQUEST ",\"iat\":@+60,\"jti\":\"one\"}", NULL},
    {"a clock that is too far ahead", HEADER, "{" REQUEST ",\"iat\":@+61,\"jti\":\"one\"}", "61 s ahead"},
    {"no time", HEADER, "{" REQUEST ",\"jti\":\"one\"}", "iat"},
    {"a time that is a text", HEADER, "{" REQUEST ",\"iat\":\"1\",\"jti\":\"one\"}", "iat"},
    {"a time that no clock has", HEADER, "{" REQUEST ",\"iat\":1e300,\"jti\":\"one\"}", "iat"},
    {"no jti", HEADER, "{" REQUEST ",\"iat\":@-1}", "jti"},
    {"a jti that is a number", HEADER, "{" REQUEST ",\"iat\":@-1,\"jti\":1}", "jti"},
    {"an empty jti", HEADER, "{" REQUEST ",\"iat\":@-1,\"jti\":\"\"}", "jti"},
    {"a jti with a line feed", HEADER, "{" REQUEST ",\"iat\":@-1,\"jti\":\"a\\nb\"}", "jti"},
    {"an ath that is no digest", HEADER, "{" REQUEST "," TIMED ",\"ath\":\"x\"}", "ath"},
    {"an ath that is no text", HEADER, "{" REQUEST "," TIMED ",\"ath\":true}", "ath"},
    {"a nonce that is no text", HEADER, "{" REQUEST "," TIMED ",\"nonce\":1}", "nonce"},
    {"a payload that is a list", HEADER, "[]", "not a JSON object"},
};

static void a_proof(void **state)
{
    const struct row *row = *state;
    OWNED_STRING text = proof_of(holder, "ES256", row->header, row->payload);
    struct dpop_proof proof = {.key = ""};
    struct error err = {0};

    const bool is_good = read_at(text, "GET", PATH, &proof, &err).ok;
    if (row->why == NULL) {
        if (!is_good) fail_msg("%s", err.message);
        assert_string_equal(proof.key, held_key);
        assert_int_equal(proof.is_fresh, strstr(row->payload, NONCE) != NULL);
    } else {
        assert_false(is_good);
        assert_int_equal(err.kind, ERROR_INVALID);
        if (strstr(err.message, row->why) == NULL) fail_msg("'%s' does not say '%s'", err.message, row->why);
        assert_string_equal(proof.key, ""); /* written on success only */
    }
}

/* Of RFC 9449, 4.1 and 6.1. */
static void the_example_of_the_specification(void **state)
{
    static const char text[] =
        "eyJ0eXAiOiJkcG9wK2p3dCIsImFsZyI6IkVTMjU2IiwiandrIjp7Imt0eSI6IkVDIiwieCI6Imw4dEZyaHgtMzR0VjNoUklDUkRZOXpDa0RscEJoRjQyVVFVZldW"
        "QVdCRnMiLCJ5IjoiOVZFNGpmX09rX282NHpiVFRsY3VOSmFqSG10NnY5VERWclUwQ2R2R1JEQSIsImNydiI6IlAtMjU2In19.eyJqdGkiOiItQndDM0VTYzZhY2"
        "MybFRjIiwiaHRtIjoiUE9TVCIsImh0dSI6Imh0dHBzOi8vc2VydmVyLmV4YW1wbGUuY29tL3Rva2VuIiwiaWF0IjoxNTYyMjYyNjE2fQ.2-GxA6T8lP4vfrg8v-F"
        "dWP0A0zdrj8igiMLvqRMUvwnQg4PtFLbdLXiOSsX0x7NVY-FNyJK70nfbV37xRZT3Lg";
    const struct dpop_rule rule = {.method = "POST",
                                   .url = "https://server.example.com",
                                   .path = bytes_of_text("/token"),
                                   .nonces = nonces,
                                   .now_ms = INT64_C(1562262616000)};
    struct dpop_proof proof;
    struct error err = {0};

    (void)state;
    must(dpop_read(text, &rule, &proof, &err), &err);
    assert_string_equal(proof.key, "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I");
    assert_false(proof.is_fresh);
}

static void a_key_of_ed25519(void **state)
{
    OWNED_STRING text = proof_of(edwards, "EdDSA", "{\"alg\":\"EdDSA\",\"jwk\":$EDWARDS,\"typ\":\"dpop+jwt\"}", PAYLOAD);
    OWNED_STRING other = proof_of(holder, "ES256", "{\"alg\":\"EdDSA\",\"jwk\":$EDWARDS,\"typ\":\"dpop+jwt\"}", PAYLOAD);
    struct dpop_proof proof;
    struct error err = {0};

    (void)state;
    must(read_at(text, "GET", PATH, &proof, &err), &err);
    assert_int_equal(strlen(proof.key), DPOP_KEY_SIZE - 1);
    assert_false(read_at(other, "GET", PATH, &proof, &err).ok);
}

/* Of another spelling of the same proof the digest is the same; of another jti or key it is another one. */
static void a_proof_is_spent_by_key_and_id(void **state)
{
    OWNED_STRING one = proof_of(holder, "ES256", HEADER, PAYLOAD);
    OWNED_STRING again = proof_of(holder, "ES256", HEADER, "{" REQUEST ",\"iat\":@-2,\"jti\":\"one\"}");
    OWNED_STRING two = proof_of(holder, "ES256", HEADER, "{" REQUEST ",\"iat\":@-1,\"jti\":\"two\"}");
    OWNED_STRING other = proof_of(stranger, "ES256", "{\"alg\":\"ES256\",\"jwk\":$OTHER,\"typ\":\"dpop+jwt\"}", PAYLOAD);
    const char *texts[] = {one, again, two, other};
    struct dpop_proof proofs[COUNT(texts)];
    struct error err = {0};

    (void)state;
    for (size_t i = 0; i < COUNT(texts); i++) must(read_at(texts[i], "GET", PATH, &proofs[i], &err), &err);
    assert_memory_equal(proofs[0].digest, proofs[1].digest, SHA256_SIZE);
    assert_memory_not_equal(proofs[0].digest, proofs[2].digest, SHA256_SIZE);
    assert_memory_not_equal(proofs[0].digest, proofs[3].digest, SHA256_SIZE);
}

/* Each byte of a good proof in turn, and each length. */
static void no_changed_proof_is_good(void **state)
{
    OWNED_STRING text = proof_of(holder, "ES256", HEADER, PAYLOAD);
    const size_t length = strlen(text);
    struct dpop_proof proof;

    (void)state;
    for (size_t at = 0; at < length; at++) {
        const char before = text[at];
        struct error err = {0};
        for (const char *to = "A_.= \x7f\xc3"; *to != '\0'; to++) {
            text[at] = *to;
            if (*to != before && read_at(text, "GET", PATH, &proof, &err).ok) fail_msg("'%c' at %zu is accepted", *to, at);
        }
        text[at] = '\0';
        if (read_at(text, "GET", PATH, &proof, &err).ok) fail_msg("%zu letters are accepted", at);
        text[at] = before;
    }
}

static void a_long_proof_is_refused(void **state)
{
    char text[DPOP_SIZE_MAX + 2];
    struct dpop_proof proof;
    struct error err = {0};

    (void)state;
    memset(text, 'A', sizeof text);
    text[sizeof text - 1] = '\0';
    assert_false(read_at(text, "GET", PATH, &proof, &err).ok);
    assert_non_null(strstr(err.message, "at most 4096"));
}

/* ---- with a token ---- */

/* A token of issuer A with this claim, and a proof that is made for the token if `ath` is NULL. */
static const struct use_row {
    const char *name, *bound; /* "$JKT": to the holder's key */
    const char *scheme;
    bool is_proven;
    const char *ath; /* NULL: that of the token */
    enum credential_endpoint endpoint;
    const char *why; /* NULL: it is good */
} uses[] = {
    {"a bound token with its proof", ",\"cnf\":{\"jkt\":\"$JKT\"}", "DPoP", true, NULL, CREDENTIAL_AT_ROUTE, NULL},
    {"the same in another case", ",\"cnf\":{\"jkt\":\"$JKT\"}", "dpop", true, NULL, CREDENTIAL_AT_ROUTE, NULL},
    {"at an upload session", ",\"cnf\":{\"jkt\":\"$JKT\"}", "DPoP", true, NULL, CREDENTIAL_AT_SESSION, NULL},
    {"a bound token as Bearer", ",\"cnf\":{\"jkt\":\"$JKT\"}", "Bearer", false, NULL, CREDENTIAL_AT_ROUTE,
     "no proof of this key"},
    {"a bound token as Bearer, with its proof", ",\"cnf\":{\"jkt\":\"$JKT\"}", "Bearer", true, NULL, CREDENTIAL_AT_ROUTE,
     "comes as DPoP"},
    {"without a proof", ",\"cnf\":{\"jkt\":\"$JKT\"}", "DPoP", false, NULL, CREDENTIAL_AT_ROUTE, "with one proof"},
    {"a token that is bound to another key", ",\"cnf\":{\"jkt\":\"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\"}", "DPoP", true,
     NULL, CREDENTIAL_AT_ROUTE, "no proof of this key"},
    {"a token that is not bound", "", "DPoP", true, NULL, CREDENTIAL_AT_ROUTE, "send it as Bearer"},
    {"a proof for another token", ",\"cnf\":{\"jkt\":\"$JKT\"}", "DPoP", true, "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
     CREDENTIAL_AT_ROUTE, "not the digest of this token"},
    {"a proof for no token", ",\"cnf\":{\"jkt\":\"$JKT\"}", "DPoP", true, "", CREDENTIAL_AT_ROUTE,
     "not the digest of this token"},
    {"at /token, where a proof names no token", ",\"cnf\":{\"jkt\":\"$JKT\"}", "Bearer", true, "", CREDENTIAL_AT_TOKEN, NULL},
    {"at /token, without a proof", ",\"cnf\":{\"jkt\":\"$JKT\"}", "Bearer", false, "", CREDENTIAL_AT_TOKEN,
     "no proof of this key"},
    {"bound to a certificate as well", ",\"cnf\":{\"jkt\":\"$JKT\",\"x5t#S256\":\"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\"}",
     "DPoP", true, NULL, CREDENTIAL_AT_ROUTE, "certificate that was not presented"},
    {"bound in an unknown way as well", ",\"cnf\":{\"jkt\":\"$JKT\",\"kid\":\"x\"}", "DPoP", true, NULL, CREDENTIAL_AT_ROUTE,
     "not known here"},
    {"bound to nothing", ",\"cnf\":{}", "Bearer", false, NULL, CREDENTIAL_AT_ROUTE, "not known here"},
};

static char *token_with(const char *bound)
{
    OWNED_STRING payload = NULL;
    OWNED_STRING filled = NULL;
    const char *at = strstr(bound, "$JKT");
    const int before = at == NULL ? (int)strlen(bound) : (int)(at - bound);

    assert_true(asprintf(&payload, "{" A_CLAIMS ",\"iat\":@-10,\"exp\":@+300%.*s%s%s}", before, bound, at == NULL ? "" : held_key,
                         at == NULL ? "" : at + 4) > 0);
    filled = fill(payload);
    return hostile_token(world.a, "ES256", A_HEADER, filled);
}

static struct dpop_proof proof_for(const char *token, const char *ath)
{
    uint8_t digest[SHA256_SIZE];
    struct buffer OWNED_BUFFER text = BUFFER(64);
    struct dpop_proof proof;
    struct error err = {0};
    OWNED_STRING payload = NULL;

    sha256_of(bytes_of_text(token), digest);
    must(text_base64(&text, BASE64_URL, (struct bytes){digest, sizeof digest}, &err), &err);
    const char *said = ath == NULL ? buffer_text(&text) : ath;
    assert_true(asprintf(&payload, "{" REQUEST "," TIMED ",\"nonce\":\"" NONCE "\"%s%s%s}", said[0] == '\0' ? "" : ",\"ath\":\"",
                         said, said[0] == '\0' ? "" : "\"") > 0);
    OWNED_STRING made = proof_of(holder, "ES256", HEADER, payload);
    must(read_at(made, "GET", PATH, &proof, &err), &err);
    return proof;
}

static void a_use(void **state)
{
    const struct use_row *row = *state;
    OWNED_STRING token = token_with(row->bound);
    OWNED_STRING header = NULL;
    const struct dpop_proof proof = proof_for(token, row->ath);

    assert_true(asprintf(&header, "%s %s", row->scheme, token) > 0);
    const struct authentication found = try_credential(
        (struct credential){.endpoint = row->endpoint, .authorization = header, .proof = row->is_proven ? &proof : NULL});
    if (row->why == NULL) {
        if (found.error != OAUTH_NONE) fail_msg("%s", found.description);
        assert_int_equal(found.principal.kind, PRINCIPAL_EXTERNAL);
        assert_string_equal(found.principal.confirmation, ""); /* sessions of uploads belong to no key */
    } else {
        assert_int_not_equal(found.error, OAUTH_NONE);
        assert_int_equal(found.principal.kind, PRINCIPAL_NONE);
        if (strstr(found.description, row->why) == NULL) fail_msg("'%s' does not say '%s'", found.description, row->why);
    }
}

/* ---- nonces ---- */

static void a_nonce_counts_in_its_period_and_the_next(void **state)
{
    const int64_t start_ms = world.now_s / KEYD_NONCE_PERIOD_S * KEYD_NONCE_PERIOD_S * 1000;
    const int64_t period_ms = KEYD_NONCE_PERIOD_S * 1000;
    char newest[DPOP_NONCE_SIZE], later[DPOP_NONCE_SIZE];

    (void)state;
    assert_true(dpop_nonces_newest(nonces, start_ms, newest));
    assert_string_equal(newest, NONCE);
    assert_true(dpop_nonces_accept(nonces, start_ms, NONCE));
    assert_true(dpop_nonces_accept(nonces, start_ms + 2 * period_ms - 1, NONCE));
    assert_false(dpop_nonces_accept(nonces, start_ms + 2 * period_ms, NONCE));
    assert_true(dpop_nonces_accept(nonces, start_ms - 1, NONCE)); /* by a gateway whose clock is behind */
    assert_false(dpop_nonces_accept(nonces, start_ms - period_ms - 1, NONCE));
    assert_true(dpop_nonces_newest(nonces, start_ms + period_ms, later));
    assert_string_not_equal(later, NONCE);
    assert_false(dpop_nonces_accept(nonces, start_ms, NULL));
    assert_false(dpop_nonces_accept(nonces, start_ms, ""));
    assert_false(
        dpop_nonces_newest(nonces, start_ms + KEYD_NONCES_COUNT * period_ms, later)); /* sijil-keyd has not been asked for long */
}

static struct result read_one(void *context, struct error *err)
{
    struct dpop_proof proof;

    return read_at(context, "GET", PATH, &proof, err);
}

static void without_memory(void **state)
{
    OWNED_STRING text = proof_of(holder, "ES256", HEADER, PAYLOAD);
    OWNED_STRING other = proof_of(edwards, "EdDSA", "{\"alg\":\"EdDSA\",\"jwk\":$EDWARDS,\"typ\":\"dpop+jwt\"}", PAYLOAD);

    (void)state;
    fail_each(read_one, text, ERROR_NO_MEMORY, 4);
    fail_each(read_one, other, ERROR_NO_MEMORY, 4);
}

int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(the_example_of_the_specification),
        cmocka_unit_test(a_key_of_ed25519),
        cmocka_unit_test(a_proof_is_spent_by_key_and_id),
        cmocka_unit_test(no_changed_proof_is_good),
        cmocka_unit_test(a_long_proof_is_refused),
        cmocka_unit_test(a_nonce_counts_in_its_period_and_the_next),
        cmocka_unit_test(without_memory),
    };
    int failed = begin(NULL);

    failed += RUN_TABLE(rows, a_proof);
    failed += RUN_TABLE(uses, a_use);
    failed += cmocka_run_group_tests(others, NULL, NULL);
    return failed + end(NULL);
}
