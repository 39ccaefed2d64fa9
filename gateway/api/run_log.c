/* GET /api/v1/projects/{name}/runs/{reference}/log: reads the log of a run, and follows it. A reader that waits holds no worker. */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "authz/role.h"
#include "base/clock.h"
#include "base/text.h"
#include "gateway/api/run_log_priv.h"
#include "gateway/pipeline/pause.h"
#include "training/log.h"

#define WAIT_MAX_S 30
#define LOOK_MS    1000 /* how often a waiting reader looks: another gateway may have got a piece, or the run has ended */

bool run_log_argument(struct request *request, const char *name, uint64_t least, uint64_t most, uint64_t *value_out)
{
    const char *text = request_argument(request, name);
    char why[96];

    *value_out = 0;
    if (text == NULL || (text_to_u64(bytes_of_text(text), most, value_out) && *value_out >= least)) return true;
    (void)snprintf(why, sizeof why, "%s: a whole number from %" PRIu64 " to %" PRIu64 " is expected", name, least, most);
    response_problem(request, 400, "The request breaks a rule", why);
    return false;
}

void run_log_wake(struct request *request, const char *run)
{
    static _Atomic uint64_t rounds;

    (void)pause_wake(request->gateway, run, atomic_fetch_add(&rounds, 1) + 1, SIZE_MAX);
}

/* ---- who may read ---- */

struct result target_run_log(struct request *request, struct lookup *lookup, struct error *err)
{
    struct run_log_place place;
    struct uuid run;
    struct error why = {0};

    if (request->principal->kind == PRINCIPAL_NONE || !api_is_project_name(request->name)) {
        api_pair_of_project(request, ACTION_RUN_LOG);
        return SUCCESS;
    }
    TRY(api_id(request, "run", &run, err));
    const bool is_found = run_log_place_find(lookup, &run, &place, &why).ok;
    if (!is_found && why.kind != ERROR_NOT_FOUND) return failure(err, why.kind, "%s", why.message);
    if (!is_found || strcmp(place.project.name, request->name) != 0) {
        response_unknown(request);
        return SUCCESS;
    }
    struct resource *resource = api_pair(request, ACTION_RUN_LOG, RESOURCE_REPOSITORY, place.repository);
    uuid_format(&run, resource->detail);
    if (!uuid_equal(&resource->project, &place.project.project)) response_unknown(request); /* another project has the name now */
    return SUCCESS;
}

/* ---- reading ---- */

/* One request, also while it waits. */
struct following {
    int64_t until_ms; /* monotonic */
    struct run_log_query query;
    struct buffer bytes;
    char principal[PRINCIPAL_KEY_SIZE];
};

/* False: an answer was made. */
static bool read_arguments(struct request *request, struct following *following)
{
    uint64_t attempt = 0, node = 0, wait_s = 0;

    if (!run_log_argument(request, "attempt", 1, RUN_ATTEMPTS_MAX, &attempt) ||
        !run_log_argument(request, "node", 0, RUN_NODES_MAX - 1, &node) ||
        !run_log_argument(request, "offset", 0, INT64_MAX, &following->query.offset) ||
        !run_log_argument(request, "wait_s", 0, WAIT_MAX_S, &wait_s))
        return false;
    following->query.attempt = (int64_t)attempt;
    following->query.node = (int64_t)node;
    following->until_ms = clock_monotonic_ms() + 1000 * (int64_t)wait_s;
    return true;
}

/* The event of the first request covers the others of the same reader and run. */
static struct result note_reader(struct request *request, struct pg *pg, const struct following *following, struct error *err)
{
    struct run_log_reader change;
    bool is_known = false;

    TRY(run_log_reader_is_known(lookup_of(pg), &following->query.run, following->principal, &is_known, err));
    if (is_known) return SUCCESS;
    run_log_reader_prepare(&request->pairs[0].resource, &following->query.run, following->principal, &change);
    return request_record(request, &change.change, err);
}

static struct result begin(struct request *request, struct pg *pg, struct following **following_out, struct error *err)
{
    struct following *following = arena_take(request->arena, sizeof *following);

    *following_out = NULL;
    if (following == NULL) return failure(err, ERROR_NO_MEMORY, "no memory to read a log");
    *following = (struct following){.bytes = BUFFER(RUN_LOG_PIECE_MAX)};
    request->handler_state = following;
    if (!read_arguments(request, following)) return SUCCESS;
    TRY(api_id(request, "run", &following->query.run, err));
    principal_key(request->principal, following->principal);
    following->query.principal = following->principal;
    TRY(note_reader(request, pg, following, err));
    *following_out = following;
    return SUCCESS;
}

/* Rights, labels and policies may have changed while the request waited. */
static struct result check_again(struct request *request, struct error *err)
{
    bool may = false;

    TRY(api_may(request, &request->pairs[0], &may, err));
    if (may) return SUCCESS;
    TRY(request_record_denial(request, &request->pairs[0], err));
    return failure(err, ERROR_DENIED, "this log may not be read any more");
}

static void answer(struct request *request, const struct following *following, const struct run_log_view *view)
{
    const uint64_t end = following->query.offset + following->bytes.length;
    const bool is_whole = view->has_ended && end >= view->bytes;

    response_bytes(request, 200, "application/octet-stream", buffer_bytes(&following->bytes));
    response_header(request, "Sijil-Log-Attempt", "%" PRId64, view->attempt);
    response_header(request, "Sijil-Log-Offset", "%" PRIu64, following->query.offset);
    response_header(request, "Sijil-Log-Size", "%" PRIu64, view->bytes);
    response_header(request, "Sijil-Log-End", "%s", is_whole ? "true" : "false");
    response_header(request, "Sijil-Run-State", "%s", run_state_name(view->state));
    response_header(request, "Cache-Control", "no-store");
}

static void wait_for_more(struct request *request, const struct following *following)
{
    const int64_t left_ms = following->until_ms - clock_monotonic_ms();

    request_wait_for(request, request->reference, left_ms < LOOK_MS ? left_ms : LOOK_MS);
}

static struct result handle(struct request *request, struct pg *pg, struct error *err)
{
    struct following *following = request->handler_state;
    struct run_log_view view;

    if (following != NULL) TRY(check_again(request, err));
    else TRY(begin(request, pg, &following, err));
    if (following == NULL) return SUCCESS;
    request_listen(request, request->reference);
    TRY(run_log_read(request->gateway->registry, pg, &following->query, &view, &following->bytes, err));
    const bool has_time = clock_monotonic_ms() < following->until_ms && request_may_wait(request);
    if (view.is_gone && following->query.offset < view.bytes)
        response_problem(request, 410, "The log was removed",
                         "it was kept while the run went on, and for some days; a run that succeeded has its log as an artifact");
    else if (following->bytes.length == 0 && !view.has_ended && has_time) wait_for_more(request, following);
    else answer(request, following, &view);
    return SUCCESS;
}

static void release(struct request *request)
{
    struct following *following = request->handler_state;

    if (following != NULL) buffer_done(&following->bytes);
}

const struct handler handler_run_log = {.handle = handle, .release = release};
