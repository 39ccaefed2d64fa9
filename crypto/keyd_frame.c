#include "crypto/keyd_frame.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/fault.h"
#include "crypto/keyd_protocol.h"

struct result keyd_frame_init(struct keyd_frame *frame, struct error *err)
{
    *frame = (struct keyd_frame){.large = BUFFER(KEYD_MESSAGE_LARGE)};
    TRY(secret_new(KEYD_MESSAGE_MAX + 1, &frame->locked, err)); /* a buffer ends in '\0' */
    /* Capacity and maximum are equal, so the buffer never allocates more. */
    frame->message =
        (struct buffer){.data = frame->locked->bytes, .capacity = frame->locked->length, .maximum = frame->locked->length - 1};
    return SUCCESS;
}

void keyd_frame_wipe(struct keyd_frame *frame)
{
    secret_wipe(frame->message.data, frame->message.length);
    frame->message.length = 0;
    buffer_done(&frame->large);
    frame->large = BUFFER(KEYD_MESSAGE_LARGE);
}

struct buffer *keyd_frame_buffer(struct keyd_frame *frame)
{
    keyd_frame_wipe(frame);
    return &frame->message;
}

struct buffer *keyd_frame_buffer_for(struct keyd_frame *frame, uint8_t type)
{
    struct buffer *locked = keyd_frame_buffer(frame);

    return keyd_type_is_large(type) ? &frame->large : locked;
}

void keyd_frame_done(struct keyd_frame *frame)
{
    secret_free(frame->locked);
    buffer_done(&frame->large);
    *frame = (struct keyd_frame){0};
}

static struct result wait_for(int fd, short events, int64_t deadline_ms, struct error *err)
{
    struct pollfd waiting = {.fd = fd, .events = events};

    for (;;) {
        const int64_t left_ms = deadline_ms - clock_monotonic_ms();
        if (left_ms <= 0) return failure(err, ERROR_UNAVAILABLE, "the peer of a key socket was too slow");
        const int ready = poll(&waiting, 1, (int)(left_ms < 60000 ? left_ms : 60000));
        if (ready > 0) return SUCCESS;
        if (ready < 0 && errno != EINTR) return failure(err, ERROR_UNAVAILABLE, "waiting on a key socket: %s", strerror(errno));
    }
}

/* Handles a result of send() or recv(): more than 0 is progress, EINTR is tried again, EAGAIN waits, any other ends the
 * connection. */
static struct result settle(int fd, ssize_t moved, short events, int64_t deadline_ms, struct error *err)
{
    if (moved > 0) return SUCCESS;
    if (moved == 0) return failure(err, ERROR_UNAVAILABLE, "the peer closed a key socket");
    if (errno == EINTR) return SUCCESS;
    if (errno == EAGAIN) return wait_for(fd, events, deadline_ms, err);
    return failure(err, ERROR_UNAVAILABLE, "a key socket broke: %s", strerror(errno));
}

struct result keyd_send(int fd, struct bytes message, int64_t deadline_ms, struct error *err)
{
    size_t sent = 0;

    while (sent < message.length) {
        if (fault_is_due(FAULT_SOCKET)) return failure(err, ERROR_UNAVAILABLE, "a key socket broke");
        const ssize_t moved = send(fd, message.data + sent, message.length - sent, MSG_NOSIGNAL);
        TRY(settle(fd, moved, POLLOUT, deadline_ms, err));
        if (moved > 0) sent += (size_t)moved;
    }
    return SUCCESS;
}

static struct result receive(int fd, uint8_t *into, size_t length, int64_t deadline_ms, struct error *err)
{
    size_t received = 0;

    while (received < length) {
        if (fault_is_due(FAULT_SOCKET)) return failure(err, ERROR_UNAVAILABLE, "a key socket broke");
        const ssize_t moved = recv(fd, into + received, length - received, 0);
        TRY(settle(fd, moved, POLLIN, deadline_ms, err));
        if (moved > 0) received += (size_t)moved;
    }
    return SUCCESS;
}

struct result keyd_receive(int fd, struct keyd_frame *frame, int64_t deadline_ms, struct bytes *message_out, struct error *err)
{
    uint8_t header[KEYD_HEADER_SIZE], *destination = frame->message.data;

    TRY(receive(fd, header, sizeof header, deadline_ms, err));
    const size_t length = (size_t)load_u32(header) + 4;
    const size_t most = keyd_type_is_large(header[5]) ? KEYD_MESSAGE_LARGE : KEYD_MESSAGE_MAX;
    if (length < sizeof header || length > most)
        return failure(err, ERROR_INVALID, "a message of %zu bytes on a key socket; at most %zu", length, most);
    if (length > KEYD_MESSAGE_MAX) TRY(buffer_reserve(&frame->large, length, &destination, err));
    else if (frame->message.length < length) /* a reply may use the memory of its request */ frame->message.length = length;
    memcpy(destination, header, sizeof header);
    TRY(receive(fd, destination + sizeof header, length - sizeof header, deadline_ms, err));
    *message_out = (struct bytes){destination, length};
    return SUCCESS;
}
