#include "authz/authenticate.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "authz/basic.h"
#include "authz/claims.h"
#include "authz/own_keys_priv.h"
#include "authz/own_token_priv.h"
#include "authz/robot.h"
#include "authz/token_cache.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/text.h"
#include "crypto/digest.h"
#include "crypto/ecdsa.h"

struct authenticator {
    char issuer[ISSUER_URL_SIZE], service[256];
    struct own_keys *keys;
    const struct issuer *own; /* the registry itself: its tokens are checked like those of any issuer */
    struct token_cache *cache;
    struct attempts *attempts;
    struct authz_directory *directory;
    atomic_ullong verified, cached;
};

/* The state of one call. */
struct attempt {
    struct authenticator *authenticator;
    const struct credential *credential;
    const struct authz_snapshot *snapshot;
    enum authorization_scheme scheme; /* with which the token came */
};

struct seen_token {
    struct jws token;
    uint8_t digest[SHA256_SIZE];
    uint64_t serial; /* of the key with which its signature was verified before, or 0 */
};

struct result authenticator_new(const struct authenticator_options *options, struct authenticator **authenticator_out,
                                struct error *err)
{
    OWNED(authenticator) *authenticator = memory_zeroed(1, sizeof *authenticator);
    char thumbprint[ECDSA_THUMBPRINT_SIZE];

    if (authenticator == NULL) return failure(err, ERROR_NO_MEMORY, "no memory to authenticate with");
    if (strlen(options->issuer) >= sizeof authenticator->issuer || strlen(options->service) >= sizeof authenticator->service)
        return failure(err, ERROR_INVALID, "the public URL or the service id is longer than 255 bytes");
    ecdsa_thumbprint(options->token_public, thumbprint);
    if (strcmp(thumbprint, options->token_kid) != 0)
        return failure(err, ERROR_INVALID, "keyd's token key does not have the id that keyd gave it");
    (void)snprintf(authenticator->issuer, sizeof authenticator->issuer, "%s", options->issuer);
    (void)snprintf(authenticator->service, sizeof authenticator->service, "%s", options->service);
    authenticator->directory = options->directory;
    TRY(own_keys_new(options, &authenticator->keys, err));
    authenticator->own = own_keys_issuer(authenticator->keys);
    TRY(token_cache_new(&authenticator->cache, err));
    TRY(attempts_new(&options->wrong_secrets, &authenticator->attempts, err));
    *authenticator_out = GIVE(authenticator);
    return SUCCESS;
}

struct result authenticator_set_keys(struct authenticator *authenticator, const uint8_t points[][ECDSA_PUBLIC_SIZE], size_t count,
                                     struct error *err)
{
    return own_keys_set(authenticator->keys, points, count, err);
}

struct result authenticator_jwks(struct authenticator *authenticator, struct buffer *jwks, struct error *err)
{
    return own_keys_write(authenticator->keys, jwks, err);
}

/* The description goes into a parameter of WWW-Authenticate, and a quote would end the parameter. */
static void refuse(struct authentication *authentication, enum oauth_error error, const char *description)
{
    *authentication = (struct authentication){.error = error};
    (void)snprintf(authentication->description, sizeof authentication->description, "%s", description);
    for (char *at = authentication->description; *at != '\0'; at++)
        if (*at == '"' || *at == '\\' || (unsigned char)*at < ' ' || (unsigned char)*at > '~') *at = '\'';
}

/* An error of the credential becomes the answer for the client; any other error is returned. */
static struct result answer(const struct error *cause, enum oauth_error error, struct authentication *authentication,
                            struct error *err)
{
    if (cause->kind == ERROR_NO_MEMORY || cause->kind == ERROR_UNAVAILABLE) {
        *err = *cause;
        return (struct result){.ok = false};
    }
    refuse(authentication, error, cause->message);
    return SUCCESS;
}

static const struct issuer *find_issuer(const struct attempt *attempt, const struct jws *token)
{
    if (strcmp(token->issuer, attempt->authenticator->issuer) == 0) return attempt->authenticator->own;
    return authz_snapshot_issuer(attempt->snapshot, token->issuer);
}

static bool is_expired(const struct attempt *attempt, const struct jws *token)
{
    int64_t expires_s = 0;

    return claims_time(token->payload, "exp", &expires_s) && expires_s <= attempt->credential->now_ms / 1000;
}

static struct result check_signature(const struct attempt *attempt, const struct issuer *issuer, const struct seen_token *seen,
                                     struct error *err)
{
    struct authenticator *authenticator = attempt->authenticator;
    const struct jws *token = &seen->token;
    int64_t expires_s = 0;

    if (attempt->credential->endpoint == CREDENTIAL_AT_SESSION && is_expired(attempt, token))
        return issuer_verify(issuer, token, true, err);
    const uint64_t serial = issuer_key_serial(issuer, token);
    if (serial != 0 && serial == seen->serial) {
        atomic_fetch_add(&authenticator->cached, 1);
        return SUCCESS;
    }
    TRY(issuer_verify(issuer, token, false, err));
    atomic_fetch_add(&authenticator->verified, 1);
    if (claims_time(token->payload, "exp", &expires_s))
        token_cache_add(authenticator->cache, seen->digest, token, serial, expires_s);
    return SUCCESS;
}

/* principal->source is an id of this token that does not reveal the token. If the credential is revoked, the sessions that it
 * began end. */
static void fill_from_issuer(const struct seen_token *seen, const struct claims *claims, struct principal *principal)
{
    principal->kind = PRINCIPAL_EXTERNAL;
    (void)snprintf(principal->issuer, sizeof principal->issuer, "%s", claims->issuer);
    (void)snprintf(principal->subject, sizeof principal->subject, "%s", claims->subject);
    (void)snprintf(principal->source, sizeof principal->source, "token:");
    text_hex(seen->digest, sizeof seen->digest, principal->source + 6);
}

/* A subject of the issuer, or of the trust rule that the token matches. */
static struct result fill_by_rule(const struct attempt *attempt, const struct seen_token *seen, const struct claims *claims,
                                  struct principal *principal, struct error *err)
{
    const struct credential *credential = attempt->credential;
    const struct trust_login login = {.snapshot = attempt->snapshot,
                                      .payload = seen->token.payload,
                                      .claims = claims,
                                      .client = credential->client,
                                      .thumbprint = credential->thumbprint,
                                      .now_ms = credential->now_ms};

    fill_from_issuer(seen, claims, principal);
    return trust_login(&login, principal, credential->rule, err);
}

/* RFC 9449, 7.1 and 7.2: a bound token comes as DPoP, with a proof for this very token. /token takes it as a value, so there a proof names none. */
static struct result check_use(const struct attempt *attempt, const struct seen_token *seen, const struct claims *claims,
                               struct error *err)
{
    const bool is_dpop = attempt->scheme == AUTHORIZATION_DPOP;

    if (attempt->credential->endpoint == CREDENTIAL_AT_TOKEN) return SUCCESS;
    if (is_dpop && claims->key == NULL)
        return failure(err, ERROR_DENIED, "the token is bound to no key, and DPoP is for tokens that are: send it as Bearer");
    if (!is_dpop && claims->key != NULL)
        return failure(err, ERROR_DENIED, "the token is bound to a key: send it as DPoP, with a proof");
    if (!is_dpop || dpop_is_for(attempt->credential->proof, seen->digest)) return SUCCESS;
    return failure(err, ERROR_DENIED, "the proof's ath is not the digest of this token");
}

static struct result make_principal(const struct attempt *attempt, const struct issuer *issuer, const struct seen_token *seen,
                                    struct principal *principal_out, struct error *err)
{
    const struct issuer_record *record = issuer_record_of(issuer);
    const bool is_own = issuer == attempt->authenticator->own;
    const struct dpop_proof *proof = attempt->credential->proof;
    const struct claims_rule rule = {.audience = record->audience,
                                     .lifetime_max_s = record->lifetime_max_s,
                                     .subject_max =
                                         CLAIMS_SUBJECT_MAX + (is_own ? sizeof "ext::" - 1 + ISSUER_DIGEST_SIZE - 1 : 0),
                                     .grace_s = attempt->credential->endpoint == CREDENTIAL_AT_SESSION ? SESSION_GRACE_S : 0,
                                     .needs_id = is_own,
                                     .thumbprint = attempt->credential->thumbprint,
                                     .key = proof == NULL ? NULL : proof->key,
                                     .now_ms = attempt->credential->now_ms};
    struct claims claims;

    TRY(claims_check(seen->token.payload, &rule, &claims, err));
    TRY(check_use(attempt, seen, &claims, err));
    claims_fill(&claims, principal_out);
    const struct own_token own = {attempt->snapshot, attempt->credential, seen->token.payload, &claims};
    if (is_own) return own_token_principal(&own, principal_out, err);
    return fill_by_rule(attempt, seen, &claims, principal_out, err);
}

/* RFC 9068, 5 and RFC 8725, 3.11: a token of one kind is not accepted for one of another. */
static struct result check_kind(const struct attempt *attempt, const struct jws *token, struct error *err)
{
    const struct credential *credential = attempt->credential;
    const bool is_of_login = token->type == JWS_TYPE_JWT && claims_are_of_login(token->payload);

    if (json_object_get(token->payload, "events") != NULL)
        return failure(err, ERROR_DENIED, "the token tells of an event, such as a logout, and gives no access");
    if (is_of_login && credential->endpoint != CREDENTIAL_AT_TOKEN)
        return failure(err, ERROR_DENIED,
                       "the token is an ID token, which is for the client that logged in: exchange it at /token");
    if (is_of_login && credential->subject_token == SUBJECT_TOKEN_ACCESS)
        return failure(err, ERROR_DENIED, "subject_token is an ID token, and not an access_token");
    if (token->type == JWS_TYPE_ACCESS && credential->subject_token == SUBJECT_TOKEN_ID)
        return failure(err, ERROR_DENIED, "subject_token is an access token, and not an id_token");
    return SUCCESS;
}

static struct result check_seen_token(const struct attempt *attempt, const struct seen_token *seen, struct principal *principal,
                                      struct error *err)
{
    const struct issuer *issuer = find_issuer(attempt, &seen->token);

    if (issuer == NULL) return failure(err, ERROR_DENIED, "the token's issuer is not trusted here");
    if (issuer == attempt->authenticator->own && attempt->credential->endpoint == CREDENTIAL_AT_TOKEN)
        return failure(err, ERROR_DENIED, "tokens are made from a robot's secret or an issuer's token, not from tokens");
    TRY(check_signature(attempt, issuer, seen, err));
    if (issuer != attempt->authenticator->own) TRY(check_kind(attempt, &seen->token, err));
    return make_principal(attempt, issuer, seen, principal, err);
}

static struct result check_token(const struct attempt *attempt, struct bytes text, struct principal *principal, struct error *err)
{
    struct seen_token seen = {.serial = 0};

    sha256_of(text, seen.digest);
    seen.serial =
        token_cache_find(attempt->authenticator->cache, seen.digest, text, attempt->credential->now_ms / 1000, &seen.token);
    if (seen.token.header == NULL) TRY(jws_parse(text, &seen.token, err));
    const struct result checked = check_seen_token(attempt, &seen, principal, err);
    jws_done(&seen.token);
    return checked;
}

static struct result try_token(const struct attempt *attempt, struct bytes text, enum oauth_error error,
                               struct authentication *authentication, struct error *err)
{
    struct error cause = {0};

    if (check_token(attempt, text, &authentication->principal, &cause).ok) return SUCCESS;
    return answer(&cause, error, authentication, err);
}

/*
 * The work does not depend on whether the robot exists: one hash of the secret. A right secret is accepted even after
 * many wrong ones; else an attacker could lock out all clients behind the same address. More guesses are no risk,
 * because a secret has 256 random bits (decisions/0040).
 */
static const struct authz_robot *log_in(const struct attempt *attempt, struct bytes name, struct bytes secret,
                                        struct authentication *authentication)
{
    struct attempts *attempts = attempt->authenticator->attempts;
    const struct attempts_who who = {.client = attempt->credential->client, .name = name};
    unsigned wait_s = 0;

    const bool is_counted = attempts_begin(attempts, &who, clock_monotonic_ms(), &wait_s);
    const struct authz_robot *robot = authz_snapshot_login(attempt->snapshot, name, secret, attempt->credential->now_ms);
    if (robot_secret_names_certificate(secret) != attempt->credential->is_certificate) robot = NULL;
    if (robot == NULL && is_counted)
        refuse(authentication, OAUTH_INVALID_CLIENT, "unknown robot, wrong secret, or the robot was revoked or has expired");
    else if (robot == NULL)
        refuse(authentication, OAUTH_TOO_MANY,
               "too many wrong names and secrets came from your network; Retry-After says when to come again");
    if (robot == NULL && robot_name_is_possible(name))
        (void)snprintf(authentication->tried, sizeof authentication->tried, "%.*s", (int)name.length, (const char *)name.data);
    if (robot != NULL && is_counted) attempts_reset(attempts, &who, clock_monotonic_ms());
    authentication->wait_s = wait_s;
    return robot;
}

static void try_robot(const struct attempt *attempt, struct bytes name, struct bytes secret,
                      struct authentication *authentication)
{
    const struct authz_robot *robot = log_in(attempt, name, secret, authentication);
    struct principal *principal = &authentication->principal;

    if (robot == NULL) return;
    principal->kind = PRINCIPAL_ROBOT;
    principal->id = robot->id;
    principal->organisation = robot->organisation;
    principal->expires_ms = robot->expires_ms;
    principal->replaced_ms = authz_robot_replaced(robot, secret);
    (void)snprintf(principal->subject, sizeof principal->subject, "%s", robot->name);
    principal_key(principal, principal->source);
}

/* With one of these user names the password is a token. Any other name is that of a robot: there are no users with passwords. */
static bool announces_token(struct bytes name)
{
    return bytes_equal(name, bytes_of_text("oauth2accesstoken")) || bytes_equal(name, bytes_of_text("oidc")) ||
           bytes_equal(name, bytes_of_text("<token>"));
}

/* For /token, where the password may be a token or a robot's secret. */
static struct result try_login(const struct attempt *attempt, struct bytes name, struct bytes password,
                               struct authentication *authentication, struct error *err)
{
    if (announces_token(name)) return try_token(attempt, password, OAUTH_INVALID_CLIENT, authentication, err);
    try_robot(attempt, name, password, authentication);
    return SUCCESS;
}

/*
 * For a route of /v2, for clients that never ask for a token. Robots with rights over other principals must use
 * tokens, which live for minutes: a secret that is sent with each request is exposed more often. The challenge and
 * its errors are those of Bearer.
 */
static struct result try_secret(const struct attempt *attempt, struct bytes name, struct bytes secret,
                                struct authentication *authentication, struct error *err)
{
    const int64_t now_ms = attempt->credential->now_ms;

    (void)err;
    if (announces_token(name)) {
        refuse(authentication, OAUTH_INVALID_TOKEN, "a token goes into Authorization: Bearer, or to /token as a password");
        return SUCCESS;
    }
    try_robot(attempt, name, secret, authentication);
    if (authentication->error == OAUTH_INVALID_CLIENT) authentication->error = OAUTH_INVALID_TOKEN;
    else if (authentication->error == OAUTH_NONE &&
             !authz_snapshot_has_content_alone(attempt->snapshot, &authentication->principal, now_ms))
        refuse(authentication, OAUTH_INVALID_TOKEN,
               "a robot with an administrative role sends its secret to /token only, and here the token from there");
    return SUCCESS;
}

static struct result try_basic(const struct attempt *attempt, struct bytes value, struct authentication *authentication,
                               struct error *err)
{
    const bool is_login = attempt->credential->endpoint == CREDENTIAL_AT_TOKEN;
    struct buffer OWNED_BUFFER decoded = BUFFER(AUTHORIZATION_MAX);
    struct bytes name = {0}, password = {0};
    struct error cause = {0};

    const bool is_read = basic_read(value, &decoded, &name, &password, &cause).ok &&
                         (attempt->credential->is_plain || basic_unescape(&decoded, &name, &password, &cause).ok);
    const struct result result = is_read ? (is_login ? try_login : try_secret)(attempt, name, password, authentication, err)
                                         : answer(&cause, OAUTH_INVALID_REQUEST, authentication, err);
    if (decoded.data != NULL) secret_wipe(decoded.data, decoded.capacity);
    return result;
}

static struct result try_header(struct attempt *attempt, struct authentication *authentication, struct error *err)
{
    const bool is_at_token = attempt->credential->endpoint == CREDENTIAL_AT_TOKEN, has_proof = attempt->credential->proof != NULL;
    struct bytes value = {0};
    struct error cause = {0};

    if (!authorization_split(attempt->credential->authorization, &attempt->scheme, &value, &cause).ok)
        return answer(&cause, OAUTH_INVALID_REQUEST, authentication, err);
    /* A token has dots, base64 has none. */
    const bool is_bare = attempt->credential->takes_bare_secrets && attempt->scheme == AUTHORIZATION_BEARER &&
                         memchr(value.data, '.', value.length) == NULL;
    if (is_bare) return try_basic(attempt, value, authentication, err);
    if (!is_at_token && has_proof != (attempt->scheme == AUTHORIZATION_DPOP)) {
        refuse(authentication, OAUTH_INVALID_PROOF,
               "a token that is bound to a key comes as DPoP, with one proof; others need none");
        return SUCCESS;
    }
    if (attempt->scheme != AUTHORIZATION_BASIC) return try_token(attempt, value, OAUTH_INVALID_TOKEN, authentication, err);
    if (is_at_token || attempt->credential->takes_secrets) return try_basic(attempt, value, authentication, err);
    refuse(authentication, OAUTH_INVALID_TOKEN,
           "names and passwords are accepted at /token, /v2 and /scim/v2 only; send the token from there");
    return SUCCESS;
}

/* Takes the snapshot for all checks of one call. */
static struct result take_snapshot(struct authenticator *authenticator, struct authz_snapshot **snapshot_out, struct error *err)
{
    struct authz_snapshot *snapshot = authz_directory_take(authenticator->directory);

    if (snapshot == NULL) return failure(err, ERROR_UNAVAILABLE, "robots and issuers are not loaded yet");
    *snapshot_out = snapshot;
    return SUCCESS;
}

struct result authenticate(struct authenticator *authenticator, const struct credential *credential,
                           struct authentication *authentication_out, struct error *err)
{
    OWNED(authz_snapshot) *snapshot = NULL;
    struct authentication authentication = {.error = OAUTH_NONE};

    if (credential->authorization != NULL) {
        TRY(take_snapshot(authenticator, &snapshot, err));
        struct attempt attempt = {authenticator, credential, snapshot, AUTHORIZATION_BEARER};
        TRY(try_header(&attempt, &authentication, err));
    }
    *authentication_out = authentication;
    return SUCCESS;
}

struct result authenticate_token(struct authenticator *authenticator, const struct credential *credential, struct bytes token,
                                 struct authentication *authentication_out, struct error *err)
{
    OWNED(authz_snapshot) *snapshot = NULL;
    struct authentication authentication = {.error = OAUTH_NONE};

    TRY(take_snapshot(authenticator, &snapshot, err));
    const struct attempt attempt = {authenticator, credential, snapshot, AUTHORIZATION_BEARER};
    TRY(try_token(&attempt, token, OAUTH_INVALID_GRANT, &authentication, err));
    *authentication_out = authentication;
    return SUCCESS;
}

const char *authenticator_issuer(const struct authenticator *authenticator)
{
    return authenticator->issuer;
}

const char *authenticator_service(const struct authenticator *authenticator)
{
    return authenticator->service;
}

struct attempts *authenticator_attempts(const struct authenticator *authenticator)
{
    return authenticator->attempts;
}

void authenticator_counts(const struct authenticator *authenticator, uint64_t *verified_out, uint64_t *cached_out)
{
    *verified_out = atomic_load(&authenticator->verified);
    *cached_out = atomic_load(&authenticator->cached);
}

void authenticator_free(struct authenticator *authenticator)
{
    if (authenticator == NULL) return;
    own_keys_free(authenticator->keys);
    token_cache_free(authenticator->cache);
    attempts_free(authenticator->attempts);
    free(authenticator);
}
