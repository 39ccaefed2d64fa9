/* registry/jobs/collect_priv.h -- the state of a run of the garbage collection. */
#pragma once

#include "base/json.h"
#include "registry/jobs/collect_store.h"
#include "registry/jobs/job_priv.h"
#include "registry/rules.h"

/* Sizes of a step: small, so that neither the log nor a stop waits long for it. */
#define RETENTION_ENDS_NEVER INT64_C(-1)
#define COLLECT_BATCH        8    /* changes in one transaction */
#define COLLECT_PAGE         1000 /* rows read at once */

struct collect_totals {
    int64_t looked_at, blobs, bytes, manifests, tags, sessions;
};

/* What a dry run counts as removed, in its current project. */
#define GONE_MAX 10000
struct gone_list {
    size_t count, from; /* from: the first entry of the current repository */
    struct gone {
        struct uuid repository;
        char digest[DIGEST_TEXT_SIZE];
    } * entries;
    struct bytes *repositories, *digests;
};

struct collect_run {
    struct job_run *job;
    struct pg *pg;         /* the job's */
    int64_t lease_s;       /* of the registry's leases */
    int64_t kept_s;        /* in the current repository, no manifest is removed sooner after its last push */
    int64_t ends_s;        /* there, a policy ends the retention at this age; RETENTION_ENDS_NEVER */
    int64_t expires_s;     /* there, manifests of this age go; not below kept_s */
    int64_t overdue;       /* manifests past their end that something keeps */
    int64_t lacking;       /* repositories that lack copies */
    const char *try_rules; /* of a dry run, or NULL */
    struct collect_totals totals;
    json_t *projects, *removed, *unmet; /* of the report */
    bool is_cut;                        /* the report, or `gone`, is incomplete */
    bool is_stopped;                    /* the run has stopped, so errors since are no failures */
    int64_t reported_ms;                /* the last time that the report was written */
    /* The current position. */
    struct collect_project project;
    struct rules *rules;
    struct collect_repository repository;
    struct gone_list gone;
};

/** A manifest or a blob to be removed. */
struct removal {
    struct change change; /* first */
    struct resource where;
    struct collect_manifest_row manifest;
    struct collect_blob blob;
    bool is_end; /* the end of a deleted project: only its row stays */
    struct record record;
    struct removal_batch *batch;
};
/**
 * Records and runs all changes together, and waits. A removal is skipped without a failure if its object is needed
 * again, or was removed by another run. removed_out[i]: it was removed. ERROR_UNAVAILABLE if the log can't be
 * written.
 */
RESULT collect_remove(struct collect_run *run, struct removal *removals, size_t count, bool *removed_out, struct error *err);

/** Removes the project's manifests that its rules no longer keep. */
RESULT collect_manifests(struct collect_run *run, struct error *err);
/** Records and reports what the policies demand of the current repository and is not so. After run->kept_s and run->ends_s are set. */
RESULT collect_report_duties(struct collect_run *run, const struct policy_retention *retention, struct error *err);
/** Removes the content and the rows of deleted repositories. Runs before the blobs, which then are garbage. */
RESULT collect_erased(struct collect_run *run, struct error *err);
/** For a deleted project, after its blobs: removes its keys of manifests, if nothing is left that they open. */
RESULT collect_erased_project(struct collect_run *run, struct error *err);
/** Removes the project's blobs that no manifest needs. */
RESULT collect_blobs(struct collect_run *run, struct error *err);

/** Call it between steps: ERROR_UNAVAILABLE, with run->is_stopped set, if another gateway has the job, or it must stop. */
RESULT collect_go_on(struct collect_run *run, struct error *err);
/** For a dry run: counts a manifest of the current repository as removed. ERROR_NO_MEMORY. */
RESULT collect_note_gone(struct collect_run *run, const char *digest, struct error *err);
struct collect_gone collect_gone_of_repository(const struct collect_run *run);
struct collect_gone collect_gone_of_project(const struct collect_run *run);
