/*
 * policy/decider/snapshot_priv.h -- the data that requests are decided from, at one authorization epoch.
 *
 * Immutable after loading, except for the time of its last check. Shared: snapshot_keep(), snapshot_free().
 */
#pragma once

#include <stdatomic.h>

#include "authz/snapshot.h"
#include "authz/snapshot_load.h"
#include "policy/decider/region_state.h"
#include "policy/decider/restricted.h"
#include "policy/decider/set_install.h"
#include "policy/label.h"

/** The floor label of an organisation, project or repository; kept only if one is stated. */
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
    char name[128]; /* "acme/models": two names of 63 */
    char home_region[REGION_ID_MAX + 1];
    char *copy_regions; /* further regions with copies, each followed by a line feed; NULL: none */
    struct floor_label *floor;
};

#define STORED_FLOORS_MAX 4096 /* from replaced sets, 64 policies of 32 sets; and BROUGHT_LABELS_MAX of runs and manifests */

/** A repository that has a label of its own; others are not in memory. */
struct tenant_repository {
    struct uuid id;
    char name[RESOURCE_NAME_MAX + 1];
    struct floor_label *floor;
};

/** A label that a policy of an earlier set, a training run or a manifest left with a repository; a name may have several. */
struct tenant_stored {
    const char *name; /* a view of the rows */
    const struct stored_floor *floor;
};
struct stored_floor {
    const char *policy, *text; /* views of the rows */
    struct label label;
    json_t *json;
};

/** A repository whose content is out of place (place.h); views of the rows. */
struct tenant_misplaced {
    const char *name, *region; /* the home then */
    bool is_of_database;       /* names and manifests may not be where the database is */
};

/** All sorted by name. */
struct tenancy {
    size_t organisation_count, project_count, repository_count;
    struct tenant_organisation *organisations;
    struct tenant_project *projects;
    struct tenant_repository *repositories;

    size_t region_count;
    struct region_state *regions;
    bool has_closed_region; /* one is not simply active */

    size_t deleted_count;
    struct uuid *deleted; /* ids of deleted repositories, until their rows are removed */

    size_t spent_count;
    uint8_t (*spent)[SHA256_SIZE]; /* exceptions that are used up */

    size_t stored_count, floor_count; /* labels of earlier sets and of runs: few different labels for many repositories */
    struct tenant_stored *stored;
    struct stored_floor *floors[STORED_FLOORS_MAX];
    struct pg_rows *stored_rows;

    size_t misplaced_count;
    struct tenant_misplaced *misplaced;
    struct pg_rows *misplaced_rows;
};

/** Shared by snapshots until an organisation, project or label changes. */
struct shared_names {
    _Atomic unsigned holders;
    uint64_t version; /* the epoch at which they were read */
    struct tenancy tenancy;
};

struct snapshot {
    _Atomic unsigned holders;
    uint64_t epoch;             /* authorization epoch */
    _Atomic int64_t checked_ms; /* monotonic: the last time that it was known to be the newest */
    struct authz_snapshot *authz;
    struct policy_set *set;        /* NULL: no policy set yet, so every operation of policies is denied */
    struct restricted *restricted; /* the set with what organisations have added for themselves; NULL: none has */
    struct tenancy tenancy;        /* a view of names->tenancy */
    struct shared_names *names;
};

/** For pg_open(), together with authz_snapshot_table and the tables of policy_set_load(). */
extern const struct pg_table decider_table;

/**
 * Loads the newest state. If nothing changed since `current` (may be NULL), this adds an owner to `current` and renews its
 * time. Otherwise the new snapshot shares the unchanged parts. `least` is the highest epoch that this gateway knows of. A
 * database with a lower epoch was restored from a backup, so its epochs do not tell what changed, and everything is
 * read. All is read in one transaction, which is repeated if the policy set or a trust rule was replaced during it. Trust rules are
 * pinned by sijil-keyd first, as policy sets are.
 * ERROR_UNAVAILABLE, ERROR_CORRUPT, ERROR_NO_MEMORY.
 */
struct snapshot_source {
    struct policy_set_source *set;
    struct document_view *documents; /* for the trust rules; NULL: there are none */
    int64_t
        looked_ms; /* monotonic: set and rules of `current` are of then, and are not looked at unless the epoch says that they may have changed; 0: they are */
};
RESULT snapshot_load(const struct snapshot_source *source, struct snapshot *current, uint64_t least,
                     struct snapshot **snapshot_out, struct error *err);
/** Organisations, projects and labels (tenancy_store.c). */
RESULT tenancy_load(struct pg *pg, struct tenancy *tenancy, struct error *err);
RESULT shared_names_load(struct pg *pg, uint64_t version, struct shared_names **names_out, struct error *err);
struct shared_names *shared_names_keep(struct shared_names *names);
void shared_names_free(struct shared_names *names);
DEFINE_OWNED(shared_names);

/** What changed since an epoch (tenancy_store.c). */
struct changed_rights {
    uint64_t epoch, whole_epoch; /* epoch: now; whole_epoch: the last change that may have changed anything, or the policy set */
    bool
        is_whole; /* read everything: because of such a change of more than the set, too many changes, or a database with a lower epoch */
    bool has_names; /* organisations, projects or labels changed */
    size_t count;   /* organisations of which more changed than single roles */
    struct uuid organisations[RIGHTS_CHANGE_MAX];
};
/** Run it in a repeatable-read transaction. */
RESULT tenancy_changed_rights(struct pg *pg, uint64_t since, struct changed_rights *news_out, struct error *err);
RESULT tenancy_epoch(struct pg *pg, uint64_t *epoch_out, struct error *err);
void tenancy_done(struct tenancy *tenancy);

const struct tenant_organisation *tenancy_organisation(const struct tenancy *tenancy, const char *name);
/** By the first two segments of `name`. */
const struct tenant_project *tenancy_project(const struct tenancy *tenancy, const char *name);
const struct tenant_repository *tenancy_repository(const struct tenancy *tenancy, const char *name);
/** NULL: the database has no such region (region_state.c). */
const struct region_state *tenancy_region(const struct tenancy *tenancy, const char *region);
/** NULL: what the repository has is where it may be, as far as the last look knows. */
const struct tenant_misplaced *tenancy_misplaced(const struct tenancy *tenancy, const char *name);
/** Whether no use of this exception is left. */
bool tenancy_is_spent(const struct tenancy *tenancy, const struct policy_exception *exception);
/** By id, with a linear search; NULL if there is none. */
const char *tenancy_organisation_name(const struct tenancy *tenancy, const struct uuid *id);
const char *tenancy_project_name(const struct tenancy *tenancy, const struct uuid *id);
/** Whether the repository with this id was deleted. */
bool tenancy_is_deleted(const struct tenancy *tenancy, const struct uuid *repository);
/** Kind, ids and home region of a name; see decider_resolve(). */
void tenancy_resolve(const struct tenancy *tenancy, const char *name, struct resource *resource_out);
/**
 * Joins the floors of all levels of a name and `asked` (NULL: none). *is_stated_out is false if no level states a
 * floor. The lineage is unknown unless a level states it. ERROR_LIMIT.
 */
RESULT tenancy_label(const struct tenancy *tenancy, const char *name, const struct asked_label *asked, struct label *label_out,
                     bool *is_stated_out, struct error *err);

/**
 * Joins the labels that earlier sets have left with the repository `name`, except those that `set` declassifies.
 * *is_stored_out is false if there is none. ERROR_LIMIT.
 */
RESULT tenancy_stored_label(const struct tenancy *tenancy, const struct policy_set *set, const char *name,
                            struct label *label_out, bool *is_stored_out, struct error *err);

struct name_ranges;
/** The ranges of names in the scopes of these bindings, for decider_readable(). A scope that does not exist contains no name. */
void tenancy_ranges(const struct tenancy *tenancy, const struct authz_binding *const bindings[], size_t count,
                    struct name_ranges *ranges);

struct snapshot *snapshot_keep(struct snapshot *snapshot);
void snapshot_free(struct snapshot *snapshot);
DEFINE_OWNED(snapshot);
