/* The talk of an agent and its runner: the key, messages and their limits, files that must stay in their folder. */
#include "tests/support/unit.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "runner/talk/talk_files.h"
#include "runner/talk/talk_priv.h"
#include "runner/talk/talk_sockets.h"

#define PORT  47300
#define PORTS 64

struct pair {
    struct talk_door *door;
    struct talk *here, *there; /* the runner's side, the agent's */
    char port[8];
    const char *pin;
    struct error err; /* of the agent */
};

static void *call(void *context)
{
    struct pair *pair = context;

    (void)talk_call("127.0.0.1", pair->port, pair->pin, &pair->there, &pair->err).ok;
    return NULL;
}

/* Whether the runner's side got a talk. */
static bool meet(struct pair *pair, const char *pin)
{
    struct error err = {0};
    pthread_t thread;

    must(talk_door_open("127.0.0.1", PORT, PORTS, &pair->door, &err), &err);
    (void)snprintf(pair->port, sizeof pair->port, "%u", talk_door_port(pair->door));
    pair->pin = pin == NULL ? talk_door_pin(pair->door) : pin;
    assert_int_equal(pthread_create(&thread, NULL, call, pair), 0);
    const bool is_met = talk_accept(pair->door, 10000, &pair->here, &err).ok;
    assert_int_equal(pthread_join(thread, NULL), 0);
    return is_met;
}

static void part(struct pair *pair)
{
    talk_free(pair->here);
    talk_free(pair->there);
    talk_door_free(pair->door);
}
#define OWNED_PAIR __attribute__((cleanup(part))) struct pair

static void messages_arrive(void **state)
{
    OWNED_PAIR pair = {.door = NULL};
    struct talk_message message = TALK_MESSAGE;
    const char *const words[] = {"1", "two", ""};
    uint8_t *large = calloc(1, TALK_MESSAGE_MAX + 1);
    struct error err = {0};

    (void)state;
    assert_true(meet(&pair, NULL));
    must(talk_send(pair.there, TALK_TOKEN, bytes_of_text("a.b.c"), &err), &err);
    must(talk_receive(pair.here, 5000, &message, &err), &err);
    assert_int_equal(message.kind, TALK_TOKEN);
    assert_memory_equal(message.content.data, "a.b.c", 5);
    assert_false(talk_receive(pair.here, 10, &message, &err).ok);
    assert_int_equal(err.kind, ERROR_NOT_FOUND);
    must(talk_send_texts(pair.here, TALK_CHECK, words, 3, &err), &err);
    must(talk_receive(pair.there, 5000, &message, &err), &err);
    must(talk_texts(&message, 3, &err), &err);
    assert_string_equal(message.texts[1], "two");
    assert_false(talk_texts(&message, 4, &err).ok);
    must(talk_send(pair.here, TALK_PIECE, (struct bytes){large, 100000}, &err), &err);
    must(talk_receive(pair.there, 5000, &message, &err), &err);
    assert_int_equal(message.content.length, 100000);
    assert_false(talk_send(pair.here, TALK_PIECE, (struct bytes){large, TALK_MESSAGE_MAX + 1}, &err).ok);
    talk_free(pair.there);
    pair.there = NULL;
    must(talk_receive(pair.here, 5000, &message, &err), &err);
    assert_int_equal(message.kind, TALK_END);
    buffer_done(&message.content);
    free(large);
}

/* One byte must not keep a door for as long as a message of somebody who was let in. */
static void a_stranger_has_one_patience(void **state)
{
    OWNED_PAIR pair = {.door = NULL};
    struct talk_message message = TALK_MESSAGE;
    struct error err = {0};

    (void)state;
    assert_true(meet(&pair, NULL));
    const int64_t began_ms = clock_monotonic_ms();
    must(tls_write(pair.there->tls, bytes_of_text("t"), began_ms + 5000, &err), &err);
    assert_false(talk_receive_whole(pair.here, 300, &message, &err).ok);
    assert_int_equal(err.kind, ERROR_UNAVAILABLE);
    assert_in_range(clock_monotonic_ms() - began_ms, 250, 5000);
    buffer_done(&message.content);
}

static void another_key_is_refused(void **state)
{
    static const char other[] = "0000000000000000000000000000000000000000000000000000000000000000";
    OWNED_PAIR pair = {.door = NULL};

    (void)state;
    (void)meet(&pair, other);
    assert_null(pair.there);
    assert_int_equal(pair.err.kind, ERROR_DENIED);
}

/* Each door has a key of its own. */
static void a_key_is_for_one_talk(void **state)
{
    OWNED(talk_door) *one = NULL;
    OWNED(talk_door) *other = NULL;
    OWNED(talk_door) *none = NULL;
    struct error err = {0};

    (void)state;
    must(talk_door_open("127.0.0.1", PORT, PORTS, &one, &err), &err);
    must(talk_door_open("127.0.0.1", PORT, PORTS, &other, &err), &err);
    assert_string_not_equal(talk_door_pin(one), talk_door_pin(other));
    assert_int_not_equal(talk_door_port(one), talk_door_port(other));
    assert_false(talk_door_open("127.0.0.1", talk_door_port(one), 1, &none, &err).ok);
    assert_int_equal(err.kind, ERROR_CONFLICT);
    assert_false(talk_door_open("localhost", PORT, PORTS, &none, &err).ok);
    assert_int_equal(err.kind, ERROR_INVALID);
}

/* ---- files ---- */

static const struct path_row {
    const char *name, *path;
    bool is_safe;
} paths[] = {
    {"a file", "code/train.py", true},
    {"deep", "a/b/c/d", true},
    {"dots in a name", "a/..b/c..", true},
    {"empty", "", false},
    {"from the root", "/etc", false},
    {"up", "../x", false},
    {"up in the middle", "a/../../x", false},
    {"up at the end", "a/..", false},
    {"itself", "a/./b", false},
    {"a folder", "a/", false},
    {"two slashes", "a//b", false},
};

static void check_path(void **state)
{
    const struct path_row *row = *state;

    assert_int_equal(talk_path_is_safe(row->path), row->is_safe);
}

struct folder {
    char path[32];
    int fd;
};

static void open_folder(struct folder *folder)
{
    (void)snprintf(folder->path, sizeof folder->path, "/tmp/sijil-talk-XXXXXX");
    assert_non_null(mkdtemp(folder->path));
    folder->fd = open(folder->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(folder->fd >= 0);
}

static void give(struct pair *pair, const char *path, const char *content)
{
    char name[] = "/tmp/sijil-talk-file-XXXXXX";
    OWNED_FD fd = mkstemp(name);
    struct error err = {0};

    assert_true(fd >= 0 && unlink(name) == 0);
    must(file_write_all(fd, content, strlen(content), &err), &err);
    must(talk_send_file(pair->there, path, 0755, fd, (int64_t)strlen(content), &err), &err);
}

/* The kind of the failure; ERROR_NONE: it was taken. */
static enum error_kind take(struct pair *pair, struct talk_taking *taking)
{
    struct talk_message message = TALK_MESSAGE;
    struct error err = {0};

    must(talk_receive(pair->here, 5000, &message, &err), &err);
    assert_int_equal(message.kind, TALK_FILE);
    const bool is_taken = talk_take_file(pair->here, &message, taking, &err).ok;
    buffer_done(&message.content);
    return is_taken ? ERROR_NONE : err.kind;
}

static void files_stay_in_their_folder(void **state)
{
    static const struct {
        const char *path, *content;
        enum error_kind kind;
    } steps[] = {{"a/b/one", "hello", ERROR_NONE}, {"a/b/one", "again", ERROR_DENIED}, {"link/x", "out", ERROR_DENIED},
                 {"../x", "out", ERROR_DENIED},    {"large", "123456", ERROR_LIMIT},   {"a/two", "12345", ERROR_NONE},
                 {"three", "", ERROR_LIMIT}};
    struct folder folder;
    char command[64];
    struct error err = {0};

    (void)state;
    open_folder(&folder);
    assert_int_equal(symlinkat("/tmp", folder.fd, "link"), 0);
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        OWNED_PAIR pair = {.door = NULL};
        struct talk_taking taking = {
            .folder = folder.fd, .files_max = i + 1 == sizeof steps / sizeof steps[0] ? 0 : 2, .bytes = 5};
        assert_true(meet(&pair, NULL));
        give(&pair, steps[i].path, steps[i].content);
        assert_int_equal(take(&pair, &taking), steps[i].kind);
    }
    struct buffer OWNED_BUFFER text = BUFFER(64);
    (void)snprintf(command, sizeof command, "%s/a/b/one", folder.path);
    must(file_read(command, &text, &err), &err);
    assert_string_equal(buffer_text(&text), "hello");
    assert_int_equal(access(command, X_OK), 0);
    (void)close(folder.fd);
    for (const char *const *name = (const char *const[]){"a/b/one", "a/two", "link", NULL}; *name != NULL; name++) {
        (void)snprintf(command, sizeof command, "%s/%s", folder.path, *name);
        assert_int_equal(unlink(command), 0);
    }
    for (const char *const *name = (const char *const[]){"/a/b", "/a", "", NULL}; *name != NULL; name++) {
        (void)snprintf(command, sizeof command, "%s%s", folder.path, *name);
        assert_int_equal(rmdir(command), 0);
    }
}

/* ---- what is no talk ---- */

static void a_peer_that_is_silent_or_wrong_is_left(void **state)
{
    OWNED(talk_door) *door = NULL;
    OWNED(talk) *talk = NULL;
    struct error err = {0};

    (void)state;
    must(talk_door_open("127.0.0.1", PORT, PORTS, &door, &err), &err);
    assert_false(talk_accept(door, 10, &talk, &err).ok);
    assert_int_equal(err.kind, ERROR_NOT_FOUND);
    OWNED_FD fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const struct sockaddr_in there = {
        .sin_family = AF_INET, .sin_port = htons((in_port_t)talk_door_port(door)), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_int_equal(connect(fd, (const struct sockaddr *)&there, sizeof there), 0);
    assert_int_equal(write(fd, "GET / HTTP/1.1\r\n\r\n", 18), 18);
    assert_false(talk_accept(door, 1000, &talk, &err).ok);
    assert_int_equal(err.kind, ERROR_UNAVAILABLE);
    assert_null(talk);
}

static const struct where_row {
    const char *name; /* the text */
    const char *address;
    unsigned port; /* 0: it is none */
} wheres[] = {
    {"127.0.0.1:4700", "127.0.0.1", 4700},
    {"[2001:db8::7]:1", "2001:db8::7", 1},
    {"0.0.0.0:65535", "0.0.0.0", 65535},
    {"127.0.0.1", "", 0},
    {"127.0.0.1:", "", 0},
    {"127.0.0.1:0", "", 0},
    {"127.0.0.1:65536", "", 0},
    {"127.0.0.1:47x", "", 0},
    {"node0.example:4700", "", 0},
    {"2001:db8::7:1", "", 0},
    {"[127.0.0.1]:1", "", 0},
    {"[]:1", "", 0},
    {"[::1:1", "", 0},
    {":1", "", 0},
    {"", "", 0},
};

static void check_where(void **state)
{
    const struct where_row *row = *state;
    char address[TALK_ADDRESS_SIZE], again[TALK_WHERE_SIZE];
    unsigned port = 0;

    assert_int_equal(talk_where_read(row->name, address, &port), row->port != 0);
    if (row->port == 0) return;
    assert_string_equal(address, row->address);
    assert_int_equal(port, row->port);
    talk_where_write(address, port, again);
    assert_string_equal(again, row->name);
}

static const struct call_row {
    const char *name; /* the other address */
    const char *own;
    bool may;
} calls[] = {
    {"192.0.2.8", "192.0.2.7", true},
    {"10.0.0.8", "127.0.0.1", true},
    {"2001:db8::8", "2001:db8::7", true},
    {"fd00::8", "fd00::7", true},
    {"127.0.0.1", "127.0.0.1", true},
    {"127.9.9.9", "127.0.0.1", true},
    {"169.254.3.4", "169.254.1.1", true},
    {"fe80::8", "fe80::7", true},
    {"::1", "::1", true},
    {"127.0.0.1", "192.0.2.7", false},
    {"127.255.255.254", "192.0.2.7", false},
    {"::ffff:127.0.0.1", "192.0.2.7", false},
    {"169.254.169.254", "192.0.2.7", false},
    {"169.254.169.254", "127.0.0.1", false},
    {"::1", "2001:db8::7", false},
    {"fe80::1", "2001:db8::7", false},
    {"febf::1", "2001:db8::7", false},
    {"0.0.0.0", "127.0.0.1", false},
    {"0.0.0.0", "0.0.0.0", false},
    {"0.1.2.3", "192.0.2.7", false},
    {"224.0.0.1", "192.0.2.7", false},
    {"239.255.255.255", "239.0.0.1", false},
    {"255.255.255.255", "192.0.2.7", false},
    {"ff02::1", "fe80::7", false},
    {"::", "::1", false},
};

static void check_call(void **state)
{
    const struct call_row *row = *state;

    assert_int_equal(talk_may_call(row->own, row->name), row->may);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {cmocka_unit_test(messages_arrive),
                                              cmocka_unit_test(a_stranger_has_one_patience),
                                              cmocka_unit_test(another_key_is_refused),
                                              cmocka_unit_test(a_key_is_for_one_talk),
                                              cmocka_unit_test(files_stay_in_their_folder),
                                              cmocka_unit_test(a_peer_that_is_silent_or_wrong_is_left)};

    return RUN_TABLE(paths, check_path) + RUN_TABLE(wheres, check_where) + RUN_TABLE(calls, check_call) +
           cmocka_run_group_tests(tests, NULL, NULL);
}
