/* /api/v1/robots: docs/api.md. */
#include <stdio.h>
#include <string.h>

#include "authz/robot.h"
#include "base/clock.h"
#include "gateway/api/api_priv.h"
#include "policy/decider/decider.h"
#include "registry/names/reference.h"

#define DAY_S 86400

SCHEMA(robot_wanted, "a robot to be made", HAS_TEXT("name", REQUIRED, FORM_NAME, 1, 63, "its name in its organisation"),
       HAS_TEXT("organisation", OPTIONAL, FORM_NAME, 1, 63,
                "the organisation that it belongs to; the registry itself if left out"),
       HAS_NUMBER("expires_days", OPTIONAL, 1, ROBOT_DAYS_MAX,
                  "days until its secret ends; if left out, as many as the registry allows (robot_days_max)"))

#define ROBOT_MEMBERS                                                                                                       \
    HAS_ID("id", REQUIRED, "names it in paths"),                                                                            \
        HAS_TEXT("name", REQUIRED, FORM_FREE, 1, 135, "robot$acme+ci; the user name at /token"),                            \
        HAS_FLAG("enabled", REQUIRED, "false: it can get no token"), HAS_TIME("expires", REQUIRED, "when its secret ends"), \
        HAS_TIME("previous_until", OPTIONAL, "until when the previous secret is also valid"),                               \
        HAS_TEXT("certificate", OPTIONAL, FORM_FREE, 5, ROBOT_CERTIFICATE_SIZE - 1,                                         \
                 "the certificate by which it logs in, in place of a secret")

PART(robot, "a robot", ROBOT_MEMBERS)
SCHEMA_WITH(SCHEMA_HAS_SECRET, robot_secret, "a robot and its new secret", ROBOT_MEMBERS,
            HAS_TEXT("secret", OPTIONAL, FORM_FREE, 1, 64,
                     "the password at /token; shown this once; absent if it has a certificate"))
SCHEMA(robots, "a page of robots", HAS_LIST("robots", REQUIRED, 1000, schema_robot, "by name"), HAS_NEXT)

/* The wanted robot; the organisation is a view of the document. */
struct wanted_robot {
    const char *organisation; /* NULL: a robot of the registry */
    char name[ROBOT_NAME_SIZE];
    int64_t lifetime_s;
};

static struct result read_wanted(struct request *request, struct wanted_robot *wanted, struct error *err)
{
    const json_t *body = NULL;
    const int64_t most = request->gateway->settings->robot_days_max;
    int64_t days = most;

    TRY(request_document(request, &body, err));
    (void)json_integer_of(body, "expires_days", &days);
    if (days > most) return failure(err, ERROR_INVALID, "expires_days: at most %lld here", (long long)most);
    wanted->organisation = json_text_of(body, "organisation");
    wanted->lifetime_s = days * DAY_S;
    return robot_name(wanted->organisation, bytes_of_text(json_text_of(body, "name")), wanted->name, err);
}

struct result target_robot_create(struct request *request, struct lookup *lookup, struct error *err)
{
    struct wanted_robot wanted = {.organisation = NULL};

    (void)lookup;
    if (api_asks_for_credential(request, ACTION_ROBOT_CREATE)) return SUCCESS;
    TRY(read_wanted(request, &wanted, err));
    struct resource *resource = wanted.organisation == NULL
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
    if (organisation == NULL) (void)api_pair(request, ACTION_ROBOT_READ, RESOURCE_SYSTEM, "");
    else if (namespace_name_is_valid(bytes_of_text(organisation)))
        (void)api_pair(request, ACTION_ROBOT_READ, RESOURCE_ORGANISATION, organisation);
    else response_unknown(request);
    return SUCCESS;
}

/*
 * The decision is about the robot's organisation. A robot that does not exist, and a robot of the registry itself, is decided
 * like one of an organisation that does not exist. So only the registry's administrators may change it, and other callers
 * learn nothing.
 */
struct result target_robot_revoke(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup;
    (void)err;
    api_pair_of_id(request, ACTION_ROBOT_REVOKE, decider_find_robot);
    return SUCCESS;
}

/* NULL: out of memory. Shows until when the previous secret is valid, so that no valid secret stays unnoticed. */
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
    principal_key(request->principal, create->created_by);
    (void)snprintf(create->maker_issuer, sizeof create->maker_issuer, "%s", request->principal->issuer);
    TRY(request_record(request, &create->change, err));
    OWNED_JSON value = describe(&create->robot);
    if (value == NULL || json_object_set_new(value, "secret", json_string((const char *)secret_bytes(create->secret).data)) != 0)
        return failure(err, ERROR_NO_MEMORY, "the robot was made, but its secret is lost: revoke it and make another");
    response_json(request, 201, value);
    response_header(request, "Cache-Control", "no-store");
    return SUCCESS;
}

static struct result handle_robot_create(struct request *request, struct pg *pg, struct error *err)
{
    const struct resource *where = &request->pairs[0].resource;
    struct robot_create create;
    struct wanted_robot wanted = {.organisation = NULL};

    (void)pg;
    TRY(read_wanted(request, &wanted, err));
    TRY(robot_create_init(&create, wanted.name, wanted.organisation == NULL ? NULL : &where->organisation, wanted.lifetime_s,
                          err));
    const struct result result = wanted.organisation != NULL && uuid_is_nil(&where->organisation)
                                     ? failure(err, ERROR_NOT_FOUND, "there is no such organisation")
                                     : create_robot(request, &create, err);
    robot_create_done(&create);
    return result;
}

static json_t *describe_row(const void *row)
{
    const struct robot_row *robot = row;
    json_t *value = describe(&robot->robot);

    if (value != NULL && robot->certificate[0] != '\0')
        (void)json_object_set_new(value, "certificate", json_string(robot->certificate)); /* without memory it is left out */
    return value;
}

static struct result handle_robot_list(struct request *request, struct pg *pg, struct error *err)
{
    const struct resource *where = permit_resource(request->permit, ACTION_ROBOT_READ);
    struct robot_page found = {0};
    struct api_page page;

    if (!api_page(request, &page)) return SUCCESS;
    if (where->kind == RESOURCE_ORGANISATION && uuid_is_nil(&where->organisation))
        return failure(err, ERROR_NOT_FOUND, "there is no such organisation");
    TRY(robot_list(request->permit, pg, page.after, page.limit + 1, &found, err));
    const struct api_rows rows = {.name = "robots",
                                  .rows = found.rows,
                                  .row_size = sizeof *found.rows,
                                  .count = found.count,
                                  .describe = describe_row,
                                  .cursor = "name"};
    const struct result result = api_answer_rows(request, &page, &rows, err);
    free(found.rows);
    return result;
}

static struct result handle_robot_revoke(struct request *request, struct pg *pg, struct error *err)
{
    struct robot_revoke revoke;
    struct uuid id;

    (void)pg;
    TRY(api_id(request, "robot", &id, err));
    robot_revoke_init(&revoke, &id, &request->pairs[0].resource.organisation, request->principal);
    return api_remove(request, &revoke.change, err);
}

const struct handler handler_robot_create = {.handle = handle_robot_create};
const struct handler handler_robot_list = {.handle = handle_robot_list};
const struct handler handler_robot_revoke = {.handle = handle_robot_revoke};
