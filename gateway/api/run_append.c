/* POST /api/v1/runner/runs/{reference}/log: the holder of a lease adds a piece to the log of its run. */
#include <stdio.h>
#include <string.h>

#include "gateway/api/run_log_priv.h"
#include "gateway/api/runner_work_priv.h"
#include "gateway/pipeline/run_gate.h"
#include "training/content.h"
#include "training/log.h"
#include "training/unproven.h"

struct appending {
    struct run_holder holder;
    uint64_t offset;
};

/* False: an answer was made. */
static bool read_arguments(struct request *request, struct appending *appending)
{
    uint64_t attempt = 0, node = 0;

    appending->holder.key = request->runner->name;
    if (!run_log_argument(request, "attempt", 1, 100, &attempt) || !run_log_argument(request, "node", 0, 255, &node) ||
        !run_log_argument(request, "offset", 0, INT64_MAX, &appending->offset))
        return false;
    appending->holder.attempt = (int64_t)attempt;
    appending->holder.node = (int64_t)node;
    return true;
}

static void name_repository(struct request *request, const struct run_holder *holder, const struct run_held *held,
                            const struct run_envelope *order)
{
    struct resource *resource = api_pair(request, ACTION_RUN_APPEND, RESOURCE_REPOSITORY, run_first_output(order));

    runner_name_lease(holder, resource->detail);
    if (!uuid_equal(&resource->project, &held->where.project)) response_unknown(request); /* another project has the name now */
}

struct result target_run_append(struct request *request, struct lookup *lookup, struct error *err)
{
    struct appending appending = {.offset = 0};
    struct run_held held;
    OWNED(run_envelope) *order = NULL;
    struct error why = {0};

    if (api_asks_for_credential(request, ACTION_RUN_APPEND)) return SUCCESS;
    if (!read_arguments(request, &appending)) return SUCCESS;
    TRY(api_id(request, "run", &appending.holder.run, err));
    if (!run_held_find(lookup, &appending.holder, &held, &why).ok) {
        if (why.kind != ERROR_NOT_FOUND) return failure(err, why.kind, "%s", why.message);
        response_unknown(request);
        return SUCCESS;
    }
    TRY(run_order_find(lookup, &appending.holder.run, &order, err));
    name_repository(request, &appending.holder, &held, order);
    return SUCCESS;
}

/* The event of the first piece covers the others. */
static struct result begin_log(struct request *request, struct pg *pg, const struct run_holder *holder, struct error *err)
{
    OWNED(run_envelope) *order = NULL;
    struct run_log_begin change;
    uint64_t bytes = 0;
    int64_t ends_ms = 0;
    bool is_begun = false;

    TRY(run_log_find(lookup_of(pg), holder, &is_begun, &bytes, err));
    if (is_begun) return SUCCESS;
    TRY(run_lease_prove(request, pg, holder, &order, &ends_ms, err));
    run_log_begin_prepare(request->gateway->registry, &request->pairs[0].resource, holder, run_order_log_bytes(order), &change);
    return request_record(request, &change.change, err);
}

static struct result say_where(struct request *request, uint64_t bytes, struct error *err)
{
    OWNED_JSON where = json_pack("{s:I}", "offset", (json_int_t)bytes);

    if (where == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the answer");
    response_problem_with(request, 409, "The log goes on elsewhere", "the member offset says where the log ends", where);
    return SUCCESS;
}

static struct result handle(struct request *request, struct pg *pg, struct error *err)
{
    struct appending appending = {.offset = 0};
    struct run_held held;
    enum run_log_taken taken = RUN_LOG_ELSEWHERE;
    uint64_t bytes = 0;

    if (!read_arguments(request, &appending)) return SUCCESS;
    TRY(api_id(request, "run", &appending.holder.run, err));
    TRY(run_held_find(lookup_of(pg), &appending.holder, &held, err));
    TRY(runner_check_reporter(request, &held, err));
    if (!held.has_ended) TRY(run_lease_require(request, pg, &appending.holder, err));
    if (request->body.length == 0) return failure(err, ERROR_INVALID, "a piece of a log has 1 to %d bytes", RUN_LOG_PIECE_MAX);
    TRY(begin_log(request, pg, &appending.holder, err));
    const struct run_log_append append = {
        .where = &request->pairs[0].resource, .holder = &appending.holder, .offset = appending.offset, .bytes = request->body};
    TRY(run_log_append(request->gateway->registry, pg, &append, &taken, &bytes, err));
    if (taken == RUN_LOG_ELSEWHERE) return say_where(request, bytes, err);
    run_log_wake(request, request->reference);
    response_empty(request, 204);
    return SUCCESS;
}

const struct handler handler_run_append = {.handle = handle};
