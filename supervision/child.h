/*
 * supervision/child.h -- runs a program as a child process. The child gets only what is named here, and it ends with its parent.
 *
 * The program has the given environment, descriptors and user, a process group of its own, default signals and umask 077,
 * and gains no privileges by exec. All other descriptors of the parent are closed.
 *
 * The kernel ends the child when the *thread* that started it ends (prctl(2), PR_SET_PDEATHSIG), so that thread must live
 * as long as the parent.
 */
#pragma once

#include <signal.h>

#include "supervision/user.h"

/** `from` in the parent becomes `to` in the program. */
struct child_descriptor {
    int from, to;
};
#define CHILD_DESCRIPTORS_MAX 8
#define CHILD_DESCRIPTOR_END  16 /* `to` is smaller */

struct child_options {
    char *const *
        arguments; /* NULL-terminated, first the program's path: a binary, not a script. The parent opens it, so `user` needs no access to it */
    char *const *environment;                   /* NULL-terminated, the whole environment */
    const char *directory;                      /* working directory; NULL: "/" */
    const struct user *user;                    /* NULL: the parent's */
    const struct child_descriptor *descriptors; /* 0, 1 and 2 are the parent's unless they are named */
    size_t descriptor_count;
    int death_signal; /* sent to the program when the parent dies */
    /** Called in the child before it changes its user: limits, priority, a control group. NULL: nothing. */
    RESULT (*prepare)(void *context, struct error *err);
    /** Called in the child last, before the program begins: a system call filter that still allows execveat(2). NULL: nothing. */
    RESULT (*confine)(void *context, struct error *err);
    void *context;
    /**
     * All processes that the program starts end with it, even if they left its process group. A process of ours between
     * parent and program adopts orphans (PR_SET_CHILD_SUBREAPER). On SIGTERM it sends `stop_signal` to the program's group
     * and, after `grace_ms`, SIGKILL to all. It ends with the program's status when no process is left. It does the same
     * when the parent dies.
     */
    bool whole_tree;
    int stop_signal;
    unsigned grace_ms;
};

/**
 * Returns when the program has begun, or with the child's error. *pid_out is for waitpid(2) and the functions below.
 * ERROR_NOT_FOUND, ERROR_DENIED, ERROR_UNAVAILABLE, and the errors of `prepare` and `confine`.
 */
RESULT child_start(const struct child_options *options, pid_t *pid_out, struct error *err);
/** Does not wait. True once the child has ended, with the status of waitpid(2). */
bool child_has_ended(pid_t pid, int *status_out);
/** Waits for the end of the child, at most `patience_ms`. */
bool child_wait(pid_t pid, unsigned patience_ms, int *status_out);
/** Sends `signal` to the child and waits for its end. */
bool child_end(pid_t pid, int signal, unsigned patience_ms, int *status_out);
/** "signal 9", "status 1" */
#define CHILD_STATUS_TEXT_SIZE 32
void child_status_text(int status, char text_out[CHILD_STATUS_TEXT_SIZE]);

/** For a forked child that executes no other program: own group, the user, default signals, no new privileges; it dies with its
 *  parent. */
RESULT child_begin(const struct user *user, int death_signal, pid_t parent, struct error *err);
