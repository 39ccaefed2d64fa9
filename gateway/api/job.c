/* /api/v1/scrubs, /rewraps, /collections and /jobs: docs/api.md. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"
#include "gateway/api/api_priv.h"
#include "gateway/background/upkeep.h"
#include "registry/jobs/job.h"
#include "registry/project_rules.h"

#define PAGE_JOBS_MAX 200 /* jobs and findings are some hundred bytes each */

static void jobs_free(struct job **jobs)
{
    free(*jobs);
}

static void findings_free(struct job_finding **findings)
{
    free(*findings);
}
#define OWNED_JOBS     __attribute__((cleanup(jobs_free))) struct job *
#define OWNED_FINDINGS __attribute__((cleanup(findings_free))) struct job_finding *

/* ---- Begin and stop ---- */

static struct result read_scrub(const struct request *request, json_t **body_out, struct job *job, struct error *err)
{
    const struct settings *settings = request->gateway->settings;
    OWNED_JSON body = NULL;
    const char *region = settings->regions[0].title;
    int digest = 0;
    json_int_t rate = settings->scrub_rate;

    TRY(api_body(request, &body, err));
    TRY(api_unpack(body, err, "{s?:s, s?:b, s?:I}", "region", &region, "digest", &digest, "bytes_per_second", &rate));
    if (strlen(region) == 0 || strlen(region) > REGION_ID_MAX) return failure(err, ERROR_INVALID, "there is no such region");
    if (rate < 65536) return failure(err, ERROR_INVALID, "bytes_per_second is a number from 65536");
    *job = (struct job){.kind = JOB_SCRUB, .with_digest = digest != 0, .rate_bytes = (uint64_t)rate};
    (void)snprintf(job->region, sizeof job->region, "%s", region);
    *body_out = GIVE(body);
    return SUCCESS;
}

/* The event names the region, so it must be known before the decision; without a credential no body was read. */
struct result target_scrub_start(struct request *request, struct lookup *lookup, struct error *err)
{
    OWNED_JSON body = NULL;
    struct job job;

    (void)lookup;
    if (api_asks_for_credential(request, ACTION_SCRUB_START)) return SUCCESS;
    if (!read_scrub(request, &body, &job, err).ok) {
        if (err->kind == ERROR_NO_MEMORY) return (struct result){.ok = false};
        response_problem(request, 400, "The request breaks a rule", err->message);
        return SUCCESS;
    }
    struct resource *where = api_pair(request, ACTION_SCRUB_START, RESOURCE_SYSTEM, "");
    (void)snprintf(where->region, sizeof where->region, "%s", job.region);
    return SUCCESS;
}

static struct result target_system(struct request *request, enum action action)
{
    (void)api_pair(request, action, RESOURCE_SYSTEM, "");
    return SUCCESS;
}

struct result target_rewrap_start(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup, (void)err;
    return target_system(request, ACTION_REWRAP_START);
}

struct result target_key_list(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup, (void)err;
    return target_system(request, ACTION_JOB_READ);
}

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
    if (wanted->rules != NULL && (wanted->is_dry_run == 0 || wanted->project == NULL))
        return failure(err, ERROR_INVALID, "rules are tried in a dry run of one project; set them first to use them");
    return SUCCESS;
}

static struct resource *add_place(struct request *request, enum action action, const char *project)
{
    return api_pair(request, action, project == NULL ? RESOURCE_SYSTEM : RESOURCE_PROJECT, project == NULL ? "" : project);
}

struct result target_collection_start(struct request *request, struct lookup *lookup, struct error *err)
{
    OWNED_WANTED wanted = {0};

    (void)lookup;
    if (api_asks_for_credential(request, ACTION_STORAGE_COLLECT)) return SUCCESS;
    TRY(read_wanted(request, &wanted, err));
    (void)add_place(request, ACTION_STORAGE_COLLECT, wanted.project);
    return SUCCESS;
}

/* Who looks says of which project; a job of another one is unknown there. NULL: the answer is made. */
static struct resource *target_job(struct request *request, enum action action)
{
    const char *project = request_argument(request, "project");

    if (project == NULL || api_is_project_name(project)) return add_place(request, action, project);
    response_problem(request, 400, "The request breaks a rule", "project is organisation/project");
    return NULL;
}

struct result target_job_read(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup, (void)err;
    (void)target_job(request, ACTION_JOB_READ);
    return SUCCESS;
}

struct result target_job_stop(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup, (void)err;
    struct resource *where = target_job(request, ACTION_JOB_STOP);
    if (where != NULL) (void)snprintf(where->detail, sizeof where->detail, "%.36s", request->reference);
    return SUCCESS;
}

static const char *state_name(const struct job *job)
{
    if (job->outcome[0] != '\0') return job->outcome;
    if (job->stop_wanted) return "stopping";
    return job->is_held ? "running" : "waiting";
}

static bool set_collection(json_t *value, const struct job *job)
{
    if (job->kind != JOB_COLLECTION) return true;
    return json_object_set_new(value, "dry_run", json_boolean(job->is_dry_run)) == 0 &&
           (job->project_name[0] == '\0' || json_object_set_new(value, "project", json_string(job->project_name)) == 0);
}

static bool set_scrub(json_t *value, const struct job *job)
{
    if (job->kind != JOB_SCRUB) return true;
    return json_object_set_new(value, "region", json_string(job->region)) == 0 &&
           json_object_set_new(value, "digest", json_boolean(job->with_digest)) == 0 &&
           json_object_set_new(value, "bytes_per_second", json_integer((json_int_t)job->rate_bytes)) == 0 &&
           json_object_set_new(value, "bytes_done", json_integer((json_int_t)job->done_bytes)) == 0 &&
           json_object_set_new(value, "bytes_total", json_integer((json_int_t)job->total_bytes)) == 0;
}

static struct result describe(const struct job *job, json_t **value_out, struct error *err)
{
    char id[UUID_TEXT_SIZE];

    uuid_format(&job->id, id);
    OWNED_JSON value = json_pack("{s:s, s:s, s:s, s:s, s:I, s:I, s:I}", "id", id, "kind", job_kind_name(job->kind), "state",
                                 state_name(job), "phase", job_phase_name(job), "done", (json_int_t)job->done, "total",
                                 (json_int_t)job->total, "found", (json_int_t)job->found);
    if (value == NULL || !set_scrub(value, job) || !set_collection(value, job) || !api_set_time(value, "requested", job->requested_ms) ||
        !api_set_time(value, "started", job->started_ms) || !api_set_time(value, "ended", job->ended_ms) ||
        (job->runner[0] != '\0' && json_object_set_new(value, "runner", json_string(job->runner)) != 0) ||
        (job->waits_for[0] != '\0' && json_object_set_new(value, "waits_for", json_string(job->waits_for)) != 0))
        return failure(err, ERROR_NO_MEMORY, "no memory for the answer");
    *value_out = GIVE(value);
    return SUCCESS;
}

static struct result begin(struct request *request, const struct job *wanted, const char *rules, struct error *err)
{
    const struct resource *where = &request->pairs[0].resource;
    struct job job = *wanted;
    struct job_begin change;
    OWNED_JSON value = NULL;

    job.id = uuid_random();
    job.requested_ms = clock_wall_ms();
    if (where->kind == RESOURCE_PROJECT) (void)snprintf(job.project_name, sizeof job.project_name, "%s", where->name);
    job_begin_prepare(where, &job, &change);
    change.rules = rules;
    TRY(request_record(request, &change.change, err));
    upkeep_wake(request->gateway->upkeep);
    TRY(describe(&job, &value, err));
    response_json(request, 201, value);
    return SUCCESS;
}

static struct result start_scrub(struct request *request, struct pg *pg, struct error *err)
{
    OWNED_JSON body = NULL;
    struct job job;

    (void)pg;
    TRY(read_scrub(request, &body, &job, err));
    return begin(request, &job, NULL, err);
}

static struct result start_rewrap(struct request *request, struct pg *pg, struct error *err)
{
    const struct job job = {.kind = JOB_REWRAP};

    (void)pg;
    return begin(request, &job, NULL, err);
}

static struct result start_collection(struct request *request, struct pg *pg, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(RULES_TEXT_MAX);
    OWNED(rules) *rules = NULL;
    OWNED_WANTED wanted = {0};

    (void)pg;
    TRY(read_wanted(request, &wanted, err));
    const struct job job = {.kind = JOB_COLLECTION, .is_dry_run = wanted.is_dry_run != 0};
    if (wanted.rules == NULL) return begin(request, &job, NULL, err);
    TRY(json_write_canonical(&text, wanted.rules, err));
    TRY(rules_read(buffer_bytes(&text), &rules, err));
    return begin(request, &job, buffer_text(&text), err);
}

static struct result stop(struct request *request, struct pg *pg, struct error *err)
{
    struct job_stop change;
    struct uuid id;

    (void)pg;
    if (!uuid_parse(bytes_of_text(request->reference), &id)) return failure(err, ERROR_NOT_FOUND, "there is no such job");
    job_stop_prepare(&request->pairs[0].resource, &id, (unsigned)request->gateway->settings->jobs_kept, &change);
    TRY(request_record(request, &change.change, err));
    response_empty(request, 204);
    return SUCCESS;
}

/* ---- Read ---- */

static struct result read_page(struct request *request, int64_t start, struct job_page *page, bool *is_good_out,
                               struct error *err)
{
    const char *after = NULL;
    uint64_t number = 0;
    unsigned limit = 0;

    const bool is_good = api_page(request, &limit, &after);
    if (is_good && after[0] != '\0' && !text_to_u64(bytes_of_text(after), INT64_MAX, &number))
        return failure(err, ERROR_INVALID, "after is what the page before ended with");
    *is_good_out = is_good;
    if (!is_good) return SUCCESS;
    page->from = after[0] == '\0' ? start : (int64_t)number;
    page->limit = limit < PAGE_JOBS_MAX ? limit : PAGE_JOBS_MAX;
    return SUCCESS;
}

static struct result answer_list(struct request *request, const char *name, json_t *list, int64_t next, struct error *err)
{
    OWNED_JSON value = json_pack("{s:O}", name, list);

    if (value == NULL || (next != 0 && json_object_set_new(value, "next", json_sprintf("%lld", (long long)next)) != 0))
        return failure(err, ERROR_NO_MEMORY, "no memory for a list");
    response_json(request, 200, value);
    return SUCCESS;
}

static struct result list_jobs(struct request *request, struct pg *pg, struct error *err)
{
    struct job_page page = {.job = NULL};
    OWNED_JOBS jobs = NULL;
    size_t count = 0;
    bool is_good = false;
    OWNED_JSON list = json_array();

    TRY(read_page(request, INT64_MAX, &page, &is_good, err));
    if (!is_good) return SUCCESS;
    TRY(job_list(request->permit, pg, &page, &jobs, &count, err));
    for (size_t i = 0; i < count; i++) {
        json_t *value = NULL;
        TRY(describe(&jobs[i], &value, err));
        if (json_array_append_new(list, value) != 0) return failure(err, ERROR_NO_MEMORY, "no memory for a list");
    }
    return answer_list(request, "jobs", list, count == page.limit ? jobs[count - 1].number : 0, err);
}

static struct result find(struct request *request, struct pg *pg, struct job *job_out, struct error *err)
{
    struct uuid id;

    if (!uuid_parse(bytes_of_text(request->reference), &id)) return failure(err, ERROR_NOT_FOUND, "there is no such job");
    return job_find(request->permit, pg, &id, job_out, err);
}

static struct result add_report(const struct request *request, struct pg *pg, const struct job *job, json_t *value,
                                struct error *err)
{
    OWNED(pg_rows) *rows = NULL;
    OWNED_JSON report = NULL;
    const char *text = NULL;

    if (job->kind != JOB_COLLECTION) return SUCCESS;
    TRY(job_report_text(request->permit, pg, &job->id, &rows, &text, err));
    TRY(json_read(bytes_of_text(text), JOB_REPORT_MAX, &report, err));
    if (json_object_set(value, "report", report) == 0) return SUCCESS;
    return failure(err, ERROR_NO_MEMORY, "no memory for the answer");
}

static struct result read_job(struct request *request, struct pg *pg, struct error *err)
{
    OWNED_JSON value = NULL;
    struct job job;

    TRY(find(request, pg, &job, err));
    TRY(describe(&job, &value, err));
    TRY(add_report(request, pg, &job, value, err));
    response_json(request, 200, value);
    return SUCCESS;
}

static struct result describe_finding(const struct job_finding *finding, json_t *list, struct error *err)
{
    json_t *value = json_pack("{s:s, s:s, s:s, s:s, s:s}", "kind", finding_kind_name(finding->kind), "subject",
                              finding->subject, "name", finding->name, "digest", finding->digest, "detail", finding->detail);

    if (value != NULL && api_set_time(value, "found", finding->found_ms) && json_array_append_new(list, value) == 0) return SUCCESS;
    return failure(err, ERROR_NO_MEMORY, "no memory for a list");
}

static struct result list_findings(struct request *request, struct pg *pg, struct error *err)
{
    struct job job;
    struct job_page page = {.job = &job.id};
    OWNED_FINDINGS findings = NULL;
    size_t count = 0;
    bool is_good = false;
    OWNED_JSON list = json_array();

    TRY(read_page(request, 0, &page, &is_good, err));
    if (!is_good) return SUCCESS;
    TRY(find(request, pg, &job, err));
    TRY(job_findings(request->permit, pg, &page, &findings, &count, err));
    for (size_t i = 0; i < count; i++) TRY(describe_finding(&findings[i], list, err));
    return answer_list(request, "findings", list, count == page.limit ? findings[count - 1].number : 0, err);
}

const struct handler handler_scrub_start = {.handle = start_scrub};
const struct handler handler_rewrap_start = {.handle = start_rewrap};
const struct handler handler_collection_start = {.handle = start_collection};
const struct handler handler_job_stop = {.handle = stop};
const struct handler handler_job_list = {.handle = list_jobs};
const struct handler handler_job_read = {.handle = read_job};
const struct handler handler_job_findings = {.handle = list_findings};
