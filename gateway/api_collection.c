/* /api/v1/collections: garbage collection, asked for and looked at (docs/api.md, docs/garbage-collection.md). */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "gateway/api_priv.h"
#include "gateway/collector.h"
#include "registry/collection.h"
#include "registry/project_rules.h"

#define LIST_MAX 100

/* What a body asks for; texts are views of `json`. */
struct wanted {
    json_t *json, *rules;
    const char *project; /* NULL: all */
    int is_dry_run;
};

static void wanted_done(struct wanted *wanted)
{
    json_decref(wanted->json);
}
#define OWNED_WANTED __attribute__((cleanup(wanted_done))) struct wanted

static struct result read_wanted(const struct request *request, struct wanted *wanted, struct error *err)
{
    TRY(api_body(request, &wanted->json, err));
    TRY(api_unpack(wanted->json, err, "{s?:s, s?:b, s?:o}", "project", &wanted->project, "dry_run", &wanted->is_dry_run,
                   "rules", &wanted->rules));
    if (wanted->project != NULL && !api_is_project_name(wanted->project))
        return failure(err, ERROR_INVALID, "project is organisation/project");
    return SUCCESS;
}

static struct resource *add_pair(struct request *request, const char *project)
{
    return api_pair(request, ACTION_STORAGE_COLLECT, project == NULL ? RESOURCE_SYSTEM : RESOURCE_PROJECT,
                    project == NULL ? "" : project);
}

struct result target_collection_begin(struct request *request, struct pg *pg, struct error *err)
{
    OWNED_WANTED wanted = {0};

    (void)pg;
    if (api_asks_for_credential(request, ACTION_STORAGE_COLLECT)) return SUCCESS;
    TRY(read_wanted(request, &wanted, err));
    (void)add_pair(request, wanted.project);
    return SUCCESS;
}

/* Who asks says of which project; a run of another one is unknown there. */
struct result target_collection_read(struct request *request, struct pg *pg, struct error *err)
{
    const char *project = request_argument(request, "project");

    (void)pg;
    (void)err;
    if (project == NULL || api_is_project_name(project))
        (void)add_pair(request, project);
    else
        response_problem(request, 400, "The request breaks a rule", "project is organisation/project");
    return SUCCESS;
}

static struct result write_rules(const json_t *document, struct buffer *text, struct error *err)
{
    OWNED(rules) *rules = NULL;

    if (document == NULL) return SUCCESS;
    TRY(json_write_canonical(text, document, err));
    return rules_read(buffer_bytes(text), &rules, err);
}

static struct result begin(struct request *request, struct pg *pg, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(RULES_TEXT_MAX);
    struct collection_request change;
    char id[UUID_TEXT_SIZE];
    OWNED_WANTED wanted = {0};

    (void)pg;
    TRY(read_wanted(request, &wanted, err));
    TRY(write_rules(wanted.rules, &text, err));
    TRY(collection_request_prepare(&request->pairs[0].resource, wanted.is_dry_run != 0,
                                   wanted.rules == NULL ? NULL : buffer_text(&text), &change, err));
    TRY(request_record(request, &change.change, err));
    collector_wake(request->gateway->collector);
    uuid_format(&change.collection, id);
    OWNED_JSON answer = json_pack("{s:s, s:s}", "id", id, "state", "waiting");
    response_json(request, 201, answer);
    return SUCCESS;
}

static int set_time(json_t *object, const char *member, int64_t when_ms)
{
    char text[CLOCK_TEXT_SIZE];

    if (when_ms == 0) return 0;
    clock_format(when_ms, text);
    return json_object_set_new(object, member, json_string(text));
}

static struct result describe(const struct collection_record *record, bool with_report, json_t **object_out, struct error *err)
{
    char id[UUID_TEXT_SIZE];

    uuid_format(&record->id, id);
    OWNED_JSON object = json_pack("{s:s, s:s, s:b}", "id", id, "state", record->state, "dry_run", record->is_dry_run ? 1 : 0);
    OWNED_JSON report = NULL;
    if (with_report) TRY(json_read(bytes_of_text(record->report), COLLECTION_REPORT_MAX, &report, err));
    const bool ok = object != NULL && set_time(object, "requested", record->requested_ms) == 0 &&
                    set_time(object, "begun", record->begun_ms) == 0 && set_time(object, "ended", record->ended_ms) == 0 &&
                    (record->project[0] == '\0' ||
                     json_object_set_new(object, "project", json_string(record->project)) == 0) &&
                    (report == NULL || json_object_set(object, "report", report) == 0);
    if (!ok) return failure(err, ERROR_NO_MEMORY, "no memory for an answer");
    *object_out = GIVE(object);
    return SUCCESS;
}

static struct result read_one(struct request *request, struct pg *pg, struct error *err)
{
    struct collection_query query = {.permit = request->permit, .where = &request->pairs[0].resource, .limit = 1};
    OWNED(collection_page) *page = NULL;
    json_t *object = NULL;

    const bool is_id = uuid_parse(bytes_of_text(request->reference), &query.id) && !uuid_is_nil(&query.id);
    const bool is_known = query.where->kind == RESOURCE_SYSTEM || !uuid_is_nil(&query.where->project);
    if (is_id && is_known) TRY(collection_list(pg, &query, &page, err));
    if (page == NULL || page->count == 0) {
        response_unknown(request);
        return SUCCESS;
    }
    TRY(describe(&page->records[0], true, &object, err));
    response_json(request, 200, object);
    json_decref(object);
    return SUCCESS;
}

static struct result write_list(struct request *request, const struct collection_page *page, struct error *err)
{
    OWNED_JSON list = json_array();
    char id[UUID_TEXT_SIZE];

    for (size_t i = 0; i < page->count; i++) {
        json_t *object = NULL;
        TRY(describe(&page->records[i], false, &object, err));
        if (json_array_append_new(list, object) != 0) return failure(err, ERROR_NO_MEMORY, "no memory for a list");
    }
    OWNED_JSON value = json_pack("{s:O}", "collections", list);
    if (page->has_more) uuid_format(&page->records[page->count - 1].id, id);
    if (value == NULL || (page->has_more && json_object_set_new(value, "next", json_string(id)) != 0))
        return failure(err, ERROR_NO_MEMORY, "no memory for a list");
    response_json(request, 200, value);
    return SUCCESS;
}

static struct result list(struct request *request, struct pg *pg, struct error *err)
{
    struct collection_query query = {.permit = request->permit, .where = &request->pairs[0].resource};
    OWNED(collection_page) *page = NULL;
    const char *after = NULL;

    if (!api_page(request, &query.limit, &after)) return SUCCESS;
    if (query.limit > LIST_MAX) query.limit = LIST_MAX;
    if (after[0] != '\0' && !uuid_parse(bytes_of_text(after), &query.last))
        return failure(err, ERROR_INVALID, "after is the id that the page before ended with");
    if (query.where->kind == RESOURCE_PROJECT && uuid_is_nil(&query.where->project)) {
        response_unknown(request);
        return SUCCESS;
    }
    TRY(collection_list(pg, &query, &page, err));
    return write_list(request, page, err);
}

const struct handler handler_collection_begin = {.handle = begin};
const struct handler handler_collection_read = {.handle = read_one};
const struct handler handler_collection_list = {.handle = list};
