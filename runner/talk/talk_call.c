/* The agent's side. */
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"
#include "runner/talk/talk_priv.h"
#include "runner/talk/talk_sockets.h"

#define CONNECT_MS 10000
#define HANDS_MS   35000 /* the runner hears nobody while the cluster reviews a caller's token */

static struct result dial(const char *text, const char *port, int *fd_out, struct error *err)
{
    uint64_t number = 0;
    OWNED_FD fd = -1;

    if (!text_to_u64(bytes_of_text(port), 65535, &number) || number == 0 || !talk_is_address(text))
        return failure(err, ERROR_INVALID, "a runner is named by its IP address and its port, not by %.60s %.10s", text, port);
    TRY(talk_dial(text, (unsigned)number, &fd, err));
    struct pollfd polled = {.fd = fd, .events = POLLOUT};
    const int failed = poll(&polled, 1, CONNECT_MS) <= 0 ? ETIMEDOUT : talk_dial_end(fd);
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
    TRY(tls_connect(fd, pin, clock_monotonic_ms() + HANDS_MS, &tls, err));
    return talk_new(tls, talk_out, err);
}
