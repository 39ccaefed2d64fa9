/*
 * authz/entry_place.h -- the organisation that a signed document is for: the document has its name, and each load of the rights finds it.
 *
 * An organisation keeps its id, and a deleted one never comes back with it. So a place is noted once, by one of the threads that load a snapshot.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

#include "base/uuid.h"

struct entry_place {
    atomic_uint state;
    struct uuid organisation; /* nil: the registry; to be read through entry_place_is() */
};
/** `is_registry`: the place is known. */
void entry_place_init(struct entry_place *place, bool is_registry);
/** Also of an entry that others may be reading. */
void entry_place_note(const struct entry_place *place, const struct uuid *organisation);
/** Whether it was found, and is this one. */
bool entry_place_is(const struct entry_place *place, const struct uuid *organisation);
