/* The messages to a service manager, over real sockets. */
#include "tests/support/unit.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/environment.h"
#include "base/notify.h"
#include "base/sandbox.h"

static char folder[] = "/tmp/sijil-notify-XXXXXX";

/* A manager that listens at `name`, which may be abstract. */
static int listen_at(const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    memcpy(address.sun_path, name, strlen(name));
    if (name[0] == '@') address.sun_path[0] = '\0';
    assert_int_equal(bind(fd, (struct sockaddr *)&address, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name))),
                     0);
    return fd;
}

static void assert_told(int fd, const char *state)
{
    char text[64] = "";

    assert_int_equal(recv(fd, text, sizeof text - 1, MSG_DONTWAIT), (ssize_t)strlen(state));
    assert_string_equal(text, state);
}

/* As a server: in a separate process, which is in its sandbox when it sends. */
static int serve(const char *name)
{
    const pid_t child = fork();
    int status = 0;

    if (child == 0) {
        struct error err;
        (void)setenv("NOTIFY_SOCKET", name, 1);
        notify_find();
        if (getenv("NOTIFY_SOCKET") != NULL) _exit(1);
        environment_keep(environment_of_servers);
        if (!notify_connect(&err).ok) _exit(err.kind == ERROR_INVALID ? 2 : 3);
        if (!sandbox_enter(&err).ok) _exit(4);
        _exit(notify_send("READY=1") && notify_send("STOPPING=1") ? 0 : 5);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void a_manager_is_told(void **state)
{
    char path[64], abstract[64];
    const char *const names[] = {path, abstract};

    (void)state;
    (void)snprintf(path, sizeof path, "%s/manager", folder);
    (void)snprintf(abstract, sizeof abstract, "@sijil-notify-%d", (int)getpid());
    for (size_t i = 0; i < COUNT(names); i++) {
        const int fd = listen_at(names[i]);
        assert_int_equal(serve(names[i]), 0);
        assert_told(fd, "READY=1");
        assert_told(fd, "STOPPING=1");
        (void)close(fd);
    }
}

static void without_one_nothing_happens(void **state)
{
    (void)state;
    assert_int_equal(serve(""), 0);
}

static void a_wrong_one_is_said(void **state)
{
    char longest[200];

    (void)state;
    memset(longest, 'a', sizeof longest);
    longest[0] = '/';
    longest[sizeof longest - 1] = '\0';
    assert_int_equal(serve(longest), 2);
    assert_int_equal(serve("@"), 2);
    assert_int_equal(serve("vsock:2:1234"), 2);
    assert_int_equal(serve("/tmp/sijil-notify-nobody"), 3);
}

/* A manager that reads nothing delays nobody. */
static void a_full_manager_is_not_waited_for(void **state)
{
    char path[64];

    (void)state;
    (void)snprintf(path, sizeof path, "%s/full", folder);
    const int fd = listen_at(path), other = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, path, strlen(path));
    while (sendto(other, "x", 1, MSG_DONTWAIT, (struct sockaddr *)&address, sizeof address) == 1) continue;
    assert_int_equal(serve(path), 5);
    (void)close(other);
    (void)close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_manager_is_told),
        cmocka_unit_test(without_one_nothing_happens),
        cmocka_unit_test(a_wrong_one_is_said),
        cmocka_unit_test(a_full_manager_is_not_waited_for),
    };
    char command[64];

    if (mkdtemp(folder) == NULL) return 1;
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    (void)snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command) == 0 ? failed : 1; /* NOLINT(cert-env33-c): our own mkdtemp() name */
}
