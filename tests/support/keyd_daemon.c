#include "tests/support/keyd_daemon.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/signal_process.h"
#include "tests/support/unit.h"

enum { ARGUMENTS = 24, WAIT_STEP_MS = 5, WAIT_STEPS = 4000 };

/* Starts a program; what it writes on standard error goes to `errors`. */
static pid_t spawn(const char *const *arguments, int errors)
{
    const pid_t parent = getpid(), pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* a failing test leaves no process running */
        if (getppid() != parent) _exit(127);
        if (errors >= 0) (void)dup2(errors, STDERR_FILENO);
        if (errors >= 0) (void)dup2(errors, STDOUT_FILENO);
        (void)execv(arguments[0], (char *const *)(uintptr_t)arguments);
        _exit(127);
    }
    return pid;
}

static pid_t spawn_keyd(const struct keyd_daemon *process, const char *const *options, int errors)
{
    const char *arguments[ARGUMENTS] = {SIJIL_KEYD, "--directory", process->directory};
    size_t count = 3;

    for (size_t i = 0; options != NULL && options[i] != NULL; i++) {
        assert_true(count < ARGUMENTS - 1);
        arguments[count++] = options[i];
    }
    return spawn(arguments, errors);
}

int keyd_daemon_run(const struct keyd_daemon *process, const char *const *options, char *said, size_t room)
{
    int ends[2], status = 0;
    size_t length = 0;

    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    const pid_t pid = spawn_keyd(process, options, ends[1]);
    (void)close(ends[1]);
    for (ssize_t got; length < room - 1 && (got = read(ends[0], said + length, room - 1 - length)) > 0;) length += (size_t)got;
    said[length] = '\0';
    (void)close(ends[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Its files are small, and each token and checkpoint is written with fsync, which takes no time in memory. */
static const char *parent_folder(void)
{
    const char *memory = getenv("SIJIL_TEST_MEMORY");

    return memory != NULL && strcmp(memory, "1") == 0 && access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
}

void keyd_daemon_prepare(struct keyd_daemon *process, const char *origin)
{
    int status = 0;

    *process = (struct keyd_daemon){0};
    (void)snprintf(process->folder, sizeof process->folder, "%s/sijil-keyd-XXXXXX", parent_folder());
    assert_non_null(mkdtemp(process->folder));
    (void)snprintf(process->directory, sizeof process->directory, "%s/keys", process->folder);
    (void)snprintf(process->socket, sizeof process->socket, "%s/socket", process->folder);
    (void)snprintf(process->passphrase, sizeof process->passphrase, "%s/pass", process->folder);
    assert_int_equal(mkdir(process->directory, 0700), 0);
    const int fd = open(process->passphrase, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0 && write(fd, "correct horse\n", 14) == 14);
    (void)close(fd);
    const char *const arguments[] = {RING_TOOL, process->directory, origin, process->passphrase, NULL};
    assert_int_equal(waitpid(spawn(arguments, -1), &status, 0) > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1, 0);
}

void keyd_daemon_start(struct keyd_daemon *process, const char *const *options)
{
    const char *all[ARGUMENTS] = {"--socket", process->socket, "--passphrase-file", process->passphrase};
    struct stat about;

    for (size_t i = 0; options != NULL && options[i] != NULL && i < ARGUMENTS - 5; i++) all[4 + i] = options[i];
    (void)unlink(process->socket);
    process->pid = spawn_keyd(process, all, -1);
    for (int i = 0; i < WAIT_STEPS; i++) {
        if (stat(process->socket, &about) == 0) return;
        if (waitpid(process->pid, NULL, WNOHANG) != 0) {
            process->pid = 0; /* its number may be another process's from now on */
            break;
        }
        (void)usleep(WAIT_STEP_MS * 1000);
    }
    fail_msg("sijil-keyd did not start");
}

int keyd_daemon_end(struct keyd_daemon *process, int signal)
{
    int status = 0;

    assert_true(signal_process(process->pid, signal));
    assert_int_equal(waitpid(process->pid, &status, 0), process->pid);
    process->pid = 0;
    return status;
}

static void remove_in(const char *folder, const char *name)
{
    char path[128];

    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    (void)unlink(path);
}

void keyd_daemon_remove(struct keyd_daemon *process)
{
    if (process->pid > 0) (void)keyd_daemon_end(process, SIGKILL);
    remove_in(process->directory, "keyring");
    remove_in(process->directory, "ledger");
    remove_in(process->directory, "runs");
    remove_in(process->directory, "keys");
    remove_in(process->directory, "log-keys");
    remove_in(process->directory, "policy-ids");
    remove_in(process->directory, "organisation-officers");
    remove_in(process->directory, "organisation-restrictions");
    remove_in(process->directory, "replacements");
    remove_in(process->directory, "region-keyds");
    (void)rmdir(process->directory);
    remove_in(process->folder, "socket");
    remove_in(process->folder, "pass");
    assert_int_equal(rmdir(process->folder), 0);
}
