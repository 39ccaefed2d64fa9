#include "authz/jwk.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"

#define BIT(algorithm) (1U << (algorithm))

struct result jwks_read(struct bytes text, size_t maximum_bytes, json_t **keys_out, struct error *err)
{
    OWNED_JSON set = NULL;

    TRY(json_read(text, maximum_bytes, &set, err));
    json_t *keys = json_object_get(set, "keys");
    if (!json_is_array(keys)) return failure(err, ERROR_INVALID, "a key set is an object with an array called keys");
    *keys_out = json_incref(keys);
    return SUCCESS;
}

/* The number's bytes if it is base64url in its one spelling; 0 if it is not, or longer than `size`. */
static size_t number_of(const json_t *key, const char *member, uint8_t *bytes_out, size_t size)
{
    struct buffer OWNED_BUFFER decoded = BUFFER(size);
    const char *text = json_text_of(key, member);
    struct error ignored = {0};

    if (text == NULL || !text_from_base64(&decoded, BASE64_URL, bytes_of_text(text), &ignored).ok) return 0;
    memcpy(bytes_out, buffer_text(&decoded), decoded.length);
    return decoded.length;
}

static bool spell(struct jwk *jwk, int length)
{
    return length > 0 && (size_t)length < sizeof jwk->text;
}

static bool read_rsa(const json_t *key, struct jwk *jwk)
{
    uint8_t modulus[513], exponent[4]; /* 4096 bits, and one byte more to see that there are more */

    const size_t size = number_of(key, "n", modulus, sizeof modulus);
    if (size < 256 || size > 512 || (modulus[0] & 0x80) == 0 || (modulus[size - 1] & 1) == 0) return false;
    if (number_of(key, "e", exponent, sizeof exponent) != 3 || memcmp(exponent, "\x01\x00\x01", 3) != 0)
        return false;
    jwk->algorithms = BIT(JOSE_RS256) | BIT(JOSE_PS256);
    jwk->signature_size = size;
    return spell(jwk, snprintf(jwk->text, sizeof jwk->text, "{\"e\":\"AQAB\",\"kid\":\"%s\",\"kty\":\"RSA\",\"n\":\"%s\"}",
                               jwk->kid, json_text_of(key, "n")));
}

static bool read_point(const json_t *key, struct jwk *jwk)
{
    const char *curve = json_text_of(key, "crv");
    uint8_t number[49]; /* P-384, and one byte more */

    if (curve == NULL) return false;
    const bool small = strcmp(curve, "P-256") == 0;
    if (!small && strcmp(curve, "P-384") != 0) return false;
    const size_t size = small ? 32 : 48;
    if (number_of(key, "x", number, sizeof number) != size || number_of(key, "y", number, sizeof number) != size)
        return false;
    jwk->algorithms = small ? BIT(JOSE_ES256) : BIT(JOSE_ES384);
    jwk->signature_size = 2 * size;
    return spell(jwk, snprintf(jwk->text, sizeof jwk->text,
                               "{\"crv\":\"%s\",\"kid\":\"%s\",\"kty\":\"EC\",\"x\":\"%s\",\"y\":\"%s\"}", curve,
                               jwk->kid, json_text_of(key, "x"), json_text_of(key, "y")));
}

/* Letters that need no escape in JSON; every issuer that we know of keeps to them. */
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
    json_array_foreach(operations, i, operation)
        if (json_is_string(operation) && strcmp(json_string_value(operation), "verify") == 0) return true;
    return false;
}

/* A key that names its algorithm is used for no other. */
static bool narrow(const json_t *key, struct jwk *jwk)
{
    const json_t *member = json_object_get(key, "alg");
    enum jose_algorithm algorithm;

    if (member == NULL) return true;
    if (!json_is_string(member) || !jose_algorithm_find(json_string_value(member), &algorithm)) return false;
    jwk->algorithms &= BIT(algorithm);
    return jwk->algorithms != 0;
}

bool jwk_read(const json_t *key, struct jwk *jwk_out)
{
    const char *type = json_text_of(key, "kty");
    struct jwk jwk = {0};

    if (type == NULL || !is_for_signatures(key) || !copy_kid(key, &jwk)) return false;
    if (strcmp(type, "RSA") == 0) {
        if (!read_rsa(key, &jwk)) return false;
    } else if (strcmp(type, "EC") != 0 || !read_point(key, &jwk)) {
        return false;
    }
    if (!narrow(key, &jwk)) return false;
    *jwk_out = jwk;
    return true;
}
