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

struct talk_door {
    int fd;
    unsigned port;
    struct tls_server *server;
};

/* False: somebody else listens there. */
static bool listens(struct talk_door *door, const struct sockaddr_storage *address, socklen_t size)
{
    const int on = 1;
    OWNED_FD fd = socket(address->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0) return false;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, (const struct sockaddr *)address, size) != 0 || listen(fd, 8) != 0) return false;
    door->fd = fd;
    fd = -1;
    return true;
}

static struct result find_port(struct talk_door *door, const char *text, unsigned port, unsigned ports, struct error *err)
{
    struct sockaddr_storage address;
    socklen_t size = 0;

    for (unsigned i = 0; i < ports; i++) {
        if (!talk_fill_address(&address, &size, text, port + i))
            return failure(err, ERROR_INVALID, "agents connect to an IP address, not to %.100s", text);
        door->port = port + i;
        if (listens(door, &address, size)) return SUCCESS;
        if (errno != EADDRINUSE)
            return failure(err, ERROR_UNAVAILABLE, "no talk at %.60s port %u: %s", text, port + i, strerror(errno));
    }
    return failure(err, ERROR_CONFLICT, "all of %u ports from %u on are in use at %.60s", ports, port, text);
}

struct result talk_door_open(const char *address, unsigned port, unsigned ports, struct talk_door **door_out, struct error *err)
{
    OWNED(talk_door) *door = memory_zeroed(1, sizeof *door);

    if (door == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a talk");
    door->fd = -1;
    TRY(tls_server_new(&door->server, err));
    TRY(find_port(door, address, port, ports, err));
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
