/* /api/v1/elevations: a role for some hours, which a person asks for and another person grants; docs/identity.md. */
#include "authz/elevation.h"

#include <stdlib.h>
#include <string.h>

#include "authz/trust_login.h"
#include "base/text.h"
#include "gateway/api/api_priv.h"
#include "policy/decider/decider.h"
#include "registry/names/reference.h"

SCHEMA(elevation_wanted, "a role for some hours", HAS_TEXT("role", REQUIRED, FORM_FREE, 1, OWN_ROLE_NAME_MAX, "its name"),
       HAS_TEXT("scope", REQUIRED, FORM_FREE, 0, RESOURCE_NAME_MAX,
                "where, as of a binding; inside the scope of a role that you have"),
       HAS_NUMBER("hours", REQUIRED, 1, ELEVATION_HOURS_MAX, "how long; the registry has a bound, too"),
       HAS_TEXT("reason", REQUIRED, FORM_FREE, 1, ELEVATION_REASON_MAX, "why, for whoever grants it; one line"))
SCHEMA(elevation_granted, "what is granted: exactly what was asked for",
       HAS_TEXT("role", REQUIRED, FORM_FREE, 1, OWN_ROLE_NAME_MAX, "the role"),
       HAS_TEXT("scope", REQUIRED, FORM_FREE, 0, RESOURCE_NAME_MAX, "where"),
       HAS_TEXT("issuer", REQUIRED, FORM_URL, 1, 255, "of the person who asks"),
       HAS_TEXT("subject", REQUIRED, FORM_FREE, 1, 255, "the person who asks"),
       HAS_NUMBER("hours", REQUIRED, 1, ELEVATION_HOURS_MAX, "how long; the registry has a bound, too"))
SCHEMA(elevation, "a role for some hours", HAS_ID("id", REQUIRED, "names it in paths"),
       HAS_WORD("state", REQUIRED, "waiting granted ended", "waiting: for another person; ended: also by itself"),
       HAS_TEXT("issuer", REQUIRED, FORM_FREE, 1, 255, "of the person who asked"),
       HAS_TEXT("subject", REQUIRED, FORM_FREE, 1, 255, "the person who asked"),
       HAS_TEXT("role", REQUIRED, FORM_FREE, 1, OWN_ROLE_NAME_MAX, "the role"),
       HAS_TEXT("scope", REQUIRED, FORM_FREE, 0, RESOURCE_NAME_MAX, "where; empty: the registry"),
       HAS_NUMBER("hours", REQUIRED, 1, ELEVATION_HOURS_MAX, "how long, from the grant on"),
       HAS_TEXT("reason", REQUIRED, FORM_FREE, 1, ELEVATION_REASON_MAX, "why"),
       HAS_TIME("asked", REQUIRED, "when it was asked for"),
       HAS_TIME("until", REQUIRED, "the end of the role; of one that waits, when it is dropped"),
       HAS_ID("binding", OPTIONAL, "of the role that was given"),
       HAS_TEXT("decided_by", OPTIONAL, FORM_FREE, 1, 79, "the principal that granted it or ended the request"))
SCHEMA(elevation_asked, "a role that was asked for", HAS_ID("id", REQUIRED, "names the request in paths"))
SCHEMA(elevations, "a page of roles for some hours", HAS_LIST("elevations", REQUIRED, 1000, schema_elevation, "by id"), HAS_NEXT)

/* ---- targets ---- */

static struct result read_wanted(struct request *request, struct authz_binding *wanted, const json_t **body_out,
                                 struct error *err)
{
    const json_t *body = NULL;

    TRY(request_document(request, &body, err));
    const char *role = json_text_of(body, "role");
    if (!binding_read_role(wanted, role)) return failure(err, ERROR_INVALID, "there is no role called %.40s", role);
    if (!elevation_takes(wanted))
        return failure(err, ERROR_INVALID, "nobody has %.40s for some hours: " ELEVATION_ROLES_REFUSED " are given in other ways",
                       role);
    *body_out = body;
    return SUCCESS;
}

struct result target_elevation_ask(struct request *request, struct lookup *lookup, struct error *err)
{
    struct authz_binding wanted = {.role = 0};
    struct resource *resource = NULL;
    const json_t *body = NULL;

    (void)lookup;
    if (api_asks_for_credential(request, ACTION_ELEVATION_REQUEST)) return SUCCESS;
    TRY(read_wanted(request, &wanted, &body, err));
    if (!api_add_scope(request, ACTION_ELEVATION_REQUEST, json_text_of(body, "scope"), &resource))
        return failure(err, ERROR_INVALID, API_SCOPE_FORM);
    (void)text_copy(resource->detail, sizeof resource->detail, binding_role_name(&wanted));
    return SUCCESS;
}

struct result target_elevation_list(struct request *request, struct lookup *lookup, struct error *err)
{
    const char *scope = request_argument(request, "scope");

    (void)lookup, (void)err;
    if (scope == NULL || scope[0] == '\0') (void)api_pair(request, ACTION_ELEVATION_READ, RESOURCE_SYSTEM, "");
    else if (namespace_name_is_valid(bytes_of_text(scope)))
        (void)api_pair(request, ACTION_ELEVATION_READ, RESOURCE_ORGANISATION, scope);
    else if (api_is_project_name(scope)) (void)api_pair(request, ACTION_ELEVATION_READ, RESOURCE_PROJECT, scope);
    else response_unknown(request);
    return SUCCESS;
}

struct result target_elevation_end(struct request *request, struct lookup *lookup, struct error *err)
{
    const char *scope = request_argument(request, "scope");
    struct resource *resource = NULL;
    struct uuid id;

    (void)lookup, (void)err;
    if (!uuid_parse(bytes_of_text(request->reference), &id) ||
        !api_add_scope(request, ACTION_ELEVATION_END, scope == NULL ? "" : scope, &resource)) {
        response_unknown(request);
        return SUCCESS;
    }
    uuid_format(&id, resource->detail);
    return SUCCESS;
}

/* ---- asking ---- */

/* A robot's and a job's act is that of everybody behind it, so nobody could tell who is another person. */
static struct result check_person(const struct request *request, struct error *err)
{
    const struct principal *principal = request->principal;
    const struct persons persons =
        decider_persons(request->gateway->decider, principal, &request->pairs[0].resource.organisation);

    if (principal->kind == PRINCIPAL_EXTERNAL && !trust_is_rule(principal) && persons_are_one(&persons)) return SUCCESS;
    return failure(err, ERROR_DENIED, "a person asks for a role for some hours, and this credential is not one person's");
}

static struct result handle_ask(struct request *request, struct pg *pg, struct error *err)
{
    const int64_t most = request->gateway->settings->elevation_hours_max;
    struct elevation_request asked = {.person = request->principal};
    struct authz_binding wanted = {.role = 0};
    const json_t *body = NULL;
    char id[UUID_TEXT_SIZE];

    (void)pg;
    TRY(read_wanted(request, &wanted, &body, err));
    TRY(check_person(request, err));
    (void)json_integer_of(body, "hours", &asked.hours);
    asked.role = binding_role_name(&wanted);
    asked.reason = json_text_of(body, "reason");
    if (asked.hours > most) return failure(err, ERROR_INVALID, "hours: at most %lld here", (long long)most);
    if (!text_is_visible(bytes_of_text(asked.reason)))
        return failure(err, ERROR_INVALID, "reason: one line, without control characters and characters that nobody sees");
    elevation_request_init(&asked, &request->pairs[0].resource);
    TRY(request_record(request, &asked.change, err));
    uuid_format(&asked.id, id);
    OWNED_JSON value = json_pack("{s:s}", "id", id);
    if (value == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for an answer; the request waits");
    response_json(request, 201, value);
    return SUCCESS;
}

/* ---- the end ---- */

/* Whoever may grant the role there may refuse it, and take it; who has asked may end it in any case. */
static struct result handle_end(struct request *request, struct pg *pg, struct error *err)
{
    struct action_pair granting = {.action = ACTION_BINDING_CREATE, .resource = request->pairs[0].resource};
    struct authz_binding grantee = {.kind = PRINCIPAL_EXTERNAL};
    const char *role = request_argument(request, "role");
    struct elevation_end end;
    struct uuid id;
    bool may = false;

    (void)pg;
    TRY(api_id(request, "request", &id, err));
    if (role == NULL || !binding_read_role(&grantee, role)) return failure(err, ERROR_INVALID, "role: the role of the request");
    authz_grant_detail(&grantee, granting.resource.detail);
    TRY(api_may(request, &granting, &may, err));
    elevation_end_init(&end, &id, request->principal);
    end.role = binding_role_name(&grantee);
    end.is_of_others = may;
    return api_remove(request, &end.change, err);
}

/* ---- the list ---- */

static json_t *describe(const void *of)
{
    const struct elevation_row *row = of;
    char id[UUID_TEXT_SIZE], binding[UUID_TEXT_SIZE];

    uuid_format(&row->id, id);
    uuid_format(&row->binding, binding);
    OWNED_JSON value = json_pack(
        "{s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:s, s:s*, s:s*}", "id", id, "state", row->state, "issuer", row->issuer, "subject",
        row->subject, "role", row->role, "scope", row->on, "hours", (json_int_t)row->hours, "reason", row->reason, "binding",
        uuid_is_nil(&row->binding) ? NULL : binding, "decided_by", row->decided_by[0] == '\0' ? NULL : row->decided_by);
    if (value != NULL && api_set_time(value, "asked", row->asked_ms) && api_set_time(value, "until", row->until_ms))
        return GIVE(value);
    return NULL;
}

static struct result handle_list(struct request *request, struct pg *pg, struct error *err)
{
    const struct action_pair others = {.action = ACTION_BINDING_READ, .resource = request->pairs[0].resource};
    struct elevation_row *rows = NULL;
    struct uuid after = {{0}};
    struct api_page page;
    size_t count = 0;
    bool may = false;

    if (!api_page(request, &page)) return SUCCESS;
    TRY(api_after_id(&page, &after, err));
    TRY(api_scope_exists(permit_resource(request->permit, ACTION_ELEVATION_READ), err));
    TRY(api_may(request, &others, &may, err));
    const struct elevation_query query = {may ? NULL : request->principal, &after, page.limit + 1};
    TRY(elevation_list(request->permit, pg, &query, &rows, &count, err));
    const struct api_rows answer = {
        .name = "elevations", .rows = rows, .row_size = sizeof *rows, .count = count, .describe = describe, .cursor = "id"};
    const struct result result = api_answer_rows(request, &page, &answer, err);
    free(rows);
    return result;
}

const struct handler handler_elevation_ask = {.handle = handle_ask};
const struct handler handler_elevation_list = {.handle = handle_list};
const struct handler handler_elevation_end = {.handle = handle_end};
