/* Open uploads of a project or an organisation, for those who administer it: docs/api.md, docs/registry.md. */
#include <stdio.h>

#include "gateway/api/api_priv.h"
#include "registry/names/reference.h"
#include "registry/upload/upload_admin.h"

struct result target_upload_list(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup;
    (void)err;
    api_pair_of_project(request, ACTION_UPLOAD_LIST);
    return SUCCESS;
}

struct result target_upload_list_whole(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup;
    (void)err;
    if (scope_name_is_valid(bytes_of_text(request->name)))
        (void)api_pair(request, ACTION_UPLOAD_LIST, RESOURCE_ORGANISATION, request->name);
    else
        response_unknown(request);
    return SUCCESS;
}

/* Judged by the project's name; whether it has such an upload is asked after that. */
struct result target_upload_end(struct request *request, struct lookup *lookup, struct error *err)
{
    struct uuid id;

    (void)lookup;
    (void)err;
    if (!api_is_project_name(request->name) || !uuid_parse(bytes_of_text(request->reference), &id)) {
        response_unknown(request);
        return SUCCESS;
    }
    uuid_format(&id, api_pair(request, ACTION_UPLOAD_END, RESOURCE_PROJECT, request->name)->detail);
    return SUCCESS;
}

/* As a list of bindings says it: a robot of this registry, or a subject of its issuer. */
static bool set_who(json_t *object, const struct listed_upload *upload)
{
    if (upload->issuer[0] == '\0')
        return json_object_set_new(object, "robot", upload->subject[0] == '\0' ? json_null() : json_string(upload->subject)) == 0;
    return json_object_set_new(object, "issuer", json_string(upload->issuer)) == 0 &&
           json_object_set_new(object, "subject", json_string(upload->subject)) == 0;
}

/* NULL if memory is out. */
static json_t *describe(const struct listed_upload *upload)
{
    char id[UUID_TEXT_SIZE];

    uuid_format(&upload->upload, id);
    OWNED_JSON object = json_pack("{s:s, s:s, s:s, s:I, s:I}", "id", id, "repository", upload->repository, "region", upload->region,
                                  "bytes", (json_int_t)upload->bytes, "reserved", (json_int_t)upload->reserved);
    if (object == NULL || !set_who(object, upload) || !api_set_time(object, "begun", upload->begun_ms) ||
        !api_set_time(object, "idle_since", upload->moved_ms) || !api_set_time(object, "expires", upload->expires_ms))
        return NULL;
    return GIVE(object);
}

static struct result answer(struct request *request, const struct upload_page *page, size_t limit, struct error *err)
{
    const size_t found = upload_page_count(page), count = found < limit ? found : limit;
    OWNED_JSON list = json_array();
    char last[UUID_TEXT_SIZE] = "";

    for (size_t i = 0; i < count; i++) {
        const struct listed_upload upload = upload_page_row(page, i);
        if (json_array_append_new(list, describe(&upload)) != 0) return failure(err, ERROR_NO_MEMORY, "no memory for a list");
        uuid_format(&upload.upload, last);
    }
    OWNED_JSON value = json_pack("{s:O}", "uploads", list);
    if (value == NULL || (found > limit && json_object_set_new(value, "next", json_string(last)) != 0))
        return failure(err, ERROR_NO_MEMORY, "no memory for a list");
    response_json(request, 200, value);
    return SUCCESS;
}

static struct result handle_list(struct request *request, struct pg *pg, struct error *err)
{
    struct upload_query query = {.where = permit_resource(request->permit, ACTION_UPLOAD_LIST)};
    const char *after = NULL;
    OWNED(upload_page) *page = NULL;
    unsigned limit = 0;

    if (!api_page(request, &limit, &after)) return SUCCESS;
    if (after[0] != '\0' && !uuid_parse(bytes_of_text(after), &query.after))
        return failure(err, ERROR_INVALID, "after is the \"next\" of a page before");
    const bool is_project = query.where->kind == RESOURCE_PROJECT;
    if (uuid_is_nil(is_project ? &query.where->project : &query.where->organisation)) {
        response_unknown(request);
        return SUCCESS;
    }
    query.limit = limit + 1;
    TRY(upload_list(request->permit, pg, &query, &page, err));
    return answer(request, page, limit, err);
}

static struct result handle_end(struct request *request, struct pg *pg, struct error *err)
{
    const struct resource *where = &request->pairs[0].resource;
    struct upload_end end;
    struct uuid id;

    if (uuid_is_nil(&where->project) || !uuid_parse(bytes_of_text(request->reference), &id)) {
        response_unknown(request);
        return SUCCESS;
    }
    upload_end_prepare(where, &id, &end);
    TRY(request_record(request, &end.change, err));
    upload_end_finish(request->gateway->registry, pg, &end);
    response_empty(request, 204);
    return SUCCESS;
}

const struct handler handler_upload_list = {.handle = handle_list};
const struct handler handler_upload_end = {.handle = handle_end};
