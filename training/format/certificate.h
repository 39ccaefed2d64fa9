/*
 * training/format/certificate.h -- the key of one attempt of one node, which a runner's own key has certified (docs/formats/run.md, "Certificate").
 *
 * The key itself lives in the memory of the process that runs the attempt, and signs its result alone.
 */
#pragma once

#include "training/format/envelope.h"

#define RUN_CERTIFICATE_MAX 4096 /* bytes of an envelope that a registry takes; it has some 1,500 */

/** The keys that a certificate names: that of the runner, which has signed it, and that of the attempt. */
#define CERTIFICATE_RUNNER  "runner_key"
#define CERTIFICATE_ATTEMPT "attempt_key"

/** The RFC 7638 thumbprint of the key `which` of a certificate. */
void certificate_thumbprint(const struct run_envelope *certificate, const char *which,
                            char thumbprint_out[ECDSA_THUMBPRINT_SIZE]);
/** The public half of the key `which`. ERROR_DENIED: it is not on the curve; ERROR_NO_MEMORY. */
RESULT certificate_key(const struct run_envelope *certificate, const char *which, struct ecdsa_key **key_out, struct error *err);
/** Checks that exactly the key `which` of a certificate has signed an envelope. ERROR_DENIED, ERROR_NO_MEMORY. */
RESULT certificate_check_signer(const struct run_envelope *certificate, const char *which, const struct run_envelope *envelope,
                                struct error *err);
/** Checks that the key of the attempt has signed the result. ERROR_DENIED, also for the runner's own key; ERROR_NO_MEMORY. */
RESULT certificate_check_result(const struct run_envelope *certificate, const struct run_envelope *result, struct error *err);
