/* What the routes of signed documents have in common: their targets, their approvers, and the end of their drafts. */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "crypto/digest.h"
#include "documents/change.h"
#include "gateway/api/document_priv.h"
#include "policy/decider/decider.h"
#include "registry/names/reference.h"

struct resource *document_scope_pair(struct request *request, enum action action, const char *scope)
{
    if (scope[0] == '\0') return api_pair(request, action, RESOURCE_SYSTEM, "");
    if (namespace_name_is_valid(bytes_of_text(scope))) return api_pair(request, action, RESOURCE_ORGANISATION, scope);
    return api_is_project_name(scope) ? api_pair(request, action, RESOURCE_PROJECT, scope) : NULL;
}

struct result document_target_named(struct request *request, enum action action)
{
    const char *scope = request_argument(request, "scope");
    struct resource *resource = document_scope_pair(request, action, scope == NULL ? "" : scope);
    uint8_t thumbprint[SHA256_SIZE];

    if (resource == NULL ||
        !text_from_base64_exactly(BASE64_URL, bytes_of_text(request->reference), thumbprint, sizeof thumbprint))
        response_unknown(request);
    else (void)snprintf(resource->detail, sizeof resource->detail, "%s", request->reference);
    return SUCCESS;
}

struct result document_approver_person(const struct request *request, const uint8_t point[ECDSA_PUBLIC_SIZE],
                                       struct persons *persons_out, struct error *err)
{
    struct signing_key key = {0};

    TRY(document_key_owner(request, point, &key, err));
    *persons_out = decider_persons_of_key(request->gateway->decider, key.principal, &request->pairs[0].resource.organisation);
    return SUCCESS;
}

struct result document_approver_key(const struct document_trust *trust, const struct document *envelope,
                                    const uint8_t **point_out, struct error *err)
{
    bool is_signed = false;

    *point_out = trust->root;
    TRY(document_is_signed_by(envelope, trust->root, &is_signed, err));
    for (size_t i = 0; i < DOCUMENT_APPROVERS_MAX && !is_signed; i++) {
        if (!document_approver_counts(&trust->approvers[i], trust->now_ms)) continue;
        *point_out = trust->approvers[i].point;
        TRY(document_is_signed_by(envelope, *point_out, &is_signed, err));
    }
    return is_signed
               ? SUCCESS
               : failure(err, ERROR_DENIED, "an envelope is signed neither by the root nor by an approver's key that counts");
}

static bool is_holder(const struct request *request, const struct document_trust *trust)
{
    uint8_t principal[SHA256_SIZE];
    char asking[PRINCIPAL_KEY_SIZE];

    principal_key(request->principal, asking);
    sha256_of(bytes_of_text(asking), principal);
    return memcmp(principal, trust->terms.holder, sizeof principal) == 0;
}

struct result document_check_sender(const struct request *request, const uint8_t point[ECDSA_PUBLIC_SIZE],
                                    const struct document_trust *trust, bool *is_sender_out, struct error *err)
{
    const struct persons asking =
        decider_persons(request->gateway->decider, request->principal, &request->pairs[0].resource.organisation);
    struct persons owner;

    if (memcmp(point, trust->root, sizeof trust->root) == 0) {
        *is_sender_out = document_root_is_one(trust) || is_holder(request, trust);
        return SUCCESS;
    }
    TRY(document_approver_person(request, point, &owner, err));
    *is_sender_out = persons_are_one(&owner) && persons_are_one(&asking) && persons_meet(&owner, &asking);
    return SUCCESS;
}

/* A stolen key file must not approve together with the login of another person. The root is no person's key. */
struct result document_check_approver(const struct request *request, const struct document *document,
                                      const struct document_trust *trust, struct error *err)
{
    bool is_signed = false, is_sender = false;

    TRY(document_is_signed_by(document, trust->root, &is_signed, err));
    if (is_signed) return SUCCESS;
    for (size_t i = 0; i < DOCUMENT_APPROVERS_MAX; i++) {
        if (!document_approver_counts(&trust->approvers[i], trust->now_ms)) continue;
        TRY(document_is_signed_by(document, trust->approvers[i].point, &is_signed, err));
        if (!is_signed) continue;
        TRY(document_check_sender(request, trust->approvers[i].point, trust, &is_sender, err));
        if (is_sender) return SUCCESS;
    }
    return failure(err, ERROR_DENIED, DOCUMENT_SENT_BY_ANOTHER);
}

struct result document_put_in_force(struct request *request, struct pg *pg, enum document_kind kind, unsigned *status_out,
                                    struct error *err)
{
    struct error later = {0};

    *status_out = 202;
    if (!document_refresh(request, pg, &later).ok) {
        log_error("a document is recorded, but not in force yet", &later);
        return SUCCESS;
    }
    *status_out = 201;
    return document_view_check_event(request->gateway->documents, kind, permit_sequence(request->permit), err);
}

struct result document_remove_drafts(struct request *request, enum document_kind kind, const char *drafted_by, struct error *err)
{
    const struct document_draft_removal removal = {request->pairs[0].action, kind, request->pairs[0].resource.name,
                                                   request->reference, drafted_by};
    struct document_draft_end change;

    document_draft_end_init(&change, &removal);
    TRY(request_record(request, &change.change, err));
    response_empty(request, 204);
    return SUCCESS;
}
