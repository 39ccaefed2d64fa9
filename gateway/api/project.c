/* /api/v1/organisations, /projects and /repositories: docs/api.md. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "gateway/api/api_priv.h"
#include "policy/decider.h"
#include "policy/label.h"
#include "registry/project.h"

/* What a body asks for; texts are views of `json`. */
struct wanted {
    json_t *json, *label;
    const char *organisation, *name, *region;
    char full_name[2 * SCOPE_NAME_MAX + 2];
};

static void wanted_done(struct wanted *wanted)
{
    json_decref(wanted->json);
}
#define OWNED_WANTED __attribute__((cleanup(wanted_done))) struct wanted

static bool is_scope_name(const char *name)
{
    return scope_name_is_valid(bytes_of_text(name));
}

static struct result read_organisation(const struct request *request, struct wanted *wanted, struct error *err)
{
    TRY(api_body(request, &wanted->json, err));
    TRY(api_unpack(wanted->json, err, "{s:s, s?:o}", "name", &wanted->name, "label", &wanted->label));
    if (!is_scope_name(wanted->name))
        return failure(err, ERROR_INVALID, "a name has a-z, 0-9 and single separators . _ -, at most %d", SCOPE_NAME_MAX);
    return SUCCESS;
}

/* A typing error is said as one: the policies would only find that nothing is known of the place. */
static struct result know_region(const struct settings *settings, const char *region, struct error *err)
{
    for (size_t i = 0; i < settings->region_count; i++)
        if (strcmp(settings->regions[i].title, region) == 0) return SUCCESS;
    return failure(err, ERROR_NOT_FOUND, "there is no region '%.64s' here", region);
}

static struct result read_project(const struct request *request, struct wanted *wanted, struct error *err)
{
    wanted->region = request->gateway->settings->regions[0].title;
    TRY(api_body(request, &wanted->json, err));
    TRY(api_unpack(wanted->json, err, "{s:s, s:s, s?:s, s?:o}", "organisation", &wanted->organisation, "name",
                   &wanted->name, "region", &wanted->region, "label", &wanted->label));
    if (!is_scope_name(wanted->organisation) || !is_scope_name(wanted->name))
        return failure(err, ERROR_INVALID, "a name has a-z, 0-9 and single separators . _ -, at most %d", SCOPE_NAME_MAX);
    TRY(know_region(request->gateway->settings, wanted->region, err));
    (void)snprintf(wanted->full_name, sizeof wanted->full_name, "%s/%s", wanted->organisation, wanted->name);
    return SUCCESS;
}

/* What the decision is to be about, too. No label is one that asks for nothing. */
static struct result ask_for_label(struct request *request, const json_t *label, struct error *err)
{
    struct asked_label *asked = NULL;

    if (label != NULL) TRY(label_read_asked(label, request->arena, &asked, err));
    request->asked = asked;
    return SUCCESS;
}

struct result target_organisation_create(struct request *request, struct lookup *lookup, struct error *err)
{
    OWNED_WANTED wanted = {0};

    (void)lookup;
    if (api_asks_for_credential(request, ACTION_ORGANISATION_CREATE)) return SUCCESS;
    TRY(read_organisation(request, &wanted, err));
    (void)api_pair(request, ACTION_ORGANISATION_CREATE, RESOURCE_ORGANISATION, wanted.name);
    return SUCCESS;
}

struct result target_project_create(struct request *request, struct lookup *lookup, struct error *err)
{
    OWNED_WANTED wanted = {0};

    (void)lookup;
    if (api_asks_for_credential(request, ACTION_PROJECT_CREATE)) return SUCCESS;
    TRY(read_project(request, &wanted, err));
    TRY(ask_for_label(request, wanted.label, err));
    struct resource *resource = api_pair(request, ACTION_PROJECT_CREATE, RESOURCE_PROJECT, wanted.full_name);
    (void)snprintf(resource->region, sizeof resource->region, "%s", wanted.region);
    return SUCCESS;
}

struct result target_project_list(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup;
    (void)err;
    (void)api_pair(request, ACTION_PROJECT_LIST, RESOURCE_SYSTEM, "");
    return SUCCESS;
}

/* The body comes after the first decision, and is decided about then. */
static struct result ask_for_body(struct request *request, struct error *err)
{
    OWNED_JSON label = NULL;

    if (request->body.length == 0) return SUCCESS;
    TRY(api_body(request, &label, err));
    return ask_for_label(request, label, err);
}

struct result target_project_read(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup;
    (void)err;
    api_pair_of_project(request, ACTION_PROJECT_READ);
    return SUCCESS;
}

struct result target_project_label(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup;
    TRY(ask_for_body(request, err));
    api_pair_of_project(request, ACTION_PROJECT_LABEL);
    return SUCCESS;
}

struct result target_organisation_label(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup;
    TRY(ask_for_body(request, err));
    if (is_scope_name(request->name))
        (void)api_pair(request, ACTION_PROJECT_LABEL, RESOURCE_ORGANISATION, request->name);
    else
        response_unknown(request);
    return SUCCESS;
}

struct result target_repository_label(struct request *request, struct lookup *lookup, struct error *err)
{
    struct repository_name name;
    struct error wrong = {0};

    (void)lookup;
    if (!repository_name_split(bytes_of_text(request->name), &name, &wrong).ok) {
        response_unknown(request);
        return SUCCESS;
    }
    TRY(ask_for_body(request, err));
    (void)api_pair(request, ACTION_REPOSITORY_LABEL, RESOURCE_REPOSITORY, request->name);
    return SUCCESS;
}

/* {"id","name"} and, for what has them, region, label, created. Takes `label` over; NULL if memory is out. */
static json_t *describe(const struct uuid *id, const char *name, const char *region, json_t *label)
{
    char text[UUID_TEXT_SIZE];

    uuid_format(id, text);
    json_t *object = json_pack("{s:s, s:s, s:o*}", "id", text, "name", name, "label", label);
    if (object == NULL || region[0] == '\0' || json_object_set_new(object, "region", json_string(region)) == 0)
        return object;
    json_decref(object);
    return NULL;
}

static void answer(struct request *request, unsigned status, json_t *value)
{
    response_json(request, status, value);
    json_decref(value);
}

static struct result create_organisation(struct request *request, struct pg *pg, struct error *err)
{
    struct buffer OWNED_BUFFER label = BUFFER(LABEL_TEXT_MAX);
    struct organisation_create change;
    OWNED_WANTED wanted = {0};

    (void)pg;
    TRY(read_organisation(request, &wanted, err));
    TRY(floor_label_write(wanted.label, &label, err));
    TRY(organisation_create_prepare(&request->pairs[0].resource, buffer_text(&label), &change, err));
    TRY(request_record(request, &change.change, err));
    answer(request, 201, describe(&change.organisation, wanted.name, "", json_incref(wanted.label)));
    return SUCCESS;
}

static struct result create_project(struct request *request, struct pg *pg, struct error *err)
{
    struct buffer OWNED_BUFFER label = BUFFER(LABEL_TEXT_MAX);
    struct project_create change;
    OWNED_WANTED wanted = {0};

    (void)pg;
    TRY(read_project(request, &wanted, err));
    TRY(floor_label_write(wanted.label, &label, err));
    TRY(project_create_prepare(request->gateway->registry, &request->pairs[0].resource, buffer_text(&label), &change,
                               err));
    TRY(request_record(request, &change.change, err));
    answer(request, 201, describe(&change.project, wanted.full_name, wanted.region, json_incref(wanted.label)));
    return SUCCESS;
}

static struct result set_label(struct request *request, struct pg *pg, struct error *err)
{
    const struct resource *where = &request->pairs[0].resource;
    const struct uuid *id = where->kind == RESOURCE_REPOSITORY ? &where->repository
                            : where->kind == RESOURCE_PROJECT  ? &where->project
                                                               : &where->organisation;
    struct buffer OWNED_BUFFER text = BUFFER(LABEL_TEXT_MAX);
    struct label_change change;
    OWNED_JSON label = NULL;

    (void)pg;
    TRY(api_body(request, &label, err));
    TRY(floor_label_write(label, &text, err));
    if (uuid_is_nil(id)) return failure(err, ERROR_NOT_FOUND, "there is no such organisation, project or repository");
    label_change_prepare(where, buffer_text(&text), &change);
    TRY(request_record(request, &change.change, err));
    answer(request, 200, describe(id, where->name, where->region, json_incref(label)));
    return SUCCESS;
}

static struct result describe_record(const struct scope_record *record, json_t **object_out, struct error *err)
{
    char created[CLOCK_TEXT_SIZE];
    OWNED_JSON label = NULL;

    TRY(json_read(bytes_of_text(record->label), LABEL_TEXT_MAX, &label, err));
    clock_format(record->created_ms, created);
    OWNED_JSON object = describe(&record->id, record->name, record->region, json_incref(label));
    if (object == NULL || json_object_set_new(object, "created", json_string(created)) != 0)
        return failure(err, ERROR_NO_MEMORY, "no memory for a list");
    *object_out = GIVE(object);
    return SUCCESS;
}

/* Adds those of the page that the caller may see; the page holds what its roles let it see, and policies may say no besides. */
static struct result add_records(const struct request *request, const struct scope_page *page, bool projects,
                                 json_t *list, struct error *err)
{
    struct action_pair pair = {.action = ACTION_PROJECT_READ,
                               .resource.kind = projects ? RESOURCE_PROJECT : RESOURCE_ORGANISATION};

    for (size_t i = 0; i < page->count; i++) {
        bool may = false;
        json_t *object = NULL;
        (void)snprintf(pair.resource.name, sizeof pair.resource.name, "%s", page->records[i].name);
        TRY(api_may(request, &pair, &may, err));
        if (!may) continue;
        TRY(describe_record(&page->records[i], &object, err));
        if (json_array_append_new(list, object) != 0) return failure(err, ERROR_NO_MEMORY, "no memory for a list");
    }
    return SUCCESS;
}

static bool set_next(json_t *value, const struct uuid *last)
{
    char id[UUID_TEXT_SIZE];

    uuid_format(last, id);
    return json_object_set_new(value, "next", json_string(id)) == 0;
}

static struct result list(struct request *request, struct pg *pg, bool projects, struct error *err)
{
    struct scope_query query = {
        .where = &request->pairs[0].resource, .projects = projects};
    OWNED(readable_scopes) *scopes = NULL;
    OWNED(scope_page) *page = NULL;
    const char *after = NULL;

    if (!api_page(request, &query.limit, &after)) return SUCCESS;
    if (after[0] != '\0' && !uuid_parse(bytes_of_text(after), &query.last))
        return failure(err, ERROR_INVALID, "after is the id that the page before ended with");
    TRY(decider_readable_scopes(request->gateway->decider, &request->principal, clock_wall_ms(), &scopes, err));
    const struct scope_reader reader = {.organisations = scopes->organisations,
                                        .projects = scopes->projects,
                                        .organisation_count = scopes->organisation_count,
                                        .project_count = scopes->project_count};
    query.reader = scopes->all ? NULL : &reader;
    TRY(scope_list(request->permit, pg, &query, &page, err));
    OWNED_JSON records = json_array();
    if (records == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a list");
    TRY(add_records(request, page, projects, records, err));
    OWNED_JSON value = json_pack("{s:O}", projects ? "projects" : "organisations", records);
    if (value == NULL || (page->has_more && !set_next(value, &page->records[page->count - 1].id)))
        return failure(err, ERROR_NO_MEMORY, "no memory for a list");
    response_json(request, 200, value);
    return SUCCESS;
}

static struct result list_projects(struct request *request, struct pg *pg, struct error *err)
{
    return list(request, pg, true, err);
}

static struct result list_organisations(struct request *request, struct pg *pg, struct error *err)
{
    return list(request, pg, false, err);
}

static struct result read_one(struct request *request, struct pg *pg, struct error *err)
{
    const struct scope_query query = {.where = &request->pairs[0].resource,
                                      .projects = true, .limit = 1};
    OWNED(scope_page) *page = NULL;
    json_t *object = NULL;

    if (!uuid_is_nil(&query.where->project)) TRY(scope_list(request->permit, pg, &query, &page, err));
    if (page == NULL || page->count == 0) {
        response_unknown(request);
        return SUCCESS;
    }
    TRY(describe_record(&page->records[0], &object, err));
    answer(request, 200, object);
    return SUCCESS;
}

const struct handler handler_organisation_create = {.handle = create_organisation};
const struct handler handler_organisation_list = {.handle = list_organisations};
const struct handler handler_project_create = {.handle = create_project};
const struct handler handler_project_list = {.handle = list_projects};
const struct handler handler_project_read = {.handle = read_one};
const struct handler handler_label = {.handle = set_label};
