/* From the claims of a token of ours to its principal. */
#include "authz/own_token_priv.h"

#include <stdio.h>
#include <string.h>

#include "authz/run_token.h"
#include "base/text.h"

static struct result fill_robot(const struct own_token *token, struct principal *principal, struct error *err)
{
    const int64_t now_ms = token->credential->now_ms;
    struct uuid uuid;

    if (!uuid_parse(bytes_of_text(token->claims->subject + sizeof "robot:" - 1), &uuid))
        return failure(err, ERROR_DENIED, "the token's sub is malformed");
    const struct authz_robot *robot = authz_snapshot_robot(token->snapshot, &uuid);
    if (robot == NULL || !robot->enabled || now_ms >= robot->expires_ms)
        return failure(err, ERROR_DENIED, "the robot of this token was revoked or has expired");
    const bool is_older = robot->previous_until_ms != 0 && token->claims->issued_s < robot->previous_until_ms / 1000;
    if (is_older && now_ms >= robot->previous_until_ms)
        return failure(err, ERROR_DENIED, "the robot's secret was replaced after this token was made; get a new one");
    principal->kind = PRINCIPAL_ROBOT;
    principal->id = uuid;
    principal->replaced_ms = is_older ? -1 : robot->previous_until_ms;
    principal->organisation = robot->organisation;
    (void)snprintf(principal->subject, sizeof principal->subject, "%s", robot->name);
    return SUCCESS;
}

/* `text` begins with the digest of an issuer that is not trusted, unless it is that of trust rules. */
static struct result resume_rule(const struct own_token *token, const char *text, const char *subject, struct error *err)
{
    const struct credential *credential = token->credential;
    const struct trust_resumption resumption = {token->snapshot, subject, credential->client, credential->thumbprint,
                                                credential->now_ms};
    char digest[ISSUER_DIGEST_SIZE];

    issuer_digest_of(TRUST_ISSUER, digest);
    if (strncmp(text, digest, ISSUER_DIGEST_SIZE - 1) == 0) return trust_resume(&resumption, err);
    return failure(err, ERROR_DENIED, "the issuer behind this token is not trusted any more");
}

/* "ext:<digest>:<subject>", as mint.c writes it. */
static struct result fill_external(const struct own_token *token, const char *text, struct principal *principal,
                                   struct error *err)
{
    const size_t digest_length = ISSUER_DIGEST_SIZE - 1;

    if (strlen(text) <= digest_length + 1 || text[digest_length] != ':')
        return failure(err, ERROR_DENIED, "the token's sub is malformed");
    const struct issuer *issuer =
        authz_snapshot_issuer_by_digest(token->snapshot, (struct bytes){(const uint8_t *)text, digest_length});
    const char *subject = text + digest_length + 1, *url = issuer == NULL ? TRUST_ISSUER : issuer_record_of(issuer)->url;
    if (issuer == NULL) TRY(resume_rule(token, text, subject, err));
    principal->kind = PRINCIPAL_EXTERNAL;
    (void)snprintf(principal->issuer, sizeof principal->issuer, "%s", url);
    (void)snprintf(principal->subject, sizeof principal->subject, "%s", subject);
    return SUCCESS;
}

struct result own_token_principal(const struct own_token *token, struct principal *principal, struct error *err)
{
    const char *subject = token->claims->subject;

    TRY(claims_read_rights(token->payload, principal, err));
    if (token->claims->id == NULL || !text_copy(principal->token, sizeof principal->token, token->claims->id))
        principal->token[0] = '\0'; /* an id of another form names no event */
    if (strncmp(subject, "robot:", 6) == 0) return fill_robot(token, principal, err);
    if (strncmp(subject, "run:", 4) == 0) return run_token_read(token->claims, principal, err);
    if (strncmp(subject, "ext:", 4) == 0) return fill_external(token, subject + 4, principal, err);
    return failure(err, ERROR_DENIED, "the token's sub is malformed");
}
