/* /api/v1/projects/{name}/quota and /rules: docs/api.md, docs/quotas.md. */
#include "registry/quota.h"
#include "base/log.h"
#include "gateway/api/api_priv.h"
#include "gateway/http/condition.h"
#include "registry/project_rules.h"

#define LIMITS(presence)                                                                                          \
    HAS_NUMBER("bytes", presence, 0, INT64_MAX, "bytes that its blobs and manifests may have"),                   \
        HAS_NUMBER("sessions", presence, 0, INT64_MAX, "uploads that may be open"),                               \
        HAS_NUMBER("sessions_per_client", presence, 0, INT64_MAX, "uploads that one client may have open"),       \
        HAS_NUMBER("events_per_minute", presence, 0, INT64_MAX, "requests a minute"),                             \
        HAS_NUMBER("cpu_seconds", presence, 0, QUOTA_SECONDS_MAX, "seconds of processors that its runs may use"), \
        HAS_NUMBER("gpu_seconds", presence, 0, QUOTA_SECONDS_MAX, "seconds of devices that its runs may use")

SCHEMA(quota_wanted, "limits of a project; left out or null: no limit", LIMITS(OPTIONAL | NULLABLE))
SCHEMA(quota, "limits of a project; null: no limit", LIMITS(REQUIRED | NULLABLE))
SCHEMA(quota_use, "limits of a project, and what is used", LIMITS(REQUIRED | NULLABLE),
       HAS_OBJECT("ceiling", REQUIRED, schema_quota, "the limits that the project's own may not exceed"),
       HAS_COUNT("bytes_used", REQUIRED, "bytes that are stored"),
       HAS_COUNT("bytes_reserved", REQUIRED, "bytes that open uploads hold, and those that logs of runs may still get"),
       HAS_COUNT("sessions_open", REQUIRED, "uploads that are open"),
       HAS_COUNT("cpu_seconds_used", REQUIRED, "seconds of processors that ended attempts of runs have used"),
       HAS_COUNT("cpu_seconds_reserved", REQUIRED, "seconds of processors that open runs have reserved"),
       HAS_COUNT("gpu_seconds_used", REQUIRED, "seconds of devices that ended attempts of runs have used"),
       HAS_COUNT("gpu_seconds_reserved", REQUIRED, "seconds of devices that open runs have reserved"))

PART(retention_rule, "tags that are kept",
     HAS_TEXT("repositories", REQUIRED, FORM_FREE, 1, PATTERN_MAX, "a pattern of repositories below the project"),
     HAS_TEXT("tags", REQUIRED, FORM_FREE, 1, PATTERN_MAX, "a pattern of tags"),
     HAS_NUMBER("keep_last", OPTIONAL, 0, RULES_LAST_MAX, "how many of the newest tags are kept"),
     HAS_NUMBER("pushed_days", OPTIONAL, 0, RULES_DAYS_MAX, "tags that were pushed in this number of days are kept"),
     HAS_NUMBER("pulled_days", OPTIONAL, 0, RULES_DAYS_MAX, "tags that were pulled in this number of days are kept"))
PART(immutable_rule, "tags that stay as they are",
     HAS_TEXT("repositories", REQUIRED, FORM_FREE, 1, PATTERN_MAX, "a pattern of repositories below the project"),
     HAS_TEXT("tags", REQUIRED, FORM_FREE, 1, PATTERN_MAX, "a pattern of tags"))
SCHEMA_WITH(SCHEMA_IS_READ_ELSEWHERE, rules, "what a project keeps; each member may be left out",
            HAS_LIST("retention", OPTIONAL, RULES_MAX, schema_retention_rule,
                     "a tag is kept if one of these keeps it; in a repository that no rule matches, all tags are kept"),
            HAS_NUMBER("untagged_days", OPTIONAL, 0, RULES_DAYS_MAX,
                       "manifests that nothing refers to are removed after this number of days"),
            HAS_LIST("immutable", OPTIONAL, RULES_MAX, schema_immutable_rule, "tags that can't be moved or deleted"))

/* A caller with the right to set quotas of the whole registry sets a ceiling. That right is part of the decision and of its
 * record. */
struct result target_project_quota(struct request *request, struct lookup *lookup, struct error *err)
{
    const struct action_pair from_above = {.action = ACTION_PROJECT_QUOTA, .resource.kind = RESOURCE_SYSTEM};
    bool may = false;

    (void)lookup;
    api_pair_of_project(request, ACTION_PROJECT_QUOTA);
    if (request->response != NULL || request->principal->kind == PRINCIPAL_NONE) return SUCCESS;
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

/* Absent or null: no limit. */
static int64_t limit_in(const json_t *body, const char *member)
{
    int64_t limit = QUOTA_NONE;

    (void)json_integer_of(body, member, &limit);
    return limit;
}

static struct result read_limits(struct request *request, struct quota_limits_of_project *limits, struct error *err)
{
    const json_t *body = NULL;

    TRY(request_document(request, &body, err));
    limits->bytes = limit_in(body, "bytes");
    limits->sessions = limit_in(body, "sessions");
    limits->client_sessions = limit_in(body, "sessions_per_client");
    limits->events = limit_in(body, "events_per_minute");
    limits->cpu_s = limit_in(body, "cpu_seconds");
    limits->gpu_s = limit_in(body, "gpu_seconds");
    return SUCCESS;
}

static json_t *limit_of(int64_t limit)
{
    return limit == QUOTA_NONE ? json_null() : json_integer(limit);
}

static struct result describe(const struct quota_limits_of_project *limits, json_t **object_out, struct error *err)
{
    json_t *object =
        json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "bytes", limit_of(limits->bytes), "sessions", limit_of(limits->sessions),
                  "events_per_minute", limit_of(limits->events), "sessions_per_client", limit_of(limits->client_sessions),
                  "cpu_seconds", limit_of(limits->cpu_s), "gpu_seconds", limit_of(limits->gpu_s));

    if (object == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for an answer");
    *object_out = object;
    return SUCCESS;
}

/* The quota is set, even if the count fails: then the maintenance thread counts later. */
static void count_new(const struct request *request, struct pg *pg)
{
    struct error err = {0};

    if (!quota_count_new(request->permit, pg, &request->pairs[0].resource, &err).ok)
        log_error("a project with a new quota is not counted yet", &err);
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
    count_new(request, pg);
    response_json(request, 200, object);
    return SUCCESS;
}

static struct result read_quota(struct request *request, struct pg *pg, struct error *err)
{
    const struct resource *where = &request->pairs[0].resource;
    struct quota_use use;
    OWNED_JSON object = NULL;
    OWNED_JSON ceiling = NULL;
    OWNED_JSON used = NULL;

    if (uuid_is_nil(&where->project)) {
        response_unknown(request);
        return SUCCESS;
    }
    TRY(quota_read(request->permit, pg, where, &use, err));
    TRY(describe(&use.limits, &object, err));
    TRY(describe(&use.ceiling, &ceiling, err));
    used =
        json_pack("{s:O, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "ceiling", ceiling, "bytes_used", use.bytes_used, "bytes_reserved",
                  use.bytes_reserved, "sessions_open", use.sessions, "cpu_seconds_used", use.cpu_s, "cpu_seconds_reserved",
                  use.cpu_reserved_s, "gpu_seconds_used", use.gpu_s, "gpu_seconds_reserved", use.gpu_reserved_s);
    if (used == NULL || json_object_update(object, used) != 0) return failure(err, ERROR_NO_MEMORY, "no memory for an answer");
    response_json(request, 200, object);
    return SUCCESS;
}

/* The answer has the rules as they are stored, so that the entity tag is the same as that of a GET. */
static struct result answer_rules(struct request *request, struct bytes document, struct error *err)
{
    const char *copy = arena_copy_text(request->arena, document);
    char tag[ENTITY_TAG_SIZE];

    if (copy == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for an answer");
    entity_tag_of(document, tag);
    response_bytes(request, 200, "application/json", bytes_of_text(copy));
    if (request->method == METHOD_GET) api_answer_tagged(request, tag, "the document of rules");
    else response_header(request, "ETag", "%s", tag);
    return SUCCESS;
}

static bool is_known(void *context, const char *document)
{
    char tag[ENTITY_TAG_SIZE];

    entity_tag_of(bytes_of_text(document), tag);
    return api_condition_holds(context, tag);
}

static struct result set_rules(struct request *request, struct pg *pg, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(RULES_TEXT_MAX);
    struct rules_change change;
    const json_t *document = NULL;
    OWNED(rules) *rules = NULL;

    (void)pg;
    TRY(request_document(request, &document, err));
    TRY(json_write_canonical(&text, document, err));
    TRY(rules_read(buffer_bytes(&text), &rules, err));
    TRY(rules_change_prepare(&request->pairs[0].resource, buffer_text(&text), rules, &change, err));
    if (request_header(request, "If-Match") != NULL || request_header(request, "If-None-Match") != NULL) {
        change.holds = is_known;
        change.context = request;
    }
    const struct result recorded = request_record(request, &change.change, err);
    if (change.is_refused) api_answer_changed(request, "the document of rules");
    if (!recorded.ok) return change.is_refused ? SUCCESS : recorded;
    return answer_rules(request, buffer_bytes(&text), err);
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
    return answer_rules(request, buffer_bytes(&text), err);
}

const struct handler handler_project_quota = {.handle = set_quota};
const struct handler handler_project_quota_read = {.handle = read_quota};
const struct handler handler_project_rules = {.handle = set_rules};
const struct handler handler_project_rules_read = {.handle = read_rules};
