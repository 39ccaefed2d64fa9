/*
 * crypto/certificate.h -- X.509 for our own listeners (RFC 5280): a certificate authority, server certificates, and their
 * checks.
 *
 * All keys are ECDSA P-256. A server certificate is valid for at most CERTIFICATE_DAYS_MAX days. Input and output are PEM.
 */
#pragma once

#include "base/bytes.h"
#include "crypto/ecdsa.h"

#define CERTIFICATE_DAYS_MAX  397          /* CA/Browser Forum baseline, 6.3.2 */
#define CERTIFICATE_PEM_MAX   (256 * 1024) /* a chain */
#define CERTIFICATE_NAMES_MAX 64

/** Appends a self-signed authority with the name `common_name`, valid from a minute ago for `days`. */
RESULT certificate_authority(const char *common_name, const struct ecdsa_key *key, unsigned days, struct buffer *pem,
                             struct error *err);

struct certificate_request {
    const struct ecdsa_key *key; /* the server's; the public half is enough */
    const char *const *names;    /* DNS names and IP addresses in text, at least one; all become SANs */
    size_t name_count;           /* at most CERTIFICATE_NAMES_MAX */
    unsigned days;               /* 1 to CERTIFICATE_DAYS_MAX; it never ends after the authority */
};
/** Appends a server certificate signed by the authority. ERROR_INVALID if the key is not the authority's. */
RESULT certificate_issue(const struct certificate_request *request, struct bytes authority_pem,
                         const struct ecdsa_key *authority_key, struct buffer *pem, struct error *err);

struct certificate_facts {
    uint8_t sha256[32]; /* of the DER: x5t#S256 of RFC 8705 */
    int64_t not_before_s, not_after_s;
};
/** Reads the first certificate of a PEM chain. ERROR_INVALID for anything else. */
RESULT certificate_inspect(struct bytes pem, struct certificate_facts *facts_out, struct error *err);
/** As certificate_inspect(); in addition `key_pem` must have its private key. ERROR_INVALID names the rule. */
RESULT certificate_check_pair(struct bytes pem, struct bytes key_pem, struct certificate_facts *facts_out, struct error *err);
/** Whether the first certificate is for this DNS name or IP address (RFC 6125). A subject's common name does not count. */
RESULT certificate_covers(struct bytes pem, const char *name, bool *covers_out, struct error *err);
/** Whether the first certificate has this URI among its alternative names, byte for byte. */
RESULT certificate_has_uri(struct bytes pem, const char *uri, bool *has_out, struct error *err);
