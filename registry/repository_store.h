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

/** Whether the rules of the repository's project make one of these tags immutable: a push under it is a promotion. */
RESULT repository_protects(struct lookup *lookup, const struct uuid *repository, const struct bytes *tags, size_t count,
                           bool *protects_out, struct error *err);
#define PROMOTION_BYTES_MIN   64   /* shorter blobs, such as empty configs, are everywhere, and say nothing */
#define PROMOTION_SOURCES_MAX 1000 /* that are looked at */
/** The names of repositories in other projects that have one of these blobs, and whose project had it before this one, the oldest first: one
 * text in each row. */
RESULT repository_sources(struct lookup *lookup, const struct uuid *project, const struct bytes *digests, size_t count,
                          struct pg_rows **rows_out, struct error *err);
