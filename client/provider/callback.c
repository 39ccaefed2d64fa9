#include "client/provider/callback.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"

#define VISITORS_MAX 8    /* browsers open a few connections in advance, and send nothing on some of them */
#define VISIT_MS     5000 /* a visitor that has sent no whole head by then goes */
#define BACKLOG      8
#define PAGE_DONE    "You are logged in, or the program says why not. You may close this page."
#define PAGE_OTHER   "Nothing is here. Only the login that is waiting has a page."

struct visitor {
    int fd; /* -1: free */
    int64_t until_ms;
    size_t length;
    uint8_t head[CALLBACK_HEAD_MAX];
};

struct callback_listener {
    int fd;
    char address[64];
    struct visitor visitors[VISITORS_MAX];
};

static struct result open_port(unsigned port, struct callback_listener *listener, struct error *err)
{
    struct sockaddr_in place = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof place;

    listener->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (listener->fd < 0) return failure(err, ERROR_UNAVAILABLE, "no socket: %s", strerror(errno));
    /* The port of the login before would be taken for a minute (TIME_WAIT). While a program listens, it stays taken. */
    (void)setsockopt(listener->fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
    if (bind(listener->fd, (const struct sockaddr *)&place, sizeof place) != 0 || listen(listener->fd, BACKLOG) != 0 ||
        getsockname(listener->fd, (struct sockaddr *)&place, &length) != 0)
        return failure(err, ERROR_CONFLICT, "can't listen on port %u of 127.0.0.1: %s", port, strerror(errno));
    (void)snprintf(listener->address, sizeof listener->address, "http://127.0.0.1:%u" CALLBACK_PATH, ntohs(place.sin_port));
    return SUCCESS;
}

struct result callback_listen(unsigned port, struct callback_listener **listener_out, struct error *err)
{
    OWNED(callback_listener) *listener = memory_zeroed(1, sizeof *listener);

    if (listener == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a port");
    listener->fd = -1;
    for (size_t i = 0; i < VISITORS_MAX; i++) listener->visitors[i].fd = -1;
    TRY(open_port(port, listener, err));
    *listener_out = GIVE(listener);
    return SUCCESS;
}

const char *callback_address(const struct callback_listener *listener)
{
    return listener->address;
}

static void leave(struct visitor *visitor)
{
    if (visitor->fd >= 0) (void)close(visitor->fd);
    explicit_bzero(visitor->head, visitor->length);
    visitor->fd = -1;
    visitor->length = 0;
}

/* The page is plain text, and no part of the request is in it. A page that can't be sent is no failure of the login. */
static void answer(struct visitor *visitor, bool is_ours)
{
    const char *page = is_ours ? PAGE_DONE : PAGE_OTHER;
    char text[512];

    const int length =
        snprintf(text, sizeof text,
                 "HTTP/1.1 %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %zu\r\nCache-Control: no-store\r\n"
                 "Referrer-Policy: no-referrer\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n%s\n",
                 is_ours ? "200 OK" : "404 Not Found", strlen(page) + 1, page);
    (void)send(visitor->fd, text, (size_t)length, MSG_NOSIGNAL);
    leave(visitor);
}

static void welcome(struct callback_listener *listener)
{
    const int fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    struct visitor *place = &listener->visitors[0];

    if (fd < 0) return;
    for (size_t i = 0; i < VISITORS_MAX && place->fd >= 0; i++) /* the first free place, else the one that has waited longest */
        if (listener->visitors[i].fd < 0 || listener->visitors[i].until_ms < place->until_ms) place = &listener->visitors[i];
    leave(place);
    place->fd = fd;
    place->until_ms = clock_monotonic_ms() + VISIT_MS;
}

/* True: the visitor's head is whole, and it is the request with the state. */
static bool hear(struct visitor *visitor, const char *state, struct callback *callback_out)
{
    struct callback callback;
    const ssize_t count = recv(visitor->fd, visitor->head + visitor->length, sizeof visitor->head - visitor->length, 0);

    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    if (count <= 0) {
        leave(visitor);
        return false;
    }
    visitor->length += (size_t)count;
    const struct bytes head = {visitor->head, visitor->length};
    if (memmem(head.data, head.length, "\r\n\r\n", 4) == NULL) {
        if (visitor->length == sizeof visitor->head) answer(visitor, false);
        return false;
    }
    const bool is_ours =
        callback_parse(head, &callback) && bytes_equal_secret(bytes_of_text(callback.state), bytes_of_text(state));
    answer(visitor, is_ours);
    if (is_ours) *callback_out = callback;
    explicit_bzero(&callback, sizeof callback);
    return is_ours;
}

static bool attend(struct callback_listener *listener, const char *state, struct callback *callback_out)
{
    struct pollfd watched[VISITORS_MAX + 1];
    const int64_t now_ms = clock_monotonic_ms();

    for (size_t i = 0; i < VISITORS_MAX; i++) {
        if (listener->visitors[i].fd >= 0 && listener->visitors[i].until_ms < now_ms) leave(&listener->visitors[i]);
        watched[i] = (struct pollfd){.fd = listener->visitors[i].fd, .events = POLLIN};
    }
    watched[VISITORS_MAX] = (struct pollfd){.fd = listener->fd, .events = POLLIN};
    if (poll(watched, VISITORS_MAX + 1, 1000) <= 0) return false;
    for (size_t i = 0; i < VISITORS_MAX; i++)
        if (watched[i].revents != 0 && listener->visitors[i].fd >= 0 && hear(&listener->visitors[i], state, callback_out))
            return true;
    if (watched[VISITORS_MAX].revents != 0) welcome(listener);
    return false;
}

struct result callback_wait(struct callback_listener *listener, const char *state, int64_t longest_ms,
                            struct callback *callback_out, struct error *err)
{
    const int64_t until_ms = clock_monotonic_ms() + longest_ms;

    while (clock_monotonic_ms() < until_ms)
        if (attend(listener, state, callback_out)) return SUCCESS;
    return failure(err, ERROR_DENIED, "no browser has come back from the issuer in time: log in again, or with --device");
}

void callback_listener_free(struct callback_listener *listener)
{
    if (listener == NULL) return;
    for (size_t i = 0; i < VISITORS_MAX; i++) leave(&listener->visitors[i]);
    if (listener->fd >= 0) (void)close(listener->fd);
    free(listener);
}
