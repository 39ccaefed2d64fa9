#include "runner/sandbox/closed.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { STATUS_SIZE = 4096 };

/* The runner wrote these digits. */
static unsigned number_of(const char *digits)
{
    unsigned number = 0;

    for (; *digits >= '0' && *digits <= '9'; digits++) number = number * 10 + (unsigned)(*digits - '0');
    return number;
}

static bool fill(struct sockaddr_storage *address, socklen_t *size, const char *text, const char *port)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)address;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)address;
    const in_port_t number = htons((in_port_t)number_of(port));

    memset(address, 0, sizeof *address);
    if (inet_pton(AF_INET, text, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET, v4->sin_port = number, *size = sizeof *v4;
        return true;
    }
    v6->sin6_family = AF_INET6, v6->sin6_port = number, *size = sizeof *v6;
    return inet_pton(AF_INET6, text, &v6->sin6_addr) == 1;
}

static bool is_refused_at_once(int error)
{
    return error == ENETUNREACH || error == EHOSTUNREACH || error == EADDRNOTAVAIL || error == EACCES || error == EPERM;
}

static bool is_out_of_reach(const struct sockaddr_storage *address, socklen_t size, int kind)
{
    const int fd = socket(address->ss_family, kind | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0) return errno == EAFNOSUPPORT || errno == EPERM || errno == ENOSYS;
    const int failed = connect(fd, (const struct sockaddr *)address, size) == 0 ? 0 : errno;
    (void)close(fd);
    return is_refused_at_once(failed);
}

bool closed_to(const char *text, const char *port)
{
    struct sockaddr_storage address;
    socklen_t size = 0;

    return fill(&address, &size, text, port) && is_out_of_reach(&address, size, SOCK_STREAM) &&
           is_out_of_reach(&address, size, SOCK_DGRAM);
}

/* RFC 1035: the name servers of the root. Any answer is one. */
static bool asks_in_vain(int fd, int patience_ms)
{
    static const unsigned char question[] = {0x51, 0x4a, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 1};
    struct pollfd polled = {.fd = fd, .events = POLLIN};

    if (send(fd, question, sizeof question, MSG_NOSIGNAL) < 0) return is_refused_at_once(errno);
    return poll(&polled, 1, patience_ms) == 0;
}

static bool is_silent(const struct sockaddr_storage *address, socklen_t size, int kind, int patience_ms)
{
    const int fd = socket(address->ss_family, kind | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    struct pollfd polled = {.fd = fd, .events = POLLOUT};
    int failed = 0;
    socklen_t length = sizeof failed;
    bool silent = false;

    if (fd < 0) return errno == EAFNOSUPPORT || errno == EPERM || errno == ENOSYS;
    if (connect(fd, (const struct sockaddr *)address, size) != 0 && errno != EINPROGRESS) silent = is_refused_at_once(errno);
    else if (kind == SOCK_DGRAM) silent = asks_in_vain(fd, patience_ms);
    else if (poll(&polled, 1, patience_ms) == 0) silent = true;
    else silent = getsockopt(fd, SOL_SOCKET, SO_ERROR, &failed, &length) == 0 && is_refused_at_once(failed);
    (void)close(fd);
    return silent;
}

bool closed_silent(const char *text, const char *port, int patience_ms)
{
    struct sockaddr_storage address;
    socklen_t size = 0;

    return fill(&address, &size, text, port) && is_silent(&address, size, SOCK_STREAM, patience_ms) &&
           (strcmp(port, "53") != 0 || is_silent(&address, size, SOCK_DGRAM, patience_ms));
}

/* proc(5) */
const char *closed_privileges(void)
{
    static const char *const lines[] = {"\nCapInh:\t0000000000000000\n",
                                        "\nCapPrm:\t0000000000000000\n",
                                        "\nCapEff:\t0000000000000000\n",
                                        "\nCapBnd:\t0000000000000000\n",
                                        "\nCapAmb:\t0000000000000000\n",
                                        "\nNoNewPrivs:\t1\n",
                                        "\nSeccomp:\t2\n"};
    char status[STATUS_SIZE];
    const int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    const ssize_t length = fd < 0 ? -1 : read(fd, status, sizeof status - 1);

    if (fd >= 0) (void)close(fd);
    if (length < 0) return "/proc can't be read";
    status[length] = '\0';
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        if (strstr(status, lines[i]) == NULL) return "privileges are left";
    return getuid() == 0 || geteuid() == 0 ? "the payload would be root" : NULL;
}
