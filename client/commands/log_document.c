/* `sijil admin sink ...`, `sijil admin detection ...`, `sijil admin groups ...`, `sijil admin scim ...`: documents of the registry (docs/delivery.md, docs/detection.md, docs/identity.md). The key signs on this machine; only the signed document is sent. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "client/commands/audit_priv.h"
#include "client/commands/commands_priv.h"
#include "client/commands/log_document_priv.h"
#include "client/local.h"

#define PATH_ROOM    1024
#define FILE_ROOM    (4 * DOCUMENTS_ENVELOPE_ROOM)
#define PAYLOAD_ROOM ((size_t)16 * 1024)
#define LIFE_MS      ((int64_t)365 * 86400000)

/* A kind, and where the registry has it. */
struct kind {
    const struct log_document_kind *of;
    struct documents_list list;
};
static const struct kind sink = {&log_document_sink, {"/audit/sinks", "sinks", "sink", false}};
static const struct kind detection = {&log_document_detection, {"/audit/detections", "detections", "detection rule", false}};
static const struct kind groups = {&log_document_groups, {"/groups", "groups", "document of roles of groups", false}};

static const struct kind scim = {&log_document_scim, {"/scim", "scim", "document of a SCIM service", false}};

static struct result no_memory(struct error *err)
{
    return failure(err, ERROR_NO_MEMORY, "no memory for a request");
}

static struct result print_one(const struct invocation *invocation, const json_t *answer, struct error *err)
{
    const json_t *document = json_object_get(answer, "document"), *delivery = json_object_get(answer, "delivery"),
                 *provisioned = json_object_get(answer, "provisioned");
    OWNED_JSON shown =
        json_pack("{s:O?, s:O?, s:O?, s:O?}", "name", json_object_get(answer, "name"), "state", json_object_get(answer, "state"),
                  "version", json_object_get(document, "version"), "expires", json_object_get(document, "expires"));

    if (shown == NULL || json_object_update(shown, json_object_get(document, "body")) != 0) return no_memory(err);
    if (delivery != NULL && json_object_update(shown, (json_t *)(uintptr_t)delivery) != 0) return no_memory(err);
    if (provisioned != NULL && json_object_update(shown, (json_t *)(uintptr_t)provisioned) != 0) return no_memory(err);
    return api_print(invocation, shown, err);
}

static struct result post(struct invocation *invocation, struct session *session, const char *path, const json_t *body,
                          struct error *err)
{
    OWNED_JSON answer = NULL;

    TRY(api_call_in(session, "POST", path, body, &answer, err));
    return print_one(invocation, answer, err);
}

static struct result path_of(const struct kind *kind, const char *name, const char *tail, struct buffer *path, struct error *err)
{
    TRY(buffer_format(path, err, "%s/", kind->list.base));
    TRY(http_escape(path, name, err));
    return buffer_add_text(path, tail, err);
}

/* The number of the newest version; 0 if there is none. */
static struct result newest_version(struct session *session, const struct kind *kind, const char *name, int64_t *version_out,
                                    struct error *err)
{
    struct buffer OWNED_BUFFER path = BUFFER(PATH_ROOM);
    OWNED_JSON answer = NULL;
    struct error none = {0};

    *version_out = 0;
    TRY(path_of(kind, name, "", &path, err));
    if (!api_call_in(session, "GET", buffer_text(&path), NULL, &answer, &none).ok)
        return none.kind == ERROR_NOT_FOUND ? SUCCESS : failure(err, none.kind, "%s", none.message);
    if (json_integer_of(json_object_get(answer, "document"), "version", version_out)) return SUCCESS;
    return failure(err, ERROR_INVALID, "the registry answered without the version of the %s", kind->of->what);
}

/* ---- drafting ---- */

static struct result read_file(const struct kind *kind, const char *path, struct log_document *document_out, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(FILE_ROOM);

    TRY(local(file_read(path, &text, err), path, err));
    return local(log_document_parse(kind->of, buffer_bytes(&text), document_out, err), path, err);
}

static struct result draft(struct invocation *invocation, const struct kind *kind, struct error *err)
{
    struct buffer OWNED_BUFFER payload = BUFFER(PAYLOAD_ROOM);
    OWNED_LOG_DOCUMENT document = {.name = NULL};
    OWNED(session) *session = NULL;
    OWNED(ecdsa_key) *key = NULL;
    OWNED_JSON envelope = NULL;
    int64_t version = 0;

    TRY(read_file(kind, invocation->operands[1], &document, err));
    TRY(log_document_compose(kind->of, &document, 1, &payload, err)); /* says what is wrong before it asks for anything */
    buffer_clear(&payload);
    TRY(command_signer(invocation, &key, err));
    TRY(command_session(invocation, invocation->operands[0], &session, err));
    TRY(newest_version(session, kind, document.name, &version, err));
    TRY(log_document_compose(kind->of, &document, (uint64_t)version + 1, &payload, err));
    TRY(documents_sign(kind->of->kind, buffer_bytes(&payload), key, &envelope, err));
    return post(invocation, session, kind->list.base, envelope, err);
}

/* ---- approving ---- */

/* Reads the document from the bytes that the first approver has signed. The registry's description of it is not trusted. */
static struct result read_draft(const struct invocation *invocation, const struct kind *kind, const json_t *envelopes,
                                struct document **document_out, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(DOCUMENTS_ENVELOPE_ROOM);
    OWNED(document) *document = NULL;

    TRY(json_write_canonical(&text, json_array_get(envelopes, 0), err));
    TRY(document_read(&(struct bytes){text.data, text.length}, 1, &document, err));
    if (document->kind != kind->of->kind || document->is_withdrawn || strcmp(document->name, invocation->operands[1]) != 0)
        return failure(err, ERROR_CORRUPT, "the registry answered with the draft of another %s", kind->of->what);
    TRY(kind->of->check(document, err));
    *document_out = GIVE(document);
    return SUCCESS;
}

static struct result show_document(const struct kind *kind, const struct document *document, struct error *err)
{
    const char *name;
    json_t *value;

    (void)fprintf(stderr, "You sign: version %llu of the %s %s\n", (unsigned long long)document->version, kind->of->what,
                  document->name);
    TRY(documents_show_member("expires", json_object_get(document->json, "expires"), err));
    json_object_foreach (json_object_get(document->json, "body"), name, value) TRY(documents_show_member(name, value, err));
    return SUCCESS;
}

static struct result sign_too(struct invocation *invocation, struct session *session, const struct kind *kind,
                              const json_t *found, const struct ecdsa_key *key, struct error *err)
{
    struct buffer OWNED_BUFFER path = BUFFER(PATH_ROOM);
    OWNED(document) *document = NULL;
    OWNED_JSON approval = NULL;

    TRY(read_draft(invocation, kind, json_object_get(found, "envelopes"), &document, err));
    TRY(show_document(kind, document, err));
    TRY(documents_sign(kind->of->kind, document_payload(document), key, &approval, err));
    OWNED_JSON envelopes = json_copy(json_object_get(found, "envelopes"));
    if (json_array_append(envelopes, approval) != 0) return no_memory(err);
    OWNED_JSON body = json_pack("{s:O}", "envelopes", envelopes);
    if (body == NULL) return no_memory(err);
    TRY(path_of(kind, document->name, "/approval", &path, err));
    return post(invocation, session, buffer_text(&path), body, err);
}

static struct result approve(struct invocation *invocation, const struct kind *kind, struct error *err)
{
    OWNED(session) *session = NULL;
    OWNED(ecdsa_key) *key = NULL;
    OWNED_JSON found = NULL;

    TRY(command_signer(invocation, &key, err));
    TRY(command_session(invocation, invocation->operands[0], &session, err));
    TRY(documents_choose(invocation, session, &kind->list, true, &found, err));
    return sign_too(invocation, session, kind, found, key, err);
}

/* ---- withdrawing ---- */

static struct result compose_end(const struct kind *kind, const char *name, int64_t version, const char *reason,
                                 struct buffer *payload, struct error *err)
{
    OWNED_JSON nothing = json_object();
    const struct document_parts parts = {.kind = kind->of->kind,
                                         .scope = "",
                                         .name = name,
                                         .version = (uint64_t)version + 1,
                                         .effective_ms = clock_wall_ms(),
                                         .expires_ms = clock_wall_ms() + LIFE_MS,
                                         .withdrawn = reason,
                                         .body = nothing};

    if (version == 0) return failure(err, ERROR_NOT_FOUND, "there is no %s %.63s", kind->of->what, name);
    return document_compose(&parts, payload, err);
}

static struct result revoke(struct invocation *invocation, const struct kind *kind, struct error *err)
{
    struct buffer OWNED_BUFFER payload = BUFFER(PAYLOAD_ROOM), path = BUFFER(PATH_ROOM);
    const char *name = invocation->operands[1], *reason = invocation_option(invocation, 'r');
    OWNED(session) *session = NULL;
    OWNED(ecdsa_key) *key = NULL;
    OWNED_JSON envelope = NULL;
    int64_t version = 0;

    if (reason == NULL) return line_check(invocation, failure(err, ERROR_INVALID, "--reason is needed: why it no longer counts"));
    TRY(command_signer(invocation, &key, err));
    TRY(command_session(invocation, invocation->operands[0], &session, err));
    TRY(newest_version(session, kind, name, &version, err));
    TRY(compose_end(kind, name, version, reason, &payload, err));
    TRY(documents_sign(kind->of->kind, buffer_bytes(&payload), key, &envelope, err));
    TRY(path_of(kind, name, "/withdrawal", &path, err));
    return post(invocation, session, buffer_text(&path), envelope, err);
}

static struct result show(struct invocation *invocation, const struct kind *kind, struct error *err)
{
    OWNED_JSON answer = NULL;

    TRY(documents_find(invocation, &kind->list, &answer, err));
    return invocation->json ? api_print_json(answer, err) : print_one(invocation, answer, err);
}

/* ---- sinks ---- */

struct result command_sink_draft(struct invocation *invocation, struct error *err)
{
    return draft(invocation, &sink, err);
}

struct result command_sink_approve(struct invocation *invocation, struct error *err)
{
    return approve(invocation, &sink, err);
}

struct result command_sink_revoke(struct invocation *invocation, struct error *err)
{
    return revoke(invocation, &sink, err);
}

struct result command_sink_reject(struct invocation *invocation, struct error *err)
{
    return documents_end(invocation, sink.list.base, "/drafts", err);
}

struct result command_sink_show(struct invocation *invocation, struct error *err)
{
    return show(invocation, &sink, err);
}

struct result command_sink_secret(struct invocation *invocation, struct error *err)
{
    struct buffer OWNED_BUFFER path = BUFFER(PATH_ROOM);
    OWNED(session) *session = NULL;
    OWNED_JSON answer = NULL;

    TRY(command_session(invocation, invocation->operands[0], &session, err));
    TRY(path_of(&sink, invocation->operands[1], "/secret", &path, err));
    TRY(api_call_in(session, "POST", buffer_text(&path), NULL, &answer, err));
    return api_print(invocation, answer, err);
}

static struct result flatten(const json_t *rows, json_t *flat, struct error *err)
{
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i), *document = json_object_get(row, "document"),
                     *body = json_object_get(document, "body"), *delivery = json_object_get(row, "delivery");
        json_t *shown =
            json_pack("{s:O?, s:O?, s:O?, s:O*, s:O*, s:O*, s:O*, s:O*, s:O*}", "name", json_object_get(row, "name"), "state",
                      json_object_get(row, "state"), "version", json_object_get(document, "version"), "transport",
                      json_object_get(body, "transport"), "region", json_object_get(body, "region"), "next",
                      json_object_get(delivery, "next"), "stopped_at", json_object_get(delivery, "stopped_at"), "missing",
                      json_object_get(row, "missing"), "address", json_object_get(body, "address"));
        if (shown == NULL || json_array_append_new(flat, shown) != 0) return no_memory(err);
    }
    return SUCCESS;
}

struct result command_sink_list(struct invocation *invocation, struct error *err)
{
    static const struct column columns[] = {{"SINK", "name"},          {"STATE", "state"},     {"VERSION", "version"},
                                            {"BY", "transport"},       {"REGION", "region"},   {"NEXT", "next"},
                                            {"STOPPED", "stopped_at"}, {"MISSING", "missing"}, {"ADDRESS", "address"}};
    OWNED(session) *session = NULL;
    OWNED_JSON rows = json_array();
    OWNED_JSON flat = json_array();

    if (rows == NULL || flat == NULL) return no_memory(err);
    TRY(command_session(invocation, invocation->operands[0], &session, err));
    TRY(documents_get_all(invocation, session, &sink.list, rows, err));
    TRY(flatten(rows, flat, err));
    return api_print_rows(invocation, flat, columns, sizeof columns / sizeof columns[0], err);
}

/* ---- roles of groups ---- */

struct result command_groups_draft(struct invocation *invocation, struct error *err)
{
    return draft(invocation, &groups, err);
}

struct result command_groups_approve(struct invocation *invocation, struct error *err)
{
    return approve(invocation, &groups, err);
}

struct result command_groups_revoke(struct invocation *invocation, struct error *err)
{
    return revoke(invocation, &groups, err);
}

struct result command_groups_reject(struct invocation *invocation, struct error *err)
{
    return documents_end(invocation, groups.list.base, "/drafts", err);
}

struct result command_groups_show(struct invocation *invocation, struct error *err)
{
    return show(invocation, &groups, err);
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
        if (shown == NULL || json_array_append_new(flat, shown) != 0) return no_memory(err);
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

    if (rows == NULL || flat == NULL) return no_memory(err);
    TRY(command_session(invocation, invocation->operands[0], &session, err));
    TRY(documents_get_all(invocation, session, &groups.list, rows, err));
    for (size_t i = 0; i < json_array_size(rows); i++) TRY(flatten_grants(json_array_get(rows, i), flat, err));
    return api_print_rows(invocation, flat, columns, sizeof columns / sizeof columns[0], err);
}

/* ---- SCIM services ---- */

struct result command_scim_draft(struct invocation *invocation, struct error *err)
{
    return draft(invocation, &scim, err);
}

struct result command_scim_approve(struct invocation *invocation, struct error *err)
{
    return approve(invocation, &scim, err);
}

struct result command_scim_revoke(struct invocation *invocation, struct error *err)
{
    return revoke(invocation, &scim, err);
}

struct result command_scim_reject(struct invocation *invocation, struct error *err)
{
    return documents_end(invocation, scim.list.base, "/drafts", err);
}

struct result command_scim_show(struct invocation *invocation, struct error *err)
{
    return show(invocation, &scim, err);
}

/* ---- detection rules ---- */

struct result command_detection_draft(struct invocation *invocation, struct error *err)
{
    return draft(invocation, &detection, err);
}

struct result command_detection_approve(struct invocation *invocation, struct error *err)
{
    return approve(invocation, &detection, err);
}

struct result command_detection_revoke(struct invocation *invocation, struct error *err)
{
    return revoke(invocation, &detection, err);
}

struct result command_detection_reject(struct invocation *invocation, struct error *err)
{
    return documents_end(invocation, detection.list.base, "/drafts", err);
}

struct result command_detection_show(struct invocation *invocation, struct error *err)
{
    return show(invocation, &detection, err);
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
