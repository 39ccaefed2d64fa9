/* /api/v1/content-holds: legal holds of content. One person sets a hold, two others than each other end it; docs/deletion.md. */
#include "registry/content_hold.h"

#include <stdlib.h>
#include <string.h>

#include "authz/person.h"
#include "base/text.h"
#include "gateway/api/api_priv.h"
#include "policy/decider/decider.h"
#include "registry/names/reference.h"

#define SCOPE_OF_HOLD \
    HAS_TEXT("scope", REQUIRED, FORM_FREE, 1, RESOURCE_NAME_MAX, "what is held: an organisation, a project or a repository")

SCHEMA(content_hold_wanted, "a legal hold of content", SCOPE_OF_HOLD,
       HAS_TEXT("reason", REQUIRED, FORM_FREE, 1, CONTENT_HOLD_REASON_MAX, "why; one line"))
SCHEMA(content_hold_set, "a legal hold that was set", HAS_ID("id", REQUIRED, "names it in paths"))
SCHEMA(content_hold_state, "what became of a legal hold", HAS_ID("id", REQUIRED, "the hold"),
       HAS_WORD("state", REQUIRED, "releasing released", "releasing: it holds until another person agrees"))
SCHEMA(content_hold_freed, "who has asked for the end of the hold", SCOPE_OF_HOLD,
       HAS_TEXT("asked_by", REQUIRED, FORM_FREE, 1, PRINCIPAL_KEY_SIZE - 1,
                "as the list shows it: another person than the caller"))
SCHEMA(content_hold, "a legal hold of content", HAS_ID("id", REQUIRED, "names it in paths"),
       HAS_WORD("state", REQUIRED, "held releasing released", "releasing: one person has asked for the end, and it holds"),
       HAS_TEXT("scope", REQUIRED, FORM_FREE, 1, RESOURCE_NAME_MAX, "what is held"),
       HAS_TEXT("reason", REQUIRED, FORM_FREE, 1, CONTENT_HOLD_REASON_MAX, "why"),
       HAS_TEXT("set_by", REQUIRED, FORM_FREE, 1, PRINCIPAL_KEY_SIZE - 1, "the principal that set it"),
       HAS_TIME("set", REQUIRED, "when it was set"),
       HAS_TEXT("release_reason", OPTIONAL, FORM_FREE, 1, CONTENT_HOLD_REASON_MAX, "why it shall end"),
       HAS_TEXT("asked_by", OPTIONAL, FORM_FREE, 1, PRINCIPAL_KEY_SIZE - 1, "the principal that asked for the end"),
       HAS_TIME("asked", OPTIONAL, "when the end was asked for"),
       HAS_TEXT("released_by", OPTIONAL, FORM_FREE, 1, PRINCIPAL_KEY_SIZE - 1, "the principal that agreed"),
       HAS_TIME("released", OPTIONAL, "when it ended"))
SCHEMA(content_holds, "a page of legal holds", HAS_LIST("holds", REQUIRED, 1000, schema_content_hold, "by id"), HAS_NEXT)

/* ---- targets ---- */

static struct result add_scope(struct request *request, enum action action, struct resource **resource_out, struct error *err)
{
    const json_t *body = NULL;

    TRY(request_document(request, &body, err));
    const char *scope = json_text_of(body, "scope");
    const size_t length = strlen(scope);
    if (length == 0 || scope[length - 1] == '*' || !api_add_scope(request, action, scope, resource_out))
        return failure(err, ERROR_INVALID, "a scope is organisation, organisation/project or organisation/project/repository");
    return SUCCESS;
}

struct result target_content_hold(struct request *request, struct lookup *lookup, struct error *err)
{
    struct resource *resource = NULL;

    (void)lookup;
    if (api_asks_for_credential(request, ACTION_CONTENT_HOLD)) return SUCCESS;
    return add_scope(request, ACTION_CONTENT_HOLD, &resource, err);
}

static struct result target_end(struct request *request, enum action action, struct error *err)
{
    struct resource *resource = NULL;
    struct uuid id;

    if (api_asks_for_credential(request, action)) return SUCCESS;
    if (!uuid_parse(bytes_of_text(request->reference), &id)) {
        response_unknown(request);
        return SUCCESS;
    }
    TRY(add_scope(request, action, &resource, err));
    uuid_format(&id, resource->detail);
    return SUCCESS;
}

struct result target_content_release(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup;
    return target_end(request, ACTION_CONTENT_RELEASE, err);
}

struct result target_content_free(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup;
    return target_end(request, ACTION_CONTENT_FREE, err);
}

struct result target_content_holds(struct request *request, struct lookup *lookup, struct error *err)
{
    const char *scope = request_argument(request, "scope");

    (void)lookup, (void)err;
    if (scope == NULL || scope[0] == '\0') (void)api_pair(request, ACTION_CONTENT_HOLDS, RESOURCE_SYSTEM, "");
    else if (namespace_name_is_valid(bytes_of_text(scope)))
        (void)api_pair(request, ACTION_CONTENT_HOLDS, RESOURCE_ORGANISATION, scope);
    else if (api_is_project_name(scope)) (void)api_pair(request, ACTION_CONTENT_HOLDS, RESOURCE_PROJECT, scope);
    else response_unknown(request);
    return SUCCESS;
}

/* ---- setting ---- */

static struct result read_reason(struct request *request, const char **reason_out, struct error *err)
{
    const json_t *body = NULL;

    TRY(request_document(request, &body, err));
    *reason_out = json_text_of(body, "reason");
    if (text_is_visible(bytes_of_text(*reason_out))) return SUCCESS;
    return failure(err, ERROR_INVALID, "reason: one line, without control characters and characters that nobody sees");
}

static struct result handle_hold(struct request *request, struct pg *pg, struct error *err)
{
    struct content_hold hold;
    const char *reason = NULL;

    (void)pg;
    TRY(read_reason(request, &reason, err));
    content_hold_init(&hold, request->principal, reason);
    TRY(request_record(request, &hold.change, err));
    OWNED_JSON value = json_pack("{s:s}", "id", hold.detail);
    if (value == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for an answer; the hold is set");
    response_json(request, 201, value);
    return SUCCESS;
}

/* ---- the end ---- */

static struct result end(struct request *request, struct content_release *release, const char *state, struct error *err)
{
    OWNED_JSON value = json_pack("{s:s, s:s}", "id", request->pairs[0].resource.detail, "state", state);

    if (value == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for an answer");
    TRY(request_record(request, &release->change, err));
    response_json(request, 200, value);
    return SUCCESS;
}

static struct result handle_release(struct request *request, struct pg *pg, struct error *err)
{
    const struct uuid *organisation = &request->pairs[0].resource.organisation;
    const struct persons asks = decider_persons(request->gateway->decider, request->principal, organisation);
    struct content_release release;
    const char *reason = NULL;

    (void)pg;
    TRY(read_reason(request, &reason, err));
    if (!persons_are_known(&asks))
        return failure(err, ERROR_DENIED, "nobody can tell who is behind this credential, so nobody is another person than it");
    content_release_init(&release, ACTION_CONTENT_RELEASE, request->principal, reason);
    return end(request, &release, "releasing", err);
}

/* The change refuses it unless this principal has asked, so the body can't name somebody else. */
static struct result handle_free(struct request *request, struct pg *pg, struct error *err)
{
    const struct uuid *organisation = &request->pairs[0].resource.organisation;
    struct decider *decider = request->gateway->decider;
    const struct persons agrees = decider_persons(decider, request->principal, organisation);
    struct content_release release;
    const json_t *body = NULL;

    (void)pg;
    TRY(request_document(request, &body, err));
    const char *asked_by = json_text_of(body, "asked_by");
    const struct persons asked = decider_persons_of_key(decider, asked_by, organisation);
    if (!persons_are_others(&agrees, &asked))
        return failure(err, ERROR_DENIED, "another person than the one who has asked releases a hold");
    content_release_init(&release, ACTION_CONTENT_FREE, request->principal, asked_by);
    return end(request, &release, "released", err);
}

/* ---- the list ---- */

static const char *or_null(const char *text)
{
    return text[0] == '\0' ? NULL : text;
}

static json_t *describe(const void *of)
{
    const struct content_hold_row *row = of;
    char id[UUID_TEXT_SIZE];

    uuid_format(&row->id, id);
    OWNED_JSON value = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s*, s:s*, s:s*}", "id", id, "state", row->state, "scope", row->on,
                                 "reason", row->reason, "set_by", row->set_by, "release_reason", or_null(row->release_reason),
                                 "asked_by", or_null(row->asked_by), "released_by", or_null(row->released_by));
    if (value != NULL && api_set_time(value, "set", row->set_ms) && api_set_time(value, "asked", row->asked_ms) &&
        api_set_time(value, "released", row->released_ms))
        return GIVE(value);
    return NULL;
}

static struct result handle_list(struct request *request, struct pg *pg, struct error *err)
{
    struct content_hold_row *rows = NULL;
    struct uuid after = {{0}};
    struct api_page page;
    size_t count = 0;

    if (!api_page(request, &page)) return SUCCESS;
    TRY(api_after_id(&page, &after, err));
    TRY(api_scope_exists(permit_resource(request->permit, ACTION_CONTENT_HOLDS), err));
    const struct content_hold_query query = {&after, page.limit + 1};
    TRY(content_hold_list(request->permit, pg, &query, &rows, &count, err));
    const struct api_rows answer = {
        .name = "holds", .rows = rows, .row_size = sizeof *rows, .count = count, .describe = describe, .cursor = "id"};
    const struct result result = api_answer_rows(request, &page, &answer, err);
    free(rows);
    return result;
}

const struct handler handler_content_hold = {.handle = handle_hold};
const struct handler handler_content_release = {.handle = handle_release};
const struct handler handler_content_free = {.handle = handle_free};
const struct handler handler_content_holds = {.handle = handle_list};
