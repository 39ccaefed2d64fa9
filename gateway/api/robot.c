/* /api/v1/robots: docs/api.md. */
#include <stdio.h>
#include <string.h>

#include "authz/robot.h"
#include "base/clock.h"
#include "gateway/api/api_priv.h"
#include "policy/decider.h"
#include "registry/names/reference.h"

#define DAY_S 86400

/* What a body asks for; texts are views of `json`. */
struct wanted_robot {
    json_t *json;
    const char *organisation;         /* NULL: of the registry */
    char name[ROBOT_NAME_SIZE];
    int64_t lifetime_s;
};

static void wanted_done(struct wanted_robot *wanted)
{
    json_decref(wanted->json);
}
#define OWNED_WANTED __attribute__((cleanup(wanted_done))) struct wanted_robot

static struct result read_wanted(const struct request *request, struct wanted_robot *wanted, struct error *err)
{
    json_int_t days = ROBOT_DAYS_MAX;
    const char *name = NULL;

    TRY(api_body(request, &wanted->json, err));
    TRY(api_unpack(wanted->json, err, "{s:s, s?:s, s?:I}", "name", &name, "organisation", &wanted->organisation,
                   "expires_days", &days));
    if (days < 1 || days > ROBOT_DAYS_MAX)
        return failure(err, ERROR_INVALID, "expires_days is a number from 1 to %d", ROBOT_DAYS_MAX);
    wanted->lifetime_s = (int64_t)days * DAY_S;
    return robot_name(wanted->organisation, bytes_of_text(name), wanted->name, err);
}

struct result target_robot_create(struct request *request, struct lookup *lookup, struct error *err)
{
    OWNED_WANTED wanted = {0};

    (void)lookup;
    if (api_asks_for_credential(request, ACTION_ROBOT_CREATE)) return SUCCESS;
    TRY(read_wanted(request, &wanted, err));
    struct resource *resource =
        wanted.organisation == NULL
            ? api_pair(request, ACTION_ROBOT_CREATE, RESOURCE_SYSTEM, "")
            : api_pair(request, ACTION_ROBOT_CREATE, RESOURCE_ORGANISATION, wanted.organisation);
    (void)snprintf(resource->detail, sizeof resource->detail, "%s", wanted.name);
    return SUCCESS;
}

struct result target_robot_list(struct request *request, struct lookup *lookup, struct error *err)
{
    const char *organisation = request_argument(request, "organisation");

    (void)lookup;
    (void)err;
    if (organisation == NULL)
        (void)api_pair(request, ACTION_ROBOT_READ, RESOURCE_SYSTEM, "");
    else if (scope_name_is_valid(bytes_of_text(organisation)))
        (void)api_pair(request, ACTION_ROBOT_READ, RESOURCE_ORGANISATION, organisation);
    else
        response_unknown(request);
    return SUCCESS;
}

/*
 * A robot is known by its organisation. One that is not there, and one of the registry itself, is decided on as if
 * its organisation were not there: only the registry's administrators may touch it, and others learn nothing.
 */
struct result target_robot_revoke(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup;
    (void)err;
    api_pair_of_id(request, ACTION_ROBOT_REVOKE, decider_find_robot);
    return SUCCESS;
}

/* NULL if memory is out. The end of the secret before is shown for as long as that is good: nobody shall have one that is not seen. */
static json_t *describe(const struct authz_robot *robot)
{
    char id[UUID_TEXT_SIZE], expires[CLOCK_TEXT_SIZE], until[CLOCK_TEXT_SIZE];

    uuid_format(&robot->id, id);
    clock_format(robot->expires_ms, expires);
    clock_format(robot->previous_until_ms, until);
    return json_pack("{s:s, s:s, s:b, s:s, s:s*}", "id", id, "name", robot->name, "enabled", robot->enabled ? 1 : 0, "expires",
                     expires, "previous_until", robot->previous_until_ms == 0 ? NULL : until);
}

static struct result create_robot(struct request *request, struct robot_create *create, struct error *err)
{
    principal_key(&request->principal, create->created_by);
    TRY(request_record(request, &create->change, err));
    OWNED_JSON value = describe(&create->robot);
    if (value == NULL ||
        json_object_set_new(value, "secret", json_string((const char *)secret_bytes(create->secret).data)) != 0)
        return failure(err, ERROR_NO_MEMORY, "the robot was made, but its secret is lost: revoke it and make another");
    response_json(request, 201, value);
    response_header(request, "Cache-Control", "no-store");
    return SUCCESS;
}

static struct result handle_robot_create(struct request *request, struct pg *pg, struct error *err)
{
    const struct resource *where = &request->pairs[0].resource;
    struct robot_create create;
    OWNED_WANTED wanted = {0};

    (void)pg;
    TRY(read_wanted(request, &wanted, err));
    TRY(robot_create_init(&create, wanted.name, wanted.organisation == NULL ? NULL : &where->organisation,
                          wanted.lifetime_s, err));
    const struct result result = wanted.organisation != NULL && uuid_is_nil(&where->organisation)
                                     ? failure(err, ERROR_NOT_FOUND, "there is no such organisation")
                                     : create_robot(request, &create, err);
    robot_create_done(&create);
    return result;
}

static struct result add_robots(const struct robot_page *page, size_t count, json_t *list, struct error *err)
{
    for (size_t i = 0; i < count; i++)
        if (json_array_append_new(list, describe(&page->rows[i].robot)) != 0)
            return failure(err, ERROR_NO_MEMORY, "no memory for a list");
    return SUCCESS;
}

static struct result answer_robots(struct request *request, const struct robot_page *page, size_t limit,
                                   struct error *err)
{
    const size_t count = page->count < limit ? page->count : limit;
    OWNED_JSON robots = json_array();

    TRY(add_robots(page, count, robots, err));
    OWNED_JSON value = json_pack("{s:O}", "robots", robots);
    if (value == NULL || (page->count > limit &&
                          json_object_set_new(value, "next", json_string(page->rows[count - 1].robot.name)) != 0))
        return failure(err, ERROR_NO_MEMORY, "no memory for a list");
    response_json(request, 200, value);
    return SUCCESS;
}

static struct result handle_robot_list(struct request *request, struct pg *pg, struct error *err)
{
    const struct resource *where = permit_resource(request->permit, ACTION_ROBOT_READ);
    struct robot_page page = {0};
    const char *after = NULL;
    unsigned limit = 0;

    if (!api_page(request, &limit, &after)) return SUCCESS;
    if (where->kind == RESOURCE_ORGANISATION && uuid_is_nil(&where->organisation))
        return failure(err, ERROR_NOT_FOUND, "there is no such organisation");
    TRY(robot_list(request->permit, pg, after, limit + 1, &page, err));
    const struct result result = answer_robots(request, &page, limit, err);
    free(page.rows);
    return result;
}

static struct result handle_robot_revoke(struct request *request, struct pg *pg, struct error *err)
{
    struct robot_revoke revoke;
    struct uuid id;

    (void)pg;
    if (!uuid_parse(bytes_of_text(request->reference), &id))
        return failure(err, ERROR_NOT_FOUND, "there is no such robot");
    robot_revoke_init(&revoke, &id, &request->pairs[0].resource.organisation);
    TRY(request_record(request, &revoke.change, err));
    response_empty(request, 204);
    return SUCCESS;
}

const struct handler handler_robot_create = {.handle = handle_robot_create};
const struct handler handler_robot_list = {.handle = handle_robot_list};
const struct handler handler_robot_revoke = {.handle = handle_robot_revoke};
