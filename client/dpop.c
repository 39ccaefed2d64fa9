#include "client/dpop.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "client/hosts.h"
#include "client/local.h"
#include "crypto/digest.h"
#include "crypto/random.h"

#define ID_SIZE 16 /* random bytes of jti: 96 bits are enough (RFC 9449, 4.2) */

static struct result add_encoded(struct buffer *proof, struct bytes bytes, struct error *err)
{
    return text_base64(proof, BASE64_URL, bytes, err);
}

/* The members of a public key without those that a proof does not need (RFC 7517, 4). */
static struct result write_header(const struct ecdsa_key *key, const char *type, struct buffer *header, struct error *err)
{
    struct buffer OWNED_BUFFER x = BUFFER(64), y = BUFFER(64);
    uint8_t point[ECDSA_PUBLIC_SIZE];

    ecdsa_key_public(key, point);
    TRY(add_encoded(&x, (struct bytes){point + 1, ECDSA_SCALAR_SIZE}, err));
    TRY(add_encoded(&y, (struct bytes){point + 1 + ECDSA_SCALAR_SIZE, ECDSA_SCALAR_SIZE}, err));
    return buffer_format(
        header, err, "{\"alg\":\"ES256\",\"jwk\":{\"crv\":\"P-256\",\"kty\":\"EC\",\"x\":\"%s\",\"y\":\"%s\"},\"typ\":\"%s\"}",
        buffer_text(&x), buffer_text(&y), type);
}

static struct result write_digest(const char *authorization, struct buffer *claims, struct error *err)
{
    uint8_t digest[SHA256_SIZE];

    const char *token = authorization == NULL ? NULL : strchr(authorization, ' ');
    if (token == NULL) return SUCCESS;
    sha256_of(bytes_of_text(token + 1), digest);
    TRY(buffer_add_text(claims, "\"ath\":\"", err));
    TRY(add_encoded(claims, (struct bytes){digest, sizeof digest}, err));
    return buffer_add_text(claims, "\",", err);
}

/* What an act names besides. */
static struct result write_act(const struct dpop_act *act, struct buffer *claims, struct error *err)
{
    uint8_t digest[SHA256_SIZE];

    sha256_of(act->body, digest);
    TRY(buffer_add_text(claims, "\"body\":\"", err));
    TRY(add_encoded(claims, (struct bytes){digest, sizeof digest}, err));
    TRY(buffer_add_text(claims, "\",\"target\":", err));
    TRY(json_write_string(claims, bytes_of_text(act->target), err));
    return buffer_add_text(claims, ",", err);
}

static struct result write_claims(const struct dpop_call *call, const struct dpop_act *act, struct buffer *claims,
                                  struct error *err)
{
    const struct bytes url = {(const uint8_t *)call->url, strcspn(call->url, "?#")};
    uint8_t id[ID_SIZE];

    random_bytes(id, sizeof id);
    TRY(buffer_add_text(claims, "{", err));
    const bool is_bound = call->authorization != NULL && strncasecmp(call->authorization, "DPoP ", 5) == 0;
    if (is_bound || act != NULL) TRY(write_digest(call->authorization, claims, err));
    if (act != NULL) TRY(write_act(act, claims, err));
    TRY(buffer_format(claims, err, "\"htm\":\"%s\",\"htu\":", call->method));
    TRY(json_write_string(claims, url, err));
    TRY(buffer_format(claims, err, ",\"iat\":%lld,\"jti\":\"", (long long)(clock_wall_ms() / 1000)));
    TRY(add_encoded(claims, (struct bytes){id, sizeof id}, err));
    TRY(buffer_add_text(claims, "\"", err));
    if (call->nonce[0] != '\0') {
        TRY(buffer_add_text(claims, ",\"nonce\":", err));
        TRY(json_write_string(claims, bytes_of_text(call->nonce), err));
    }
    return buffer_add_text(claims, "}", err);
}

static struct result write(const struct ecdsa_key *key, const struct dpop_call *call, const struct dpop_act *act,
                           struct buffer *proof, struct error *err)
{
    struct buffer OWNED_BUFFER header = BUFFER(512), claims = BUFFER(DPOP_PROOF_MAX), text = BUFFER(DPOP_PROOF_MAX);
    uint8_t signature[ECDSA_JOSE_SIZE];

    TRY(write_header(key, act == NULL ? "dpop+jwt" : "sijil-act+jwt", &header, err));
    TRY(write_claims(call, act, &claims, err));
    TRY(add_encoded(&text, buffer_bytes(&header), err));
    TRY(buffer_add_u8(&text, '.', err));
    TRY(add_encoded(&text, buffer_bytes(&claims), err));
    TRY(ecdsa_sign_jose(key, buffer_bytes(&text), signature, err));
    TRY(buffer_add_u8(&text, '.', err));
    TRY(add_encoded(&text, (struct bytes){signature, sizeof signature}, err));
    return buffer_add(proof, text.data, text.length, err);
}

struct result dpop_write(const struct ecdsa_key *key, const struct dpop_call *call, struct buffer *proof, struct error *err)
{
    return write(key, call, NULL, proof, err);
}

struct result dpop_write_act(const struct ecdsa_key *key, const struct dpop_call *call, const struct dpop_act *act,
                             struct buffer *proof, struct error *err)
{
    return write(key, call, act, proof, err);
}

/* ---- The stored key ---- */

static struct result load(const char *path, struct ecdsa_key **key_out, struct error *err)
{
    struct stat status;
    OWNED_FD fd = -1;

    TRY(local(file_open(path, O_RDONLY, 0, &fd, err), path, err));
    TRY(local(file_status(fd, &status, err), path, err));
    if ((status.st_mode & 077) != 0)
        return failure(err, ERROR_DENIED, "%.150s is a secret but others may read it: chmod 600 it", path);
    return local(ecdsa_key_load(path, key_out, err), path, err);
}

static struct result make(const char *path, struct ecdsa_key **key_out, struct error *err)
{
    OWNED(ecdsa_key) *key = NULL;

    TRY(ecdsa_key_new(&key, err));
    const struct result saved = ecdsa_key_save(key, path, err);
    if (!saved.ok && err->kind == ERROR_CONFLICT) return load(path, key_out, err); /* another program was faster */
    TRY(local(saved, path, err));
    *key_out = GIVE(key);
    return SUCCESS;
}

struct result dpop_key_load(bool makes, struct ecdsa_key **key_out, struct error *err)
{
    struct buffer OWNED_BUFFER path = BUFFER(PATH_MAX);

    TRY(user_folder("XDG_CONFIG_HOME", ".config", makes, &path, err));
    TRY(buffer_add_text(&path, "/dpop.pem", err));
    const struct result loaded = load(buffer_text(&path), key_out, err);
    if (loaded.ok || !makes || err->kind != ERROR_NOT_FOUND) return loaded;
    return make(buffer_text(&path), key_out, err);
}
