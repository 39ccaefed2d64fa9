/*
 * The calls that the gateway's filter denies to an attacker, and those that it allows. For sijil-keyd's filter see test_keyd.c.
 */
#include "tests/support/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/environment.h"
#include "base/sandbox.h"

static long try_execve(void)
{
    return execve("/bin/true", (char *[]){NULL}, (char *[]){NULL});
}
static long try_execveat(void)
{
    return syscall(SYS_execveat, AT_FDCWD, "/bin/true", NULL, NULL, 0);
}
static long try_fork(void)
{
    return syscall(SYS_fork);
}
static long try_vfork(void)
{
    return syscall(SYS_vfork);
}
static long try_ptrace(void)
{
    return ptrace(PTRACE_TRACEME, 0, NULL, NULL);
}
static long try_mount(void)
{
    return mount("none", "/mnt", "tmpfs", 0, NULL);
}
static long try_module(void)
{
    return syscall(SYS_init_module, NULL, 0L, "");
}
static long try_bpf(void)
{
    return syscall(SYS_bpf, 0, NULL, 0);
}
static long try_keyctl(void)
{
    return syscall(SYS_keyctl, 0, 0, 0, 0, 0);
}
static long try_unshare(void)
{
    return unshare(CLONE_NEWUSER);
}
static long try_io_uring(void)
{
    return syscall(SYS_io_uring_setup, 1, NULL);
}
static long try_setuid(void)
{
    return setuid(getuid());
}
static long try_clock(void)
{
    return syscall(SYS_clock_settime, 0, NULL);
}
static long try_perf(void)
{
    return syscall(SYS_perf_event_open, NULL, 0, 0, 0, 0);
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ALSO_BY_SANITIZERS true
#else
#define ALSO_BY_SANITIZERS false
#endif

static const struct denied_row {
    const char *name;
    long (*attempt)(void);
    bool is_left_to_sanitizers;
} denied_rows[] = {
    {"execve", try_execve, false},
    {"execveat", try_execveat, false},
    {"fork", try_fork, false},
    {"vfork", try_vfork, false},
    {"ptrace", try_ptrace, true},
    {"mount", try_mount, false},
    {"init_module", try_module, false},
    {"bpf", try_bpf, false},
    {"keyctl", try_keyctl, false},
    {"unshare", try_unshare, false},
    {"io_uring_setup", try_io_uring, false},
    {"setuid", try_setuid, false},
    {"clock_settime", try_clock, false},
    {"perf_event_open", try_perf, false},
};

static int status_of(int (*run)(const void *), const void *context)
{
    int status = 0;

    const pid_t child = fork();
    if (child == 0) _exit(run(context));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int attempt(const void *context)
{
    const struct denied_row *row = context;
    struct error err = {0};

    if (!sandbox_enter_gateway(&err).ok) return 2;
    errno = 0;
    return row->attempt() == -1 && errno == EPERM ? 0 : 1;
}

static void is_denied(void **state)
{
    const struct denied_row *row = *state;

    if (row->is_left_to_sanitizers && ALSO_BY_SANITIZERS) skip();
    assert_int_equal(status_of(attempt, row), 0);
}

static void *nothing(void *argument)
{
    return argument;
}

static int do_its_work(const void *context)
{
    struct error err = {0};
    pthread_t thread;

    (void)context;
    if (!sandbox_enter_gateway(&err).ok) return 1;
    if (pthread_create(&thread, NULL, nothing, NULL) != 0 || pthread_join(thread, NULL) != 0) return 2;
    const int file = open("/etc/passwd", O_RDONLY | O_CLOEXEC), connection = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return file < 0 || connection < 0 || close(file) != 0 || close(connection) != 0 ? 3 : 0;
}

static void threads_files_and_sockets_are_left(void **state)
{
    (void)state;
    assert_int_equal(status_of(do_its_work, NULL), 0);
}

static void *try_to_execute(void *argument)
{
    int *const ends = argument;
    char byte = 0;

    if (read(ends[0], &byte, 1) != 1) return NULL;
    return try_execve() == -1 && errno == EPERM ? argument : NULL;
}

static int enter_with_threads(const void *context)
{
    struct error err = {0};
    pthread_t thread;
    void *denied = NULL;
    int ends[2];

    (void)context;
    if (pipe2(ends, O_CLOEXEC) != 0 || pthread_create(&thread, NULL, try_to_execute, ends) != 0) return 1;
    if (!sandbox_enter_gateway(&err).ok || write(ends[1], "", 1) != 1) return 2;
    return pthread_join(thread, &denied) == 0 && denied != NULL ? 0 : 3;
}

static void threads_that_ran_before_are_held_as_well(void **state)
{
    (void)state;
    assert_int_equal(status_of(enter_with_threads, NULL), 0);
}

/* ---- the environment ---- */

static int keep_some(const void *context)
{
    static const char *const names[] = {"LC_*", "TZ", NULL};
    char secret[] = "AWS_SECRET=abc", zone[] = "TZ=UTC", like[] = "TZX=1", language[] = "LC_ALL=C";
    char *variables[] = {secret, zone, like, language, NULL};

    (void)context;
    environ = variables;
    environment_keep(names);
    if (environ[0] != zone || environ[1] != language || environ[2] != NULL) return 1;
    for (size_t i = 0; i < sizeof secret; i++)
        if (secret[i] != '\0') return 2;
    return like[0] == '\0' && getenv("AWS_SECRET") == NULL && strcmp(getenv("TZ"), "UTC") == 0 ? 0 : 3;
}

static void what_is_not_named_is_dropped_and_wiped(void **state)
{
    (void)state;
    assert_int_equal(status_of(keep_some, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(threads_files_and_sockets_are_left),
        cmocka_unit_test(threads_that_ran_before_are_held_as_well),
        cmocka_unit_test(what_is_not_named_is_dropped_and_wiped),
    };

    return RUN_TABLE(denied_rows, is_denied) + cmocka_run_group_tests_name("sandbox", others, NULL, NULL);
}
