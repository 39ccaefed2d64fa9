#include <string.h>

#include "audit/event_priv.h"
#include "audit/format/signed_act.h"
#include "base/json.h"
#include "base/text.h"
#include "crypto/aead.h"
#include "crypto/random.h"

#define PAYLOAD_MAX TALLY_TEXT_MAX /* bytes: enough for the claims of a token, a user agent and eight denials */
#define CLAIMS_MAX  8192
#define AGENT_MAX   1024
#define PURPOSE_MAX 512
#define SEARCH_MAX  4096

/* Text that is too long or not valid is replaced by a note: text from outside must not make an event fail. */
static struct result add_text(struct buffer *payload, const char *name, const char *value, size_t maximum, struct error *err)
{
    struct bytes text = bytes_of_text(value);

    if (text.length > maximum) text = bytes_of_text("(too long to be kept)");
    if (!leaf_text_is_valid(text)) text = bytes_of_text("(not text)");
    if (payload->length > 1) TRY(buffer_add_u8(payload, ',', err));
    TRY(buffer_format(payload, err, "\"%s\":", name));
    return json_write_string(payload, text, err);
}

static struct result add_optional(struct buffer *payload, const char *name, const char *value, size_t maximum, struct error *err)
{
    return value == NULL ? SUCCESS : add_text(payload, name, value, maximum, err);
}

static struct result add_denial(struct buffer *payload, const struct denial *denial, struct error *err)
{
    struct buffer OWNED_BUFFER object = BUFFER(4096);

    TRY(buffer_add_u8(&object, '{', err));
    TRY(add_text(&object, "message", denial->message, sizeof denial->message, err));
    TRY(add_text(&object, "missing", denial->missing, sizeof denial->missing, err));
    TRY(add_text(&object, "policy", denial->policy, sizeof denial->policy, err));
    TRY(add_text(&object, "rule", denial->rule, sizeof denial->rule, err));
    TRY(buffer_add_u8(&object, '}', err));
    return buffer_add(payload, object.data, object.length, err);
}

static struct result add_denials(struct buffer *payload, const struct decision *decision, struct error *err)
{
    if (decision == NULL || decision->parts.denial_count == 0) return SUCCESS;
    TRY(buffer_add_text(payload, payload->length > 1 ? ",\"denials\":[" : "\"denials\":[", err));
    for (size_t i = 0; i < decision->parts.denial_count; i++) {
        if (i > 0) TRY(buffer_add_u8(payload, ',', err));
        TRY(add_denial(payload, &decision->parts.denials[i], err));
    }
    return buffer_add_u8(payload, ']', err);
}

/* Members are in byte order: canonical JSON, as in the leaf. */
static struct result write_payload(const struct record *record, struct buffer *payload, struct error *err)
{
    const struct event_context *context = &record->context;

    TRY(buffer_add_u8(payload, '{', err));
    TRY(add_optional(payload, SIGNED_ACT_MEMBER, context->act, KEY_PROOF_SIZE_MAX, err));
    TRY(add_optional(payload, "address", context->client_address, 64, err));
    TRY(add_optional(payload, "agent", context->user_agent, AGENT_MAX, err));
    TRY(add_optional(payload, "certificate", context->certificate, 64, err));
    TRY(add_optional(payload, "claims", context->claims, CLAIMS_MAX, err));
    TRY(add_denials(payload, record->decision, err));
    TRY(add_optional(payload, "issuer", context->issuer, SUBJECT_TEXT_MAX, err));
    TRY(add_optional(payload, "purpose", context->purpose, PURPOSE_MAX, err));
    TRY(add_optional(payload, "search", context->search, SEARCH_MAX, err));
    TRY(add_optional(payload, "subject", context->subject, SUBJECT_TEXT_MAX, err));
    TRY(add_optional(payload, "token", context->token, 128, err));
    TRY(add_optional(payload, "tried", context->tried, SUBJECT_TEXT_MAX, err));
    return buffer_add_u8(payload, '}', err);
}

/* The associated data are origin || src, so a box that was moved to another event or another log does not open. */
static struct result write_associated(const char *origin, const struct leaf_source *source, struct buffer *associated,
                                      struct error *err)
{
    TRY(buffer_add_text(associated, origin, err));
    return leaf_source_write(source, associated, err);
}

static struct result seal(const struct event *event, const struct audit_subject *subject, struct bytes associated,
                          struct bytes payload, struct buffer *boxes, struct error *err)
{
    uint8_t key[XCHACHA_KEY_SIZE], *destination = NULL;

    TRY(buffer_reserve(boxes, payload.length + BOX_OVERHEAD, &destination, err));
    TRY(subject_payload_key(subject->key, event->salt, key, err));
    box_seal(key, associated, payload, destination);
    secret_wipe(key, sizeof key);
    boxes->length += payload.length + BOX_OVERHEAD;
    return SUCCESS;
}

static struct result write_and_seal(struct event *event, const struct audit_subject *subject, const char *origin,
                                    struct buffer *payload, struct buffer *boxes, struct error *err)
{
    struct buffer OWNED_BUFFER associated = BUFFER(512);
    const size_t at = boxes->length;

    if (event->tally != NULL) TRY(tally_write(event->tally, payload, err));
    else TRY(write_payload(event->record, payload, err));
    TRY(write_associated(origin, &event->source, &associated, err));
    random_bytes(event->salt, sizeof event->salt);
    TRY(leaf_payload_commitment(event->salt, buffer_bytes(payload), event->commitment, err));
    TRY(seal(event, subject, buffer_bytes(&associated), buffer_bytes(payload), boxes, err));
    event->has_payload = true;
    event->box_at = at;
    event->box_length = boxes->length - at;
    return SUCCESS;
}

struct result event_seal_payload(struct event *event, const struct audit_subject *subject, const char *origin,
                                 struct buffer *boxes, struct error *err)
{
    struct buffer OWNED_BUFFER payload = BUFFER(PAYLOAD_MAX);

    const struct result result = write_and_seal(event, subject, origin, &payload, boxes, err);
    if (payload.data != NULL) secret_wipe(payload.data, payload.length);
    return result;
}

static struct result open_box(const uint8_t key[XCHACHA_KEY_SIZE], struct bytes associated, struct bytes box,
                              struct buffer *payload, struct error *err)
{
    uint8_t *destination = NULL;

    if (box.length < BOX_OVERHEAD) return failure(err, ERROR_CORRUPT, "the payload of an event is too short");
    if (box.length > PAYLOAD_MAX + BOX_OVERHEAD) return failure(err, ERROR_CORRUPT, "the payload of an event is too long");
    TRY(buffer_reserve(payload, box.length - BOX_OVERHEAD, &destination, err));
    TRY(box_open(key, associated, box, destination, err));
    payload->length += box.length - BOX_OVERHEAD;
    return SUCCESS;
}

struct result payload_open(const struct sealed_payload *sealed, const struct leaf *leaf, struct buffer *payload,
                           struct error *err)
{
    struct buffer OWNED_BUFFER associated = BUFFER(512);
    uint8_t key[XCHACHA_KEY_SIZE], commitment[32];
    const size_t before = payload->length;

    TRY(write_associated(sealed->origin, &leaf->source, &associated, err));
    TRY(subject_payload_key(sealed->subject_key, sealed->salt, key, err));
    const struct result opened = open_box(key, buffer_bytes(&associated), sealed->box, payload, err);
    secret_wipe(key, sizeof key);
    TRY(opened);
    const struct bytes text = {payload->data + before, payload->length - before};
    const struct result committed = leaf_payload_commitment(sealed->salt, text, commitment, err);
    if (committed.ok && leaf->has_payload && memcmp(commitment, leaf->payload, sizeof commitment) == 0) return SUCCESS;
    buffer_truncate(payload, before);
    TRY(committed);
    return failure(err, ERROR_CORRUPT, "the payload is not the one that event %llu committed to",
                   (unsigned long long)leaf->sequence);
}
