#include "runner/tunnel/tunnel_priv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"

#define LOOK_MS     200                 /* for calls that are due */
#define WAIT_MS     100                 /* for a request to stop */
#define QUIET_MS    300                 /* no packet for so long: longer than TCP's least pause before it sends something again */
#define QUEUE_LEAST ((size_t)256 << 10) /* for one node */
#define QUEUE_MOST  ((size_t)4 << 20)
#define QUEUES_MOST ((size_t)64 << 20) /* for all nodes together */

enum { POLL_BELL, POLL_DOOR, POLL_DEVICE, POLL_OTHERS };

/* ---- the thread ---- */

static size_t count_open(const struct tunnel *tunnel)
{
    size_t open = 0;

    for (size_t i = 0; i < tunnel->count; i++)
        open += tunnel->branches[i].state == BRANCH_OPEN || tunnel->branches[i].state == BRANCH_LEFT ? 1 : 0;
    return open;
}

static const struct branch *find_broken(const struct tunnel *tunnel, int64_t now_ms)
{
    for (size_t i = 0; i < tunnel->count; i++) {
        const struct branch *branch = &tunnel->branches[i];
        if (branch->state != BRANCH_OPEN && branch->state != BRANCH_LEFT &&
            now_ms > branch->lost_ms + tunnel->options.patience_ms)
            return branch;
    }
    return NULL;
}

static void note_broken(struct tunnel *tunnel, const struct tunnel_node *other)
{
    tunnel->shared.is_broken = true;
    (void)snprintf(tunnel->shared.why, sizeof tunnel->shared.why,
                   "node %lld of the run can't be reached any more, at %.48s port %u: it has gone, or a firewall is between",
                   (long long)other->node, other->address, other->port);
}

/* The programs of all nodes have ended, and what they sent has arrived. A node that is not connected is not waited for. */
static bool is_quiet(const struct tunnel *tunnel, int64_t now_ms)
{
    for (size_t i = 0; i < tunnel->count; i++) {
        const struct branch *branch = &tunnel->branches[i];
        if (branch->state == BRANCH_OPEN && (!branch->said_bye || wire_waiting(branch->wire) > 0)) return false;
    }
    return now_ms > tunnel->heard_ms + QUIET_MS;
}

/* Tells the other side of the thread what is so now, and hears what it wants. False: the thread ends. */
static bool share(struct tunnel *tunnel, int64_t now_ms)
{
    const struct branch *broken = find_broken(tunnel, now_ms);

    const size_t open = count_open(tunnel);
    const bool is_over = tunnel->has_ended && is_quiet(tunnel, now_ms);

    (void)pthread_mutex_lock(&tunnel->thread.mutex);
    const bool is_news = tunnel->shared.open != open || tunnel->shared.is_over != is_over || broken != NULL;
    tunnel->shared.open = open;
    tunnel->shared.is_over = is_over;
    tunnel->shared.counts = tunnel->counted;
    if (broken != NULL && !tunnel->shared.is_broken) note_broken(tunnel, broken->other);
    if (is_news) (void)pthread_cond_broadcast(&tunnel->thread.woken);
    const bool ends_now = tunnel->shared.has_ended && !tunnel->has_ended, goes_on = !tunnel->thread.is_stopping;
    (void)pthread_mutex_unlock(&tunnel->thread.mutex);
    tunnel->has_ended = tunnel->has_ended || ends_now;
    for (size_t i = 0; ends_now && i < tunnel->count; i++) branch_say_bye(&tunnel->branches[i]);
    return goes_on;
}

static bool has_more(const struct tunnel *tunnel)
{
    for (size_t i = 0; i < tunnel->count; i++)
        if (tunnel->branches[i].wire != NULL && wire_has_more(tunnel->branches[i].wire)) return true;
    return false;
}

static size_t list_polled(const struct tunnel *tunnel, struct pollfd *polled)
{
    size_t count = POLL_OTHERS;

    polled[POLL_BELL] = (struct pollfd){.fd = tunnel->bell, .events = POLLIN};
    polled[POLL_DOOR] = (struct pollfd){.fd = tunnel->options.door, .events = POLLIN};
    polled[POLL_DEVICE] = (struct pollfd){.fd = tunnel->options.device, .events = POLLIN};
    for (size_t i = 0; i < tunnel->count; i++) branch_poll(&tunnel->branches[i], &polled[count++]);
    for (size_t i = 0; i < GUESTS_MAX; i++) {
        const struct wire *wire = tunnel->guests[i].wire;
        if (wire != NULL) polled[count++] = (struct pollfd){.fd = wire_descriptor(wire), .events = wire_events(wire)};
    }
    return count;
}

static void look_at_guests(struct tunnel *tunnel, int64_t now_ms)
{
    for (size_t i = 0; i < GUESTS_MAX; i++) {
        struct guest *guest = &tunnel->guests[i];
        if (guest->wire == NULL) continue;
        if (now_ms < guest->until_ms) guest_go_on(tunnel, guest);
        else guest_close(guest);
    }
}

/* The device comes before the connections, so that its packets are sent in the same turn. */
static void turn(struct tunnel *tunnel)
{
    struct pollfd polled[POLL_OTHERS + TUNNEL_NODES_MAX + GUESTS_MAX];
    const size_t count = list_polled(tunnel, polled);
    uint64_t rung = 0;

    if (poll(polled, count, has_more(tunnel) ? 0 : LOOK_MS) < 0) return;
    const int64_t now_ms = clock_monotonic_ms();
    if (polled[POLL_BELL].revents != 0) (void)!read(tunnel->bell, &rung, sizeof rung);
    if (polled[POLL_DEVICE].revents != 0) traffic_from_device(tunnel);
    for (size_t i = 0; i < tunnel->count; i++) {
        branch_go_on(tunnel, &tunnel->branches[i], polled[POLL_OTHERS + i].revents);
        branch_look(tunnel, &tunnel->branches[i], now_ms);
    }
    look_at_guests(tunnel, now_ms);
    if (polled[POLL_DOOR].revents != 0) guests_accept(tunnel);
}

static void *run(void *argument)
{
    struct tunnel *tunnel = argument;

    do turn(tunnel);
    while (share(tunnel, clock_monotonic_ms()));
    return NULL;
}

/* ---- the other side ---- */

static bool is_known(const void *context, const char thumbprint[ECDSA_THUMBPRINT_SIZE])
{
    const struct tunnel *tunnel = context;

    for (size_t i = 0; i < tunnel->count; i++)
        if (strcmp(tunnel->branches[i].other->key, thumbprint) == 0) return true;
    return false;
}

static void set_branches(struct tunnel *tunnel)
{
    const int64_t now_ms = clock_monotonic_ms();
    const size_t share_of_one = QUEUES_MOST / (tunnel->count == 0 ? 1 : tunnel->count);

    tunnel->queue_most = share_of_one < QUEUE_LEAST ? QUEUE_LEAST : share_of_one > QUEUE_MOST ? QUEUE_MOST : share_of_one;
    tunnel->heard_ms = now_ms;
    for (size_t i = 0; i < tunnel->count; i++)
        tunnel->branches[i] = (struct branch){
            .other = &tunnel->options.others[i], .dialled = -1, .due_ms = now_ms, .pause_ms = PAUSE_LEAST_MS, .lost_ms = now_ms};
}

static struct result start(struct tunnel *tunnel, struct error *err)
{
    const struct tls_self_options self = {.key = tunnel->options.key, .is_known = is_known, .context = tunnel};

    if (tunnel->options.nodes < 2 || tunnel->options.nodes > TUNNEL_NODES_MAX)
        return failure(err, ERROR_INVALID, "a tunnel is between 2 to %d nodes", TUNNEL_NODES_MAX);
    tunnel->count = (size_t)tunnel->options.nodes - 1;
    set_branches(tunnel);
    tunnel->bell = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (tunnel->bell < 0) return failure(err, ERROR_UNAVAILABLE, "no descriptor for a tunnel: %s", strerror(errno));
    TRY(tls_self_new(&self, &tunnel->self, err));
    return thread_start(&tunnel->thread, run, tunnel, "carries packets between nodes", err);
}

struct result tunnel_start(const struct tunnel_options *options, struct tunnel **tunnel_out, struct error *err)
{
    OWNED(tunnel) *tunnel = memory_zeroed(1, sizeof *tunnel);

    if (tunnel == NULL) {
        (void)close(options->door);
        (void)close(options->device);
        return failure(err, ERROR_NO_MEMORY, "no memory for a tunnel");
    }
    tunnel->options = *options;
    tunnel->bell = -1;
    TRY(start(tunnel, err));
    *tunnel_out = GIVE(tunnel);
    return SUCCESS;
}

struct result tunnel_wait(struct tunnel *tunnel, const volatile sig_atomic_t *cancelled, struct error *err)
{
    struct result done = SUCCESS;

    (void)pthread_mutex_lock(&tunnel->thread.mutex);
    while (tunnel->shared.open < tunnel->count && !tunnel->shared.is_broken && (cancelled == NULL || *cancelled == 0))
        thread_wait(&tunnel->thread, clock_monotonic_ms() + WAIT_MS);
    if (tunnel->shared.is_broken) done = failure(err, ERROR_UNAVAILABLE, "%s", tunnel->shared.why);
    else if (tunnel->shared.open < tunnel->count)
        done = failure(err, ERROR_UNAVAILABLE, "the run was stopped before its nodes were connected");
    (void)pthread_mutex_unlock(&tunnel->thread.mutex);
    return done;
}

bool tunnel_is_broken(struct tunnel *tunnel, char why_out[TUNNEL_WHY_SIZE])
{
    (void)pthread_mutex_lock(&tunnel->thread.mutex);
    const bool is_broken = tunnel->shared.is_broken;
    memcpy(why_out, tunnel->shared.why, sizeof tunnel->shared.why);
    (void)pthread_mutex_unlock(&tunnel->thread.mutex);
    return is_broken;
}

struct tunnel_counts tunnel_counts(struct tunnel *tunnel)
{
    (void)pthread_mutex_lock(&tunnel->thread.mutex);
    const struct tunnel_counts counts = tunnel->shared.counts;
    (void)pthread_mutex_unlock(&tunnel->thread.mutex);
    return counts;
}

static void ring(const struct tunnel *tunnel)
{
    const uint64_t once = 1;

    (void)!write(tunnel->bell, &once, sizeof once);
}

void tunnel_end(struct tunnel *tunnel)
{
    (void)pthread_mutex_lock(&tunnel->thread.mutex);
    tunnel->shared.has_ended = true;
    (void)pthread_mutex_unlock(&tunnel->thread.mutex);
    ring(tunnel);
}

void tunnel_linger(struct tunnel *tunnel, int64_t patience_ms, const volatile sig_atomic_t *cancelled)
{
    const int64_t until_ms = clock_monotonic_ms() + patience_ms;

    (void)pthread_mutex_lock(&tunnel->thread.mutex);
    while (!tunnel->shared.is_over && clock_monotonic_ms() < until_ms && (cancelled == NULL || *cancelled == 0))
        thread_wait(&tunnel->thread, clock_monotonic_ms() + WAIT_MS);
    (void)pthread_mutex_unlock(&tunnel->thread.mutex);
}

void tunnel_free(struct tunnel *tunnel)
{
    if (tunnel == NULL) return;
    if (tunnel->thread.has_started) {
        (void)pthread_mutex_lock(&tunnel->thread.mutex);
        tunnel->thread.is_stopping = true;
        (void)pthread_mutex_unlock(&tunnel->thread.mutex);
        ring(tunnel);
    }
    thread_stop(&tunnel->thread);
    for (size_t i = 0; i < tunnel->count; i++) branch_close(&tunnel->branches[i]);
    for (size_t i = 0; i < GUESTS_MAX; i++) guest_close(&tunnel->guests[i]);
    tls_self_free(tunnel->self);
    file_close_owned(&tunnel->bell);
    file_close_owned(&tunnel->options.door);
    file_close_owned(&tunnel->options.device);
    free(tunnel);
}
