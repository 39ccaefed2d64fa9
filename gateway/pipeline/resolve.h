/*
 * gateway/pipeline/resolve.h -- from the name in a request to what stands behind it, as far as the caller's rights reach.
 *
 * Looking something up takes longer for what is there than for what is not, or the other way round. So nothing is looked up
 * without a valid credential, and nothing but the snapshot in memory unless rights allow the caller what he asks. Target
 * functions use this and no other way (gateway/pipeline/handler.h).
 */
#pragma once

#include "gateway/pipeline/request.h"
#include "storage/lookup.h"

/** Ids and home region of resource->name, as the snapshot has them; nothing without a valid credential. The kind stays. */
void resolve_name(const struct request *request, struct resource *resource);

/** Do rights allow the caller this, whether or not it is there? The pair is as resolve_name() left it. */
bool resolve_allows(const struct request *request, const struct action_pair *pair);

/**
 * The id of the repository that a pair is for, if it is for one and rights allow the pair; else it stays nil. With lookup NULL
 * *is_later_out says that the database has to be asked, which wants a worker. ERROR_UNAVAILABLE.
 */
RESULT resolve_repository(const struct request *request, struct lookup *lookup, struct action_pair *pair, bool *is_later_out,
                          struct error *err);
/** The same for all that is to be decided. */
RESULT resolve_repositories(struct request *request, struct lookup *lookup, bool *is_later_out, struct error *err);
