#include "gateway/http/linger.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"

#define LINGERING_MAX    64 /* connections; further ones are closed at once */
#define LONGEST_MS       10000
#define PIECE            ((size_t)1 << 20) /* dropped at a time; the kernel copies nothing */
#define PIECES_AT_A_TIME 16                /* pieces; then other connections are served */

struct lingering {
    int fd; /* -1: free */
    int64_t until_ms, bytes;
};

struct lingerer {
    pthread_mutex_t mutex; /* for `lingerings`: only the thread empties an entry, only lingerer_take() fills one */
    struct lingering lingerings[LINGERING_MAX];
    int64_t bytes_max;
    int wake;
    _Atomic bool is_stopping;
    pthread_t thread;
};

static void close_one(struct lingerer *lingerer, struct lingering *lingering)
{
    (void)close(lingering->fd);
    pthread_mutex_lock(&lingerer->mutex);
    lingering->fd = -1;
    pthread_mutex_unlock(&lingerer->mutex);
}

/* False: the connection ended. */
static bool throw_away(const struct lingerer *lingerer, struct lingering *lingering)
{
    for (int i = 0; i < PIECES_AT_A_TIME; i++) {
        const ssize_t got = recv(lingering->fd, NULL, PIECE, MSG_TRUNC | MSG_DONTWAIT);
        if (got < 0) return true; /* nothing now; poll(2) reports the end */
        if (got == 0) return false;
        lingering->bytes += got;
        if (lingering->bytes > lingerer->bytes_max) return false;
    }
    return true;
}

/* Fills `waiting` with the open connections and `index` with their entries. Returns how many, and how long the thread may wait. */
static nfds_t gather(struct lingerer *lingerer, struct pollfd *waiting, size_t *index, int *longest_ms_out)
{
    const int64_t now_ms = clock_monotonic_ms();
    int64_t longest_ms = -1;
    nfds_t count = 1;

    waiting[0] = (struct pollfd){.fd = lingerer->wake, .events = POLLIN};
    pthread_mutex_lock(&lingerer->mutex);
    for (size_t i = 0; i < LINGERING_MAX; i++) {
        const struct lingering *lingering = &lingerer->lingerings[i];
        if (lingering->fd < 0) continue;
        const int64_t left_ms = lingering->until_ms > now_ms ? lingering->until_ms - now_ms : 0;
        if (longest_ms < 0 || left_ms < longest_ms) longest_ms = left_ms;
        index[count] = i;
        waiting[count++] = (struct pollfd){.fd = lingering->fd, .events = POLLIN};
    }
    pthread_mutex_unlock(&lingerer->mutex);
    *longest_ms_out = (int)longest_ms;
    return count;
}

static void poll_all(struct lingerer *lingerer)
{
    struct pollfd waiting[LINGERING_MAX + 1];
    size_t index[LINGERING_MAX + 1];
    eventfd_t ignored = 0;
    int longest_ms = -1;

    const nfds_t count = gather(lingerer, waiting, index, &longest_ms);
    if (poll(waiting, count, longest_ms) < 0) return;
    if (waiting[0].revents != 0) (void)eventfd_read(lingerer->wake, &ignored);
    const int64_t now_ms = clock_monotonic_ms();
    for (nfds_t i = 1; i < count; i++) {
        struct lingering *lingering = &lingerer->lingerings[index[i]];
        const bool goes_on = (waiting[i].revents & (POLLERR | POLLHUP | POLLNVAL)) == 0 &&
                             (waiting[i].revents == 0 || throw_away(lingerer, lingering));
        if (!goes_on || now_ms >= lingering->until_ms) close_one(lingerer, lingering);
    }
}

static void *lingerer_main(void *argument)
{
    struct lingerer *lingerer = argument;

    while (!atomic_load(&lingerer->is_stopping)) poll_all(lingerer);
    return NULL;
}

static void lingerer_free(struct lingerer *lingerer)
{
    for (size_t i = 0; i < LINGERING_MAX; i++)
        if (lingerer->lingerings[i].fd >= 0) (void)close(lingerer->lingerings[i].fd);
    if (lingerer->wake >= 0) (void)close(lingerer->wake);
    pthread_mutex_destroy(&lingerer->mutex);
    free(lingerer);
}

struct result lingerer_start(int64_t bytes_max, struct lingerer **lingerer_out, struct error *err)
{
    struct lingerer *lingerer = memory_zeroed(1, sizeof *lingerer);

    if (lingerer == NULL) return failure(err, ERROR_NO_MEMORY, "no memory to end connections");
    pthread_mutex_init(&lingerer->mutex, NULL);
    for (size_t i = 0; i < LINGERING_MAX; i++) lingerer->lingerings[i].fd = -1;
    lingerer->bytes_max = bytes_max;
    lingerer->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (lingerer->wake < 0 || pthread_create(&lingerer->thread, NULL, lingerer_main, lingerer) != 0) {
        lingerer_free(lingerer);
        return failure(err, ERROR_NO_MEMORY, "can't start the thread that ends connections");
    }
    *lingerer_out = lingerer;
    return SUCCESS;
}

void lingerer_stop(struct lingerer *lingerer)
{
    if (lingerer == NULL) return;
    atomic_store(&lingerer->is_stopping, true);
    (void)eventfd_write(lingerer->wake, 1);
    pthread_join(lingerer->thread, NULL);
    lingerer_free(lingerer);
}

void lingerer_take(struct lingerer *lingerer, int fd)
{
    struct lingering *free_slot = NULL;

    pthread_mutex_lock(&lingerer->mutex);
    for (size_t i = 0; i < LINGERING_MAX && free_slot == NULL; i++)
        if (lingerer->lingerings[i].fd < 0) free_slot = &lingerer->lingerings[i];
    const int own = free_slot == NULL ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (own >= 0) {
        (void)shutdown(own, SHUT_WR);
        *free_slot = (struct lingering){.fd = own, .until_ms = clock_monotonic_ms() + LONGEST_MS};
    }
    pthread_mutex_unlock(&lingerer->mutex);
    if (own >= 0) (void)eventfd_write(lingerer->wake, 1);
}
