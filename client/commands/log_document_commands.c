/* `sijil admin sink ...`, `sijil admin groups ...`, `sijil admin persons ...`, `sijil admin scim ...`, `sijil admin detection ...`. */
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
static const struct log_document_place persons = {&log_document_persons, {"/persons", "persons", "document of persons", false}};
static const struct log_document_place scim = {&log_document_scim, {"/scim", "scim", "document of a SCIM service", false}};

static const struct log_document_place officers = {&log_document_officers,
                                                   {"/officers", "officers", "document of officers", false}};

/* ---- sinks ---- */

struct result command_sink_draft(struct invocation *invocation, struct error *err)
{
    return log_document_draft(invocation, &sink, err);
}

struct result command_sink_approve(struct invocation *invocation, struct error *err)
{
    return log_document_approve(invocation, &sink, err);
}

struct result command_sink_revoke(struct invocation *invocation, struct error *err)
{
    return log_document_revoke(invocation, &sink, err);
}

struct result command_sink_reject(struct invocation *invocation, struct error *err)
{
    return documents_end(invocation, sink.list.base, "/drafts", err);
}

struct result command_sink_show(struct invocation *invocation, struct error *err)
{
    return log_document_show(invocation, &sink, err);
}

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

struct result command_groups_draft(struct invocation *invocation, struct error *err)
{
    return log_document_draft(invocation, &groups, err);
}

struct result command_groups_approve(struct invocation *invocation, struct error *err)
{
    return log_document_approve(invocation, &groups, err);
}

struct result command_groups_revoke(struct invocation *invocation, struct error *err)
{
    return log_document_revoke(invocation, &groups, err);
}

struct result command_groups_reject(struct invocation *invocation, struct error *err)
{
    return documents_end(invocation, groups.list.base, "/drafts", err);
}

struct result command_groups_show(struct invocation *invocation, struct error *err)
{
    return log_document_show(invocation, &groups, err);
}

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

/* ---- persons ---- */

struct result command_persons_draft(struct invocation *invocation, struct error *err)
{
    return log_document_draft(invocation, &persons, err);
}

struct result command_persons_approve(struct invocation *invocation, struct error *err)
{
    return log_document_approve(invocation, &persons, err);
}

struct result command_persons_revoke(struct invocation *invocation, struct error *err)
{
    return log_document_revoke(invocation, &persons, err);
}

struct result command_persons_reject(struct invocation *invocation, struct error *err)
{
    return documents_end(invocation, persons.list.base, "/drafts", err);
}

struct result command_persons_show(struct invocation *invocation, struct error *err)
{
    return log_document_show(invocation, &persons, err);
}

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

/* ---- SCIM services ---- */

struct result command_scim_draft(struct invocation *invocation, struct error *err)
{
    return log_document_draft(invocation, &scim, err);
}

struct result command_scim_approve(struct invocation *invocation, struct error *err)
{
    return log_document_approve(invocation, &scim, err);
}

struct result command_scim_revoke(struct invocation *invocation, struct error *err)
{
    return log_document_revoke(invocation, &scim, err);
}

struct result command_scim_reject(struct invocation *invocation, struct error *err)
{
    return documents_end(invocation, scim.list.base, "/drafts", err);
}

struct result command_scim_show(struct invocation *invocation, struct error *err)
{
    return log_document_show(invocation, &scim, err);
}

/* ---- detection rules ---- */

struct result command_detection_draft(struct invocation *invocation, struct error *err)
{
    return log_document_draft(invocation, &detection, err);
}

struct result command_detection_approve(struct invocation *invocation, struct error *err)
{
    return log_document_approve(invocation, &detection, err);
}

struct result command_detection_revoke(struct invocation *invocation, struct error *err)
{
    return log_document_revoke(invocation, &detection, err);
}

struct result command_detection_reject(struct invocation *invocation, struct error *err)
{
    return documents_end(invocation, detection.list.base, "/drafts", err);
}

struct result command_detection_show(struct invocation *invocation, struct error *err)
{
    return log_document_show(invocation, &detection, err);
}

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
