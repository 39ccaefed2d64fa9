/*
 * runner/serve/crew.h -- the workers of a serving process, and what their runs use.
 */
#pragma once

#include "runner/serve/channel.h"
#include "runner/serve/links.h"
#include "runner/serve/worker.h"

#define CREW_MAX        (2 * SERVE_PARALLEL_MAX) /* runs, and results that are sent again */
#define INTERRUPTED_MAX CREW_MAX                 /* more can't be killed before the registry has lost their attempts */

enum job {
    JOB_NONE,
    JOB_ASK, /* at most one worker */
    JOB_RUN,
    JOB_SEND,
    JOB_SWEEP, /* at most one */
};

struct member {
    enum job job;
    pid_t pid;
    int channel;
    int link;                 /* the connection of its job; -1: none, or the job has ended */
    struct taken_lease lease; /* JOB_RUN, JOB_SEND */
    bool has_ended;           /* the lease */
    bool is_certified;        /* JOB_RUN: the key of its attempt */
    bool announces;           /* JOB_ASK */
    int64_t cpus, memory_bytes;
    struct device_names uses;
};

struct crew {
    const struct serve_options *options;
    struct lease_journal *journal;
    uint8_t session[CALLS_SESSION_SIZE];
    int kept;                   /* the folder */
    struct image_cache *images; /* NULL: nothing of them is kept */
    struct links links;
    bool is_stopping, is_suspended, was_killed;
    bool is_known;                 /* the registry has answered a question of this session */
    bool waits;                    /* kept results of an earlier session wait for that */
    int64_t next_ask_ms, pause_ms; /* after a worker that failed */
    bool has_litter;               /* a killed worker may have left files, or a control group */
    int64_t next_sweep_ms, sweep_pause_ms;
    size_t interrupted_count; /* leases whose workers were killed; the newest ones replace the oldest */
    uint8_t interrupted[INTERRUPTED_MAX][LEASE_NONCE_SIZE];
    struct member members[CREW_MAX];
};

size_t crew_count(const struct crew *crew, enum job job);
/** Whether another run has room now. */
bool crew_has_room(const struct crew *crew);
/** What a new worker is for. */
struct errand {
    enum job job;                    /* JOB_ASK, JOB_SEND or JOB_SWEEP */
    const struct taken_lease *lease; /* JOB_SEND */
    const struct link *link;         /* JOB_ASK for a scheduler's job; NULL: for any run. The worker's end ends it */
    bool announces;                  /* JOB_ASK: without room for a run, so that the registry knows this session */
};
/** Forks a worker. ERROR_UNAVAILABLE, ERROR_LIMIT. */
RESULT crew_start(struct crew *crew, const struct errand *errand, struct error *err);
/** Cancels the runs of jobs that have ended. */
void crew_look_at_jobs(struct crew *crew);
/** Answers the questions that have arrived from this worker. */
void crew_answer(struct crew *crew, struct member *member);
/** Notes the ends of workers. A run whose worker was killed has its result sent, or is given up. */
void crew_reap(struct crew *crew);
/** Removes what killed workers have left; call it from time to time. */
void crew_sweep(struct crew *crew);
/** Sends a signal to all workers of this job. */
void crew_signal(struct crew *crew, enum job job, int number);

/**
 * Ends leases that nobody works on: sends their kept results, and gives up the others. A registry takes a result only of a session that it
 * knows: before that, crew->waits is set, and an errand that announces must be run.
 */
void crew_recover(struct crew *crew);
