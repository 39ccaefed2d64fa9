/* GET /api/v1/trust-rules: trust rules in force, and drafts; docs/ci.md. */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "gateway/api/trust_rule_priv.h"

#define NAME_LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

PART(trust_grant, "a role that the rule gives",
     HAS_TEXT("role", REQUIRED, FORM_FREE, 1, 63, "publisher, promoter, consumer, trainer, or one of a signed document"),
     HAS_TEXT("on", REQUIRED, FORM_FREE, 1, 255, "an organisation, a project, a repository, or all below a project or path"))
PART(trust_rule_body, "which tokens get which roles; of a withdrawal nothing",
     HAS_TEXT("issuer", OPTIONAL, FORM_FREE, 9, 255, "the `iss` of the tokens"),
     HAS_TEXT("audience", OPTIONAL, FORM_FREE, 1, 255, "their only `aud`"),
     HAS_WORD("system", OPTIONAL, TRUST_SYSTEMS(SCHEMA_WORD), "whose claims the tokens have"),
     HAS_ANY("match", OPTIONAL, "an object of JSON Pointers and conditions"),
     HAS_LIST("grant", OPTIONAL, TRUST_GRANTS_MAX, schema_trust_grant, "the roles"),
     HAS_NUMBER("priority", OPTIONAL, 0, TRUST_PRIORITY_MAX, "of several rules that match, the highest counts alone"),
     HAS_NUMBER("max_ttl", OPTIONAL, TRUST_TTL_MIN_S, TRUST_TTL_MAX_S, "seconds that a token lives"),
     HAS_FLAG("single_use", OPTIONAL, "true: each token of the issuer makes one token"),
     HAS_TEXTS("immutable", OPTIONAL, 1, TRUST_IMMUTABLE_MAX, NULL,
               "of jenkins and generic: the claims that nobody else ever gets"),
     HAS_TEXTS("networks", OPTIONAL, 1, TRUST_NETWORKS_MAX, NULL, "where the client is"),
     HAS_TEXT("certificate", OPTIONAL, FORM_FREE, 43, 43, "of the client: base64url of its SHA-256"))
PART(trust_rule_document, "the signed payload (docs/formats/documents.md)",
     HAS_WORD("schema", REQUIRED, "sijil.document/v1", "the form of the document"),
     HAS_WORD("kind", REQUIRED, "trust-rule", "the kind of the document"),
     HAS_TEXT("scope", REQUIRED, FORM_FREE, 0, RESOURCE_NAME_MAX, "where the rule gives roles; empty: the registry"),
     HAS_TEXT("name", REQUIRED, FORM_FREE, 1, TRUST_RULE_NAME_MAX, "the rule's id"),
     HAS_NUMBER("version", REQUIRED, 1, INT64_MAX, "the highest one counts"),
     HAS_SIGNED_TIME("effective_from", REQUIRED, "not in force before"),
     HAS_SIGNED_TIME("expires", REQUIRED, "not in force from then on"),
     HAS_TEXT("withdrawn", OPTIONAL, FORM_FREE, 1, 256, "why this version withdraws the rule"),
     HAS_OBJECT("body", REQUIRED, schema_trust_rule_body, "the rule"))
PART(trust_rule_signature, "one signature", HAS_TEXT("sig", REQUIRED, FORM_FREE, 1, 0, "ECDSA P-256 in DER, in base64"),
     HAS_TEXT("keyid", OPTIONAL, FORM_FREE, 0, 127, "the RFC 7638 thumbprint of the key that made it; not signed"))
SCHEMA(trust_rule_envelope, "one signature of a trust rule, with the rule (DSSE)",
       HAS_WORD("payloadType", REQUIRED, "application/vnd.sijil.trust-rule.v1+json", "what the payload is"),
       HAS_TEXT("payload", REQUIRED, FORM_FREE, 1, 0, "the document in base64"),
       HAS_SOME("signatures", REQUIRED, 1, 8, schema_trust_rule_signature, "of its signer"))
PART(trust_rule_signer, "the principal that brought a signature",
     HAS_TEXT("principal", REQUIRED, FORM_FREE, 1, 79, "as documents name it, or root"),
     HAS_TEXT("person", OPTIONAL, FORM_FREE, 1, 79, "the person behind it; absent: nobody"))
SCHEMA(trust_rule, "a trust rule", HAS_TEXT("name", REQUIRED, FORM_FREE, 1, TRUST_RULE_NAME_MAX, "its id; names it in paths"),
       HAS_TEXT("state", REQUIRED, FORM_FREE, 1, 10, "draft, in force, to come, expired or withdrawn"),
       HAS_COUNT("event", OPTIONAL, "the number of its event; a draft has none"),
       HAS_OBJECT("envelope", OPTIONAL, schema_trust_rule_envelope, "of a draft: the first signature"),
       HAS_LIST("envelopes", OPTIONAL, DOCUMENT_SIGNATURES_MAX, schema_trust_rule_envelope,
                "of a draft, and of one rule: all signatures"),
       HAS_LIST("signed_by", OPTIONAL, DOCUMENT_SIGNATURES_MAX, schema_trust_rule_signer, "of a draft: who signed"),
       HAS_COUNT("missing", OPTIONAL, "of a draft: so many more signatures it needs, if the root does not sign"),
       HAS_OBJECT("document", REQUIRED, schema_trust_rule_document, "what is signed"))
SCHEMA(trust_rules, "a page of trust rules", HAS_LIST("rules", REQUIRED, 1000, schema_trust_rule, "by id"),
       HAS_LIST("drafts", REQUIRED, 64, schema_trust_rule, "rules that wait for an approver, on the first page"), HAS_NEXT)
SCHEMA(trust_rule_approval, "all signatures of a draft",
       HAS_SOME("envelopes", REQUIRED, 1, DOCUMENT_SIGNATURES_MAX, schema_trust_rule_envelope,
                "the draft's, then the approver's, of the same payload"))

/* ---- targets ---- */

struct result trust_rule_target_named(struct request *request, enum action action)
{
    const char *scope = request_argument(request, "scope"), *name = request->reference;
    const size_t length = strlen(name);
    struct resource *resource = document_scope_pair(request, action, scope == NULL ? "" : scope);

    if (resource == NULL || length == 0 || length > TRUST_RULE_NAME_MAX || !text_consists_of(bytes_of_text(name), NAME_LETTERS))
        response_unknown(request);
    else (void)snprintf(resource->detail, sizeof resource->detail, "%s", name);
    return SUCCESS;
}

struct result target_rule_list(struct request *request, struct lookup *lookup, struct error *err)
{
    const char *scope = request_argument(request, "scope");

    (void)lookup, (void)err;
    if (document_scope_pair(request, ACTION_RULE_READ, scope == NULL ? "" : scope) == NULL) response_unknown(request);
    return SUCCESS;
}

struct result target_rule_show(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup, (void)err;
    return trust_rule_target_named(request, ACTION_RULE_READ);
}

/* ---- the list ---- */

static struct result append_draft(void *context, const struct drafted_document *drafted, struct error *err)
{
    struct error refused = {0};
    struct trust_rule rule;

    if (drafted->document->is_withdrawn || !trust_rule_read(drafted->document, &rule, &refused).ok)
        return refused.kind == ERROR_NO_MEMORY ? failure(err, ERROR_NO_MEMORY, "%s", refused.message) : SUCCESS;
    return document_list_draft(context, drafted, TRUST_RULE_APPROVERS, err);
}

static struct result add_drafts(struct request *request, struct pg *pg, const char *scope, json_t *list, struct error *err)
{
    const struct document_draft_query query = {ACTION_RULE_READ, DOCUMENT_TRUST_RULE, scope, NULL};
    struct document_drafts drafts = {.request = request, .list = list};

    TRY(document_trust_now(request, &drafts.trust, err));
    return document_draft_visit(request->permit, pg, &query, append_draft, &drafts, err);
}

static struct result handle_list(struct request *request, struct pg *pg, struct error *err)
{
    const struct resource *where = permit_resource(request->permit, ACTION_RULE_READ);
    OWNED_JSON value = json_pack("{s:[], s:[]}", "rules", "drafts");
    struct document_scope scope;
    struct api_page page;

    if (!api_page(request, &page)) return SUCCESS;
    if (value == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a list");
    TRY(document_refresh(request, pg, err));
    TRY(document_scope_find(lookup_of(pg), where->name, &scope, err));
    const struct view_range range = {DOCUMENT_TRUST_RULE, &scope, page.after, page.limit + 1};
    TRY(document_view_visit(request->gateway->documents, &range, document_list_pinned, json_object_get(value, "rules"), err));
    if (page.after[0] == '\0') TRY(add_drafts(request, pg, where->name, json_object_get(value, "drafts"), err));
    return document_list_answer(request, value, "rules", page.limit, err);
}

/* ---- one rule ---- */

static struct result handle_show(struct request *request, struct pg *pg, struct error *err)
{
    OWNED_JSON value = NULL;

    TRY(document_show(request, pg, ACTION_RULE_READ, DOCUMENT_TRUST_RULE, &value, err));
    return document_answer_shown(request, value, true, err);
}

const struct handler handler_rule_list = {.handle = handle_list};
const struct handler handler_rule_show = {.handle = handle_show};
