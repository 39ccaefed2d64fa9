/* /api/v1/organisations, /projects and /repositories: docs/api.md. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "gateway/api/api_priv.h"
#include "policy/decider/decider.h"
#include "policy/decider/region_state.h"
#include "policy/label.h"
#include "registry/copies/placement.h"
#include "registry/project.h"

SCHEMA_WITH(SCHEMA_IS_READ_ELSEWHERE, label, "a floor label; a member that is left out demands nothing",
            HAS_WORD("class", OPTIONAL, LABEL_CLASSES(SCHEMA_WORD), "how sensitive it is"),
            HAS_WORD("lineage", OPTIONAL, LABEL_LINEAGES(SCHEMA_WORD), "what must be known of its origin"),
            HAS_TEXTS("subjects", OPTIONAL, 0, 0, LABEL_SUBJECTS(SCHEMA_WORD), "whom it is about"),
            HAS_TEXTS("attached", OPTIONAL, 0, 0, NULL, "laws that follow it"))

SCHEMA(organisation_wanted, "an organisation to be made",
       HAS_TEXT("name", REQUIRED, FORM_NAME, 1, NAMESPACE_NAME_MAX, "its name"),
       HAS_OBJECT("label", OPTIONAL, schema_label, "its floor label"))

SCHEMA(project_wanted, "a project to be made",
       HAS_TEXT("organisation", REQUIRED, FORM_NAME, 1, NAMESPACE_NAME_MAX, "whose project it is"),
       HAS_TEXT("name", REQUIRED, FORM_NAME, 1, NAMESPACE_NAME_MAX, "its name in the organisation"),
       HAS_TEXT("region", OPTIONAL, FORM_FREE, 1, REGION_ID_MAX,
                "where its bytes are; the first region of the gateway if left out"),
       HAS_OBJECT("label", OPTIONAL, schema_label, "its floor label"))

PART(misplaced, "a repository whose content lies where the policies do not let it be any more",
     HAS_TEXT("repository", OPTIONAL, FORM_FREE, 1, RESOURCE_NAME_MAX,
              "its name; left out if the policies do not let you list it"),
     HAS_WORD("operation", REQUIRED, "ingest metadata log", "the operation that is denied"),
     HAS_TEXT("rule", REQUIRED, FORM_FREE, 1, 64, "the rule that denies it"),
     HAS_TEXT("policy", REQUIRED, FORM_FREE, 1, 80, "its policy"),
     HAS_TIME("found", REQUIRED, "since when nothing of it is read"))

SCHEMA(
    place, "an organisation, a project or a repository", HAS_ID("id", REQUIRED, "its id"),
    HAS_TEXT("name", REQUIRED, FORM_FREE, 1, RESOURCE_NAME_MAX, "its whole name"),
    HAS_TEXT("region", OPTIONAL, FORM_FREE, 1, REGION_ID_MAX, "of a project and a repository: where its bytes are"),
    HAS_OBJECT("label", OPTIONAL, schema_label, "its floor label"), HAS_TIME("created", OPTIONAL, "when it was made"),
    HAS_COUNT("out_of_place", OPTIONAL,
              "of one project: repositories whose content lies where the policies do not let it be; left out if there are none"),
    HAS_LIST("misplaced", OPTIONAL, MISPLACED_MAX, schema_misplaced, "the first of them, by name"))

SCHEMA(organisations, "a page of organisations", HAS_LIST("organisations", REQUIRED, 1000, schema_place, "by id"), HAS_NEXT)
SCHEMA(projects, "a page of projects", HAS_LIST("projects", REQUIRED, 1000, schema_place, "by id"), HAS_NEXT)

/* The wanted namespace, as views of the document. */
struct wanted {
    const json_t *label;
    const char *organisation, *name, *region;
    char full_name[2 * NAMESPACE_NAME_MAX + 2];
};

static bool is_namespace_name(const char *name)
{
    return namespace_name_is_valid(bytes_of_text(name));
}

static struct result read_wanted(struct request *request, struct wanted *wanted, struct error *err)
{
    const json_t *body = NULL;

    TRY(request_document(request, &body, err));
    *wanted = (struct wanted){.organisation = json_text_of(body, "organisation"),
                              .name = json_text_of(body, "name"),
                              .region = json_text_of(body, "region"),
                              .label = json_object_get(body, "label")};
    return SUCCESS;
}

static struct result read_organisation(struct request *request, struct wanted *wanted, struct error *err)
{
    TRY(read_wanted(request, wanted, err));
    if (!is_namespace_name(wanted->name))
        return failure(err, ERROR_INVALID, "a name has a-z, 0-9 and single separators . _ -, at most %d", NAMESPACE_NAME_MAX);
    return SUCCESS;
}

/* Reports an unknown region as such. Otherwise a typing error would become a denial, because policies know nothing of the
 * region. */
static struct result know_region(struct gateway *gateway, const char *region, struct error *err)
{
    const struct settings *settings = gateway->settings;
    struct region_state state;

    if (decider_region_state(gateway->decider, region, &state))
        return SUCCESS; /* also of regions that the policy set alone names */
    for (size_t i = 0; i < settings->region_count; i++)
        if (strcmp(settings->regions[i].title, region) == 0) return SUCCESS;
    return failure(err, ERROR_NOT_FOUND, "there is no region '%.64s' here", region);
}

static struct result read_project(struct request *request, struct wanted *wanted, struct error *err)
{
    const struct settings *settings = request->gateway->settings;

    TRY(read_wanted(request, wanted, err));
    if (wanted->region == NULL) wanted->region = settings->regions[0].title;
    if (!is_namespace_name(wanted->organisation) || !is_namespace_name(wanted->name))
        return failure(err, ERROR_INVALID, "a name has a-z, 0-9 and single separators . _ -, at most %d", NAMESPACE_NAME_MAX);
    TRY(know_region(request->gateway, wanted->region, err));
    (void)snprintf(wanted->full_name, sizeof wanted->full_name, "%s/%s", wanted->organisation, wanted->name);
    return SUCCESS;
}

/* Adds the wanted label to the decision. A missing label asks for nothing. */
static struct result ask_for_label(struct request *request, const json_t *label, struct error *err)
{
    struct asked_label *asked = NULL;

    if (label != NULL) TRY(label_read_asked(label, request->arena, &asked, err));
    request->asked = asked;
    return SUCCESS;
}

struct result target_organisation_create(struct request *request, struct lookup *lookup, struct error *err)
{
    struct wanted wanted;

    (void)lookup;
    if (api_asks_for_credential(request, ACTION_ORGANISATION_CREATE)) return SUCCESS;
    TRY(read_organisation(request, &wanted, err));
    (void)api_pair(request, ACTION_ORGANISATION_CREATE, RESOURCE_ORGANISATION, wanted.name);
    return SUCCESS;
}

struct result target_project_create(struct request *request, struct lookup *lookup, struct error *err)
{
    struct wanted wanted;

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

/* The body arrives after the first decision; then its label is part of a second decision. */
static struct result ask_for_body(struct request *request, struct error *err)
{
    const json_t *label = NULL;

    if (request->body.length == 0) return SUCCESS;
    TRY(request_document(request, &label, err));
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
    if (is_namespace_name(request->name)) (void)api_pair(request, ACTION_PROJECT_LABEL, RESOURCE_ORGANISATION, request->name);
    else response_unknown(request);
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

/* {"id","name"}, and region and label if there are any. NULL: out of memory. */
static json_t *describe(const struct uuid *id, const char *name, const char *region, const json_t *label)
{
    char text[UUID_TEXT_SIZE];

    uuid_format(id, text);
    json_t *object = json_pack("{s:s, s:s, s:O*}", "id", text, "name", name, "label", label);
    if (object == NULL || region[0] == '\0' || json_object_set_new(object, "region", json_string(region)) == 0) return object;
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
    struct wanted wanted;

    (void)pg;
    TRY(read_organisation(request, &wanted, err));
    TRY(floor_label_write(wanted.label, &label, err));
    TRY(organisation_create_prepare(&request->pairs[0].resource, buffer_text(&label), &change, err));
    TRY(request_record(request, &change.change, err));
    answer(request, 201, describe(&change.organisation, wanted.name, "", wanted.label));
    return SUCCESS;
}

static struct result create_project(struct request *request, struct pg *pg, struct error *err)
{
    struct buffer OWNED_BUFFER label = BUFFER(LABEL_TEXT_MAX);
    struct project_create change;
    struct wanted wanted;

    (void)pg;
    TRY(read_project(request, &wanted, err));
    TRY(floor_label_write(wanted.label, &label, err));
    TRY(project_create_prepare(request->gateway->registry, &request->pairs[0].resource, buffer_text(&label), &change, err));
    TRY(request_record(request, &change.change, err));
    answer(request, 201, describe(&change.project, wanted.full_name, wanted.region, wanted.label));
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
    const json_t *label = NULL;

    (void)pg;
    TRY(request_document(request, &label, err));
    TRY(floor_label_write(label, &text, err));
    if (uuid_is_nil(id)) return failure(err, ERROR_NOT_FOUND, "there is no such organisation, project or repository");
    label_change_prepare(where, buffer_text(&text), &change);
    TRY(request_record(request, &change.change, err));
    answer(request, 200, describe(id, where->name, where->region, label));
    return SUCCESS;
}

static struct result describe_record(const struct namespace_record *record, json_t **object_out, struct error *err)
{
    char created[CLOCK_TEXT_SIZE];
    OWNED_JSON label = NULL;

    TRY(json_read(bytes_of_text(record->label), LABEL_TEXT_MAX, &label, err));
    clock_format(record->created_ms, created);
    OWNED_JSON object = describe(&record->id, record->name, record->region, label);
    if (object == NULL || json_object_set_new(object, "created", json_string(created)) != 0)
        return failure(err, ERROR_NO_MEMORY, "no memory for a list");
    *object_out = GIVE(object);
    return SUCCESS;
}

/* Describes a row that the caller may see. The page has the rows that its roles allow; policies may hide some of them. */
static struct result describe_row(struct request *request, const void *rows, size_t index, json_t **row_out, struct error *err)
{
    const struct namespace_page *page = rows;
    const struct namespace_record *record = &page->records[index];
    struct action_pair pair = {.action = ACTION_PROJECT_READ,
                               .resource.kind = strchr(record->name, '/') == NULL ? RESOURCE_ORGANISATION : RESOURCE_PROJECT};
    bool may = false;

    (void)snprintf(pair.resource.name, sizeof pair.resource.name, "%s", record->name);
    TRY(api_may(request, &pair, &may, err));
    return may ? describe_record(record, row_out, err) : SUCCESS;
}

static void cursor(const void *rows, size_t index, char next_out[API_CURSOR_SIZE])
{
    const struct namespace_page *page = rows;

    uuid_format(&page->records[index].id, next_out);
}

static struct result find_page(struct request *request, struct pg *pg, struct namespace_query *query,
                               struct namespace_page **page_out, struct error *err)
{
    OWNED(readable_namespaces) *scopes = NULL;

    TRY(decider_readable_namespaces(request->gateway->decider, request->principal, clock_wall_ms(), &scopes, err));
    const struct namespace_reader reader = {.organisations = scopes->organisations,
                                            .projects = scopes->projects,
                                            .organisation_count = scopes->organisation_count,
                                            .project_count = scopes->project_count};
    query->reader = scopes->all ? NULL : &reader;
    return namespace_list(request->permit, pg, query, page_out, err);
}

static struct result list(struct request *request, struct pg *pg, bool projects, struct error *err)
{
    struct namespace_query query = {.where = &request->pairs[0].resource, .projects = projects};
    OWNED(namespace_page) *found = NULL;
    struct api_page page;

    if (!api_page(request, &page)) return SUCCESS;
    TRY(api_after_id(&page, &query.last, err));
    query.limit = page.limit;
    TRY(find_page(request, pg, &query, &found, err));
    const struct api_list rows = {.name = projects ? "projects" : "organisations",
                                  .rows = found,
                                  .count = found->count,
                                  .has_more = found->has_more,
                                  .describe = describe_row,
                                  .cursor = cursor};
    return api_answer_list(request, &rows, err);
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
    const struct namespace_query query = {.where = &request->pairs[0].resource, .projects = true, .limit = 1};
    OWNED(namespace_page) *page = NULL;
    OWNED_JSON object = NULL;

    if (!uuid_is_nil(&query.where->project)) TRY(namespace_list(request->permit, pg, &query, &page, err));
    if (page == NULL || page->count == 0) {
        response_unknown(request);
        return SUCCESS;
    }
    TRY(describe_record(&page->records[0], &object, err));
    TRY(api_tell_misplaced(request, pg, object, err));
    answer(request, 200, GIVE(object));
    return SUCCESS;
}

const struct handler handler_organisation_create = {.handle = create_organisation};
const struct handler handler_organisation_list = {.handle = list_organisations};
const struct handler handler_project_create = {.handle = create_project};
const struct handler handler_project_list = {.handle = list_projects};
const struct handler handler_project_read = {.handle = read_one};
const struct handler handler_label = {.handle = set_label};
