/*
 * documents/format/document.h -- documents that approvers and other persons sign, in one form (docs/formats/documents.md).
 *
 * A document is canonical JSON. Each signature has a DSSE envelope of its own, all with the same payload. Reading a
 * document proves nothing: check it with document_check(). Only documents that sijil-keyd has pinned are in force.
 *
 * The first kind, the policy set, is older than this form and has no head: its name and scope are fixed, and its version is
 * its epoch.
 */
#pragma once

#include <jansson.h>

#include "crypto/dsse.h"
#include "crypto/keyd_client.h"
#include "documents/format/kind.h"

#define DOCUMENT_SCOPE_SIZE                  256 /* "acme/models"; the names of repositories have the same bound */
#define DOCUMENT_NAME_SIZE                   129
#define DOCUMENT_POLICY_SET_NAME             "policies"            /* policy sets have one name, and the scope "" */
#define DOCUMENT_ENVELOPE_MAX(payload_bytes) (2 * (payload_bytes)) /* the payload in base64, and signatures */

struct document {
    enum document_kind kind;
    char scope[DOCUMENT_SCOPE_SIZE]; /* "": the registry; "acme": an organisation; "acme/models": a project */
    char name[DOCUMENT_NAME_SIZE];
    uint64_t version;                     /* from 1; for one scope and name only the highest counts */
    int64_t effective_ms;                 /* not in force before */
    int64_t expires_ms;                   /* not in force from then on; 0: never expires */
    bool is_withdrawn;                    /* this version withdraws the name */
    bool is_withdrawn_elsewhere;          /* a document of another scope withdraws the name; only documents/view.h knows */
    uint8_t digest[DOCUMENT_DIGEST_SIZE]; /* SHA-256 of the payload; of a policy set the digest that it states */
    uint8_t envelopes_digest[DOCUMENT_DIGEST_SIZE]; /* SHA-256 of the envelope; if there are several, over the SHA-256 of each */
    json_t *json;                                   /* the whole payload */
    size_t signature_count;
    struct dsse *signatures[DOCUMENT_SIGNATURES_MAX];
};

/**
 * Reads `count` envelopes of one document. Types and payloads must be equal, the payload canonical and well-formed.
 * Verifies no signature. ERROR_INVALID, ERROR_LIMIT, ERROR_NO_MEMORY.
 */
RESULT document_read(const struct bytes *envelopes, size_t count, struct document **document_out, struct error *err);
/** As document_read(), for a payload that nobody has signed yet. */
RESULT document_read_payload(enum document_kind kind, struct bytes payload, struct document **document_out, struct error *err);

struct bytes document_payload(const struct document *document);
/** Whether the key with this public point has signed; false also for bytes that are not a point. ERROR_NO_MEMORY. */
RESULT document_is_signed_by(const struct document *document, const uint8_t point[ECDSA_PUBLIC_SIZE], bool *is_signed_out,
                             struct error *err);
/** The number of keys that must have signed this document, or this withdrawal. */
unsigned document_signers_needed(const struct document *document);
/** The action of the event that brings the document into force. */
const char *document_action(const struct document *document);

/* --- the keys whose signatures count --- */

#define SET_EXCEPTIONS_MAX 256 /* of a policy set */

/** What a policy set changes: it says how many persons must sign it (documents/format/set_change.h). */
enum set_change {
    SET_CHANGES,   /* as many as the numbers say */
    SET_LOOSENS,   /* or nobody knows: one person more */
    SET_RESTRICTS, /* it only adds policies that restrict: one person */
};

struct document_trust {
    uint8_t root[ECDSA_PUBLIC_SIZE];                            /* the approver that was pinned first; all zero: none yet */
    struct document_approver approvers[DOCUMENT_APPROVERS_MAX]; /* as sijil-keyd keeps them */
    int64_t now_ms;
    struct root_terms terms;              /* all zero: the root's key alone does */
    enum set_change change;               /* of the policy set that is checked; other documents have none */
    uint8_t kept[SET_EXCEPTIONS_MAX / 8]; /* likewise: a bit for each of its exceptions that the set before it has, too */
};
/** Whether the root's key does alone what else takes several approvers. */
bool document_root_is_one(const struct document_trust *trust);

/** False for an empty slot, and for an approver that was revoked or has expired. */
bool document_approver_counts(const struct document_approver *approver, int64_t now_ms);

/**
 * Whether this document may come into force now. ERROR_DENIED: too few keys that count have signed, or it is too late or
 * too early. ERROR_INVALID: its body is not as its kind demands.
 */
RESULT document_check(const struct document *document, const struct document_trust *trust, struct error *err);

/**
 * Whether the body of a document of the registry says what its kind allows, whoever has signed it: sinks, detection rules, roles of groups, roles, persons, officers, SCIM
 * services, broken glasses and reviews of them; no other kind. ERROR_INVALID, ERROR_NO_MEMORY.
 */
RESULT document_check_body(const struct document *document, struct error *err);

/* --- its event in the log, and its pin in sijil-keyd --- */

#define DOCUMENT_DETAIL_SIZE 168 /* two digests of 71, 20 digits, two spaces and '\0' */
/** "sha256:ENVELOPES VERSION sha256:DOCUMENT": the detail of the event that brings the document into force. */
void document_detail(const struct document *document, char detail_out[DOCUMENT_DETAIL_SIZE]);

/**
 * Whether this entry of the log is the event that brings the document into force, with the number `sequence`. The detail of an
 * event that was denied, failed or changed nothing has another form. ERROR_NOT_FOUND; the errors of leaf_read().
 */
RESULT document_check_event(const struct document *document, struct bytes entry, uint64_t sequence, struct error *err);
/** The same for an event with another action, which names the document and does not bring it into force. */
struct document_entry {
    struct bytes leaf;
    uint64_t sequence;
};
RESULT document_check_event_of(const struct document *document, const char *action, const struct document_entry *entry,
                               struct error *err);

/**
 * The pin after `document`, whose event has the number `sequence`. If `document` was pinned last, the pin stays
 * unchanged. ERROR_DENIED if `pin` is of another document that is as new or newer. The caller has checked that the event
 * names the document.
 */
RESULT document_pin_next(const struct document_pin *pin, const struct document *document, uint64_t sequence,
                         struct document_pin *pin_out, struct error *err);

/**
 * Whether `document` is part of the chain that ends with `pin`: it was pinned as the event `sequence`, after the pin `before`, and the links
 * `later` (DOCUMENT_LINK_SIZE bytes each) follow it. So keyd, which made `pin`, has checked the document. Later links may withdraw it.
 * ERROR_CONFLICT: the chain ends before `pin`. ERROR_DENIED: it is another chain.
 */
struct document_chain {
    uint64_t sequence;
    uint8_t before[DOCUMENT_DIGEST_SIZE];
    struct bytes later;
};
RESULT document_check_chain(const struct document *document, const struct document_chain *chain, const struct document_pin *pin,
                            struct error *err);

/* --- making a document --- */

struct document_parts {
    enum document_kind kind; /* not DOCUMENT_POLICY_SET: policy_set_compose() makes these */
    const char *scope, *name;
    uint64_t version;
    int64_t effective_ms, expires_ms; /* 0: does not expire */
    const char *withdrawn;            /* the reason; NULL: not a withdrawal */
    json_t *body;                     /* borrowed */
};
/** Appends the canonical payload, in the form that document_read_payload() accepts. */
RESULT document_compose(const struct document_parts *parts, struct buffer *payload, struct error *err);
/** Appends an envelope with this key's signature. */
RESULT document_sign(enum document_kind kind, struct bytes payload, const struct ecdsa_key *key, struct buffer *envelope,
                     struct error *err);

void document_free(struct document *document);
DEFINE_OWNED(document);
