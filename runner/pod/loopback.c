#include "runner/pod/loopback.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "runner/talk/talk_sockets.h"

#define DEVICE     "lo"
#define SILENCE_MS 300 /* for all addresses together: packets on this device take microseconds */

/* ---- the process that makes sockets ---- */

/* A negative number: the error of the call. */
static int make(const struct seccomp_data *call)
{
    const int family = (int)call->args[0], kind = (int)call->args[1], protocol = (int)call->args[2];

    if (family != AF_INET || (kind & ~(SOCK_NONBLOCK | SOCK_CLOEXEC)) != SOCK_STREAM) return -EPERM; /* as the filter says */
    if (protocol != 0 && protocol != IPPROTO_TCP)
        return -EPROTONOSUPPORT; /* a stream of another protocol may have several ways */
    const int fd = socket(family, kind, protocol);
    if (fd < 0) return -errno;
    if (setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, DEVICE, sizeof DEVICE) == 0) return fd;
    const int problem = errno;
    (void)close(fd);
    return -problem;
}

static void refuse(int listener, uint64_t id, int problem)
{
    struct seccomp_notif_resp answer = {.id = id, .error = problem};

    (void)ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);
}

void loopback_answer(int listener)
{
    struct seccomp_notif asked;

    memset(&asked, 0, sizeof asked);
    if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &asked) != 0) return;
    OWNED_FD fd = make(&asked.data);
    if (fd < 0) {
        refuse(listener, asked.id, fd);
        fd = -1;
        return;
    }
    struct seccomp_notif_addfd given = {.id = asked.id,
                                        .flags = SECCOMP_ADDFD_FLAG_SEND,
                                        .srcfd = (uint32_t)fd,
                                        .newfd_flags = (asked.data.args[1] & SOCK_CLOEXEC) != 0 ? O_CLOEXEC : 0};
    if (ioctl(listener, SECCOMP_IOCTL_NOTIF_ADDFD, &given) < 0 && errno != ENOENT) refuse(listener, asked.id, -errno);
}

/* ---- what a process that asks can see of it ---- */

static bool is_bound(int fd)
{
    char name[16] = "";
    socklen_t size = sizeof name;
    const int none = 0;

    return getsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, name, &size) == 0 && strcmp(name, DEVICE) == 0 &&
           setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, "", 0) != 0 &&
           setsockopt(fd, SOL_SOCKET, SO_BINDTOIFINDEX, &none, sizeof none) != 0;
}

static const char *what_is_wrong(void)
{
    static const int others[][3] = {{AF_INET, SOCK_DGRAM, 0},
                                    {AF_INET, SOCK_RAW, 0},
                                    {AF_INET, SOCK_SEQPACKET, 0},
                                    {AF_INET6, SOCK_STREAM, 0},
                                    {AF_INET6, SOCK_DGRAM, 0},
                                    {AF_INET6, SOCK_RAW, 0},
                                    {AF_INET6, SOCK_SEQPACKET, 0},
                                    {AF_NETLINK, SOCK_RAW, NETLINK_SOCK_DIAG},
                                    {AF_NETLINK, SOCK_RAW, NETLINK_NETFILTER},
                                    {AF_NETLINK, SOCK_RAW, NETLINK_GENERIC}};
    OWNED_FD fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0) return "no socket is given for tasks: the node needs Linux 5.14";
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        OWNED_FD other = socket(others[i][0], others[i][1], others[i][2]);
        if (other >= 0) return "there are sockets besides those of tasks";
    }
    return is_bound(fd) ? NULL : "a socket of tasks is not bound to the loopback";
}

/* -1: the kernel refuses the connection at once. */
static int begin(const char *text, const char *port)
{
    struct sockaddr_storage address;
    socklen_t size = 0;
    unsigned number = 0;

    for (; *port >= '0' && *port <= '9' && number <= 65535; port++) number = number * 10 + (unsigned)(*port - '0');
    if (!talk_fill_address(&address, &size, text, number)) return -1;
    OWNED_FD fd = socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || (connect(fd, (const struct sockaddr *)&address, size) != 0 && errno != EINPROGRESS)) return -1;
    const int begun = fd;
    fd = -1;
    return begun;
}

static bool is_silent(const struct pollfd *polled)
{
    int failed = 0;
    socklen_t size = sizeof failed;

    if (polled->fd < 0 || polled->revents == 0) return true;
    if (getsockopt(polled->fd, SOL_SOCKET, SO_ERROR, &failed, &size) != 0) return false;
    return failed == ENETUNREACH || failed == EHOSTUNREACH; /* the pod's own kernel says so; a refusal came from somebody */
}

static const char *who_answers(const char *const *addresses, size_t count)
{
    const struct timespec patience = {.tv_nsec = SILENCE_MS * 1000000L};
    struct pollfd polled[PROOF_ADDRESSES_MAX];
    const char *found = NULL;
    size_t begun = 0;

    for (; 2 * begun + 1 < count && begun < PROOF_ADDRESSES_MAX; begun++)
        polled[begun] = (struct pollfd){.fd = begin(addresses[2 * begun], addresses[2 * begun + 1]), .events = POLLOUT};
    (void)nanosleep(&patience, NULL);
    (void)poll(polled, begun, 0);
    for (size_t i = 0; i < begun; i++) {
        if (!is_silent(&polled[i])) found = addresses[2 * i];
        if (polled[i].fd >= 0) (void)close(polled[i].fd);
    }
    return found;
}

const char *loopback_what_is_open(const char *const *addresses, size_t count)
{
    const char *wrong = what_is_wrong();

    if (wrong == NULL && count > (size_t)2 * PROOF_ADDRESSES_MAX) wrong = "there are more addresses than can be looked at";
    return wrong != NULL ? wrong : who_answers(addresses, count);
}
