#include "runner/sandbox/nodes.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <linux/nsfs.h>
#include <net/if.h>
#include <net/route.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/fault.h"
#include "base/file.h"

#define BASE        UINT32_C(0xc6120000) /* 198.18.0.0 */
#define TUN         "/dev/net/tun"
#define PATIENCE_MS 30000 /* it takes milliseconds; a busy machine takes seconds */
#define WORD_SIZE   160
#define PATH_SIZE   64 /* a number and a short name */

uint32_t nodes_address(int64_t node)
{
    return BASE + (uint32_t)node + 1;
}

int64_t nodes_find(uint32_t address, int64_t nodes)
{
    const int64_t node = (int64_t)address - BASE - 1;

    return node >= 0 && node < nodes ? node : -1;
}

void nodes_address_text(int64_t node, char text_out[NODES_ADDRESS_SIZE])
{
    const struct in_addr address = {htonl(nodes_address(node))};

    (void)inet_ntop(AF_INET, &address, text_out, NODES_ADDRESS_SIZE);
}

/* ---- in a process of its own, which may enter namespaces ---- */

struct helper {
    int channel;
    pid_t inside;
    int64_t node, nodes;
};

/* What could not be done; errno says why. NULL: all was done. */
typedef const char *failed_step;

/*
 * The user that made a user namespace has all rights in it. So root becomes this user, and needs no right of this machine but that to change its user.
 * It still opens files as root: some machines let nobody else open the TUN device.
 */
static failed_step become_owner(int owner)
{
    uid_t uid = 0;

    if (geteuid() != 0) return NULL;
    if (ioctl(owner, NS_GET_OWNER_UID, &uid) != 0) return "the user of its user namespace is not known";
    if (setresuid((uid_t)-1, uid, (uid_t)-1) != 0) return "no change to the user of the sandbox";
    (void)setfsuid(0);
    return NULL;
}

static failed_step enter(pid_t inside)
{
    char path[PATH_SIZE];

    (void)snprintf(path, sizeof path, "/proc/%ld/ns/net", (long)inside);
    OWNED_FD network = open(path, O_RDONLY | O_CLOEXEC);
    if (network < 0) return "its network can't be opened";
    OWNED_FD owner = ioctl(network, NS_GET_USERNS);
    if (owner < 0) return "the owner of its network is not known";
    const char *failed = become_owner(owner);
    if (failed != NULL) return failed;
    if (setns(owner, CLONE_NEWUSER) != 0) return "its user namespace can't be entered";
    return setns(network, CLONE_NEWNET) == 0 ? NULL : "its network can't be entered";
}

/* Router solicitations and the like would only be dropped. A kernel without IPv6 has no such file. */
static void forbid_ipv6(void)
{
    OWNED_FD file = open("/proc/sys/net/ipv6/conf/" NODES_DEVICE "/disable_ipv6", O_WRONLY | O_CLOEXEC);

    if (file >= 0) (void)!write(file, "1", 1);
}

static failed_step make(int *device_out)
{
    struct ifreq wanted = {.ifr_flags = IFF_TUN | IFF_NO_PI};
    OWNED_FD device = open(TUN, O_RDWR | O_NONBLOCK | O_CLOEXEC);

    if (device < 0) return TUN " can't be opened";
    (void)snprintf(wanted.ifr_name, sizeof wanted.ifr_name, "%s", NODES_DEVICE);
    if (ioctl(device, TUNSETIFF, &wanted) != 0) return "a TUN device can't be made";
    *device_out = device;
    device = -1;
    return NULL;
}

static void set_address(struct sockaddr *to, int64_t node)
{
    const struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(nodes_address(node))}};

    memcpy(to, &address, sizeof address);
}

/* TUN devices connect two points: the kernel gives the address alone to the device, and no network around it. */
static failed_step configure(int control, int64_t node)
{
    struct ifreq wanted = {.ifr_mtu = NODES_MTU};

    (void)snprintf(wanted.ifr_name, sizeof wanted.ifr_name, "%s", NODES_DEVICE);
    if (ioctl(control, SIOCSIFMTU, &wanted) != 0) return "the size of packets can't be set";
    set_address(&wanted.ifr_addr, node);
    if (ioctl(control, SIOCSIFADDR, &wanted) != 0) return "the address can't be set";
    if (ioctl(control, SIOCGIFFLAGS, &wanted) != 0) return "the device can't be looked at";
    wanted.ifr_flags = (short)(wanted.ifr_flags | IFF_UP);
    return ioctl(control, SIOCSIFFLAGS, &wanted) == 0 ? NULL : "the device can't be switched on";
}

static failed_step add_route(int control, int64_t node)
{
    char device[] = NODES_DEVICE;
    struct rtentry route = {.rt_flags = RTF_UP | RTF_HOST, .rt_dev = device};

    set_address(&route.rt_dst, node);
    ((struct sockaddr_in *)(void *)&route.rt_genmask)->sin_family = AF_INET;
    ((struct sockaddr_in *)(void *)&route.rt_genmask)->sin_addr.s_addr = UINT32_MAX;
    return ioctl(control, SIOCADDRT, &route) == 0 ? NULL : "a route can't be added";
}

static failed_step prepare(const struct helper *helper, int *device_out)
{
    OWNED_FD device = -1;
    failed_step failed = enter(helper->inside);

    if (failed == NULL) failed = make(&device);
    if (failed != NULL) return failed;
    forbid_ipv6();
    OWNED_FD control = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (control < 0) return "no socket";
    failed = configure(control, helper->node);
    for (int64_t node = 0; failed == NULL && node < helper->nodes; node++)
        if (node != helper->node) failed = add_route(control, node);
    if (failed != NULL) return failed;
    *device_out = device;
    device = -1;
    return NULL;
}

union one_descriptor {
    struct cmsghdr aligned;
    char space[CMSG_SPACE(sizeof(int))];
};

static _Noreturn void help(const struct helper *helper)
{
    char word[WORD_SIZE] = "";
    union one_descriptor control = {.space = {0}};
    struct iovec piece = {.iov_base = word, .iov_len = sizeof word};
    struct msghdr header = {.msg_iov = &piece, .msg_iovlen = 1};
    int device = -1;

    const char *failed = prepare(helper, &device);
    if (failed != NULL) (void)snprintf(word, sizeof word, "%s: %s", failed, strerror(errno));
    if (device >= 0) {
        header.msg_control = control.space;
        header.msg_controllen = sizeof control.space;
        struct cmsghdr *part = CMSG_FIRSTHDR(&header);
        part->cmsg_level = SOL_SOCKET;
        part->cmsg_type = SCM_RIGHTS;
        part->cmsg_len = CMSG_LEN(sizeof device);
        memcpy(CMSG_DATA(part), &device, sizeof device);
    }
    _exit(sendmsg(helper->channel, &header, MSG_NOSIGNAL) == (ssize_t)sizeof word ? 0 : 1);
}

/* ---- in the process that asks ---- */

static struct result receive(int channel, int *device_out, struct error *err)
{
    char word[WORD_SIZE] = "";
    union one_descriptor control = {.space = {0}};
    struct iovec piece = {.iov_base = word, .iov_len = sizeof word};
    struct msghdr header = {
        .msg_iov = &piece, .msg_iovlen = 1, .msg_control = control.space, .msg_controllen = sizeof control.space};
    struct pollfd polled = {.fd = channel, .events = POLLIN};
    int found = -1;

    do found = poll(&polled, 1, PATIENCE_MS);
    while (found < 0 && errno == EINTR);
    if (found <= 0 || recvmsg(channel, &header, MSG_CMSG_CLOEXEC) != (ssize_t)sizeof word)
        return failure(err, ERROR_UNAVAILABLE, "no network between nodes: the process that makes it has ended");
    const struct cmsghdr *part = CMSG_FIRSTHDR(&header);
    word[sizeof word - 1] = '\0';
    if (part == NULL || part->cmsg_type != SCM_RIGHTS)
        return failure(err, ERROR_UNAVAILABLE, "no network between nodes: %s", word);
    memcpy(device_out, CMSG_DATA(part), sizeof *device_out);
    return SUCCESS;
}

struct result nodes_make_device(pid_t inside, int64_t node, int64_t nodes, int *device_out, struct error *err)
{
    int ends[2];

    if (fault_is_due(FAULT_FILE) || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return failure(err, ERROR_UNAVAILABLE, "no sockets for a network between nodes: %s", strerror(errno));
    OWNED_FD ours = ends[0];
    OWNED_FD theirs = ends[1];
    const struct helper helper = {.channel = theirs, .inside = inside, .node = node, .nodes = nodes};
    const pid_t pid = fork();
    if (pid == 0) help(&helper);
    if (pid < 0) return failure(err, ERROR_UNAVAILABLE, "no process for a network between nodes: %s", strerror(errno));
    const struct result received = receive(ours, device_out, err);
    if (!received.ok) (void)kill(pid, SIGKILL);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {
    }
    return received;
}
