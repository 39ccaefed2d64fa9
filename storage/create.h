/*
 * storage/create.h -- the roles and the database, where sijil runs PostgreSQL itself (docs/database.md).
 */
#pragma once

#include "base/result.h"

/** Makes the roles sijil_owner and sijil_app and the database sijil, as far as they are missing. `conninfo` is of
 *  the superuser, to the database postgres. */
RESULT storage_create_database(const char *conninfo, struct error *err);
