/* The runner's side: a key that lives as long as one talk, and never leaves this process; and who calls, side by side. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "runner/talk/talk_priv.h"
#include "runner/talk/talk_sockets.h"

/* Somebody that nobody knows yet. */
struct caller {
    struct tls *tls;
    int64_t came_ms;
    short events; /* that it waits for */
    bool is_shaken;
    uint8_t head[TALK_HEAD_SIZE];
    size_t head_got, length; /* length: of the message, when its head is there */
    enum talk_kind kind;
    struct buffer content;
};

struct talk_door {
    int fd;
    unsigned port;
    struct tls_server *server;
    size_t count;
    struct caller callers[TALK_CALLERS_MAX]; /* the one that came first is the first */
};

struct result talk_door_open(const char *address, unsigned port, unsigned ports, struct talk_door **door_out, struct error *err)
{
    OWNED(talk_door) *door = memory_zeroed(1, sizeof *door);

    if (door == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a talk");
    door->fd = -1;
    TRY(tls_server_new(&door->server, err));
    TRY(talk_listen(&(struct talk_place){address, port, ports}, &door->fd, &door->port, err));
    *door_out = GIVE(door);
    return SUCCESS;
}

unsigned talk_door_port(const struct talk_door *door)
{
    return door->port;
}

const char *talk_door_pin(const struct talk_door *door)
{
    return tls_server_pin(door->server);
}

/* ---- who comes and goes ---- */

static void dismiss(struct talk_door *door, size_t index)
{
    struct caller *caller = &door->callers[index];

    if (caller->content.data != NULL) explicit_bzero(caller->content.data, caller->content.length); /* a token, perhaps */
    buffer_done(&caller->content);
    tls_free(caller->tls);
    door->count--;
    memmove(caller, caller + 1, (door->count - index) * sizeof *caller);
}

/* Each caller has a moment, so that the true one is not pushed out before it can answer. Until then others wait in the queue of the socket. */
static int64_t room_ms(const struct talk_door *door)
{
    return door->count < TALK_CALLERS_MAX ? 0 : door->callers[0].came_ms + TALK_FAIR_MS;
}

static void let_in(struct talk_door *door)
{
    struct error ignored;

    while (clock_monotonic_ms() >= room_ms(door)) {
        const int fd = accept4(door->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) return;
        talk_watch_peer(fd);
        if (door->count == TALK_CALLERS_MAX) dismiss(door, 0);
        struct caller *caller = &door->callers[door->count];
        *caller = (struct caller){.came_ms = clock_monotonic_ms(), .events = POLLIN, .content = BUFFER(TALK_FIRST_MAX)};
        if (tls_await(fd, door->server, &caller->tls, &ignored).ok) door->count++;
    }
}

/* ---- what one of them says ---- */

static enum tls_step take_head(struct caller *caller)
{
    size_t got = 0;

    while (caller->head_got < sizeof caller->head) {
        uint8_t *into = caller->head + caller->head_got;
        const enum tls_step step = tls_take(caller->tls, into, sizeof caller->head - caller->head_got, &got, &caller->events);
        if (step != TLS_DONE) return step;
        caller->head_got += got;
    }
    return talk_head_read(caller->head, &caller->kind, &caller->length) && caller->length <= TALK_FIRST_MAX ? TLS_DONE : TLS_GONE;
}

static enum tls_step take_content(struct caller *caller)
{
    struct error ignored;
    uint8_t *into = NULL;
    size_t got = 0;

    while (caller->content.length < caller->length) {
        const size_t left = caller->length - caller->content.length;
        if (!buffer_reserve(&caller->content, left, &into, &ignored).ok) return TLS_GONE;
        const enum tls_step step = tls_take(caller->tls, into, left, &got, &caller->events);
        if (step != TLS_DONE) return step;
        caller->content.length += got;
    }
    return TLS_DONE;
}

static enum tls_step go_on(struct caller *caller)
{
    if (!caller->is_shaken) {
        const enum tls_step step = tls_shake(caller->tls, &caller->events);
        if (step != TLS_DONE) return step;
        caller->is_shaken = true;
    }
    const enum tls_step step = take_head(caller);
    return step == TLS_DONE ? take_content(caller) : step;
}

/* ---- all of them ---- */

/* Waits until somebody has come, or has said something. */
static size_t wait_for_any(const struct talk_door *door, int64_t until_ms, struct pollfd *polled)
{
    const int64_t now_ms = clock_monotonic_ms(), room = room_ms(door);
    const int64_t end_ms = room > now_ms && room < until_ms ? room : until_ms;

    polled[0] = (struct pollfd){.fd = room > now_ms ? -1 : door->fd, .events = POLLIN};
    for (size_t i = 0; i < door->count; i++)
        polled[1 + i] = (struct pollfd){.fd = tls_descriptor(door->callers[i].tls), .events = door->callers[i].events};
    if (poll(polled, 1 + door->count, end_ms > now_ms ? (int)(end_ms - now_ms) : 0) <= 0)
        for (size_t i = 0; i <= door->count; i++) polled[i].revents = 0;
    return door->count;
}

/* The place of the first that has said its message; SIZE_MAX: none has. */
static size_t hear_each(struct talk_door *door, const struct pollfd *polled, size_t count)
{
    size_t at = 0;

    for (size_t i = 0; i < count; i++) {
        struct caller *caller = &door->callers[at];
        const enum tls_step step = polled[1 + i].revents == 0 ? TLS_AGAIN : go_on(caller);
        if (step == TLS_DONE) return at;
        if (step == TLS_GONE || clock_monotonic_ms() > caller->came_ms + TALK_MEET_MS) dismiss(door, at);
        else at++;
    }
    return SIZE_MAX;
}

static struct result give(struct talk_door *door, size_t index, struct talk_message *message, struct talk **talk_out,
                          struct error *err)
{
    struct caller *caller = &door->callers[index];
    struct tls *tls = caller->tls;

    buffer_clear(&message->content);
    message->kind = caller->kind;
    message->count = 0;
    const struct result added = buffer_add(&message->content, buffer_bytes(&caller->content).data, caller->content.length, err);
    if (added.ok) caller->tls = NULL;
    dismiss(door, index);
    return added.ok ? talk_new(tls, talk_out, err) : added;
}

struct result talk_hear(struct talk_door *door, int64_t patience_ms, struct talk_message *message, struct talk **talk_out,
                        struct error *err)
{
    const int64_t until_ms = clock_monotonic_ms() + patience_ms;
    struct pollfd polled[1 + TALK_CALLERS_MAX];

    do {
        const size_t count = wait_for_any(door, until_ms, polled), spoke = hear_each(door, polled, count);
        if (spoke != SIZE_MAX) return give(door, spoke, message, talk_out, err);
        if (polled[0].revents != 0) let_in(door);
    } while (clock_monotonic_ms() < until_ms);
    return failure(err, ERROR_NOT_FOUND, "nobody came");
}

void talk_door_free(struct talk_door *door)
{
    if (door == NULL) return;
    while (door->count > 0) dismiss(door, door->count - 1);
    file_close_owned(&door->fd);
    tls_server_free(door->server);
    free(door);
}
