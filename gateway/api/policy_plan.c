/* /api/v1/policies/plan and /policies/plans: what a proposed policy set would change; docs/policies.md. */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "gateway/api/job_priv.h"
#include "planning/plan_limits.h"
#include "policy/decider/decider.h"
#include "policy/set.h"

SCHEMA(plan_wanted, "a policy set that is proposed",
       HAS_ANY("set", REQUIRED,
               "the whole document as it will be signed, an object with its epoch and digest: \"sijil policy plan\" makes it"),
       HAS_NUMBER("days", OPTIONAL, 0, PLAN_DAYS_MAX, "of how many days the log is decided again; 30 if left out"))

PART(plan_set, "a policy set", HAS_COUNT("epoch", REQUIRED, "its number"),
     HAS_TEXT("digest", REQUIRED, FORM_DIGEST, 71, 71, "the digest of its document"))
PART(plan_log, "what of the log was decided again", HAS_COUNT("days", REQUIRED, "of how many days"),
     HAS_TIME("since", REQUIRED, "from when on"), HAS_COUNT("from", REQUIRED, "the first number"),
     HAS_COUNT("until", REQUIRED, "the number before which it ends: up to here the plan looked"),
     HAS_COUNT("released", REQUIRED, "requests whose entries are in a region, and that were not looked at"),
     HAS_COUNT("others", REQUIRED, "requests without facts: policies did not decide them"))
PART(plan_requests, "requests of these days, as both sets decide them", HAS_COUNT("allowed", REQUIRED, "allowed by both"),
     HAS_COUNT("denied", REQUIRED, "denied by both, or by rights"),
     HAS_COUNT("newly_denied", REQUIRED, "allowed now, and then denied"),
     HAS_COUNT("newly_allowed", REQUIRED, "denied now, and then allowed"),
     HAS_COUNT("undecided", REQUIRED, "that can't be decided again from what the log has"))
PART(plan_row, "requests of one principal that would be decided otherwise",
     HAS_TEXT("actor", REQUIRED, FORM_FREE, 1, 64, "its pseudonym"),
     HAS_TEXT("action", REQUIRED, FORM_FREE, 1, 31, "what it did"),
     HAS_TEXT("operation", REQUIRED, FORM_FREE, 0, 16, "the policies' name for it"),
     HAS_TEXT("resource", REQUIRED, FORM_FREE, 0, 1956, "the artifact's repository, or the project"),
     HAS_TEXT("target", REQUIRED, FORM_FREE, 0, 255, "the region, or the network of the client"),
     HAS_TEXT("rule", REQUIRED, FORM_FREE, 1, 64, "the rule that denies: then, or, of what is newly allowed, now"),
     HAS_TEXT("policy", REQUIRED, FORM_FREE, 1, 79, "its policy"), HAS_COUNT("count", REQUIRED, "how often"),
     HAS_ANY("examples", REQUIRED, "the numbers of the first three events"))
PART(plan_doubt, "requests that can't be decided again", HAS_TEXT("action", REQUIRED, FORM_FREE, 1, 31, "what was done"),
     HAS_TEXT("why", REQUIRED, FORM_FREE, 1, 64, "what the log does not have"), HAS_COUNT("count", REQUIRED, "how many"),
     HAS_ANY("examples", REQUIRED, "the numbers of the first three events"))
PART(plan_place, "a repository that could not stay", HAS_TEXT("repository", REQUIRED, FORM_FREE, 1, 255, "its name"),
     HAS_TEXT("region", REQUIRED, FORM_FREE, 1, 63, "where it is"),
     HAS_TEXT("operation", REQUIRED, FORM_FREE, 1, 16, "what is denied there"),
     HAS_TEXT("rule", REQUIRED, FORM_FREE, 1, 64, "by which rule"),
     HAS_TEXT("policy", REQUIRED, FORM_FREE, 1, 79, "of which policy"), HAS_COUNT("manifests", REQUIRED, "its artifacts"),
     HAS_COUNT("bytes", REQUIRED, "their size"),
     HAS_TEXTS("regions", REQUIRED, 0, PLAN_REGIONS_MAX, NULL, "regions of the proposed set that would allow it"))
PART(plan_places, "what could not stay where it is", HAS_COUNT("repositories", REQUIRED, "how many"),
     HAS_COUNT("manifests", REQUIRED, "their artifacts"), HAS_COUNT("bytes", REQUIRED, "bytes to move"),
     HAS_LIST("rows", REQUIRED, 200, schema_plan_place, "the largest ones"))
PART(plan_pin, "a policy that labels pin, and that would be gone", HAS_TEXT("policy", REQUIRED, FORM_FREE, 1, 64, "its id"),
     HAS_COUNT("repositories", REQUIRED, "that would be denied by SYS-PIN-MISSING"),
     HAS_COUNT("manifests", REQUIRED, "their artifacts"), HAS_TEXTS("examples", REQUIRED, 0, 3, NULL, "three of them"))
PART(plan_inventory, "what is stored, as the plan found it", HAS_COUNT("repositories", REQUIRED, "how many"),
     HAS_COUNT("manifests", REQUIRED, "their artifacts"),
     HAS_TEXT("digest", REQUIRED, FORM_DIGEST, 71, 71, "over id, region, number of artifacts and label of each repository"),
     HAS_COUNT("newly_placeable", REQUIRED, "repositories whose region is denied now, and then allowed"))
PART(plan_run, "a run that would stop", HAS_ID("run", REQUIRED, "its id"),
     HAS_TEXT("project", REQUIRED, FORM_FREE, 1, 127, "its project"),
     HAS_TEXT("state", REQUIRED, FORM_RUN_STATE, 0, 0, "how it is"),
     HAS_TEXT("repository", REQUIRED, FORM_FREE, 0, 255, "what it could not use"),
     HAS_TEXT("region", REQUIRED, FORM_FREE, 0, 255, "where"),
     HAS_TEXT("rule", REQUIRED, FORM_FREE, 0, 64, "by which rule; or the duty that it does not meet: approvals, signed_request"),
     HAS_TEXT("policy", REQUIRED, FORM_FREE, 0, 79, "of which policy; empty for a duty"))
PART(plan_runs, "runs that have not ended", HAS_COUNT("open", REQUIRED, "how many"),
     HAS_COUNT("stopping", REQUIRED, "that would stop"), HAS_LIST("rows", REQUIRED, 100, schema_plan_run, "these"))
PART(plan_exception, "an exception that does not fit", HAS_TEXT("exception", REQUIRED, FORM_FREE, 0, 0, "its id"),
     HAS_TEXT("policy", REQUIRED, FORM_FREE, 0, 64, "of which policy"), HAS_ID("project", REQUIRED, "for which project"),
     HAS_TEXT("why", REQUIRED, FORM_FREE, 1, 255, "why not"))
PART(plan_made, "what the proposed set would change", HAS_COUNT("v", REQUIRED, "1"),
     HAS_TIME("at", REQUIRED, "the moment of all decisions"),
     HAS_OBJECT("base", REQUIRED | NULLABLE, schema_plan_set, "the set in force; null: none is"),
     HAS_OBJECT("set", REQUIRED, schema_plan_set, "the proposed set"),
     HAS_OBJECT("log", REQUIRED, schema_plan_log, "where it looked"),
     HAS_OBJECT("requests", REQUIRED, schema_plan_requests, "numbers"),
     HAS_LIST("newly_denied", REQUIRED, 250, schema_plan_row, "the most frequent first"),
     HAS_LIST("newly_allowed", REQUIRED, 250, schema_plan_row, "the most frequent first"),
     HAS_LIST("undecided", REQUIRED, 250, schema_plan_doubt, "the most frequent first"),
     HAS_OBJECT("unplaceable", REQUIRED, schema_plan_places, "what could not stay where it is"),
     HAS_LIST("pins_lost", REQUIRED, 64, schema_plan_pin, "policies that content still needs"),
     HAS_OBJECT("inventory", REQUIRED, schema_plan_inventory, "what was there"),
     HAS_OBJECT("runs", REQUIRED, schema_plan_runs, "runs"),
     HAS_LIST("exceptions", REQUIRED, PLAN_EXCEPTIONS_MAX, schema_plan_exception, "that no longer fit"),
     HAS_TEXT("digest", REQUIRED, FORM_DIGEST, 71, 71, "of this plan: over the canonical JSON of all other members"))
SCHEMA(policy_plan, "a plan, and how far it is", HAS_OBJECT("job", REQUIRED, schema_job, "the job that makes it"),
       HAS_OBJECT("plan", OPTIONAL, schema_plan_made, "once it is made"))

/* ---- begin ---- */

/* The event names the digest of the proposed set, unless the request was denied before the body arrived. */
struct result target_policy_plan(struct request *request, struct lookup *lookup, struct error *err)
{
    struct resource *resource = api_pair(request, ACTION_POLICY_PLAN, RESOURCE_SYSTEM, "");
    const json_t *body = NULL;

    (void)lookup;
    if (request->body.length == 0) return SUCCESS;
    TRY(request_document(request, &body, err));
    const char *digest = json_text_of(json_object_get(body, "set"), "digest");
    if (digest != NULL) (void)snprintf(resource->detail, sizeof resource->detail, "%.71s", digest);
    return SUCCESS;
}

static struct result check_set(struct request *request, const json_t *document, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(POLICY_SET_BYTES_MAX);
    OWNED(policy_set) *set = NULL;
    OWNED(policy_set) *base = decider_policy_set(request->gateway->decider);

    TRY(json_write_canonical(&text, document, err));
    TRY(policy_set_compile(buffer_bytes(&text), &set, err));
    if (base == NULL || policy_set_epoch(set) > policy_set_epoch(base)) return SUCCESS;
    return failure(err, ERROR_CONFLICT, "the set in force has epoch %llu: a set that replaces it has a larger one",
                   (unsigned long long)policy_set_epoch(base));
}

static struct result start_plan(struct request *request, struct pg *pg, struct error *err)
{
    struct buffer OWNED_BUFFER input = BUFFER(PLAN_INPUT_MAX);
    int64_t days = PLAN_DAYS_DEFAULT;
    const json_t *body = NULL;

    (void)pg;
    TRY(request_document(request, &body, err));
    (void)json_integer_of(body, "days", &days);
    json_t *set = json_object_get(body, "set");
    TRY(check_set(request, set, err));
    OWNED_JSON asked = json_pack("{s:I, s:O}", "days", (json_int_t)days, "set", set);
    if (asked == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a plan");
    TRY(json_write_canonical(&input, asked, err));
    const struct job_wish wish = {.job = {.kind = JOB_PLAN}, .input = buffer_text(&input)};
    return job_begin_wished(request, &wish, err);
}

/* ---- read ---- */

struct result target_policy_plan_read(struct request *request, struct lookup *lookup, struct error *err)
{
    struct resource *resource = api_pair(request, ACTION_POLICY_PLAN, RESOURCE_SYSTEM, "");

    (void)lookup, (void)err;
    (void)snprintf(resource->detail, sizeof resource->detail, "%.36s", request->reference);
    return SUCCESS;
}

struct result target_policy_plan_stop(struct request *request, struct lookup *lookup, struct error *err)
{
    struct resource *resource = api_pair(request, ACTION_POLICY_STOP, RESOURCE_SYSTEM, "");

    (void)lookup, (void)err;
    (void)snprintf(resource->detail, sizeof resource->detail, "%.36s", request->reference);
    return SUCCESS;
}

static struct result stop_plan(struct request *request, struct pg *pg, struct error *err)
{
    (void)pg;
    return job_stop_wanted(request, true, err);
}

static struct result write_plan(const struct job_plan *plan, struct buffer *bytes, struct error *err)
{
    OWNED_JSON job = NULL;

    TRY(job_describe(&plan->job, &job, err));
    TRY(buffer_add_text(bytes, "{\"job\":", err));
    TRY(json_write_canonical(bytes, job, err));
    if (strcmp(plan->report, "{}") != 0) TRY(buffer_format(bytes, err, ",\"plan\":%s", plan->report));
    return buffer_add_text(bytes, "}", err);
}

static struct result fill_plan(struct request *request, struct pg *pg, struct buffer *bytes, struct error *err)
{
    struct job_plan plan = {.rows = NULL};
    struct uuid id;

    TRY(api_id(request, "plan", &id, err));
    TRY(job_find_plan(request->permit, pg, &id, &plan, err));
    const struct result written = write_plan(&plan, bytes, err);
    pg_rows_free(plan.rows);
    return written;
}

static struct result read_plan(struct request *request, struct pg *pg, struct error *err)
{
    static const struct api_large kind = {
        .what = "plans of policies", .type = "application/json", .maximum = PLAN_BYTES_MAX + 4096, .fill = fill_plan};

    TRY(api_answer_large(request, pg, &kind, err));
    if (request->response != NULL) response_header(request, "Cache-Control", "no-store");
    return SUCCESS;
}

const struct handler handler_policy_plan = {.handle = start_plan};
const struct handler handler_policy_plan_read = {.handle = read_plan};
const struct handler handler_policy_plan_stop = {.handle = stop_plan};
