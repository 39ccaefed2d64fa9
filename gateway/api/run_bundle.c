/* GET /api/v1/projects/{name}/runs/{reference}/bundle: a whole run for verifiers (docs/formats/run.md, "Bundle"). */
#include "gateway/api/run_priv.h"
#include "gateway/api/runner_work_priv.h"

struct result target_run_bundle(struct request *request, struct lookup *lookup, struct error *err)
{
    return target_run_read(request, lookup, err);
}

static struct result handle(struct request *request, struct pg *pg, struct error *err)
{
    struct run_bundle_query query = {.papers = {.action = ACTION_RUN_READ, .last = RUN_ADMISSION}, .is_whole = true};
    struct signed_checkpoint published;
    struct run run;

    if (bundle_answer_new(request) == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a bundle");
    TRY(api_id(request, "run", &query.papers.run, err));
    TRY(run_find(request->permit, pg, ACTION_RUN_READ, &query.papers.run, &run, err));
    TRY(api_newest(request, 0, &published, err)); /* with witnesses: the newest that they have cosigned */
    query.published = &published;
    return bundle_answer(request, pg, &query, err);
}

const struct handler handler_run_bundle = {.handle = handle, .release = bundle_release};
