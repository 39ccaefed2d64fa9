/*
 * registry/upload/abandoned_store.h -- the table `abandoned_object`: objects without the row of a blob or a session.
 * A sweep removes their bytes.
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
    size_t skipped, capacity; /* skipped: how many of the oldest objects are left out */
};
/** At most `capacity` objects of the region whose bytes may be removed, the oldest first. */
RESULT abandoned_list(struct pg *pg, const struct abandoned_query *query, struct abandoned_object *objects_out, size_t *count_out,
                      struct error *err);
/** For an object whose row was deleted: its bytes may be removed. */
RESULT abandoned_insert(struct pg *pg, const struct uuid *blob, const char *region, struct error *err);
/** For an object before it is written: it is removed after a day, unless a commit uses it. */
RESULT abandoned_reserve(struct pg *pg, const struct uuid *blob, const char *region, struct error *err);
/** Deletes the row, after the bytes were removed. */
RESULT abandoned_forget(struct pg *pg, const struct uuid *blob, struct error *err);
/** Removes the bytes of such an object, and its row. False if that fails; registry_clean_up() tries again. */
bool upload_sweep(struct registry *registry, struct pg *pg, const struct abandoned_object *object);

/** A lock, so that one gateway cleans up at a time. The connection holds it until clean_up_unlock(), or until it breaks. */
RESULT clean_up_lock(struct pg *pg, bool *is_ours_out, struct error *err);
RESULT clean_up_unlock(struct pg *pg, struct error *err);
