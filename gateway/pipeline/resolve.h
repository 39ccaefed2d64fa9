/*
 * gateway/pipeline/resolve.h -- from the names in a request to ids, as far as the caller's rights allow.
 *
 * A look-up takes a different time for a thing that exists and for one that does not. So a request without a valid credential looks up
 * nothing; until rights allow the request, only the snapshot in memory is read. Target functions look up through this header only
 * (gateway/pipeline/handler.h).
 */
#pragma once

#include "gateway/pipeline/request.h"
#include "storage/lookup.h"

/** Sets ids and home region of resource->name from the snapshot; sets nothing without a valid credential. The kind stays. */
void resolve_name(const struct request *request, struct resource *resource);

/** Whether rights allow the pair, existing or not. The pair is as resolve_name() left it. */
bool resolve_allows(const struct request *request, const struct action_pair *pair);

/**
 * Sets the id of the pair's repository, if the pair is for one and rights allow it; else the id stays nil. With lookup NULL,
 * *is_later_out says that the database must be asked, on a worker. ERROR_UNAVAILABLE.
 */
RESULT resolve_repository(const struct request *request, struct lookup *lookup, struct action_pair *pair, bool *is_later_out,
                          struct error *err);
/** The same for all pairs of the request. */
RESULT resolve_repositories(struct request *request, struct lookup *lookup, bool *is_later_out, struct error *err);

/**
 * Fills in the ids of the repository that the request names. Only for a run whose order, which sijil-keyd has signed, names it: so the run may
 * know of it (gateway/pipeline/run_gate.h).
 */
RESULT resolve_for_run(const struct request *request, struct lookup *lookup, struct resource *resource, struct error *err);
