#include "gateway/http/connection.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/thread.h"
#include "gateway/http/metrics.h"

#define WATCH_EVERY_MS 500

struct watcher {
    struct connection_limits limits;
    struct thread thread;
    struct connection *first;
};

static void cut(struct connection *connection)
{
    if (connection->is_cut) return;
    connection->is_cut = true;
    (void)shutdown(connection->fd, SHUT_RDWR); /* its event thread sees the end and closes it */
}

/* Bytes that the kernel moved for this connection in the direction that counts now; false if it can't say. */
static bool bytes_moved(const struct connection *connection, int stage, uint64_t *bytes_out)
{
    struct tcp_info info = {0};
    socklen_t size = sizeof info;

    if (!connection->is_tcp || getsockopt(connection->fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return false;
    *bytes_out = stage == CONNECTION_BODY ? info.tcpi_bytes_received : info.tcpi_bytes_acked;
    return true;
}

/* Slow bodies hold slots that other clients wait for. While few slots are left, a body has to move faster. */
static int64_t slowest(const struct connection_limits *limits, int stage)
{
    const bool is_busy = stage == CONNECTION_BODY && atomic_load(limits->streams) > limits->streams_many;

    return is_busy && limits->rate_busy > limits->rate ? limits->rate_busy : limits->rate;
}

static void watch_rate(const struct connection_limits *limits, struct connection *connection, int stage, int64_t now_ms)
{
    uint64_t bytes = 0;

    if (!bytes_moved(connection, stage, &bytes)) return;
    if (connection->seen_stage != stage) {
        connection->window_ms = now_ms;
        connection->window_bytes = bytes;
        return;
    }
    if (now_ms - connection->window_ms < limits->window_ms) return;
    if ((int64_t)(bytes - connection->window_bytes) * 1000 < slowest(limits, stage) * (now_ms - connection->window_ms)) {
        metric_add(&metrics_http[METRIC_CUT_RATE], 1);
        cut(connection);
    }
    connection->window_ms = now_ms;
    connection->window_bytes = bytes;
}

static int64_t longest(const struct connection_limits *limits, const struct connection *connection, int stage)
{
    if (stage == CONNECTION_HANDSHAKE) return limits->handshake_ms;
    return stage == CONNECTION_HEAD || !connection->has_requested ? limits->head_ms : limits->idle_ms + limits->head_ms;
}

static void watch(const struct connection_limits *limits, struct connection *connection, int64_t now_ms)
{
    const int stage = atomic_load(&connection->stage);
    const int64_t age_ms = now_ms - atomic_load(&connection->since_ms);
    const int64_t longest_ms = longest(limits, connection, stage);

    if (stage == CONNECTION_BODY || stage == CONNECTION_ANSWER) {
        watch_rate(limits, connection, stage, now_ms);
    } else if (stage != CONNECTION_OURS && age_ms > longest_ms) {
        if (!connection->is_cut)
            metric_add(&metrics_http[stage == CONNECTION_HANDSHAKE ? METRIC_CUT_HANDSHAKE : METRIC_CUT_HEAD], 1);
        cut(connection);
    }
    connection->seen_stage = stage;
}

static void *watcher_main(void *argument)
{
    struct watcher *watcher = argument;

    pthread_mutex_lock(&watcher->thread.mutex);
    while (!watcher->thread.is_stopping) {
        const int64_t now_ms = clock_monotonic_ms();
        for (struct connection *connection = watcher->first; connection != NULL; connection = connection->next)
            watch(&watcher->limits, connection, now_ms);
        thread_wait(&watcher->thread, clock_monotonic_ms() + WATCH_EVERY_MS);
    }
    pthread_mutex_unlock(&watcher->thread.mutex);
    return NULL;
}

struct result watcher_start(const struct connection_limits *limits, struct watcher **watcher_out, struct error *err)
{
    struct watcher *watcher = memory_zeroed(1, sizeof *watcher);

    if (watcher == NULL) return failure(err, ERROR_NO_MEMORY, "no memory to watch connections");
    watcher->limits = *limits;
    const struct result result = thread_start(&watcher->thread, watcher_main, watcher, "watches connections", err);
    if (result.ok) *watcher_out = watcher;
    else free(watcher);
    return result;
}

void watcher_stop(struct watcher *watcher)
{
    if (watcher == NULL) return;
    thread_stop(&watcher->thread);
    free(watcher);
}

static bool is_tcp(int fd)
{
    int domain = 0;
    socklen_t size = sizeof domain;
    return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain != AF_UNIX;
}

struct connection *connection_new(struct watcher *watcher, int fd)
{
    struct connection *connection = memory_zeroed(1, sizeof *connection);

    if (connection == NULL) return NULL;
    connection->fd = fd;
    connection->is_tcp = is_tcp(fd);
    connection_enter(connection, CONNECTION_WAITING);
    pthread_mutex_lock(&watcher->thread.mutex);
    connection->next = watcher->first;
    if (connection->next != NULL) connection->next->previous = connection;
    watcher->first = connection;
    pthread_mutex_unlock(&watcher->thread.mutex);
    metric_add(&metrics_http[METRIC_CONNECTIONS], 1);
    return connection;
}

void connection_free(struct watcher *watcher, struct connection *connection)
{
    pthread_mutex_lock(&watcher->thread.mutex);
    if (connection->next != NULL) connection->next->previous = connection->previous;
    if (connection->previous != NULL) connection->previous->next = connection->next;
    else watcher->first = connection->next;
    pthread_mutex_unlock(&watcher->thread.mutex);
    metric_add(&metrics_http[METRIC_CONNECTIONS], -1);
    free(connection);
}

void connection_enter(struct connection *connection, enum connection_stage stage)
{
    atomic_store(&connection->since_ms, clock_monotonic_ms());
    atomic_store(&connection->stage, (int)stage);
}

void watcher_cut(struct watcher *watcher, struct connection *connection)
{
    const struct linger none = {.l_onoff = 1};

    pthread_mutex_lock(&watcher->thread.mutex);
    if (!connection->is_cut) metric_add(&metrics_http[METRIC_CUT_RIGHT], 1);
    (void)setsockopt(connection->fd, SOL_SOCKET, SO_LINGER, &none, sizeof none);
    cut(connection);
    pthread_mutex_unlock(&watcher->thread.mutex);
}

void watcher_cut_all(struct watcher *watcher)
{
    pthread_mutex_lock(&watcher->thread.mutex);
    for (struct connection *connection = watcher->first; connection != NULL; connection = connection->next) cut(connection);
    pthread_mutex_unlock(&watcher->thread.mutex);
}
