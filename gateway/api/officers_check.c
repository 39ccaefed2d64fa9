/* Documents of officers: what the gateway checks of the person that one names, and what answers say of it. */
#include "authz/officer_entry.h"

#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "gateway/api/log_document_priv.h"
#include "policy/decider/decider.h"

/* ---- whom a document names ---- */

/* What the newest snapshot knows of it. */
struct named {
    struct authz_snapshot *snapshot; /* an owner */
    struct uuid organisation;        /* nil: the registry */
    struct principal principal;      /* of kind PRINCIPAL_NONE: nobody who is known there */
    bool is_placed, is_bound;
};

static void named_done(struct named *named)
{
    authz_snapshot_free(named->snapshot);
}
#define OWNED_NAMED __attribute__((cleanup(named_done))) struct named

static bool is_bound(const struct named *named, const char *role)
{
    const struct authz_binding *held[BINDINGS_PER_PRINCIPAL_MAX];
    const size_t count = authz_snapshot_held(named->snapshot, &named->organisation, &named->principal, clock_wall_ms(), held);
    const enum resource_kind scope = uuid_is_nil(&named->organisation) ? RESOURCE_SYSTEM : RESOURCE_ORGANISATION;

    for (size_t i = 0; i < count; i++)
        if (held[i]->scope == scope && role_is_of_officers(binding_given(held[i])) &&
            strcmp(role_name(binding_given(held[i])), role) == 0)
            return true;
    return false;
}

static struct named find_named(const struct request *request, const char *principal, const char *role, const char *on)
{
    struct named named = {.snapshot = authz_directory_take(request->gateway->directory)};
    struct resource place = {.kind = RESOURCE_SYSTEM};

    if (on[0] != '\0') decider_resolve(request->gateway->decider, on, &place);
    named.organisation = place.organisation;
    named.is_placed = on[0] == '\0' || !uuid_is_nil(&place.organisation);
    if (named.snapshot == NULL || !named.is_placed) return named;
    if (authz_snapshot_principal(named.snapshot, principal, &named.organisation, &named.principal))
        named.is_bound = is_bound(&named, role);
    return named;
}

/* ---- what is checked ---- */

struct enrolled {
    const struct officer *officer;
    int64_t now_ms;
    bool counts, is_withdrawn;
};

static struct result note_key(void *context, const struct pinned_document *pinned, struct error *err)
{
    struct enrolled *enrolled = context;
    const char *owner = json_text_of(json_object_get(pinned->document->json, "body"), "principal");

    (void)err;
    enrolled->is_withdrawn = enrolled->is_withdrawn || pinned->document->is_withdrawn || pinned->document->is_withdrawn_elsewhere;
    enrolled->counts = enrolled->counts || (owner != NULL && strcmp(owner, enrolled->officer->principal) == 0 &&
                                            document_is_in_force(pinned->document, enrolled->now_ms));
    return SUCCESS;
}

/* sijil-keyd asks the same of its register, and its refusal would be final. */
static struct result check_key(const struct request *request, const struct officer *officer, struct error *err)
{
    struct enrolled enrolled = {.officer = officer, .now_ms = clock_wall_ms()};

    TRY(document_view_visit_name(request->gateway->documents, DOCUMENT_SIGNING_KEY, officer->key, note_key, &enrolled, err));
    if (enrolled.counts && !enrolled.is_withdrawn) return SUCCESS;
    return failure(err, ERROR_DENIED, "the key %s is not an enrolled signing key of %s: enrol it first", officer->key,
                   officer->principal);
}

/* Who is no person answers for nothing. Without a binding a document would give nothing, and the first one for a registry-admin would end the roles of all others. */
static struct result check_named(const struct request *request, const struct document *document, struct error *err)
{
    struct officer officer;

    TRY(officer_read(document, &officer, err));
    OWNED_NAMED named = find_named(request, officer.principal, officer.role, officer.on);
    if (!named.is_placed) return failure(err, ERROR_NOT_FOUND, "there is no organisation %s", officer.on);
    if (!named.is_bound)
        return failure(err, ERROR_CONFLICT, "%s has no live binding as %s there: bind it first (sijil admin binding create)",
                       officer.principal, officer.role);
    const struct persons persons = decider_persons_of_key(request->gateway->decider, officer.principal, &named.organisation);
    if (!persons_are_one(&persons))
        return failure(err, ERROR_DENIED, "an officer is one person, and %s is not (docs/identity.md, \"Persons\")",
                       officer.principal);
    return check_key(request, &officer, err);
}

/* sijil-keyd compares principals, and knows no persons. */
static struct result check_signers(const struct request *request, const struct document *document,
                                   const struct document_signers *signers, struct error *err)
{
    struct officer officer;

    TRY(officer_read(document, &officer, err));
    OWNED_NAMED named = find_named(request, officer.principal, officer.role, officer.on);
    const struct persons persons = decider_persons_of_key(request->gateway->decider, officer.principal, &named.organisation);
    for (size_t i = 0; i < signers->count; i++)
        if (!persons_are_others(&persons, &signers->persons[i]))
            return failure(err, ERROR_DENIED, "other persons than the officer sign its document");
    return SUCCESS;
}

/* ---- answers ---- */

static struct result add_state(struct request *request, struct pg *pg, json_t *value, struct error *err)
{
    const json_t *body = json_object_get(json_object_get(value, "document"), "body");
    const char *principal = json_text_of(body, "principal"), *role = json_text_of(body, "role"), *on = json_text_of(body, "on");

    (void)pg;
    if (principal == NULL || role == NULL || on == NULL) return SUCCESS; /* a withdrawal */
    OWNED_NAMED named = find_named(request, principal, role, on);
    const bool is_subject = named.principal.kind == PRINCIPAL_EXTERNAL;
    OWNED_JSON state = json_pack(
        "{s:b, s:o*}", "bound", named.is_bound ? 1 : 0, "holder",
        is_subject ? json_pack("{s:s, s:s}", "issuer", named.principal.issuer, "subject", named.principal.subject) : NULL);
    if (state != NULL && json_object_update(value, state) == 0) return SUCCESS;
    return failure(err, ERROR_NO_MEMORY, "no memory for officers");
}

static struct result finish(struct request *request, struct pg *pg, json_t *value, struct error *err)
{
    const json_t *drafts = json_object_get(value, "drafts");
    OWNED(authz_snapshot) *snapshot = authz_directory_take(request->gateway->directory);
    const bool is_demanded = snapshot != NULL && officers_are_demanded(authz_snapshot_rules(snapshot));

    for (size_t i = 0; i < json_array_size(drafts); i++) TRY(add_state(request, pg, json_array_get(drafts, i), err));
    if (json_object_set_new(value, "demanded", json_boolean(is_demanded)) == 0) return SUCCESS;
    return failure(err, ERROR_NO_MEMORY, "no memory for officers");
}

const struct log_documents log_officers = {.kind = DOCUMENT_OFFICERS,
                                           .draft = ACTION_OFFICERS_DRAFT,
                                           .approve = ACTION_OFFICERS_APPROVE,
                                           .revoke = ACTION_OFFICERS_REVOKE,
                                           .reject = ACTION_OFFICERS_REJECT,
                                           .read = ACTION_OFFICERS_READ,
                                           .list = "officers",
                                           .what = "document of officers",
                                           .most = OFFICER_ENTRIES_MAX,
                                           .gives_roles = true,
                                           .check_request = check_named,
                                           .check_signers = check_signers,
                                           .finish = finish,
                                           .add = add_state};
