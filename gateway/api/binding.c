/* /api/v1/bindings: docs/api.md. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "authz/binding.h"
#include "authz/claims.h"
#include "authz/elevation.h"
#include "authz/issuer.h"
#include "authz/robot.h"
#include "base/memory.h"
#include "base/text.h"
#include "gateway/api/api_priv.h"
#include "gateway/api/binding_priv.h"
#include "gateway/pipeline/resolve.h"
#include "policy/decider/decider.h"
#include "registry/names/reference.h"

#define DAY_S 86400

SCHEMA(
    binding_wanted, "a role to be given: to a robot, or to a subject of an issuer",
    HAS_TEXT("role", REQUIRED, FORM_FREE, 1, OWN_ROLE_NAME_MAX, "its name; one with a dot is of a signed document"),
    HAS_TEXT(
        "scope", REQUIRED, FORM_FREE, 0, RESOURCE_NAME_MAX,
        "organisation, organisation/project, organisation/project/repository, or organisation/project/path/*; empty: the registry"),
    HAS_TEXT("robot", OPTIONAL, FORM_FREE, 1, ROBOT_NAME_SIZE - 1, "the robot, by its id or its name"),
    HAS_TEXT("issuer", OPTIONAL, FORM_URL, 1, 255, "the URL of the subject's issuer"),
    HAS_TEXT("subject", OPTIONAL, FORM_FREE, 1, CLAIMS_SUBJECT_MAX, "the subject, as its tokens name it"),
    HAS_NUMBER("expires_days", OPTIONAL, 1, BINDING_DAYS_MAX,
               "days until the role ends; if left out, as many as the registry is configured for (binding_days_default)"))

SCHEMA(binding, "a role that was given", HAS_ID("id", REQUIRED, "names it in paths"),
       HAS_TEXT("role", REQUIRED, FORM_FREE, 1, OWN_ROLE_NAME_MAX, "its name; one with a dot is of a signed document"),
       HAS_TEXT("scope", REQUIRED, FORM_FREE, 0, RESOURCE_NAME_MAX, "where; empty: the registry"),
       HAS_TEXT("robot", OPTIONAL, FORM_FREE, 1, ROBOT_NAME_SIZE - 1, "the name of the robot that has it"),
       HAS_TEXT("issuer", OPTIONAL, FORM_URL, 1, 255, "the issuer of the subject that has it"),
       HAS_TEXT("subject", OPTIONAL, FORM_FREE, 1, CLAIMS_SUBJECT_MAX, "the subject that has it"),
       HAS_TEXT("granted_by", OPTIONAL, FORM_FREE, 1, 0, "the credential that gave it, as the log has it"),
       HAS_TIME("expires", OPTIONAL, "when it ends; left out: it has no end"))

SCHEMA(bindings, "a page of roles that were given", HAS_LIST("bindings", REQUIRED, 1000, schema_binding, "by id"), HAS_NEXT)

static struct result read_external(struct wanted_binding *wanted, struct error *err)
{
    struct authz_binding *binding = &wanted->binding;

    if (wanted->issuer == NULL || wanted->subject == NULL || strlen(wanted->issuer) >= sizeof binding->issuer)
        return failure(err, ERROR_INVALID, "a binding is for a robot, or for an issuer and a subject of at most 255 bytes");
    if (!issuer_url_is_valid(wanted->issuer)) return failure(err, ERROR_INVALID, ISSUER_URL_RULE);
    if (!claims_text_is_plain(wanted->subject, CLAIMS_SUBJECT_MAX) || !text_is_visible(bytes_of_text(wanted->subject)))
        return failure(err, ERROR_INVALID,
                       "a subject has 1 to %d bytes, and no control characters or characters that nobody sees",
                       CLAIMS_SUBJECT_MAX);
    binding->kind = PRINCIPAL_EXTERNAL;
    (void)snprintf(binding->issuer, sizeof binding->issuer, "%s", wanted->issuer);
    (void)snprintf(binding->subject, sizeof binding->subject, "%s", wanted->subject);
    return SUCCESS;
}

/*
 * Finds the robot by id or by name. If it does not exist, its id is nil. The database is asked for one that is not in force here yet, and for those of others: else the time would tell which of them exist,
 * and in a batch a thousand times.
 */
static struct result find_robot(const struct request *request, struct lookup *lookup, const struct wanted_binding *wanted,
                                const struct uuid *organisation, struct robot_identity *robot_out, struct error *err)
{
    struct robot_identity robot = {.id = {{0}}};
    struct error none = {0};

    *robot_out = (struct robot_identity){.id = {{0}}};
    const bool is_known = decider_robot(request->gateway->decider, wanted->robot, &robot.id, &robot.organisation);
    if (is_known && uuid_equal(&robot.organisation, organisation)) {
        *robot_out = robot;
        return SUCCESS;
    }
    if (robot_resolve(lookup, wanted->robot, robot_out, &none).ok || none.kind == ERROR_NOT_FOUND) return SUCCESS;
    return failure(err, none.kind, "%s", none.message);
}

/* Whether the caller may see the registry's own robots. */
static bool sees_registry_robots(const struct request *request)
{
    const struct action_pair pair = {.action = ACTION_ROBOT_READ, .resource.kind = RESOURCE_SYSTEM};

    return resolve_allows(request, &pair);
}

/*
 * Looks up the robot only if the caller may grant on the scope. Answer and event are equal for a robot of another organisation
 * and for a robot that does not exist. The same holds for the registry's own robots, if the caller may not see them.
 */
struct result wanted_binding_robot(const struct request *request, struct lookup *lookup, struct wanted_binding *wanted,
                                   struct action_pair *pair, struct error *err)
{
    struct authz_binding *binding = &wanted->binding;
    struct robot_identity robot;

    authz_grant_detail(binding, pair->resource.detail);
    if (binding->kind != PRINCIPAL_ROBOT || !resolve_allows(request, pair)) return SUCCESS;
    TRY(find_robot(request, lookup, wanted, &pair->resource.organisation, &robot, err));
    const bool is_here = uuid_is_nil(&robot.organisation) ? sees_registry_robots(request)
                                                          : uuid_equal(&robot.organisation, &pair->resource.organisation);
    if (!is_here) return SUCCESS;
    binding->robot = robot.id;
    authz_grant_detail(binding, pair->resource.detail);
    return SUCCESS;
}

struct result wanted_binding_read(const json_t *body, struct wanted_binding *wanted, struct error *err)
{
    int64_t days = 0;

    (void)json_integer_of(body, "expires_days", &days);
    *wanted = (struct wanted_binding){.robot = json_text_of(body, "robot"),
                                      .issuer = json_text_of(body, "issuer"),
                                      .subject = json_text_of(body, "subject"),
                                      .scope = json_text_of(body, "scope"),
                                      .lifetime_s = days * DAY_S};
    const char *role = json_text_of(body, "role");
    if (!binding_read_role(&wanted->binding, role)) return failure(err, ERROR_INVALID, "there is no role called %.40s", role);
    if (wanted->robot == NULL) return read_external(wanted, err);
    if (wanted->issuer != NULL || wanted->subject != NULL)
        return failure(err, ERROR_INVALID, "a binding is for a robot, or for an issuer and a subject, not for both");
    wanted->binding.kind = PRINCIPAL_ROBOT;
    return SUCCESS;
}

static struct result read_wanted(struct request *request, struct wanted_binding *wanted, struct error *err)
{
    const json_t *body = NULL;

    TRY(request_document(request, &body, err));
    return wanted_binding_read(body, wanted, err);
}

/* Whether the name, without a final "/" and asterisk, is a project, or a repository name of OCI's grammar. */
static bool is_place(const char *name)
{
    struct repository_name split;
    struct error wrong = {0};

    return api_is_project_name(name) || repository_name_split(bytes_of_text(name), &split, &wrong).ok;
}

bool api_add_scope(struct request *request, enum action action, const char *scope, struct resource **resource_out)
{
    char place[RESOURCE_NAME_MAX + 1];
    enum resource_kind kind = RESOURCE_REPOSITORY;
    size_t length = strlen(scope);

    if (scope[0] == '\0') kind = RESOURCE_SYSTEM;
    else if (namespace_name_is_valid(bytes_of_text(scope))) kind = RESOURCE_ORGANISATION;
    else if (api_is_project_name(scope)) kind = RESOURCE_PROJECT;
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
    struct wanted_binding wanted;
    struct resource *resource = NULL;

    if (api_asks_for_credential(request, ACTION_BINDING_CREATE)) return SUCCESS;
    TRY(read_wanted(request, &wanted, err));
    if (!api_add_scope(request, ACTION_BINDING_CREATE, wanted.scope, &resource))
        return failure(err, ERROR_INVALID, API_SCOPE_FORM);
    return wanted_binding_robot(request, lookup, &wanted, &request->pairs[0], err);
}

void binding_pair_of_place(struct request *request, enum action action)
{
    const char *scope = request_argument(request, "scope");

    if (scope == NULL || scope[0] == '\0') (void)api_pair(request, action, RESOURCE_SYSTEM, "");
    else if (namespace_name_is_valid(bytes_of_text(scope))) (void)api_pair(request, action, RESOURCE_ORGANISATION, scope);
    else if (api_is_project_name(scope)) (void)api_pair(request, action, RESOURCE_PROJECT, scope);
    else response_unknown(request);
}

struct result target_binding_list(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup;
    (void)err;
    binding_pair_of_place(request, ACTION_BINDING_READ);
    return SUCCESS;
}

/* A binding that does not exist is decided like one of an organisation that does not exist, so that other tenants learn
 * nothing. */
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

/* NULL: out of memory. */
static json_t *describe(const void *of)
{
    const struct binding_row *row = of;
    const struct authz_binding *binding = &row->binding;
    char id[UUID_TEXT_SIZE];

    uuid_format(&binding->id, id);
    OWNED_JSON value = json_pack("{s:s, s:s, s:s}", "id", id, "role", binding_role_name(binding), "scope", row->on);
    if (value != NULL && set_text(value, "robot", row->robot) && set_text(value, "issuer", binding->issuer) &&
        set_text(value, "subject", binding->subject) && set_text(value, "granted_by", binding->granted_by) &&
        api_set_time(value, "expires", binding->expires_ms))
        return GIVE(value);
    return NULL;
}

/* Whether a second officer is another person depends on the documents that separate subjects. NULL: none are needed. */
static struct result separated(const struct request *request, enum role role, struct persons_separated **separated_out,
                               struct error *err)
{
    *separated_out = NULL;
    if (role != ROLE_SECURITY_OFFICER) return SUCCESS;
    struct persons_separated *list = memory_zeroed(1, sizeof *list);
    if (list == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a role");
    decider_separated(request->gateway->decider, &request->pairs[0].resource.organisation, list);
    *separated_out = list;
    return SUCCESS;
}

void binding_create_by(struct binding_create *create, const struct principal *granter)
{
    principal_key(granter, create->binding.granted_by);
    (void)snprintf(create->granter_issuer, sizeof create->granter_issuer, "%s", granter->issuer);
}

static struct result record_binding(struct request *request, struct binding_create *create, struct error *err)
{
    struct persons_separated *list = NULL;

    binding_create_by(create, request->principal);
    TRY(separated(request, create->binding.role, &list, err));
    create->separate = list;
    const struct result recorded = request_record(request, &create->change, err);
    create->separate = NULL;
    free(list);
    return recorded;
}

/* Without the last administrator nobody could give the role again, so its end is never a surprise. */
struct result wanted_binding_bound(const struct request *request, struct wanted_binding *wanted, struct error *err)
{
    const struct settings *settings = request->gateway->settings;
    const int64_t most_s = settings->binding_days_max * DAY_S, usual_s = settings->binding_days_default * DAY_S;

    if (wanted->lifetime_s > most_s)
        return failure(err, ERROR_INVALID, "expires_days: at most %lld here", (long long)settings->binding_days_max);
    if (wanted->lifetime_s == 0 && wanted->binding.role != ROLE_REGISTRY_ADMIN)
        wanted->lifetime_s = usual_s < most_s ? usual_s : most_s;
    return SUCCESS;
}

void binding_take_decided(const struct action_pair *pair, struct authz_binding *binding)
{
    static const char mark[] = " robot:";
    const char *robot = strstr(pair->resource.detail, mark);

    if (binding->kind == PRINCIPAL_ROBOT && robot != NULL)
        (void)uuid_parse(bytes_of_text(robot + sizeof mark - 1), &binding->robot);
}

/* The database is asked only for the name of a robot that the client has named by its id, or for an end that came with a lost answer. */
static struct result find_made(const struct request *request, struct pg *pg, const struct wanted_binding *wanted,
                               const struct authz_binding *made, struct binding_row *row, struct error *err)
{
    struct uuid id;
    const bool is_named_by_id = wanted->robot != NULL && uuid_parse(bytes_of_text(wanted->robot), &id);

    if (is_named_by_id || (wanted->lifetime_s > 0 && made->expires_ms == 0))
        return binding_find(request->permit, pg, &made->id, row, err);
    *row = (struct binding_row){.binding = *made};
    (void)text_copy(row->robot, sizeof row->robot, wanted->robot == NULL ? "" : wanted->robot);
    (void)text_copy(row->on, sizeof row->on, wanted->scope);
    return SUCCESS;
}

static struct result handle_binding_create(struct request *request, struct pg *pg, struct error *err)
{
    struct binding_create create;
    struct wanted_binding wanted;
    struct binding_row row;

    TRY(read_wanted(request, &wanted, err));
    TRY(wanted_binding_bound(request, &wanted, err));
    binding_take_decided(&request->pairs[0], &wanted.binding);
    binding_create_init(&create, &wanted.binding, wanted.lifetime_s);
    TRY(record_binding(request, &create, err));
    TRY(find_made(request, pg, &wanted, &create.binding, &row, err));
    OWNED_JSON value = describe(&row);
    if (value == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for an answer; the binding was made");
    response_json(request, 201, value);
    return SUCCESS;
}

/* ---- a role for some hours: gateway/api/elevation.c ---- */

static struct result check_another(const struct request *request, const struct authz_binding *wanted, struct error *err)
{
    const struct uuid *organisation = &request->pairs[0].resource.organisation;
    struct principal person = {.kind = PRINCIPAL_EXTERNAL};

    memcpy(person.issuer, wanted->issuer, sizeof person.issuer);
    memcpy(person.subject, wanted->subject, sizeof person.subject);
    const struct persons asking = decider_persons(request->gateway->decider, &person, organisation),
                         granting = decider_persons(request->gateway->decider, request->principal, organisation);
    if (persons_are_others(&granting, &asking)) return SUCCESS;
    return failure(err, ERROR_DENIED, "another person than the one that asks must grant a role for some hours");
}

/* The bound may be another one than when it was asked for. */
static struct result read_hours(struct request *request, int64_t *hours_out, struct error *err)
{
    const int64_t most = request->gateway->settings->elevation_hours_max;
    const json_t *body = NULL;
    int64_t hours = 0;

    TRY(request_document(request, &body, err));
    (void)json_integer_of(body, "hours", &hours);
    if (hours > most) return failure(err, ERROR_INVALID, "hours: at most %lld here", (long long)most);
    *hours_out = hours;
    return SUCCESS;
}

/* The same decision as of a binding, and the same event. */
static struct result handle_elevation_grant(struct request *request, struct pg *pg, struct error *err)
{
    struct wanted_binding wanted;
    struct elevation_grant grant;
    struct binding_row row;
    struct uuid id;
    int64_t hours = 0;

    TRY(read_wanted(request, &wanted, err));
    if (wanted.binding.kind != PRINCIPAL_EXTERNAL || !elevation_takes(&wanted.binding))
        return failure(err, ERROR_INVALID, "a person has a role for some hours, and none of " ELEVATION_ROLES_REFUSED);
    TRY(api_id(request, "request", &id, err));
    TRY(check_another(request, &wanted.binding, err));
    TRY(read_hours(request, &hours, err));
    elevation_grant_init(&grant, &id, &wanted.binding, hours);
    binding_create_by(&grant.create, request->principal);
    TRY(request_record(request, &grant.change, err));
    TRY(find_made(request, pg, &wanted, &grant.create.binding, &row, err));
    OWNED_JSON value = describe(&row);
    if (value == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for an answer; the role was given");
    response_json(request, 201, value);
    return SUCCESS;
}

static struct result handle_binding_list(struct request *request, struct pg *pg, struct error *err)
{
    const struct resource *where = permit_resource(request->permit, ACTION_BINDING_READ);
    struct binding_page found = {0};
    struct uuid last = {{0}};
    struct api_page page;

    if (!api_page(request, &page)) return SUCCESS;
    TRY(api_after_id(&page, &last, err));
    TRY(api_scope_exists(where, err));
    TRY(binding_list(request->permit, pg, &last, page.limit + 1, &found, err));
    const struct api_rows rows = {.name = "bindings",
                                  .rows = found.rows,
                                  .row_size = sizeof *found.rows,
                                  .count = found.count,
                                  .describe = describe,
                                  .cursor = "id"};
    const struct result result = api_answer_rows(request, &page, &rows, err);
    free(found.rows);
    return result;
}

static struct result handle_binding_revoke(struct request *request, struct pg *pg, struct error *err)
{
    struct binding_revoke revoke;
    struct uuid id;

    (void)pg;
    TRY(api_id(request, "binding", &id, err));
    binding_revoke_init(&revoke, &id, request->principal);
    return api_remove(request, &revoke.change, err);
}

const struct handler handler_binding_create = {.handle = handle_binding_create};
const struct handler handler_binding_list = {.handle = handle_binding_list};
const struct handler handler_binding_revoke = {.handle = handle_binding_revoke};
const struct handler handler_elevation_grant = {.handle = handle_elevation_grant};
