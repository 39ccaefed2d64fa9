/*
 * registry/upload/abandoned_store.h -- the table `abandoned_object`: objects without a row of a blob or a session, whose bytes a sweep removes.
 */
#pragma once

#include "registry/registry.h"
#include "storage/pg.h"

struct abandoned_object {
    struct uuid blob;
    char region[REGION_ID_MAX + 1];
};
struct abandoned_query {
    const char *region;
    size_t skipped, capacity; /* so many of the oldest are left out */
};
/** At most `capacity` objects of the region whose bytes may go, the oldest first. */
RESULT abandoned_list(struct pg *pg, const struct abandoned_query *query, struct abandoned_object *objects_out,
                      size_t *count_out, struct error *err);
/** Its row is gone: the bytes may go. */
RESULT abandoned_insert(struct pg *pg, const struct uuid *blob, const char *region, struct error *err);
/** Has an object that is about to be written removed after a day, unless a commit takes it. */
RESULT abandoned_reserve(struct pg *pg, const struct uuid *blob, const char *region, struct error *err);
/** Its bytes are gone. */
RESULT abandoned_forget(struct pg *pg, const struct uuid *blob, struct error *err);

/** One gateway tidies at a time; the connection holds the lock until tidy_unlock(), or until it breaks. */
RESULT tidy_lock(struct pg *pg, bool *is_ours_out, struct error *err);
RESULT tidy_unlock(struct pg *pg, struct error *err);
