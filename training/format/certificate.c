#include "training/format/certificate.h"

#include <assert.h>
#include <string.h>

#include "training/format/public_key.h"

static void point_of(const struct run_envelope *certificate, const char *which, uint8_t point_out[ECDSA_PUBLIC_SIZE])
{
    const bool is_read = public_key_point(run_text(certificate, which), point_out);

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
