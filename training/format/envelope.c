#include "training/format/envelope.h"

#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"
#include "crypto/digest.h"
#include "training/format/shapes.h"

#define IN_TOTO "application/vnd.in-toto+json"

static const struct type_row {
    const char *name, *type;
    const struct run_shape *shape;
} rows[RUN_TYPES] = {
    [RUN_REQUEST] = {"request", "application/vnd.sijil.run-request.v1+json", &run_shape_request},
    [RUN_APPROVAL] = {"approval", "application/vnd.sijil.run-approval.v1+json", &run_shape_approval},
    [RUN_ORDER] = {"order", "application/vnd.sijil.run-order.v1+json", &run_shape_order},
    [RUN_LEASE] = {"lease", "application/vnd.sijil.run-lease.v1+json", &run_shape_lease},
    [RUN_CERTIFICATE] = {"certificate", "application/vnd.sijil.run-certificate.v1+json", &run_shape_certificate},
    [RUN_RESULT] = {"result", IN_TOTO, &run_shape_result},
    [RUN_ADMISSION] = {"admission", IN_TOTO, &run_shape_admission},
    [RUN_REFUSAL] = {"refusal", "application/vnd.sijil.run-refusal.v1+json", &run_shape_refusal},
};

const char *run_type_name(enum run_type type)
{
    return rows[type].name;
}

const char *run_type_media(enum run_type type)
{
    return rows[type].type;
}

struct result run_payload_check(enum run_type type, const json_t *json, struct error *err)
{
    return run_shape_check(json, rows[type].shape, rows[type].name, err);
}

/* dsse_read() allows several signatures, and no key id; an envelope of a run has exactly one signature, with a key id. */
static struct result check_outside(struct bytes envelope, struct error *err)
{
    OWNED_JSON json = NULL;

    TRY(json_read(envelope, RUN_ENVELOPE_MAX, &json, err));
    return run_shape_check(json, &run_shape_envelope, "the envelope", err);
}

static struct result check_canonical(const json_t *json, struct bytes payload, struct error *err)
{
    struct buffer OWNED_BUFFER canonical = BUFFER(RUN_PAYLOAD_MAX);

    TRY(json_write_canonical(&canonical, json, err));
    if (bytes_equal(buffer_bytes(&canonical), payload)) return SUCCESS;
    return failure(err, ERROR_INVALID, "the payload must be canonical JSON (RFC 8785)");
}

static struct result set_digest(struct run_envelope *envelope, struct error *err)
{
    const struct bytes payload = buffer_bytes(&envelope->dsse->payload);
    struct buffer OWNED_BUFFER encoding = BUFFER(payload.length + DSSE_OVERHEAD);
    char text[DIGEST_TEXT_SIZE];

    TRY(dsse_preauthentication(envelope->dsse->payload_type, payload, &encoding, err));
    const struct digest digest = digest_of(DIGEST_SHA256, buffer_bytes(&encoding));
    digest_format(&digest, text);
    memcpy(envelope->digest, text, sizeof envelope->digest);
    return SUCCESS;
}

static struct result fill(struct run_envelope *envelope, struct error *err)
{
    const struct bytes payload = buffer_bytes(&envelope->dsse->payload);

    if (strcmp(envelope->dsse->payload_type, rows[envelope->type].type) != 0)
        return failure(err, ERROR_INVALID, "the payload type of this envelope is %s", rows[envelope->type].type);
    if (payload.length > RUN_PAYLOAD_MAX) return failure(err, ERROR_LIMIT, "a payload has at most %d bytes", RUN_PAYLOAD_MAX);
    TRY(json_read(payload, RUN_PAYLOAD_MAX, &envelope->json, err));
    TRY(check_canonical(envelope->json, payload, err));
    TRY(run_payload_check(envelope->type, envelope->json, err));
    return set_digest(envelope, err);
}

static struct result read_whole(struct bytes bytes, struct run_envelope *envelope, struct error *err)
{
    if (bytes.length > RUN_ENVELOPE_MAX) return failure(err, ERROR_LIMIT, "an envelope has at most %d bytes", RUN_ENVELOPE_MAX);
    TRY(check_outside(bytes, err));
    TRY(dsse_read(bytes, RUN_ENVELOPE_MAX, &envelope->dsse, err));
    return fill(envelope, err);
}

struct result run_envelope_read(struct bytes bytes, enum run_type type, struct run_envelope **envelope_out, struct error *err)
{
    OWNED(run_envelope) *envelope = memory_zeroed(1, sizeof *envelope);
    struct error why = {0};

    if (envelope == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for an envelope of a run");
    envelope->type = type;
    if (!read_whole(bytes, envelope, &why).ok) return failure(err, why.kind, "the %s: %.200s", rows[type].name, why.message);
    *envelope_out = GIVE(envelope);
    return SUCCESS;
}

struct result run_check_signer(const struct run_envelope *envelope, const struct ecdsa_key *key, struct error *err)
{
    uint8_t point[ECDSA_PUBLIC_SIZE];
    char keyid[ECDSA_THUMBPRINT_SIZE];
    struct error why = {0};

    ecdsa_key_public(key, point);
    ecdsa_thumbprint(point, keyid);
    if (strcmp(keyid, envelope->dsse->signatures[0].keyid) != 0)
        return failure(err, ERROR_DENIED, "the %s is signed by the key %.43s, and not by %.43s", rows[envelope->type].name,
                       envelope->dsse->signatures[0].keyid, keyid);
    if (dsse_check_signer(envelope->dsse, key, &why).ok) return SUCCESS;
    return failure(err, why.kind, "the %s: %.200s", rows[envelope->type].name, why.message);
}

void run_digest_bytes(const struct run_envelope *envelope, uint8_t digest_out[SHA256_SIZE])
{
    (void)text_from_hex(bytes_of_text(envelope->digest + strlen("sha256:")), digest_out, SHA256_SIZE); /* its form was checked */
}

const json_t *run_member(const struct run_envelope *envelope, const char *path)
{
    const json_t *value = envelope->json;

    while (value != NULL) {
        const size_t length = strcspn(path, ".");
        value = json_object_getn(value, path, length);
        if (path[length] == '\0') break;
        path += length + 1;
    }
    return value;
}

const char *run_text(const struct run_envelope *envelope, const char *path)
{
    const char *text = json_string_value(run_member(envelope, path));

    assert(text != NULL); /* the shape was checked */
    return text;
}

int64_t run_integer(const struct run_envelope *envelope, const char *path)
{
    const json_t *value = run_member(envelope, path);

    assert(json_is_integer(value));
    return json_integer_value(value);
}

int64_t run_time(const struct run_envelope *envelope, const char *path)
{
    int64_t wall_ms = 0;

    const bool is_time = clock_parse(bytes_of_text(run_text(envelope, path)), &wall_ms);
    assert(is_time);
    return wall_ms;
}

void run_envelope_free(struct run_envelope *envelope)
{
    if (envelope == NULL) return;
    dsse_free(envelope->dsse);
    json_decref(envelope->json);
    free(envelope);
}
