/* /api/v1/scim: whose persons and groups a program provisions; docs/scim.md. */
#include "documents/format/scim_service.h"
#include "gateway/api/log_document_priv.h"

PART(scim_body, "a SCIM service; of a withdrawal nothing",
     HAS_TEXT("issuer", OPTIONAL, FORM_URL, 1, 255, "exactly iss of the tokens"),
     HAS_TEXT("claim", OPTIONAL, FORM_FREE, 1, CLAIM_POINTER_MAX,
              "JSON Pointer of the claim that is equal to externalId, and never changes"),
     HAS_TEXT("client", OPTIONAL, FORM_FREE, 1, 79, "the robot that provisions, as documents name it: robot:ID"),
     HAS_NUMBER("deactivations", OPTIONAL, 1, SCIM_ENDS_MAX, "so many persons may be deactivated within an hour"),
     HAS_WORD("others", OPTIONAL, "refuse admit", "persons of the issuer that were never provisioned; refuse if left out"))
PART(scim_document, "the signed payload (docs/formats/documents.md)",
     HAS_WORD("schema", REQUIRED, "sijil.document/v1", "the form of the document"),
     HAS_WORD("kind", REQUIRED, "scim-service", "the kind of the document"),
     HAS_TEXT("scope", REQUIRED, FORM_FREE, 0, 0, "empty: the registry"),
     HAS_TEXT("name", REQUIRED, FORM_FREE, 1, SCIM_SERVICE_NAME_MAX, "its name"),
     HAS_NUMBER("version", REQUIRED, 1, INT64_MAX, "the highest one counts"),
     HAS_SIGNED_TIME("effective_from", REQUIRED, "not in force before"),
     HAS_SIGNED_TIME("expires", REQUIRED, "not in force from then on"),
     HAS_TEXT("withdrawn", OPTIONAL, FORM_FREE, 1, 256, "why this version withdraws it"),
     HAS_OBJECT("body", REQUIRED, schema_scim_body, "the service"))
PART(scim_signature, "one signature", HAS_TEXT("sig", REQUIRED, FORM_FREE, 1, 0, "ECDSA P-256 in DER, in base64"),
     HAS_TEXT("keyid", OPTIONAL, FORM_FREE, 0, 127, "the RFC 7638 thumbprint of the key that made it; not signed"))
SCHEMA(scim_envelope, "one signature of a SCIM service, with it (DSSE)",
       HAS_WORD("payloadType", REQUIRED, "application/vnd.sijil.scim-service.v1+json", "what the payload is"),
       HAS_TEXT("payload", REQUIRED, FORM_FREE, 1, 0, "the document in base64"),
       HAS_SOME("signatures", REQUIRED, 1, 8, schema_scim_signature, "of its signer"))
PART(scim_signer, "the principal that brought a signature",
     HAS_TEXT("principal", REQUIRED, FORM_FREE, 1, 79, "as documents name it, or root"),
     HAS_TEXT("person", OPTIONAL, FORM_FREE, 1, 79, "the person behind it; absent: nobody"))
PART(scim_state, "what the service has provisioned", HAS_COUNT("active", REQUIRED, "persons that may come in"),
     HAS_COUNT("inactive", REQUIRED, "persons that may not"), HAS_COUNT("groups", REQUIRED, "groups"),
     HAS_COUNT("deactivated", REQUIRED, "persons that were deactivated within an hour, and since this version"))
SCHEMA(scim_service, "a SCIM service", HAS_TEXT("name", REQUIRED, FORM_FREE, 1, SCIM_SERVICE_NAME_MAX, "its name"),
       HAS_TEXT("state", REQUIRED, FORM_FREE, 1, 10, "draft, in force, to come, expired or withdrawn"),
       HAS_COUNT("event", OPTIONAL, "the number of its event; a draft has none"),
       HAS_OBJECT("envelope", OPTIONAL, schema_scim_envelope, "of a draft: the first signature"),
       HAS_LIST("envelopes", OPTIONAL, DOCUMENT_SIGNATURES_MAX, schema_scim_envelope,
                "of a draft, and of one document: all signatures"),
       HAS_LIST("signed_by", OPTIONAL, DOCUMENT_SIGNATURES_MAX, schema_scim_signer, "of a draft: who signed"),
       HAS_COUNT("missing", OPTIONAL, "of a draft: so many more signatures it needs, if the root does not sign"),
       HAS_OBJECT("provisioned", OPTIONAL, schema_scim_state, "of a document that was not withdrawn"),
       HAS_OBJECT("document", REQUIRED, schema_scim_document, "what is signed"))
SCHEMA(scim_services, "a page of SCIM services", HAS_LIST("scim", REQUIRED, 1000, schema_scim_service, "by name"),
       HAS_LIST("drafts", REQUIRED, 64, schema_scim_service, "those that wait for an approver, on the first page"), HAS_NEXT)
SCHEMA(scim_approval, "all signatures of a draft",
       HAS_SOME("envelopes", REQUIRED, 1, DOCUMENT_SIGNATURES_MAX, schema_scim_envelope,
                "the draft's, then the approver's, of the same payload"))

struct result target_scim_draft(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup;
    return log_document_target_draft(request, &log_scim, err);
}

struct result target_scim_approve(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup;
    return log_document_target_approve(request, &log_scim, err);
}

struct result target_scim_revoke(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup;
    return log_document_target_revoke(request, &log_scim, err);
}

struct result target_scim_reject(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup, (void)err;
    return log_document_target_named(request, ACTION_SCIM_REJECT);
}

struct result target_scim_list(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup, (void)err;
    return log_document_target_list(request, ACTION_SCIM_READ);
}

struct result target_scim_show(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup, (void)err;
    return log_document_target_named(request, ACTION_SCIM_READ);
}
