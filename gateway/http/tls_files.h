/* gateway/http/tls_files.h -- where a server's certificate, its key and the authorities of its clients are; and the authority of runners. */
#pragma once

#include "crypto/ecdsa.h"

struct tls_files {
    const char *certificate, *key; /* PEM files */
    const char *client_ca;         /* the same; "": other certificates of clients than those of runners do not count */
    bool takes_any;                /* certificates of no authority count as well: their key alone is proven (RFC 8705, 2.2) */
    bool
        demands_client; /* a client without a certificate of client_ca does not connect; expiry is not in the metrics, which are of the other server */
    uint8_t runner_authority[ECDSA_PUBLIC_SIZE]; /* of sijil-keyd (crypto/runner_certificate.h); all zero: no runner is known */
};
