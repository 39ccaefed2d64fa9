/* A document about the log in a file, as a person writes it; and as a document. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "client/commands/log_document_priv.h"
#include "documents/format/audit_sink.h"
#include "documents/format/detection_rule.h"
#include "documents/format/group_roles.h"
#include "documents/format/officers.h"
#include "documents/format/own_role.h"
#include "documents/format/persons.h"
#include "documents/format/scim_service.h"

#define FILE_MAX        (4 * DOCUMENTS_ENVELOPE_ROOM) /* an answer has the document several times */
#define LIFE_DEFAULT_MS ((int64_t)365 * 86400000)
#define MEMBER_SIZE     64

const struct log_document_kind log_document_sink = {
    DOCUMENT_AUDIT_SINK, "sink", " name not_after transport region address classes ca networks names signature "};

const struct log_document_kind log_document_detection = {DOCUMENT_DETECTION_RULE, "detection rule",
                                                         " name not_after detector threshold window severity off "};

const struct log_document_kind log_document_groups = {DOCUMENT_GROUP_ROLES, "document of roles of groups",
                                                      " name not_after issuer claim separator grant "};

const struct log_document_kind log_document_role = {DOCUMENT_OWN_ROLE, "role", " name not_after organisation meaning actions "};

const struct log_document_kind log_document_persons = {DOCUMENT_PERSONS, "document of persons",
                                                       " name not_after issuer separate tokens "};

const struct log_document_kind log_document_officers = {DOCUMENT_OFFICERS, "document of officers",
                                                        " name not_after principal key role on restrictions "};

const struct log_document_kind log_document_scim = {DOCUMENT_SCIM_SERVICE, "document of a SCIM service",
                                                    " name not_after issuer claim client deactivations others "};

void log_document_done(struct log_document *document)
{
    json_decref(document->body);
    json_decref(document->json);
}

static struct result check_members(const struct log_document_kind *kind, const json_t *json, struct error *err)
{
    const char *name;
    json_t *value;

    if (!json_is_object(json)) return failure(err, ERROR_INVALID, "a %s is a JSON object", kind->what);
    json_object_foreach ((json_t *)(uintptr_t)json, name, value) {
        char member[MEMBER_SIZE];
        (void)snprintf(member, sizeof member, " %.60s ", name);
        if (strchr(name, ' ') != NULL || strstr(kind->members, member) == NULL)
            return failure(err, ERROR_INVALID, "a %s has no member \"%.60s\"", kind->what, name);
    }
    return SUCCESS;
}

/* From the payload of a document, which `show --json` has, so that a document in force can be changed. */
static struct result of_document(const struct log_document_kind *kind, json_t **json, struct error *err)
{
    const json_t *inner = json_object_get(*json, "document"), *document = inner == NULL ? *json : inner;
    const json_t *body = json_object_get(document, "body");

    if (!json_is_object(body)) return SUCCESS;
    OWNED_JSON flat = json_copy((json_t *)(uintptr_t)body);
    if (flat == NULL || json_object_set(flat, "name", json_object_get(document, "name")) != 0 ||
        json_object_set(flat, "not_after", json_object_get(document, "expires")) != 0)
        return failure(err, ERROR_INVALID, "this is neither a %s nor the document of one", kind->what);
    json_decref(*json);
    *json = json_incref(flat);
    return SUCCESS;
}

struct result log_document_parse(const struct log_document_kind *kind, struct bytes text, struct log_document *document_out,
                                 struct error *err)
{
    OWNED_LOG_DOCUMENT document = {.name = NULL};

    TRY(json_read(text, FILE_MAX, &document.json, err));
    TRY(of_document(kind, &document.json, err));
    TRY(check_members(kind, document.json, err));
    document.name = json_text_of(document.json, "name");
    document.not_after = json_text_of(document.json, "not_after");
    if (document.name == NULL) return failure(err, ERROR_INVALID, "a %s has a \"name\"", kind->what);
    document.body = json_copy(document.json);
    if (document.body == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a %s", kind->what);
    (void)json_object_del(document.body, "name");
    (void)json_object_del(document.body, "not_after");
    *document_out = document;
    document = (struct log_document){.name = NULL};
    return SUCCESS;
}

struct result log_document_compose(const struct log_document_kind *kind, const struct log_document *document, uint64_t version,
                                   struct buffer *payload, struct error *err)
{
    const size_t before = payload->length;
    struct document_parts parts = {.kind = kind->kind,
                                   .scope = "",
                                   .name = document->name,
                                   .version = version,
                                   .effective_ms = clock_wall_ms(),
                                   .body = document->body};
    OWNED(document) *read = NULL;

    parts.expires_ms = parts.effective_ms + LIFE_DEFAULT_MS;
    if (document->not_after != NULL && !clock_parse(bytes_of_text(document->not_after), &parts.expires_ms))
        return failure(err, ERROR_INVALID, "not_after: a time such as 2027-03-01T00:00:00Z");
    TRY(document_compose(&parts, payload, err));
    TRY(document_read_payload(kind->kind, (struct bytes){payload->data + before, payload->length - before}, &read, err));
    return document_check_body(read, err);
}
