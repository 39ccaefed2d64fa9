/*
 * registry/jobs/collect_priv.h -- one run of the garbage collection while it is done.
 */
#pragma once

#include "base/json.h"
#include "registry/jobs/collect_store.h"
#include "registry/jobs/job_priv.h"
#include "registry/rules.h"

/* Each is a step of its own: small, so that neither the log nor a stop waits for it. */
#define COLLECT_BATCH 8    /* changes in one transaction */
#define COLLECT_PAGE  1000 /* rows read at once */

struct collect_totals {
    int64_t looked_at, blobs, bytes, manifests, tags, sessions;
};

/* What a dry run has taken away in its mind: of the project that it is at. */
#define GONE_MAX 10000
struct gone_list {
    size_t count, from; /* from: of the repository that it is at */
    struct gone {
        struct uuid repository;
        char digest[DIGEST_TEXT_SIZE];
    } *entries;
    struct bytes *repositories, *digests;
};

struct collect_run {
    struct job_run *job;
    struct pg *pg;              /* the job's */
    int64_t lease_s;            /* of the registry */
    int64_t kept_s;             /* no manifest of the repository that it is at goes sooner after its last push */
    const char *try_rules;      /* of a dry run, or NULL */
    struct collect_totals totals;
    json_t *projects, *removed; /* of the report */
    bool is_cut;                /* the report has not all that was removed, or gone not all that is gone */
    bool is_stopped;            /* between two steps: what failed since is no failure */
    int64_t told_ms;            /* when the report was written last */
    /* Where it is. */
    struct collect_project project;
    struct rules *rules;
    struct collect_repository repository;
    struct gone_list gone;
};

/** Something that is to go. */
struct removal {
    struct change change; /* first */
    struct resource where;
    struct collect_manifest_row manifest;
    struct collect_blob blob;
    bool is_end; /* of a deleted project: its row alone stays */
    struct record record;
    struct removal_batch *batch;
};
/**
 * Records and runs all changes together, and waits. What is needed again, or was removed by another run, stays: that is no
 * failure. removed_out[i]: it is gone. ERROR_UNAVAILABLE when the log can't be written.
 */
RESULT collect_remove(struct collect_run *run, struct removal *removals, size_t count, bool *removed_out, struct error *err);

/** The project's manifests that its rules no longer keep. */
RESULT collect_manifests(struct collect_run *run, struct error *err);
/** What repositories held that were deleted, and what is left of their rows. Before the blobs, which are garbage then. */
RESULT collect_erased(struct collect_run *run, struct error *err);
/** Of a project that was deleted, after its blobs: its keys of manifests, if nothing is left that they open. */
RESULT collect_erased_project(struct collect_run *run, struct error *err);
/** The project's blobs that no manifest needs. */
RESULT collect_blobs(struct collect_run *run, struct error *err);

/** Between steps: ERROR_UNAVAILABLE, and run->is_stopped, when somebody else has the run, or it is to stop. */
RESULT collect_go_on(struct collect_run *run, struct error *err);
/** The project's repositories so far, and that they are gone, for a dry run. ERROR_NO_MEMORY. */
RESULT collect_note_gone(struct collect_run *run, const char *digest, struct error *err);
struct collect_gone collect_gone_of_repository(const struct collect_run *run);
struct collect_gone collect_gone_of_project(const struct collect_run *run);
