/* /api/v1/projects/{name}/quota and /rules: docs/api.md, docs/quotas.md. */
#include "base/log.h"
#include "gateway/api/api_priv.h"
#include "registry/project_rules.h"
#include "registry/quota.h"

/* Who may set quotas of the whole registry sets a ceiling: that right is part of what is decided and recorded. */
struct result target_project_quota(struct request *request, struct lookup *lookup, struct error *err)
{
    const struct action_pair from_above = {.action = ACTION_PROJECT_QUOTA, .resource.kind = RESOURCE_SYSTEM};
    bool may = false;

    (void)lookup;
    api_pair_of_project(request, ACTION_PROJECT_QUOTA);
    if (request->response != NULL || request->principal.kind == PRINCIPAL_NONE) return SUCCESS;
    TRY(api_may(request, &from_above, &may, err));
    if (may) (void)api_pair(request, ACTION_PROJECT_QUOTA, RESOURCE_SYSTEM, "");
    return SUCCESS;
}

struct result target_project_rules(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup;
    (void)err;
    api_pair_of_project(request, ACTION_PROJECT_RULES);
    return SUCCESS;
}

/* Absent and null are no limit. */
static struct result read_limit(const json_t *value, const char *member, int64_t *limit_out, struct error *err)
{
    const bool is_none = value == NULL || json_is_null(value);

    if (!is_none && (!json_is_integer(value) || json_integer_value(value) < 0))
        return failure(err, ERROR_INVALID, "%s is a whole number of 0 or more, or null", member);
    *limit_out = is_none ? QUOTA_NONE : json_integer_value(value);
    return SUCCESS;
}

static struct result read_limits(const struct request *request, struct quota_limits_of_project *limits, struct error *err)
{
    json_t *bytes = NULL, *sessions = NULL, *events = NULL, *of_client = NULL;
    OWNED_JSON body = NULL;

    TRY(api_body(request, &body, err));
    TRY(api_unpack(body, err, "{s?:o, s?:o, s?:o, s?:o}", "bytes", &bytes, "sessions", &sessions, "events_per_minute", &events,
                   "sessions_per_client", &of_client));
    TRY(read_limit(bytes, "bytes", &limits->bytes, err));
    TRY(read_limit(sessions, "sessions", &limits->sessions, err));
    TRY(read_limit(of_client, "sessions_per_client", &limits->client_sessions, err));
    return read_limit(events, "events_per_minute", &limits->events, err);
}

static json_t *limit_of(int64_t limit)
{
    return limit == QUOTA_NONE ? json_null() : json_integer(limit);
}

static struct result describe(const struct quota_limits_of_project *limits, json_t **object_out, struct error *err)
{
    json_t *object = json_pack("{s:o, s:o, s:o, s:o}", "bytes", limit_of(limits->bytes), "sessions", limit_of(limits->sessions),
                               "events_per_minute", limit_of(limits->events), "sessions_per_client", limit_of(limits->client_sessions));

    if (object == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for an answer");
    *object_out = object;
    return SUCCESS;
}

/* It is set whatever becomes of the count: the janitor makes up for one that fails. */
static void count_new(struct pg *pg, const struct uuid *project)
{
    struct error err = {0};
    bool found = false;

    if (!quota_count_new(pg, project, &found, &err).ok) log_error("a project with a new quota is not counted yet", &err);
}

static struct result set_quota(struct request *request, struct pg *pg, struct error *err)
{
    struct quota_limits_of_project limits;
    struct quota_change change;
    OWNED_JSON object = NULL;

    TRY(read_limits(request, &limits, err));
    const enum quota_setter setter = request->pair_count > 1 ? QUOTA_FROM_ABOVE : QUOTA_OWN;
    TRY(quota_change_prepare(&request->pairs[0].resource, setter, &limits, &change, err));
    TRY(describe(&limits, &object, err));
    TRY(request_record(request, &change.change, err));
    count_new(pg, &request->pairs[0].resource.project);
    response_json(request, 200, object);
    return SUCCESS;
}

static struct result read_quota(struct request *request, struct pg *pg, struct error *err)
{
    const struct resource *where = &request->pairs[0].resource;
    struct quota_use use;
    OWNED_JSON object = NULL;
    OWNED_JSON ceiling = NULL;

    if (uuid_is_nil(&where->project)) {
        response_unknown(request);
        return SUCCESS;
    }
    TRY(quota_read(request->permit, pg, where, &use, err));
    TRY(describe(&use.limits, &object, err));
    TRY(describe(&use.ceiling, &ceiling, err));
    if (json_object_set(object, "ceiling", ceiling) != 0 ||
        json_object_set_new(object, "bytes_used", json_integer(use.bytes_used)) != 0 ||
        json_object_set_new(object, "bytes_reserved", json_integer(use.bytes_reserved)) != 0 ||
        json_object_set_new(object, "sessions_open", json_integer(use.sessions)) != 0)
        return failure(err, ERROR_NO_MEMORY, "no memory for an answer");
    response_json(request, 200, object);
    return SUCCESS;
}

static struct result set_rules(struct request *request, struct pg *pg, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(RULES_TEXT_MAX);
    struct rules_change change;
    OWNED_JSON document = NULL;
    OWNED(rules) *rules = NULL;

    (void)pg;
    TRY(api_body(request, &document, err));
    TRY(json_write_canonical(&text, document, err));
    TRY(rules_read(buffer_bytes(&text), &rules, err));
    TRY(rules_change_prepare(&request->pairs[0].resource, buffer_text(&text), rules, &change, err));
    TRY(request_record(request, &change.change, err));
    response_json(request, 200, document);
    return SUCCESS;
}

static struct result read_rules(struct request *request, struct pg *pg, struct error *err)
{
    const struct resource *where = &request->pairs[0].resource;
    struct buffer OWNED_BUFFER text = BUFFER(RULES_TEXT_MAX);

    if (uuid_is_nil(&where->project)) {
        response_unknown(request);
        return SUCCESS;
    }
    TRY(rules_document(request->permit, pg, where, &text, err));
    const char *copy = arena_copy_text(request->arena, buffer_bytes(&text));
    if (copy == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for an answer");
    response_bytes(request, 200, "application/json", bytes_of_text(copy));
    return SUCCESS;
}

const struct handler handler_project_quota = {.handle = set_quota};
const struct handler handler_project_quota_read = {.handle = read_quota};
const struct handler handler_project_rules = {.handle = set_rules};
const struct handler handler_project_rules_read = {.handle = read_rules};
