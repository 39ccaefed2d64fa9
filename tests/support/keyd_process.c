#include "tests/support/keyd_process.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/unit.h"

#define PATH_SIZE 128 /* folders below /tmp */

struct keyd_process {
    char folder[PATH_SIZE], directory[2 * PATH_SIZE], socket[2 * PATH_SIZE], passphrase[2 * PATH_SIZE];
    pid_t pid;
    struct keyd_client *client;
};

static pid_t start(char *const arguments[])
{
    const pid_t parent = getpid(), pid = fork();

    assert_true(pid >= 0);
    if (pid > 0) return pid;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves nothing running */
    if (getppid() != parent) _exit(127);
    (void)execv(SIJIL_KEYD, arguments);
    _exit(127);
}

static void launch(struct keyd_process *keyd)
{
    char directory[3 * PATH_SIZE], socket[3 * PATH_SIZE], passphrase[3 * PATH_SIZE];
    char *const arguments[] = {(char[]){"sijil-keyd"}, directory, socket, passphrase, NULL};
    struct keyd_identity identity;
    struct error err = {0};

    (void)snprintf(directory, sizeof directory, "--directory=%s", keyd->directory);
    (void)snprintf(socket, sizeof socket, "--socket=%s", keyd->socket);
    (void)snprintf(passphrase, sizeof passphrase, "--passphrase-file=%s", keyd->passphrase);
    keyd->pid = start(arguments);
    for (unsigned tries = 0; tries < 600; tries++) { /* a minute */
        if (keyd_identify(keyd->client, &identity, &err).ok) return;
        (void)usleep(100000);
    }
    fail_msg("sijil-keyd does not answer: %s", err.message);
}

static void make_key_ring(const struct keyd_process *keyd, const char *origin)
{
    char directory[3 * PATH_SIZE], origin_option[3 * PATH_SIZE], passphrase[3 * PATH_SIZE];
    char *const arguments[] = {(char[]){"sijil-keyd"}, directory, (char[]){"--init"}, origin_option, passphrase, NULL};
    int status = -1;

    (void)snprintf(directory, sizeof directory, "--directory=%s", keyd->directory);
    (void)snprintf(origin_option, sizeof origin_option, "--origin=%s", origin);
    (void)snprintf(passphrase, sizeof passphrase, "--passphrase-file=%s", keyd->passphrase);
    assert_int_equal(waitpid(start(arguments), &status, 0) > 0, 1);
    if (status != 0) fail_msg("sijil-keyd --init failed");
}

static void write_passphrase(const char *path)
{
    const int file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    assert_true(file >= 0);
    assert_int_equal(write(file, "correct horse\n", 14), 14);
    (void)close(file);
}

struct keyd_process *keyd_process_new(const char *origin)
{
    struct keyd_process *keyd = calloc(1, sizeof *keyd);
    struct error err = {0};

    assert_non_null(keyd);
    (void)snprintf(keyd->folder, sizeof keyd->folder, "/tmp/sijil-test-keyd.XXXXXX");
    assert_non_null(mkdtemp(keyd->folder));
    (void)snprintf(keyd->directory, sizeof keyd->directory, "%s/keys", keyd->folder);
    (void)snprintf(keyd->socket, sizeof keyd->socket, "%s/socket", keyd->folder);
    (void)snprintf(keyd->passphrase, sizeof keyd->passphrase, "%s/passphrase", keyd->folder);
    assert_int_equal(mkdir(keyd->directory, 0700), 0);
    write_passphrase(keyd->passphrase);
    make_key_ring(keyd, origin);
    if (!keyd_client_new(keyd->socket, 2000, &keyd->client, &err).ok) fail_msg("%s", err.message);
    launch(keyd);
    return keyd;
}

struct keyd_client *keyd_process_client(struct keyd_process *keyd)
{
    return keyd->client;
}

pid_t keyd_process_pid(const struct keyd_process *keyd)
{
    return keyd->pid;
}

void keyd_process_kill(struct keyd_process *keyd)
{
    (void)kill(keyd->pid, SIGKILL);
    (void)waitpid(keyd->pid, NULL, 0);
}

void keyd_process_restart(struct keyd_process *keyd)
{
    launch(keyd);
}

static void remove_in(const char *folder, const char *name)
{
    char path[4 * PATH_SIZE];

    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    (void)unlink(path);
}

void keyd_process_free(struct keyd_process *keyd)
{
    if (keyd == NULL) return;
    keyd_process_kill(keyd);
    keyd_client_free(keyd->client);
    remove_in(keyd->directory, "keyring");
    remove_in(keyd->directory, "ledger");
    (void)rmdir(keyd->directory);
    remove_in(keyd->folder, "socket");
    remove_in(keyd->folder, "passphrase");
    (void)rmdir(keyd->folder);
    free(keyd);
}
