/*
 * registry/quota_store.h -- the tables `project_quota` and `project_events`.
 *
 * Statements that add or remove content update project_quota themselves.
 */
#pragma once

#include "registry/quota.h"

/** ERROR_DENIED with a message: `project` has no room for so many bytes. Reads the figures from the database. */
RESULT quota_refuse(struct pg *pg, const struct uuid *project, int64_t wanted_bytes, struct error *err);
/** The same without figures. */
RESULT quota_is_used_up(struct error *err);
/** A session that could not begin. */
struct wanted_session {
    const struct uuid *project;
    const uint8_t *bound_to; /* SHA256_SIZE bytes: the owner's */
    const struct session_limits *limits;
};
/** Why it can't begin: ERROR_LIMIT names the reached limit, the project's or the client's; ERROR_DENIED, ERROR_NOT_FOUND. */
RESULT quota_refuse_session(struct pg *pg, const struct wanted_session *wanted, struct error *err);
