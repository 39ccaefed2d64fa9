/* /api/v1/persons: from which issuer the persons of an organisation come, and which subjects are separate persons; docs/identity.md. */
#include "documents/format/persons.h"
#include "gateway/api/log_document_priv.h"

PART(persons_tokens, "what tokens must be that are used in the organisation",
     HAS_WORD("bound_to", OPTIONAL, "any key certificate", "to the client's key (DPoP), to its certificate, or to either"),
     HAS_NUMBER("lifetime_max", OPTIONAL, PERSONS_LIFETIME_MIN, PERSONS_LIFETIME_MAX, "seconds that they live at most"),
     HAS_WORD("acts", OPTIONAL, "signed", "the most dangerous requests are signed one by one with the enrolled key"))
PART(persons_body, "persons; of a withdrawal nothing",
     HAS_TEXT("issuer", OPTIONAL, FORM_URL, 1, 255, "the one issuer of persons: exactly iss of the tokens"),
     HAS_TEXTS("separate", OPTIONAL, 0, PERSONS_SEPARATE_MAX, NULL,
               "subjects that are persons of their own, whatever their issuer, as documents name principals"),
     HAS_OBJECT("tokens", OPTIONAL, schema_persons_tokens, "absent: nothing is demanded of them"))
PART(persons_document, "the signed payload (docs/formats/documents.md)",
     HAS_WORD("schema", REQUIRED, "sijil.document/v1", "the form of the document"),
     HAS_WORD("kind", REQUIRED, "persons", "the kind of the document"),
     HAS_TEXT("scope", REQUIRED, FORM_FREE, 0, 0, "empty: the registry"),
     HAS_TEXT("name", REQUIRED, FORM_FREE, 1, PERSONS_NAME_MAX,
              "the organisation, or " PERSONS_REGISTRY " for the registry and all others"),
     HAS_NUMBER("version", REQUIRED, 1, INT64_MAX, "the highest one counts"),
     HAS_SIGNED_TIME("effective_from", REQUIRED, "not in force before"),
     HAS_SIGNED_TIME("expires", REQUIRED, "not in force from then on"),
     HAS_TEXT("withdrawn", OPTIONAL, FORM_FREE, 1, 256, "why this version withdraws it"),
     HAS_OBJECT("body", REQUIRED, schema_persons_body, "what it says"))
PART(persons_signature, "one signature", HAS_TEXT("sig", REQUIRED, FORM_FREE, 1, 0, "ECDSA P-256 in DER, in base64"),
     HAS_TEXT("keyid", OPTIONAL, FORM_FREE, 0, 127, "the RFC 7638 thumbprint of the key that made it; not signed"))
SCHEMA(persons_envelope, "one signature of a document of persons, with it (DSSE)",
       HAS_WORD("payloadType", REQUIRED, "application/vnd.sijil.persons.v1+json", "what the payload is"),
       HAS_TEXT("payload", REQUIRED, FORM_FREE, 1, 0, "the document in base64"),
       HAS_SOME("signatures", REQUIRED, 1, 8, schema_persons_signature, "of its signer"))
PART(persons_signer, "the principal that brought a signature",
     HAS_TEXT("principal", REQUIRED, FORM_FREE, 1, 79, "as documents name it, or root"),
     HAS_TEXT("person", OPTIONAL, FORM_FREE, 1, 79, "the person behind it; absent: nobody, or several"))
SCHEMA(persons_of, "a document of persons", HAS_TEXT("name", REQUIRED, FORM_FREE, 1, PERSONS_NAME_MAX, "its name"),
       HAS_TEXT("state", REQUIRED, FORM_FREE, 1, 10, "draft, in force, to come, expired or withdrawn"),
       HAS_COUNT("event", OPTIONAL, "the number of its event; a draft has none"),
       HAS_OBJECT("envelope", OPTIONAL, schema_persons_envelope, "of a draft: the first signature"),
       HAS_LIST("envelopes", OPTIONAL, DOCUMENT_SIGNATURES_MAX, schema_persons_envelope,
                "of a draft, and of one document: all signatures"),
       HAS_LIST("signed_by", OPTIONAL, DOCUMENT_SIGNATURES_MAX, schema_persons_signer, "of a draft: who signed"),
       HAS_COUNT("missing", OPTIONAL, "of a draft: so many more signatures it needs, if the root does not sign"),
       HAS_OBJECT("document", REQUIRED, schema_persons_document, "what is signed"))
SCHEMA(persons, "a page of documents of persons", HAS_LIST("persons", REQUIRED, 1000, schema_persons_of, "by name"),
       HAS_LIST("drafts", REQUIRED, 64, schema_persons_of, "those that wait for an approver, on the first page"), HAS_NEXT)
SCHEMA(persons_approval, "all signatures of a draft",
       HAS_SOME("envelopes", REQUIRED, 1, DOCUMENT_SIGNATURES_MAX, schema_persons_envelope,
                "the draft's, then the approver's, of the same payload"))

struct result target_persons_draft(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup;
    return log_document_target_draft(request, &log_persons, err);
}

struct result target_persons_approve(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup;
    return log_document_target_approve(request, &log_persons, err);
}

struct result target_persons_revoke(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup;
    return log_document_target_revoke(request, &log_persons, err);
}

struct result target_persons_reject(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup, (void)err;
    return log_document_target_named(request, ACTION_PERSONS_REJECT);
}

struct result target_persons_list(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup, (void)err;
    return log_document_target_list(request, ACTION_PERSONS_READ);
}

struct result target_persons_show(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup, (void)err;
    return log_document_target_named(request, ACTION_PERSONS_READ);
}
