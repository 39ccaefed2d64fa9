#include "authz/entry_place.h"

#include <sched.h>
#include <stdint.h>

enum { UNPLACED, PLACING, PLACED };

void entry_place_init(struct entry_place *place, bool is_registry)
{
    place->organisation = (struct uuid){{0}};
    atomic_init(&place->state, is_registry ? PLACED : UNPLACED);
}

void entry_place_note(const struct entry_place *place, const struct uuid *organisation)
{
    struct entry_place *shared = (struct entry_place *)(uintptr_t)place;
    unsigned expected = UNPLACED;

    if (atomic_compare_exchange_strong(&shared->state, &expected, PLACING)) {
        shared->organisation = *organisation;
        atomic_store(&shared->state, PLACED);
        return;
    }
    while (atomic_load(&shared->state) != PLACED) (void)sched_yield(); /* a copy of 16 bytes */
}

bool entry_place_is(const struct entry_place *place, const struct uuid *organisation)
{
    struct entry_place *shared = (struct entry_place *)(uintptr_t)place;

    return atomic_load(&shared->state) == PLACED && uuid_equal(&place->organisation, organisation);
}
