/*
 * documents/format/registry_pins.h -- a registry and its public keys, as a runner pins them when it is enrolled: registry.json.
 *
 * A registry that shows other keys later is not believed. The file has no secret.
 */
#pragma once

#include "base/bytes.h"
#include "crypto/ecdsa.h"

#define REGISTRY_PINS_MAX      8192
#define REGISTRY_HOST_SIZE     256 /* a DNS name has at most 253 characters */
#define REGISTRY_AUDIENCE_SIZE 128 /* docs/formats/run.md */
#define REGISTRY_LOG_KEY_SIZE  256 /* name, id and key: as in struct keyd_identity */

struct registry_pins {
    char host[REGISTRY_HOST_SIZE];         /* "registry.example:8443"; the member `url` is "https://" and this */
    char audience[REGISTRY_AUDIENCE_SIZE]; /* origin of the log */
    char log_key[REGISTRY_LOG_KEY_SIZE];   /* a C2SP note verifier key */
    uint8_t signer[ECDSA_PUBLIC_SIZE];     /* sijil-keyd's key of documents */
    uint8_t root[ECDSA_PUBLIC_SIZE];       /* of approvers */
    bool has_ca;                           /* ca.pem beside it has the authorities for TLS; else the system's count */
};

/** "registry.example", "registry.example:8443", "[::1]:8443": nothing else that a URL may have. */
bool registry_host_is_valid(const char *host);

/** ERROR_INVALID names the member; ERROR_LIMIT, ERROR_NO_MEMORY. */
RESULT registry_pins_read(struct bytes text, struct registry_pins *pins_out, struct error *err);
/** Appends the file. ERROR_INVALID for pins that it could not read again. */
RESULT registry_pins_write(const struct registry_pins *pins, struct buffer *text, struct error *err);
