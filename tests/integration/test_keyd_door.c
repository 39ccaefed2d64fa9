/* The clients of the real sijil-keyd: connections, half-open ones, and other users. */
#include "tests/integration/keyd_fixture.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "crypto/keyd_protocol.h"

/* ---- who may talk to it, and how ---- */

static int connect_raw(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const struct timeval limit = {.tv_sec = 10};
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    (void)snprintf(address.sun_path, sizeof address.sun_path, "%s", process.socket);
    assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
    return fd;
}

static const struct message_row {
    const char *name;
    uint8_t bytes[24];
    size_t length;
} message_rows[] = {
    {"4 GiB", {0xff, 0xff, 0xff, 0xff, KEYD_PROTOCOL_VERSION, 1, 0, 0, 0, 0, 0, 0, 0, 0}, 14},
    {"65 KiB", {0, 1, 0, 1, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0}, 14},
    {"shorter than a header", {0, 0, 0, 9, KEYD_PROTOCOL_VERSION, 1, 0, 0, 0, 0, 0, 0, 0, 0}, 14},
    {"another version", {0, 0, 0, 10, KEYD_PROTOCOL_VERSION - 1, 1, 0, 0, 0, 0, 0, 0, 0, 0}, 14},
    {"an unknown type", {0, 0, 0, 10, KEYD_PROTOCOL_VERSION, 99, 0, 0, 0, 0, 0, 0, 0, 0}, 14},
    {"the type of errors", {0, 0, 0, 10, KEYD_PROTOCOL_VERSION, 255, 0, 0, 0, 0, 0, 0, 0, 0}, 14},
    {"a byte too many", {0, 0, 0, 11, KEYD_PROTOCOL_VERSION, 1, 0, 0, 0, 0, 0, 0, 0, 0, 7}, 15},
    {"fields that are missing", {0, 0, 0, 10, KEYD_PROTOCOL_VERSION, 2, 0, 0, 0, 0, 0, 0, 0, 0}, 14},
};

static void malformed_messages_end_the_connection(void **state)
{
    const struct message_row *row = *state;
    uint8_t reply;

    (void)start(NULL);
    const int fd = connect_raw();
    assert_int_equal(write(fd, row->bytes, row->length), row->length);
    assert_int_equal(read(fd, &reply, 1), 0);
    (void)close(fd);
    assert_int_equal(identify().log_size, 0); /* and nothing else */
    (void)stop(NULL);
}

static void a_slow_message_is_not_waited_for(void **state)
{
    const uint8_t half[7] = {0, 0, 0, 10, 1, 1};
    uint8_t reply;

    (void)state;
    const int fd = connect_raw();
    assert_int_equal(write(fd, half, sizeof half), sizeof half);
    assert_int_equal(read(fd, &reply, 1), 0); /* within ten seconds: five are allowed */
    (void)close(fd);
}

static void idle_connections_make_room(void **state)
{
    int idle[40];

    (void)state;
    for (size_t i = 0; i < COUNT(idle); i++) idle[i] = connect_raw();
    assert_int_equal(identify().log_size, 0);
    for (size_t i = 0; i < COUNT(idle); i++) (void)close(idle[i]);
}

/* A message alone is given five seconds. */
enum { SOON_MS = 2500 };

static void connect_halfway(int *connections, size_t count)
{
    const uint8_t half[7] = {0, 0, 0, 10, KEYD_PROTOCOL_VERSION, 1};

    for (size_t i = 0; i < count; i++) {
        connections[i] = connect_raw();
        assert_int_equal(write(connections[i], half, sizeof half), sizeof half);
    }
}

static void half_messages_delay_no_other(void **state)
{
    int halfway[32]; /* the number of connections that are served at a time */

    (void)state;
    connect_halfway(halfway, COUNT(halfway));
    const int64_t begun_ms = clock_monotonic_ms();
    assert_int_equal(identify().log_size, 0);
    assert_in_range(clock_monotonic_ms() - begun_ms, 0, SOON_MS);
    for (size_t i = 0; i < COUNT(halfway); i++) (void)close(halfway[i]);
}

/* Clients that connect, send nothing or half a message, and never leave. */
static void half_open_connections_do_not_delay_the_end(void **state)
{
    int halfway[8], silent[8];

    (void)state;
    connect_halfway(halfway, COUNT(halfway));
    for (size_t i = 0; i < COUNT(silent); i++) silent[i] = connect_raw();
    assert_int_equal(identify().log_size, 0); /* all have been accepted: they came first */
    const int64_t begun_ms = clock_monotonic_ms();
    assert_int_equal(keyd_daemon_end(&process, SIGTERM), 0);
    assert_in_range(clock_monotonic_ms() - begun_ms, 0, SOON_MS);
    keyd_daemon_start(&process, NULL);
    assert_int_equal(identify().log_size, 0);
    assert_in_range(clock_monotonic_ms() - begun_ms, 0, 2 * SOON_MS);
    for (size_t i = 0; i < COUNT(halfway); i++) (void)close(halfway[i]);
    for (size_t i = 0; i < COUNT(silent); i++) (void)close(silent[i]);
}

static void other_users_are_refused(void **state)
{
    int status = 0;

    (void)state;
    if (geteuid() != 0) skip(); /* only root can become another user */
    assert_int_equal(chmod(process.folder, 0711), 0);
    assert_int_equal(chmod(process.socket, 0666), 0);
    const pid_t stranger = fork();
    if (stranger == 0) {
        struct keyd_identity identity;
        struct error err = {0};
        if (setresuid(65534, 65534, 65534) != 0) _exit(2);
        _exit(keyd_identify(client, &identity, &err).ok ? 1 : err.kind == ERROR_UNAVAILABLE ? 0 : 3);
    }
    assert_int_equal(waitpid(stranger, &status, 0), stranger);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* A unit file knows users by name. */
static void users_have_names_or_numbers(void **state)
{
    const char *const strangers[] = {"--allow-uid", "nobody", NULL};
    const char *const both[] = {"--allow-uid", "nobody", "--allow-uid", "root", NULL};
    const char *const unknown[] = {
        "--socket", process.socket, "--passphrase-file", process.passphrase, "--allow-uid", "no such user", NULL};
    struct keyd_identity identity;
    struct error err = {0};
    char said[1024];

    (void)state;
    if (geteuid() != 0) skip(); /* the test's own user must be one with a known name */
    (void)keyd_daemon_end(&process, SIGTERM);
    assert_int_equal(keyd_daemon_run(&process, unknown, said, sizeof said), 2);
    assert_non_null(strstr(said, "--allow-uid needs a number or the name of a user"));
    keyd_daemon_start(&process, strangers);
    assert_false(keyd_identify(client, &identity, &err).ok);
    (void)keyd_daemon_end(&process, SIGTERM);
    keyd_daemon_start(&process, both);
    (void)identify();
}

int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test_setup_teardown(a_slow_message_is_not_waited_for, start, stop),
        cmocka_unit_test_setup_teardown(idle_connections_make_room, start, stop),
        cmocka_unit_test_setup_teardown(half_messages_delay_no_other, start, stop),
        cmocka_unit_test_setup_teardown(half_open_connections_do_not_delay_the_end, start, stop),
        cmocka_unit_test_setup_teardown(other_users_are_refused, start, stop),
        cmocka_unit_test_setup_teardown(users_have_names_or_numbers, start, stop),
    };

    return RUN_TABLE(message_rows, malformed_messages_end_the_connection) +
           cmocka_run_group_tests_name("the door", others, NULL, NULL);
}
