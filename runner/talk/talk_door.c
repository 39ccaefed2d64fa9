/* The runner's side: a key that lives as long as one talk, and never leaves this process. */
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

struct talk_door {
    int fd;
    unsigned port;
    struct tls_server *server;
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

struct result talk_accept(struct talk_door *door, int64_t patience_ms, struct talk **talk_out, struct error *err)
{
    struct pollfd polled = {.fd = door->fd, .events = POLLIN};
    struct tls *tls = NULL;

    if (poll(&polled, 1, (int)patience_ms) <= 0) return failure(err, ERROR_NOT_FOUND, "nobody came");
    const int fd = accept4(door->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) return failure(err, ERROR_NOT_FOUND, "the caller has gone: %s", strerror(errno));
    talk_watch_peer(fd);
    TRY(tls_accept(fd, door->server, clock_monotonic_ms() + TALK_HANDS_MS, &tls, err));
    return talk_new(tls, talk_out, err);
}

void talk_door_free(struct talk_door *door)
{
    if (door == NULL) return;
    file_close_owned(&door->fd);
    tls_server_free(door->server);
    free(door);
}
