#include "runner/pod/confine.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"
#include "base/sandbox.h"

#define FILTER_MAX                 32768
#define LENGTH(of)                 ((unsigned short)(sizeof(of) / sizeof(of)[0]))
#define LOAD(part)                 BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, part))
#define IS(value, then, otherwise) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, then, otherwise)
#define ANSWER(action)             BPF_STMT(BPF_RET | BPF_K, action)

static struct result forbidden(const struct sock_fprog *filter, struct error *err)
{
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, filter) == 0) return SUCCESS;
    return failure(err, ERROR_DENIED, "sockets can't be forbidden: %s", strerror(errno));
}

static struct result forbid_sockets(struct error *err)
{
    struct sock_filter steps[] = {LOAD(nr),
                                  IS(SYS_socket, 0, 3),
                                  LOAD(args[0]),
                                  IS(AF_UNIX, 1, 0),
                                  ANSWER(SECCOMP_RET_ERRNO | EPERM),
                                  ANSWER(SECCOMP_RET_ALLOW)};
    const struct sock_fprog filter = {.len = LENGTH(steps), .filter = steps};

    return forbidden(&filter, err);
}

/*
 * Streams are made by another process. The arguments of socket(2) are numbers, so nothing can change between this look and the call. AF_INET6 is not known here:
 * bind(2) to a link-local address moves a socket of AF_INET6 to the device that its sin6_scope_id names, without any right, even if the call then fails.
 */
static struct result hand_over_sockets(int *listener_out, struct error *err)
{
    struct sock_filter steps[] = {LOAD(nr),
                                  IS(SYS_socket, 0, 9),
                                  LOAD(args[0]),
                                  IS(AF_UNIX, 7, 0),
                                  IS(AF_NETLINK, 6, 0), /* of its protocols, the list of calls has one */
                                  IS(AF_INET6, 7, 0),
                                  IS(AF_INET, 0, 5),
                                  LOAD(args[1]),
                                  BPF_STMT(BPF_ALU | BPF_AND | BPF_K, ~(unsigned)(SOCK_NONBLOCK | SOCK_CLOEXEC)),
                                  IS(SOCK_STREAM, 0, 2),
                                  ANSWER(SECCOMP_RET_USER_NOTIF),
                                  ANSWER(SECCOMP_RET_ALLOW),
                                  ANSWER(SECCOMP_RET_ERRNO | EPERM),
                                  ANSWER(SECCOMP_RET_ERRNO | EAFNOSUPPORT)}; /* so programs go on with AF_INET */
    const struct sock_fprog filter = {.len = LENGTH(steps), .filter = steps};

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return failure(err, ERROR_DENIED, "new privileges can't be forbidden: %s", strerror(errno));
    const long listener = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &filter);
    if (listener < 0) return failure(err, ERROR_DENIED, "sockets can't be handed over: %s", strerror(errno));
    *listener_out = (int)listener;
    return SUCCESS;
}

static struct result allow_listed_calls(enum sandbox_code code, struct error *err)
{
    static struct sock_filter steps[FILTER_MAX / sizeof(struct sock_filter)];
    OWNED_FD fd = memfd_create("filter", MFD_CLOEXEC);
    uint64_t size = 0;

    if (fd < 0) return failure(err, ERROR_DENIED, "no memory for a filter: %s", strerror(errno));
    TRY(sandbox_write_filter(fd, code, err));
    TRY(file_size(fd, &size, err));
    if (size > sizeof steps) return failure(err, ERROR_LIMIT, "the filter of calls is too long");
    TRY(file_read_at(fd, steps, size, 0, err));
    const struct sock_fprog filter = {.len = (unsigned short)(size / sizeof steps[0]), .filter = steps};
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0) return SUCCESS;
    return failure(err, ERROR_DENIED, "calls can't be forbidden: %s", strerror(errno));
}

struct result pod_confine(enum confinement confinement, int *listener_out, struct error *err)
{
    *listener_out = -1;
    if (confinement == CONFINE_ALONE) TRY(forbid_sockets(err));
    if (confinement == CONFINE_TASKS) TRY(hand_over_sockets(listener_out, err));
    return allow_listed_calls(confinement == CONFINE_TASKS ? SANDBOX_TASKS : SANDBOX_CODE, err);
}
