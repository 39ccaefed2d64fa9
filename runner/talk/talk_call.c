/* The agent's side. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"
#include "runner/talk/talk_priv.h"

#define CONNECT_MS 10000
#define HANDS_MS   35000 /* the runner hears one caller after the other, and each may take ten seconds */

static struct result dial(const char *text, const char *port, int *fd_out, struct error *err)
{
    struct sockaddr_storage address;
    socklen_t size = 0, length = sizeof(int);
    uint64_t number = 0;
    int failed = 0;

    if (!text_to_u64(bytes_of_text(port), 65535, &number) || number == 0 ||
        !talk_fill_address(&address, &size, text, (unsigned)number))
        return failure(err, ERROR_INVALID, "a runner is named by its IP address and its port, not by %.60s %.10s", text, port);
    OWNED_FD fd = socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return failure(err, ERROR_UNAVAILABLE, "no socket for the runner: %s", strerror(errno));
    if (connect(fd, (const struct sockaddr *)&address, size) != 0 && errno != EINPROGRESS)
        return failure(err, ERROR_UNAVAILABLE, "the runner at %.60s %.10s: %s", text, port, strerror(errno));
    struct pollfd polled = {.fd = fd, .events = POLLOUT};
    if (poll(&polled, 1, CONNECT_MS) <= 0) failed = ETIMEDOUT;
    else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &failed, &length) != 0) failed = errno;
    if (failed != 0) return failure(err, ERROR_UNAVAILABLE, "the runner at %.60s %.10s: %s", text, port, strerror(failed));
    *fd_out = fd;
    fd = -1;
    return SUCCESS;
}

struct result talk_call(const char *address, const char *port, const char *pin, struct talk **talk_out, struct error *err)
{
    struct tls *tls = NULL;
    int fd = -1;

    if (strlen(pin) != TALK_PIN_SIZE - 1) return failure(err, ERROR_INVALID, "the pin of a runner has 64 hex digits");
    TRY(dial(address, port, &fd, err));
    talk_watch_peer(fd);
    TRY(tls_connect(fd, pin, clock_monotonic_ms() + HANDS_MS, &tls, err));
    return talk_new(tls, talk_out, err);
}
