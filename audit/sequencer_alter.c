/* Counters that invalidate cached rows: each change raises the counter of the rows that it reaches. */
#include "audit/sequencer_priv.h"

/* Ids of repositories are random, so any of their bits serve as a hash. */
static size_t slot_of(const struct uuid *repository)
{
    return load_u32(repository->bytes) % ALTERATION_SLOTS;
}

void sequencer_note_all(struct sequencer *sequencer)
{
    atomic_fetch_add(&sequencer->altered, 1);
}

void sequencer_note_change(struct sequencer *sequencer, const struct change *change)
{
    switch (change->invalidates) {
    case CHANGE_INVALIDATES_ALL: sequencer_note_all(sequencer); return;
    case CHANGE_INVALIDATES_REPOSITORY: atomic_fetch_add(&sequencer->altered_slots[slot_of(&change->repository)], 1); return;
    case CHANGE_INVALIDATES_NOTHING: return;
    }
}

/* Both counters only grow, so an equal sum means equal counters. */
uint64_t sequencer_alterations(const struct sequencer *sequencer, const struct uuid *repository)
{
    return atomic_load(&sequencer->altered) + atomic_load(&sequencer->altered_slots[slot_of(repository)]);
}
