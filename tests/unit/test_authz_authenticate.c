/* From a header to a principal: secrets, tokens as passwords, sessions, and the cache. */
#include "tests/support/token_world.h"

static void a_token_becomes_a_principal(void **state)
{
    OWNED_STRING token = make_token(&GOOD_ROW);
    OWNED_STRING own = make_token(&OWN_ROW);

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
        "",
        BY_A,
        "ES256",
        A_HEADER,
        "{" A_CLAIMS ",\"iat\":@-10,\"exp\":@+300,\"cnf\":{\"x5t#S256\":\"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\"}}",
        NULL};
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
    const struct token_row late = {
        "", BY_US, "ES256", O_HEADER, "{" O_CLAIMS ",\"aud\":\"" SERVICE "\",\"iat\":@-700,\"exp\":@-100}", NULL};
    const struct token_row too_late = {
        "", BY_US, "ES256", O_HEADER, "{" O_CLAIMS ",\"aud\":\"" SERVICE "\",\"iat\":@-87000,\"exp\":@-86500}", NULL};
    const struct token_row forged = {
        "", BY_A, "ES256", O_HEADER, "{" O_CLAIMS ",\"aud\":\"" SERVICE "\",\"iat\":@-700,\"exp\":@-100}", NULL};
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
    assert_int_equal(try_bearer(CREDENTIAL_AT_SESSION, external).error, OAUTH_NONE);
    assert_int_equal(try_bearer(CREDENTIAL_AT_ROUTE, external).error, OAUTH_INVALID_TOKEN);
    external[strlen(external) - 10] ^= 1;
    assert_int_equal(try_bearer(CREDENTIAL_AT_SESSION, external).error, OAUTH_INVALID_TOKEN);
}

/* Encoded at run time, so that the rows are readable. */
static const struct basic_row {
    const char *name;
    enum credential_endpoint endpoint;
    const char *scheme, *credentials; /* credentials NULL: `scheme` is the whole header */
    enum oauth_error error;
} basic_rows[] = {
    {"a robot's secret at /token", CREDENTIAL_AT_TOKEN, "Basic", "robot$acme+ci:" SECRET, OAUTH_NONE},
    {"the scheme in small letters", CREDENTIAL_AT_TOKEN, "basic", "robot$acme+ci:" SECRET, OAUTH_NONE},
    {"as in a form", CREDENTIAL_AT_TOKEN, "Basic", "robot%24acme%2Bci:" SECRET, OAUTH_NONE},
    {"a colon in small digits is no colon of the pair", CREDENTIAL_AT_TOKEN, "Basic", "robot%24acme%2bci%3a:" SECRET,
     OAUTH_INVALID_CLIENT},
    {"a plus sign in a form is a space", CREDENTIAL_AT_TOKEN, "Basic", "robot%24acme+ci:" SECRET, OAUTH_INVALID_CLIENT},
    {"decoded once", CREDENTIAL_AT_TOKEN, "Basic", "robot%2524acme%252Bci:" SECRET, OAUTH_INVALID_CLIENT},
    {"half an escape", CREDENTIAL_AT_TOKEN, "Basic", "robot%24acme%2Bci:" SECRET "%4", OAUTH_INVALID_REQUEST},
    {"an escape that is none", CREDENTIAL_AT_TOKEN, "Basic", "robot%24acme%2Bci:" SECRET "%g0", OAUTH_INVALID_REQUEST},
    {"an escaped NUL", CREDENTIAL_AT_TOKEN, "Basic", "robot%24acme%2Bci%00:" SECRET, OAUTH_INVALID_REQUEST},
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
    if (row->credentials != NULL) assert_true(text_base64(&header, BASE64_STANDARD, bytes_of_text(row->credentials), &err).ok);
    const struct authentication found = try_at(row->endpoint, buffer_text(&header), NULL);
    assert_int_equal(found.error, row->error);
    if (row->error != OAUTH_NONE) {
        assert_null(strstr(found.description, SECRET));
        return;
    }
    assert_int_equal(found.principal.kind, PRINCIPAL_ROBOT);
    assert_false(found.principal.is_limited);
    assert_string_equal(found.principal.source, "robot:" ROBOT);
}

/* Below /v2, where a secret may come with each request. */
static const struct secret_row {
    const char *name;
    enum credential_endpoint endpoint;
    const char *credentials;
    enum oauth_error error;
} secret_rows[] = {
    {"a robot's secret", CREDENTIAL_AT_ROUTE, "robot$acme+ci:" SECRET, OAUTH_NONE},
    {"of a session", CREDENTIAL_AT_SESSION, "robot$acme+ci:" SECRET, OAUTH_NONE},
    {"of one that governs others", CREDENTIAL_AT_ROUTE, "robot$officer:" SECRET, OAUTH_INVALID_TOKEN},
    {"of one that did once", CREDENTIAL_AT_ROUTE, "robot$retired:" SECRET, OAUTH_NONE},
    {"of one that governs others, in a session", CREDENTIAL_AT_SESSION, "robot$officer:" SECRET, OAUTH_INVALID_TOKEN},
    {"of one that governs others, at /token", CREDENTIAL_AT_TOKEN, "robot$officer:" SECRET, OAUTH_NONE},
    {"a wrong one", CREDENTIAL_AT_ROUTE, "robot$acme+ci:sijil_x", OAUTH_INVALID_TOKEN},
    {"an unknown robot", CREDENTIAL_AT_ROUTE, "robot$nobody:" SECRET, OAUTH_INVALID_TOKEN},
    {"a robot that expired", CREDENTIAL_AT_ROUTE, "robot$old:" SECRET, OAUTH_INVALID_TOKEN},
    {"a token as password", CREDENTIAL_AT_ROUTE, "oidc:" SECRET, OAUTH_INVALID_TOKEN},
    {"no password", CREDENTIAL_AT_ROUTE, "robot$acme+ci:", OAUTH_INVALID_REQUEST},
};

static void secrets_come_with_a_request(void **state)
{
    const struct secret_row *row = *state;
    struct buffer OWNED_BUFFER header = BUFFER(4096);
    struct error err = {0};

    assert_true(buffer_add_text(&header, "Basic ", &err).ok);
    assert_true(text_base64(&header, BASE64_STANDARD, bytes_of_text(row->credentials), &err).ok);
    const struct authentication found = try_credential(
        (struct credential){.endpoint = row->endpoint, .takes_secrets = true, .authorization = buffer_text(&header)});
    assert_int_equal(found.error, row->error);
    assert_int_equal(found.principal.kind, row->error == OAUTH_NONE ? PRINCIPAL_ROBOT : PRINCIPAL_NONE);
    assert_null(strstr(found.description, SECRET));
}

static void a_token_may_be_a_password(void **state)
{
    static const char *const names[] = {"oidc", "oauth2accesstoken", "<token>"};
    OWNED_STRING token = make_token(&GOOD_ROW);
    OWNED_STRING own = make_token(&OWN_ROW);

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
    const struct credential credential = {.endpoint = CREDENTIAL_AT_TOKEN, .now_ms = world.now_s * 1000};
    struct authentication found;
    struct error err = {0};
    assert_true(authenticate_token(world.authenticator, &credential, bytes_of_text(token), &found, &err).ok);
    assert_int_equal(found.error, OAUTH_NONE);
    assert_true(authenticate_token(world.authenticator, &credential, bytes_of_text(own), &found, &err).ok);
    assert_int_equal(found.error, OAUTH_INVALID_GRANT);
}

static enum oauth_error exchange(const char *token, enum subject_token kind)
{
    const struct credential credential = {.endpoint = CREDENTIAL_AT_TOKEN, .subject_token = kind, .now_ms = world.now_s * 1000};
    struct authentication found;
    struct error err = {0};

    assert_true(authenticate_token(world.authenticator, &credential, bytes_of_text(token), &found, &err).ok);
    return found.error;
}

/* RFC 8693, 3: what the client says that it exchanges is what it exchanges. */
static void kinds_of_tokens_are_not_mixed_up(void **state)
{
    static const struct token_row login = {
        "", BY_A, "ES256", A_HEADER, "{" A_CLAIMS ",\"iat\":@-10,\"exp\":@+300,\"nonce\":\"n\"}", NULL};
    static const struct token_row access = {"",        BY_A, "ES256", "{\"alg\":\"ES256\",\"typ\":\"at+jwt\",\"kid\":\"key-a\"}",
                                            A_PAYLOAD, NULL};
    OWNED_STRING of_login = make_token(&login);
    OWNED_STRING of_access = make_token(&access);
    OWNED_STRING of_job = make_token(&GOOD_ROW);

    (void)state;
    assert_int_equal(exchange(of_login, SUBJECT_TOKEN_ANY), OAUTH_NONE);
    assert_int_equal(exchange(of_login, SUBJECT_TOKEN_ID), OAUTH_NONE);
    assert_int_equal(exchange(of_login, SUBJECT_TOKEN_ACCESS), OAUTH_INVALID_GRANT);
    assert_int_equal(exchange(of_access, SUBJECT_TOKEN_ANY), OAUTH_NONE);
    assert_int_equal(exchange(of_access, SUBJECT_TOKEN_ID), OAUTH_INVALID_GRANT);
    assert_int_equal(exchange(of_access, SUBJECT_TOKEN_ACCESS), OAUTH_NONE);
    assert_int_equal(exchange(of_job, SUBJECT_TOKEN_ID), OAUTH_NONE);
    assert_int_equal(exchange(of_job, SUBJECT_TOKEN_ACCESS), OAUTH_NONE);
}

/* A snapshot shares the issuers of the one before that are the same; an issuer that is followed may have no keys yet, and asks for them. */
static void issuers_are_followed(void **state)
{
    OWNED_STRING jwks = hostile_jwks(world.a, "key-a", NULL);
    OWNED_STRING other = hostile_jwks(world.b, "key-a", NULL);
    OWNED_STRING text = make_token(&GOOD_ROW);
    struct issuer_record record = make_issuer(ISSUER_A, 1U << JOSE_ES256, "");
    struct jws OWNED_JWS token = {0};
    OWNED(issuer) *unasked = NULL;
    OWNED(issuer) *issuer = NULL;
    struct error err = {0};

    (void)state;
    assert_true(jws_parse(bytes_of_text(text), &token, &err).ok);
    assert_false(issuer_new(&record, &unasked, &err).ok);
    record.follows = true;
    assert_true(issuer_new(&record, &unasked, &err).ok);
    assert_false(issuer_take_wish(unasked));
    assert_false(issuer_verify(unasked, &token, false, &err).ok);
    assert_non_null(strstr(err.message, "could not be fetched yet"));
    assert_true(issuer_take_wish(unasked) && !issuer_take_wish(unasked));

    record.jwks = jwks;
    record.confirmed_ms = clock_wall_ms() - (ISSUER_STALE_S + 1) * INT64_C(1000);
    assert_true(issuer_new(&record, &issuer, &err).ok);
    assert_false(issuer_verify(issuer, &token, false, &err).ok);
    assert_non_null(strstr(err.message, "has not confirmed its keys for a day"));
    assert_int_equal(issuer_key_serial(issuer, &token), 0);
    record.confirmed_ms = clock_wall_ms();
    assert_true(issuer_equals(issuer, &record)); /* takes the new time */
    assert_true(issuer_verify(issuer, &token, false, &err).ok);
    assert_false(issuer_take_wish(issuer));
    record.jwks = other;
    assert_false(issuer_equals(issuer, &record));
    record.jwks = jwks;
    record.lifetime_max_s++;
    assert_false(issuer_equals(issuer, &record));
    OWNED(issuer) *kept = issuer_keep(issuer);
    assert_ptr_equal(kept, issuer);
}

/* The key of tokens changes while they are in use: none is refused that its key still vouches for. */
static void our_keys_rotate(void **state)
{
    static const struct token_row ours_by_a = {
        "", BY_A, "ES256", "{\"alg\":\"ES256\",\"typ\":\"sijil-reg+jwt\",\"kid\":\"$KID\"}", O_PAYLOAD, NULL};
    char before[ECDSA_THUMBPRINT_SIZE];
    uint8_t points[2][65];
    struct buffer OWNED_BUFFER jwks = BUFFER(AUTHENTICATOR_JWKS_MAX);
    struct error err = {0};

    (void)state;
    OWNED_STRING old = make_token(&OWN_ROW);
    memcpy(before, world.our_kid, sizeof before);
    hostile_point(world.a, points[0]);
    hostile_point(world.ours, points[1]);
    ecdsa_thumbprint(points[0], world.our_kid);
    OWNED_STRING fresh = make_token(&ours_by_a);

    assert_int_equal(try_bearer(CREDENTIAL_AT_ROUTE, fresh).error, OAUTH_INVALID_TOKEN);
    assert_true(authenticator_set_keys(world.authenticator, (const uint8_t(*)[65])points, 2, &err).ok);
    assert_int_equal(try_bearer(CREDENTIAL_AT_ROUTE, old).error, OAUTH_NONE);
    assert_int_equal(try_bearer(CREDENTIAL_AT_ROUTE, fresh).error, OAUTH_NONE);
    assert_true(authenticator_jwks(world.authenticator, &jwks, &err).ok);
    assert_non_null(strstr(buffer_text(&jwks), before));
    assert_non_null(strstr(buffer_text(&jwks), world.our_kid));
    assert_null(strstr(buffer_text(&jwks), "\"d\""));
    assert_true(authenticator_set_keys(world.authenticator, (const uint8_t(*)[65])points, 1, &err).ok);
    assert_int_equal(try_bearer(CREDENTIAL_AT_ROUTE, old).error, OAUTH_INVALID_TOKEN); /* from the cache, too */
    assert_int_equal(try_bearer(CREDENTIAL_AT_ROUTE, fresh).error, OAUTH_NONE);
    memset(points[0] + 1, 0, 64); /* not on the curve */
    assert_false(authenticator_set_keys(world.authenticator, (const uint8_t(*)[65])points, 1, &err).ok);
    assert_int_equal(try_bearer(CREDENTIAL_AT_ROUTE, fresh).error, OAUTH_NONE);

    memcpy(world.our_kid, before, sizeof before);
    assert_true(authenticator_set_keys(world.authenticator, (const uint8_t(*)[65])(points + 1), 1, &err).ok);
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
    OWNED_STRING token = make_token(&GOOD_ROW);
    uint64_t verified = 0, cached = 0, verified_again = 0, cached_again = 0;

    (void)state;
    authenticator_counts(world.authenticator, &verified, &cached);
    assert_int_equal(try_bearer(CREDENTIAL_AT_ROUTE, token).error, OAUTH_NONE);
    assert_int_equal(try_bearer(CREDENTIAL_AT_ROUTE, token).error, OAUTH_NONE);
    authenticator_counts(world.authenticator, &verified_again, &cached_again);
    assert_int_equal(verified_again, verified + 1);
    assert_int_equal(cached_again, cached + 1);

    /* Time passes: the claims are checked again. */
    OWNED_STRING header = NULL;
    assert_true(asprintf(&header, "Bearer %s", token) > 0);
    const struct credential later = {
        .endpoint = CREDENTIAL_AT_ROUTE, .authorization = header, .now_ms = (world.now_s + 300) * 1000};
    struct authentication found;
    struct error err = {0};
    assert_true(authenticate(world.authenticator, &later, &found, &err).ok);
    assert_int_equal(found.error, OAUTH_INVALID_TOKEN);

    /* The issuer is not trusted any more: its tokens, and our tokens made from them, end at once. */
    publish(&(struct authz_parts){.robot_count = 0});
    assert_int_equal(try_bearer(CREDENTIAL_AT_ROUTE, token).error, OAUTH_INVALID_TOKEN);
    OWNED_STRING own = make_token(&OWN_ROW);
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
    OWNED_STRING text = make_token(&GOOD_ROW);
    const struct issuer_record record = make_issuer(ISSUER_A, 1U << JOSE_ES256, first);
    struct jws OWNED_JWS token = {0};
    OWNED(issuer) *issuer = NULL;
    struct error err = {0};

    (void)state;
    assert_true(issuer_new(&record, &issuer, &err).ok);
    assert_true(jws_parse(bytes_of_text(text), &token, &err).ok);
    assert_true(issuer_verify(issuer, &token, false, &err).ok);
    assert_false(issuer_replace_keys(issuer, "{\"keys\":[]}", &err).ok);
    assert_true(issuer_verify(issuer, &token, false, &err).ok);
    assert_true(issuer_replace_keys(issuer, second, &err).ok);
    assert_false(issuer_verify(issuer, &token, false, &err).ok);
    assert_int_equal(err.kind, ERROR_DENIED);
    assert_int_equal(issuer_key_serial(issuer, &token), 0);
}

static struct result authenticate_once(void *header, struct error *err)
{
    const struct credential credential = {.endpoint = CREDENTIAL_AT_ROUTE, .authorization = header, .now_ms = world.now_s * 1000};
    struct authentication found;

    TRY_UNTOUCHED_BYTES(found, authenticate(world.authenticator, &credential, &found, err));
    assert_int_equal(found.error, OAUTH_NONE);
    return SUCCESS;
}

static void authenticating_survives_lack_of_memory(void **state)
{
    const struct token_row row = {"", BY_A, "ES256", A_HEADER, A_PAYLOAD, NULL};
    OWNED_STRING token = make_token(&row); /* its signature is cached only once it was found good */
    OWNED_STRING header = NULL;

    (void)state;
    assert_true(asprintf(&header, "Bearer %s", token) > 0);
    fail_each(authenticate_once, header, ERROR_NO_MEMORY, 3);
}

static struct result build_once(void *parts, struct error *err)
{
    OWNED(authz_snapshot) *snapshot = NULL;

    TRY_UNTOUCHED_BYTES(snapshot, authz_snapshot_build(parts, &snapshot, err));
    return SUCCESS;
}

static void making_issuers_survives_lack_of_memory(void **state)
{
    OWNED_STRING jwks = hostile_jwks(world.a, "key-a", NULL);
    const struct issuer_record record = make_issuer(ISSUER_A, 1U << JOSE_ES256, jwks);
    struct authz_parts parts = {.issuers = &record, .issuer_count = 1};

    (void)state;
    fail_each(build_once, &parts, ERROR_NO_MEMORY, 10);
}

int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(a_token_becomes_a_principal),
        cmocka_unit_test(a_bound_token_works_with_its_certificate_only),
        cmocka_unit_test(a_session_outlives_its_token),
        cmocka_unit_test(a_token_may_be_a_password),
        cmocka_unit_test(kinds_of_tokens_are_not_mixed_up),
        cmocka_unit_test(our_keys_rotate),
        cmocka_unit_test(issuers_are_followed),
        cmocka_unit_test(no_credential_is_no_error),
        cmocka_unit_test(only_signatures_are_cached),
        cmocka_unit_test(keys_are_replaced_as_a_whole),
        cmocka_unit_test(authenticating_survives_lack_of_memory),
        cmocka_unit_test(making_issuers_survives_lack_of_memory),
    };

    (void)set_up(NULL);
    const int failed = RUN_TABLE(basic_rows, reads_basic) + RUN_TABLE(secret_rows, secrets_come_with_a_request) +
                       cmocka_run_group_tests_name("others", others, NULL, NULL);
    (void)tear_down(NULL);
    return failed;
}
