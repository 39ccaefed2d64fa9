#include "authz/robot_certificate.h"

#include <string.h>

#include "base/text.h"

static bool begins(struct bytes text, const char *prefix)
{
    const size_t length = strlen(prefix);

    return text.length >= length && memcmp(text.data, prefix, length) == 0;
}

bool robot_secret_names_certificate(struct bytes secret)
{
    return begins(secret, ROBOT_CERTIFICATE_THUMBPRINT) || begins(secret, ROBOT_CERTIFICATE_DNS) ||
           begins(secret, ROBOT_CERTIFICATE_URI);
}

void robot_secret_hash(struct bytes secret, uint8_t hash_out[SHA256_SIZE])
{
    sha256_of(secret, hash_out);
    if (!robot_secret_names_certificate(secret)) return;
    for (size_t i = 0; i < SHA256_SIZE; i++) hash_out[i] = (uint8_t)~hash_out[i];
}

bool robot_certificate_is_possible(const char *text)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    const struct bytes all = bytes_of_text(text);
    const size_t prefix = begins(all, ROBOT_CERTIFICATE_THUMBPRINT) ? strlen(ROBOT_CERTIFICATE_THUMBPRINT) : 4;

    if (!robot_secret_names_certificate(all)) return false;
    const struct bytes name = {all.data + prefix, all.length - prefix};
    if (prefix > 4) return name.length == 43 && text_consists_of(name, letters);
    for (size_t i = 0; i < name.length; i++)
        if (name.data[i] <= ' ' || name.data[i] > '~') return false;
    return name.length > 0 && name.length <= ROBOT_CERTIFICATE_NAME_MAX;
}
