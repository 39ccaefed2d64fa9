/* Further ports of a gateway: their setting, and which one a connection has come to. */
#include "tests/support/unit.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gateway/http/listeners.h"

static const struct row {
    const char *name, *text;
    int count; /* -1: refused */
    const char *why;
} rows[] = {
    {"none", "", 0, NULL},
    {"blanks alone", " , ", 0, NULL},
    {"two", "ae-front=8444, sa.front=8445", 2, NULL},
    {"eight", "l1=1 l2=2 l3=3 l4=4 l5=5 l6=6 l7=7 l8=8", 8, NULL},
    {"nine", "l1=1 l2=2 l3=3 l4=4 l5=5 l6=6 l7=7 l8=8 l9=9", -1, "at most 8"},
    {"without a port", "ae-front", -1, "NAME=PORT"},
    {"without a name", "=8444", -1, "NAME=PORT"},
    {"a name of one letter", "a=8444", -1, "NAME=PORT"},
    {"a name that begins with a sign", "-a=8444", -1, "NAME=PORT"},
    {"a name with a colon", "a:b=8444", -1, "NAME=PORT"},
    {"port 0", "ae-front=0", -1, "NAME=PORT"},
    {"a port that is too large", "ae-front=65536", -1, "NAME=PORT"},
    {"a port of six digits", "ae-front=008444", -1, "NAME=PORT"},
    {"a port with more behind it", "ae-front=8444x", -1, "NAME=PORT"},
    {"one name twice", "ae-front=8444 ae-front=8445", -1, "another one"},
    {"one port twice", "ae-front=8444 sa-front=8444", -1, "another one"},
    {"the port of all", "ae-front=8443", -1, "another one"},
};

static void the_setting_is_read(void **state)
{
    const struct row *row = *state;
    struct listeners listeners = {.count = 99};
    struct error err = {0};
    const bool is_read = listeners_parse(row->text, 8443, &listeners, &err).ok;

    assert_int_equal(is_read, row->count >= 0);
    assert_int_equal(listeners.count, row->count >= 0 ? row->count : 99);
    if (!is_read) assert_non_null(strstr(err.message, row->why));
}

static int listening(struct sockaddr_in *at)
{
    socklen_t length = sizeof *at;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    *at = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_int_equal(bind(fd, (struct sockaddr *)at, sizeof *at), 0);
    assert_int_equal(listen(fd, 1), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)at, &length), 0);
    return fd;
}

static void a_connection_has_come_to_one(void **state)
{
    struct listeners listeners = {.count = 2, .each = {{"other", 1}, {"ae-front", 0}}};
    struct sockaddr_in at;
    const int server = listening(&at), client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int pair[2];

    (void)state;
    listeners.each[1].port = ntohs(at.sin_port);
    assert_int_equal(connect(client, (struct sockaddr *)&at, sizeof at), 0);
    const int accepted = accept(server, NULL, NULL);
    assert_string_equal(listeners_name_of(&listeners, accepted), "ae-front");
    listeners.each[1].port = 2;
    assert_string_equal(listeners_name_of(&listeners, accepted), "");
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    assert_string_equal(listeners_name_of(&listeners, pair[0]), "");
    const int open[] = {server, client, accepted, pair[0], pair[1]};
    for (size_t i = 0; i < COUNT(open); i++) assert_int_equal(close(open[i]), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_connection_has_come_to_one)};

    return RUN_TABLE(rows, the_setting_is_read) + cmocka_run_group_tests(tests, NULL, NULL);
}
