/* /api/v1/audit/sinks: where events of the log are delivered, how far each sink has got, and the keys that sign; docs/delivery.md. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "delivery/secret.h"
#include "delivery/sink.h"
#include "gateway/api/log_document_priv.h"
#include "gateway/background/delivery.h"

PART(audit_sink_names, "names of persons are delivered, too",
     HAS_TEXT("purpose", REQUIRED, FORM_FREE, 1, AUDIT_SINK_PURPOSE_MAX, "why"))
PART(audit_sink_body, "where events go, and what is left out; of a withdrawal nothing",
     HAS_WORD("transport", OPTIONAL, SINK_TRANSPORTS(SCHEMA_WORD), "how"),
     HAS_TEXT("region", OPTIONAL, FORM_FREE, 1, AUDIT_SINK_REGION_MAX,
              "a region of the policy set: each event is decided towards it"),
     HAS_TEXT("address", OPTIONAL, FORM_FREE, 1, AUDIT_SINK_ADDRESS_MAX,
              "host:port of syslog, the URL of a webhook, the name of a file"),
     HAS_ANY("classes", OPTIONAL, "an object: the classes that are delivered, each with a list of what is left out"),
     HAS_TEXT("ca", OPTIONAL, FORM_FREE, 1, AUDIT_SINK_CA_MAX, "PEM: the only authorities that are trusted"),
     HAS_TEXTS("networks", OPTIONAL, 1, NETWORKS_MAX, NULL, "the only addresses that are called"),
     HAS_OBJECT("names", OPTIONAL, schema_audit_sink_names, "left out: pseudonyms alone"),
     HAS_WORD("signature", OPTIONAL, "v1 v1a", "of a webhook: HMAC or Ed25519"))
PART(audit_sink_document, "the signed payload (docs/formats/documents.md)",
     HAS_WORD("schema", REQUIRED, "sijil.document/v1", "the form of the document"),
     HAS_WORD("kind", REQUIRED, "audit-sink", "the kind of the document"),
     HAS_TEXT("scope", REQUIRED, FORM_FREE, 0, 0, "empty: the registry"),
     HAS_TEXT("name", REQUIRED, FORM_FREE, 1, AUDIT_SINK_NAME_MAX, "the name of the sink"),
     HAS_NUMBER("version", REQUIRED, 1, INT64_MAX, "the highest one counts"),
     HAS_SIGNED_TIME("effective_from", REQUIRED, "not in force before"),
     HAS_SIGNED_TIME("expires", REQUIRED, "not in force from then on"),
     HAS_TEXT("withdrawn", OPTIONAL, FORM_FREE, 1, 256, "why this version withdraws the sink"),
     HAS_OBJECT("body", REQUIRED, schema_audit_sink_body, "the sink"))
PART(audit_sink_signature, "one signature", HAS_TEXT("sig", REQUIRED, FORM_FREE, 1, 0, "ECDSA P-256 in DER, in base64"),
     HAS_TEXT("keyid", OPTIONAL, FORM_FREE, 0, 127, "the RFC 7638 thumbprint of the key that made it; not signed"))
SCHEMA(audit_sink_envelope, "one signature of a sink, with the sink (DSSE)",
       HAS_WORD("payloadType", REQUIRED, "application/vnd.sijil.audit-sink.v1+json", "what the payload is"),
       HAS_TEXT("payload", REQUIRED, FORM_FREE, 1, 0, "the document in base64"),
       HAS_SOME("signatures", REQUIRED, 1, 8, schema_audit_sink_signature, "of its signer"))
PART(audit_sink_signer, "the principal that brought a signature",
     HAS_TEXT("principal", REQUIRED, FORM_FREE, 1, 79, "as documents name it, or root"),
     HAS_TEXT("person", OPTIONAL, FORM_FREE, 1, 79, "the person behind it; absent: nobody"))
PART(audit_sink_delivery, "how far it has got", HAS_COUNT("first", REQUIRED, "the number of the first event that it gets"),
     HAS_COUNT("next", REQUIRED, "all events before this number were taken by the peer"),
     HAS_TIME("moved_at", REQUIRED, "when the peer took something"),
     HAS_TIME("stopped_at", OPTIONAL, "since when the peer takes nothing; absent: it takes"),
     HAS_TEXT("problem", OPTIONAL, FORM_FREE, 1, SINK_PROBLEM_SIZE, "why"),
     HAS_COUNT("key", OPTIONAL, "of a webhook: the number of the key that signs"))
SCHEMA(audit_sink, "a sink of the log", HAS_TEXT("name", REQUIRED, FORM_FREE, 1, AUDIT_SINK_NAME_MAX, "its name"),
       HAS_TEXT("state", REQUIRED, FORM_FREE, 1, 10, "draft, in force, to come, expired or withdrawn"),
       HAS_COUNT("event", OPTIONAL, "the number of its event; a draft has none"),
       HAS_OBJECT("delivery", OPTIONAL, schema_audit_sink_delivery, "absent: no gateway has begun"),
       HAS_OBJECT("envelope", OPTIONAL, schema_audit_sink_envelope, "of a draft: the first signature"),
       HAS_LIST("envelopes", OPTIONAL, DOCUMENT_SIGNATURES_MAX, schema_audit_sink_envelope,
                "of a draft, and of one sink: all signatures"),
       HAS_LIST("signed_by", OPTIONAL, DOCUMENT_SIGNATURES_MAX, schema_audit_sink_signer, "of a draft: who signed"),
       HAS_COUNT("missing", OPTIONAL, "of a draft: so many more signatures it needs, if the root does not sign"),
       HAS_OBJECT("document", REQUIRED, schema_audit_sink_document, "what is signed"))
SCHEMA(audit_sinks, "a page of sinks", HAS_LIST("sinks", REQUIRED, 1000, schema_audit_sink, "by name"),
       HAS_LIST("drafts", REQUIRED, 64, schema_audit_sink, "sinks that wait for an approver, on the first page"), HAS_NEXT)
SCHEMA(audit_sink_approval, "all signatures of a draft",
       HAS_SOME("envelopes", REQUIRED, 1, DOCUMENT_SIGNATURES_MAX, schema_audit_sink_envelope,
                "the draft's, then the approver's, of the same payload"))
SCHEMA_WITH(SCHEMA_HAS_SECRET, audit_sink_secret, "a new key, which is shown once",
            HAS_COUNT("key", REQUIRED, "its number; the key before signs beside it for a day"),
            HAS_TEXT("secret", REQUIRED, FORM_FREE, 1, SINK_SECRET_TEXT_SIZE,
                     "whsec_ and the shared secret, or whpk_ and the public key"))

/* ---- targets ---- */

struct result target_sink_draft(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup;
    return log_document_target_draft(request, &log_sinks, err);
}

struct result target_sink_approve(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup;
    return log_document_target_approve(request, &log_sinks, err);
}

struct result target_sink_revoke(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup;
    return log_document_target_revoke(request, &log_sinks, err);
}

struct result target_sink_reject(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup, (void)err;
    return log_document_target_named(request, ACTION_SINK_REJECT);
}

struct result target_sink_list(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup, (void)err;
    return log_document_target_list(request, ACTION_SINK_READ);
}

struct result target_sink_show(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup, (void)err;
    return log_document_target_named(request, ACTION_SINK_READ);
}

struct result target_sink_secret(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup, (void)err;
    return log_document_target_named(request, ACTION_SINK_SECRET);
}

/* ---- the key that signs ---- */

struct found_sink {
    bool is_webhook, signs_ed25519;
    uint64_t sequence;
};

static struct result note_sink(void *context, const struct pinned_document *pinned, struct error *err)
{
    struct found_sink *found = context;
    struct audit_sink sink;

    if (!document_is_in_force(pinned->document, clock_wall_ms()))
        return failure(err, ERROR_NOT_FOUND, "there is no sink of this name in force");
    TRY(audit_sink_read(pinned->document, &sink, err));
    *found = (struct found_sink){sink.transport == SINK_WEBHOOK, sink.signs_ed25519, pinned->sequence};
    return SUCCESS;
}

static struct result find_webhook(struct request *request, struct pg *pg, struct found_sink *found_out, struct error *err)
{
    const struct document_scope registry = {"", 0};
    const struct view_range one = {DOCUMENT_AUDIT_SINK, &registry, request->reference, 1};

    TRY(document_refresh(request, pg, err));
    TRY(document_view_find(request->gateway->documents, &one, note_sink, found_out, err));
    if (found_out->is_webhook) return SUCCESS;
    return failure(err, ERROR_INVALID, "only what a webhook gets is signed");
}

static struct result answer_secret(struct request *request, struct pg *pg, const struct sink_key *key, struct error *err)
{
    struct sink_secret_text text;

    TRY(sink_secret_make(request->permit, request->gateway->keyd, pg, key, &text, err));
    json_t *value = json_pack("{s:i, s:s}", "key", (int)key->number, "secret", text.text);
    secret_wipe(&text, sizeof text);
    if (value == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a key");
    response_json(request, 201, value);
    response_header(request, "Cache-Control", "no-store");
    json_decref(value);
    return SUCCESS;
}

/* The key is made after the event, so no key is shown that no event knows. */
static struct result handle_secret(struct request *request, struct pg *pg, struct error *err)
{
    struct sink_renewal renewal;
    struct found_sink found;

    TRY(find_webhook(request, pg, &found, err));
    sink_renewal_init(&renewal, request->reference, found.sequence);
    TRY(request_record(request, &renewal.change, err));
    const struct sink_key key = {request->reference, renewal.number, found.signs_ed25519};
    return answer_secret(request, pg, &key, err);
}

const struct handler handler_sink_secret = {.handle = handle_secret};
