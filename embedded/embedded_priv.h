/*
 * embedded/embedded_priv.h -- what the files of this folder share.
 */
#pragma once

#include <signal.h>
#include <sys/types.h>

#include "crypto/ecdsa.h"
#include "crypto/secret.h"
#include "embedded/embedded.h"

#define EMBEDDED_REGION "local/main"
#define PATH_SIZE     512 /* as CONFIG_TEXT_SIZE: paths become settings */
#define DIRECTORY_MAX 300 /* of DIR, so that everything below fits */

/** A user of the operating system. */
struct user {
    char name[64]; /* as useradd(8) limits it, 32 */
    uid_t uid;
    gid_t gid;
};

/** Who runs what: three users if root started it, else one. */
struct users {
    bool separate;
    struct user self, gateway, keyd, postgres;
};

/** Where things are. All of it is made by place_open(). */
struct place {
    char directory[PATH_SIZE];
    char id[37]; /* of this directory, wherever it moves: names what lies outside */
    char postgres_programs[PATH_SIZE];
    char keyd_program[PATH_SIZE];
    char postgres_output[PATH_SIZE]; /* what it says before its own log is open */
    char data[PATH_SIZE];            /* of PostgreSQL */
    char keyd[PATH_SIZE];            /* the key ring */
    char region[PATH_SIZE];          /* objects of local/main */
    char tls[PATH_SIZE], officer[PATH_SIZE];
    char run[PATH_SIZE]; /* sockets: short, because a socket's path has 107 bytes at most */
    char postgres_run[PATH_SIZE], keyd_run[PATH_SIZE], keyd_socket[PATH_SIZE];
    char passphrase[PATH_SIZE]; /* file, outside the directory */
    char authority[PATH_SIZE];
    char secrets[PATH_SIZE]; /* folder, outside the directory; of the four below */
    char admin[PATH_SIZE], approver[PATH_SIZE], authority_key[PATH_SIZE], server_key[PATH_SIZE];
    int lock; /* held by every process of this instance, free when the last is gone */
};

/** A program that is kept running. */
struct process {
    const char *name;
    const struct user *user;
    int death_signal;           /* what it gets when the supervisor dies */
    int stop_signal;            /* what ends it in good order */
    char *const *arguments;     /* NULL-terminated, the program's path first */
    bool is_database;           /* all others wait for it: it goes first, and keeps up to 4 MiB that it freed */
    const struct secret *input; /* it reads this from descriptor 3; NULL: nothing */
    const char *output;         /* file for what it prints, from its start on; NULL: our own output */
    pid_t pid;                  /* 0: not running */
    int64_t started_ms, restart_at_ms;
    unsigned backoff_ms;
};

enum { PROCESS_POSTGRES, PROCESS_KEYD, PROCESS_GATEWAY, PROCESS_COUNT };

struct embedded {
    struct embedded_options options;
    struct users users;
    struct place place;
    struct secret *passphrase; /* only in the supervisor, and only if it came through a descriptor */
    struct process processes[PROCESS_COUNT];
    bool is_gateway;        /* this is the child that serves */
    bool has_served;        /* a gateway of this start did */
    char *arguments[2][24]; /* of PostgreSQL and keyd; the longest has 21 */
    char texts[2][24][PATH_SIZE];
    struct settings settings;
};

/** Path below a folder; ERROR_LIMIT when it is too long. */
RESULT path_join(char path_out[PATH_SIZE], const char *folder, const char *name, struct error *err);

/* users.c */

/** ERROR_NOT_FOUND names the user that is missing, and the command that makes it. */
RESULT users_find(struct users *users_out, struct error *err);
/** The calling process becomes that user, for good. */
RESULT user_become(const struct user *user, struct error *err);

/* place.c */

/** Makes or opens the directory and takes its lock. */
RESULT place_open(const struct embedded_options *options, const struct users *users, struct place *place_out,
                  struct error *err);
/** Removes what lies outside the directory and is of no use to anybody now. */
void place_leave(const struct place *place);
/** mkdir, owner and mode; an existing folder gets both. */
RESULT place_make(const char *path, const struct user *owner, gid_t group, mode_t mode, struct error *err);

/* private.c */

/** Makes the folder of the secrets, moves there what an older version left in the directory, and fills in their paths. */
RESULT private_open(const struct embedded_options *options, const struct users *users, struct place *place, struct error *err);
/** The folder of a user without root for what lies outside the directory; `option` names another way. */
RESULT private_own_folder(const struct users *users, const char *option, char folder_out[PATH_SIZE], struct error *err);

/* step.c */

/**
 * Runs `run(context)` in a child process as `user` and waits for it: what it reads stays there, and its
 * rights end with it. A SIGTERM or SIGINT that is pending kills it.
 */
RESULT step_run(const struct user *user, struct result (*run)(void *context, struct error *err),
                void *context, struct error *err);
/** Has someone asked us to stop? */
bool step_is_interrupted(void);

/* process.c */

/** Starts it; `lock` stays open in it. */
RESULT process_start(struct process *process, int lock, struct error *err);
/** Starts it and waits for its end; ERROR_UNAVAILABLE unless it ends well. */
RESULT process_run(struct process *process, int lock, struct error *err);
/** Has it ended? Then it says in the log how, and when it may start again. */
void process_ended(struct process *process, int status);
/** Looks without waiting; true while it runs. */
bool process_is_running(struct process *process);
/** Moves a descriptor above those that a program is given. */
RESULT fd_raise(int *fd, struct error *err);
/** Asks, waits, kills. */
void process_stop(struct process *process, unsigned patience_ms);
/** In a fresh child: own group, default signals, dies with its parent. */
RESULT process_begin(const struct user *user, int death_signal, pid_t parent, struct error *err);

/* postgres.c, keyd.c: make what is missing, and say how it is started */

RESULT postgres_prepare(struct embedded *embedded, struct error *err);
/** Starts it and waits until it answers. */
RESULT postgres_start(struct embedded *embedded, struct error *err);
/** Roles, database and tables. */
RESULT postgres_found(struct embedded *embedded, struct error *err);
/** "host=... dbname=sijil user=..." */
void postgres_conninfo(const struct embedded *embedded, const char *database, const char *role,
                       char conninfo_out[PATH_SIZE]);

RESULT keyd_prepare(struct embedded *embedded, struct error *err);
RESULT keyd_start(struct embedded *embedded, struct error *err);

/* certificates.c, officer.c */

/** Authority once, server certificate when it is missing, nears its end, or lacks a name. */
RESULT certificates_prepare(struct embedded *embedded, struct error *err);
/** The private key at path; made there, mode 0600, if there is none. The caller owns *key_out. */
RESULT embedded_key_at(const char *path, struct ecdsa_key **key_out, struct error *err);
/** Whether the options make a policy set; nothing is made of it. */
RESULT officer_check(const struct embedded_options *options, struct error *err);
/** Approver's key and the first signed policy set. */
RESULT officer_prepare(struct embedded *embedded, struct error *err);
/** As the gateway: pins, first rows, administrator. */
RESULT found_all(struct embedded *embedded, struct error *err);

/* supervisor.c */

/**
 * Forks the gateway and returns in it. In the parent it never returns: it keeps all running, and ends with
 * the gateway's status.
 */
RESULT supervisor_fork(struct embedded *embedded, struct error *err);
/** Signals are taken one by one, between two steps, and by step_is_interrupted(). */
void supervisor_block_signals(sigset_t *set_out);
/** Stops what runs; before an error is handed to the caller. */
void supervisor_stop(struct embedded *embedded);
