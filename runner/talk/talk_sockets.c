#include "runner/talk/talk_sockets.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/file.h"
#include "base/network.h"
#include "base/text.h"
#include "runner/talk/talk.h"

#define WAITING_MAX 64 /* connections that nobody has accepted yet */

bool talk_fill_address(struct sockaddr_storage *address, socklen_t *size, const char *text, unsigned port)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)address;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)address;

    memset(address, 0, sizeof *address);
    if (inet_pton(AF_INET, text, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET, v4->sin_port = htons((in_port_t)port), *size = sizeof *v4;
        return true;
    }
    v6->sin6_family = AF_INET6, v6->sin6_port = htons((in_port_t)port), *size = sizeof *v6;
    return inet_pton(AF_INET6, text, &v6->sin6_addr) == 1;
}

void talk_watch_peer(int fd)
{
    const int on = 1, idle_s = 10, count = 3;
    const unsigned silence_ms = TALK_SILENCE_MS;

    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &idle_s, sizeof idle_s);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &silence_ms, sizeof silence_ms);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

bool talk_where_read(const char *text, char address_out[TALK_ADDRESS_SIZE], unsigned *port_out)
{
    const char *colon = strrchr(text, ':');
    const size_t bracket = text[0] == '[' ? 1 : 0, length = colon == NULL ? 0 : (size_t)(colon - text);
    uint64_t port = 0;

    if (length <= 2 * bracket || length - 2 * bracket >= TALK_ADDRESS_SIZE || (bracket == 1 && colon[-1] != ']')) return false;
    if (!text_to_u64(bytes_of_text(colon + 1), 65535, &port) || port == 0) return false;
    memcpy(address_out, text + bracket, length - 2 * bracket);
    address_out[length - 2 * bracket] = '\0';
    *port_out = (unsigned)port;
    return talk_is_address(address_out) && (strchr(address_out, ':') != NULL) == (bracket == 1);
}

void talk_where_write(const char *address, unsigned port, char text_out[TALK_WHERE_SIZE])
{
    (void)snprintf(text_out, TALK_WHERE_SIZE, strchr(address, ':') == NULL ? "%.47s:%u" : "[%.47s]:%u", address, port);
}

static bool is_in(const char *text, const struct network *address)
{
    struct network network;

    return network_read(bytes_of_text(text), &network) == NETWORK_GOOD && network_holds(&network, address);
}

/* On one machine, or on one link: there, other runners can be. Not where clouds have their services on a link. */
static bool is_near(const struct network *own, const struct network *other)
{
    static const char *const near[] = {"127.0.0.0/8", "169.254.0.0/16", "::1/128", "fe80::/10"};

    if (is_in("169.254.168.0/22", other)) return false;
    for (size_t i = 0; i < sizeof near / sizeof near[0]; i++)
        if (is_in(near[i], other)) return is_in(near[i], own);
    return false;
}

bool talk_may_call(const char *own, const char *other)
{
    struct network from, to;

    if (!network_of_address(own, &from) || !network_of_address(other, &to)) return false;
    to = network_real(&to);
    if (network_is_loopback(&to) || network_is_special(&to)) return is_near(&from, &to);
    return !network_holds(&from, &to);
}

/* False: somebody else listens there. */
static bool listens(const struct sockaddr_storage *address, socklen_t size, int *fd_out)
{
    const int on = 1;
    OWNED_FD fd = socket(address->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0) return false;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, (const struct sockaddr *)address, size) != 0 || listen(fd, WAITING_MAX) != 0) return false;
    *fd_out = fd;
    fd = -1;
    return true;
}

struct result talk_listen(const struct talk_place *place, int *fd_out, unsigned *port_out, struct error *err)
{
    struct sockaddr_storage address;
    socklen_t size = 0;

    for (unsigned i = 0; i < place->ports; i++) {
        const unsigned port = place->port + i;
        if (!talk_fill_address(&address, &size, place->address, port))
            return failure(err, ERROR_INVALID, "others connect to an IP address, not to %.100s", place->address);
        if (listens(&address, size, fd_out)) {
            *port_out = port;
            return SUCCESS;
        }
        if (errno != EADDRINUSE)
            return failure(err, ERROR_UNAVAILABLE, "nobody can be heard at %.60s port %u: %s", place->address, port,
                           strerror(errno));
    }
    return failure(err, ERROR_CONFLICT, "all of %u ports from %u on are in use at %.60s", place->ports, place->port,
                   place->address);
}

struct result talk_dial(const char *text, unsigned port, int *fd_out, struct error *err)
{
    struct sockaddr_storage address;
    socklen_t size = 0;

    if (!talk_fill_address(&address, &size, text, port))
        return failure(err, ERROR_INVALID, "a runner is named by its IP address, not by %.60s", text);
    OWNED_FD fd = socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return failure(err, ERROR_UNAVAILABLE, "no socket for a runner: %s", strerror(errno));
    if (connect(fd, (const struct sockaddr *)&address, size) != 0 && errno != EINPROGRESS)
        return failure(err, ERROR_UNAVAILABLE, "the runner at %.60s %u: %s", text, port, strerror(errno));
    talk_watch_peer(fd);
    *fd_out = fd;
    fd = -1;
    return SUCCESS;
}

int talk_dial_end(int fd)
{
    int failed = 0;
    socklen_t length = sizeof failed;

    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &failed, &length) == 0 ? failed : errno;
}
