#include "keyd/token_check.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "base/uuid.h"
#include "crypto/digest.h"
#include "crypto/keyd_protocol.h"
#include "keyd/token.h"
#include "training/format/chain.h"

#define ROBOT          "robot:"
#define EXTERNAL       "ext:"
#define ISSUER_LETTERS SHA256_SIZE /* half of the digest in hex: the form in which gateways name an issuer in `sub` */

enum { HEADER_MAX = 256, SIGNED_PARTS = 2 };

/* ---- the signature ---- */

/* A token in its three parts. */
struct parts {
    struct bytes header, payload, signature, is_signed; /* views; the last one is header, full stop, payload */
};

static bool split(struct bytes token, struct parts *parts)
{
    struct bytes rest = token;

    if (token.length == 0 || token.length > KEYD_TOKEN_MAX) return false;
    parts->header = text_cut(&rest, '.');
    parts->payload = text_cut(&rest, '.');
    parts->signature = rest;
    if (parts->header.length == 0 || parts->payload.length == 0 || memchr(rest.data, '.', rest.length) != NULL) return false;
    parts->is_signed = (struct bytes){token.data, parts->header.length + 1 + parts->payload.length};
    return parts->is_signed.length < token.length;
}

/* keyd composes the header, so there is one spelling, and no algorithm to choose. */
static struct result is_signed_by(const struct ecdsa_key *key, const struct parts *parts, bool *is_out, struct error *err)
{
    struct buffer OWNED_BUFFER header = BUFFER(HEADER_MAX);
    uint8_t signature[ECDSA_JOSE_SIZE];

    TRY(token_write_header(key, &header, err));
    *is_out = header.length == parts->header.length && memcmp(header.data, parts->header.data, header.length) == 0 &&
              text_from_base64_exactly(BASE64_URL, parts->signature, signature, sizeof signature) &&
              ecdsa_verify_jose(key, parts->is_signed, (struct bytes){signature, sizeof signature});
    return SUCCESS;
}

static struct result check_signature(const struct ecdsa_key *const *keys, size_t key_count, const struct parts *parts,
                                     struct error *err)
{
    bool is_signed = false;

    for (size_t i = 0; i < key_count && !is_signed; i++) TRY(is_signed_by(keys[i], parts, &is_signed, err));
    if (is_signed) return SUCCESS;
    return failure(err, ERROR_DENIED, "the token is not one that this sijil-keyd has signed: get one at /token");
}

/* ---- the claims ---- */

static bool is_text(const json_t *payload, const char *claim, struct bytes wanted)
{
    const char *text = json_text_of(payload, claim);

    return text != NULL && wanted.length > 0 && strlen(text) == wanted.length && memcmp(text, wanted.data, wanted.length) == 0;
}

static struct result check_times(const json_t *payload, int64_t now_s, struct error *err)
{
    int64_t expires_s = 0, not_before_s = 0;

    if (!json_integer_of(payload, "exp", &expires_s) || !json_integer_of(payload, "nbf", &not_before_s))
        return failure(err, ERROR_DENIED, "the token has no times");
    if (now_s >= expires_s) return failure(err, ERROR_DENIED, "the token has expired: get a new one at /token");
    if (now_s >= not_before_s) return SUCCESS;
    return failure(err, ERROR_DENIED, "the token is not valid yet");
}

static struct result check_robot(const char *id, const struct token_use *use, struct token_holder *holder, struct error *err)
{
    struct uuid uuid;
    char text[UUID_TEXT_SIZE];

    if (!uuid_parse(bytes_of_text(id), &uuid) || use->subject_issuer.length != 0)
        return failure(err, ERROR_DENIED, "the token is a robot's, and the request names another subject");
    uuid_format(&uuid, text);
    (void)snprintf(holder->issuer, sizeof holder->issuer, "%s", RUN_REGISTRY_ISSUER);
    (void)snprintf(holder->subject, sizeof holder->subject, "%s", text);
    (void)snprintf(holder->requester, sizeof holder->requester, ROBOT "%s", text);
    return SUCCESS;
}

static struct result name_requester(struct token_holder *holder, struct error *err)
{
    struct buffer OWNED_BUFFER named = BUFFER(sizeof holder->issuer + sizeof holder->subject);
    uint8_t digest[SHA256_SIZE];
    char hex[2 * SHA256_SIZE + 1];

    TRY(buffer_format(&named, err, "%s\n%s", holder->issuer, holder->subject));
    sha256_of(buffer_bytes(&named), digest);
    text_hex(digest, sizeof digest, hex);
    (void)snprintf(holder->requester, sizeof holder->requester, EXTERNAL "%s", hex);
    return SUCCESS;
}

/* "ext:<half of the issuer's digest>:<subject>". */
static struct result check_external(const char *rest, const struct token_use *use, struct token_holder *holder, struct error *err)
{
    uint8_t digest[SHA256_SIZE];
    char hex[2 * SHA256_SIZE + 1];
    const size_t length = strlen(rest);

    sha256_of(use->subject_issuer, digest);
    text_hex(digest, sizeof digest, hex);
    if (use->subject_issuer.length == 0 || use->subject_issuer.length >= sizeof holder->issuer ||
        memchr(use->subject_issuer.data, '\0', use->subject_issuer.length) != NULL || length <= ISSUER_LETTERS + 1 ||
        rest[ISSUER_LETTERS] != ':' || strncmp(rest, hex, ISSUER_LETTERS) != 0 ||
        length - ISSUER_LETTERS - 1 >= sizeof holder->subject)
        return failure(err, ERROR_DENIED, "the token is not one of a subject of the issuer that the request names");
    memcpy(holder->issuer, use->subject_issuer.data, use->subject_issuer.length);
    holder->issuer[use->subject_issuer.length] = '\0';
    (void)snprintf(holder->subject, sizeof holder->subject, "%s", rest + ISSUER_LETTERS + 1);
    TRY(name_requester(holder, err));
    if (strcmp(holder->issuer, RUN_RULE_ISSUER) != 0) /* a person's name is in no envelope, because envelopes are kept for ever */
        (void)snprintf(holder->subject, sizeof holder->subject, "%s", holder->requester);
    return SUCCESS;
}

struct result token_check_claims(const json_t *payload, const struct token_use *use, struct token_holder *holder_out,
                                 struct error *err)
{
    const char *subject = json_text_of(payload, "sub");
    struct token_holder holder = {.issuer = ""};

    if (!is_text(payload, "iss", use->issuer) || !is_text(payload, "aud", use->audience))
        return failure(err, ERROR_DENIED, "the token is for another registry");
    TRY(check_times(payload, use->now_s, err));
    if (subject == NULL) return failure(err, ERROR_DENIED, "the token has no subject");
    if (strncmp(subject, ROBOT, strlen(ROBOT)) != 0 && strncmp(subject, EXTERNAL, strlen(EXTERNAL)) != 0)
        return failure(err, ERROR_DENIED, "only robots, subjects of an issuer and trust rules ask for a run, and no run does");
    if (!json_is_true(json_object_get(payload, "admin")))
        return failure(err, ERROR_DENIED, "the token is narrower than a request needs: get one with the scope registry:admin:*");
    if (strncmp(subject, ROBOT, strlen(ROBOT)) == 0) TRY(check_robot(subject + strlen(ROBOT), use, &holder, err));
    else TRY(check_external(subject + strlen(EXTERNAL), use, &holder, err));
    *holder_out = holder;
    return SUCCESS;
}

/* ---- */

static void write_digest(struct bytes token, char digest_out[TOKEN_DIGEST_SIZE])
{
    uint8_t digest[SHA256_SIZE];

    sha256_of(token, digest);
    (void)snprintf(digest_out, TOKEN_DIGEST_SIZE, "sha256:");
    text_hex(digest, sizeof digest, digest_out + strlen(digest_out));
}

struct result token_check(const struct ecdsa_key *const *keys, size_t key_count, struct bytes token, const struct token_use *use,
                          struct token_holder *holder_out, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(KEYD_TOKEN_MAX);
    struct token_holder holder;
    struct error why = {0};
    OWNED_JSON payload = NULL;
    struct parts parts;

    if (!split(token, &parts)) return failure(err, ERROR_DENIED, "this is not a token of the registry");
    TRY(check_signature(keys, key_count, &parts, err));
    if (!text_from_base64(&text, BASE64_URL, parts.payload, &why).ok ||
        !json_read(buffer_bytes(&text), KEYD_TOKEN_MAX, &payload, &why).ok)
        return failure(err, why.kind == ERROR_NO_MEMORY ? why.kind : ERROR_DENIED, "the token is malformed: %.200s", why.message);
    TRY(token_check_claims(payload, use, &holder, err));
    write_digest(token, holder.digest);
    *holder_out = holder;
    return SUCCESS;
}
