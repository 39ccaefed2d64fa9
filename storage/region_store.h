/*
 * storage/region_store.h -- the table `region`.
 */
#pragma once

#include "storage/pg.h"
#include "storage/region.h"

/** "fs", "s3", "memory". */
const char *region_driver_name(enum region_driver driver);

/** The statements of the functions below, for pg_open(). */
/* NOLINTNEXTLINE(readability-redundant-declaration): registry/registry.h names it for the folders that may not see this one */
extern const struct pg_table region_store_table;

/** All regions by id. The caller frees *regions_out with free(). */
RESULT region_list(struct pg *pg, struct region **regions_out, size_t *count_out, struct error *err);
/** ERROR_NOT_FOUND. */
RESULT region_find(struct pg *pg, const char *id, struct region *region_out, struct error *err);
/** Ignores `region->tag`: the database derives it from the id. ERROR_CONFLICT if the id exists. */
RESULT region_insert(struct pg *pg, const struct region *region, struct error *err);
