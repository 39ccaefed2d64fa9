/* /api/v1/scrubs, /rewraps, /collections and /jobs: docs/api.md. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"
#include "gateway/api/job_priv.h"
#include "gateway/background/job_workers.h"
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

SCHEMA(scrub_wanted, "a scrub to be begun",
       HAS_TEXT("region", OPTIONAL, FORM_FREE, 1, REGION_ID_MAX, "the region; the first of the gateway if left out"),
       HAS_FLAG("digest", OPTIONAL, "true: digests are computed, too"),
       HAS_NUMBER("bytes_per_second", OPTIONAL, 65536, INT64_MAX, "how fast it reads; scrub_rate of the gateway if left out"))

SCHEMA(collection_wanted, "a collection of garbage to be begun",
       HAS_TEXT("project", OPTIONAL, FORM_PROJECT, 3, 127, "only of this project; of all if left out"),
       HAS_FLAG("dry_run", OPTIONAL, "true: it only says what it would remove"),
       HAS_OBJECT("rules", OPTIONAL, schema_rules, "of a dry run of one project: rules that are tried in place of its own"))

PART_WITH(SCHEMA_IS_OPEN, job_report, "what a collection removed or would remove; empty until there is something to report",
          HAS_COUNT("blobs", OPTIONAL, "blobs"), HAS_COUNT("bytes", OPTIONAL, "bytes of the blobs"),
          HAS_COUNT("manifests", OPTIONAL, "manifests"), HAS_COUNT("tags", OPTIONAL, "tags"),
          HAS_COUNT("sessions", OPTIONAL, "uploads"), HAS_COUNT("blobs_looked_at", OPTIONAL, "blobs that it examined"),
          HAS_ANY("projects", OPTIONAL, "the same numbers for each project"),
          HAS_ANY("removed", OPTIONAL, "of a dry run: what would be removed"),
          HAS_ANY("unmet", OPTIONAL, "duties of policies that are not met: repository, duty, why"),
          HAS_FLAG("is_whole", OPTIONAL, "false: `removed` is cut off"))

SCHEMA(job, "a job", HAS_ID("id", REQUIRED, "names it in paths"),
       HAS_WORD("kind", REQUIRED, JOB_KINDS(SCHEMA_WORD), "what it does"),
       HAS_WORD("state", REQUIRED, "waiting running stopping" JOB_ENDINGS(SCHEMA_WORD), "how it is"),
       HAS_TEXT("phase", REQUIRED, FORM_FREE, 1, 0, "what it works on now; done at the end"),
       HAS_COUNT("done", REQUIRED, "how many objects it has processed"), HAS_COUNT("total", REQUIRED, "how many there are"),
       HAS_COUNT("found", REQUIRED, "how many findings it has"), HAS_TIME("requested", OPTIONAL, "when it was asked for"),
       HAS_TIME("started", OPTIONAL, "when it began"), HAS_TIME("ended", OPTIONAL, "when it ended"),
       HAS_TEXT("runner", OPTIONAL, FORM_FREE, 1, 0, "the gateway that runs it"),
       HAS_TEXT("waits_for", OPTIONAL, FORM_FREE, 1, 0, "why it waits"),
       HAS_TEXT("stopped_by", OPTIONAL, FORM_FREE, 1, 255, "the principal that had it stopped"),
       HAS_TEXT("region", OPTIONAL, FORM_FREE, 0, REGION_ID_MAX,
                "of a scrub, or of a re-wrap of the keys of one region: the region"),
       HAS_FLAG("digest", OPTIONAL, "of a scrub: digests are computed, too"),
       HAS_COUNT("bytes_per_second", OPTIONAL, "of a scrub: how fast it reads"),
       HAS_COUNT("bytes_done", OPTIONAL, "of a scrub: bytes that it has read"),
       HAS_COUNT("bytes_total", OPTIONAL, "of a scrub: bytes that there are"),
       HAS_FLAG("dry_run", OPTIONAL, "of a collection: it only says what it would remove"),
       HAS_TEXT("project", OPTIONAL, FORM_PROJECT, 3, 127, "of a collection of one project: which"),
       HAS_OBJECT("report", OPTIONAL, schema_job_report, "of one collection: what it did so far"))

SCHEMA(jobs, "a page of jobs", HAS_LIST("jobs", REQUIRED, PAGE_JOBS_MAX, schema_job, "newest first"), HAS_NEXT)

PART(finding, "something that a job found", HAS_WORD("kind", REQUIRED, JOB_FINDING_KINDS(SCHEMA_WORD), "what is wrong"),
     HAS_TEXT("subject", REQUIRED, FORM_FREE, 0, 0, "the object, or the repository and the digest"),
     HAS_TEXT("name", REQUIRED, FORM_FREE, 0, 0, "the project or the repository; empty if none is known"),
     HAS_TEXT("digest", REQUIRED, FORM_FREE, 0, 0, "the digest; empty if none is known"),
     HAS_TEXT("detail", REQUIRED, FORM_FREE, 0, 0, "what is wrong, in detail"), HAS_TIME("found", OPTIONAL, "when it was found"))
SCHEMA(findings, "a page of findings", HAS_LIST("findings", REQUIRED, PAGE_JOBS_MAX, schema_finding, "oldest first"), HAS_NEXT)

/* ---- Begin and stop ---- */

static struct result read_scrub(struct request *request, struct job *job, struct error *err)
{
    const struct settings *settings = request->gateway->settings;
    int64_t rate = settings->scrub_rate;
    const json_t *body = NULL;

    TRY(request_document(request, &body, err));
    (void)json_integer_of(body, "bytes_per_second", &rate);
    const char *region = json_text_of(body, "region");
    *job = (struct job){
        .kind = JOB_SCRUB, .with_digest = json_is_true(json_object_get(body, "digest")), .rate_bytes = (uint64_t)rate};
    (void)snprintf(job->region, sizeof job->region, "%.*s", REGION_ID_MAX, region == NULL ? settings->regions[0].title : region);
    return SUCCESS;
}

/* The event names the region, so the body is read before the decision. Without a credential there is no body. */
struct result target_scrub_start(struct request *request, struct lookup *lookup, struct error *err)
{
    struct job job;

    (void)lookup;
    if (api_asks_for_credential(request, ACTION_SCRUB_START)) return SUCCESS;
    TRY(read_scrub(request, &job, err));
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

/* The wanted collection, as views of the document. */
struct wanted {
    const json_t *rules;
    const char *project; /* NULL: all */
    bool is_dry_run;
};

static struct result read_wanted(struct request *request, struct wanted *wanted, struct error *err)
{
    const json_t *body = NULL;

    TRY(request_document(request, &body, err));
    *wanted = (struct wanted){.rules = json_object_get(body, "rules"),
                              .project = json_text_of(body, "project"),
                              .is_dry_run = json_is_true(json_object_get(body, "dry_run"))};
    if (wanted->project != NULL && !api_is_project_name(wanted->project))
        return failure(err, ERROR_INVALID, "project is organisation/project");
    if (wanted->rules != NULL && (!wanted->is_dry_run || wanted->project == NULL))
        return failure(err, ERROR_INVALID, "rules are tried in a dry run of one project; set them first to use them");
    return SUCCESS;
}

static struct resource *add_place(struct request *request, enum action action, const char *project)
{
    return api_pair(request, action, project == NULL ? RESOURCE_SYSTEM : RESOURCE_PROJECT, project == NULL ? "" : project);
}

struct result target_collection_start(struct request *request, struct lookup *lookup, struct error *err)
{
    struct wanted wanted;

    (void)lookup;
    if (api_asks_for_credential(request, ACTION_STORAGE_COLLECT)) return SUCCESS;
    TRY(read_wanted(request, &wanted, err));
    (void)add_place(request, ACTION_STORAGE_COLLECT, wanted.project);
    return SUCCESS;
}

/* The query names the project of the job; in another project the job is unknown. NULL: the answer was made. */
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

struct result job_describe(const struct job *job, json_t **value_out, struct error *err)
{
    char id[UUID_TEXT_SIZE];

    uuid_format(&job->id, id);
    OWNED_JSON value = json_pack("{s:s, s:s, s:s, s:s, s:I, s:I, s:I}", "id", id, "kind", job_kind_name(job->kind), "state",
                                 state_name(job), "phase", job_phase_name(job), "done", (json_int_t)job->done, "total",
                                 (json_int_t)job->total, "found", (json_int_t)job->found);
    if (value == NULL || !set_scrub(value, job) || !set_collection(value, job) ||
        !api_set_time(value, "requested", job->requested_ms) || !api_set_time(value, "started", job->started_ms) ||
        !api_set_time(value, "ended", job->ended_ms) ||
        (job->runner[0] != '\0' && json_object_set_new(value, "runner", json_string(job->runner)) != 0) ||
        (job->waits_for[0] != '\0' && json_object_set_new(value, "waits_for", json_string(job->waits_for)) != 0) ||
        (job->stopped_by[0] != '\0' && json_object_set_new(value, "stopped_by", json_string(job->stopped_by)) != 0))
        return failure(err, ERROR_NO_MEMORY, "no memory for the answer");
    *value_out = GIVE(value);
    return SUCCESS;
}

struct result job_begin_wished(struct request *request, const struct job_wish *wish, struct error *err)
{
    const struct resource *where = &request->pairs[0].resource;
    struct job job = wish->job;
    struct job_begin change;
    OWNED_JSON value = NULL;

    job.id = uuid_random();
    job.requested_ms = clock_wall_ms();
    if (where->kind == RESOURCE_PROJECT) (void)snprintf(job.project_name, sizeof job.project_name, "%s", where->name);
    job_begin_prepare(where, &job, &change);
    change.rules = wish->rules;
    change.input = wish->input;
    TRY(request_record(request, &change.change, err));
    job_workers_wake(request->gateway->job_workers);
    TRY(job_describe(&job, &value, err));
    response_json(request, 201, value);
    return SUCCESS;
}

static struct result start_scrub(struct request *request, struct pg *pg, struct error *err)
{
    struct job_wish wish = {.rules = NULL};

    (void)pg;
    TRY(read_scrub(request, &wish.job, err));
    return job_begin_wished(request, &wish, err);
}

static struct result start_rewrap(struct request *request, struct pg *pg, struct error *err)
{
    const struct job_wish wish = {.job = {.kind = JOB_REWRAP}};
    const json_t *body = NULL;

    (void)pg;
    if (request->body.length > 0) TRY(request_document(request, &body, err));
    return job_begin_wished(request, &wish, err);
}

static struct result start_collection(struct request *request, struct pg *pg, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(RULES_TEXT_MAX);
    OWNED(rules) *rules = NULL;
    struct wanted wanted;

    (void)pg;
    TRY(read_wanted(request, &wanted, err));
    struct job_wish wish = {.job = {.kind = JOB_COLLECTION, .is_dry_run = wanted.is_dry_run}};
    if (wanted.rules == NULL) return job_begin_wished(request, &wish, err);
    TRY(json_write_canonical(&text, wanted.rules, err));
    TRY(rules_read(buffer_bytes(&text), &rules, err));
    wish.rules = buffer_text(&text);
    return job_begin_wished(request, &wish, err);
}

struct result job_stop_wanted(struct request *request, bool is_of_plan, struct error *err)
{
    char by[PRINCIPAL_KEY_SIZE];
    struct job_stop change;
    struct uuid id;

    TRY(api_id(request, is_of_plan ? "plan" : "job", &id, err));
    job_stop_prepare(&request->pairs[0].resource, &id, (unsigned)request->gateway->settings->jobs_kept, &change);
    principal_key(request->principal, by);
    change.by = by;
    change.is_of_plan = is_of_plan;
    return api_remove(request, &change.change, err);
}

static struct result stop(struct request *request, struct pg *pg, struct error *err)
{
    (void)pg;
    return job_stop_wanted(request, false, err);
}

/* ---- Read ---- */

/* A page from `start` on; the caller applies asked->after. False: the answer was made. */
static bool read_page(struct request *request, int64_t start, struct job_page *page, struct api_page *asked)
{
    page->from = start;
    if (!api_page(request, asked)) return false;
    page->limit = asked->limit < PAGE_JOBS_MAX ? asked->limit : PAGE_JOBS_MAX;
    return true;
}

static void cursor_of(int64_t number, char next_out[API_CURSOR_SIZE])
{
    (void)snprintf(next_out, API_CURSOR_SIZE, "%lld", (long long)number);
}

static struct result describe_job(struct request *request, const void *rows, size_t index, json_t **row_out, struct error *err)
{
    const struct job *jobs = rows;

    (void)request;
    return job_describe(&jobs[index], row_out, err);
}

static void cursor_of_job(const void *rows, size_t index, char next_out[API_CURSOR_SIZE])
{
    const struct job *jobs = rows;

    cursor_of(jobs[index].number, next_out);
}

static struct result list_jobs(struct request *request, struct pg *pg, struct error *err)
{
    struct job_page page = {.job = NULL};
    struct api_page asked;
    OWNED_JOBS jobs = NULL;
    size_t count = 0;

    if (!read_page(request, INT64_MAX, &page, &asked)) return SUCCESS;
    TRY(api_after_number(&asked, &page.from, err));
    TRY(job_list(request->permit, pg, &page, &jobs, &count, err));
    const struct api_list list = {.name = "jobs",
                                  .rows = jobs,
                                  .count = count,
                                  .has_more = count == page.limit,
                                  .describe = describe_job,
                                  .cursor = cursor_of_job};
    return api_answer_list(request, &list, err);
}

static struct result find(struct request *request, struct pg *pg, struct job *job_out, struct error *err)
{
    struct uuid id;

    TRY(api_id(request, "job", &id, err));
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
    TRY(job_describe(&job, &value, err));
    TRY(add_report(request, pg, &job, value, err));
    response_json(request, 200, value);
    return SUCCESS;
}

static struct result describe_finding(struct request *request, const void *rows, size_t index, json_t **row_out,
                                      struct error *err)
{
    const struct job_finding *finding = &((const struct job_finding *)rows)[index];
    OWNED_JSON value = json_pack("{s:s, s:s, s:s, s:s, s:s}", "kind", finding_kind_name(finding->kind), "subject",
                                 finding->subject, "name", finding->name, "digest", finding->digest, "detail", finding->detail);

    (void)request;
    if (value == NULL || !api_set_time(value, "found", finding->found_ms))
        return failure(err, ERROR_NO_MEMORY, "no memory for a list");
    *row_out = GIVE(value);
    return SUCCESS;
}

static void cursor_of_finding(const void *rows, size_t index, char next_out[API_CURSOR_SIZE])
{
    const struct job_finding *findings = rows;

    cursor_of(findings[index].number, next_out);
}

static struct result list_findings(struct request *request, struct pg *pg, struct error *err)
{
    struct job job;
    struct job_page page = {.job = &job.id};
    struct api_page asked;
    OWNED_FINDINGS findings = NULL;
    size_t count = 0;

    if (!read_page(request, 0, &page, &asked)) return SUCCESS;
    TRY(api_after_number(&asked, &page.from, err));
    TRY(find(request, pg, &job, err));
    TRY(job_findings(request->permit, pg, &page, &findings, &count, err));
    const struct api_list list = {.name = "findings",
                                  .rows = findings,
                                  .count = count,
                                  .has_more = count == page.limit,
                                  .describe = describe_finding,
                                  .cursor = cursor_of_finding};
    return api_answer_list(request, &list, err);
}

const struct handler handler_scrub_start = {.handle = start_scrub};
const struct handler handler_rewrap_start = {.handle = start_rewrap};
const struct handler handler_collection_start = {.handle = start_collection};
const struct handler handler_job_stop = {.handle = stop};
const struct handler handler_job_list = {.handle = list_jobs};
const struct handler handler_job_read = {.handle = read_job};
const struct handler handler_job_findings = {.handle = list_findings};
