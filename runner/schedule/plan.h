/*
 * runner/schedule/plan.h -- what to do about the job of one attempt of a run, from what the registry and the cluster say. Pure.
 *
 * The registry knows which runs wait and which are held by runners that are alive. So it decides whether a job should be there. The
 * cluster's reports only decide about jobs: a job that the cluster shows as running or held, while no runner has the run, is ended after a while, and
 * a job that the cluster shows as ended, while the run still waits, is started again.
 */
#pragma once

#include "runner/slurm/slurm.h"

#define PLAN_LEAST_MS 5000 /* between two jobs for one attempt; twice as long after each */
#define PLAN_MOST_MS  320000

enum plan_need {
    PLAN_GONE,  /* the registry does not list the run, or not this attempt */
    PLAN_WAITS, /* for a runner */
    PLAN_HELD,  /* runners have it */
};
enum plan_act { PLAN_NOTHING, PLAN_START, PLAN_CANCEL };

/** What is remembered of an attempt; zero at first. A process that starts anew remembers nothing, and loses nothing by that. */
struct plan_memory {
    int64_t since_ms; /* since when the cluster shows a running or held job for a run that no runner has; 0: it does not */
    int64_t ended_id; /* the newest job whose end was noted */
    unsigned tries;   /* jobs that came to nothing */
    int64_t next_ms;  /* no other job before */
};

/** What is known of an attempt now. */
struct plan_view {
    enum plan_need need;
    const struct slurm_status *job; /* as the cluster shows it */
    int64_t
        patience_ms; /* from the beginning of a job until a runner must have the run, and from a run's end until its running job is ended */
    int64_t now_ms; /* monotonic, above 0 */
};
enum plan_act plan_decide(const struct plan_view *view, struct plan_memory *memory);

/**
 * The name of the job: "sijil-OWN-RUN-ATTEMPT". `own` are 8 letters of the UUID of the runner that schedules, so that two of them can
 * use one cluster as the same user.
 */
void plan_name(const char *own, const char *run, int64_t attempt, char name_out[SLURM_NAME_SIZE]);
/** The beginning of all these names. */
void plan_prefix(const char *own, char prefix_out[SLURM_NAME_SIZE]);
/** The features of nodes in one of these regions, with '|' between: "region-" and the region, with '-' for '/'. ERROR_INVALID. */
RESULT plan_features(const char *const *regions, size_t count, struct buffer *features, struct error *err);
