/* authz/history_priv.h -- what snapshot_store.c and history_store.c share: the columns of a binding. */
#pragma once

#include "authz/snapshot.h"

#define BINDING_COLUMNS                                                                                     \
    "binding_id, robot_id, coalesce(issuer, ''), coalesce(subject, ''), role, organisation_id, project_id," \
    " coalesce(pattern, ''), granted_by, expires_at, coalesce(giver, '')"
#define BINDING_TYPES "uuid uuid text text text uuid uuid text text timestamptz text"

/** A row of these columns. */
RESULT snapshot_read_binding(const struct pg_rows *rows, size_t row, struct authz_binding *binding, struct error *err);
