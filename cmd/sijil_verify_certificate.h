/*
 * cmd/sijil_verify_certificate.h -- checks a certificate of a deletion or of an erasure.
 */
#pragma once

#include "audit/format/witness_policy.h"
#include "base/bytes.h"

struct certificate_request {
    const char *key;    /* of the log */
    const char *signer; /* file: the key of documents */
    const struct witness_policy *policy;
    bool json;
};
/** `bundle`: the certificate. ERROR_DENIED: it proves nothing. */
RESULT certificate_verify_answer(const struct certificate_request *request, struct bytes bundle, struct buffer *answer,
                                 struct error *err);
