/* `sijil admin sink ...`, `sijil admin groups ...`, `sijil admin role ...`, `sijil admin persons ...`, `sijil admin scim ...`, `sijil admin detection ...`. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "client/commands/audit_priv.h"
#include "client/commands/commands_priv.h"
#include "client/commands/log_document_priv.h"

#define PATH_ROOM 1024

static const struct log_document_place sink = {&log_document_sink, {"/audit/sinks", "sinks", "sink", false}};
static const struct log_document_place detection = {&log_document_detection,
                                                    {"/audit/detections", "detections", "detection rule", false}};
static const struct log_document_place groups = {&log_document_groups,
                                                 {"/groups", "groups", "document of roles of groups", false}};
static const struct log_document_place role = {&log_document_role, {"/roles", "roles", "role", false}};
static const struct log_document_place persons = {&log_document_persons, {"/persons", "persons", "document of persons", false}};
static const struct log_document_place scim = {&log_document_scim, {"/scim", "scim", "document of a SCIM service", false}};

static const struct log_document_place officers = {&log_document_officers,
                                                   {"/officers", "officers", "document of officers", false}};

/* ---- all of them ---- */

/* "admin sink draft" is about sinks. */
static const struct log_document_place *place_of(const struct invocation *invocation)
{
    static const struct {
        const char *begins;
        const struct log_document_place *place;
    } places[] = {{"admin sink ", &sink},
                  {"admin detection ", &detection},
                  {"admin groups ", &groups},
                  {"admin persons ", &persons},
                  {"admin scim ", &scim}};
    size_t i = 0;

    while (strncmp(invocation->command->name, places[i].begins, strlen(places[i].begins)) != 0) {
        i++;
        assert(i < sizeof places / sizeof places[0]);
    }
    return places[i].place;
}

struct result command_document_draft(struct invocation *invocation, struct error *err)
{
    return log_document_draft(invocation, place_of(invocation), err);
}

struct result command_document_approve(struct invocation *invocation, struct error *err)
{
    return log_document_approve(invocation, place_of(invocation), err);
}

struct result command_document_revoke(struct invocation *invocation, struct error *err)
{
    return log_document_revoke(invocation, place_of(invocation), err);
}

struct result command_document_reject(struct invocation *invocation, struct error *err)
{
    return documents_end(invocation, place_of(invocation)->list.base, "/drafts", err);
}

struct result command_document_show(struct invocation *invocation, struct error *err)
{
    return log_document_show(invocation, place_of(invocation), err);
}

/* ---- sinks ---- */

struct result command_sink_secret(struct invocation *invocation, struct error *err)
{
    struct buffer OWNED_BUFFER path = BUFFER(PATH_ROOM);
    OWNED(session) *session = NULL;
    OWNED_JSON answer = NULL;

    TRY(command_session(invocation, invocation->operands[0], &session, err));
    TRY(log_document_path(&sink, invocation->operands[1], "/secret", &path, err));
    TRY(api_call_in(session, "POST", buffer_text(&path), NULL, &answer, err));
    return api_print(invocation, answer, err);
}

/* The subject of an officer, if the registry says it; else its principal. */
static json_t *who_of(const json_t *row, const json_t *body)
{
    json_t *subject = json_object_get(json_object_get(row, "holder"), "subject");

    return subject != NULL ? subject : json_object_get(body, "principal");
}

static struct result flatten(const json_t *rows, json_t *flat, struct error *err)
{
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i), *document = json_object_get(row, "document"),
                     *body = json_object_get(document, "body"), *delivery = json_object_get(row, "delivery");
        json_t *shown =
            json_pack("{s:O?, s:O?, s:O?, s:O*, s:O*, s:O*, s:O*, s:O*, s:O*, s:O*, s:O*, s:O*, s:O*, s:O*, s:O*}", "name",
                      json_object_get(row, "name"), "state", json_object_get(row, "state"), "version",
                      json_object_get(document, "version"), "transport", json_object_get(body, "transport"), "region",
                      json_object_get(body, "region"), "next", json_object_get(delivery, "next"), "stopped_at",
                      json_object_get(delivery, "stopped_at"), "problem", json_object_get(delivery, "problem"), "missing",
                      json_object_get(row, "missing"), "address", json_object_get(body, "address"), "issuer",
                      json_object_get(body, "issuer"), "expires", json_object_get(document, "expires"), "on",
                      json_object_get(body, "on"), "bound", json_object_get(row, "bound"), "who", who_of(row, body));
        if (shown == NULL || json_array_append_new(flat, shown) != 0) return api_no_memory(err);
    }
    return SUCCESS;
}

struct result command_sink_list(struct invocation *invocation, struct error *err)
{
    static const struct column columns[] = {
        {"SINK", "name"}, {"STATE", "state"},        {"VERSION", "version"}, {"BY", "transport"},    {"REGION", "region"},
        {"NEXT", "next"}, {"STOPPED", "stopped_at"}, {"MISSING", "missing"}, {"ADDRESS", "address"}, {"PROBLEM", "problem"}};
    OWNED(session) *session = NULL;
    OWNED_JSON rows = json_array();
    OWNED_JSON flat = json_array();

    if (rows == NULL || flat == NULL) return api_no_memory(err);
    TRY(command_session(invocation, invocation->operands[0], &session, err));
    TRY(documents_get_all(invocation, session, &sink.list, rows, err));
    TRY(flatten(rows, flat, err));
    return api_print_rows(invocation, flat, columns, sizeof columns / sizeof columns[0], err);
}

/* ---- roles of groups ---- */

static struct result flatten_grants(const json_t *row, json_t *flat, struct error *err)
{
    const json_t *document = json_object_get(row, "document"), *body = json_object_get(document, "body"),
                 *grants = json_object_get(body, "grant");

    for (size_t i = 0; i < json_array_size(grants); i++) {
        const json_t *grant = json_array_get(grants, i);
        json_t *shown = json_pack("{s:O?, s:O?, s:O?, s:O?, s:O?, s:O?, s:O?}", "name", json_object_get(row, "name"), "state",
                                  json_object_get(row, "state"), "version", json_object_get(document, "version"), "issuer",
                                  json_object_get(body, "issuer"), "group", json_object_get(grant, "group"), "role",
                                  json_object_get(grant, "role"), "on", json_object_get(grant, "on"));
        if (shown == NULL || json_array_append_new(flat, shown) != 0) return api_no_memory(err);
    }
    return SUCCESS;
}

struct result command_groups_list(struct invocation *invocation, struct error *err)
{
    static const struct column columns[] = {{"NAME", "name"},     {"STATE", "state"}, {"VERSION", "version"},
                                            {"ISSUER", "issuer"}, {"GROUP", "group"}, {"ROLE", "role"},
                                            {"ON", "on"}};
    OWNED(session) *session = NULL;
    OWNED_JSON rows = json_array();
    OWNED_JSON flat = json_array();

    if (rows == NULL || flat == NULL) return api_no_memory(err);
    TRY(command_session(invocation, invocation->operands[0], &session, err));
    TRY(documents_get_all(invocation, session, &groups.list, rows, err));
    for (size_t i = 0; i < json_array_size(rows); i++) TRY(flatten_grants(json_array_get(rows, i), flat, err));
    return api_print_rows(invocation, flat, columns, sizeof columns / sizeof columns[0], err);
}

/* ---- roles ---- */

struct result command_role_draft(struct invocation *invocation, struct error *err)
{
    return log_document_draft(invocation, &role, err);
}

struct result command_role_approve(struct invocation *invocation, struct error *err)
{
    return log_document_approve(invocation, &role, err);
}

struct result command_role_revoke(struct invocation *invocation, struct error *err)
{
    return log_document_revoke(invocation, &role, err);
}

struct result command_role_reject(struct invocation *invocation, struct error *err)
{
    return documents_end(invocation, role.list.base, "/drafts", err);
}

struct result command_role_show(struct invocation *invocation, struct error *err)
{
    return log_document_show(invocation, &role, err);
}

static struct result flatten_role(const json_t *row, json_t *flat, struct error *err)
{
    const json_t *document = json_object_get(row, "document"), *body = json_object_get(document, "body");
    json_t *shown = json_pack("{s:O?, s:O?, s:O?, s:O*, s:O*, s:O?, s:O*}", "name", json_object_get(row, "name"), "state",
                              json_object_get(row, "state"), "version", json_object_get(document, "version"), "organisation",
                              json_object_get(body, "organisation"), "meaning", json_object_get(body, "meaning"), "expires",
                              json_object_get(document, "expires"), "missing", json_object_get(row, "missing"));

    return shown != NULL && json_array_append_new(flat, shown) == 0 ? SUCCESS : api_no_memory(err);
}

struct result command_role_list(struct invocation *invocation, struct error *err)
{
    static const struct column columns[] = {
        {"NAME", "name"},       {"STATE", "state"},     {"VERSION", "version"}, {"ORGANISATION", "organisation"},
        {"MEANING", "meaning"}, {"EXPIRES", "expires"}, {"MISSING", "missing"}};
    OWNED(session) *session = NULL;
    OWNED_JSON rows = json_array();
    OWNED_JSON flat = json_array();

    if (rows == NULL || flat == NULL) return api_no_memory(err);
    TRY(command_session(invocation, invocation->operands[0], &session, err));
    TRY(documents_get_all(invocation, session, &role.list, rows, err));
    for (size_t i = 0; i < json_array_size(rows); i++) TRY(flatten_role(json_array_get(rows, i), flat, err));
    return api_print_rows(invocation, flat, columns, sizeof columns / sizeof columns[0], err);
}

/* ---- officers ---- */

struct result command_officers_draft(struct invocation *invocation, struct error *err)
{
    return log_document_draft(invocation, &officers, err);
}

struct result command_officers_approve(struct invocation *invocation, struct error *err)
{
    return log_document_approve(invocation, &officers, err);
}

struct result command_officers_revoke(struct invocation *invocation, struct error *err)
{
    return log_document_revoke(invocation, &officers, err);
}

struct result command_officers_reject(struct invocation *invocation, struct error *err)
{
    return documents_end(invocation, officers.list.base, "/drafts", err);
}

struct result command_officers_show(struct invocation *invocation, struct error *err)
{
    return log_document_show(invocation, &officers, err);
}

struct result command_officers_list(struct invocation *invocation, struct error *err)
{
    static const struct column columns[] = {{"NAME", "name"},   {"STATE", "state"},    {"VERSION", "version"},
                                            {"ON", "on"},       {"WHO", "who"},        {"EXPIRES", "expires"},
                                            {"BOUND", "bound"}, {"MISSING", "missing"}};
    OWNED(session) *session = NULL;
    OWNED_JSON rows = json_array();
    OWNED_JSON flat = json_array();

    if (rows == NULL || flat == NULL) return api_no_memory(err);
    TRY(command_session(invocation, invocation->operands[0], &session, err));
    TRY(documents_get_all(invocation, session, &officers.list, rows, err));
    TRY(flatten(rows, flat, err));
    return api_print_rows(invocation, flat, columns, sizeof columns / sizeof columns[0], err);
}

/* ---- persons ---- */

struct result command_persons_list(struct invocation *invocation, struct error *err)
{
    static const struct column columns[] = {{"NAME", "name"},     {"STATE", "state"},     {"VERSION", "version"},
                                            {"ISSUER", "issuer"}, {"EXPIRES", "expires"}, {"MISSING", "missing"}};
    OWNED(session) *session = NULL;
    OWNED_JSON rows = json_array();
    OWNED_JSON flat = json_array();

    if (rows == NULL || flat == NULL) return api_no_memory(err);
    TRY(command_session(invocation, invocation->operands[0], &session, err));
    TRY(documents_get_all(invocation, session, &persons.list, rows, err));
    TRY(flatten(rows, flat, err));
    return api_print_rows(invocation, flat, columns, sizeof columns / sizeof columns[0], err);
}

/* ---- detection rules ---- */

struct result command_detection_list(struct invocation *invocation, struct error *err)
{
    static const struct column columns[] = {{"RULE", "name"},      {"DETECTOR", "detector"}, {"THRESHOLD", "threshold"},
                                            {"SECONDS", "window"}, {"SEVERITY", "severity"}, {"OFF", "off"},
                                            {"EVENT", "event"}};

    return api_table(invocation, "/audit/alarm-rules", "rules", columns, sizeof columns / sizeof columns[0], err);
}

struct result command_detection_test(struct invocation *invocation, struct error *err)
{
    static const struct column columns[] = {{"TIME", "time"}, {"COUNT", "count"}, {"ACTOR", "actor"}, {"EVENTS", "events"}};
    struct buffer OWNED_BUFFER path = BUFFER(PATH_ROOM), since = BUFFER(256);
    OWNED_JSON answer = NULL;

    TRY(buffer_add_text(&path, "/audit/alarm-rules/", err));
    TRY(http_escape(&path, invocation->operands[1], err));
    TRY(audit_time_of(invocation_option(invocation, 's'), &since, err));
    TRY(buffer_add_text(&path, since.length == 0 ? "/trial" : "/trial?since=", err));
    if (since.length > 0) TRY(http_escape(&path, buffer_text(&since), err));
    TRY(api_call(invocation, "GET", buffer_text(&path), NULL, &answer, err));
    if (!json_is_true(json_object_get(answer, "is_whole")))
        (void)fprintf(stderr, "Events from number %lld on were not looked at: test from a later time.\n",
                      (long long)number_of(answer, "searched_to"));
    return invocation->json ? api_print_json(answer, err)
                            : api_rows(invocation, answer, "alarms", columns, sizeof columns / sizeof columns[0], err);
}
