/* POST /api/v1/runner/queue: which runs a scheduler has jobs started for (docs/slurm.md). It gets no order, and leases nothing. */
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "gateway/api/runner_work_priv.h"
#include "policy/decider/decider.h"
#include "training/format/spec.h"

SCHEMA(queue_wanted, "which runs a scheduler asks for",
       HAS_TEXT("session", REQUIRED, FORM_FREE, 2 * RUN_SESSION_SIZE, 2 * RUN_SESSION_SIZE,
                "32 hex digits, chosen at random when it starts"),
       HAS_COUNT("generation", REQUIRED, "of its journal: it rises at each start"),
       HAS_TEXTS("regions", REQUIRED, 1, RUN_QUEUE_REGIONS_MAX, NULL, "where its nodes are"))
PART(queued_run, "a run, as far as a scheduler must know it", HAS_ID("run", REQUIRED, "the run"),
     HAS_NUMBER("attempt", REQUIRED, 1, 100, "that runs, or that comes next"),
     HAS_FLAG("held", REQUIRED, "runners of nodes have it; else it waits for them"),
     HAS_NUMBER("nodes", REQUIRED, 1, 256, "so many nodes"), HAS_NUMBER("cpus", REQUIRED, 1, 4096, "processors of each node"),
     HAS_COUNT("memory_bytes", REQUIRED, "memory of each node"), HAS_COUNT("time_s", REQUIRED, "for the program, with its grace"),
     HAS_NUMBER("devices", REQUIRED, 0, 64, "of each node"),
     HAS_TEXT("device_type", OPTIONAL, FORM_FREE, 1, 63, "of these devices"),
     HAS_TEXTS("regions", REQUIRED, 1, RUN_QUEUE_REGIONS_MAX, NULL, "where it may be, of those that were asked for"))
SCHEMA(queue, "the runs of a scheduler's pool that wait for runners, or that runners hold",
       HAS_LIST("runs", REQUIRED, RUN_QUEUE_MAX, schema_queued_run, "the oldest first"),
       HAS_FLAG("more", REQUIRED, "there are more"))

struct result target_runner_queue(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup;
    return runner_target_ask(request, err);
}

/* ---- what the place of the scheduler may know ---- */

struct listing {
    struct request *request;
    json_t *runs;
    bool is_shown; /* the run that is looked at */
};

static struct result check_artifact(struct listing *listing, const json_t *artifact, struct error *err)
{
    const struct request *request = listing->request;
    const char *repository = json_text_of(artifact, "repository");
    bool shows = true;

    if (!listing->is_shown) return SUCCESS;
    TRY(decider_shows(request->gateway->decider, repository, request->runner->key.region, clock_wall_ms(), &shows, err));
    listing->is_shown = shows;
    return SUCCESS;
}

static struct result check_list(struct listing *listing, const json_t *list, struct error *err)
{
    for (size_t i = 0; i < json_array_size(list); i++) TRY(check_artifact(listing, json_array_get(list, i), err));
    return SUCCESS;
}

/* `metadata` for each repository of the order, in the region of the scheduler's document. */
static struct result check_order(struct listing *listing, const char *text, struct error *err)
{
    OWNED(run_envelope) *order = NULL;

    TRY(run_envelope_read(bytes_of_text(text), RUN_ORDER, &order, err));
    listing->is_shown = true;
    const struct run_artifacts artifacts = run_spec_artifacts(run_member(order, "spec"));
    for (size_t i = 0; i < artifacts.count; i++) TRY(check_artifact(listing, artifacts.each[i].json, err));
    return check_list(listing, run_member(order, "spec.outputs"), err);
}

/* ---- the list ---- */

static json_t *list_words(const char *words)
{
    struct bytes left = bytes_of_text(words);
    OWNED_JSON list = json_array();

    while (list != NULL && left.length > 0) {
        const struct bytes word = text_cut(&left, ' ');
        if (json_array_append_new(list, json_stringn((const char *)word.data, word.length)) != 0) return NULL;
    }
    return GIVE(list);
}

static struct result append(void *context, const struct run_queued *queued, struct error *err)
{
    struct listing *listing = context;
    char run[UUID_TEXT_SIZE];

    TRY(check_order(listing, queued->order, err));
    if (!listing->is_shown) return SUCCESS;
    uuid_format(&queued->run, run);
    json_t *value = json_pack(
        "{s:s s:I s:b s:I s:I s:I s:I s:I s:s* s:o}", "run", run, "attempt", (json_int_t)queued->attempt, "held", queued->is_held,
        "nodes", (json_int_t)queued->nodes, "cpus", (json_int_t)queued->cpus, "memory_bytes", (json_int_t)queued->memory_bytes,
        "time_s", (json_int_t)queued->time_s, "devices", (json_int_t)queued->devices, "device_type",
        queued->device_type[0] == '\0' ? NULL : queued->device_type, "regions", list_words(queued->regions));
    return json_array_append_new(listing->runs, value) == 0 ? SUCCESS : failure(err, ERROR_NO_MEMORY, "no memory for a list");
}

static struct result visit(struct request *request, struct pg *pg, struct listing *listing, bool *more_out, struct error *err)
{
    const struct enrolled_runner *runner = request->runner;
    const struct resource *scope = &request->pairs[0].resource;
    struct run_queue_query query = {.organisation = runner->scope[0] == '\0' ? NULL : &request->principal->organisation,
                                    .project = scope->kind == RESOURCE_PROJECT ? &scope->project : NULL,
                                    .pool = runner->key.pool,
                                    .visit = append,
                                    .context = listing};
    const json_t *body = NULL;

    TRY(request_document(request, &body, err));
    const json_t *regions = json_object_get(body, "regions");
    for (; query.region_count < json_array_size(regions); query.region_count++)
        query.regions[query.region_count] = bytes_of_text(json_string_value(json_array_get(regions, query.region_count)));
    TRY(run_offer_note_queue(pg, runner->name, &query, err));
    return run_queue_visit(lookup_of(pg), &query, more_out, err);
}

static struct result answer(struct request *request, struct pg *pg, struct error *err)
{
    OWNED_JSON runs = json_array();
    struct listing listing = {.request = request, .runs = runs};
    bool more = false;

    if (runs == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a list");
    TRY(visit(request, pg, &listing, &more, err));
    OWNED_JSON value = json_pack("{s:O s:b}", "runs", runs, "more", more);
    if (value == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a list");
    response_json(request, 200, value);
    return SUCCESS;
}

static struct result handle(struct request *request, struct pg *pg, struct error *err)
{
    struct run_session session = {.key = request->runner->name, .runner = request->runner->key.runner};
    const json_t *body = NULL;

    TRY(request_document(request, &body, err));
    (void)json_integer_of(body, "generation", &session.generation);
    TRY(runner_read_session(json_text_of(body, "session"), "session", session.session, err));
    TRY(runner_check_session(request, pg, &session, false, err));
    return request->response != NULL ? SUCCESS : answer(request, pg, err);
}

const struct handler handler_runner_queue = {.handle = handle};
