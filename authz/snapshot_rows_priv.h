/* authz/snapshot_rows_priv.h -- rows of robots, bindings and issuers, and the columns of a binding. */
#pragma once

#include "authz/snapshot.h"

#define BINDING_COLUMNS                                                                                     \
    "binding_id, robot_id, coalesce(issuer, ''), coalesce(subject, ''), role, organisation_id, project_id," \
    " coalesce(pattern, ''), granted_by, expires_at, coalesce(giver, ''), coalesce(giver_issuer, ''),"      \
    " coalesce(expires_at - created_at < interval '7 days', false)"
#define BINDING_TYPES "uuid uuid text text text uuid uuid text text timestamptz text text bool"
#define BINDING_WIDTH 13 /* columns */

struct uuid snapshot_uuid_or_nil(const struct pg_rows *rows, size_t row, size_t column);
RESULT snapshot_read_robot(const struct pg_rows *rows, size_t row, struct authz_robot *robot, struct error *err);
/** A row of BINDING_COLUMNS. */
RESULT snapshot_read_binding(const struct pg_rows *rows, size_t row, struct authz_binding *binding, struct error *err);
/** record->jwks points into the rows. */
void snapshot_read_issuer(const struct pg_rows *rows, size_t row, struct issuer_record *record);
