/* /api/v1/regions/...: what is in a region; looking at its store, draining and retiring it (docs/regions.md). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/api/api_priv.h"
#include "registry/region.h"

#define PAGE_PROJECTS_MAX 1000

SCHEMA(region_wanted, "a region", HAS_TEXT("region", REQUIRED, FORM_FREE, 1, REGION_ID_MAX, "its name"))
SCHEMA(region_check_wanted, "a region whose store is looked at",
       HAS_TEXT("region", REQUIRED, FORM_FREE, 1, REGION_ID_MAX, "its name"),
       HAS_FLAG("adopt", OPTIONAL, "true: a store without a mark is the right one, and gets the region's mark"))
SCHEMA(region_drain_wanted, "a region that takes no new bytes",
       HAS_TEXT("region", REQUIRED, FORM_FREE, 1, REGION_ID_MAX, "its name"),
       HAS_FLAG("end", OPTIONAL, "true: it takes new bytes again"))
PART(region_finding, "something that a store is or does", HAS_TEXT("about", REQUIRED, FORM_FREE, 1, 0, "what it is about"),
     HAS_FLAG("grave", REQUIRED, "true: the region is quarantined for it"),
     HAS_TEXT("what", REQUIRED, FORM_FREE, 1, 0, "what was found"))
SCHEMA(region_report, "what a region's store says about itself",
       HAS_TEXT("region", REQUIRED, FORM_FREE, 1, REGION_ID_MAX, "the region"),
       HAS_FLAG("told", REQUIRED, "true: this gateway serves the region, and its store answered"),
       HAS_FLAG("agrees", REQUIRED, "true: the store answered, and nothing that it says disagrees with the record"),
       HAS_TEXT("trouble", OPTIONAL, FORM_FREE, 1, 0, "why the store told nothing"),
       HAS_TEXT("mark", OPTIONAL, FORM_FREE, 1, 32, "its mark"),
       HAS_TEXT("place", OPTIONAL, FORM_FREE, 1, 0, "of a folder: its kind of file system; of a bucket: its location"),
       HAS_LIST("findings", REQUIRED, REGION_FINDINGS_MAX, schema_region_finding, "what differs, or is not told"))
SCHEMA(region_state, "the state of a region", HAS_TEXT("region", REQUIRED, FORM_FREE, 1, REGION_ID_MAX, "the region"),
       HAS_WORD("state", REQUIRED, "active draining retired", "what it is from now on"))
PART(region_project, "a project in a region", HAS_TEXT("name", REQUIRED, FORM_PROJECT, 3, 127, "organisation/project"),
     HAS_FLAG("home", REQUIRED, "true: new content of the project goes to this region"),
     HAS_COUNT("blobs", REQUIRED, "its blobs there"), HAS_COUNT("bytes", REQUIRED, "their bytes"))
SCHEMA(region_content, "what is in a region", HAS_TEXT("region", REQUIRED, FORM_FREE, 1, REGION_ID_MAX, "the region"),
       HAS_COUNT("blobs", REQUIRED, "blobs"), HAS_COUNT("bytes", REQUIRED, "their bytes"),
       HAS_COUNT("homes", REQUIRED, "projects whose home it is"),
       HAS_COUNT("others", REQUIRED, "uploads, logs of runs, pieces of the audit log, and objects that wait for their removal"),
       HAS_COUNT("forgotten", REQUIRED, "keys of its blobs that were destroyed; each has a certificate (docs/deletion.md)"),
       HAS_LIST("projects", REQUIRED, PAGE_PROJECTS_MAX, schema_region_project, "by name"), HAS_NEXT)

/* ---- Targets: the event names the region, so the body is read before the decision ---- */

static struct result add_region(struct request *request, enum action action, const char *region)
{
    struct resource *where = api_pair(request, action, RESOURCE_SYSTEM, "");

    (void)snprintf(where->region, sizeof where->region, "%.*s", REGION_ID_MAX, region);
    (void)snprintf(where->detail, sizeof where->detail, "%.*s", REGION_ID_MAX, region);
    return SUCCESS;
}

static struct result target_of_body(struct request *request, enum action action, struct error *err)
{
    const json_t *body = NULL;

    if (api_asks_for_credential(request, action)) return SUCCESS;
    TRY(request_document(request, &body, err));
    return add_region(request, action, json_text_of(body, "region"));
}

static bool is_wanted(struct request *request, const char *flag)
{
    const json_t *body = NULL;
    struct error ignored = {0};

    return request_document(request, &body, &ignored).ok && json_is_true(json_object_get(body, flag));
}

/* The event says so: a store that has lost its mark gets it by this person's word. */
struct result target_region_check(struct request *request, struct lookup *lookup, struct error *err)
{
    struct resource *where = &request->pairs[0].resource;
    const size_t length = sizeof where->detail;

    (void)lookup;
    TRY(target_of_body(request, ACTION_REGION_CHECK, err));
    if (is_wanted(request, "adopt")) (void)snprintf(where->detail, length, "%s adopt", where->region);
    return SUCCESS;
}

struct result target_region_drain(struct request *request, struct lookup *lookup, struct error *err)
{
    const json_t *body = NULL;

    (void)lookup;
    if (api_asks_for_credential(request, ACTION_REGION_DRAIN)) return SUCCESS;
    TRY(request_document(request, &body, err));
    return target_of_body(request, is_wanted(request, "end") ? ACTION_REGION_REOPEN : ACTION_REGION_DRAIN, err);
}

struct result target_region_retire(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup;
    return target_of_body(request, ACTION_REGION_RETIRE, err);
}

struct result target_region_content(struct request *request, struct lookup *lookup, struct error *err)
{
    const char *region = request_argument(request, "region");

    (void)lookup;
    if (region == NULL) return failure(err, ERROR_INVALID, "?region= names the region");
    return add_region(request, ACTION_REGION_READ, region);
}

static const char *region_of(const struct request *request)
{
    return request->pairs[0].resource.region;
}

/* ---- Looking at a store ---- */

static struct result describe_findings(const struct region_report *report, json_t **findings_out, struct error *err)
{
    OWNED_JSON findings = json_array();

    for (size_t i = 0; findings != NULL && i < report->count; i++) {
        const struct region_finding *finding = &report->findings[i];
        json_t *each = json_pack("{s:s, s:b, s:s}", "about", finding->about, "grave", finding->is_grave, "what", finding->what);
        if (each == NULL || json_array_append_new(findings, each) != 0)
            return failure(err, ERROR_NO_MEMORY, "no memory for findings");
    }
    if (findings == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for findings");
    *findings_out = GIVE(findings);
    return SUCCESS;
}

static const char *or_null(const char *text)
{
    return text[0] == '\0' ? NULL : text;
}

static struct result handle_check(struct request *request, struct pg *pg, struct error *err)
{
    const char *region = region_of(request);
    struct region_report report;
    OWNED_JSON findings = NULL;

    (void)pg;
    const struct region_question question = {region, is_wanted(request, "adopt")};
    TRY(registry_region_check(request->permit, request->gateway->registry, request->gateway->decider, &question, &report, err));
    TRY(describe_findings(&report, &findings, err));
    OWNED_JSON value = json_pack("{s:s, s:b, s:b, s:s*, s:s*, s:s*, s:O}", "region", region, "told", report.is_told, "agrees",
                                 report.is_told && !region_report_is_grave(&report), "trouble", or_null(report.trouble), "mark",
                                 or_null(report.mark), "place", or_null(report.place), "findings", findings);
    if (value == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a report");
    response_json(request, 200, value);
    return SUCCESS;
}
const struct handler handler_region_check = {.handle = handle_check};

/* ---- Draining and retiring ---- */

/* The permit comes with the record. */
static struct result turn(struct request *request, enum region_turn wanted, const char *state, struct error *err)
{
    struct region_change change;

    region_change_prepare(&request->pairs[0].resource, wanted, &change);
    TRY(request_record(request, &change.change, err));
    OWNED_JSON value = json_pack("{s:s, s:s}", "region", change.where.region, "state", state);
    if (value == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for an answer; it is done");
    response_json(request, 200, value);
    return SUCCESS;
}

static struct result handle_drain(struct request *request, struct pg *pg, struct error *err)
{
    (void)pg;
    if (is_wanted(request, "end")) return turn(request, REGION_TURN_REOPEN, "active", err);
    return turn(request, REGION_TURN_DRAIN, "draining", err);
}
const struct handler handler_region_drain = {.handle = handle_drain};

static struct result handle_retire(struct request *request, struct pg *pg, struct error *err)
{
    (void)pg;
    return turn(request, REGION_TURN_RETIRE, "retired", err);
}
const struct handler handler_region_retire = {.handle = handle_retire};

/* ---- What is there ---- */

static struct result describe_projects(const struct region_project *projects, size_t count, json_t *value, struct error *err)
{
    OWNED_JSON list = json_array();

    for (size_t i = 0; list != NULL && i < count; i++) {
        const struct region_project *project = &projects[i];
        json_t *each = json_pack("{s:s, s:b, s:I, s:I}", "name", project->name, "home", project->is_home, "blobs",
                                 (json_int_t)project->blobs, "bytes", (json_int_t)project->bytes);
        if (each == NULL || json_array_append_new(list, each) != 0) return failure(err, ERROR_NO_MEMORY, "no memory for a list");
    }
    if (list == NULL || json_object_set(value, "projects", list) != 0)
        return failure(err, ERROR_NO_MEMORY, "no memory for a list");
    return SUCCESS;
}

static struct result describe_content(const char *region, const struct region_content *content, json_t **value_out,
                                      struct error *err)
{
    *value_out = json_pack("{s:s, s:I, s:I, s:I, s:I, s:I}", "region", region, "blobs", (json_int_t)content->blobs, "bytes",
                           (json_int_t)content->bytes, "homes", (json_int_t)content->projects, "others",
                           (json_int_t)content->others, "forgotten", (json_int_t)content->forgotten);
    return *value_out == NULL ? failure(err, ERROR_NO_MEMORY, "no memory for an answer") : SUCCESS;
}

/* One project more than the page has was asked for. */
static struct result answer_content(struct request *request, json_t *value, const struct region_projects *found, size_t limit,
                                    struct error *err)
{
    const size_t shown = found->count > limit ? limit : found->count;

    TRY(describe_projects(found->projects, shown, value, err));
    if (found->count > shown) {
        const char *next = found->projects[shown - 1].name;
        if (json_object_set_new(value, "next", json_string(next)) != 0)
            return failure(err, ERROR_NO_MEMORY, "no memory for an answer");
        TRY(api_link_next(request, next, err));
    }
    response_json(request, 200, value);
    return SUCCESS;
}

static struct result handle_content(struct request *request, struct pg *pg, struct error *err)
{
    const char *region = region_of(request);
    struct region_projects found = {.count = 0};
    struct region_content content;
    OWNED_JSON value = NULL;
    struct api_page page;

    if (!api_page(request, &page)) return SUCCESS;
    const struct region_page wanted = {region, page.after, (size_t)page.limit + 1};
    TRY(region_content_count(request->permit, pg, region, &content, err));
    TRY(describe_content(region, &content, &value, err));
    TRY(region_content_list(request->permit, pg, &wanted, &found, err));
    const struct result answered = answer_content(request, value, &found, page.limit, err);
    free(found.projects);
    return answered;
}
const struct handler handler_region_content = {.handle = handle_content};
