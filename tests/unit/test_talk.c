/* The talk of an agent and its runner: the key, messages and their limits, files that must stay in their folder. */
#include "tests/support/unit.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
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
    struct talk_message first; /* that the runner's side heard; of a caller that has sent it */
    char port[8];
    const char *pin;
    bool is_silent;   /* the agent */
    struct error err; /* of the agent */
};

static void *call(void *context)
{
    struct pair *pair = context;

    if (talk_call("127.0.0.1", pair->port, pair->pin, &pair->there, &pair->err).ok && !pair->is_silent)
        (void)talk_send(pair->there, TALK_TOKEN, bytes_of_text("a.b.c"), &pair->err).ok;
    return NULL;
}

static bool hear(struct pair *pair, int64_t patience_ms)
{
    struct error err = {0};

    pair->first = TALK_MESSAGE;
    return talk_hear(pair->door, patience_ms, &pair->first, &pair->here, &err).ok;
}

static void open_door(struct pair *pair)
{
    struct error err = {0};

    must(talk_door_open("127.0.0.1", PORT, PORTS, &pair->door, &err), &err);
    (void)snprintf(pair->port, sizeof pair->port, "%u", talk_door_port(pair->door));
    pair->pin = talk_door_pin(pair->door);
}

/* Whether the runner's side got a talk. */
static bool meet(struct pair *pair, const char *pin)
{
    pthread_t thread;

    open_door(pair);
    if (pin != NULL) pair->pin = pin;
    assert_int_equal(pthread_create(&thread, NULL, call, pair), 0);
    const bool is_met = hear(pair, pin == NULL ? 10000 : 1000);
    assert_int_equal(pthread_join(thread, NULL), 0);
    return is_met;
}

static void part(struct pair *pair)
{
    buffer_done(&pair->first.content);
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
    assert_int_equal(pair.first.kind, TALK_TOKEN);
    assert_int_equal(pair.first.content.length, 5);
    assert_memory_equal(pair.first.content.data, "a.b.c", 5);
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
    struct talk_message message = TALK_MESSAGE;
    struct error err = {0};

    (void)state;
    must(talk_door_open("127.0.0.1", PORT, PORTS, &door, &err), &err);
    assert_false(talk_hear(door, 10, &message, &talk, &err).ok);
    assert_int_equal(err.kind, ERROR_NOT_FOUND);
    OWNED_FD fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const struct sockaddr_in there = {
        .sin_family = AF_INET, .sin_port = htons((in_port_t)talk_door_port(door)), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_int_equal(connect(fd, (const struct sockaddr *)&there, sizeof there), 0);
    assert_int_equal(write(fd, "GET / HTTP/1.1\r\n\r\n", 18), 18);
    assert_false(talk_hear(door, 500, &message, &talk, &err).ok);
    assert_int_equal(err.kind, ERROR_NOT_FOUND);
    assert_null(talk);
    char answer[16]; /* of TLS: an alert. Then the end, or a reset */
    while (read(fd, answer, sizeof answer) > 0) continue;
}

/* ---- many callers ---- */

#define SILENT 50

static int stranger(const struct pair *pair)
{
    const struct sockaddr_in there = {.sin_family = AF_INET,
                                      .sin_port = htons((in_port_t)talk_door_port(pair->door)),
                                      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&there, sizeof there), 0);
    return fd;
}

static size_t dropped(const int fds[SILENT])
{
    struct pollfd polled[SILENT];
    size_t count = 0;

    for (size_t i = 0; i < SILENT; i++) polled[i] = (struct pollfd){.fd = fds[i], .events = POLLIN};
    assert_true(poll(polled, SILENT, 0) >= 0);
    for (size_t i = 0; i < SILENT; i++) count += polled[i].revents != 0 ? 1 : 0;
    return count;
}

/* None of them says a word. The true one comes behind them, and waits for none of their ten seconds. */
static void silent_callers_keep_nobody_waiting(void **state)
{
    OWNED_PAIR pair = {.door = NULL};
    int fds[SILENT];
    pthread_t thread;

    (void)state;
    open_door(&pair);
    for (size_t i = 0; i < SILENT; i++) fds[i] = stranger(&pair);
    const int64_t began_ms = clock_monotonic_ms();
    assert_int_equal(pthread_create(&thread, NULL, call, &pair), 0);
    assert_true(hear(&pair, 9000));
    assert_in_range(clock_monotonic_ms() - began_ms, 0, TALK_MEET_MS - 2000);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(pair.first.kind, TALK_TOKEN);
    assert_in_range(dropped(fds), SILENT + 1 - TALK_CALLERS_MAX, SILENT);
    for (size_t i = 0; i < SILENT; i++) (void)close(fds[i]);
}

/* The true one came first. As many as there are places push it out only after its moment, in which it has answered. */
static void the_first_is_not_pushed_out_at_once(void **state)
{
    OWNED_PAIR pair = {.door = NULL};
    int fds[SILENT];
    pthread_t thread;

    (void)state;
    open_door(&pair);
    assert_int_equal(pthread_create(&thread, NULL, call, &pair), 0);
    (void)usleep(100000); /* it has connected */
    for (size_t i = 0; i < SILENT; i++) fds[i] = stranger(&pair);
    assert_true(hear(&pair, 5000));
    assert_int_equal(pthread_join(thread, NULL), 0);
    for (size_t i = 0; i < SILENT; i++) (void)close(fds[i]);
}

/* One byte must not keep a place for as long as a message of somebody who was let in. */
static void a_stranger_has_one_patience(void **state)
{
    OWNED_PAIR pair = {.door = NULL};
    struct pollfd polled = {.events = POLLIN};

    (void)state;
    open_door(&pair);
    polled.fd = stranger(&pair);
    assert_int_equal(write(polled.fd, "\x16", 1), 1);
    assert_false(hear(&pair, TALK_MEET_MS - 1000));
    assert_int_equal(poll(&polled, 1, 0), 0);
    assert_false(hear(&pair, 2000));
    assert_int_equal(poll(&polled, 1, 0), 1);
    (void)close(polled.fd);
}

/* Of a caller that nobody knows, no message is kept that is longer than a token. */
static void a_first_message_is_bounded(void **state)
{
    OWNED_PAIR pair = {.door = NULL};
    static const uint8_t large[TALK_FIRST_MAX + 1];
    struct talk_message message = TALK_MESSAGE;
    struct error err = {0};
    pthread_t thread;

    (void)state;
    open_door(&pair);
    pair.is_silent = true;
    assert_int_equal(pthread_create(&thread, NULL, call, &pair), 0);
    assert_false(hear(&pair, 500));
    assert_int_equal(pthread_join(thread, NULL), 0);
    (void)talk_send(pair.there, TALK_TOKEN, (struct bytes){large, sizeof large}, &err).ok;
    assert_false(hear(&pair, 500));
    (void)talk_receive(pair.there, 5000, &message, &err).ok;
    assert_int_equal(message.kind, TALK_END);
    buffer_done(&message.content);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {cmocka_unit_test(messages_arrive),
                                              cmocka_unit_test(silent_callers_keep_nobody_waiting),
                                              cmocka_unit_test(the_first_is_not_pushed_out_at_once),
                                              cmocka_unit_test(a_stranger_has_one_patience),
                                              cmocka_unit_test(a_first_message_is_bounded),
                                              cmocka_unit_test(another_key_is_refused),
                                              cmocka_unit_test(a_key_is_for_one_talk),
                                              cmocka_unit_test(files_stay_in_their_folder),
                                              cmocka_unit_test(a_peer_that_is_silent_or_wrong_is_left)};

    return RUN_TABLE(paths, check_path) + cmocka_run_group_tests(tests, NULL, NULL);
}
