#include "tests/support/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/file.h"
#include "embedded/embedded_priv.h"
#include "tests/support/signal_process.h"

static struct user self(void)
{
    struct users users;
    struct error err;

    if (!users_find(&users, &err).ok && err.kind != ERROR_NOT_FOUND) fail_msg("%s", err.message);
    return (struct user){.name = "self", .uid = geteuid(), .gid = getegid()};
}

static struct result succeed(void *context, struct error *err)
{
    (void)err;
    return *(int *)context == 7 ? SUCCESS : failure(err, ERROR_INVALID, "not 7");
}

static struct result fail_plainly(void *context, struct error *err)
{
    (void)context;
    return failure(err, ERROR_CORRUPT, "told by the child, process %d", (int)getppid());
}

static struct result die(void *context, struct error *err)
{
    (void)context;
    (void)err;
    (void)raise(SIGKILL);
    return SUCCESS;
}

static void a_step_hands_back_its_error(void **state)
{
    const struct user user = self();
    struct error err = {0};
    char expected[64];
    int number = 7;

    (void)state;
    assert_true(step_run(&user, succeed, &number, &err).ok);
    assert_false(step_run(&user, fail_plainly, NULL, &err).ok);
    assert_int_equal(err.kind, ERROR_CORRUPT);
    (void)snprintf(expected, sizeof expected, "told by the child, process %d", (int)getpid());
    assert_string_equal(err.message, expected);
    assert_false(step_run(&user, die, NULL, &err).ok);
    assert_int_equal(err.kind, ERROR_UNAVAILABLE);
}

static struct result wait_for_ever(void *context, struct error *err)
{
    (void)context;
    (void)err;
    (void)pause();
    return SUCCESS;
}

static void a_step_can_be_interrupted(void **state)
{
    const struct user user = self();
    struct error err = {0};
    sigset_t signals, before;

    (void)state;
    (void)sigemptyset(&signals);
    (void)sigaddset(&signals, SIGTERM);
    (void)sigprocmask(SIG_BLOCK, &signals, &before);
    (void)raise(SIGTERM);
    assert_true(step_is_interrupted());
    assert_false(step_run(&user, wait_for_ever, NULL, &err).ok);
    assert_string_equal(err.message, "interrupted");
    int taken = 0;
    (void)sigwait(&signals, &taken);
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
    assert_false(step_is_interrupted());
}

static struct result stop_itself(void *context, struct error *err)
{
    (void)context;
    (void)err;
    (void)raise(SIGSTOP);
    return SUCCESS;
}

/* A user may stop its own processes: then the supervisor would start nothing again that ends. */
static void a_step_has_its_time(void **state)
{
    const struct user user = self();
    struct error err = {0};
    int number = 7;

    (void)state;
    assert_true(step_run_within(60000, &user, succeed, &number, &err).ok);
    assert_false(step_run_within(60000, &user, fail_plainly, NULL, &err).ok);
    assert_null(strstr(err.message, "too long"));
    assert_false(step_run_within(300, &user, stop_itself, NULL, &err).ok);
    assert_non_null(strstr(err.message, "took too long, or was stopped"));
}

static char *const sleep_arguments[] = {(char[]){"/bin/sleep"}, (char[]){"100"}, NULL};
/* Prints the text of descriptor 3, and the other open descriptors. */
static char *const print_arguments[] = {(char[]){"/bin/sh"}, (char[]){"-c"},
                                        (char[]){"exec </dev/zero; cat <&3; ls -l /proc/self/fd"}, NULL};
static char *const stubborn_arguments[] = {(char[]){"/bin/sh"}, (char[]){"-c"},
                                           (char[]){"trap '' TERM; while :; do sleep 0.1; done"}, NULL};

static struct process process_of(const struct user *user, char *const *arguments)
{
    return (struct process){
        .name = "test", .user = user, .death_signal = SIGKILL, .stop_signal = SIGTERM, .arguments = arguments};
}

static int open_lock(void)
{
    struct error err;
    int lock = -1;

    assert_true(file_open("/dev/null", O_RDONLY, 0, &lock, &err).ok);
    return lock;
}

static void a_process_runs_until_it_is_stopped(void **state)
{
    const struct user user = self();
    struct process process = process_of(&user, sleep_arguments);
    struct error err = {0};
    OWNED_FD lock = open_lock();

    (void)state;
    assert_true(process_start(&process, lock, &err).ok);
    assert_true(process_is_running(&process));
    const pid_t pid = process.pid;
    process_stop(&process, 5000);
    assert_int_equal(process.pid, 0);
    assert_false(signal_process(pid, 0));
    assert_int_equal(errno, ESRCH);
}

static void a_stubborn_process_is_killed(void **state)
{
    const struct user user = self();
    struct process process = process_of(&user, stubborn_arguments);
    struct error err = {0};
    OWNED_FD lock = open_lock();

    (void)state;
    assert_true(process_start(&process, lock, &err).ok);
    (void)usleep(200000);
    const pid_t pid = process.pid;
    process_stop(&process, 300);
    assert_false(signal_process(pid, 0));
}

static void pauses_grow_and_have_an_end(void **state)
{
    const struct user user = self();
    struct process process = process_of(&user, sleep_arguments);

    (void)state;
    static const int64_t pauses_ms[] = {0, 100, 200, 400, 800, 1600, 3200, 5000, 5000};
    process.started_ms = clock_monotonic_ms();
    for (size_t i = 0; i < COUNT(pauses_ms); i++) {
        const int64_t before_ms = clock_monotonic_ms();
        process_ended(&process, 0);
        assert_in_range(process.restart_at_ms - pauses_ms[i], before_ms, clock_monotonic_ms());
    }
    process.started_ms = clock_monotonic_ms() - 60000; /* it ran well for a minute */
    process_ended(&process, 0);
    assert_true(process.restart_at_ms <= clock_monotonic_ms());
}

static void it_gets_its_input_and_no_other_descriptor(void **state)
{
    const struct user user = self();
    struct process process = process_of(&user, print_arguments);
    struct buffer OWNED_BUFFER printed = BUFFER(4096);
    OWNED(secret) *input = NULL;
    struct error err = {0};
    OWNED_FD lock = open_lock();
    OWNED_FD other = open_lock();
    char output[] = "/tmp/sijil-test-output.XXXXXX";
    OWNED_FD made = mkstemp(output);

    (void)state;
    assert_true(made >= 0 && other >= 0); /* open, and not for the child */
    assert_true(secret_copy(bytes_of_text("the passphrase\n"), &input, &err).ok);
    process.input = input;
    process.output = output;
    assert_true(process_run(&process, lock, &err).ok);
    assert_true(file_read(output, &printed, &err).ok);
    (void)unlink(output);
    assert_int_equal(strncmp(buffer_text(&printed), "the passphrase\n", 15), 0);
    size_t nulls = 0;
    for (const char *at = buffer_text(&printed); (at = strstr(at, "-> /dev/null")) != NULL; at++) nulls++;
    if (nulls != 1) fail_msg("only the lock may be open: %s", buffer_text(&printed));
}

/* It has become another program: its request for a signal at its parent's death is still valid. */
static void wait_until_it_sleeps(pid_t pid)
{
    char path[64], program[256] = "";

    (void)snprintf(path, sizeof path, "/proc/%d/exe", (int)pid);
    while (strstr(program, "/sleep") == NULL) {
        const ssize_t length = readlink(path, program, sizeof program - 1);
        assert_true(length > 0);
        program[length] = '\0';
        (void)usleep(5000);
    }
}

/* A supervisor in miniature, which is killed. */
static void nothing_outlives_the_supervisor(void **state)
{
    const struct user user = self();
    int pipes[2];
    pid_t pid = 0;

    (void)state;
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    assert_int_equal(pipe(pipes), 0);
    const pid_t supervisor = fork();
    if (supervisor == 0) {
        struct process process = process_of(&user, sleep_arguments);
        struct error err;
        if (process_start(&process, open_lock(), &err).ok) (void)!write(pipes[1], &process.pid, sizeof process.pid);
        for (;;) (void)pause();
    }
    assert_int_equal(read(pipes[0], &pid, sizeof pid), sizeof pid);
    wait_until_it_sleeps(pid);
    assert_true(signal_process(supervisor, SIGKILL));
    assert_int_equal(waitpid(supervisor, NULL, 0), supervisor);
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid); /* ours now; a sleeper of 100 s would time the test out */
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    (void)close(pipes[0]);
    (void)close(pipes[1]);
}

static void long_paths_are_refused(void **state)
{
    static char folder[PATH_SIZE + 10];
    char path[PATH_SIZE];
    struct error err = {0};

    (void)state;
    memset(folder, 'a', PATH_SIZE - 3);
    assert_true(path_join(path, folder, "b", &err).ok);
    assert_int_equal(strlen(path), PATH_SIZE - 1);
    path[0] = 'x';
    assert_false(path_join(path, folder, "bc", &err).ok);
    assert_int_equal(err.kind, ERROR_LIMIT);
    assert_int_equal(path[0], 'x');
}

static struct result take_a_step(void *context, struct error *err)
{
    const struct user user = self();
    int number = 7;

    (void)context;
    return step_run(&user, succeed, &number, err);
}

static void a_step_that_fails_says_so(void **state)
{
    (void)state;
    fail_each(take_a_step, NULL, ERROR_UNAVAILABLE, 2);
}

/* As a user other than root: no file gets another owner. */
static struct result open_place(void *directory, struct error *err)
{
    const struct embedded_options options = {.directory = directory, .program = "/usr/bin"};
    const struct user user = self();
    const struct users users = {.self = user, .gateway = user, .keyd = user, .postgres = user};
    struct paths paths;

    TRY_UNTOUCHED_BYTES(paths, paths_open(&options, &users, &paths, err));
    paths_leave(&paths);
    (void)close(paths.lock);
    return SUCCESS;
}

static void a_place_that_can_not_be_made_says_so(void **state)
{
    char directory[] = "/tmp/sijil-place-XXXXXX", command[64];

    (void)state;
    assert_non_null(mkdtemp(directory));
    fail_each(open_place, directory, ERROR_NONE, 25);
    (void)snprintf(command, sizeof command, "rm -rf %s", directory);
    assert_int_equal(system(command), 0); /* NOLINT(cert-env33-c): our own mkdtemp() name */
}

static void a_start_that_fails_says_so(void **state)
{
    const struct user user = self();
    OWNED(secret) *input = NULL;
    struct error err = {0};
    OWNED_FD lock = open_lock();
    unsigned long nth = 1;

    (void)state;
    assert_true(secret_copy(bytes_of_text("x"), &input, &err).ok);
    for (bool has_fired = true; has_fired; nth++) {
        struct process process = process_of(&user, sleep_arguments);
        process.input = input;
        process.output = "/dev/null";
        fault_arm(nth);
        const bool ok = process_start(&process, lock, &err).ok;
        has_fired = fault_has_fired();
        fault_arm(0);
        assert_int_equal(ok, !has_fired);
        if (!ok) assert_int_equal(process.pid, 0);
        process_stop(&process, 1000);
    }
    assert_failures(nth - 2, 5);
}

static int64_t runner_pause_ms(const struct embedded *embedded)
{
    return embedded->processes[PROCESS_RUNNER].restart_at_ms - clock_monotonic_ms();
}

/* Status 1 of `sijil-runner serve`: it can't serve. Each time it is tried later, and a person's SIGHUP tries it at once. */
static void a_runner_that_cannot_serve_is_tried_later_and_later(void **state)
{
    static struct embedded embedded;
    const int failed = 1 << 8;
    int64_t before_ms = 0;

    (void)state;
    embedded.processes[PROCESS_RUNNER].name = "sijil-runner";
    for (int i = 0; i < 20; i++) {
        embedded.processes[PROCESS_RUNNER].started_ms = clock_monotonic_ms();
        runner_ended(&embedded, failed);
        assert_true(runner_pause_ms(&embedded) >= before_ms);
        before_ms = runner_pause_ms(&embedded) - 1000;
    }
    assert_in_range(runner_pause_ms(&embedded), 3590000, 3600000);
    runner_try_again(&embedded);
    assert_true(runner_pause_ms(&embedded) <= 0);
}

/* Status 3: the registry has suspended its key. Starting it again would not help. */
static void a_suspended_runner_is_not_started_again(void **state)
{
    static struct embedded embedded;

    (void)state;
    embedded.processes[PROCESS_RUNNER].name = "sijil-runner";
    runner_ended(&embedded, 3 << 8);
    assert_true(embedded.processes[PROCESS_RUNNER].restart_at_ms == INT64_MAX);
    runner_try_again(&embedded);
    runner_keep(&embedded);
    assert_true(embedded.processes[PROCESS_RUNNER].restart_at_ms == INT64_MAX);
    assert_int_equal(embedded.processes[PROCESS_RUNNER].pid, 0);
}

static void a_killed_runner_is_started_again_at_once(void **state)
{
    static struct embedded embedded;

    (void)state;
    embedded.processes[PROCESS_RUNNER].name = "sijil-runner";
    runner_ended(&embedded, SIGKILL);
    assert_in_range(runner_pause_ms(&embedded) + 1000, 0, 2000);
}

static void a_runner_without_a_program_is_no_failure(void **state)
{
    static struct embedded embedded;

    (void)state;
    (void)snprintf(embedded.paths.keyd_program, PATH_SIZE, "/nowhere/sijil-keyd");
    embedded.users.self = self();
    assert_true(runner_prepare(&embedded, &(struct error){0}).ok);
    assert_string_equal(embedded.arguments[PROCESS_RUNNER][0], "/nowhere/sijil-runner");
    assert_in_range(runner_pause_ms(&embedded), 1, 10000);
    embedded.processes[PROCESS_RUNNER].restart_at_ms = 0;
    runner_keep(&embedded);
    assert_in_range(runner_pause_ms(&embedded), 4000, 5000);
    embedded.options.no_runner = true;
    embedded.processes[PROCESS_RUNNER].restart_at_ms = 0;
    runner_keep(&embedded);
    assert_int_equal(embedded.processes[PROCESS_RUNNER].restart_at_ms, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_hands_back_its_error),
        cmocka_unit_test(a_step_can_be_interrupted),
        cmocka_unit_test(a_step_has_its_time),
        cmocka_unit_test(a_process_runs_until_it_is_stopped),
        cmocka_unit_test(a_stubborn_process_is_killed),
        cmocka_unit_test(pauses_grow_and_have_an_end),
        cmocka_unit_test(it_gets_its_input_and_no_other_descriptor),
        cmocka_unit_test(nothing_outlives_the_supervisor),
        cmocka_unit_test(long_paths_are_refused),
        cmocka_unit_test(a_step_that_fails_says_so),
        cmocka_unit_test(a_place_that_can_not_be_made_says_so),
        cmocka_unit_test(a_start_that_fails_says_so),
        cmocka_unit_test(a_runner_that_cannot_serve_is_tried_later_and_later),
        cmocka_unit_test(a_suspended_runner_is_not_started_again),
        cmocka_unit_test(a_killed_runner_is_started_again_at_once),
        cmocka_unit_test(a_runner_without_a_program_is_no_failure),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
