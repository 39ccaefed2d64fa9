/*
 * tests/support/keyd_daemon.h -- a real sijil-keyd in a separate folder, for tests.
 *
 * SIJIL_KEYD names the program (tests/integration/CMakeLists.txt). Nothing is left behind after keyd_daemon_remove().
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

struct keyd_daemon {
    char folder[40];    /* "/tmp/sijil-keyd-XXXXXX", or in /dev/shm if SIJIL_TEST_MEMORY is 1 */
    char directory[48]; /* of the key ring */
    char socket[48];
    char passphrase[48]; /* file */
    pid_t pid;           /* 0: not running */
};

#define KEYD_DAEMON_ORIGIN "test.example/audit"

/** Makes the folders and a key ring for the log `origin`, whose passphrase costs little (tests/support/ring_tool.c). Asserts. */
void keyd_daemon_prepare(struct keyd_daemon *process, const char *origin);
/** Starts it and waits until its socket exists. `options` (NULL-terminated) may be NULL. */
void keyd_daemon_start(struct keyd_daemon *process, const char *const *options);
/** Sends `signal` and returns the status of waitpid(). */
int keyd_daemon_end(struct keyd_daemon *process, int signal);
/** Runs the program to its end with these options. Returns the exit status; `said` gets its output. */
int keyd_daemon_run(const struct keyd_daemon *process, const char *const *options, char *said, size_t room);
void keyd_daemon_remove(struct keyd_daemon *process);
