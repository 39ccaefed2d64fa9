/* /api/v1/officers: whose roles of administrators and security officers count; docs/identity.md. */
#include "documents/format/officers.h"
#include "documents/format/restriction.h"
#include "gateway/api/log_document_priv.h"

PART(officers_body, "an officer; of a withdrawal nothing",
     HAS_TEXT("principal", OPTIONAL, FORM_FREE, 1, OFFICERS_PRINCIPAL_SIZE - 1, "as documents name it"),
     HAS_TEXT("key", OPTIONAL, FORM_FREE, 43, 43, "the thumbprint of an enrolled key of this principal"),
     HAS_WORD("role", OPTIONAL, "registry-admin org-admin security-officer", "the role that its binding has"),
     HAS_TEXT("on", OPTIONAL, FORM_FREE, 0, OFFICERS_PLACE_MAX, "an organisation; empty: the registry"),
     HAS_NUMBER("restrictions", OPTIONAL, 1, RESTRICTION_PERSONS_MAX,
                "how many of its security officers sign a restriction of the organisation"))
PART(officers_document, "the signed payload (docs/formats/documents.md)",
     HAS_WORD("schema", REQUIRED, "sijil.document/v1", "the form of the document"),
     HAS_WORD("kind", REQUIRED, "officers", "the kind of the document"),
     HAS_TEXT("scope", REQUIRED, FORM_FREE, 0, 0, "empty: the registry"),
     HAS_TEXT("name", REQUIRED, FORM_FREE, 1, OFFICERS_NAME_MAX, "the role, a dot and more"),
     HAS_NUMBER("version", REQUIRED, 1, INT64_MAX, "the highest one counts"),
     HAS_SIGNED_TIME("effective_from", REQUIRED, "when it was signed"),
     HAS_SIGNED_TIME("expires", REQUIRED, "not in force from then on"),
     HAS_TEXT("withdrawn", OPTIONAL, FORM_FREE, 1, 256, "why this version withdraws it"),
     HAS_OBJECT("body", REQUIRED, schema_officers_body, "what it says"))
PART(officers_signature, "one signature", HAS_TEXT("sig", REQUIRED, FORM_FREE, 1, 0, "ECDSA P-256 in DER, in base64"),
     HAS_TEXT("keyid", OPTIONAL, FORM_FREE, 0, 127, "the RFC 7638 thumbprint of the key that made it; not signed"))
SCHEMA(officers_envelope, "one signature of a document of officers, with it (DSSE)",
       HAS_WORD("payloadType", REQUIRED, "application/vnd.sijil.officers.v1+json", "what the payload is"),
       HAS_TEXT("payload", REQUIRED, FORM_FREE, 1, 0, "the document in base64"),
       HAS_SOME("signatures", REQUIRED, 1, 8, schema_officers_signature, "of its signer"))
PART(officers_signer, "the principal that brought a signature",
     HAS_TEXT("principal", REQUIRED, FORM_FREE, 1, 79, "as documents name it, or root"),
     HAS_TEXT("person", OPTIONAL, FORM_FREE, 1, 79, "the person behind it; absent: nobody, or several"))
PART(officers_holder, "the subject of an issuer that the document names by a hash",
     HAS_TEXT("issuer", REQUIRED, FORM_FREE, 1, 255, "exactly iss of its tokens"),
     HAS_TEXT("subject", REQUIRED, FORM_FREE, 1, 255, "its sub"))
SCHEMA(officer_of, "a document of officers", HAS_TEXT("name", REQUIRED, FORM_FREE, 1, OFFICERS_NAME_MAX, "its name"),
       HAS_TEXT("state", REQUIRED, FORM_FREE, 1, 10, "draft, in force, to come, expired or withdrawn"),
       HAS_COUNT("event", OPTIONAL, "the number of its event; a draft has none"),
       HAS_OBJECT("envelope", OPTIONAL, schema_officers_envelope, "of a draft: the first signature"),
       HAS_LIST("envelopes", OPTIONAL, DOCUMENT_SIGNATURES_MAX, schema_officers_envelope,
                "of a draft, and of one document: all signatures"),
       HAS_LIST("signed_by", OPTIONAL, DOCUMENT_SIGNATURES_MAX, schema_officers_signer, "of a draft: who signed"),
       HAS_COUNT("missing", OPTIONAL, "of a draft: so many more signatures it needs, if the root does not sign"),
       HAS_OBJECT("holder", OPTIONAL, schema_officers_holder, "whom it names, if that is a subject with a binding there"),
       HAS_FLAG("bound", OPTIONAL, "false: its principal has no binding with this role there, so it gives nothing"),
       HAS_OBJECT("document", REQUIRED, schema_officers_document, "what is signed"))
SCHEMA(officers, "a page of documents of officers", HAS_LIST("officers", REQUIRED, 1000, schema_officer_of, "by name"),
       HAS_LIST("drafts", REQUIRED, 64, schema_officer_of, "those that wait for an approver, on the first page"),
       HAS_FLAG("demanded", REQUIRED, "true: without a document no binding counts for these roles"), HAS_NEXT)
SCHEMA(officers_approval, "all signatures of a draft",
       HAS_SOME("envelopes", REQUIRED, 1, DOCUMENT_SIGNATURES_MAX, schema_officers_envelope,
                "the draft's, then the approver's, of the same payload"))

struct result target_officers_draft(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup;
    return log_document_target_draft(request, &log_officers, err);
}

struct result target_officers_approve(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup;
    return log_document_target_approve(request, &log_officers, err);
}

struct result target_officers_revoke(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup;
    return log_document_target_revoke(request, &log_officers, err);
}

struct result target_officers_reject(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup, (void)err;
    return log_document_target_named(request, ACTION_OFFICERS_REJECT);
}

struct result target_officers_list(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup, (void)err;
    return log_document_target_list(request, ACTION_OFFICERS_READ);
}

struct result target_officers_show(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup, (void)err;
    return log_document_target_named(request, ACTION_OFFICERS_READ);
}
