#include "keyd/erasure_certificate.h"

#include <stdio.h>
#include <string.h>

#include "audit/format/erased.h"
#include "audit/format/succession.h"
#include "crypto/dsse.h"

static struct result fill(const struct signed_log *log, const struct keyd_erasure *request, struct erased *erased,
                          struct error *err)
{
    TRY(succession_origin(keyring_origin(log->keyring), log->number, erased->origin, err));
    if (request->pseudonym.length != sizeof erased->pseudonym - 1 || !leaf_text_is_valid(request->pseudonym))
        return failure(err, ERROR_INVALID, "a certificate of erasure has a pseudonym of 64 digits");
    memcpy(erased->pseudonym, request->pseudonym.data, request->pseudonym.length);
    erased->asked = request->asked;
    erased->done = request->done;
    memcpy(erased->asked_hash, request->asked_hash, sizeof erased->asked_hash);
    memcpy(erased->done_hash, request->done_hash, sizeof erased->done_hash);
    erased->payloads = request->payloads;
    erased->erased_ms = request->erased_ms;
    erased->key_version = request->key_version;
    return SUCCESS;
}

struct result erasure_certificate_sign(const struct signed_log *log, const struct keyd_erasure *request, int64_t now_ms,
                                       struct buffer *envelope, struct error *err)
{
    const struct ecdsa_key *signer = keyring_document_key(log->keyring);
    struct erased erased = {.issued_ms = now_ms};
    struct buffer OWNED_BUFFER payload = BUFFER(ERASED_PAYLOAD_MAX);

    if (request->key_version == 0 || request->key_version > keyring_epoch(log->keyring))
        return failure(err, ERROR_INVALID, "there was no epoch %u of subjects' keys", request->key_version);
    if (request->asked > INT64_MAX || request->done > INT64_MAX || request->payloads > INT64_MAX || request->erased_ms < 0 ||
        request->erased_ms > now_ms + 60000)
        return failure(err, ERROR_INVALID, "a certificate of erasure with an impossible number");
    TRY(fill(log, request, &erased, err));
    erased.stage = keyring_oldest_epoch(log->keyring) > request->key_version ? 2 : 1;
    TRY(erased_write(&erased, &payload, err));
    return dsse_write(ERASED_TYPE, buffer_bytes(&payload), &signer, 1, envelope, err);
}
