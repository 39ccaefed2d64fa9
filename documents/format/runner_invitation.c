#include "documents/format/runner_invitation.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/text.h"
#include "documents/format/document_priv.h"

#define SCHEMA      "sijil.runner-invitation/v1"
#define PAYLOAD_MAX ((size_t)4 * 1024)
#define HOUR_MS     INT64_C(3600000)

/* The generator of P-256. A document with it shows whether the members of an invitation are those of a runner. */
static const uint8_t any_point[ECDSA_PUBLIC_SIZE] = {
    0x04, 0x6b, 0x17, 0xd1, 0xf2, 0xe1, 0x2c, 0x42, 0x47, 0xf8, 0xbc, 0xe6, 0xe5, 0x63, 0xa4, 0x40, 0xf2,
    0x77, 0x03, 0x7d, 0x81, 0x2d, 0xeb, 0x33, 0xa0, 0xf4, 0xa1, 0x39, 0x45, 0xd8, 0x98, 0xc2, 0x96, 0x4f,
    0xe3, 0x42, 0xe2, 0xfe, 0x1a, 0x7f, 0x9b, 0x8e, 0xe7, 0xeb, 0x4a, 0x7c, 0x0f, 0x9e, 0x16, 0x2b, 0xce,
    0x33, 0x57, 0x6b, 0x31, 0x5e, 0xce, 0xcb, 0xb6, 0x40, 0x68, 0x37, 0xbf, 0x51, 0xf5};

static struct result no_memory(struct error *err)
{
    return failure(err, ERROR_NO_MEMORY, "no memory for an invitation, or text that is not UTF-8");
}

/* ---- reading ---- */

/* The members, as json_unpack_ex() returns them. */
struct members {
    const char *schema, *audience, *runner, *scope, *pool, *region, *isolation, *issued, *expires, *runner_expires;
    json_int_t assurance, devices;
    json_t *jurisdictions, *nodes, *attestation;
};

static struct result unpack(const json_t *json, struct members *members, struct error *err)
{
    return document_unpack(json, "an invitation", err,
                           "{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:o, s?:o, s?:o}", "schema",
                           &members->schema, "audience", &members->audience, "runner", &members->runner, "scope", &members->scope,
                           "pool", &members->pool, "region", &members->region, "isolation", &members->isolation, "issued_at",
                           &members->issued, "expires", &members->expires, "runner_expires", &members->runner_expires,
                           "assurance", &members->assurance, "devices", &members->devices, "jurisdictions",
                           &members->jurisdictions, "nodes", &members->nodes, "attestation", &members->attestation);
}

static struct result read_times(const struct members *members, struct runner_invitation *invitation, struct error *err)
{
    if (!clock_parse(bytes_of_text(members->issued), &invitation->issued_ms) ||
        !clock_parse(bytes_of_text(members->expires), &invitation->expires_ms) ||
        !clock_parse(bytes_of_text(members->runner_expires), &invitation->runner_expires_ms))
        return failure(err, ERROR_INVALID, "issued_at, expires, runner_expires: times in RFC 3339");
    if (invitation->expires_ms > invitation->issued_ms &&
        invitation->expires_ms - invitation->issued_ms <= RUNNER_INVITATION_HOURS * HOUR_MS)
        return SUCCESS;
    return failure(err, ERROR_INVALID, "expires: at most %d hours after issued_at", RUNNER_INVITATION_HOURS);
}

static struct result take(const struct members *members, struct runner_invitation *invitation, struct error *err)
{
    if (strcmp(members->schema, SCHEMA) != 0) return failure(err, ERROR_INVALID, "an invitation has \"schema\":\"" SCHEMA "\"");
    if (members->audience[0] == '\0' || strlen(members->audience) >= sizeof invitation->audience)
        return failure(err, ERROR_INVALID, "audience: 1 to %d bytes", RUNNER_AUDIENCE_SIZE - 1);
    if (!uuid_parse(bytes_of_text(members->runner), &invitation->runner))
        return failure(err, ERROR_INVALID, "runner: a UUID in lower case");
    if (strlen(members->scope) >= sizeof invitation->scope) return failure(err, ERROR_INVALID, "scope: it is too long");
    (void)snprintf(invitation->audience, sizeof invitation->audience, "%s", members->audience);
    (void)snprintf(invitation->scope, sizeof invitation->scope, "%s", members->scope);
    return read_times(members, invitation, err);
}

/* Whether a document with these members would be that of a runner. */
static struct result check_document(const struct runner_invitation *invitation, struct error *err)
{
    struct buffer OWNED_BUFFER payload = BUFFER(2 * PAYLOAD_MAX);
    OWNED(document) *document = NULL;
    struct runner_key key;

    TRY(runner_invitation_document(invitation, any_point, &payload, err));
    TRY(document_read_payload(DOCUMENT_RUNNER, buffer_bytes(&payload), &document, err));
    return runner_key_read(document, &key, err);
}

static struct result fill(struct runner_invitation *invitation, struct bytes payload, struct error *err)
{
    struct members members = {.audience = NULL};

    TRY(document_read_canonical(payload, PAYLOAD_MAX, &invitation->json, err));
    TRY(unpack(invitation->json, &members, err));
    TRY(take(&members, invitation, err));
    return check_document(invitation, err);
}

struct result runner_invitation_read(struct bytes envelope, struct runner_invitation **invitation_out, struct error *err)
{
    OWNED(runner_invitation) *invitation = memory_zeroed(1, sizeof *invitation);

    if (invitation == NULL) return no_memory(err);
    TRY(dsse_read(envelope, RUNNER_INVITATION_MAX, &invitation->dsse, err));
    if (strcmp(invitation->dsse->payload_type, RUNNER_INVITATION_TYPE) != 0 || invitation->dsse->signature_count != 1)
        return failure(err, ERROR_INVALID, "an invitation has the payload type " RUNNER_INVITATION_TYPE " and one signature");
    TRY(fill(invitation, buffer_bytes(&invitation->dsse->payload), err));
    *invitation_out = GIVE(invitation);
    return SUCCESS;
}

/* ---- who signed it ---- */

static struct result is_signed_by(const struct runner_invitation *invitation, const uint8_t point[ECDSA_PUBLIC_SIZE],
                                  bool *is_signed_out, struct error *err)
{
    OWNED(ecdsa_key) *key = NULL;
    struct error refused = {0};

    *is_signed_out = ecdsa_key_from_public(point, &key, &refused).ok && dsse_check_signer(invitation->dsse, key, &refused).ok;
    return refused.kind == ERROR_NO_MEMORY ? failure(err, ERROR_NO_MEMORY, "%s", refused.message) : SUCCESS;
}

struct result runner_invitation_signer(const struct runner_invitation *invitation, const struct document_trust *trust,
                                       uint8_t point_out[ECDSA_PUBLIC_SIZE], struct error *err)
{
    const uint8_t *point = trust->root;
    bool is_signed = false;

    TRY(is_signed_by(invitation, point, &is_signed, err));
    for (size_t i = 0; i < DOCUMENT_APPROVERS_MAX && !is_signed; i++) {
        if (!document_approver_counts(&trust->approvers[i], trust->now_ms)) continue;
        point = trust->approvers[i].point;
        TRY(is_signed_by(invitation, point, &is_signed, err));
    }
    if (!is_signed)
        return failure(err, ERROR_DENIED, "the invitation is signed neither by the root nor by an approver's key that counts");
    memcpy(point_out, point, ECDSA_PUBLIC_SIZE);
    return SUCCESS;
}

/* ---- the document ---- */

struct result runner_invitation_document(const struct runner_invitation *invitation, const uint8_t point[ECDSA_PUBLIC_SIZE],
                                         struct buffer *payload, struct error *err)
{
    char name[ECDSA_THUMBPRINT_SIZE], key[ECDSA_POINT_TEXT_SIZE];
    struct members members = {.audience = NULL};

    TRY(unpack(invitation->json, &members, err));
    TRY(ecdsa_point_text(point, key, err));
    ecdsa_thumbprint(point, name);
    OWNED_JSON body = json_pack("{s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:O, s:O*, s:O*}", "runner", members.runner, "public_key",
                                key, "pool", members.pool, "region", members.region, "isolation", members.isolation, "assurance",
                                members.assurance, "devices", members.devices, "jurisdictions", members.jurisdictions, "nodes",
                                members.nodes, "attestation", members.attestation);
    if (body == NULL) return no_memory(err);
    const struct document_parts parts = {.kind = DOCUMENT_RUNNER,
                                         .scope = invitation->scope,
                                         .name = name,
                                         .version = 1,
                                         .effective_ms = invitation->issued_ms,
                                         .expires_ms = invitation->runner_expires_ms,
                                         .body = body};
    return document_compose(&parts, payload, err);
}

/* ---- writing ---- */

static json_t *pack(const struct runner_invitation_parts *parts)
{
    char runner[UUID_TEXT_SIZE], issued[CLOCK_TEXT_SIZE], expires[CLOCK_TEXT_SIZE], runner_expires[CLOCK_TEXT_SIZE];

    uuid_format(&parts->runner, runner);
    clock_format(parts->issued_ms, issued);
    clock_format(parts->expires_ms, expires);
    clock_format(parts->runner_expires_ms, runner_expires);
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:O, s:O*, s:O*}", "schema", SCHEMA,
                     "audience", parts->audience, "runner", runner, "scope", parts->scope, "pool", parts->pool, "region",
                     parts->region, "isolation", parts->isolation, "issued_at", issued, "expires", expires, "runner_expires",
                     runner_expires, "assurance", (json_int_t)parts->assurance, "devices", (json_int_t)parts->devices,
                     "jurisdictions", parts->jurisdictions, "nodes", parts->nodes, "attestation", parts->attestation);
}

struct result runner_invitation_write(const struct runner_invitation_parts *parts, const struct ecdsa_key *key,
                                      struct buffer *envelope, struct error *err)
{
    struct buffer OWNED_BUFFER payload = BUFFER(PAYLOAD_MAX), text = BUFFER(RUNNER_INVITATION_MAX);
    OWNED(runner_invitation) *checked = NULL;
    OWNED_JSON json = pack(parts);

    if (json == NULL) return no_memory(err);
    TRY(json_write_canonical(&payload, json, err));
    TRY(dsse_write(RUNNER_INVITATION_TYPE, buffer_bytes(&payload), &key, 1, &text, err));
    TRY(runner_invitation_read(buffer_bytes(&text), &checked, err));
    return buffer_add(envelope, text.data, text.length, err);
}

void runner_invitation_free(struct runner_invitation *invitation)
{
    if (invitation == NULL) return;
    dsse_free(invitation->dsse);
    json_decref(invitation->json);
    free(invitation);
}
