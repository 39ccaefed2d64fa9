#include "authz/opaque_login.h"

#include <stdio.h>
#include <string.h>

#include "authz/claims.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"
#include "crypto/digest.h"

static void refuse(struct authentication *authentication, const char *why)
{
    *authentication = (struct authentication){.error = OAUTH_INVALID_GRANT};
    (void)snprintf(authentication->description, sizeof authentication->description, "%s", why);
    for (char *at = authentication->description; *at != '\0'; at++)
        if (*at == '"' || *at == '\\' || (unsigned char)*at < ' ' || (unsigned char)*at > '~') *at = '\'';
}

/* No token is shown to an issuer that is not its own: so a client names one, unless there is only one. */
static bool find_issuer(const struct opaque_login *login, size_t *number_out)
{
    const size_t count = introspection_count(login->introspection);

    *number_out = 0;
    if (login->issuer == NULL) return count == 1;
    for (size_t i = 0; i < count; i++) {
        *number_out = i;
        if (strcmp(introspection_client_at(login->introspection, i)->issuer, login->issuer) == 0) return true;
    }
    return false;
}

static void fill(const struct opaque_login *login, const struct claims *claims, struct principal *principal)
{
    uint8_t digest[SHA256_SIZE];

    sha256_of(login->token, digest);
    principal->kind = PRINCIPAL_EXTERNAL;
    (void)snprintf(principal->issuer, sizeof principal->issuer, "%s", claims->issuer);
    (void)snprintf(principal->subject, sizeof principal->subject, "%s", claims->subject);
    claims_fill(claims, principal);
    (void)snprintf(principal->source, sizeof principal->source, "token:");
    text_hex(digest, sizeof digest, principal->source + 6);
}

/* RFC 7662 lets an issuer leave `iat` out. Then a token counts as made now: it must not live longer than is accepted from now on. */
static struct result make_dated(const json_t *payload, int64_t now_ms, json_t **dated_out, struct error *err)
{
    OWNED_JSON dated = json_object();

    if (dated == NULL || json_object_update(dated, (json_t *)(uintptr_t)payload) != 0 ||
        json_object_set_new(dated, "iat", json_integer(now_ms / 1000)) != 0)
        return failure(err, ERROR_NO_MEMORY, "no memory for the claims of a token");
    *dated_out = GIVE(dated);
    return SUCCESS;
}

static struct result make_principal(const struct opaque_login *login, const struct authz_snapshot *snapshot,
                                    const struct issuer_record *record, const json_t *payload, struct principal *principal,
                                    struct error *err)
{
    const struct credential *credential = login->credential;
    const struct claims_rule rule = {.audience = record->audience,
                                     .lifetime_max_s = record->lifetime_max_s,
                                     .subject_max = CLAIMS_SUBJECT_MAX,
                                     .thumbprint = credential->thumbprint,
                                     .key = credential->proof == NULL ? NULL : credential->proof->key,
                                     .now_ms = credential->now_ms};
    const bool is_undated = json_object_get(payload, "iat") == NULL;
    struct claims claims;
    OWNED_JSON dated = NULL; /* views of it are in `claims` */

    if (is_undated) TRY(make_dated(payload, credential->now_ms, &dated, err));
    TRY(claims_check(is_undated ? dated : payload, &rule, &claims, err));
    fill(login, &claims, principal);
    const struct trust_login trust = {.snapshot = snapshot,
                                      .payload = payload,
                                      .claims = &claims,
                                      .is_undated = is_undated,
                                      .client = credential->client,
                                      .thumbprint = credential->thumbprint,
                                      .now_ms = credential->now_ms};
    return trust_login(&trust, principal, credential->rule, err);
}

static struct result answer(const struct opaque_login *login, const struct authz_snapshot *snapshot,
                            const struct issuer_record *record, const json_t *payload, struct authentication *authentication,
                            struct error *err)
{
    struct error why = {0};

    *authentication = (struct authentication){.error = OAUTH_NONE};
    if (make_principal(login, snapshot, record, payload, &authentication->principal, &why).ok) return SUCCESS;
    if (why.kind == ERROR_NO_MEMORY || why.kind == ERROR_UNAVAILABLE) return failure(err, why.kind, "%s", why.message);
    refuse(authentication, why.message);
    return SUCCESS;
}

static struct result conclude(enum introspection_state state, unsigned wait_s, struct authentication *authentication,
                              struct error *err)
{
    switch (state) {
    case INTROSPECTION_INACTIVE:
        refuse(authentication,
               "the token's issuer says that it is no valid access token: it has expired, was revoked, or is not its own");
        return SUCCESS;
    case INTROSPECTION_UNKNOWN:
        refuse(authentication,
               "too many tokens that their issuer does not know came from your network; Retry-After says when to come again");
        authentication->error = OAUTH_TOO_MANY;
        authentication->wait_s = wait_s == 0 ? 1 : wait_s;
        return SUCCESS;
    case INTROSPECTION_WAITS:
    case INTROSPECTION_ACTIVE:
    case INTROSPECTION_FAILED: break;
    }
    return failure(err, ERROR_UNAVAILABLE, "the token's issuer does not say whether the token is valid; try again soon");
}

static struct result look(const struct opaque_login *login, const struct authz_snapshot *snapshot, size_t number,
                          struct authentication *authentication, bool *is_waiting_out, struct error *err)
{
    const char *url = introspection_client_at(login->introspection, number)->issuer;
    const struct issuer *issuer = authz_snapshot_issuer(snapshot, url);
    const struct attempts_who who = {.client = login->credential->client, .name = bytes_of_text("an opaque token")};
    const int64_t now_ms = clock_monotonic_ms();
    OWNED_JSON payload = NULL;
    unsigned wait_s = 0;

    if (issuer == NULL) {
        refuse(authentication, "the token's issuer is not trusted here");
        return SUCCESS;
    }
    if (login->is_first) *login->is_counted = attempts_begin(login->attempts, &who, now_ms, &wait_s);
    const bool is_counted = *login->is_counted; /* what was not counted is not given back */
    const enum introspection_state state =
        introspection_look(login->introspection, number, login->token, now_ms, is_counted, &payload);
    *is_waiting_out = state == INTROSPECTION_WAITS;
    if (is_counted && (state == INTROSPECTION_ACTIVE || state == INTROSPECTION_FAILED))
        attempts_reset(login->attempts, &who, now_ms);
    if (state == INTROSPECTION_ACTIVE) return answer(login, snapshot, issuer_record_of(issuer), payload, authentication, err);
    return *is_waiting_out ? SUCCESS : conclude(state, wait_s, authentication, err);
}

struct result authenticate_opaque(const struct opaque_login *login, struct authentication *authentication_out,
                                  bool *is_waiting_out, struct error *err)
{
    OWNED(authz_snapshot) *snapshot = authz_directory_take(login->directory);
    struct authentication authentication = {.error = OAUTH_NONE};
    size_t number = 0;

    *is_waiting_out = false;
    if (snapshot == NULL) return failure(err, ERROR_UNAVAILABLE, "robots and issuers are not loaded yet");
    if (find_issuer(login, &number)) TRY(look(login, snapshot, number, &authentication, is_waiting_out, err));
    else
        refuse(&authentication, login->issuer == NULL ? "subject_issuer must name the issuer of a token that is no JWT"
                                                      : "the registry does not ask this issuer about tokens that are no JWT");
    if (!*is_waiting_out) *authentication_out = authentication;
    return SUCCESS;
}
