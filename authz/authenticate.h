/*
 * authz/authenticate.h -- turns an Authorization header into a principal, or into the error for the challenge.
 *
 * Order: the form of the token (authz/jws.h), the signature (liboauth2), our own checks of the claims, the robot or
 * issuer in the newest snapshot. Does no I/O and takes no lock for long, so event threads may call it. Accepts a
 * token of ours, or a trusted issuer's JWT with our audience. A robot's secret is accepted at /token, and below /v2
 * if the robot has roles on content only (docs/identity.md).
 */
#pragma once

#include "authz/attempts.h"
#include "authz/dpop.h"
#include "authz/snapshot.h"
#include "authz/trust_login.h"
#include "crypto/keyd_client.h"

struct authenticator;

struct authenticator_options {
    const char *issuer;                   /* `iss` of our tokens: the registry's public URL, without a final "/" */
    const char *service;                  /* `aud` of our tokens: the service id of the challenge */
    const char *token_kid;                /* of keyd's token key (struct keyd_identity) */
    const uint8_t *token_public;          /* 65 bytes; copied */
    struct authz_directory *directory;    /* must outlive the authenticator */
    struct attempts_limits wrong_secrets; /* how many may be tried */
};
RESULT authenticator_new(const struct authenticator_options *options, struct authenticator **authenticator_out,
                         struct error *err);

/* constant, name in RFC 6750, 6749, 8693, 9449 or 9470 ("too_many_attempts" is ours: no RFC has a name for it), HTTP status */
#define OAUTH_ERRORS(X)                                       \
    X(OAUTH_INVALID_REQUEST, "invalid_request", 400)          \
    X(OAUTH_INVALID_TOKEN, "invalid_token", 401)              \
    X(OAUTH_INVALID_CLIENT, "invalid_client", 401)            \
    X(OAUTH_INVALID_GRANT, "invalid_grant", 400)              \
    X(OAUTH_INSUFFICIENT_SCOPE, "insufficient_scope", 401)    \
    X(OAUTH_INVALID_SCOPE, "invalid_scope", 400)              \
    X(OAUTH_INVALID_TARGET, "invalid_target", 400)            \
    X(OAUTH_UNSUPPORTED_GRANT, "unsupported_grant_type", 400) \
    X(OAUTH_INVALID_PROOF, "invalid_dpop_proof", 400)         \
    X(OAUTH_USE_NONCE, "use_dpop_nonce", 400)                 \
    X(OAUTH_STEP_UP, "insufficient_user_authentication", 401) \
    X(OAUTH_ACT, "request_signature_required", 401)           \
    X(OAUTH_TOO_MANY, "too_many_attempts", 429)

enum oauth_error {
    OAUTH_NONE = 0,
#define X(constant, name, status) constant,
    OAUTH_ERRORS(X)
#undef X
};
/** "invalid_token" and so on; "" for OAUTH_NONE. */
const char *oauth_error_name(enum oauth_error error);
unsigned oauth_error_status(enum oauth_error error);

/**
 * The kind of endpoint that the credential was sent to. A route of an upload session accepts a token up to a day
 * after its exp, because the session has a limit of its own.
 */
enum credential_endpoint { CREDENTIAL_AT_TOKEN, CREDENTIAL_AT_ROUTE, CREDENTIAL_AT_SESSION };
#define SESSION_GRACE_S 86400

/** What the client says that the token of an exchange is (RFC 8693, 3). */
enum subject_token { SUBJECT_TOKEN_ANY, SUBJECT_TOKEN_ACCESS, SUBJECT_TOKEN_ID };

struct credential {
    enum credential_endpoint endpoint;
    enum subject_token subject_token;
    bool takes_secrets;             /* the route is below /v2 or /scim/v2: clients may send Basic */
    bool takes_bare_secrets;        /* below /scim/v2: clients that only know Bearer send name:secret in base64 */
    const char *authorization;      /* the header's value; NULL without one */
    const char *thumbprint;         /* x5t#S256 of the client's certificate; NULL without one */
    bool is_plain;                  /* name and password were in a form, and are written into the header as they are */
    bool is_certificate;            /* the password is what TLS says of the client's certificate (authz/robot.h), and no secret */
    const struct dpop_proof *proof; /* of the client's key: good but for the token that comes with it; NULL without one */
    struct trust_use *rule; /* at /token: zeroed, for the trust rule that the token of a CI system matches; NULL elsewhere */
    const struct sockaddr *client; /* wrong secrets are counted for its network; NULL: it came through a local proxy */
    int64_t now_ms;
};

struct authentication {
    enum oauth_error error; /* OAUTH_NONE: `principal` is set (PRINCIPAL_NONE without any credential) */
    char description[200];  /* of the error, for a person and for error_description; no secret, no quotes */
    unsigned wait_s;        /* OAUTH_TOO_MANY: for Retry-After */
    unsigned age_s;         /* OAUTH_STEP_UP: the most that the login may be ago */
    bool needs_proof;       /* a token that is bound to a key is demanded, so the challenge is DPoP */
    bool is_waiting;        /* an issuer is being asked about the token: nothing else is set, and the check is made again soon */
    /*
     * After a wrong secret: the robot's name, for the sealed part of the event. "" if the text can't be a robot's
     * name, because people paste secrets into that field.
     */
    char tried[ROBOT_NAME_SIZE];
    struct principal principal;
};

/** A bad credential is not a failure. ERROR_NO_MEMORY; ERROR_UNAVAILABLE before the first snapshot. */
RESULT authenticate(struct authenticator *authenticator, const struct credential *credential,
                    struct authentication *authentication_out, struct error *err);
/**
 * As authenticate(), for a bare token, such as the subject_token of RFC 8693. A token of ours is refused: it can't be
 * exchanged for another.
 */
RESULT authenticate_token(struct authenticator *authenticator, const struct credential *credential, struct bytes token,
                          struct authentication *authentication_out, struct error *err);

/**
 * Replaces the keys of our own tokens by these points of P-256, at least one; the first signs now. Tokens by other keys end. Thread-safe.
 * ERROR_INVALID, ERROR_NO_MEMORY: the keys from before stay.
 */
RESULT authenticator_set_keys(struct authenticator *authenticator, const uint8_t points[][65], size_t count, struct error *err);
/** Appends the key set of our own tokens (RFC 7517), for others that verify them. */
RESULT authenticator_jwks(struct authenticator *authenticator, struct buffer *jwks, struct error *err);
#define AUTHENTICATOR_JWKS_MAX 4096

/** The `iss` and `aud` of our tokens. */
const char *authenticator_issuer(const struct authenticator *authenticator);
const char *authenticator_service(const struct authenticator *authenticator);
/** The counts of wrong secrets, for credentials that are checked elsewhere. */
struct attempts *authenticator_attempts(const struct authenticator *authenticator);
/** How many signatures were checked, and how many came from the cache. */
void authenticator_counts(const struct authenticator *authenticator, uint64_t *verified_out, uint64_t *cached_out);

void authenticator_free(struct authenticator *authenticator);
DEFINE_OWNED(authenticator);
