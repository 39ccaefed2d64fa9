#include "authz/jwk.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"

#define BIT(algorithm) (1U << (algorithm))

struct number {
    size_t length;
    uint8_t bytes[513]; /* 4096 bits, and one byte more to detect longer numbers */
};

struct result jwks_read(struct bytes text, size_t maximum_bytes, json_t **keys_out, struct error *err)
{
    OWNED_JSON set = NULL;

    TRY(json_read(text, maximum_bytes, &set, err));
    json_t *keys = json_object_get(set, "keys");
    if (!json_is_array(keys)) return failure(err, ERROR_INVALID, "a key set is an object with an array called keys");
    *keys_out = json_incref(keys);
    return SUCCESS;
}

/* The number's bytes; length 0 if it is not canonical base64url, or longer than `size`. */
static struct result number_of(const json_t *key, const char *member, struct number *number, struct error *err)
{
    struct buffer OWNED_BUFFER decoded = BUFFER(sizeof number->bytes);
    const char *text = json_text_of(key, member);
    struct error cause = {0};

    number->length = 0;
    if (text == NULL) return SUCCESS;
    if (!text_from_base64(&decoded, BASE64_URL, bytes_of_text(text), &cause).ok) {
        if (cause.kind == ERROR_NO_MEMORY) return failure(err, ERROR_NO_MEMORY, "no memory to read a key");
        return SUCCESS;
    }
    memcpy(number->bytes, buffer_text(&decoded), decoded.length);
    number->length = decoded.length;
    return SUCCESS;
}

static bool fits(const struct jwk *jwk, int length)
{
    return length > 0 && (size_t)length < sizeof jwk->text;
}

static struct result read_rsa(const json_t *key, struct jwk *jwk, struct error *err)
{
    struct number modulus, exponent;

    TRY(number_of(key, "n", &modulus, err));
    TRY(number_of(key, "e", &exponent, err));
    if (modulus.length < 256 || modulus.length > 512) return SUCCESS;
    if ((modulus.bytes[0] & 0x80) == 0 || (modulus.bytes[modulus.length - 1] & 1) == 0) return SUCCESS;
    if (exponent.length != 3 || memcmp(exponent.bytes, "\x01\x00\x01", 3) != 0) return SUCCESS;
    jwk->algorithms = BIT(JOSE_RS256) | BIT(JOSE_PS256);
    jwk->signature_size = modulus.length;
    jwk->is_usable =
        fits(jwk, snprintf(jwk->text, sizeof jwk->text, "{\"e\":\"AQAB\",\"kid\":\"%s\",\"kty\":\"RSA\",\"n\":\"%s\"}", jwk->kid,
                           json_text_of(key, "n")));
    return SUCCESS;
}

static struct result read_point(const json_t *key, struct jwk *jwk, struct error *err)
{
    const char *curve = json_text_of(key, "crv");
    struct number x, y;

    TRY(number_of(key, "x", &x, err));
    TRY(number_of(key, "y", &y, err));
    if (curve == NULL || (strcmp(curve, "P-256") != 0 && strcmp(curve, "P-384") != 0)) return SUCCESS;
    const bool small = strcmp(curve, "P-256") == 0;
    const size_t size = small ? 32 : 48;
    if (x.length != size || y.length != size) return SUCCESS;
    jwk->algorithms = small ? BIT(JOSE_ES256) : BIT(JOSE_ES384);
    jwk->signature_size = 2 * size;
    jwk->is_usable = fits(jwk, snprintf(jwk->text, sizeof jwk->text,
                                        "{\"crv\":\"%s\",\"kid\":\"%s\",\"kty\":\"EC\",\"x\":\"%s\",\"y\":\"%s\"}", curve,
                                        jwk->kid, json_text_of(key, "x"), json_text_of(key, "y")));
    return SUCCESS;
}

/* RFC 8037, 2. Ed448 is not accepted. */
static struct result read_edwards(const json_t *key, struct jwk *jwk, struct error *err)
{
    const char *curve = json_text_of(key, "crv");
    struct number x;

    TRY(number_of(key, "x", &x, err));
    if (curve == NULL || strcmp(curve, "Ed25519") != 0 || x.length != sizeof jwk->ed25519) return SUCCESS;
    memcpy(jwk->ed25519, x.bytes, sizeof jwk->ed25519);
    jwk->algorithms = BIT(JOSE_EDDSA);
    jwk->signature_size = 64;
    jwk->is_usable =
        fits(jwk, snprintf(jwk->text, sizeof jwk->text, "{\"crv\":\"Ed25519\",\"kid\":\"%s\",\"kty\":\"OKP\",\"x\":\"%s\"}",
                           jwk->kid, json_text_of(key, "x")));
    return SUCCESS;
}

/* Only characters that need no escape in JSON; all known issuers use no others. */
static bool copy_kid(const json_t *key, struct jwk *jwk)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.:/=+@~";
    const char *kid = json_text_of(key, "kid");

    if (kid == NULL || kid[0] == '\0' || strlen(kid) >= sizeof jwk->kid) return false;
    if (!text_consists_of(bytes_of_text(kid), letters)) return false;
    (void)snprintf(jwk->kid, sizeof jwk->kid, "%s", kid);
    return true;
}

static bool is_for_signatures(const json_t *key)
{
    const json_t *use = json_object_get(key, "use");
    const json_t *operations = json_object_get(key, "key_ops");
    const json_t *operation;
    size_t i;

    if (use != NULL && (!json_is_string(use) || strcmp(json_string_value(use), "sig") != 0)) return false;
    if (operations == NULL) return true;
    json_array_foreach (operations, i, operation)
        if (json_is_string(operation) && strcmp(json_string_value(operation), "verify") == 0) return true;
    return false;
}

/* A key that names its algorithm is used for that algorithm only. */
static bool narrow(const json_t *key, struct jwk *jwk)
{
    const json_t *member = json_object_get(key, "alg");
    enum jose_algorithm algorithm;

    if (member == NULL) return true;
    if (!json_is_string(member) || !jose_algorithm_find(json_string_value(member), &algorithm)) return false;
    jwk->algorithms &= BIT(algorithm);
    return jwk->algorithms != 0;
}

struct result jwk_read(const json_t *key, struct jwk *jwk_out, struct error *err)
{
    const char *type = json_text_of(key, "kty");
    struct jwk jwk = {.is_usable = false};

    jwk.lacks_kid = !copy_kid(key, &jwk);
    if (type != NULL && is_for_signatures(key) && !jwk.lacks_kid) {
        if (strcmp(type, "RSA") == 0) TRY(read_rsa(key, &jwk, err));
        else if (strcmp(type, "EC") == 0) TRY(read_point(key, &jwk, err));
        else if (strcmp(type, "OKP") == 0) TRY(read_edwards(key, &jwk, err));
    }
    jwk.is_usable = jwk.is_usable && narrow(key, &jwk);
    *jwk_out = jwk;
    return SUCCESS;
}
