#include "training/format/certificate.h"

#include <assert.h>
#include <string.h>

#include "base/text.h"
#include "training/format/form.h"

/* RFC 5480: the algorithm id-ecPublicKey on secp256r1, and the head of the bits of an uncompressed point. */
static const uint8_t head[] = {0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01,
                               0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00};
#define INFO_SIZE (sizeof head + ECDSA_PUBLIC_SIZE)

static bool read_point(const char *text, uint8_t point_out[ECDSA_PUBLIC_SIZE])
{
    uint8_t info[INFO_SIZE];

    if (!text_from_base64_exactly(BASE64_STANDARD, bytes_of_text(text), info, sizeof info)) return false;
    if (memcmp(info, head, sizeof head) != 0) return false;
    memcpy(point_out, info + sizeof head, ECDSA_PUBLIC_SIZE);
    return true;
}

bool form_public_key(const char *text)
{
    uint8_t point[ECDSA_PUBLIC_SIZE];

    return read_point(text, point) && point[0] == 0x04;
}

struct result certificate_key_text(const uint8_t point[ECDSA_PUBLIC_SIZE], char text_out[CERTIFICATE_KEY_SIZE], struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(CERTIFICATE_KEY_SIZE);
    uint8_t info[INFO_SIZE];

    memcpy(info, head, sizeof head);
    memcpy(info + sizeof head, point, ECDSA_PUBLIC_SIZE);
    TRY(text_base64(&text, BASE64_STANDARD, (struct bytes){info, sizeof info}, err));
    assert(text.length == CERTIFICATE_KEY_SIZE - 1);
    memcpy(text_out, buffer_text(&text), CERTIFICATE_KEY_SIZE);
    return SUCCESS;
}

static void point_of(const struct run_envelope *certificate, const char *which, uint8_t point_out[ECDSA_PUBLIC_SIZE])
{
    const bool is_read = read_point(run_text(certificate, which), point_out);

    assert(is_read); /* its form was checked */
}

void certificate_thumbprint(const struct run_envelope *certificate, const char *which, char thumbprint_out[ECDSA_THUMBPRINT_SIZE])
{
    uint8_t point[ECDSA_PUBLIC_SIZE];

    point_of(certificate, which, point);
    ecdsa_thumbprint(point, thumbprint_out);
}

struct result certificate_key(const struct run_envelope *certificate, const char *which, struct ecdsa_key **key_out,
                              struct error *err)
{
    uint8_t point[ECDSA_PUBLIC_SIZE];
    struct error why = {0};

    point_of(certificate, which, point);
    if (ecdsa_key_from_public(point, key_out, &why).ok) return SUCCESS;
    return failure(err, why.kind == ERROR_NO_MEMORY ? why.kind : ERROR_DENIED, "certificate: its %s is no key: %.150s", which,
                   why.message);
}

struct result certificate_check_signer(const struct run_envelope *certificate, const char *which,
                                       const struct run_envelope *envelope, struct error *err)
{
    OWNED(ecdsa_key) *key = NULL;

    TRY(certificate_key(certificate, which, &key, err));
    return run_check_signer(envelope, key, err);
}

struct result certificate_check_result(const struct run_envelope *certificate, const struct run_envelope *result,
                                       struct error *err)
{
    if (strcmp(result->dsse->signatures[0].keyid, certificate->dsse->signatures[0].keyid) == 0)
        return failure(err, ERROR_DENIED,
                       "result: the runner's own key has signed it, and not the key of the attempt that it certified");
    return certificate_check_signer(certificate, CERTIFICATE_ATTEMPT, result, err);
}
