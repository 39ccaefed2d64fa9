/* Runs that the clock begins. */
#include <stdio.h>

#include "registry/collect_priv.h"

static struct result begin(struct registry *registry, struct error *err)
{
    struct action_pair pair = {.action = ACTION_STORAGE_COLLECT, .resource.kind = RESOURCE_SYSTEM};
    struct collection_request request;
    struct record record;

    TRY(collection_request_prepare(&pair.resource, false, NULL, &request, err));
    uuid_format(&request.collection, pair.resource.detail);
    request.where = pair.resource;
    TRY(record_prepare_for_job(&pair, &request.change, &record, err));
    sequencer_submit_and_wait(registry->sequencer, &record);
    const enum record_status status = record.status;
    const struct error why = record.error;
    record_done(&record);
    if (status == RECORD_DONE || (status == RECORD_REFUSED && why.kind == ERROR_CONFLICT)) return SUCCESS;
    return failure(err, ERROR_UNAVAILABLE, "a collection can't be recorded: %.180s", why.message);
}

struct result collection_begin_if_due(struct registry *registry, struct pg *pg, int64_t interval_s, struct error *err)
{
    bool is_due = false;

    TRY(collection_is_due(pg, interval_s, &is_due, err));
    return is_due ? begin(registry, err) : SUCCESS;
}
