/*
 * gateway/api/api_priv.h -- what the handlers of /api/v1 share (docs/api.md): bodies, pages, names.
 */
#pragma once

#include "gateway/pipeline/gateway.h"
#include "gateway/pipeline/handler.h"

#define API_BODY_MAX      ((size_t)64 << 10) /* every body of /api/v1 but policy sets, as in gateway/routes.def */
#define API_LIMIT_DEFAULT 100
#define API_LIMIT_MAX     1000

/** The gathered body as one JSON object. ERROR_INVALID, ERROR_LIMIT. The caller owns *body_out. */
RESULT api_body(const struct request *request, json_t **body_out, struct error *err);

/** json_unpack() of a body that has the members of `format` and no others. ERROR_INVALID, ERROR_NO_MEMORY. */
RESULT api_unpack(json_t *body, struct error *err, const char *format, ...);

/** "acme/models": exactly two names. */
bool api_is_project_name(const char *name);

/** `limit` and `after` of a list; false and 400 when the limit is none. *after_out is "" for the start. */
bool api_page(struct request *request, unsigned *limit_out, const char **after_out);

/** One pair for the decision: `name` as it stands, ids and region as the snapshot has them. */
struct resource *api_pair(struct request *request, enum action action, enum resource_kind kind, const char *name);

/** The same for the project that the path names; nothing is found when that is no name of one. */
void api_pair_of_project(struct request *request, enum action action);

/**
 * One pair for what the path names by its id. `find` says where that belongs; one that is not there is decided on as if its
 * organisation were not there, so that others learn nothing. The name of the place is looked up only for callers that may know.
 */
void api_pair_of_id(struct request *request, enum action action,
                    bool (*find)(struct decider *decider, const struct uuid *id, struct resource *resource_out));

/**
 * For targets that read the body: true without a credential, because then no body was gathered. The pair that asks
 * for one (on the system) is added.
 */
bool api_asks_for_credential(struct request *request, enum action action);

/**
 * After a proof failed: true if the event is only not signed yet, which takes a second. The handler then returns success, and is called
 * once more a little later.
 */
bool api_proves_later(struct request *request, struct pg *pg, const struct error *err);

/** `member` in RFC 3339; a time that is 0 is none, and left out. False: memory is out. */
bool api_set_time(json_t *object, const char *member, int64_t wall_ms);

/** Would the caller be allowed this? For lists that show only what may be seen; records nothing. */
RESULT api_may(const struct request *request, const struct action_pair *pair, bool *may_out, struct error *err);
