/*
 * gateway/pipeline/signed_body.h -- the signed document in the body of a request.
 *
 * It is read at the first call, and lives as long as the request. So target function and handler may ask for it any number of times. Reading
 * proves nothing: the handler checks the signatures (documents/format/document.h).
 */
#pragma once

#include "documents/format/document.h"
#include "gateway/pipeline/request.h"

struct signed_body {
    const struct document *document;
    struct bytes
        envelopes[DOCUMENT_SIGNATURES_MAX]; /* one for each signature; canonical JSON, whatever the spelling in the body */
    size_t count;
};

/** The body is one envelope. ERROR_INVALID, ERROR_LIMIT, ERROR_NO_MEMORY. */
RESULT request_envelope(struct request *request, const struct signed_body **body_out, struct error *err);
/** The body is an object with the envelope as this member, and other members. The same errors. */
RESULT request_envelope_member(struct request *request, const char *member, const struct signed_body **body_out,
                               struct error *err);
/** The body is an object with `envelopes`, a list of 1 to DOCUMENT_SIGNATURES_MAX. The same errors. */
RESULT request_envelopes(struct request *request, const struct signed_body **body_out, struct error *err);
/** The pipeline calls it at the end of the request. */
void request_signed_free(struct request *request);
