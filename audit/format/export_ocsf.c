/* An event in the classes of OCSF 1.3 that audit/actions.def names: 6003 API Activity, 3002 Authentication, 6002 Application Lifecycle, 2004 Detection Finding. */
#include <stdio.h>
#include <string.h>

#include "audit/format/export.h"
#include "base/json.h"

#define SUCCEEDED 1
#define FAILED    2

void export_rules(const struct leaf_reason *reason, char text_out[EXPORT_RULES_SIZE])
{
    size_t length = 0;

    text_out[0] = '\0';
    for (size_t i = 0; i < reason->rule_count; i++)
        length += (size_t)snprintf(text_out + length, EXPORT_RULES_SIZE - length, "%s%s", i == 0 ? "" : " ", reason->rules[i]);
}

static bool add(json_t *object, const char *name, json_t *value)
{
    return value != NULL && json_object_set_new(object, name, value) == 0;
}

static bool add_text_of(json_t *object, const char *name, const json_t *payload, const char *member)
{
    json_t *value = json_object_get(payload, member);

    return !json_is_string(value) || json_object_set(object, name, value) == 0;
}

/* The pseudonym; and the name, if it was opened. */
static json_t *user_of(const struct leaf *leaf, const json_t *payload)
{
    OWNED_JSON user = json_pack("{s:s}", "uid", leaf->actor);

    if (user == NULL || !add_text_of(user, "name", payload, "subject") || !add_text_of(user, "domain", payload, "issuer"))
        return NULL;
    return json_incref(user);
}

static json_t *endpoint_of(const json_t *payload)
{
    const json_t *address = json_object_get(payload, "address");

    return json_is_string(address) ? json_pack("{s:O}", "ip", address) : json_pack("{s:s}", "name", "sealed");
}

/* A member `region` of a resource is for clouds: OCSF allows it only beside what describes the cloud. */
static json_t *resources_of(const struct leaf *leaf)
{
    OWNED_JSON list = json_array();

    for (size_t i = 0; list != NULL && i < leaf->target_count; i++) {
        const struct leaf_target *target = &leaf->targets[i];
        OWNED_JSON one = json_pack("{s:s, s:s}", "name", target->resource, "type", target->action);
        if (one == NULL || (target->region[0] != '\0' && !add(one, "data", json_pack("{s:s}", "region", target->region))) ||
            json_array_append(list, one) != 0)
            return NULL;
    }
    return json_incref(list);
}

static bool add_status(json_t *event, const struct leaf *leaf)
{
    const bool has_failed = strcmp(leaf->outcome, "denied") == 0 || strcmp(leaf->outcome, "failed") == 0;
    char rules[EXPORT_RULES_SIZE];

    export_rules(&leaf->reason, rules);
    return add(event, "severity_id", json_integer(has_failed ? 2 : 1)) &&
           add(event, "status", json_string(has_failed ? "Failure" : "Success")) &&
           add(event, "status_code", json_string(leaf->outcome)) &&
           add(event, "status_id", json_integer(has_failed ? FAILED : SUCCEEDED)) &&
           (rules[0] == '\0' || add(event, "status_detail", json_string(rules)));
}

/* What a class demands besides. */
static bool add_of_class(json_t *event, const struct leaf *leaf, const json_t *payload, unsigned class)
{
    const char *action = leaf->targets[0].action;

    if (class == 3002 &&
        (!add(event, "user", user_of(leaf, payload)) || !add(event, "service", json_pack("{s:s}", "name", "sijild"))))
        return false;
    if (class == 2004 && !add(event, "finding_info",
                              json_pack("{s:o, s:s}", "uid", json_sprintf("%llu", (unsigned long long)leaf->sequence), "title",
                                        leaf->targets[0].resource + strspn(leaf->targets[0].resource, "#"))))
        return false;
    if (class == 6002 && !add(event, "app", json_pack("{s:s, s:s}", "name", "sijild", "vendor_name", "Sijil"))) return false;
    return add(event, "actor", json_pack("{s:o}", "user", user_of(leaf, payload))) &&
           add(event, "api", json_pack("{s:s, s:{s:s}}", "operation", action, "request", "uid", leaf->request)) &&
           add(event, "src_endpoint", endpoint_of(payload)) && add(event, "resources", resources_of(leaf));
}

static bool add_agent(json_t *event, const json_t *payload)
{
    json_t *agent = json_object_get(payload, "agent");

    return !json_is_string(agent) || add(event, "http_request", json_pack("{s:O}", "user_agent", agent));
}

json_t *export_ocsf(const struct leaf *leaf, struct bytes text, const json_t *payload)
{
    const unsigned class = leaf->class_uid / 100;
    OWNED_JSON event = json_pack("{s:I, s:i, s:i, s:I, s:I, s:{s:{s:s, s:s}, s:I, s:s}}", "type_uid", (json_int_t)leaf->class_uid,
                                 "activity_id", (int)(leaf->class_uid % 100), "category_uid", (int)(class / 1000), "class_uid",
                                 (json_int_t) class, "time", (json_int_t)leaf->time_ms, "metadata", "product", "name", "Sijil",
                                 "vendor_name", "Sijil", "sequence", (json_int_t)leaf->sequence, "version", "1.3.0");

    if (event == NULL || !add(event, "raw_data", json_stringn((const char *)text.data, text.length)) ||
        !add_status(event, leaf) || !add_of_class(event, leaf, payload, class) || !add_agent(event, payload))
        return NULL;
    return json_incref(event);
}

/* Members of each event that a class of OCSF 1.3 does not define. */
static const struct {
    int class_uid;
    const char *undefined[6];
} classes[] = {{3002, {"api", "resources"}},
               {6002, {"actor", "api", "http_request", "resources", "src_endpoint"}},
               {2004, {"actor", "api", "http_request", "src_endpoint"}}};

static bool move(json_t *event, json_t *unmapped, const char *name)
{
    json_t *value = json_object_get(event, name);

    if (value == NULL) return true;
    return json_object_set(unmapped, name, value) == 0 && json_object_del(event, name) == 0;
}

bool export_ocsf_fit(json_t *event)
{
    const json_int_t class = json_integer_value(json_object_get(event, "class_uid"));
    OWNED_JSON unmapped = json_object();

    if (unmapped == NULL) return false;
    for (size_t i = 0; i < sizeof classes / sizeof classes[0]; i++)
        for (size_t k = 0; classes[i].class_uid == class && classes[i].undefined[k] != NULL; k++)
            if (!move(event, unmapped, classes[i].undefined[k])) return false;
    return json_object_size(unmapped) == 0 || json_object_set(event, "unmapped", unmapped) == 0;
}
