/* /api/v1/roles: what a role of an organisation's own permits; docs/identity.md. */
#include "authz/own_role_entry.h"
#include "gateway/api/log_document_priv.h"

PART(own_role_body, "what the role permits; of a withdrawal nothing",
     HAS_TEXT("meaning", OPTIONAL, FORM_FREE, 1, OWN_ROLE_MEANING_MAX, "one sentence for whoever gives it"),
     HAS_TEXT("organisation", OPTIONAL, FORM_FREE, 1, OWN_ORGANISATION_SIZE - 1, "in which alone it counts; absent: in all"),
     HAS_TEXTS("actions", OPTIONAL, 1, OWN_ROLE_ACTIONS_MAX, NULL, "that it permits"))
PART(own_role_document, "the signed payload (docs/formats/documents.md)",
     HAS_WORD("schema", REQUIRED, "sijil.document/v1", "the form of the document"),
     HAS_WORD("kind", REQUIRED, "role", "the kind of the document"),
     HAS_TEXT("scope", REQUIRED, FORM_FREE, 0, 0, "empty: the registry"),
     HAS_TEXT("name", REQUIRED, FORM_FREE, 1, OWN_ROLE_NAME_MAX, "its name"),
     HAS_NUMBER("version", REQUIRED, 1, INT64_MAX, "the highest one counts"),
     HAS_SIGNED_TIME("effective_from", REQUIRED, "not in force before"),
     HAS_SIGNED_TIME("expires", REQUIRED, "not in force from then on"),
     HAS_TEXT("withdrawn", OPTIONAL, FORM_FREE, 1, 256, "why this version withdraws it"),
     HAS_OBJECT("body", REQUIRED, schema_own_role_body, "what it permits"))
PART(own_role_signature, "one signature", HAS_TEXT("sig", REQUIRED, FORM_FREE, 1, 0, "ECDSA P-256 in DER, in base64"),
     HAS_TEXT("keyid", OPTIONAL, FORM_FREE, 0, 127, "the RFC 7638 thumbprint of the key that made it; not signed"))
SCHEMA(own_role_envelope, "one signature of a role, with it (DSSE)",
       HAS_WORD("payloadType", REQUIRED, "application/vnd.sijil.role.v1+json", "what the payload is"),
       HAS_TEXT("payload", REQUIRED, FORM_FREE, 1, 0, "the document in base64"),
       HAS_SOME("signatures", REQUIRED, 1, 8, schema_own_role_signature, "of its signer"))
PART(own_role_signer, "the principal that brought a signature",
     HAS_TEXT("principal", REQUIRED, FORM_FREE, 1, 79, "as documents name it, or root"),
     HAS_TEXT("person", OPTIONAL, FORM_FREE, 1, 79, "the person behind it; absent: nobody"))
SCHEMA(own_role, "a role of a signed document", HAS_TEXT("name", REQUIRED, FORM_FREE, 1, OWN_ROLE_NAME_MAX, "its name"),
       HAS_TEXT("state", REQUIRED, FORM_FREE, 1, 10, "draft, in force, to come, expired or withdrawn"),
       HAS_COUNT("event", OPTIONAL, "the number of its event; a draft has none"),
       HAS_OBJECT("envelope", OPTIONAL, schema_own_role_envelope, "of a draft: the first signature"),
       HAS_LIST("envelopes", OPTIONAL, DOCUMENT_SIGNATURES_MAX, schema_own_role_envelope,
                "of a draft, and of one document: all signatures"),
       HAS_LIST("signed_by", OPTIONAL, DOCUMENT_SIGNATURES_MAX, schema_own_role_signer, "of a draft: who signed"),
       HAS_COUNT("missing", OPTIONAL, "of a draft: so many more signatures it needs, if the root does not sign"),
       HAS_OBJECT("document", REQUIRED, schema_own_role_document, "what is signed"))
SCHEMA(own_roles, "a page of roles of signed documents", HAS_LIST("roles", REQUIRED, 1000, schema_own_role, "by name"),
       HAS_LIST("drafts", REQUIRED, 64, schema_own_role, "those that wait for an approver, on the first page"), HAS_NEXT)
SCHEMA(own_role_approval, "all signatures of a draft",
       HAS_SOME("envelopes", REQUIRED, 1, DOCUMENT_SIGNATURES_MAX, schema_own_role_envelope,
                "the draft's, then the approver's, of the same payload"))

struct result target_role_draft(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup;
    return log_document_target_draft(request, &log_roles, err);
}

struct result target_role_approve(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup;
    return log_document_target_approve(request, &log_roles, err);
}

struct result target_role_revoke(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup;
    return log_document_target_revoke(request, &log_roles, err);
}

struct result target_role_reject(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup, (void)err;
    return log_document_target_named(request, ACTION_ROLE_REJECT);
}

struct result target_role_list(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup, (void)err;
    return log_document_target_list(request, ACTION_ROLE_READ);
}

struct result target_role_show(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup, (void)err;
    return log_document_target_named(request, ACTION_ROLE_READ);
}
