/*
 * runner/slurm/slurm.h -- jobs of a Slurm cluster: started, found again, ended.
 *
 * Slurm is not trusted: a job is a place where a runner starts, and Slurm's report of the job's end proves nothing. Slurm gets no
 * secret. These functions use slurmrestd (https, or a socket of this machine), or the programs sbatch, squeue and scancel.
 * Slurm's own library is not linked.
 */
#pragma once

#include <stdatomic.h>

#include "base/bytes.h"

#define SLURM_NAME_SIZE  64 /* of a job, a partition, a feature, a node */
#define SLURM_NODES_SIZE 256
#define SLURM_TEXT_SIZE  128
#define SLURM_WORDS_MAX  16

struct slurm_options {
    const char *url;             /* "https://...", "unix:/run/slurmrestd.sock", or "commands:" for the programs */
    const char *ca_file;         /* of an https URL; NULL: the system's authorities */
    const char *user;            /* the user of the token */
    const char *token_file;      /* a JWT; read for each call, so that it may be renewed. NULL: none */
    const char *programs;        /* the folder of sbatch; NULL: /usr/bin */
    const char *config;          /* SLURM_CONF for the programs; NULL: Slurm's default */
    const atomic_bool *gives_up; /* NULL: never */
};

struct slurm;
/** Finds out which versions of its interface the cluster has. ERROR_INVALID for options; ERROR_UNAVAILABLE, ERROR_DENIED. */
RESULT slurm_open(const struct slurm_options *options, struct slurm **slurm_out, struct error *err);
/** "v0.0.38", or "commands 22.05.8" */
const char *slurm_version(const struct slurm *slurm);
void slurm_free(struct slurm *slurm);
DEFINE_OWNED(slurm);

struct slurm_job {
    const char *name;                  /* only one job at a time has it: 1 to 63 of a-z, 0-9, '-' */
    const char *partition;             /* NULL: the cluster's default */
    const char *feature;               /* that each node must have; of several with '|' between, one; NULL: none */
    const char *gres;                  /* of each node, such as "gpu:a100:2"; NULL: none */
    const char *folder;                /* working directory */
    int64_t nodes, cpus, memory_bytes; /* cpus and memory: of each node */
    int64_t time_s;
    size_t word_count;
    const char *words[SLURM_WORDS_MAX]; /* a program and its arguments, started once on each node; letters of slurm_is_word() */
};
/** Whether `word` has only letters that no shell changes: a-z, A-Z, 0-9, and any of "/._:=,@%+-"; at most 255, at least one. */
bool slurm_is_word(const char *word);

enum slurm_state {
    SLURM_NONE, /* the cluster knows no such job (any more) */
    SLURM_WAITING,
    SLURM_HELD, /* it waits, and Slurm does not start it until somebody releases it */
    SLURM_RUNNING,
    SLURM_COMPLETED,
    SLURM_FAILED,
    SLURM_CANCELLED,
    SLURM_TIMEOUT,
    SLURM_LOST /* its node failed, or it was preempted */
};
/** "none", "waiting", ... */
const char *slurm_state_name(enum slurm_state state);
bool slurm_is_open(enum slurm_state state); /* it waits, is held or runs */

/** Slurm's report of a job; texts have only printable ASCII. */
struct slurm_status {
    int64_t id;
    enum slurm_state state;
    int exit, signal; /* of the batch script, after the end */
    char nodes[SLURM_NODES_SIZE], reason[SLURM_TEXT_SIZE];
};

/**
 * Starts a job, unless a job of its name waits or runs; then it returns the status of that job. ERROR_INVALID, ERROR_DENIED,
 * ERROR_UNAVAILABLE; ERROR_UNCERTAIN: the answer was lost, so call it again.
 */
RESULT slurm_start(struct slurm *slurm, const struct slurm_job *job, struct slurm_status *status_out, struct error *err);
/**
 * Finds the job of this name. `known_id` 0: the newest one; this reads all jobs of the cluster, which takes a while. SLURM_NONE
 * is no error.
 */
RESULT slurm_find(struct slurm *slurm, const char *name, int64_t known_id, struct slurm_status *status_out, struct error *err);
/** A job in a list: the one of its name that waits or runs, or else the newest. */
struct slurm_listed {
    char name[SLURM_NAME_SIZE];
    struct slurm_status status;
};
#define SLURM_LISTED_MAX 4096
/** This user's jobs whose names begin with `prefix`. The caller owns *jobs_out (free()). ERROR_LIMIT for more than SLURM_LISTED_MAX. */
RESULT slurm_list(struct slurm *slurm, const char *prefix, struct slurm_listed **jobs_out, size_t *count_out, struct error *err);
/** Ends the job of this name. It is no error if there is none. */
RESULT slurm_cancel(struct slurm *slurm, const char *name, int64_t known_id, struct error *err);

struct slurm_node {
    char name[SLURM_NAME_SIZE], state[SLURM_NAME_SIZE], features[SLURM_TEXT_SIZE], gres[SLURM_TEXT_SIZE],
        partitions[SLURM_TEXT_SIZE];
    int64_t cpus, memory_bytes;
};
#define SLURM_NODES_MAX 4096
/** The nodes of the cluster. The caller owns *nodes_out (free()). ERROR_LIMIT for more than SLURM_NODES_MAX. */
RESULT slurm_nodes(struct slurm *slurm, struct slurm_node **nodes_out, size_t *count_out, struct error *err);
