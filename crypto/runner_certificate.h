/*
 * crypto/runner_certificate.h -- the client certificate of a runner (RFC 5280): sijil-keyd makes it, a gateway reads it.
 *
 * A certificate says that sijil-keyd knew the runner when it was made. It gives no right: the runner's document must be in force at each
 * request (docs/runner.md). There is one authority, and the certificate of a runner is signed with the authority's key directly, so it is
 * checked with that public key alone, and no chain is built.
 *
 * Form: version 3, ECDSA P-256 with SHA-256, a random serial number, issuer CN=RUNNER_AUTHORITY_NAME, subject CN=UUID, one subjectAltName
 * urn:sijil:runner:UUID, keyUsage digitalSignature, extendedKeyUsage clientAuth, not an authority. All else is refused.
 */
#pragma once

#include "base/uuid.h"
#include "crypto/ecdsa.h"

#define RUNNER_AUTHORITY_NAME      "sijil runners"
#define RUNNER_CERTIFICATE_MAX     2048 /* bytes of the DER */
#define RUNNER_CERTIFICATE_DAYS    30   /* the longest validity of a certificate */
#define RUNNER_CERTIFICATE_SKEW_MS 60000

struct runner_certificate {
    struct uuid runner;
    uint8_t point[ECDSA_PUBLIC_SIZE];    /* the runner's key */
    int64_t not_before_ms, not_after_ms; /* in full seconds */
};

/** Appends the DER. The members have been checked. ERROR_INVALID for a period that is too long or ends before it begins. */
RESULT runner_certificate_issue(const struct runner_certificate *wanted, const struct ecdsa_key *authority, struct buffer *der,
                                struct error *err);
/**
 * Reads a certificate of exactly this form that was signed with the authority's key. It may have expired. ERROR_DENIED: another authority
 * has signed it. ERROR_INVALID names the rule.
 */
RESULT runner_certificate_read(struct bytes der, const uint8_t authority[ECDSA_PUBLIC_SIZE],
                               struct runner_certificate *certificate_out, struct error *err);
/** Appends a DER certificate as PEM (RFC 7468). */
RESULT runner_certificate_pem(struct bytes der, struct buffer *pem, struct error *err);
/** Whether the certificate is valid at `now_ms`. Its period begins RUNNER_CERTIFICATE_SKEW_MS earlier, because clocks differ. */
bool runner_certificate_is_current(const struct runner_certificate *certificate, int64_t now_ms);
