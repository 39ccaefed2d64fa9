/*
 * tests/unit/keyd_peer_fixture.h -- a peer for the client of sijil-keyd that breaks the protocol. For one source file of a
 * program only: it defines what it declares.
 */
#pragma once

#include "tests/support/unit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "crypto/keyd_client.h"
#include "crypto/keyd_frame.h"
#include "crypto/keyd_protocol.h"

enum { TIMEOUT_MS = 1500, PEERS_MAX = 512 };

enum manner {
    HONEST,
    CLOSES, /* without an answer */
    WRONG_ID,
    WRONG_TYPE,
    GARBAGE,
    SAYS_NO,
    SILENT,
    LATE,      /* but in time */
    TOO_SHORT, /* a length that no message has */
    TOO_LONG,
    BREAKS_OFF, /* in the middle of a reply */
    TRICKLES,
};

static _Atomic enum manner manner;
static int listener;
static pthread_t acceptor, peers[PEERS_MAX];
static atomic_size_t peer_count;
static char folder[] = "/tmp/sijil-keyd-client-XXXXXX", path[64];

ssize_t __real_send(int fd, const void *from, size_t length, int flags);

/* ---- the peer ---- */

static inline void send_all(int fd, struct bytes bytes)
{
    (void)__real_send(fd, bytes.data, bytes.length, MSG_NOSIGNAL);
}

static inline struct keyd_reply reply_to(const struct keyd_request *request)
{
    static const uint8_t key[32] = {1};
    struct keyd_reply reply = {.type = request->type, .id = request->id};

    if (request->type == KEYD_IDENTIFY)
        reply.as.identity = (struct keyd_identity){.origin = "o", .log_vkey = "v", .token_kid = "k"};
    else if (request->type == KEYD_UNWRAP) reply.as.data_key = (struct bytes){key, sizeof key};
    else if (request->type == KEYD_SUBJECT_KEY_NEW || request->type == KEYD_SUBJECT_KEY_OPEN)
        reply.as.subject_key.key = (struct bytes){key, sizeof key};
    else if (request->type == KEYD_TOKEN || request->type == KEYD_BOUND_TOKEN) reply.as.token.text = bytes_of_text("a.b.c");
    else if (request->type == KEYD_CHECKPOINT) reply.as.note = bytes_of_text("note");
    return reply;
}

/* Sends the header and some more bytes one by one. Each may cost a turn of the scheduler, but all arrive before the deadline. */
static inline void trickle(int fd, struct bytes bytes)
{
    const size_t alone = bytes.length < 30 ? bytes.length : 30;

    for (size_t i = 0; i < alone; i++) {
        send_all(fd, (struct bytes){bytes.data + i, 1});
        if (i < 8) (void)usleep(1000);
    }
    send_all(fd, (struct bytes){bytes.data + alone, bytes.length - alone});
}

/* False: the connection ends. */
static inline bool answer(int fd, const struct keyd_request *request)
{
    struct keyd_reply reply = reply_to(request);
    struct buffer OWNED_BUFFER frame = BUFFER(KEYD_MESSAGE_MAX);
    struct error err = {0};
    const enum manner now = atomic_load(&manner);

    if (now == CLOSES) return false;
    if (now == SILENT) (void)usleep(2 * TIMEOUT_MS * 1000);
    if (now == LATE) (void)usleep(TIMEOUT_MS * 1000 / 3);
    if (now == WRONG_ID) reply.id++;
    if (now == WRONG_TYPE) reply = (struct keyd_reply){.type = KEYD_PIN_APPROVER, .id = request->id};
    if (now == SAYS_NO)
        reply = (struct keyd_reply){
            .type = KEYD_ERROR, .id = request->id, .as.error = {ERROR_LIMIT, bytes_of_text("enough for now")}};
    if (!keyd_reply_write(&frame, &reply, &err).ok) return false;
    if (now == GARBAGE) frame.data[5] = 99;
    if (now == TOO_SHORT) store_u32(frame.data, 3);
    if (now == TOO_LONG) store_u32(frame.data, KEYD_MESSAGE_MAX);
    if (now == BREAKS_OFF) frame.length -= 1;
    if (now == TRICKLES) trickle(fd, buffer_bytes(&frame));
    else send_all(fd, buffer_bytes(&frame));
    return now != BREAKS_OFF;
}

static inline void *serve(void *argument)
{
    const int fd = (int)(intptr_t)argument;
    struct keyd_frame frame = {0};
    struct keyd_request request;
    struct bytes message;
    struct error err = {0};

    if (keyd_frame_init(&frame, &err).ok)
        while (keyd_receive(fd, &frame, clock_monotonic_ms() + 120000, &message, &err).ok &&
               keyd_request_read(message, &request, &err).ok && answer(fd, &request))
            keyd_frame_wipe(&frame);
    keyd_frame_done(&frame);
    (void)close(fd);
    return NULL;
}

static inline void *accept_all(void *unused)
{
    (void)unused;
    for (int fd; (fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0;) {
        const size_t place = atomic_fetch_add(&peer_count, 1);
        assert_true(place < PEERS_MAX);
        assert_int_equal(pthread_create(&peers[place], NULL, serve, (void *)(intptr_t)fd), 0);
    }
    return NULL;
}

static inline int start_peer(void **state)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    (void)state;
    if (mkdtemp(folder) == NULL) return -1;
    (void)snprintf(path, sizeof path, "%s/socket", folder);
    memcpy(address.sun_path, path, strlen(path) + 1);
    listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(listener, (const struct sockaddr *)&address, sizeof address) != 0 || listen(listener, 16) != 0) return -1;
    return pthread_create(&acceptor, NULL, accept_all, NULL);
}

static inline int end_peer(void **state)
{
    (void)state;
    (void)shutdown(listener, SHUT_RDWR);
    (void)pthread_join(acceptor, NULL);
    for (size_t i = 0; i < atomic_load(&peer_count); i++) (void)pthread_join(peers[i], NULL);
    (void)close(listener);
    (void)unlink(path);
    return rmdir(folder);
}

static inline struct keyd_client *client_new(void)
{
    struct keyd_client *client = NULL;
    struct error err = {0};

    atomic_store(&manner, HONEST);
    assert_true(keyd_client_new(path, TIMEOUT_MS, &client, &err).ok);
    return client;
}
