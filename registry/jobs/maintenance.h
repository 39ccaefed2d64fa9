/*
 * registry/jobs/maintenance.h -- runs the jobs, begins those that are due, and drops and records forgotten keys.
 *
 * Rule: no code that serves a request may include this (tests/lint/closed_headers.txt). Each job records its own permits.
 */
#pragma once

#include "policy/decider/copies.h"
#include "registry/jobs/job.h"

struct scrub_schedule {
    int64_t interval_s;
    uint64_t rate_bytes;
};
/**
 * Begins a scrub, with its event, of each region that this gateway serves and whose last scrub began longer ago than
 * the interval.
 */
RESULT job_begin_scrubs_if_due(struct registry *registry, struct pg *pg, const struct scrub_schedule *schedule,
                               struct error *err);
/** Begins a collection of all projects, with its event, if the last one began longer than interval_s ago. */
RESULT job_begin_collection_if_due(struct registry *registry, struct pg *pg, int64_t interval_s, struct error *err);

/** A plan that is to be made, and how it tells that it goes on: false if it must stop. */
struct job_plan_task {
    struct pg *pg;
    struct bytes input; /* {"days", "set"} */
    int64_t now_ms;     /* when it was begun: the moment of its decisions */
    void *run;
    bool (*go_on)(void *run, unsigned phase, uint64_t done, uint64_t total);
};

/** Options of a runner. */
struct job_options {
    enum job_kind kind;
    const char *instance;               /* the name of this gateway */
    bool (*is_stopping)(void *context); /* called several times a second */
    void *context;
    unsigned lease_ms;  /* 0: 30 s; after that another gateway may take over */
    unsigned settle_ms; /* 0: 60 s; no re-wrap ends sooner (registry/jobs/rewrap.c) */
    /* The policies' retention for a repository: decider_retention(). NULL: none. */
    RESULT (*retention)(void *context, const char *repository, struct policy_retention *retention_out, struct error *err);
    /* Sites and anchor copies of a repository: decider_placed(). NULL: what policies demand of them is not reported. */
    RESULT (*placed)(void *context, const struct placed_query *query, struct placed_copies *copies_out, struct error *err);
    /* Makes the plan of a policy set: planning/plan_make.h. NULL: this runner makes none. *is_whole_out: it was not stopped. */
    RESULT (*plan)(void *context, const struct job_plan_task *task, struct buffer *report, bool *is_whole_out, struct error *err);
    unsigned kept; /* ended jobs of a kind and project; 0: JOBS_KEPT */
};
/**
 * Claims at most one job of the kind, in a region that this gateway serves, and runs it until it ends, is lost to
 * another gateway, or is_stopping(). *worked_out: there was one. Blocks; call it on a thread of its own with its own
 * `pg`.
 */
RESULT registry_work(struct registry *registry, struct pg *pg, const struct job_options *options, bool *worked_out,
                     struct error *err);

/** The notification channel, for pg_listen(). */
#define FORGOTTEN_CHANNEL "sijil_key_forgotten"

/** Wipes recently forgotten keys from the memory of this gateway. Call it after a notification, and periodically. */
RESULT registry_drop_forgotten(struct registry *registry, struct pg *pg, struct error *err);
/**
 * Records an event key.forgotten for each of up to fifty forgotten keys without one. *count_out: how many. Several
 * gateways may do it at once. If a gateway is killed in between, an event may be recorded twice.
 */
RESULT registry_record_forgotten(struct registry *registry, struct pg *pg, size_t *count_out, struct error *err);
