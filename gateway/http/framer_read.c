#include "gateway/http/framer_read.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>

#define SOCKETS_MAX   65536 /* highest descriptors of the unix socket's connections; a connection with a larger one is refused */
#define REFUSED_READS 16    /* of a refused request, dropped at a time; then other connections are served */

typedef ssize_t read_session(gnutls_session_t session, void *destination, size_t size);
typedef ssize_t read_socket(int fd, void *destination, size_t size, int flags);

/* Fault tests define a recv() of their own. */
#ifdef SIJIL_FAULTS
#define STANDS_BEFORE __attribute__((visibility("default"), weak))
#else
#define STANDS_BEFORE __attribute__((visibility("default")))
#endif

static struct {
    pthread_once_t once;
    read_session *session;
    read_socket *socket;
} real = {.once = PTHREAD_ONCE_INIT};

static _Atomic(struct framer *) of_socket[SOCKETS_MAX];

/* ISO C can't turn an object pointer into a function pointer; POSIX dlsym(3) can. */
static void find_real(void)
{
    *(void **)(void *)&real.session = dlsym(RTLD_NEXT, "gnutls_record_recv");
    *(void **)(void *)&real.socket = dlsym(RTLD_NEXT, "recv");
}

/* Where the bytes of a connection come from. */
struct origin {
    gnutls_session_t session; /* NULL: the socket */
    int fd, flags;
};

static ssize_t read_real(const struct origin *origin, void *destination, size_t size)
{
    if (origin->session != NULL) return real.session(origin->session, destination, size);
    return real.socket(origin->fd, destination, size, origin->flags);
}

static ssize_t nothing_now(const struct origin *origin)
{
    if (origin->session != NULL) return GNUTLS_E_AGAIN;
    errno = EAGAIN;
    return -1;
}

/* Drops bytes that follow a refusal. */
static ssize_t throw_away(const struct origin *origin, uint8_t *destination, size_t size)
{
    for (int i = 0; i < REFUSED_READS; i++) {
        const ssize_t got = read_real(origin, destination, size);
        if (got <= 0) return got;
    }
    return nothing_now(origin);
}

/* Reads once and checks the bytes. While the framer holds bytes, reads one byte into a variable, because that byte may release more. */
static ssize_t read_and_pass(struct framer *framer, const struct origin *origin, uint8_t *destination, size_t size,
                             size_t *passed_out)
{
    uint8_t byte = 0;

    *passed_out = 0;
    if (framer_is_holding(framer)) {
        const ssize_t got = read_real(origin, &byte, 1);
        if (got > 0) framer_pass_one(framer, byte);
        return got;
    }
    const ssize_t got = read_real(origin, destination, size);
    if (got > 0) *passed_out = framer_pass(framer, destination, (size_t)got);
    return got;
}

/*
 * Reads as much as is available for `destination`, checked. Ends only when the origin had less than was asked for, or the destination is
 * full: after a short read from a socket, libmicrohttpd waits for epoll(7).
 */
static ssize_t read_through(struct framer *framer, const struct origin *origin, uint8_t *destination, size_t size)
{
    size_t total = 0;

    for (;;) {
        total += framer_take_queued(framer, destination + total, size - total);
        if (total == size) return (ssize_t)total;
        if (framer->stage == FRAMER_REFUSED) return total > 0 ? (ssize_t)total : throw_away(origin, destination, size);
        const size_t asked = framer_is_holding(framer) ? 1 : size - total;
        size_t passed = 0;
        const ssize_t got = read_and_pass(framer, origin, destination + total, size - total, &passed);
        total += passed;
        if (got <= 0) return total > 0 ? (ssize_t)total : got;
        if (total > 0 && (size_t)got < asked && framer->queued_count == 0) return (ssize_t)total;
    }
}

/* The parameters have the names of the headers of GnuTLS and the C library. */
STANDS_BEFORE ssize_t gnutls_record_recv(gnutls_session_t session, void *data, size_t size)
{
    struct framer *framer = gnutls_db_get_ptr(session);
    const struct origin origin = {.session = session};

    (void)pthread_once(&real.once, find_real);
    return framer == NULL || size == 0 ? real.session(session, data, size) : read_through(framer, &origin, data, size);
}

STANDS_BEFORE ssize_t recv(int fd, void *buf, size_t n, int flags)
{
    const struct origin origin = {.fd = fd, .flags = flags};
    struct framer *framer = fd >= 0 && fd < SOCKETS_MAX ? atomic_load_explicit(&of_socket[fd], memory_order_acquire) : NULL;

    (void)pthread_once(&real.once, find_real);
    return framer == NULL || n == 0 ? real.socket(fd, buf, n, flags) : read_through(framer, &origin, buf, n);
}

bool framer_is_in_place(void)
{
    read_session *session = gnutls_record_recv;
    read_socket *socket = recv;

    (void)pthread_once(&real.once, find_real);
    return real.session != NULL && real.socket != NULL &&
           dlsym(RTLD_DEFAULT, "gnutls_record_recv") == *(void **)(void *)&session &&
           dlsym(RTLD_DEFAULT, "recv") == *(void **)(void *)&socket;
}

/* The server keeps no sessions for resumption, so the session's database pointer is free. */
bool framer_enter(struct framer *framer, gnutls_session_t session, int fd)
{
    if (session != NULL) {
        gnutls_db_set_ptr(session, framer);
        return true;
    }
    if (fd < 0 || fd >= SOCKETS_MAX) return false;
    atomic_store_explicit(&of_socket[fd], framer, memory_order_release);
    return true;
}

void framer_leave(gnutls_session_t session, int fd)
{
    if (session != NULL) gnutls_db_set_ptr(session, NULL);
    else if (fd >= 0 && fd < SOCKETS_MAX) atomic_store_explicit(&of_socket[fd], NULL, memory_order_release);
}
