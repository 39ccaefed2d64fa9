#include <assert.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "crypto/dsse.h"

static struct result add_signature(struct bytes signed_bytes, const struct ecdsa_key *signer, struct buffer *envelope,
                                   struct error *err)
{
    struct buffer OWNED_BUFFER signature = BUFFER(ECDSA_DER_MAX);
    uint8_t point[ECDSA_PUBLIC_SIZE];
    char keyid[ECDSA_THUMBPRINT_SIZE];

    ecdsa_key_public(signer, point);
    ecdsa_thumbprint(point, keyid);
    TRY(ecdsa_sign_der(signer, signed_bytes, &signature, err));
    TRY(buffer_format(envelope, err, "{\"keyid\":\"%s\",\"sig\":\"", keyid));
    TRY(text_base64(envelope, BASE64_STANDARD, buffer_bytes(&signature), err));
    return buffer_add_text(envelope, "\"}", err);
}

struct result dsse_write(const char *payload_type, struct bytes payload, const struct ecdsa_key *const *signers,
                         size_t signer_count, struct buffer *envelope, struct error *err)
{
    struct buffer OWNED_BUFFER signed_bytes = BUFFER(payload.length + DSSE_OVERHEAD);

    assert(signer_count > 0 && signer_count <= DSSE_SIGNATURE_COUNT);
    TRY(dsse_preauthentication(payload_type, payload, &signed_bytes, err));
    TRY(buffer_add_text(envelope, "{\"payload\":\"", err));
    TRY(text_base64(envelope, BASE64_STANDARD, payload, err));
    TRY(buffer_add_text(envelope, "\",\"payloadType\":", err));
    TRY(json_write_string(envelope, bytes_of_text(payload_type), err));
    TRY(buffer_add_text(envelope, ",\"signatures\":[", err));
    for (size_t i = 0; i < signer_count; i++) {
        if (i > 0) TRY(buffer_add_u8(envelope, ',', err));
        TRY(add_signature(buffer_bytes(&signed_bytes), signers[i], envelope, err));
    }
    return buffer_add_text(envelope, "]}", err);
}

static struct result copy_signatures(const struct dsse *dsse, size_t *count, struct buffer *envelope, struct error *err)
{
    for (size_t i = 0; i < dsse->signature_count; i++) {
        const struct dsse_signature *signature = &dsse->signatures[i];
        if (++*count > DSSE_SIGNATURE_COUNT)
            return failure(err, ERROR_LIMIT, "an envelope has at most %d signatures", DSSE_SIGNATURE_COUNT);
        TRY(buffer_add_text(envelope, *count == 1 ? "{\"keyid\":" : ",{\"keyid\":", err));
        TRY(json_write_string(envelope, bytes_of_text(signature->keyid), err));
        TRY(buffer_add_text(envelope, ",\"sig\":\"", err));
        TRY(text_base64(envelope, BASE64_STANDARD, (struct bytes){signature->bytes, signature->length}, err));
        TRY(buffer_add_text(envelope, "\"}", err));
    }
    return SUCCESS;
}

struct result dsse_join(const struct dsse *one, const struct dsse *other, struct buffer *envelope, struct error *err)
{
    size_t count = 0;

    if (strcmp(one->payload_type, other->payload_type) != 0 ||
        !bytes_equal(buffer_bytes(&one->payload), buffer_bytes(&other->payload)))
        return failure(err, ERROR_INVALID, "the envelopes hold different documents");
    TRY(buffer_add_text(envelope, "{\"payload\":\"", err));
    TRY(text_base64(envelope, BASE64_STANDARD, buffer_bytes(&one->payload), err));
    TRY(buffer_add_text(envelope, "\",\"payloadType\":", err));
    TRY(json_write_string(envelope, bytes_of_text(one->payload_type), err));
    TRY(buffer_add_text(envelope, ",\"signatures\":[", err));
    TRY(copy_signatures(one, &count, envelope, err));
    TRY(copy_signatures(other, &count, envelope, err));
    return buffer_add_text(envelope, "]}", err);
}
