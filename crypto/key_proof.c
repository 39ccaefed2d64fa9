#include "crypto/key_proof.h"

#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "crypto/digest.h"
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
    struct buffer OWNED_BUFFER decoded = BUFFER(KEY_PROOF_SIZE_MAX);
    struct error cause = {0};
    OWNED_JSON value = NULL;

    const bool is_read = text_from_base64(&decoded, BASE64_URL, segment, &cause).ok &&
                         json_read(buffer_bytes(&decoded), KEY_PROOF_SIZE_MAX, &value, &cause).ok;
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

    if (whole.length > KEY_PROOF_SIZE_MAX)
        return failure(err, ERROR_INVALID, "a proof of %zu bytes; at most %d are read", whole.length, KEY_PROOF_SIZE_MAX);
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

bool jwk_is_public(const json_t *key)
{
    static const char *const secret[] = {"d", "p", "q", "dp", "dq", "qi", "oth", "k"};

    for (size_t i = 0; i < sizeof secret / sizeof secret[0]; i++)
        if (json_object_get(key, secret[i]) != NULL) return false;
    return true;
}

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

static struct result check_es256(const struct opened *opened, struct key_proof *proof, struct error *err)
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
static struct result check_eddsa(const struct opened *opened, struct key_proof *proof, struct error *err)
{
    struct buffer OWNED_BUFFER members = BUFFER(128), text = BUFFER(KEY_PROOF_KEY_SIZE);
    const json_t *key = json_object_get(opened->header, "jwk");
    uint8_t point[COORDINATE_SIZE], digest[SHA256_SIZE];

    if (!is_kind(key, "OKP", "Ed25519") || !read_coordinate(key, "x", point)) return wrong_key("EdDSA", "Ed25519", err);
    TRY(buffer_format(&members, err, "{\"crv\":\"Ed25519\",\"kty\":\"OKP\",\"x\":\"%s\"}", json_text_of(key, "x")));
    sha256_of(buffer_bytes(&members), digest);
    TRY(text_base64(&text, BASE64_URL, (struct bytes){digest, sizeof digest}, err));
    (void)text_copy(proof->key, sizeof proof->key, buffer_text(&text));
    return ed25519_verify(point, opened->is_signed, opened->signature) ? SUCCESS : wrong_signature(err);
}

static struct result check_signature(const struct opened *opened, struct key_proof *proof, struct error *err)
{
    const char *algorithm = json_text_of(opened->header, "alg");

    if (algorithm != NULL && strcmp(algorithm, "ES256") == 0) return check_es256(opened, proof, err);
    if (algorithm != NULL && (strcmp(algorithm, "EdDSA") == 0 || strcmp(algorithm, "Ed25519") == 0)) /* RFC 9864 */
        return check_eddsa(opened, proof, err);
    return failure(err, ERROR_INVALID, "the proof's alg is not one of " KEY_PROOF_ALGORITHMS);
}

struct result key_proof_read(const char *text, const char *type, struct key_proof *proof_out, struct error *err)
{
    struct opened OWNED_OPENED opened = {.header = NULL};
    struct key_proof proof = {.claims = NULL};

    TRY(open(text, &opened, err));
    TRY(check_header(opened.header, type, err));
    TRY(check_signature(&opened, &proof, err));
    proof.claims = json_incref(opened.payload);
    *proof_out = proof;
    return SUCCESS;
}

void key_proof_done(struct key_proof *proof)
{
    json_decref(proof->claims);
}
