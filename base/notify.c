#include "base/notify.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/file.h"

static char name[sizeof(((struct sockaddr_un *)NULL)->sun_path) +
                 1]; /* "": not set. One byte longer than an address, so that a name that is too long is refused */
static int manager = -1;

void notify_find(void)
{
    const char *given = getenv("NOTIFY_SOCKET");

    (void)snprintf(name, sizeof name, "%s", given == NULL ? "" : given);
    (void)unsetenv("NOTIFY_SOCKET");
}

/* The length matters: an abstract name begins with a zero byte and ends where the address ends. */
static struct result address_of(struct sockaddr_un *address, socklen_t *length_out, struct error *err)
{
    const size_t length = strlen(name);

    if ((name[0] != '/' && name[0] != '@') || length < 2 || length >= sizeof address->sun_path)
        return failure(err, ERROR_INVALID, "NOTIFY_SOCKET is neither a path nor @ and a name, or too long");
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(address->sun_path, name, length);
    if (name[0] == '@') address->sun_path[0] = '\0';
    *length_out = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length + (name[0] == '/' ? 1 : 0));
    return SUCCESS;
}

struct result notify_connect(struct error *err)
{
    const struct timeval longest = {.tv_sec = 1};
    struct sockaddr_un address;
    socklen_t length = 0;

    if (name[0] == '\0' || manager >= 0) return SUCCESS;
    TRY(address_of(&address, &length, err));
    OWNED_FD fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &longest, sizeof longest) != 0 ||
        connect(fd, (const struct sockaddr *)&address, length) != 0)
        return failure(err, ERROR_UNAVAILABLE, "the service manager can't be told: %s", strerror(errno));
    manager = fd;
    fd = -1; /* NOLINT(clang-analyzer-deadcode.DeadStores): OWNED_FD closes what it holds at the end */
    return SUCCESS;
}

bool notify_send(const char *state)
{
    const size_t length = strlen(state);

    return manager < 0 || send(manager, state, length, MSG_NOSIGNAL) == (ssize_t)length;
}
