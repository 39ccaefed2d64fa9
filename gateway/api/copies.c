/* /api/v1/projects/{name}/copies: the further regions that have copies of a project's content (docs/replication.md). */
#include <stdio.h>

#include "base/clock.h"
#include "gateway/api/api_priv.h"
#include "policy/decider/region_state.h"
#include "registry/copies/copies.h"

SCHEMA(copies_wanted, "a further region of a project",
       HAS_TEXT("region", REQUIRED, FORM_FREE, 1, REGION_ID_MAX, "the region that gets copies of the project's content"),
       HAS_FLAG("end", OPTIONAL, "true: the copies are withdrawn"))
SCHEMA(copies_place, "a further region of a project", HAS_TEXT("project", REQUIRED, FORM_PROJECT, 3, 127, "organisation/project"),
       HAS_TEXT("region", REQUIRED, FORM_FREE, 1, REGION_ID_MAX, "the region"))
PART(copies_region, "copies in one region", HAS_TEXT("region", REQUIRED, FORM_FREE, 1, REGION_ID_MAX, "the region"),
     HAS_WORD("state", REQUIRED, COPY_STATES(SCHEMA_WORD), "what the last round found"),
     HAS_TEXT("why", OPTIONAL, FORM_FREE, 1, 0, "what stands against copies that are missing: a rule, or a failure"),
     HAS_COUNT("blobs", REQUIRED, "copies that are there"), HAS_COUNT("bytes", REQUIRED, "their bytes"),
     HAS_COUNT("waiting_blobs", REQUIRED, "blobs whose copies are to be made, at the last round"),
     HAS_COUNT("waiting_bytes", REQUIRED, "their bytes"), HAS_TIME("waiting_since", OPTIONAL, "when the oldest of them came"),
     HAS_COUNT("denied_blobs", REQUIRED, "blobs that a policy keeps out of the region"),
     HAS_TIME("decided", OPTIONAL, "when all copies were decided last"))
SCHEMA(copies, "the regions of a project's content", HAS_TEXT("project", REQUIRED, FORM_PROJECT, 3, 127, "organisation/project"),
       HAS_TEXT("home", REQUIRED, FORM_FREE, 1, REGION_ID_MAX, "the home region"),
       HAS_LIST("copies", REQUIRED, COPY_REGIONS_MAX, schema_copies_region,
                "by name; withdrawn ones that still have copies come last"))

/* ---- Targets: the policies are asked about the region, if there is one. Only who may ask for copies is told that there is none ---- */

static bool is_end(struct request *request)
{
    const json_t *body = NULL;
    struct error ignored = {0};

    return request_document(request, &body, &ignored).ok && json_is_true(json_object_get(body, "end"));
}

struct result target_project_replicate(struct request *request, struct lookup *lookup, struct error *err)
{
    struct region_state state;
    const json_t *body = NULL;

    (void)lookup;
    if (api_asks_for_credential(request, ACTION_PROJECT_REPLICATE)) return SUCCESS;
    TRY(request_document(request, &body, err));
    const char *region = json_text_of(body, "region");
    api_pair_of_project(request, is_end(request) ? ACTION_PROJECT_WITHDRAW : ACTION_PROJECT_REPLICATE);
    if (request->pair_count == 0 || !decider_region_state(request->gateway->decider, region, &state)) return SUCCESS;
    struct resource *where = &request->pairs[0].resource;
    (void)snprintf(where->region, sizeof where->region, "%s", region);
    (void)snprintf(where->detail, sizeof where->detail, "%s", region);
    return SUCCESS;
}

/* ---- Handlers ---- */

static struct result handle_replicate(struct request *request, struct pg *pg, struct error *err)
{
    const struct resource *where = &request->pairs[0].resource;
    struct copy_place_change change;

    (void)pg;
    if (where->detail[0] == '\0') return failure(err, ERROR_NOT_FOUND, "there is no region of this name");
    copy_place_prepare(where, request->pairs[0].action == ACTION_PROJECT_WITHDRAW, &change);
    TRY(request_record(request, &change.change, err));
    OWNED_JSON value = json_pack("{s:s, s:s}", "project", where->name, "region", where->region);
    if (value == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for an answer; it is done");
    response_json(request, 200, value);
    return SUCCESS;
}
const struct handler handler_project_replicate = {.handle = handle_replicate};

static struct result set_time(json_t *value, const char *member, int64_t time_ms, struct error *err)
{
    char text[CLOCK_TEXT_SIZE];

    if (time_ms == 0) return SUCCESS;
    clock_format(time_ms, text);
    return json_object_set_new(value, member, json_string(text)) == 0 ? SUCCESS
                                                                      : failure(err, ERROR_NO_MEMORY, "no memory for a list");
}

static struct result describe(const struct copy_place *place, json_t *list, struct error *err)
{
    OWNED_JSON value = json_pack("{s:s, s:s, s:s*, s:I, s:I, s:I, s:I, s:I}", "region", place->region, "state", place->state,
                                 "why", place->why[0] == '\0' ? NULL : place->why, "blobs", (json_int_t)place->blobs, "bytes",
                                 (json_int_t)place->bytes, "waiting_blobs", (json_int_t)place->waiting_blobs, "waiting_bytes",
                                 (json_int_t)place->waiting_bytes, "denied_blobs", (json_int_t)place->denied_blobs);

    if (value == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a list");
    TRY(set_time(value, "waiting_since", place->waiting_since_ms, err));
    TRY(set_time(value, "decided", place->looked_ms, err));
    return json_array_append(list, value) == 0 ? SUCCESS : failure(err, ERROR_NO_MEMORY, "no memory for a list");
}

static struct result handle_copies(struct request *request, struct pg *pg, struct error *err)
{
    const struct resource *where = &request->pairs[0].resource;
    struct copy_place places[COPY_REGIONS_MAX];
    OWNED_JSON list = json_array();
    size_t count = 0;

    if (list == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a list");
    if (uuid_is_nil(&where->project)) return failure(err, ERROR_NOT_FOUND, "there is no such project");
    TRY(copy_place_list(request->permit, pg, places, &count, err));
    for (size_t i = 0; i < count; i++) TRY(describe(&places[i], list, err));
    OWNED_JSON value = json_pack("{s:s, s:s, s:O}", "project", where->name, "home", where->region, "copies", list);
    if (value == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for an answer");
    response_json(request, 200, value);
    return SUCCESS;
}
const struct handler handler_project_copies = {.handle = handle_copies};
