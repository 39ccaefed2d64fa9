/*
 * storage/create.h -- creates the roles and the database, for a PostgreSQL that sijil runs itself (docs/database.md).
 */
#pragma once

#include "base/result.h"

/** Creates the roles sijil_owner and sijil_app and the database sijil, as far as they are missing. `conninfo` is of the
 *  superuser, to the database postgres. */
RESULT storage_create_database(const char *conninfo, struct error *err);
