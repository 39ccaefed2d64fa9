/* POST /api/v1/runner/runs/{reference}/checkpoint: the holder of a lease keeps a checkpoint of its run (docs/runs.md, "Checkpoints"). */
#include <stdio.h>
#include <string.h>

#include "gateway/api/run_log_priv.h"
#include "gateway/api/runner_work_priv.h"
#include "gateway/pipeline/resolve.h"
#include "gateway/pipeline/run_gate.h"
#include "policy/decider/decider.h"
#include "training/checkpoint.h"
#include "training/content.h"
#include "training/label_stated.h"
#include "training/unproven.h"

struct keeping {
    struct run_holder holder;
    struct manifest_push push;
    struct manifest *manifest; /* owned */
    struct run_checkpoint change;
};

/* False: an answer was made. */
static bool read_arguments(struct request *request, struct run_holder *holder)
{
    uint64_t attempt = 0;

    holder->key = request->runner->name;
    if (!run_log_argument(request, "attempt", 1, 100, &attempt)) return false;
    holder->attempt = (int64_t)attempt; /* the first node alone has checkpoints, as it alone has outputs */
    return true;
}

struct result target_run_checkpoint(struct request *request, struct lookup *lookup, struct error *err)
{
    struct run_holder holder = {.node = 0};
    struct run_held held;
    OWNED(run_envelope) *order = NULL;
    struct error why = {0};

    if (api_asks_for_credential(request, ACTION_RUN_CHECKPOINT)) return SUCCESS;
    if (!read_arguments(request, &holder)) return SUCCESS;
    TRY(api_id(request, "run", &holder.run, err));
    if (!run_held_find(lookup, &holder, &held, &why).ok) {
        if (why.kind != ERROR_NOT_FOUND) return failure(err, why.kind, "%s", why.message);
        response_unknown(request);
        return SUCCESS;
    }
    TRY(run_order_find(lookup, &holder.run, &order, err));
    struct resource *resource = api_pair(request, ACTION_RUN_CHECKPOINT, RESOURCE_REPOSITORY, run_first_output(order));
    runner_name_lease(&holder, resource->detail);
    if (!uuid_equal(&resource->project, &held.where.project)) response_unknown(request); /* another project has the name now */
    return SUCCESS;
}

/* Nobody can pull a checkpoint, so what the names give is enough here: the run that continues reads what the manifest states. */
static struct result check_label(struct request *request, const struct run_envelope *order, const struct manifest *manifest,
                                 struct error *err)
{
    const struct run_floor_query query = {ACTION_RUN_CHECKPOINT, order, run_time(order, "not_before")};
    OWNED(run_floor) *floor = NULL;

    TRY(run_floor_of_names(request->gateway->decider, &query, &floor, err));
    return run_floor_check(floor, "the checkpoint", manifest->label, err);
}

static struct result check(struct request *request, struct pg *pg, struct keeping *keeping, struct error *err)
{
    const struct digest digest = digest_of(DIGEST_SHA256, request->body);
    OWNED(run_envelope) *order = NULL;
    int64_t ends_ms = 0;

    TRY(run_lease_prove(request, pg, &keeping->holder, &order, &ends_ms, err));
    TRY(manifest_parse(request->body, (struct bytes){0}, &keeping->manifest, err));
    TRY(run_checkpoint_check(keeping->manifest, request->body, run_order_checkpoint_max(order), err));
    TRY(check_label(request, order, keeping->manifest, err));
    keeping->push.manifest = keeping->manifest;
    keeping->push.run = &keeping->holder.run;
    digest_format(&digest, keeping->push.digest);
    return SUCCESS;
}

/* The upload of its blobs has made the repository. */
static struct result keep(struct request *request, struct pg *pg, struct keeping *keeping, struct error *err)
{
    struct registry *registry = request->gateway->registry;
    struct resource where = request->pairs[0].resource;

    resolve_name(request, &where);
    TRY(registry_resolve(registry, lookup_of(pg), decider_names_version(request->gateway->decider), &where, err));
    TRY(manifest_push_prepare(registry, pg, &where, request->body, &keeping->push, err));
    run_checkpoint_prepare(&request->pairs[0].resource, &keeping->holder, &keeping->push, &keeping->change);
    const struct result kept = request_record(request, &keeping->change.change, err);
    manifest_push_done(&keeping->push);
    return kept;
}

static struct result handle(struct request *request, struct pg *pg, struct error *err)
{
    struct keeping *keeping = arena_take(request->arena, sizeof *keeping);
    struct run_held held;

    if (keeping == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a checkpoint");
    *keeping = (struct keeping){.manifest = NULL};
    if (!read_arguments(request, &keeping->holder)) return SUCCESS;
    TRY(api_id(request, "run", &keeping->holder.run, err));
    TRY(run_held_find(lookup_of(pg), &keeping->holder, &held, err));
    TRY(runner_check_reporter(request, &held, err));
    struct result done = check(request, pg, keeping, err);
    if (done.ok) done = keep(request, pg, keeping, err);
    manifest_free(keeping->manifest);
    TRY(done);
    response_empty(request, 204);
    return SUCCESS;
}

const struct handler handler_run_checkpoint = {.handle = handle};
