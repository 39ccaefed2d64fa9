/* Programs as child processes: their environment, their output, and that nothing of them is left. */
#include "tests/support/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/sandbox.h"
#include "supervision/child_pipe.h"
#include "tests/support/signal_process.h"

#define PATIENCE_MS 20000

static char *const environment[] = {(char[]){"PATH=/usr/bin:/bin"}, (char[]){"GIVEN=1"}, NULL};

/* A program's output, by stream. */
struct printed {
    struct buffer streams[CHILD_STREAMS];
};
#define PRINTED                          \
    {                                    \
        {                                \
            BUFFER(65536), BUFFER(65536) \
        }                                \
    }

static struct result keep(void *context, enum child_stream stream, struct bytes piece, struct error *err)
{
    struct printed *printed = context;

    return buffer_add(&printed->streams[stream], piece.data, piece.length, err);
}

static void printed_done(struct printed *printed)
{
    for (size_t i = 0; i < CHILD_STREAMS; i++) buffer_done(&printed->streams[i]);
}
#define OWNED_PRINTED __attribute__((cleanup(printed_done))) struct printed

/* `sh -c script` with `base`'s other options. */
struct script {
    const struct child_options *base;
    char *text;
    struct child_output *output;
    pid_t pid;
};

static struct result start_script(struct script *script, struct error *err)
{
    char *const arguments[] = {(char[]){"/bin/sh"}, (char[]){"-c"}, script->text, NULL};
    struct child_descriptor ends[CHILD_STREAMS];
    struct child_options options = *script->base;

    options.arguments = arguments;
    options.environment = environment;
    options.death_signal = SIGKILL;
    options.stop_signal = SIGTERM;
    if (script->output != NULL) {
        child_output_ends(script->output, ends);
        options.descriptors = ends;
        options.descriptor_count = CHILD_STREAMS;
    }
    return child_start(&options, &script->pid, err);
}

static void read_to_end(struct child_output *output)
{
    struct error err = {0};

    for (bool open = true; open;)
        if (!child_output_read(output, PATIENCE_MS, &open, &err).ok) fail_msg("%s", err.message);
}

/* Runs it to its end, and returns the status of waitpid(2). A stream ends only when every process that had it has ended. */
static int run(const struct child_options *base, const char *text, uint64_t maximum, struct printed *printed)
{
    const struct child_output_options kept = {.maximum = maximum, .take = keep, .context = printed};
    OWNED(child_output) *output = NULL;
    struct error err = {0};
    int status = -1;

    if (!child_output_new(&kept, &output, &err).ok) fail_msg("%s", err.message);
    struct script script = {.base = base, .text = (char *)(uintptr_t)text, .output = output};
    if (!start_script(&script, &err).ok) fail_msg("%s", err.message);
    read_to_end(output);
    assert_true(child_wait(script.pid, PATIENCE_MS, &status));
    return status;
}

static void it_gets_what_is_named(void **state)
{
    const struct child_options base = {.directory = "/usr"};
    OWNED_PRINTED printed = PRINTED;
    OWNED_FD other = open("/dev/null", O_RDONLY); /* open, not close-on-exec, and not for the child */

    (void)state;
    assert_true(other >= 0);
    assert_int_equal(setenv("SECRET", "of the parent", 1), 0);
    const int status = run(
        &base,
        "pwd; umask; env | grep -v ^_= | sort; echo to errors >&2; exec </dev/zero; ls -l /proc/self/fd | grep -c /dev/null; exit 7",
        65536, &printed);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    assert_string_equal(buffer_text(&printed.streams[CHILD_OUTPUT]), "/usr\n0077\nGIVEN=1\nPATH=/usr/bin:/bin\nPWD=/usr\n0\n");
    assert_string_equal(buffer_text(&printed.streams[CHILD_ERRORS]), "to errors\n");
}

static void descriptors_do_not_overwrite_each_other(void **state)
{
    char *const arguments[] = {(char[]){"/bin/sh"}, (char[]){"-c"},
                               (char[]){"read a <&3; read b <&4; test \"$a$b\" = first3second4"}, NULL};
    struct error err = {0};
    pid_t pid = 0;
    int first = -1, second = -1, status = -1;

    (void)state;
    assert_true(child_input(bytes_of_text("first3\n"), &first, &err).ok);
    assert_true(child_input(bytes_of_text("second4\n"), &second, &err).ok);
    const int high = fcntl(first, F_DUPFD_CLOEXEC, 20);
    const int higher = fcntl(second, F_DUPFD_CLOEXEC, 20);
    assert_int_equal(dup2(high, 4), 4); /* crosswise: 4 becomes 3, 3 becomes 4 */
    assert_int_equal(dup2(higher, 3), 3);
    const struct child_descriptor crossed[] = {{4, 3}, {3, 4}};
    const struct child_options options = {.arguments = arguments,
                                          .environment = environment,
                                          .death_signal = SIGKILL,
                                          .descriptors = crossed,
                                          .descriptor_count = 2};
    assert_true(child_start(&options, &pid, &err).ok);
    assert_true(child_wait(pid, PATIENCE_MS, &status));
    assert_int_equal(status, 0);
    (void)close_range(3, 30, 0);
}

static struct result refuse(void *context, struct error *err)
{
    return failure(err, ERROR_LIMIT, "refused: %s", (const char *)context);
}

static void what_the_child_can_not_do_comes_back(void **state)
{
    static char limits[] = "limits", filter[] = "filter";
    static const struct {
        const char *program;
        struct child_options base;
        enum error_kind kind;
        const char *said;
    } rows[] = {
        {"/nonexistent", {0}, ERROR_NOT_FOUND, "/nonexistent"},
        {"/etc/passwd", {0}, ERROR_UNAVAILABLE, "can't start /etc/passwd"},
        {"/bin/true", {.directory = "/nonexistent"}, ERROR_UNAVAILABLE, "can't start in /nonexistent"},
        {"/bin/true", {.prepare = refuse, .context = limits}, ERROR_LIMIT, "refused: limits"},
        {"/bin/true", {.confine = refuse, .context = filter}, ERROR_LIMIT, "refused: filter"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows) * 2; i++) {
        struct child_options options = rows[i / 2].base;
        char *const arguments[] = {(char *)(uintptr_t)rows[i / 2].program, NULL};
        struct error err = {0};
        pid_t pid = 0;
        options.arguments = arguments;
        options.environment = environment;
        options.death_signal = options.stop_signal = SIGKILL;
        options.whole_tree = i % 2 == 1;
        assert_false(child_start(&options, &pid, &err).ok);
        assert_int_equal(err.kind, rows[i / 2].kind);
        if (strstr(err.message, rows[i / 2].said) == NULL) fail_msg("%s", err.message);
        assert_int_equal(pid, 0);
        assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no child is left to wait for */
        assert_int_equal(errno, ECHILD);
    }
}

static void it_runs_as_its_user(void **state)
{
    struct user nobody;
    struct error err = {0};
    OWNED_PRINTED printed = PRINTED;

    (void)state;
    if (geteuid() != 0) skip();
    if (!user_find("nobody", &nobody, &err).ok) fail_msg("%s", err.message);
    const struct child_options base = {.user = &nobody};
    assert_int_equal(run(&base, "id -u; id -G; cat /proc/self/status | grep -E '^(NoNewPrivs|CapEff):'", 65536, &printed), 0);
    char expected[128];
    (void)snprintf(expected, sizeof expected, "%u\n%u\nCapEff:\t0000000000000000\nNoNewPrivs:\t1\n", (unsigned)nobody.uid,
                   (unsigned)nobody.gid);
    assert_string_equal(buffer_text(&printed.streams[CHILD_OUTPUT]), expected);
}

/* Without root: another user is refused, and not silently ignored. */
static void others_can_not_be_become(void **state)
{
    struct user self, root = {.name = "root"}, nobody;
    struct error err = {0};
    int status = -1;

    (void)state;
    assert_true(user_self(&self, &err).ok);
    assert_true(user_become(&self, &err).ok);
    assert_true(user_find("nobody", &nobody, &err).ok);
    assert_false(user_find("no-such-user-of-sijil", &nobody, &err).ok);
    assert_int_equal(err.kind, ERROR_NOT_FOUND);
    const pid_t pid = fork();
    if (pid == 0) {
        if (geteuid() == 0 && !user_become(&nobody, &err).ok) _exit(2);
        _exit(user_become(&root, &err).ok || err.kind != ERROR_DENIED ? 1 : 0);
    }
    assert_true(child_wait(pid, PATIENCE_MS, &status));
    assert_int_equal(status, 0);
}

static struct result confine(void *context, struct error *err)
{
    (void)context;
    return sandbox_enter_program(err);
}

static void it_is_confined_and_still_starts_programs(void **state)
{
    const struct child_options base = {.confine = confine};
    OWNED_PRINTED printed = PRINTED;

    (void)state;
    assert_int_equal(
        run(&base,
            "/bin/echo $(/bin/echo a program of a program); unshare --user true 2>&1; mount -t tmpfs none /mnt 2>&1; setsid true && echo ends",
            65536, &printed),
        0);
    const char *said = buffer_text(&printed.streams[CHILD_OUTPUT]);
    if (strstr(said, "a program of a program\n") == NULL ||
        strstr(said, "unshare: unshare failed: Operation not permitted\n") == NULL || strstr(said, "mount: ") == NULL ||
        strstr(said, "ends\n") == NULL)
        fail_msg("%s", said);
}

static void output_is_bounded(void **state)
{
    const struct child_output_options kept = {.maximum = 1000, .take = keep, .context = &(struct printed)PRINTED};
    struct printed *printed = kept.context;
    const struct child_options base = {0};
    OWNED(child_output) *output = NULL;
    struct error err = {0};
    int status = -1;

    (void)state;
    assert_true(child_output_new(&kept, &output, &err).ok);
    struct script script = {
        .base = &base, .text = (char[]){"head -c 1000000 /dev/zero; head -c 500000 /dev/zero >&2; exit 3"}, .output = output};
    assert_true(start_script(&script, &err).ok);
    read_to_end(output);
    assert_true(child_wait(script.pid, PATIENCE_MS, &status));
    assert_int_equal(WEXITSTATUS(status), 3); /* it never waited for space in the pipe */
    assert_int_equal(printed->streams[CHILD_OUTPUT].length + printed->streams[CHILD_ERRORS].length, 1000);
    assert_int_equal(child_output_dropped(output), 1499000);
    printed_done(printed);
}

static struct result take_nothing(void *context, enum child_stream stream, struct bytes piece, struct error *err)
{
    (void)context;
    (void)stream;
    return failure(err, ERROR_FULL, "no room for %zu bytes", piece.length);
}

static void a_reader_that_fails_is_heard(void **state)
{
    const struct child_output_options kept = {.maximum = 1000, .take = take_nothing};
    const struct child_options base = {0};
    OWNED(child_output) *output = NULL;
    struct error err = {0};
    bool open = true;
    int status = -1;

    (void)state;
    assert_true(child_output_new(&kept, &output, &err).ok);
    struct script script = {.base = &base, .text = (char[]){"echo x"}, .output = output};
    assert_true(start_script(&script, &err).ok);
    struct result read = SUCCESS;
    while (read.ok && open) read = child_output_read(output, PATIENCE_MS, &open, &err);
    assert_false(read.ok);
    assert_int_equal(err.kind, ERROR_FULL);
    assert_true(child_wait(script.pid, PATIENCE_MS, &status));
}

static void input_has_a_maximum(void **state)
{
    static const uint8_t large[1 << 20];
    struct error err = {0};
    int fd = -1;

    (void)state;
    assert_false(child_input((struct bytes){large, sizeof large}, &fd, &err).ok);
    assert_int_equal(err.kind, ERROR_LIMIT);
    assert_int_equal(fd, -1);
}

/* Processes that leave their session, group and parent, and ignore signals. */
#define ESCAPES                                                                                            \
    "for i in 1 2 3; do setsid sh -c 'trap \"\" TERM HUP; (sleep 1000; sleep 1000) & sleep 1000' & done; " \
    "(sleep 1000 &) ; "

static void a_tree_ends_with_its_program(void **state)
{
    const struct child_options base = {.whole_tree = true, .grace_ms = PATIENCE_MS};
    OWNED_PRINTED printed = PRINTED;

    (void)state;
    const int status =
        run(&base, ESCAPES "sleep 0.2; echo ends; exit 5", 65536, &printed); /* returns when no process has the streams */
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 5);
    assert_string_equal(buffer_text(&printed.streams[CHILD_OUTPUT]), "ends\n");
    assert_int_equal(WTERMSIG(run(&base, ESCAPES "kill -USR1 $$; sleep 1000", 65536, &printed)), SIGUSR1);
}

/* Starts it, waits until it has printed a line, and ends it. Returns the status. */
static int stop_tree(const char *text, unsigned grace_ms)
{
    const struct child_options base = {.whole_tree = true, .grace_ms = grace_ms};
    OWNED_PRINTED printed = PRINTED;
    const struct child_output_options kept = {.maximum = 65536, .take = keep, .context = &printed};
    OWNED(child_output) *output = NULL;
    struct error err = {0};
    bool open = true;
    int status = -1;

    assert_true(child_output_new(&kept, &output, &err).ok);
    struct script script = {.base = &base, .text = (char *)(uintptr_t)text, .output = output};
    if (!start_script(&script, &err).ok) fail_msg("%s", err.message);
    while (printed.streams[CHILD_OUTPUT].length == 0) assert_true(child_output_read(output, PATIENCE_MS, &open, &err).ok && open);
    assert_true(child_end(script.pid, SIGTERM, PATIENCE_MS, &status));
    for (unsigned reads = 0; open; reads++) {
        assert_true(
            child_output_read(output, 0, &open, &err).ok); /* at once, because the processes with the streams have ended */
        assert_in_range(reads, 0, 10);
    }
    return status;
}

static void a_tree_that_is_stopped_leaves_nothing(void **state)
{
    (void)state;
    assert_int_equal(WEXITSTATUS(stop_tree(ESCAPES "trap 'exit 9' TERM; echo runs; while :; do sleep 0.05; done", PATIENCE_MS)),
                     9);
    const int killed = stop_tree(ESCAPES "trap '' TERM; echo runs; while :; do sleep 0.05; done", 100);
    assert_true(WIFSIGNALED(killed) && WTERMSIG(killed) == SIGKILL);
    const int forking =
        stop_tree("trap '' TERM; echo runs; i=0; while [ $i -lt 300 ]; do setsid sleep 1000 & i=$((i + 1)); done; wait", 50);
    assert_true(WIFSIGNALED(forking) && WTERMSIG(forking) == SIGKILL);
}

/* A parent in miniature, which is killed. */
static void a_tree_does_not_outlive_the_parent(void **state)
{
    const struct child_options base = {.whole_tree = true, .grace_ms = 100};
    int pipes[2];
    char byte = 0;

    (void)state;
    assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
    const pid_t parent = fork();
    if (parent == 0) {
        const struct child_descriptor kept = {pipes[1], 5};
        const struct child_options with_pipe = {
            .whole_tree = base.whole_tree, .grace_ms = base.grace_ms, .descriptors = &kept, .descriptor_count = 1};
        struct script script = {.base = &with_pipe,
                                .text = (char[]){ESCAPES "trap '' TERM; echo >&5; while :; do sleep 0.05; done"}};
        struct error err;
        if (!start_script(&script, &err).ok) _exit(1);
        for (;;) (void)pause();
    }
    (void)close(pipes[1]);
    assert_int_equal(read(pipes[0], &byte, 1), 1);
    assert_true(signal_process(parent, SIGKILL));
    assert_int_equal(waitpid(parent, NULL, 0), parent);
    assert_int_equal(read(pipes[0], &byte, 1), 0); /* no process has it any more: the sleepers of 1000 s have ended */
    (void)close(pipes[0]);
}

static struct result start_and_read(void *context, struct error *err)
{
    const struct child_options base = {.whole_tree = *(const bool *)context};
    OWNED_PRINTED printed = PRINTED;
    const struct child_output_options kept = {.maximum = 65536, .take = keep, .context = &printed};
    OWNED(child_output) *output = NULL;
    int status = -1;

    TRY(child_output_new(&kept, &output, err));
    struct script script = {.base = &base, .text = (char[]){"echo x"}, .output = output};
    TRY(start_script(&script, err));
    struct result read = SUCCESS;
    for (bool open = true; open && read.ok;) read = child_output_read(output, PATIENCE_MS, &open, err);
    assert_true(child_wait(script.pid, PATIENCE_MS, &status));
    return read;
}

static void each_failure_is_said(void **state)
{
    (void)state;
    for (unsigned tree = 0; tree < 2; tree++) {
        bool whole_tree = tree == 1;
        fail_each(start_and_read, &whole_tree, ERROR_NONE, 8);
    }
}

static void statuses_are_told(void **state)
{
    char text[CHILD_STATUS_TEXT_SIZE];

    (void)state;
    child_status_text(W_EXITCODE(3, 0), text);
    assert_string_equal(text, "status 3");
    child_status_text(SIGSEGV, text);
    assert_string_equal(text, "signal 11");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_gets_what_is_named),
        cmocka_unit_test(descriptors_do_not_overwrite_each_other),
        cmocka_unit_test(what_the_child_can_not_do_comes_back),
        cmocka_unit_test(it_runs_as_its_user),
        cmocka_unit_test(others_can_not_be_become),
        cmocka_unit_test(it_is_confined_and_still_starts_programs),
        cmocka_unit_test(output_is_bounded),
        cmocka_unit_test(a_reader_that_fails_is_heard),
        cmocka_unit_test(input_has_a_maximum),
        cmocka_unit_test(a_tree_ends_with_its_program),
        cmocka_unit_test(a_tree_that_is_stopped_leaves_nothing),
        cmocka_unit_test(a_tree_does_not_outlive_the_parent),
        cmocka_unit_test(each_failure_is_said),
        cmocka_unit_test(statuses_are_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
