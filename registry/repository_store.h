/*
 * registry/repository_store.h -- the table `repository`.
 */
#pragma once

#include "audit/action.h"
#include "storage/lookup.h"
#include "storage/pg.h"

/** The path below the project: "digits" of "acme/models/digits"; "" if the name has no third segment. */
const char *repository_path(const char *name);
/** Nil if there is none. */
RESULT repository_find(struct lookup *lookup, const struct uuid *project, const char *path, struct uuid *repository_out,
                       struct error *err);
/** Finds it or makes it; for changes, which hold the log's lock, so that nobody makes the same one meanwhile. ERROR_DENIED: the project
 *  has `most` already. */
RESULT repository_ensure(struct pg *pg, const struct resource *where, unsigned most, struct uuid *repository_out,
                         struct error *err);
