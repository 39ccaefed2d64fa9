/*
 * policy/snapshot_priv.h -- everything that requests are decided from, at one authorization epoch.
 *
 * Immutable once loaded; only the time of its last check changes. Shared: keep and free.
 */
#pragma once

#include <stdatomic.h>

#include "authz/snapshot.h"
#include "policy/label.h"
#include "policy/set_load.h"

/** What an organisation, project or repository asks for itself; only stated ones are in memory. */
struct floor_label {
    json_t *json;
    struct label label;
    bool has_lineage;
};

struct tenant_organisation {
    struct uuid id;
    char name[64];
    struct floor_label *floor; /* NULL: states nothing */
};

struct tenant_project {
    struct uuid id, organisation;
    char name[128];            /* "acme/models": two names of 63 */
    char home_region[REGION_ID_MAX + 1];
    struct floor_label *floor;
};

#define STORED_FLOORS_MAX 4096 /* each was in a set that was replaced: 64 policies of as many sets */

/** Of repositories only those that have a label of their own. */
struct tenant_repository {
    struct uuid id;
    char name[RESOURCE_NAME_MAX + 1];
    struct floor_label *floor;
};

/** What a repository was labelled with under a policy of an earlier set; one or more for a name. */
struct tenant_stored {
    const char *name;                  /* a view of the rows */
    const struct stored_floor *floor;
};
struct stored_floor {
    const char *policy, *text;         /* views of the rows */
    struct label label;
    json_t *json;
};

/** All sorted by name. */
struct tenancy {
    size_t organisation_count, project_count, repository_count;
    struct tenant_organisation *organisations;
    struct tenant_project *projects;
    struct tenant_repository *repositories;

    size_t buried_count;
    struct uuid *buried;               /* repositories that were deleted, by id, until nothing of them is left */

    size_t stored_count, floor_count;  /* labels of earlier sets: few different ones, of many repositories */
    struct tenant_stored *stored;
    struct stored_floor *floors[STORED_FLOORS_MAX];
    struct pg_rows *stored_rows;
};

/** Snapshots share it for as long as no organisation, project or label changes. */
struct shared_names {
    _Atomic unsigned holders;
    uint64_t version;             /* the epoch that they were read at */
    struct tenancy tenancy;
};

struct snapshot {
    _Atomic unsigned holders;
    uint64_t epoch;               /* authorization epoch */
    _Atomic int64_t checked_ms;   /* monotonic: when it was last known to be the newest */
    struct authz_snapshot *authz;
    struct policy_set *set;       /* NULL: no policy set yet; every operation of policies is denied */
    struct tenancy tenancy;       /* a view of names->tenancy */
    struct shared_names *names;
};

/** For pg_open(), with authz_snapshot_table, and what policy_set_load() needs. */
extern const struct pg_table decider_table;

/**
 * The newest state. If nothing changed since `current` (may be NULL), that is kept and its time renewed; else
 * what did not change is shared with it. `least` is the epoch of the newest change that this gateway knows of: a database
 * that says less went back, so that its epoch does not tell what changed, and everything is read. All is read in one transaction, again if the policy set was replaced just then. ERROR_UNAVAILABLE, ERROR_CORRUPT, ERROR_NO_MEMORY.
 */
RESULT snapshot_load(struct policy_set_source *source, struct snapshot *current, uint64_t least, struct snapshot **snapshot_out,
                     struct error *err);
/** Organisations, projects and labels (tenancy_store.c). */
RESULT tenancy_load(struct pg *pg, struct tenancy *tenancy, struct error *err);
RESULT shared_names_load(struct pg *pg, uint64_t version, struct shared_names **names_out, struct error *err);
struct shared_names *shared_names_keep(struct shared_names *names);
void shared_names_free(struct shared_names *names);
DEFINE_OWNED(shared_names);

/** What changed since an epoch (tenancy_store.c). */
struct rights_news {
    uint64_t epoch, whole_epoch;  /* now; of the last change that may have been of anything */
    bool is_whole;                /* read everything: that was since, or too much was, or the database is an older one */
    bool has_names;               /* organisations, projects or labels */
    size_t count;                 /* organisations whose rights changed */
    struct uuid organisations[RIGHTS_CHANGE_MAX];
};
/** In a transaction of one moment. */
RESULT tenancy_news(struct pg *pg, uint64_t since, struct rights_news *news_out, struct error *err);
RESULT tenancy_epoch(struct pg *pg, uint64_t *epoch_out, struct error *err);
void tenancy_done(struct tenancy *tenancy);

const struct tenant_organisation *tenancy_organisation(const struct tenancy *tenancy, const char *name);
/** Of the first two segments of `name`. */
const struct tenant_project *tenancy_project(const struct tenancy *tenancy, const char *name);
const struct tenant_repository *tenancy_repository(const struct tenancy *tenancy, const char *name);
/** By id, one after the other; NULL if there is none. */
const char *tenancy_organisation_name(const struct tenancy *tenancy, const struct uuid *id);
const char *tenancy_project_name(const struct tenancy *tenancy, const struct uuid *id);
/** Was the repository of this id deleted? */
bool tenancy_is_buried(const struct tenancy *tenancy, const struct uuid *repository);
/** Kind, ids and home region of a name; see decider_resolve(). */
void tenancy_resolve(const struct tenancy *tenancy, const char *name, struct resource *resource_out);
/**
 * The floors of all levels of a name, joined, with `asked` (NULL: none) as one more; *is_stated_out is false if none
 * says anything. Lineage is unknown unless some level states it. ERROR_LIMIT.
 */
RESULT tenancy_label(const struct tenancy *tenancy, const char *name, const struct asked_label *asked,
                     struct label *label_out, bool *is_stated_out, struct error *err);

/**
 * What earlier sets have left with the repository `name`, joined, but for what `set` declassifies; *is_stored_out is
 * false if that is nothing. ERROR_LIMIT.
 */
RESULT tenancy_stored_label(const struct tenancy *tenancy, const struct policy_set *set, const char *name,
                            struct label *label_out, bool *is_stored_out, struct error *err);

struct name_ranges;
/** What the scopes of these bindings hold, as decider_readable() answers it; a scope that is not there holds nothing. */
void tenancy_ranges(const struct tenancy *tenancy, const struct authz_binding *const bindings[], size_t count,
                    struct name_ranges *ranges);

struct snapshot *snapshot_keep(struct snapshot *snapshot);
void snapshot_free(struct snapshot *snapshot);
DEFINE_OWNED(snapshot);
