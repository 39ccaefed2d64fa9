#include "training/format/public_key.h"

#include <assert.h>
#include <string.h>

#include "base/text.h"

/* RFC 5480: the algorithm id-ecPublicKey on secp256r1, and the head of the bits of an uncompressed point. */
static const uint8_t head[] = {0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01,
                               0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00};
#define INFO_SIZE (sizeof head + ECDSA_PUBLIC_SIZE)

bool public_key_point(const char *text, uint8_t point_out[ECDSA_PUBLIC_SIZE])
{
    uint8_t info[INFO_SIZE];

    if (!text_from_base64_exactly(BASE64_STANDARD, bytes_of_text(text), info, sizeof info)) return false;
    if (memcmp(info, head, sizeof head) != 0) return false;
    memcpy(point_out, info + sizeof head, ECDSA_PUBLIC_SIZE);
    return true;
}

struct result public_key_text(const uint8_t point[ECDSA_PUBLIC_SIZE], char text_out[PUBLIC_KEY_SIZE], struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(PUBLIC_KEY_SIZE);
    uint8_t info[INFO_SIZE];

    memcpy(info, head, sizeof head);
    memcpy(info + sizeof head, point, ECDSA_PUBLIC_SIZE);
    TRY(text_base64(&text, BASE64_STANDARD, (struct bytes){info, sizeof info}, err));
    assert(text.length == PUBLIC_KEY_SIZE - 1);
    memcpy(text_out, buffer_text(&text), PUBLIC_KEY_SIZE);
    return SUCCESS;
}
