/* The client of sijil-keyd against a peer that breaks the protocol: every such call ends with an error. */
#include "tests/unit/keyd_peer_fixture.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "crypto/keyd_client.h"
#include "crypto/keyd_client_priv.h"

/* ---- system calls that fail once, on this thread ---- */

static _Thread_local struct failing {
    int poll, recv, send, setsockopt, fcntl; /* errno of the next one, or 0 */
} failing;

#define FAILS(call) (failing.call != 0 ? (errno = failing.call, failing.call = 0, true) : false)
int __real_poll(struct pollfd *fds, nfds_t count, int timeout_ms);
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms);
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
    return FAILS(poll) ? -1 : __real_poll(fds, count, timeout_ms);
}
ssize_t __real_recv(int fd, void *into, size_t length, int flags);
ssize_t __wrap_recv(int fd, void *into, size_t length, int flags);
ssize_t __wrap_recv(int fd, void *into, size_t length, int flags)
{
    return FAILS(recv) ? -1 : __real_recv(fd, into, length, flags);
}

ssize_t __wrap_send(int fd, const void *from, size_t length, int flags);
ssize_t __wrap_send(int fd, const void *from, size_t length, int flags)
{
    return FAILS(send) ? -1 : __real_send(fd, from, length, flags);
}
int __real_setsockopt(int fd, int level, int name, const void *value, socklen_t length);
int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t length);
int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t length)
{
    return FAILS(setsockopt) ? -1 : __real_setsockopt(fd, level, name, value, length);
}

int __real_fcntl(int fd, int command, ...);
int __wrap_fcntl(int fd, int command, long value);
int __wrap_fcntl(int fd, int command, long value) /* ours is the one that takes a number */
{
    return FAILS(fcntl) ? -1 : __real_fcntl(fd, command, value);
}

/* ---- tests ---- */

static const struct manner_row {
    const char *name;
    enum manner manner;
    enum error_kind kind; /* ERROR_NONE: the call succeeds */
} manner_rows[] = {
    {"honest", HONEST, ERROR_NONE},
    {"late, but in time", LATE, ERROR_NONE},
    {"byte by byte", TRICKLES, ERROR_NONE},
    {"says no", SAYS_NO, ERROR_LIMIT},
    {"closes", CLOSES, ERROR_UNAVAILABLE},
    {"another request's reply", WRONG_ID, ERROR_UNAVAILABLE},
    {"another type's reply", WRONG_TYPE, ERROR_UNAVAILABLE},
    {"garbage", GARBAGE, ERROR_UNAVAILABLE},
    {"silent", SILENT, ERROR_UNAVAILABLE},
    {"too short", TOO_SHORT, ERROR_INVALID},
    {"too long", TOO_LONG, ERROR_INVALID},
    {"breaks off", BREAKS_OFF, ERROR_UNAVAILABLE},
};

static void every_call_ends(void **state)
{
    const struct manner_row *row = *state;
    OWNED(keyd_client) *client = client_new();
    struct keyd_identity identity = {.log_size = 77};
    struct error err = {0};

    atomic_store(&manner, row->manner);
    const int64_t before_ms = clock_monotonic_ms();
    const bool ok = keyd_identify(client, &identity, &err).ok;
    assert_true(clock_monotonic_ms() - before_ms < 20 * TIMEOUT_MS);
    assert_int_equal(ok ? ERROR_NONE : err.kind, row->kind);
    if (!ok) assert_int_equal(identity.log_size, 77);
    atomic_store(&manner, HONEST);
    assert_true(keyd_identify(client, &identity, &err).ok); /* and the client goes on */
    assert_int_equal(identity.log_size, 0);
}

/* A system call fails once, on a connection that worked: the call as a whole still succeeds. */
static const struct broken_row {
    const char *name;
    size_t call; /* its place in struct failing */
    int code;
    enum manner manner;
} broken_rows[] = {
    {"recv is interrupted", offsetof(struct failing, recv), EINTR, HONEST},
    {"recv breaks", offsetof(struct failing, recv), ECONNRESET, HONEST}, /* a stale connection is tried once more */
    {"send is interrupted", offsetof(struct failing, send), EINTR, HONEST},
    {"send would wait", offsetof(struct failing, send), EAGAIN, HONEST},
    {"send breaks", offsetof(struct failing, send), EPIPE, HONEST},
    {"poll is interrupted", offsetof(struct failing, poll), EINTR, LATE},
    {"poll breaks", offsetof(struct failing, poll), ENOMEM, LATE},
};

static void broken_calls(void **state)
{
    const struct broken_row *row = *state;
    OWNED(keyd_client) *client = client_new();
    struct keyd_identity identity;
    struct error err = {0};

    assert_true(keyd_identify(client, &identity, &err).ok);
    atomic_store(&manner, row->manner);
    int *code = (int *)(void *)((char *)&failing + row->call);
    *code = row->code;
    assert_true(keyd_identify(client, &identity, &err).ok);
    assert_int_equal(*code, 0);
    atomic_store(&manner, HONEST);
}

static void a_connection_that_can_not_be_made(void **state)
{
    OWNED(keyd_client) *client = client_new();
    struct keyd_identity identity;
    struct error err = {0};

    (void)state;
    failing.setsockopt = EINVAL;
    assert_false(keyd_identify(client, &identity, &err).ok);
    assert_int_equal(err.kind, ERROR_UNAVAILABLE);

    failing.fcntl = EINVAL;
    assert_false(keyd_identify(client, &identity, &err).ok);
    assert_int_equal(err.kind, ERROR_UNAVAILABLE);

    OWNED(keyd_client) *lost = NULL;
    assert_true(keyd_client_new("/tmp/sijil-nobody-serves-this", TIMEOUT_MS, &lost, &err).ok);
    assert_false(keyd_identify(lost, &identity, &err).ok);
    assert_int_equal(err.kind, ERROR_UNAVAILABLE);

    struct keyd_client *none = NULL;
    char long_path[sizeof((struct sockaddr_un *)0)->sun_path + 1];
    memset(long_path, 'a', sizeof long_path - 1);
    long_path[sizeof long_path - 1] = '\0';
    assert_false(keyd_client_new(long_path, TIMEOUT_MS, &none, &err).ok);
    assert_int_equal(err.kind, ERROR_INVALID);
    assert_null(none);
}

/* A deadline that passes before anything is sent. */
static void no_time_at_all(void **state)
{
    OWNED(keyd_client) *client = NULL;
    struct keyd_identity identity;
    struct error err = {0};

    (void)state;
    assert_true(keyd_client_new(path, 0, &client, &err).ok);
    assert_false(keyd_identify(client, &identity, &err).ok);
    assert_int_equal(err.kind, ERROR_UNAVAILABLE);
}

static struct keyd_request identify(void)
{
    return (struct keyd_request){.type = KEYD_IDENTIFY};
}

static void *give_back_soon(void *call)
{
    (void)usleep(TIMEOUT_MS * 1000 / 3);
    keyd_call_done(call);
    return NULL;
}

/* Eight calls hold the eight connections: the ninth waits until one is free or the deadline passes. */
static void a_pool_has_an_end(void **state)
{
    OWNED(keyd_client) *client = client_new();
    struct keyd_call calls[8] = {0}, ninth = {0};
    struct keyd_request request = identify();
    pthread_t giver;
    struct error err = {0};

    (void)state;
    for (size_t i = 0; i < COUNT(calls); i++) assert_true(keyd_call(client, &request, &calls[i], &err).ok);
    assert_false(keyd_call(client, &request, &ninth, &err).ok);
    assert_int_equal(err.kind, ERROR_UNAVAILABLE);
    keyd_call_done(&ninth); /* of a call that never began */
    assert_int_equal(pthread_create(&giver, NULL, give_back_soon, &calls[3]), 0);
    assert_true(keyd_call(client, &request, &ninth, &err).ok);
    (void)pthread_join(giver, NULL);
    keyd_call_done(&ninth);
    for (size_t i = 0; i < COUNT(calls); i++) keyd_call_done(&calls[i]);
}

/* A connected entry of the pool is used before one that must connect. */
static void live_connections_are_preferred(void **state)
{
    OWNED(keyd_client) *client = client_new();
    struct keyd_call first = {0}, second = {0};
    struct keyd_request request = identify();
    struct error err = {0};

    (void)state;
    assert_true(keyd_call(client, &request, &first, &err).ok);
    assert_true(keyd_call(client, &request, &second, &err).ok);
    keyd_call_done(&second);
    keyd_call_done(&first);
    atomic_store(&manner, TOO_SHORT);
    assert_false(keyd_call(client, &request, &first, &err).ok); /* breaks the first one */
    keyd_call_done(&first);
    atomic_store(&manner, HONEST);
    const size_t before = atomic_load(&peer_count);
    assert_true(keyd_call(client, &request, &first, &err).ok);
    keyd_call_done(&first);
    assert_int_equal(atomic_load(&peer_count), before);
}

/* Each failure on our side during a call is reported, the result is unchanged, and the next call works. */
static struct result each_call(struct keyd_client *client, struct error *err)
{
    static const uint8_t index[32];
    OWNED(secret) *key = NULL;
    OWNED(secret) *opened = NULL;
    struct buffer OWNED_BUFFER text = BUFFER(64), note = BUFFER(64);
    struct wrapped_key wrapped, again;
    struct keyd_identity identity;
    struct document_pin pinned;
    uint8_t hash[32];
    int64_t issued_s;
    struct keyd_documents documents;
    const struct token_request token = {.issuer = "i",
                                        .audience = "a",
                                        .subject = "s",
                                        .source = "c",
                                        .access_count = 1,
                                        .access = {{.name = "n", .pull = true}}};
    const struct checkpoint_request checkpoint = {.size = 1};
    const struct key_binding binding = {.scope = {.region = "r"}};
    const struct document_pin_request pin = {
        .envelope_count = 1, .envelopes = {bytes_of_text("{}")}, .leaf = bytes_of_text("{}")};

    TRY_UNTOUCHED_BYTES(identity, keyd_identify(client, &identity, err));
    TRY_UNTOUCHED_BYTES(hash, keyd_subject_index(client, "issuer", "subject", hash, err));
    TRY_UNTOUCHED_BYTES(wrapped, keyd_subject_key_new(client, index, &key, &wrapped, err));
    TRY_UNTOUCHED_BYTES(opened, keyd_subject_key_open(client, index, &wrapped, &opened, err));
    TRY_UNTOUCHED_BYTES(wrapped, keyd_wrap(client, &binding, key, &wrapped, err));
    TRY_UNTOUCHED_BYTES(again, keyd_rewrap(client, &binding, &wrapped, &again, err));
    secret_free(GIVE(opened));
    TRY_UNTOUCHED_BYTES(opened, keyd_unwrap(client, &binding, &wrapped, &opened, err));
    TRY_UNTOUCHED_BYTES(issued_s, keyd_sign_token(client, &token, &text, &issued_s, err));
    TRY_UNTOUCHED(note.length, keyd_sign_checkpoint(client, &checkpoint, &note, err));
    TRY(keyd_pin_approver(client, (const uint8_t[65]){4}, err));
    TRY(keyd_log_forked(client, "entry 5", err));
    TRY_UNTOUCHED_BYTES(pinned, keyd_pin_document(client, &pin, &pinned, err));
    TRY_UNTOUCHED_BYTES(documents, keyd_ask_documents(client, &documents, err));
    return SUCCESS;
}

static void our_own_failures(void **state)
{
    unsigned long nth = 1, noticed = 0;

    (void)state;
    for (bool has_fired = true; has_fired; nth++) {
        OWNED(keyd_client) *client = client_new();
        struct error err = {0};

        fault_arm(nth);
        const bool ok = each_call(client, &err).ok;
        has_fired = fault_has_fired();
        fault_arm(0);
        noticed += !ok; /* a connection that broke is made anew, once: not noticed */
        if (!ok) assert_true(has_fired && (err.kind == ERROR_NO_MEMORY || err.kind == ERROR_UNAVAILABLE));
    }
    assert_failures(noticed, 10); /* a busy machine notices fewer */
}

static void tokens_have_bounds(void **state)
{
    OWNED(keyd_client) *client = client_new();
    struct token_request token = {
        .issuer = "i", .audience = "a", .subject = "s", .source = "c", .access_count = TOKEN_ACCESS_MAX + 1};
    struct buffer OWNED_BUFFER text = BUFFER(64);
    struct buffer OWNED_BUFFER narrow = BUFFER(2);
    int64_t issued_s = -1;
    struct error err = {0};

    (void)state;
    assert_false(keyd_sign_token(client, &token, &text, &issued_s, &err).ok);
    assert_int_equal(err.kind, ERROR_LIMIT);
    token.access_count = 0;
    assert_false(keyd_sign_token(client, &token, &narrow, &issued_s, &err).ok);
    assert_int_equal(err.kind, ERROR_LIMIT);
    assert_true(issued_s == -1);
}

/* A policy set is the one message that does not fit into the locked memory. */
static void large_messages(void **state)
{
    OWNED(keyd_client) *client = client_new();
    static uint8_t envelope[3 * KEYD_MESSAGE_MAX];
    struct document_pin_request pin = {.envelope_count = 1, .envelopes = {{envelope, sizeof envelope}}};
    struct document_pin pinned = {5, {0}};
    static struct keyd_policy_ids ids;
    uint64_t unused = 9;
    struct error err = {0};

    (void)state;
    memset(envelope, '{', sizeof envelope);
    assert_true(keyd_pin_set(client, &pin, &pinned, &err).ok && pinned.epoch == 0);
    pin.base = pin.envelopes[0];
    assert_true(keyd_pin_set(client, &pin, &pinned, &err).ok && pinned.epoch == 0);
    pin.base.length = KEYD_POLICY_MAX + 1;
    assert_false(keyd_pin_set(client, &pin, &pinned, &err).ok);
    assert_int_equal(err.kind, ERROR_LIMIT);
    pin.base.length = 0;
    pin.envelopes[0].length = KEYD_POLICY_MAX + 1;
    assert_false(keyd_pin_set(client, &pin, &pinned, &err).ok);
    assert_int_equal(err.kind, ERROR_LIMIT);
    ids.count = KEYD_POLICY_IDS_MAX;
    assert_true(keyd_ask_policy_ids(client, &ids, &unused, &err).ok && unused == 0);
    ids.count++;
    assert_false(keyd_ask_policy_ids(client, &ids, &unused, &err).ok);
    assert_int_equal(err.kind, ERROR_LIMIT);
}

int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(a_connection_that_can_not_be_made),
        cmocka_unit_test(no_time_at_all),
        cmocka_unit_test(a_pool_has_an_end),
        cmocka_unit_test(live_connections_are_preferred),
        cmocka_unit_test(our_own_failures),
        cmocka_unit_test(tokens_have_bounds),
        cmocka_unit_test(large_messages),
    };

    if (start_peer(NULL) != 0) return 1;
    const int failed = RUN_TABLE(manner_rows, every_call_ends) + RUN_TABLE(broken_rows, broken_calls) +
                       cmocka_run_group_tests_name("others", others, NULL, NULL);
    return failed + (end_peer(NULL) != 0);
}
