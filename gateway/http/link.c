#include "gateway/http/link_priv.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>
#include <time.h>

#include "base/clock.h"
#include "base/memory.h"
#include "gateway/pipeline/metrics.h"

#define WATCH_EVERY_MS 500

struct watcher {
    struct link_limits limits;
    pthread_mutex_t mutex;
    pthread_cond_t woken;
    pthread_t thread;
    bool is_stopping;
    struct link *first;
};

static void cut(struct link *link)
{
    if (link->is_cut) return;
    link->is_cut = true;
    (void)shutdown(link->fd, SHUT_RDWR); /* its event thread sees the end and closes it */
}

/* Bytes that the kernel moved for this connection in the direction that counts now; false if it can't say. */
static bool bytes_moved(const struct link *link, int stage, uint64_t *bytes_out)
{
    struct tcp_info info = {0};
    socklen_t size = sizeof info;

    if (!link->is_tcp || getsockopt(link->fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return false;
    *bytes_out = stage == LINK_BODY ? info.tcpi_bytes_received : info.tcpi_bytes_acked;
    return true;
}

/* Who drips takes a place that others wait for: while few are left, a body has to come faster. */
static int64_t slowest(const struct link_limits *limits, int stage)
{
    const bool is_busy = stage == LINK_BODY && atomic_load(limits->streams) > limits->streams_many;

    return is_busy && limits->rate_busy > limits->rate ? limits->rate_busy : limits->rate;
}

static void watch_rate(const struct link_limits *limits, struct link *link, int stage, int64_t now_ms)
{
    uint64_t bytes = 0;

    if (!bytes_moved(link, stage, &bytes)) return;
    if (link->seen_stage != stage) {
        link->window_ms = now_ms;
        link->window_bytes = bytes;
        return;
    }
    if (now_ms - link->window_ms < limits->window_ms) return;
    if ((int64_t)(bytes - link->window_bytes) * 1000 < slowest(limits, stage) * (now_ms - link->window_ms)) {
        metric_add(&metrics_gateway[METRIC_CUT_RATE], 1);
        cut(link);
    }
    link->window_ms = now_ms;
    link->window_bytes = bytes;
}

static int64_t longest(const struct link_limits *limits, const struct link *link, int stage)
{
    if (stage == LINK_HANDSHAKE) return limits->handshake_ms;
    return stage == LINK_HEAD || !link->has_requested ? limits->head_ms : limits->idle_ms + limits->head_ms;
}

static void watch(const struct link_limits *limits, struct link *link, int64_t now_ms)
{
    const int stage = atomic_load(&link->stage);
    const int64_t age_ms = now_ms - atomic_load(&link->since_ms);
    const int64_t longest_ms = longest(limits, link, stage);

    if (stage == LINK_BODY || stage == LINK_ANSWER) {
        watch_rate(limits, link, stage, now_ms);
    } else if (stage != LINK_OURS && age_ms > longest_ms) {
        if (!link->is_cut) metric_add(&metrics_gateway[stage == LINK_HANDSHAKE ? METRIC_CUT_HANDSHAKE : METRIC_CUT_HEAD], 1);
        cut(link);
    }
    link->seen_stage = stage;
}

static void *watcher_main(void *argument)
{
    struct watcher *watcher = argument;

    pthread_mutex_lock(&watcher->mutex);
    while (!watcher->is_stopping) {
        const int64_t now_ms = clock_monotonic_ms();
        for (struct link *link = watcher->first; link != NULL; link = link->next)
            watch(&watcher->limits, link, now_ms);
        struct timespec until;
        (void)clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += WATCH_EVERY_MS * 1000000L;
        until.tv_sec += until.tv_nsec / 1000000000L;
        until.tv_nsec %= 1000000000L;
        (void)pthread_cond_timedwait(&watcher->woken, &watcher->mutex, &until);
    }
    pthread_mutex_unlock(&watcher->mutex);
    return NULL;
}

struct result watcher_start(const struct link_limits *limits, struct watcher **watcher_out, struct error *err)
{
    struct watcher *watcher = memory_zeroed(1, sizeof *watcher);

    if (watcher == NULL) return failure(err, ERROR_NO_MEMORY, "no memory to watch connections");
    watcher->limits = *limits;
    pthread_mutex_init(&watcher->mutex, NULL);
    clock_condition(&watcher->woken);
    if (pthread_create(&watcher->thread, NULL, watcher_main, watcher) != 0) {
        pthread_cond_destroy(&watcher->woken);
        pthread_mutex_destroy(&watcher->mutex);
        free(watcher);
        return failure(err, ERROR_NO_MEMORY, "can't start the thread that watches connections");
    }
    *watcher_out = watcher;
    return SUCCESS;
}

void watcher_stop(struct watcher *watcher)
{
    if (watcher == NULL) return;
    pthread_mutex_lock(&watcher->mutex);
    watcher->is_stopping = true;
    pthread_cond_signal(&watcher->woken);
    pthread_mutex_unlock(&watcher->mutex);
    pthread_join(watcher->thread, NULL);
    pthread_cond_destroy(&watcher->woken);
    pthread_mutex_destroy(&watcher->mutex);
    free(watcher);
}

static bool is_tcp(int fd)
{
    int domain = 0;
    socklen_t size = sizeof domain;
    return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain != AF_UNIX;
}

struct link *link_new(struct watcher *watcher, int fd)
{
    struct link *link = memory_zeroed(1, sizeof *link);

    if (link == NULL) return NULL;
    link->fd = fd;
    link->is_tcp = is_tcp(fd);
    link_enter(link, LINK_WAITING);
    pthread_mutex_lock(&watcher->mutex);
    link->next = watcher->first;
    if (link->next != NULL) link->next->previous = link;
    watcher->first = link;
    pthread_mutex_unlock(&watcher->mutex);
    metric_add(&metrics_gateway[METRIC_CONNECTIONS], 1);
    return link;
}

void link_free(struct watcher *watcher, struct link *link)
{
    pthread_mutex_lock(&watcher->mutex);
    if (link->next != NULL) link->next->previous = link->previous;
    if (link->previous != NULL)
        link->previous->next = link->next;
    else
        watcher->first = link->next;
    pthread_mutex_unlock(&watcher->mutex);
    metric_add(&metrics_gateway[METRIC_CONNECTIONS], -1);
    free(link);
}

void link_enter(struct link *link, enum link_stage stage)
{
    atomic_store(&link->since_ms, clock_monotonic_ms());
    atomic_store(&link->stage, (int)stage);
}

void watcher_cut(struct watcher *watcher, struct link *link)
{
    const struct linger none = {.l_onoff = 1};

    pthread_mutex_lock(&watcher->mutex);
    if (!link->is_cut) metric_add(&metrics_gateway[METRIC_CUT_RIGHT], 1);
    (void)setsockopt(link->fd, SOL_SOCKET, SO_LINGER, &none, sizeof none);
    cut(link);
    pthread_mutex_unlock(&watcher->mutex);
}

void watcher_cut_all(struct watcher *watcher)
{
    pthread_mutex_lock(&watcher->mutex);
    for (struct link *link = watcher->first; link != NULL; link = link->next) cut(link);
    pthread_mutex_unlock(&watcher->mutex);
}
