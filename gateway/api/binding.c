/* /api/v1/bindings: docs/api.md. */
#include <stdio.h>
#include <string.h>

#include "authz/binding.h"
#include "authz/claims.h"
#include "authz/issuer.h"
#include "authz/robot.h"
#include "gateway/api/api_priv.h"
#include "gateway/pipeline/resolve.h"
#include "policy/decider.h"
#include "registry/names/reference.h"

#define DAY_S    86400
#define DAYS_MAX 3650

/* What a body asks for, or why it can't be meant; texts are views of `json`. */
struct wanted_binding {
    json_t *json;
    const char *robot, *issuer, *subject, *role, *scope;
    struct authz_binding binding;
    int64_t lifetime_s;
};

static void wanted_done(struct wanted_binding *wanted)
{
    json_decref(wanted->json);
}
#define OWNED_WANTED __attribute__((cleanup(wanted_done))) struct wanted_binding

static struct result read_external(struct wanted_binding *wanted, struct error *err)
{
    struct authz_binding *binding = &wanted->binding;

    if (wanted->issuer == NULL || wanted->subject == NULL || strlen(wanted->issuer) >= sizeof binding->issuer)
        return failure(err, ERROR_INVALID, "a binding is for a robot, or for an issuer and a subject of at most 255 bytes");
    if (!issuer_url_is_valid(wanted->issuer)) return failure(err, ERROR_INVALID, ISSUER_URL_RULE);
    if (!claims_text_is_plain(wanted->subject, CLAIMS_SUBJECT_MAX))
        return failure(err, ERROR_INVALID, "a subject has 1 to %d bytes and no control characters", CLAIMS_SUBJECT_MAX);
    binding->kind = PRINCIPAL_EXTERNAL;
    (void)snprintf(binding->issuer, sizeof binding->issuer, "%s", wanted->issuer);
    (void)snprintf(binding->subject, sizeof binding->subject, "%s", wanted->subject);
    return SUCCESS;
}

/* By id or by name. One that is not there keeps a nil id. */
static struct result find_robot(struct lookup *lookup, const struct wanted_binding *wanted, struct robot_identity *robot_out,
                                struct error *err)
{
    struct robot_identity robot = {.id = {{0}}};
    struct error none = {0};

    if (!robot_resolve(lookup, wanted->robot, &robot, &none).ok && none.kind != ERROR_NOT_FOUND)
        return failure(err, none.kind, "%s", none.message);
    *robot_out = robot;
    return SUCCESS;
}

/* Who may see the registry's own robots. */
static bool sees_registry_robots(const struct request *request)
{
    const struct action_pair pair = {.action = ACTION_ROBOT_READ, .resource.kind = RESOURCE_SYSTEM};

    return resolve_allows(request, &pair);
}

/*
 * Looked for only when the caller may grant on the scope, whoever gets the role. Another organisation's robot is as one that is
 * not there, in the answer and in the event, and so is the registry's own for a caller that may not see those.
 */
static struct result read_robot(const struct request *request, struct lookup *lookup, struct wanted_binding *wanted,
                                struct action_pair *pair, struct error *err)
{
    struct authz_binding *binding = &wanted->binding;
    struct robot_identity robot;

    authz_grant_detail(binding->role, binding, pair->resource.detail);
    if (binding->kind != PRINCIPAL_ROBOT || !resolve_allows(request, pair)) return SUCCESS;
    TRY(find_robot(lookup, wanted, &robot, err));
    const bool is_here = uuid_is_nil(&robot.organisation) ? sees_registry_robots(request)
                                                          : uuid_equal(&robot.organisation, &pair->resource.organisation);
    if (!is_here) return SUCCESS;
    binding->robot = robot.id;
    authz_grant_detail(binding->role, binding, pair->resource.detail);
    return SUCCESS;
}

static struct result read_wanted(const struct request *request, struct wanted_binding *wanted, struct error *err)
{
    json_int_t days = 0;

    TRY(api_body(request, &wanted->json, err));
    TRY(api_unpack(wanted->json, err, "{s:s, s:s, s?:s, s?:s, s?:s, s?:I}", "role", &wanted->role, "scope",
                   &wanted->scope, "robot", &wanted->robot, "issuer", &wanted->issuer, "subject", &wanted->subject,
                   "expires_days", &days));
    if (!role_find(bytes_of_text(wanted->role), &wanted->binding.role))
        return failure(err, ERROR_INVALID, "there is no role called %.40s", wanted->role);
    if (days < 0 || days > DAYS_MAX || (days == 0 && json_object_get(wanted->json, "expires_days") != NULL))
        return failure(err, ERROR_INVALID, "expires_days is a number from 1 to %d", DAYS_MAX);
    wanted->lifetime_s = (int64_t)days * DAY_S;
    if (wanted->robot == NULL) return read_external(wanted, err);
    if (wanted->issuer != NULL || wanted->subject != NULL)
        return failure(err, ERROR_INVALID, "a binding is for a robot, or for an issuer and a subject, not for both");
    wanted->binding.kind = PRINCIPAL_ROBOT;
    return SUCCESS;
}

static bool is_project(const char *name)
{
    const char *slash = strchr(name, '/');

    return slash != NULL && scope_name_is_valid((struct bytes){(const uint8_t *)name, (size_t)(slash - name)}) &&
           scope_name_is_valid(bytes_of_text(slash + 1));
}

/* What is before "/" and an asterisk may be a project; by OCI's grammar, as any name that a push may have. */
static bool is_place(const char *name)
{
    struct repository_name split;
    struct error wrong = {0};

    return is_project(name) || repository_name_split(bytes_of_text(name), &split, &wrong).ok;
}

/* "", "acme", "acme/models", "acme/models/digits" or "acme/models/" and an asterisk; false if it is none of these. */
static bool add_scope(struct request *request, enum action action, const char *scope, struct resource **resource_out)
{
    char place[RESOURCE_NAME_MAX + 1];
    enum resource_kind kind = RESOURCE_REPOSITORY;
    size_t length = strlen(scope);

    if (scope[0] == '\0') kind = RESOURCE_SYSTEM;
    else if (scope_name_is_valid(bytes_of_text(scope))) kind = RESOURCE_ORGANISATION;
    else if (is_project(scope)) kind = RESOURCE_PROJECT;
    else if (!binding_is_pattern(scope)) return false;
    if (kind == RESOURCE_REPOSITORY && scope[length - 1] == '*') length -= 2;
    (void)snprintf(place, sizeof place, "%.*s", (int)length, scope);
    if (kind == RESOURCE_REPOSITORY && !is_place(place)) return false;
    struct resource *resource = api_pair(request, action, kind, place);
    (void)snprintf(resource->name, sizeof resource->name, "%s", scope);
    *resource_out = resource;
    return true;
}

struct result target_binding_create(struct request *request, struct lookup *lookup, struct error *err)
{
    OWNED_WANTED wanted = {0};
    struct resource *resource = NULL;

    if (api_asks_for_credential(request, ACTION_BINDING_CREATE)) return SUCCESS;
    TRY(read_wanted(request, &wanted, err));
    if (!add_scope(request, ACTION_BINDING_CREATE, wanted.scope, &resource))
        return failure(err, ERROR_INVALID, "a scope is organisation, organisation/project, organisation/project/"
                                           "repository, or organisation/project/path/*");
    return read_robot(request, lookup, &wanted, &request->pairs[0], err);
}

struct result target_binding_list(struct request *request, struct lookup *lookup, struct error *err)
{
    const char *scope = request_argument(request, "scope");

    (void)lookup;
    (void)err;
    if (scope == NULL || scope[0] == '\0')
        (void)api_pair(request, ACTION_BINDING_READ, RESOURCE_SYSTEM, "");
    else if (scope_name_is_valid(bytes_of_text(scope)))
        (void)api_pair(request, ACTION_BINDING_READ, RESOURCE_ORGANISATION, scope);
    else if (is_project(scope))
        (void)api_pair(request, ACTION_BINDING_READ, RESOURCE_PROJECT, scope);
    else
        response_unknown(request);
    return SUCCESS;
}

/* One that is not there is decided on as if its organisation were not there: others learn nothing. */
struct result target_binding_revoke(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup;
    (void)err;
    api_pair_of_id(request, ACTION_BINDING_REVOKE, decider_find_binding);
    return SUCCESS;
}

static bool set_text(json_t *object, const char *key, const char *text)
{
    return text[0] == '\0' || json_object_set_new(object, key, json_string(text)) == 0;
}

/* NULL if memory is out. */
static json_t *describe(const struct binding_row *row)
{
    const struct authz_binding *binding = &row->binding;
    char id[UUID_TEXT_SIZE];

    uuid_format(&binding->id, id);
    OWNED_JSON value = json_pack("{s:s, s:s, s:s}", "id", id, "role", role_name(binding->role), "scope", row->on);
    if (value != NULL && set_text(value, "robot", row->robot) && set_text(value, "issuer", binding->issuer) &&
        set_text(value, "subject", binding->subject) && set_text(value, "granted_by", binding->granted_by) &&
        api_set_time(value, "expires", binding->expires_ms))
        return GIVE(value);
    return NULL;
}

static struct result handle_binding_create(struct request *request, struct pg *pg, struct error *err)
{
    struct binding_create create;
    OWNED_WANTED wanted = {0};
    struct binding_row row;

    struct action_pair decided = request->pairs[0];

    TRY(read_wanted(request, &wanted, err));
    TRY(read_robot(request, lookup_of(pg), &wanted, &decided, err));
    principal_key(&request->principal, wanted.binding.granted_by);
    binding_create_init(&create, &wanted.binding, wanted.lifetime_s);
    TRY(request_record(request, &create.change, err));
    TRY(binding_find(request->permit, pg, &create.binding.id, &row, err));
    OWNED_JSON value = describe(&row);
    if (value == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for an answer; the binding was made");
    response_json(request, 201, value);
    return SUCCESS;
}

static struct result add_bindings(const struct binding_page *page, size_t count, json_t *list, struct error *err)
{
    for (size_t i = 0; i < count; i++)
        if (json_array_append_new(list, describe(&page->rows[i])) != 0)
            return failure(err, ERROR_NO_MEMORY, "no memory for a list");
    return SUCCESS;
}

static struct result answer_bindings(struct request *request, const struct binding_page *page, size_t limit,
                                     struct error *err)
{
    const size_t count = page->count < limit ? page->count : limit;
    char next[UUID_TEXT_SIZE];
    OWNED_JSON bindings = json_array();

    TRY(add_bindings(page, count, bindings, err));
    OWNED_JSON value = json_pack("{s:O}", "bindings", bindings);
    if (page->count > limit) uuid_format(&page->rows[count - 1].binding.id, next);
    if (value == NULL || (page->count > limit && json_object_set_new(value, "next", json_string(next)) != 0))
        return failure(err, ERROR_NO_MEMORY, "no memory for a list");
    response_json(request, 200, value);
    return SUCCESS;
}

static struct result handle_binding_list(struct request *request, struct pg *pg, struct error *err)
{
    const struct resource *where = permit_resource(request->permit, ACTION_BINDING_READ);
    const struct uuid *const known = where->kind == RESOURCE_PROJECT ? &where->project : &where->organisation;
    struct binding_page page = {0};
    const char *after = NULL;
    struct uuid last = {{0}};
    unsigned limit = 0;

    if (!api_page(request, &limit, &after)) return SUCCESS;
    if (after[0] != '\0' && !uuid_parse(bytes_of_text(after), &last))
        return failure(err, ERROR_INVALID, "after is the id that the page before ended with");
    if (where->kind != RESOURCE_SYSTEM && uuid_is_nil(known))
        return failure(err, ERROR_NOT_FOUND, "there is no such organisation or project");
    TRY(binding_list(request->permit, pg, &last, limit + 1, &page, err));
    const struct result result = answer_bindings(request, &page, limit, err);
    free(page.rows);
    return result;
}

static struct result handle_binding_revoke(struct request *request, struct pg *pg, struct error *err)
{
    struct binding_revoke revoke;
    struct uuid id;

    (void)pg;
    if (!uuid_parse(bytes_of_text(request->reference), &id))
        return failure(err, ERROR_NOT_FOUND, "there is no such binding");
    binding_revoke_init(&revoke, &id);
    TRY(request_record(request, &revoke.change, err));
    response_empty(request, 204);
    return SUCCESS;
}

const struct handler handler_binding_create = {.handle = handle_binding_create};
const struct handler handler_binding_list = {.handle = handle_binding_list};
const struct handler handler_binding_revoke = {.handle = handle_binding_revoke};
