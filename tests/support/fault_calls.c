/*
 * Makes calls of the kernel and of libpq fail on demand, in our code and in libraries, because the linker finds these
 * definitions before those of the C library and of libpq.
 *
 * Only files and sockets with the registry's own bytes fail. Pipes, eventfds and the files below /proc, /dev, /etc and /usr
 * do not fail.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <libpq-fe.h>
#include <netdb.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"

#define SHOWN __attribute__((visibility("default")))

/* Finds the next definition of the function, which this one replaces. */
#define NEXT(name)                                   \
    static _Thread_local __typeof__(&name) next;     \
    if (next == NULL) {                              \
        void *const found = dlsym(RTLD_NEXT, #name); \
        if (found == NULL) abort();                  \
        memcpy(&next, &found, sizeof found);         \
    }

/* The functions below use this; it must not fail on demand itself. */
static bool is_regular(int fd)
{
    NEXT(fstat)
    struct stat about;

    return next(fd, &about) == 0 && (S_ISREG(about.st_mode) || S_ISDIR(about.st_mode));
}

/* A failing socket acts as if the peer is gone, a failing disk as if a sector is bad. Without a failure, errno stays. */
static bool breaks(enum fault_kind kind)
{
    const int before = errno;
    const bool due = fault_is_due(kind);

    errno = due ? (kind == FAULT_SOCKET ? ECONNRESET : EIO) : before;
    return due;
}

static bool file_breaks(int fd)
{
    const int before = errno;
    const bool is_ours = is_regular(fd);

    errno = before;
    return is_ours && breaks(FAULT_FILE);
}

static bool name_breaks(const char *path)
{
    static const char *const others[] = {"/proc/", "/dev/", "/etc/", "/usr/", "/lib", "/sys/"};

    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (strncmp(path, others[i], strlen(others[i])) == 0) return false;
    return breaks(FAULT_FILE);
}

/* Defines a function that returns `answer` if `condition` makes it fail, and else calls the real one. */
#define FAILS(result, name, parameters, arguments, condition, answer) \
    SHOWN result name parameters;                                     \
    SHOWN result name parameters                                      \
    {                                                                 \
        NEXT(name)                                                    \
        return (condition) ? (answer) : next arguments;               \
    }

/* --- sockets --- */

/* A failing call breaks the whole connection. Otherwise libpq, for example, would still read after a failed write. */
static bool link_breaks(int fd)
{
    if (!breaks(FAULT_SOCKET)) return false;
    (void)shutdown(fd, SHUT_RDWR);
    errno = ECONNRESET;
    return true;
}

FAILS(ssize_t, send, (int fd, const void *from, size_t size, int flags), (fd, from, size, flags), link_breaks(fd), -1)
FAILS(ssize_t, sendmsg, (int fd, const struct msghdr *message, int flags), (fd, message, flags), link_breaks(fd), -1)
FAILS(int, connect, (int fd, __CONST_SOCKADDR_ARG to, socklen_t size), (fd, to, size), breaks(FAULT_SOCKET), -1)
FAILS(int, socket, (int domain, int type, int protocol), (domain, type, protocol), breaks(FAULT_SOCKET), -1)
FAILS(int, bind, (int fd, __CONST_SOCKADDR_ARG at, socklen_t size), (fd, at, size), breaks(FAULT_SOCKET), -1)
FAILS(int, listen, (int fd, int backlog), (fd, backlog), breaks(FAULT_SOCKET), -1)
FAILS(int, getsockname, (int fd, __SOCKADDR_ARG name, socklen_t *size), (fd, name, size), breaks(FAULT_SOCKET), -1)
FAILS(int, getsockopt, (int fd, int level, int option, void *value, socklen_t *size), (fd, level, option, value, size),
      breaks(FAULT_SOCKET), -1)
FAILS(int, setsockopt, (int fd, int level, int option, const void *value, socklen_t size), (fd, level, option, value, size),
      breaks(FAULT_SOCKET), -1)
FAILS(int, eventfd, (unsigned count, int flags), (count, flags), breaks(FAULT_SOCKET), -1)
FAILS(int, epoll_create1, (int flags), (flags), breaks(FAULT_SOCKET), -1)
/* Adding a descriptor may fail; removing one always works. */
FAILS(int, epoll_ctl, (int in, int operation, int fd, struct epoll_event *event), (in, operation, fd, event),
      operation == EPOLL_CTL_ADD && breaks(FAULT_SOCKET), -1)
FAILS(int, getaddrinfo, (const char *host, const char *service, const struct addrinfo *wanted, struct addrinfo **list),
      (host, service, wanted, list), breaks(FAULT_SOCKET), EAI_AGAIN)

/* Received bytes are lost with the connection. Calls that receive nothing are not counted, because their number varies. */
#define LOSES(name, parameters, arguments)                       \
    SHOWN ssize_t name parameters;                               \
    SHOWN ssize_t name parameters                                \
    {                                                            \
        NEXT(name)                                               \
        const ssize_t received = next arguments;                 \
        return received >= 0 && link_breaks(fd) ? -1 : received; \
    }

LOSES(recv, (int fd, void *into, size_t size, int flags), (fd, into, size, flags))
LOSES(recvmsg, (int fd, struct msghdr *message, int flags), (fd, message, flags))

SHOWN int accept4(int fd, __SOCKADDR_ARG from, socklen_t *size, int flags)
{
    NEXT(accept4)
    const int made = next(fd, from, size, flags);

    if (made < 0 || !breaks(FAULT_SOCKET)) return made;
    (void)close(made);
    errno = ECONNABORTED;
    return -1;
}

/* --- files --- */

FAILS(ssize_t, read, (int fd, void *into, size_t size), (fd, into, size), file_breaks(fd), -1)
FAILS(ssize_t, write, (int fd, const void *from, size_t size), (fd, from, size), file_breaks(fd), -1)
FAILS(ssize_t, pread, (int fd, void *into, size_t size, off_t at), (fd, into, size, at), file_breaks(fd), -1)
FAILS(ssize_t, pwrite, (int fd, const void *from, size_t size, off_t at), (fd, from, size, at), file_breaks(fd), -1)
FAILS(int, fsync, (int fd), (fd), file_breaks(fd), -1)
FAILS(int, fdatasync, (int fd), (fd), file_breaks(fd), -1)
FAILS(int, ftruncate, (int fd, off_t size), (fd, size), file_breaks(fd), -1)
FAILS(int, rename, (const char *from, const char *to), (from, to), name_breaks(to), -1)
FAILS(int, renameat, (int from_in, const char *from, int to_in, const char *to), (from_in, from, to_in, to), name_breaks(to), -1)
FAILS(int, mkdir, (const char *path, mode_t mode), (path, mode), name_breaks(path), -1)
FAILS(int, mkdirat, (int in, const char *path, mode_t mode), (in, path, mode), name_breaks(path), -1)
FAILS(int, unlink, (const char *path), (path), name_breaks(path), -1)
FAILS(int, unlinkat, (int in, const char *path, int flags), (in, path, flags), name_breaks(path), -1)
FAILS(int, renameat2, (int from_in, const char *from, int to_in, const char *to, unsigned flags),
      (from_in, from, to_in, to, flags), name_breaks(to), -1)
FAILS(int, chmod, (const char *path, mode_t mode), (path, mode), name_breaks(path), -1)
FAILS(int, fchmod, (int fd, mode_t mode), (fd, mode), file_breaks(fd), -1)
FAILS(int, chown, (const char *path, uid_t user, gid_t group), (path, user, group), name_breaks(path), -1)
FAILS(int, fchown, (int fd, uid_t user, gid_t group), (fd, user, group), file_breaks(fd), -1)
FAILS(int, rmdir, (const char *path), (path), name_breaks(path), -1)
FAILS(int, access, (const char *path, int mode), (path, mode), name_breaks(path), -1)
FAILS(int, stat, (const char *path, struct stat *about), (path, about), name_breaks(path), -1)
FAILS(int, fstat, (int fd, struct stat *about), (fd, about), file_breaks(fd), -1)
FAILS(int, fstatat, (int in, const char *path, struct stat *about, int flags), (in, path, about, flags), name_breaks(path), -1)
FAILS(int, flock, (int fd, int operation), (fd, operation), file_breaks(fd), -1)
FAILS(int, sync_file_range, (int fd, off_t from, off_t length, unsigned flags), (fd, from, length, flags), file_breaks(fd), -1)
FAILS(ssize_t, readlink, (const char *path, char *into, size_t size), (path, into, size), name_breaks(path), -1)
FAILS(char *, realpath, (const char *path, char *real), (path, real), name_breaks(path), NULL)
FAILS(DIR *, opendir, (const char *path), (path), name_breaks(path), NULL)
FAILS(DIR *, fdopendir, (int fd), (fd), file_breaks(fd), NULL)
FAILS(struct dirent *, readdir, (DIR * listing), (listing), file_breaks(dirfd(listing)), NULL)
FAILS(FILE *, fopen, (const char *path, const char *mode), (path, mode), name_breaks(path), NULL)
/* Fails as if there are no more descriptors or processes. */
FAILS(int, pipe2, (int ends[2], int flags), (ends, flags), breaks(FAULT_FILE), -1)
FAILS(pid_t, fork, (void), (), breaks(FAULT_FILE), -1)
FAILS(int, dup2, (int from, int to), (from, to), breaks(FAULT_FILE), -1)

/* The third argument is a number, a pointer or absent. Like the C library, this passes it on as a pointer. */
SHOWN int fcntl(int fd, int operation, ...)
{
    va_list arguments;
    NEXT(fcntl)

    va_start(arguments, operation);
    void *const argument = va_arg(arguments, void *);
    va_end(arguments);
    return (operation == F_DUPFD_CLOEXEC || operation == F_SETFL) && breaks(FAULT_FILE) ? -1 : next(fd, operation, argument);
}

static mode_t mode_of(int flags, va_list arguments)
{
    return (flags & O_CREAT) == 0 ? 0 : (mode_t)va_arg(arguments, unsigned);
}

SHOWN int open(const char *path, int flags, ...)
{
    va_list arguments;
    NEXT(open)

    va_start(arguments, flags);
    const mode_t mode = mode_of(flags, arguments);
    va_end(arguments);
    return name_breaks(path) ? -1 : next(path, flags, mode);
}

SHOWN int openat(int in, const char *path, int flags, ...)
{
    va_list arguments;
    NEXT(openat)

    va_start(arguments, flags);
    const mode_t mode = mode_of(flags, arguments);
    va_end(arguments);
    return name_breaks(path) ? -1 : next(in, path, flags, mode);
}

/* --- threads --- */

FAILS(int, pthread_create, (pthread_t * thread, const pthread_attr_t *how, void *(*run)(void *), void *argument),
      (thread, how, run, argument), breaks(FAULT_THREAD), EAGAIN)

/* --- libpq: no memory for a message, or none to send it over --- */

FAILS(int, PQsendQuery, (PGconn * pg, const char *sql), (pg, sql), breaks(FAULT_QUERY), 0)
FAILS(int, PQsendQueryParams,
      (PGconn * pg, const char *sql, int count, const Oid *types, const char *const *values, const int *lengths,
       const int *formats, int format),
      (pg, sql, count, types, values, lengths, formats, format), breaks(FAULT_QUERY), 0)
FAILS(int, PQsendQueryPrepared,
      (PGconn * pg, const char *name, int count, const char *const *values, const int *lengths, const int *formats, int format),
      (pg, name, count, values, lengths, formats, format), breaks(FAULT_QUERY), 0)
FAILS(int, PQsendPrepare, (PGconn * pg, const char *name, const char *sql, int count, const Oid *types),
      (pg, name, sql, count, types), breaks(FAULT_QUERY), 0)
FAILS(int, PQsendDescribePrepared, (PGconn * pg, const char *name), (pg, name), breaks(FAULT_QUERY), 0)
FAILS(int, PQenterPipelineMode, (PGconn * pg), (pg), breaks(FAULT_QUERY), 0)
FAILS(int, PQpipelineSync, (PGconn * pg), (pg), breaks(FAULT_QUERY), 0)
FAILS(int, PQflush, (PGconn * pg), (pg), breaks(FAULT_QUERY), -1)
FAILS(int, PQconsumeInput, (PGconn * pg), (pg), breaks(FAULT_QUERY), 0)
FAILS(int, PQsetnonblocking, (PGconn * pg, int on), (pg, on), breaks(FAULT_QUERY), -1)
FAILS(PGconn *, PQconnectStartParams, (const char *const *keys, const char *const *values, int expand), (keys, values, expand),
      breaks(FAULT_QUERY), NULL)
