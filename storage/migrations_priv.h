/*
 * storage/migrations_priv.h -- the files of migrations/ as they were when the program was built.
 *
 * Written by cmake/SijilMigrations.cmake; the table ends with a NULL name.
 */
#pragma once

#include "storage/migrate.h"

extern const struct migration storage_migrations[];
