/*
 * documents/format/document.h -- what officers and persons have signed, in one form (docs/formats/documents.md).
 *
 * A document is canonical JSON; each signature comes in a DSSE envelope of its own, all with the same payload. Reading one believes
 * nothing: a document counts only after document_check(), and in force are only those that sijil-keyd has pinned.
 *
 * The first kind, the policy set, is older than this form and states no head: its name and scope are fixed, its version is its epoch.
 */
#pragma once

#include <jansson.h>

#include "crypto/dsse.h"
#include "crypto/keyd_client.h"
#include "documents/format/kind.h"

#define DOCUMENT_SCOPE_SIZE     256 /* "acme/models", as names of repositories are bounded */
#define DOCUMENT_NAME_SIZE      129
#define DOCUMENT_ENVELOPE_MAX(payload_bytes) (2 * (payload_bytes)) /* base64 of it, and signatures */

struct document {
    enum document_kind kind;
    char scope[DOCUMENT_SCOPE_SIZE]; /* "": the registry; an organisation; "organisation/project" */
    char name[DOCUMENT_NAME_SIZE];
    uint64_t version;                /* from 1; of one scope and name only the greatest counts */
    int64_t effective_ms;            /* does not count before */
    int64_t expires_ms;              /* does not count from then on; 0: never expires */
    bool is_withdrawn;               /* this version says that the name is no longer in force */
    uint8_t digest[DOCUMENT_DIGEST_SIZE];           /* of a policy set what it states, else SHA-256 of the payload */
    uint8_t envelopes_digest[DOCUMENT_DIGEST_SIZE]; /* SHA-256 of the envelope; of several, over the SHA-256 of each */
    json_t *json;                    /* the whole payload */
    size_t signature_count;
    struct dsse *signatures[DOCUMENT_SIGNATURES_MAX];
};

/**
 * Reads `count` envelopes of one document: types and payloads must be the same, the payload canonical and well-formed. Checks no
 * signature. ERROR_INVALID, ERROR_LIMIT, ERROR_NO_MEMORY.
 */
RESULT document_read(const struct bytes *envelopes, size_t count, struct document **document_out, struct error *err);
/** As document_read(), of a payload that nobody has signed yet. */
RESULT document_read_payload(enum document_kind kind, struct bytes payload, struct document **document_out, struct error *err);

struct bytes document_payload(const struct document *document);
/** Has the key of this public point signed? No also for what is no point. ERROR_NO_MEMORY. */
RESULT document_is_signed_by(const struct document *document, const uint8_t point[ECDSA_PUBLIC_SIZE], bool *is_signed_out,
                             struct error *err);
/** The action of the event that brings it into force. */
const char *document_action(const struct document *document);

/* --- who counts as a signer --- */

struct document_trust {
    uint8_t root[ECDSA_PUBLIC_SIZE]; /* the approver that was pinned first; all zero: nobody yet */
    struct document_approver approvers[DOCUMENT_APPROVERS_MAX]; /* as sijil-keyd keeps them */
    int64_t now_ms;
};

/**
 * May this document come into force now? ERROR_DENIED: too few of the keys that count have signed, or it is too late or too early;
 * ERROR_INVALID: its body is not what its kind asks for.
 */
RESULT document_check(const struct document *document, const struct document_trust *trust, struct error *err);

/* --- what the log and sijil-keyd say of it --- */

#define DOCUMENT_DETAIL_SIZE 168 /* two digests of 71, 20 digits, two blanks and '\0' */
/** "sha256:ENVELOPES VERSION sha256:DOCUMENT": the detail of the event that brings it into force. */
void document_detail(const struct document *document, char detail_out[DOCUMENT_DETAIL_SIZE]);

/**
 * The pin after `document`, whose event has the number `sequence`. ERROR_DENIED: `pin` is as new or newer, and of something else; what
 * was pinned last leaves it as it is. The caller has checked that the event names the document.
 */
RESULT document_pin_next(const struct document_pin *pin, const struct document *document, uint64_t sequence,
                         struct document_pin *pin_out, struct error *err);

/* --- making one --- */

struct document_parts {
    enum document_kind kind; /* not DOCUMENT_POLICY_SET: policy_set_compose() makes these */
    const char *scope, *name;
    uint64_t version;
    int64_t effective_ms, expires_ms; /* 0: does not expire */
    const char *withdrawn;            /* why; NULL: not a withdrawal */
    json_t *body;                     /* borrowed */
};
/** Appends the canonical payload, which document_read_payload() then takes. */
RESULT document_compose(const struct document_parts *parts, struct buffer *payload, struct error *err);
/** Appends an envelope with this key's signature. */
RESULT document_sign(enum document_kind kind, struct bytes payload, const struct ecdsa_key *key, struct buffer *envelope,
                     struct error *err);

void document_free(struct document *document);
DEFINE_OWNED(document);
