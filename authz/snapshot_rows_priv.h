/* authz/snapshot_rows_priv.h -- reads rows of authz/snapshot_store.c. */
#pragma once

#include "authz/snapshot.h"

struct uuid snapshot_uuid_or_nil(const struct pg_rows *rows, size_t row, size_t column);
RESULT snapshot_read_robot(const struct pg_rows *rows, size_t row, struct authz_robot *robot, struct error *err);
RESULT snapshot_read_binding(const struct pg_rows *rows, size_t row, struct authz_binding *binding, struct error *err);
/** record->jwks points into the rows. */
void snapshot_read_issuer(const struct pg_rows *rows, size_t row, struct issuer_record *record);
