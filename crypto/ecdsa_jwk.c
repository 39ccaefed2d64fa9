#include <stdio.h>

#include "base/text.h"
#include "crypto/digest.h"
#include "crypto/ecdsa.h"

enum { COORDINATE_SIZE = 32, COORDINATE_TEXT_SIZE = 44 };

/* base64url of exactly 32 bytes; it allocates nothing, so a thumbprint can't fail. */
static void encode(const uint8_t bytes[COORDINATE_SIZE], char text_out[COORDINATE_TEXT_SIZE])
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    size_t length = 0;

    for (size_t i = 0; i < COORDINATE_SIZE; i += 3) {
        const size_t left = COORDINATE_SIZE - i;
        const bool is_whole = left > 2; /* the last group has two bytes */
        const uint32_t group = (uint32_t)bytes[i] << 16 | (uint32_t)bytes[i + 1] << 8 | (is_whole ? bytes[i + 2] : 0);
        for (size_t j = 0; j < (is_whole ? 4 : 3); j++) text_out[length++] = letters[group >> (18 - 6 * j) & 63];
    }
    text_out[length] = '\0';
}

struct result ecdsa_point_text(const uint8_t point[ECDSA_PUBLIC_SIZE], char text_out[ECDSA_POINT_TEXT_SIZE], struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(ECDSA_POINT_TEXT_SIZE - 1);

    TRY(text_base64(&text, BASE64_URL, (struct bytes){point, ECDSA_PUBLIC_SIZE}, err));
    (void)snprintf(text_out, ECDSA_POINT_TEXT_SIZE, "%s", buffer_text(&text));
    return SUCCESS;
}

void ecdsa_thumbprint(const uint8_t point[ECDSA_PUBLIC_SIZE], char thumbprint_out[ECDSA_THUMBPRINT_SIZE])
{
    char x[COORDINATE_TEXT_SIZE], y[COORDINATE_TEXT_SIZE];
    char json[160]; /* 39 characters around two coordinates of 43 */
    uint8_t hash[SHA256_SIZE];

    encode(point + 1, x);
    encode(point + 1 + COORDINATE_SIZE, y);
    (void)snprintf(json, sizeof json, "{\"crv\":\"P-256\",\"kty\":\"EC\",\"x\":\"%s\",\"y\":\"%s\"}", x, y);
    sha256_of(bytes_of_text(json), hash);
    encode(hash, thumbprint_out);
}

struct result ecdsa_jwk(const uint8_t point[ECDSA_PUBLIC_SIZE], struct buffer *jwk, struct error *err)
{
    char x[COORDINATE_TEXT_SIZE], y[COORDINATE_TEXT_SIZE], thumbprint[ECDSA_THUMBPRINT_SIZE];

    encode(point + 1, x);
    encode(point + 1 + COORDINATE_SIZE, y);
    ecdsa_thumbprint(point, thumbprint);
    return buffer_format(jwk, err,
                         "{\"alg\":\"ES256\",\"crv\":\"P-256\",\"kid\":\"%s\",\"kty\":\"EC\",\"use\":\"sig\","
                         "\"x\":\"%s\",\"y\":\"%s\"}",
                         thumbprint, x, y);
}
