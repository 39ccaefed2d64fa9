#include "tests/support/keyd_process.h"

#include <signal.h>
#include <sys/wait.h>

#include "tests/support/keyd_daemon.h"
#include "tests/support/signal_process.h"
#include "tests/support/unit.h"

struct keyd_process {
    struct keyd_daemon daemon;
    struct keyd_client *client;
};

struct keyd_process *keyd_process_new(const char *origin)
{
    struct keyd_process *keyd = calloc(1, sizeof *keyd);
    struct error err = {0};

    assert_non_null(keyd);
    keyd_daemon_prepare(&keyd->daemon, origin);
    keyd_daemon_start(&keyd->daemon, NULL);
    if (!keyd_client_new(keyd->daemon.socket, 5000, &keyd->client, &err).ok) fail_msg("%s", err.message);
    return keyd;
}

struct keyd_client *keyd_process_client(struct keyd_process *keyd)
{
    return keyd->client;
}

void keyd_process_kill(struct keyd_process *keyd)
{
    (void)keyd_daemon_end(&keyd->daemon, SIGKILL);
}

void keyd_process_pause(struct keyd_process *keyd, bool paused)
{
    int status = 0;

    assert_true(signal_process(keyd->daemon.pid, paused ? SIGSTOP : SIGCONT));
    /* Waits until the kernel reports that all threads have stopped, because a running thread would still answer. */
    if (paused) assert_int_equal(waitpid(keyd->daemon.pid, &status, WUNTRACED), keyd->daemon.pid);
    assert_true(!paused || WIFSTOPPED(status));
}

void keyd_process_restart(struct keyd_process *keyd)
{
    keyd_daemon_start(&keyd->daemon, NULL);
}

int keyd_process_run(struct keyd_process *keyd, const char *const *options, char *said, size_t room)
{
    const char *all[8] = {"--passphrase-file", keyd->daemon.passphrase};

    assert_int_equal(keyd_daemon_end(&keyd->daemon, SIGTERM), 0);
    for (size_t i = 0; options[i] != NULL; i++) {
        assert_true(i + 3 < 8);
        all[2 + i] = options[i];
    }
    const int status = keyd_daemon_run(&keyd->daemon, all, said, room);
    keyd_daemon_start(&keyd->daemon, NULL);
    return status;
}

void keyd_process_free(struct keyd_process *keyd)
{
    if (keyd == NULL) return;
    keyd_client_free(keyd->client);
    if (keyd->daemon.pid > 0) assert_int_equal(keyd_daemon_end(&keyd->daemon, SIGTERM), 0);
    keyd_daemon_remove(&keyd->daemon);
    free(keyd);
}
