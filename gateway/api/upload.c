/* Open uploads of a project or an organisation, for its administrators: docs/api.md, docs/registry.md. */
#include <stdio.h>

#include "gateway/api/api_priv.h"
#include "registry/names/reference.h"
#include "registry/upload/upload_admin.h"

PART(upload, "an upload that has begun and not ended", HAS_ID("id", REQUIRED, "names it in the path that ends it"),
     HAS_TEXT("repository", REQUIRED, FORM_FREE, 1, 255, "where its blob will be"),
     HAS_TEXT("region", REQUIRED, FORM_FREE, 1, 63, "where its bytes are"),
     HAS_COUNT("bytes", REQUIRED, "bytes that have arrived"),
     HAS_COUNT("reserved", REQUIRED, "bytes of the project's limit that it reserves"),
     HAS_TEXT("robot", OPTIONAL | NULLABLE, FORM_FREE, 1, 135, "the robot that began it; null: that robot no longer exists"),
     HAS_TEXT("issuer", OPTIONAL, FORM_URL, 1, 255, "the issuer of the subject that began it"),
     HAS_TEXT("subject", OPTIONAL, FORM_FREE, 1, 255, "the subject that began it"), HAS_TIME("begun", OPTIONAL, "when it began"),
     HAS_TIME("idle_since", OPTIONAL, "when a request last made progress with it"),
     HAS_TIME("expires", OPTIONAL, "when it ends by itself"))

SCHEMA(uploads, "a page of uploads", HAS_LIST("uploads", REQUIRED, 1000, schema_upload, "by id"), HAS_NEXT)

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
    if (namespace_name_is_valid(bytes_of_text(request->name)))
        (void)api_pair(request, ACTION_UPLOAD_LIST, RESOURCE_ORGANISATION, request->name);
    else response_unknown(request);
    return SUCCESS;
}

/* The decision is about the project's name; whether the project has such an upload is looked up after it. */
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

/* The same members as in a list of bindings: a robot of this registry, or a subject with its issuer. */
static bool set_who(json_t *object, const struct listed_upload *upload)
{
    if (upload->issuer[0] == '\0')
        return json_object_set_new(object, "robot", upload->subject[0] == '\0' ? json_null() : json_string(upload->subject)) == 0;
    return json_object_set_new(object, "issuer", json_string(upload->issuer)) == 0 &&
           json_object_set_new(object, "subject", json_string(upload->subject)) == 0;
}

static struct result describe(struct request *request, const void *rows, size_t index, json_t **row_out, struct error *err)
{
    const struct listed_upload upload = upload_page_row(rows, index);
    char id[UUID_TEXT_SIZE];

    (void)request;
    uuid_format(&upload.upload, id);
    OWNED_JSON object = json_pack("{s:s, s:s, s:s, s:I, s:I}", "id", id, "repository", upload.repository, "region", upload.region,
                                  "bytes", (json_int_t)upload.bytes, "reserved", (json_int_t)upload.reserved);
    if (object == NULL || !set_who(object, &upload) || !api_set_time(object, "begun", upload.begun_ms) ||
        !api_set_time(object, "idle_since", upload.moved_ms) || !api_set_time(object, "expires", upload.expires_ms))
        return failure(err, ERROR_NO_MEMORY, "no memory for a list");
    *row_out = GIVE(object);
    return SUCCESS;
}

static void cursor(const void *rows, size_t index, char next_out[API_CURSOR_SIZE])
{
    const struct listed_upload upload = upload_page_row(rows, index);

    uuid_format(&upload.upload, next_out);
}

static struct result handle_list(struct request *request, struct pg *pg, struct error *err)
{
    struct upload_query query = {.where = permit_resource(request->permit, ACTION_UPLOAD_LIST)};
    OWNED(upload_page) *found = NULL;
    struct api_page page;

    if (!api_page(request, &page)) return SUCCESS;
    TRY(api_after_id(&page, &query.after, err));
    const bool is_project = query.where->kind == RESOURCE_PROJECT;
    if (uuid_is_nil(is_project ? &query.where->project : &query.where->organisation)) {
        response_unknown(request);
        return SUCCESS;
    }
    query.limit = page.limit + 1;
    TRY(upload_list(request->permit, pg, &query, &found, err));
    const size_t count = upload_page_count(found);
    const struct api_list list = {.name = "uploads",
                                  .rows = found,
                                  .count = count < page.limit ? count : page.limit,
                                  .has_more = count > page.limit,
                                  .describe = describe,
                                  .cursor = cursor};
    return api_answer_list(request, &list, err);
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
    TRY(api_remove(request, &end.change, err));
    upload_end_finish(request->permit, request->gateway->registry, pg, &end);
    return SUCCESS;
}

const struct handler handler_upload_list = {.handle = handle_list};
const struct handler handler_upload_end = {.handle = handle_end};
