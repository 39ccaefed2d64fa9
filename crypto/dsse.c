#include "crypto/dsse.h"

#include <string.h>

#include "base/json.h"
#include "base/memory.h"
#include "base/text.h"

struct result dsse_preauthentication(const char *payload_type, struct bytes payload, struct buffer *encoding, struct error *err)
{
    TRY(buffer_format(encoding, err, "DSSEv1 %zu %s %zu ", strlen(payload_type), payload_type, payload.length));
    return buffer_add(encoding, payload.data, payload.length, err);
}

static struct bytes view_of(const json_t *text)
{
    return (struct bytes){(const uint8_t *)json_string_value(text), json_string_length(text)};
}

/* Members that are there: the object may have no others. What no signature covers could else be stored and shown with the document. */
static struct result check_members(const json_t *object, size_t known, const char *names, struct error *err)
{
    if (json_object_size(object) == known) return SUCCESS;
    return failure(err, ERROR_INVALID, "an envelope has no members but %s", names);
}

/* DSSE permits both alphabets; one spelling is read here, so that a text that several programs compare has one form. */
static struct result decode(const json_t *text, const char *member, struct buffer *decoded, struct error *err)
{
    struct error why = {0};

    if (text_from_base64(decoded, BASE64_STANDARD, view_of(text), &why).ok) return SUCCESS;
    if (why.kind != ERROR_INVALID) return failure(err, why.kind, "the \"%s\" of an envelope: %s", member, why.message);
    return failure(err, ERROR_INVALID, "the \"%s\" of an envelope: %s (standard base64 with padding is read, base64url is not)",
                   member, why.message);
}

/* A signature that is not ECDSA P-256 may come from another signer's key. It is kept, and never verifies. */
static struct result read_signature(const json_t *entry, struct dsse_signature *signature, struct error *err)
{
    const json_t *keyid = json_object_get(entry, "keyid"), *sig = json_object_get(entry, "sig");
    struct buffer OWNED_BUFFER raw = BUFFER(DSSE_OVERHEAD);

    if (!json_is_string(sig) || (keyid != NULL && !json_is_string(keyid)))
        return failure(err, ERROR_INVALID, "a signature of an envelope needs \"sig\" and may have \"keyid\"");
    TRY(check_members(entry, keyid == NULL ? 1 : 2, "\"keyid\" and \"sig\" in a signature", err));
    if (json_string_length(keyid) >= DSSE_KEYID_SIZE)
        return failure(err, ERROR_LIMIT, "a key id of an envelope is longer than %d", DSSE_KEYID_SIZE - 1);
    TRY(decode(sig, "sig", &raw, err));
    if (keyid != NULL) memcpy(signature->keyid, json_string_value(keyid), json_string_length(keyid));
    if (raw.length > 0 && raw.length <= ECDSA_DER_MAX) {
        memcpy(signature->bytes, raw.data, raw.length);
        signature->length = raw.length;
    }
    return SUCCESS;
}

static struct result read_signatures(const json_t *list, struct dsse *dsse, struct error *err)
{
    const size_t count = json_array_size(list);

    if (!json_is_array(list) || count == 0) return failure(err, ERROR_INVALID, "an envelope needs at least one signature");
    if (count > DSSE_SIGNATURE_COUNT)
        return failure(err, ERROR_LIMIT, "an envelope has at most %d signatures", DSSE_SIGNATURE_COUNT);
    for (size_t i = 0; i < count; i++)
        TRY(read_signature(json_array_get(list, i), &dsse->signatures[dsse->signature_count++], err));
    return SUCCESS;
}

struct result dsse_read(struct bytes envelope, size_t maximum, struct dsse **dsse_out, struct error *err)
{
    OWNED_JSON root = NULL;

    TRY(json_read(envelope, maximum, &root, err));
    const json_t *type = json_object_get(root, "payloadType"), *payload = json_object_get(root, "payload");
    if (!json_is_string(type) || !json_is_string(payload))
        return failure(err, ERROR_INVALID, "an envelope needs the texts \"payloadType\" and \"payload\"");
    TRY(check_members(root, 3, "\"payload\", \"payloadType\" and \"signatures\"", err));
    if (json_string_length(type) == 0 || json_string_length(type) >= DSSE_TYPE_SIZE)
        return failure(err, ERROR_LIMIT, "a payload type has 1 to %d letters", DSSE_TYPE_SIZE - 1);

    OWNED(dsse) *dsse = memory_zeroed(1, sizeof *dsse);
    if (dsse == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for an envelope");
    memcpy(dsse->payload_type, json_string_value(type), json_string_length(type));
    dsse->payload = BUFFER(maximum);
    TRY(decode(payload, "payload", &dsse->payload, err));
    TRY(read_signatures(json_object_get(root, "signatures"), dsse, err));
    *dsse_out = GIVE(dsse);
    return SUCCESS;
}

struct result dsse_check_signer(const struct dsse *dsse, const struct ecdsa_key *key, struct error *err)
{
    const struct bytes payload = buffer_bytes(&dsse->payload);
    struct buffer OWNED_BUFFER signed_bytes = BUFFER(payload.length + DSSE_OVERHEAD);

    TRY(dsse_preauthentication(dsse->payload_type, payload, &signed_bytes, err));
    for (size_t i = 0; i < dsse->signature_count; i++) {
        const struct dsse_signature *signature = &dsse->signatures[i];
        if (ecdsa_verify_der(key, buffer_bytes(&signed_bytes), (struct bytes){signature->bytes, signature->length}))
            return SUCCESS;
    }
    return failure(err, ERROR_DENIED, "the document carries no valid signature of the trusted key");
}

void dsse_free(struct dsse *dsse)
{
    if (dsse != NULL) buffer_done(&dsse->payload);
    free(dsse);
}
