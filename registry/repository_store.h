/*
 * registry/repository_store.h -- the table `repository`.
 */
#pragma once

#include "audit/action.h"
#include "storage/lookup.h"
#include "storage/pg.h"

/** The path below the project: "digits" of "acme/models/digits"; "" if the name has no third segment. */
const char *repository_path(const char *name);
/** *repository_out is nil if there is none. */
RESULT repository_find(struct lookup *lookup, const struct uuid *project, const char *path, struct uuid *repository_out,
                       struct error *err);
/**
 * Finds or makes it. For changes only: they hold the log's lock, so no other process makes the same one at the same
 * time. ERROR_DENIED: the project has `most` repositories already.
 */
RESULT repository_ensure(struct pg *pg, const struct resource *where, unsigned most, struct uuid *repository_out,
                         struct error *err);
