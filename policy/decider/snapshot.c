#include <stdlib.h>

#include "authz/snapshot_load.h"
#include "base/clock.h"
#include "base/memory.h"
#include "policy/decider/metrics.h"
#include "policy/decider/snapshot_priv.h"

#define LOAD_TRIES 8 /* the load is repeated only if a policy set was replaced during it */

static struct result load_names(struct pg *pg, const struct snapshot *current, const struct changed_rights *changed,
                                struct snapshot *snapshot, struct error *err)
{
    if (current != NULL && !changed->is_whole && !changed->has_names) {
        snapshot->names = shared_names_keep(current->names);
    } else {
        TRY(shared_names_load(pg, changed->epoch, &snapshot->names, err));
    }
    snapshot->tenancy = snapshot->names->tenancy; /* a view: `names` owns the memory */
    return SUCCESS;
}

/* What is read before the transaction: sijil-keyd has pinned it. */
struct pinned {
    struct policy_set *set;
    const struct trust_rules *rules;
};

static const struct trust_rules *rules_of(const struct snapshot *snapshot)
{
    return snapshot == NULL ? NULL : authz_snapshot_rules(snapshot->authz);
}

static struct result load_rights(struct pg *pg, const struct pinned *pinned, const struct snapshot *current,
                                 const struct changed_rights *changed, struct snapshot *snapshot, struct error *err)
{
    const struct rights_change change = {changed->organisations, changed->count, current == NULL ? 0 : current->epoch};

    TRY(load_names(pg, current, changed, snapshot, err));
    metric_add(&policy_metrics_rows[current == NULL || changed->is_whole ? POLICY_METRIC_WHOLE : POLICY_METRIC_PARTS], 1);
    if (current == NULL || changed->is_whole) return authz_snapshot_load(pg, pinned->rules, &snapshot->authz, err);
    return authz_snapshot_renew(pg, current->authz, &change, &snapshot->authz, err);
}

static struct result load_restricted(const struct snapshot *current, struct snapshot *snapshot, struct error *err)
{
    if (current != NULL && current->set == snapshot->set && rules_of(current) == rules_of(snapshot)) {
        snapshot->restricted = restricted_keep(current->restricted);
        return SUCCESS;
    }
    return restricted_new(snapshot->set, rules_of(snapshot), current == NULL ? NULL : current->restricted, &snapshot->restricted,
                          err);
}

NO_LEAK_BEGIN /* its last holder frees it */
    static struct result
    load_changed(struct pg *pg, const struct pinned *pinned, const struct snapshot *current, const struct changed_rights *changed,
                 struct snapshot **snapshot_out, struct error *err)
{
    OWNED(snapshot) *snapshot = memory_zeroed(1, sizeof *snapshot);

    if (snapshot == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a snapshot");
    atomic_init(&snapshot->holders, 1);
    snapshot->epoch = changed->epoch;
    snapshot->set = policy_set_keep(pinned->set);
    TRY(load_rights(pg, pinned, current, changed, snapshot, err));
    TRY(load_restricted(current, snapshot, err));
    *snapshot_out = GIVE(snapshot);
    return SUCCESS;
}
NO_LEAK_END

struct bounds {
    uint64_t before; /* the epoch when the set and the rules were read */
    uint64_t least;  /* see snapshot_load() */
    bool is_partial; /* set and rules are those of the current snapshot */
};

/* Reads everything in one transaction. NULL if the set or a rule may have been replaced after it was read, or has to be read. */
static struct result load_moment(struct pg *pg, const struct pinned *pinned, struct bounds bounds, struct snapshot *current,
                                 struct snapshot **snapshot_out, struct error *err)
{
    struct changed_rights changed;

    TRY(tenancy_changed_rights(pg, current == NULL ? 0 : current->epoch, &changed, err));
    *snapshot_out = NULL;
    if (changed.whole_epoch > bounds.before) return SUCCESS;
    if (changed.epoch < bounds.least || rules_of(current) != pinned->rules) changed.is_whole = true;
    if (changed.is_whole && bounds.is_partial) return SUCCESS;
    if (!changed.is_whole && current != NULL && current->epoch == changed.epoch && current->set == pinned->set) {
        *snapshot_out = snapshot_keep(current);
        return SUCCESS;
    }
    return load_changed(pg, pinned, current, &changed, snapshot_out, err);
}

static struct result load_rules(const struct snapshot_source *source, const struct snapshot *current,
                                struct trust_rules **rules_out, struct error *err)
{
    const struct policy_set_source *set = source->set;
    const struct document_source documents = {set->pg, set->keyd, set->sequencer};

    if (source->documents == NULL) return SUCCESS;
    return trust_rules_load(source->documents, &documents, rules_of(current), rules_out, err);
}

static struct result load_in_transaction(struct pg *pg, const struct pinned *pinned, struct bounds bounds,
                                         struct snapshot *current, struct snapshot **snapshot_out, struct error *err)
{
    TRY(pg_begin_snapshot(pg, err));
    const struct result result = load_moment(pg, pinned, bounds, current, snapshot_out, err);
    pg_rollback(pg); /* nothing to commit */
    return result;
}

NO_LEAK_BEGIN /* its last holder frees it */
    /* NULL: more has changed than single roles, or nothing. */
    static struct result
    load_single_roles(struct pg *pg, const struct snapshot *current, uint64_t least, struct snapshot **snapshot_out,
                      struct error *err)
{
    OWNED(snapshot) *snapshot = memory_zeroed(1, sizeof *snapshot);

    if (snapshot == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a snapshot");
    atomic_init(&snapshot->holders, 1);
    TRY(authz_snapshot_add(pg, current->authz, current->epoch, &snapshot->epoch, &snapshot->authz, err));
    *snapshot_out = NULL;
    if (snapshot->epoch <= current->epoch || snapshot->epoch < least) return SUCCESS;
    snapshot->set = policy_set_keep(current->set);
    snapshot->restricted = restricted_keep(current->restricted);
    snapshot->names = shared_names_keep(current->names);
    snapshot->tenancy = snapshot->names->tenancy; /* a view: `names` owns the memory */
    metric_add(&policy_metrics_rows[POLICY_METRIC_PARTS], 1);
    *snapshot_out = GIVE(snapshot);
    return SUCCESS;
}
NO_LEAK_END

/* Set and rules were looked at a moment ago, and who replaces one raises the epoch of what may be anything: then NULL. */
static struct result load_partly(const struct snapshot_source *source, struct snapshot *current, uint64_t least,
                                 struct snapshot **snapshot_out, struct error *err)
{
    const struct pinned kept = {current->set, rules_of(current)};
    const struct bounds bounds = {.before = current->epoch, .least = least, .is_partial = true};

    if (current->epoch > 0) TRY(load_single_roles(source->set->pg, current, least, snapshot_out, err));
    if (*snapshot_out != NULL) return SUCCESS;
    return load_in_transaction(source->set->pg, &kept, bounds, current, snapshot_out, err);
}

static struct result load_once(const struct snapshot_source *source, struct snapshot *current, uint64_t least,
                               struct snapshot **snapshot_out, struct error *err)
{
    OWNED(policy_set) *set = NULL;
    OWNED(trust_rules) *rules = NULL;
    struct pg *pg = source->set->pg;
    struct bounds bounds = {.least = least};

    TRY(tenancy_epoch(pg, &bounds.before, err));
    TRY(policy_set_load(source->set, current == NULL ? NULL : current->set, &set, err));
    TRY(load_rules(source, current, &rules, err));
    const struct pinned pinned = {set, rules};
    return load_in_transaction(pg, &pinned, bounds, current, snapshot_out, err);
}

struct result snapshot_load(const struct snapshot_source *source, struct snapshot *current, uint64_t least,
                            struct snapshot **snapshot_out, struct error *err)
{
    struct snapshot *loaded = NULL;

    if (source->looked_ms > 0 && current != NULL) TRY(load_partly(source, current, least, &loaded, err));
    if (loaded != NULL) {
        if (loaded != current) atomic_store(&loaded->checked_ms, source->looked_ms);
        *snapshot_out = loaded;
        return SUCCESS;
    }
    for (unsigned i = 0; i < LOAD_TRIES; i++) {
        const int64_t started_ms = clock_monotonic_ms();

        TRY(load_once(source, current, least, &loaded, err));
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
    restricted_free(snapshot->restricted);
    policy_set_free(snapshot->set);
    shared_names_free(snapshot->names);
    free(snapshot);
}
