/* GET /api/v1/projects/{name}/runs/{reference}/log/manifest: what the signed result names as the log. Its readers compare the log with it. */
#include "gateway/api/api_priv.h"
#include "gateway/api/run_log_priv.h"
#include "registry/held_manifest.h"
#include "training/log.h"

struct result target_run_log_manifest(struct request *request, struct lookup *lookup, struct error *err)
{
    return target_run_log(request, lookup, err);
}

static struct result handle(struct request *request, struct pg *pg, struct error *err)
{
    struct buffer OWNED_BUFFER body = BUFFER(MANIFEST_SIZE_MAX);
    struct held_key key = {.attempt = 0};
    uint64_t attempt = 0, node = 0;

    if (!run_log_argument(request, "attempt", 1, RUN_ATTEMPTS_MAX, &attempt) ||
        !run_log_argument(request, "node", 0, RUN_NODES_MAX - 1, &node))
        return SUCCESS;
    TRY(api_id(request, "run", &key.run, err));
    key.attempt = (int64_t)attempt;
    key.node = (int64_t)node;
    TRY(held_log_read(request->permit, request->gateway->registry, pg, &key, &body, err));
    response_buffer(request, 200, "application/json", &body, NULL);
    response_header(request, "Cache-Control", "no-store");
    return SUCCESS;
}

const struct handler handler_run_log_manifest = {.handle = handle};
