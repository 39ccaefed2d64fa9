#include <stdlib.h>

#include "base/clock.h"
#include "base/memory.h"
#include "policy/snapshot_priv.h"

#define LOAD_TRIES 8 /* changes are far apart; a registry that changes faster than it can be read is overloaded */

static struct result load_rights(const struct policy_set_source *source, struct snapshot *snapshot, struct error *err)
{
    TRY(tenancy_load(source->pg, &snapshot->tenancy, err));
    return authz_snapshot_load(source->pg, &snapshot->authz, err);
}

NO_LEAK_BEGIN /* its last holder frees it */
/* One try; *is_whole_out is false if something changed meanwhile. */
static struct result load_once(const struct policy_set_source *source, struct policy_set *set, uint64_t epoch,
                               struct snapshot **snapshot_out, struct error *err)
{
    OWNED(snapshot) *snapshot = memory_zeroed(1, sizeof *snapshot);
    uint64_t after = 0;

    if (snapshot == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a snapshot");
    atomic_init(&snapshot->holders, 1);
    snapshot->epoch = epoch;
    snapshot->set = policy_set_keep(set);
    TRY(load_rights(source, snapshot, err));
    TRY(tenancy_epoch(source->pg, &after, err));
    *snapshot_out = after == epoch ? GIVE(snapshot) : NULL;
    return SUCCESS;
}
NO_LEAK_END

struct result snapshot_load(const struct policy_set_source *source, struct snapshot *current,
                            struct snapshot **snapshot_out, struct error *err)
{
    for (unsigned i = 0; i < LOAD_TRIES; i++) {
        OWNED(policy_set) *set = NULL;
        struct snapshot *loaded = NULL;
        uint64_t epoch = 0;
        const int64_t started_ms = clock_monotonic_ms();

        TRY(tenancy_epoch(source->pg, &epoch, err));
        TRY(policy_set_load(source, current == NULL ? NULL : current->set, &set, err));
        if (current != NULL && current->epoch == epoch && current->set == set)
            loaded = snapshot_keep(current);
        else
            TRY(load_once(source, set, epoch, &loaded, err));
        if (loaded == NULL) continue;
        atomic_store(&loaded->checked_ms, started_ms);
        *snapshot_out = loaded;
        return SUCCESS;
    }
    return failure(err, ERROR_UNAVAILABLE, "rights changed %d times while they were read", LOAD_TRIES);
}

struct snapshot *snapshot_keep(struct snapshot *snapshot)
{
    (void)atomic_fetch_add(&snapshot->holders, 1);
    return snapshot;
}

void snapshot_free(struct snapshot *snapshot)
{
    if (snapshot == NULL || atomic_fetch_sub(&snapshot->holders, 1) != 1) return;
    authz_snapshot_free(snapshot->authz);
    policy_set_free(snapshot->set);
    tenancy_done(&snapshot->tenancy);
    free(snapshot);
}
