/*
 * client/provider/provider.h -- one issuer, called by a public client (RFC 6749 section 2.1): a program on a person's machine has no secret.
 *
 * All calls go through outgoing/, to https addresses that the issuer's own document names. An answer has at most PROVIDER_ANSWER_MAX bytes and 30
 * seconds; no redirect is followed.
 */
#pragma once

#include <jansson.h>

#include "base/owned.h"
#include "client/provider/metadata.h"

#define PROVIDER_CLIENT_SIZE  256
#define PROVIDER_SCOPE_SIZE   512
#define PROVIDER_ACCESS_SIZE  (12288 + 1) /* as much as the registry takes as a password */
#define PROVIDER_REFRESH_SIZE (4096 + 1)  /* Entra ID has the longest, about 2 KiB */
#define PROVIDER_FORM_MAX     ((size_t)64 << 10)

struct provider_options {
    const char *url;       /* exactly its `iss` */
    const char *client_id; /* that the issuer knows this program by */
    const char *scope;     /* "openid offline_access"; may be "" */
    const char *resource;  /* for whom the access token is (RFC 8707): the registry */
    const char *ca_file;   /* PEM; NULL or "": the system's authorities */
    const char *proxy;     /* NULL or "": none */
    bool verbose;          /* shows each call on standard error, without what it carries */
};

struct provider;
/** Asks the issuer about itself. The options must outlive the issuer. ERROR_DENIED, ERROR_INVALID, ERROR_UNAVAILABLE. */
RESULT provider_open(const struct provider_options *options, struct provider **issuer_out, struct error *err);
const struct provider_options *provider_options(const struct provider *issuer);
const struct provider_metadata *provider_metadata(const struct provider *issuer);

/** What a person's login at an issuer consists of. */
struct provider_tokens {
    char access[PROVIDER_ACCESS_SIZE];
    char refresh[PROVIDER_REFRESH_SIZE]; /* "": none */
    int64_t expires_ms;                  /* of the access token, by this machine's clock */
};
void provider_tokens_wipe(struct provider_tokens *tokens);
#define OWNED_TOKENS __attribute__((cleanup(provider_tokens_wipe))) struct provider_tokens

/** Reads the answer of a token endpoint (RFC 6749 section 5.1). ERROR_INVALID for a token of another type than Bearer, or one that does not fit. */
RESULT provider_tokens_take(const json_t *answer, int64_t now_ms, struct provider_tokens *tokens_out, struct error *err);

/** Appends "&name=value", percent-encoded; without the '&' at the beginning. */
RESULT form_add(struct buffer *form, const char *name, const char *value, struct error *err);

struct provider_answer {
    long status;
    json_t *object; /* NULL: the body is no JSON object */
    char error[64]; /* RFC 6749 section 5.2; "": it names none */
};
void provider_answer_done(struct provider_answer *answer);
#define OWNED_ANSWER __attribute__((cleanup(provider_answer_done))) struct provider_answer
/** Posts a form. Any status is an answer. `bearer`: an access token, or NULL. ERROR_UNAVAILABLE if no answer came. */
RESULT provider_post(struct provider *issuer, const char *endpoint, const struct buffer *form, const char *bearer,
                     struct provider_answer *answer_out, struct error *err);
/** The failure for a refusal: "the issuer refuses WHAT: ...". ERROR_UNAVAILABLE for 429 and 5xx, else ERROR_DENIED. */
/** What may help, in brackets after a blank: of invalid_target (RFC 8707) that --resource names another; "" of other errors. */
const char *provider_advice(const char *error);
RESULT provider_refused(const struct provider_answer *answer, const char *what, struct error *err);

/**
 * Exchanges the form of a grant for tokens; the client's id and the resource are added. `nonce`: of this login, or NULL. ERROR_DENIED if the answer
 * has an ID token without it (OpenID Connect Core 1.0 section 3.1.3.7). Otherwise the ID token is not used.
 */
RESULT provider_grant(struct provider *issuer, struct buffer *form, const char *what, const char *nonce,
                      struct provider_tokens *tokens_out, struct error *err);
/** Whether the payload of the ID token has the nonce. Its signature is not checked: it came from the issuer itself, over TLS. */
bool provider_id_token_is_of(const json_t *id_token, const char *nonce);
/**
 * Renews (RFC 6749 section 6). If the answer has no new refresh token, the old one stays. ERROR_DENIED: the login at the issuer has ended.
 */
RESULT provider_renew(struct provider *issuer, const char *refresh, struct provider_tokens *tokens_out, struct error *err);
/** Revokes (RFC 7009) the refresh token and, with it, what was made from it. ERROR_INVALID: the issuer can't do that. */
RESULT provider_revoke(struct provider *issuer, const struct provider_tokens *tokens, struct error *err);

void provider_free(struct provider *issuer);
DEFINE_OWNED(provider);
