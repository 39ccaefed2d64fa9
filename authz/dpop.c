#include "authz/dpop.h"

#include <string.h>
#include <strings.h>

#include "authz/claims.h"
#include "authz/jwk.h"
#include "base/json.h"
#include "base/text.h"
#include "crypto/ecdsa.h"
#include "crypto/ed25519.h"

#define COORDINATE_SIZE 32
#define SIGNATURE_SIZE  64 /* of ES256 and of EdDSA with Ed25519 */

/* A proof in its parts. */
struct opened {
    struct bytes is_signed; /* the first two segments with the full stop between them */
    uint8_t signature[SIGNATURE_SIZE];
    json_t *header, *payload; /* owned */
};

static void opened_done(struct opened *opened)
{
    json_decref(opened->header);
    json_decref(opened->payload);
}
#define OWNED_OPENED __attribute__((cleanup(opened_done)))

static struct result decode_object(struct bytes segment, const char *what, json_t **object_out, struct error *err)
{
    struct buffer OWNED_BUFFER decoded = BUFFER(DPOP_SIZE_MAX);
    struct error cause = {0};
    OWNED_JSON value = NULL;

    const bool is_read = text_from_base64(&decoded, BASE64_URL, segment, &cause).ok &&
                         json_read(buffer_bytes(&decoded), DPOP_SIZE_MAX, &value, &cause).ok;
    if (!is_read && cause.kind == ERROR_NO_MEMORY) return failure(err, ERROR_NO_MEMORY, "no memory to read a proof");
    if (!is_read || !json_is_object(value))
        return failure(err, ERROR_INVALID, "the proof's %s is not a JSON object in canonical base64url", what);
    *object_out = GIVE(value);
    return SUCCESS;
}

static struct result open(const char *text, struct opened *opened, struct error *err)
{
    struct bytes rest = bytes_of_text(text);
    const struct bytes whole = rest;

    if (whole.length > DPOP_SIZE_MAX)
        return failure(err, ERROR_INVALID, "a proof of %zu bytes; at most %d are read", whole.length, DPOP_SIZE_MAX);
    const struct bytes header = text_cut(&rest, '.'), payload = text_cut(&rest, '.');
    if (header.length == 0 || payload.length == 0 || rest.length == 0)
        return failure(err, ERROR_INVALID, "a proof has three segments between full stops");
    if (!text_from_base64_exactly(BASE64_URL, rest, opened->signature, sizeof opened->signature))
        return failure(err, ERROR_INVALID, "the proof's signature is not 64 bytes in canonical base64url");
    opened->is_signed = (struct bytes){whole.data, header.length + 1 + payload.length};
    TRY(decode_object(header, "header", &opened->header, err));
    return decode_object(payload, "payload", &opened->payload, err);
}

/* ---- The key, and its signature ---- */

/* RFC 7515, 4.1: none of these is understood here, and `jwk` is the key. */
static struct result check_header(const json_t *header, const char *wanted, struct error *err)
{
    static const char *const refused[] = {"crit", "jku", "x5u", "x5c", "b64", "zip", "enc"};
    const char *type = json_text_of(header, "typ");
    const json_t *key = json_object_get(header, "jwk");

    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        if (json_object_get(header, refused[i]) != NULL)
            return failure(err, ERROR_INVALID, "the proof's header has the member %s, which is not accepted", refused[i]);
    if (type == NULL || strcmp(type, wanted) != 0) return failure(err, ERROR_INVALID, "the proof's typ must be %s", wanted);
    if (!json_is_object(key)) return failure(err, ERROR_INVALID, "the proof's header has no jwk, the public key");
    if (!jwk_is_public(key)) return failure(err, ERROR_INVALID, "the proof's jwk is a private key: never send it");
    return SUCCESS;
}

static bool read_coordinate(const json_t *key, const char *member, uint8_t out[COORDINATE_SIZE])
{
    const char *text = json_text_of(key, member);

    return text != NULL && text_from_base64_exactly(BASE64_URL, bytes_of_text(text), out, COORDINATE_SIZE);
}

static bool is_kind(const json_t *key, const char *type, const char *curve)
{
    const char *kty = json_text_of(key, "kty"), *crv = json_text_of(key, "crv");

    return kty != NULL && crv != NULL && strcmp(kty, type) == 0 && strcmp(crv, curve) == 0;
}

static struct result wrong_key(const char *algorithm, const char *kind, struct error *err)
{
    return failure(err, ERROR_INVALID, "the proof's jwk is no %s key, which %s needs", kind, algorithm);
}

static struct result wrong_signature(struct error *err)
{
    return failure(err, ERROR_INVALID, "the proof's signature is not that of its key");
}

static struct result check_es256(const struct opened *opened, struct dpop_proof *proof, struct error *err)
{
    const json_t *key = json_object_get(opened->header, "jwk");
    uint8_t point[ECDSA_PUBLIC_SIZE] = {4};
    OWNED(ecdsa_key) *public = NULL;
    struct error cause = {0};

    if (!is_kind(key, "EC", "P-256") || !read_coordinate(key, "x", point + 1) ||
        !read_coordinate(key, "y", point + 1 + COORDINATE_SIZE))
        return wrong_key("ES256", "P-256", err);
    if (!ecdsa_key_from_public(point, &public, &cause).ok) {
        if (cause.kind == ERROR_NO_MEMORY) return failure(err, ERROR_NO_MEMORY, "no memory to check a proof");
        return wrong_key("ES256", "P-256", err);
    }
    ecdsa_thumbprint(point, proof->key);
    if (ecdsa_verify_jose(public, opened->is_signed, (struct bytes){opened->signature, sizeof opened->signature})) return SUCCESS;
    return wrong_signature(err);
}

/* RFC 8037, appendix A.3: the members of the thumbprint. */
static struct result check_eddsa(const struct opened *opened, struct dpop_proof *proof, struct error *err)
{
    struct buffer OWNED_BUFFER members = BUFFER(128), text = BUFFER(DPOP_KEY_SIZE);
    const json_t *key = json_object_get(opened->header, "jwk");
    uint8_t point[COORDINATE_SIZE], digest[SHA256_SIZE];

    if (!is_kind(key, "OKP", "Ed25519") || !read_coordinate(key, "x", point)) return wrong_key("EdDSA", "Ed25519", err);
    TRY(buffer_format(&members, err, "{\"crv\":\"Ed25519\",\"kty\":\"OKP\",\"x\":\"%s\"}", json_text_of(key, "x")));
    sha256_of(buffer_bytes(&members), digest);
    TRY(text_base64(&text, BASE64_URL, (struct bytes){digest, sizeof digest}, err));
    (void)text_copy(proof->key, sizeof proof->key, buffer_text(&text));
    return ed25519_verify(point, opened->is_signed, opened->signature) ? SUCCESS : wrong_signature(err);
}

static struct result check_signature(const struct opened *opened, struct dpop_proof *proof, struct error *err)
{
    const char *algorithm = json_text_of(opened->header, "alg");

    if (algorithm != NULL && strcmp(algorithm, "ES256") == 0) return check_es256(opened, proof, err);
    if (algorithm != NULL && (strcmp(algorithm, "EdDSA") == 0 || strcmp(algorithm, "Ed25519") == 0)) /* RFC 9864 */
        return check_eddsa(opened, proof, err);
    return failure(err, ERROR_INVALID, "the proof's alg is not one of " DPOP_ALGORITHMS);
}

/* ---- What it is for ---- */

/* Of "https://host:443/path?query" the host and the path; false for another scheme. Without a path it is "/" (RFC 3986, 6.2.3). */
static bool split_url(const char *url, struct bytes *host_out, struct bytes *path_out)
{
    static const char scheme[] = "https://", standard[] = ":443";
    const size_t before = sizeof scheme - 1, port = sizeof standard - 1;

    if (strncasecmp(url, scheme, before) != 0) return false;
    struct bytes host = {(const uint8_t *)url + before, strcspn(url + before, "/?#")};
    const char *path = url + before + host.length;
    *path_out = path[0] == '/' ? (struct bytes){(const uint8_t *)path, strcspn(path, "?#")} : bytes_of_text("/");
    if (host.length > port && memcmp(host.data + host.length - port, standard, port) == 0) host.length -= port;
    *host_out = host;
    return true;
}

/* RFC 9449, 4.3: query and fragment are ignored. */
static bool is_url(const char *said, const struct dpop_rule *rule)
{
    struct bytes host = {0}, path = {0}, wanted = {0}, ignored = {0};

    return split_url(said, &host, &path) && split_url(rule->url, &wanted, &ignored) && host.length == wanted.length &&
           strncasecmp((const char *)host.data, (const char *)wanted.data, host.length) == 0 && bytes_equal(path, rule->path);
}

static struct result check_request(const json_t *payload, const struct dpop_rule *rule, struct error *err)
{
    const char *method = json_text_of(payload, "htm"), *url = json_text_of(payload, "htu");
    int64_t issued_s = 0;

    if (method == NULL || strcmp(method, rule->method) != 0)
        return failure(err, ERROR_INVALID, "the proof's htm is not %.16s, the method of the request", rule->method);
    if (url == NULL || !is_url(url, rule))
        return failure(err, ERROR_INVALID, "the proof's htu is not the URL of the request on %.120s, without query", rule->url);
    if (!claims_time(payload, "iat", &issued_s))
        return failure(err, ERROR_INVALID, "the proof's iat is missing or no number of seconds since 1970");
    const int64_t age_s = rule->now_ms / 1000 - issued_s;
    if (age_s > DPOP_WINDOW_S || age_s < -DPOP_WINDOW_S)
        return failure(err, ERROR_INVALID, "the proof was made %lld s %s by the registry's clock; at most %d are accepted",
                       (long long)(age_s < 0 ? -age_s : age_s), age_s < 0 ? "ahead" : "ago", DPOP_WINDOW_S);
    return SUCCESS;
}

/* Texts that may be missing. */
static struct result read_text(const json_t *payload, const char *claim, const char **text_out, struct error *err)
{
    const json_t *member = json_object_get(payload, claim);

    *text_out = json_string_value(member);
    if (member == NULL || *text_out != NULL) return SUCCESS;
    return failure(err, ERROR_INVALID, "the proof's %s is no text", claim);
}

static struct result take_digest(const char *type, const char *id, struct dpop_proof *proof, struct error *err)
{
    struct buffer OWNED_BUFFER named = BUFFER(DPOP_KEY_SIZE + DPOP_ID_MAX + 32);

    if (!claims_text_is_plain(id, DPOP_ID_MAX))
        return failure(err, ERROR_INVALID, "the proof's jti is missing, or no plain text of at most %d bytes", DPOP_ID_MAX);
    TRY(buffer_format(&named, err, "%s\n%s\n%s", type == NULL ? "dpop" : type, proof->key, id));
    sha256_of(buffer_bytes(&named), proof->digest);
    return SUCCESS;
}

struct result dpop_read_claims(const json_t *payload, const struct dpop_rule *rule, struct dpop_proof *proof, struct error *err)
{
    const char *token = NULL, *nonce = NULL;

    TRY(check_request(payload, rule, err));
    TRY(read_text(payload, "ath", &token, err));
    if (token != NULL && (strlen(token) != DPOP_TOKEN_LETTER || !text_copy(proof->token, sizeof proof->token, token)))
        return failure(err, ERROR_INVALID, "the proof's ath is no SHA-256 in base64url");
    TRY(read_text(payload, "nonce", &nonce, err));
    proof->is_fresh = dpop_nonces_accept(rule->nonces, rule->now_ms, nonce);
    return take_digest(rule->type, json_text_of(payload, "jti"), proof, err);
}

struct result dpop_read_typed(const char *text, const char *type, const struct dpop_rule *rule, struct dpop_proof *proof_out,
                              json_t **payload_out, struct error *err)
{
    struct opened OWNED_OPENED opened = {.header = NULL};
    struct dpop_proof proof = {.is_fresh = false};
    struct dpop_rule typed = *rule;

    typed.type = type;
    TRY(open(text, &opened, err));
    TRY(check_header(opened.header, type == NULL ? "dpop+jwt" : type, err));
    TRY(check_signature(&opened, &proof, err));
    TRY(dpop_read_claims(opened.payload, &typed, &proof, err));
    *proof_out = proof;
    *payload_out = json_incref(opened.payload);
    return SUCCESS;
}

struct result dpop_read(const char *text, const struct dpop_rule *rule, struct dpop_proof *proof_out, struct error *err)
{
    OWNED_JSON payload = NULL;

    return dpop_read_typed(text, NULL, rule, proof_out, &payload, err);
}

bool dpop_is_for(const struct dpop_proof *proof, const uint8_t token_sha256[SHA256_SIZE])
{
    uint8_t said[SHA256_SIZE];

    return text_from_base64_exactly(BASE64_URL, bytes_of_text(proof->token), said, sizeof said) &&
           memcmp(said, token_sha256, sizeof said) == 0;
}
