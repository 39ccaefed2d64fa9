/*
 * embedded/embedded_priv.h -- the types and functions that the files of this folder share.
 */
#pragma once

#include <signal.h>
#include <sys/types.h>

#include "crypto/ecdsa.h"
#include "crypto/secret.h"
#include "embedded/embedded.h"
#include "runner/sandbox/cgroup.h"
#include "supervision/child.h"

#define EMBEDDED_REGION "local/main"
#define PATH_SIZE       512 /* as CONFIG_TEXT_SIZE, because paths become settings */
#define DIRECTORY_MAX   300 /* of DIR, so that all paths below it fit */

/** The users that run the processes: four if root started it, else one. */
struct users {
    bool separate;
    struct user self, gateway, keyd, postgres;
};
#define RUNNER_USER "sijil-runner" /* found when the runner starts: without it there is no runner, and all else works */

/** All paths. paths_open() makes the folders. */
struct paths {
    char directory[PATH_SIZE];
    char id[37]; /* of this directory, also after a move; names the files outside */
    char postgres_programs[PATH_SIZE];
    char keyd_program[PATH_SIZE];
    char postgres_output[PATH_SIZE]; /* output before its own log is open */
    char data[PATH_SIZE];            /* of PostgreSQL */
    char keyd[PATH_SIZE];            /* the key ring */
    char region[PATH_SIZE];          /* objects of local/main */
    char delivery[PATH_SIZE]; /* sinks that are files; and client.pem and client.key, with which syslog knows this registry */
    char tls[PATH_SIZE], officer[PATH_SIZE];
    char run[PATH_SIZE]; /* sockets; short, because a socket's path has at most 107 bytes */
    char postgres_run[PATH_SIZE], keyd_run[PATH_SIZE], keyd_socket[PATH_SIZE];
    char passphrase[PATH_SIZE]; /* file, outside the directory */
    char authority[PATH_SIZE];
    char secrets[PATH_SIZE]; /* folder outside the directory, for all below */
    char admin[PATH_SIZE], approver[PATH_SIZE], authority_key[PATH_SIZE], server_key[PATH_SIZE];
    char trainer[PATH_SIZE], trainer_key[PATH_SIZE]; /* the first trainer's login and signing key */
    char administrator_key[PATH_SIZE];               /* the administrator's own signing key */
    char runner[PATH_SIZE];                          /* folder of the runner's user, for the next three */
    char runner_state[PATH_SIZE], runner_document[PATH_SIZE], runner_work[PATH_SIZE];
    char runner_mark[PATH_SIZE]; /* that a runner was enrolled, where its user can't remove it */
    int lock;                    /* held by every process of this instance; free when the last one has ended */
};

/** A program that is kept running. */
struct process {
    const char *name;
    const struct user *user;
    int death_signal;                  /* sent to it if the supervisor dies */
    int stop_signal;                   /* asks it to end properly */
    char *const *arguments;            /* NULL-terminated, the program's path first */
    const struct cgroup_place *groups; /* that it enters; NULL: none */
    bool is_database;                  /* starts first, because all others wait for it; keeps up to 4 MiB of freed memory */
    const struct secret *input;        /* passed on descriptor 3; NULL: nothing */
    const char *output;                /* file for its output; NULL: the supervisor's output */
    pid_t pid;                         /* 0: not running */
    int64_t started_ms, restart_at_ms; /* INT64_MAX: not again */
    unsigned backoff_ms;
};

enum { PROCESS_POSTGRES, PROCESS_KEYD, PROCESS_RUNNER, PROCESS_GATEWAY, PROCESS_COUNT };
#define ARGUMENTS_MAX 24 /* of a process; the longest has 22 */

struct embedded {
    struct embedded_options options;
    struct users users;
    struct paths paths;
    struct secret *passphrase; /* only in the supervisor, and only if it came through a descriptor */
    struct process processes[PROCESS_COUNT];
    bool is_gateway;                                 /* this process is the child that serves */
    bool recovers;                                   /* this start serves nothing: the log goes on under a new origin */
    bool has_served;                                 /* a gateway of this start has served */
    struct user runner;                              /* RUNNER_USER, or the only one */
    struct cgroup_place groups;                      /* for the runner; count 0: none */
    int64_t runner_pause_ms;                         /* after a failure of the runner, until the next try */
    char *arguments[PROCESS_GATEWAY][ARGUMENTS_MAX]; /* of the programs, NULL-terminated */
    char texts[PROCESS_GATEWAY][ARGUMENTS_MAX][PATH_SIZE];
    struct settings settings;
};

/** Joins a folder and a name; ERROR_LIMIT if the path is too long. */
RESULT path_join(char path_out[PATH_SIZE], const char *folder, const char *name, struct error *err);

/* users.c */

/** ERROR_NOT_FOUND names the missing user and the command that makes it. */
RESULT users_find(struct users *users_out, struct error *err);
/** The same, for the user of the runner. */
RESULT users_find_runner(const struct users *users, struct user *user_out, struct error *err);

/* paths.c */

/** Makes or opens the directory and takes its lock. */
RESULT paths_open(const struct embedded_options *options, const struct users *users, struct paths *paths_out, struct error *err);
/** Removes the files outside the directory that are of no use any more. */
void paths_leave(const struct paths *paths);
/** mkdir, owner and mode; an existing folder gets both. */
RESULT directory_make(const char *path, const struct user *owner, gid_t group, mode_t mode, struct error *err);

/* secrets.c */

/** Makes the folder of secrets, and moves secrets that an older version kept in the directory to this folder. Sets the paths of
 *  the secrets. */
RESULT secrets_open(const struct embedded_options *options, const struct users *users, struct paths *paths, struct error *err);
/** The user's folder for files outside the directory, without root; the error names `option` as an alternative. */
RESULT secrets_own_folder(const struct users *users, const char *option, char folder_out[PATH_SIZE], struct error *err);

/* step.c */

/**
 * Runs `run(context)` in a child process as `user`, and waits for it. So the data that it reads stays in that process, and its rights end with
 * it. A pending SIGTERM or SIGINT kills it.
 */
RESULT step_run(const struct user *user, struct result (*run)(void *context, struct error *err), void *context,
                struct error *err);
/** As step_run(), and after `most_ms` the child is killed: for a user that can stop its own processes. */
RESULT step_run_within(unsigned most_ms, const struct user *user, struct result (*run)(void *context, struct error *err),
                       void *context, struct error *err);
/** Whether SIGTERM or SIGINT is pending. */
bool step_is_interrupted(void);

/* process.c */

/** Starts the process, and returns when its program has begun. `lock` stays open in the process. */
RESULT process_start(struct process *process, int lock, struct error *err);
/** Starts it and waits for its end; ERROR_UNAVAILABLE if it fails. */
RESULT process_run(struct process *process, int lock, struct error *err);
/** The process ended: logs how, and sets when it may start again. */
void process_ended(struct process *process, int status);
/** Whether it runs. Does not wait. */
bool process_is_running(struct process *process);
/** Sends the stop signal, waits, and kills it after `patience_ms`. */
void process_stop(struct process *process, unsigned patience_ms);
/** child_begin(), with room to lock keys into memory. */
RESULT process_begin(const struct user *user, int death_signal, pid_t parent, struct error *err);

/* postgres.c, keyd.c: make missing files, and set how the process is started */

RESULT postgres_prepare(struct embedded *embedded, struct error *err);
/** Starts it and waits until it answers. */
RESULT postgres_start(struct embedded *embedded, struct error *err);
/** Roles, database and tables. */
RESULT postgres_bootstrap(struct embedded *embedded, struct error *err);
/** "host=... dbname=sijil user=..." */
void postgres_conninfo(const struct embedded *embedded, const char *database, const char *role, char conninfo_out[PATH_SIZE]);

RESULT keyd_prepare(struct embedded *embedded, struct error *err);
RESULT keyd_start(struct embedded *embedded, struct error *err);

/* own_recovery.c */

/** While PostgreSQL and sijil-keyd run, and no gateway. */
RESULT recovery_of_embedded(struct embedded *embedded, const struct embedded_recovery *wanted, struct error *err);

/* certificates.c, approver.c */

/** Makes the authority once, and the server certificate if it is missing, expires soon, or lacks a name. */
RESULT certificates_prepare(struct embedded *embedded, struct error *err);
/** The private key at `path`; if there is none, makes one with mode 0600. The caller owns *key_out. */
RESULT embedded_key_at(const char *path, struct ecdsa_key **key_out, struct error *err);
/** Whether the options would give a valid policy set. Makes nothing. */
RESULT approver_check(const struct embedded_options *options, struct error *err);
/** Makes the approver's key and the first signed policy set. */
RESULT approver_prepare(struct embedded *embedded, struct error *err);
/** Makes the pins, the first rows and the administrator. Runs as the gateway's user. */
RESULT bootstrap_all(struct embedded *embedded, struct error *err);

/* officers.c */

/** Makes the administrator's signing key, and has the root's key sign that it is the registry-admin (docs/identity.md, "Officers"). */
RESULT officers_appoint(struct embedded *embedded, struct error *err);

/* runner.c, enrolment.c: the runner of this machine. The registry works without it, too */

/** As root: a control group of its own for the runner, if this machine has such. Call it before any process is started. */
void runner_find_groups(struct embedded *embedded);
/** Sets how the process is started, and when: soon after the gateway. */
RESULT runner_prepare(struct embedded *embedded, struct error *err);
/** Starts the runner if that is due, and enrols it the first time. If it fails, the log says why, and it is tried again later. Blocks. */
void runner_keep(struct embedded *embedded);
/** The runner has ended: logs how, and sets when it may start again. */
void runner_ended(struct embedded *embedded, int status);
/** A person has changed something: the next runner_keep() tries it. */
void runner_try_again(struct embedded *embedded);
/** Makes the runner's key and document, the trainer's key, or updates the runner's data about the registry. */
RESULT runner_enrol(struct embedded *embedded, struct error *err);
/** Runs `sijil-runner check` as the runner's user: what isolation this machine gives, and how many devices it has. ERROR_UNAVAILABLE: it
 *  can't run anything; the message says why. */
struct runner_place {
    char isolation[16];
    int64_t devices;
};
RESULT runner_probe(const struct embedded *embedded, struct runner_place *place_out, struct error *err);

/* supervisor.c */

/**
 * Forks the gateway and returns in it. Never returns in the parent, which keeps all processes running and ends with the gateway's
 * status.
 */
RESULT supervisor_fork(struct embedded *embedded, struct error *err);
/** Signals are taken one by one: between two steps, and by step_is_interrupted(). */
void supervisor_block_signals(sigset_t *set_out);
/** Stops all processes, before an error goes to the caller. */
void supervisor_stop(struct embedded *embedded);

/** Adds an argument to the command line of a program; *count is the number before and after. */
RESULT embedded_add_argument(struct embedded *embedded, int process, size_t *count, struct error *err, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
