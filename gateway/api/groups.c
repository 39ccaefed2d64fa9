/* /api/v1/groups: which groups of an issuer get which roles; docs/identity.md. */
#include "authz/group_entry.h"
#include "authz/snapshot.h"
#include "gateway/api/log_document_priv.h"

PART(group_grant, "a role of a group", HAS_TEXT("group", REQUIRED, FORM_FREE, 1, GROUP_NAME_MAX, "as the issuer writes it"),
     HAS_TEXT("role", REQUIRED, FORM_FREE, 1, 63, "publisher, promoter, consumer, trainer, or one of a signed document"),
     HAS_TEXT("on", REQUIRED, FORM_FREE, 1, 255, "an organisation, a project, a repository, or a project or path and /*"))
PART(group_body, "roles of groups; of a withdrawal nothing",
     HAS_TEXT("issuer", OPTIONAL, FORM_URL, 1, 255, "exactly iss of the tokens"),
     HAS_TEXT("claim", OPTIONAL, FORM_FREE, 1, CLAIM_POINTER_MAX, "JSON Pointer of the groups in a token"),
     HAS_TEXT("separator", OPTIONAL, FORM_FREE, 1, 1, "between groups in a claim that is one text"),
     HAS_LIST("grant", OPTIONAL, GROUP_ROLES_GRANTS_MAX, schema_group_grant, "what the groups get"))
PART(group_document, "the signed payload (docs/formats/documents.md)",
     HAS_WORD("schema", REQUIRED, "sijil.document/v1", "the form of the document"),
     HAS_WORD("kind", REQUIRED, "group-roles", "the kind of the document"),
     HAS_TEXT("scope", REQUIRED, FORM_FREE, 0, 0, "empty: the registry"),
     HAS_TEXT("name", REQUIRED, FORM_FREE, 1, GROUP_ROLES_NAME_MAX, "its name"),
     HAS_NUMBER("version", REQUIRED, 1, INT64_MAX, "the highest one counts"),
     HAS_SIGNED_TIME("effective_from", REQUIRED, "not in force before"),
     HAS_SIGNED_TIME("expires", REQUIRED, "not in force from then on"),
     HAS_TEXT("withdrawn", OPTIONAL, FORM_FREE, 1, 256, "why this version withdraws it"),
     HAS_OBJECT("body", REQUIRED, schema_group_body, "the roles"))
PART(group_signature, "one signature", HAS_TEXT("sig", REQUIRED, FORM_FREE, 1, 0, "ECDSA P-256 in DER, in base64"),
     HAS_TEXT("keyid", OPTIONAL, FORM_FREE, 0, 127, "the RFC 7638 thumbprint of the key that made it; not signed"))
SCHEMA(group_envelope, "one signature of roles of groups, with them (DSSE)",
       HAS_WORD("payloadType", REQUIRED, "application/vnd.sijil.group-roles.v1+json", "what the payload is"),
       HAS_TEXT("payload", REQUIRED, FORM_FREE, 1, 0, "the document in base64"),
       HAS_SOME("signatures", REQUIRED, 1, 8, schema_group_signature, "of its signer"))
PART(group_signer, "the principal that brought a signature",
     HAS_TEXT("principal", REQUIRED, FORM_FREE, 1, 79, "as documents name it, or root"),
     HAS_TEXT("person", OPTIONAL, FORM_FREE, 1, 79, "the person behind it; absent: nobody"))
SCHEMA(group_roles, "roles of groups", HAS_TEXT("name", REQUIRED, FORM_FREE, 1, GROUP_ROLES_NAME_MAX, "its name"),
       HAS_TEXT("state", REQUIRED, FORM_FREE, 1, 10, "draft, in force, to come, expired or withdrawn"),
       HAS_COUNT("event", OPTIONAL, "the number of its event; a draft has none"),
       HAS_OBJECT("envelope", OPTIONAL, schema_group_envelope, "of a draft: the first signature"),
       HAS_LIST("envelopes", OPTIONAL, DOCUMENT_SIGNATURES_MAX, schema_group_envelope,
                "of a draft, and of one document: all signatures"),
       HAS_LIST("signed_by", OPTIONAL, DOCUMENT_SIGNATURES_MAX, schema_group_signer, "of a draft: who signed"),
       HAS_COUNT("missing", OPTIONAL, "of a draft: so many more signatures it needs, if the root does not sign"),
       HAS_OBJECT("document", REQUIRED, schema_group_document, "what is signed"))
SCHEMA(groups, "a page of roles of groups", HAS_LIST("groups", REQUIRED, 1000, schema_group_roles, "by name"),
       HAS_LIST("drafts", REQUIRED, 64, schema_group_roles, "those that wait for an approver, on the first page"), HAS_NEXT)
SCHEMA(group_approval, "all signatures of a draft",
       HAS_SOME("envelopes", REQUIRED, 1, DOCUMENT_SIGNATURES_MAX, schema_group_envelope,
                "the draft's, then the approver's, of the same payload"))

/* Such a document is no mistake: an issuer may be trusted after it. */
static void warn_of_issuer(struct request *request, const struct document *document)
{
    OWNED(authz_snapshot) *rights = authz_directory_take(request->gateway->directory);
    struct error ignored = {0};
    struct group_roles roles;

    if (rights == NULL || !group_roles_read(document, &roles, &ignored).ok) return;
    if (authz_snapshot_issuer(rights, roles.issuer) != NULL) return;
    response_warning(request,
                     "the issuer %.150s is not trusted: its groups give nobody a role until it is (sijil admin issuer add)",
                     roles.issuer);
}

static struct result handle_draft(struct request *request, struct pg *pg, struct error *err)
{
    const struct signed_body *body = NULL;

    TRY(log_document_handle_draft(request, pg, err));
    TRY(request_envelope(request, &body, err));
    warn_of_issuer(request, body->document);
    return SUCCESS;
}

const struct handler handler_groups_draft = {.handle = handle_draft};

struct result target_groups_draft(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup;
    return log_document_target_draft(request, &log_groups, err);
}

struct result target_groups_approve(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup;
    return log_document_target_approve(request, &log_groups, err);
}

struct result target_groups_revoke(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup;
    return log_document_target_revoke(request, &log_groups, err);
}

struct result target_groups_reject(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup, (void)err;
    return log_document_target_named(request, ACTION_GROUPS_REJECT);
}

struct result target_groups_list(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup, (void)err;
    return log_document_target_list(request, ACTION_GROUPS_READ);
}

struct result target_groups_show(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup, (void)err;
    return log_document_target_named(request, ACTION_GROUPS_READ);
}
