#include "keyd/server.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "crypto/keyd_frame.h"

enum {
    MESSAGE_MS = 5000,      /* for one message to arrive, and for its reply to be taken */
    HURRIED_MS = 300,       /* in place of MESSAGE_MS while other connections wait for a thread, or the server ends */
    IDLE_MS = 300000,       /* the pools of clients keep idle connections for a while */
    POLL_MS = 500,          /* how often an idle thread looks at the clock */
    STACK_SIZE = 512 * 1024 /* locked when it is used */
};

/* The event for which a thread waits. */
enum doing { DOING_NOTHING, DOING_RECEIVE, DOING_SEND };

struct worker {
    struct server *server;
    pthread_t thread;
    bool is_started;
    int fd;                   /* guarded by the server's lock, so that a closed descriptor is never shut down; -1: none */
    _Atomic enum doing doing; /* since since_ms */
    atomic_llong since_ms;
    struct keyd_frame in, out;
};

struct server {
    const struct keyd *keyd;
    struct server_options options;
    int listener;
    pthread_mutex_t lock; /* of is_open, begun and the workers' connections */
    pthread_cond_t opened, began;
    size_t begun;
    bool is_open;
    atomic_bool is_ending;
    atomic_int busy;
    struct worker workers[SERVER_CONNECTIONS];
};

static bool is_expected_peer(const struct server *server, int fd)
{
    struct ucred peer = {0};
    socklen_t length = sizeof peer;
    char uid[16]; /* a 32-bit number */

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) return false;
    for (size_t i = 0; i < server->options.uid_count; i++)
        if (server->options.uids[i] == peer.uid) return true;
    (void)snprintf(uid, sizeof uid, "%u", peer.uid);
    log_line(LOG_WARNING, "a connection of another user was refused", "uid", uid, NULL);
    return false;
}

static bool is_full(struct server *server)
{
    return atomic_load(&server->busy) == SERVER_CONNECTIONS;
}

static bool is_wanted(const struct server *server)
{
    struct pollfd backlog = {.fd = server->listener, .events = POLLIN};

    return poll(&backlog, 1, 0) > 0;
}

/* Exactly one of all idle threads ends its connection, and accepts another one. */
static bool yield_if_wanted(struct server *server)
{
    int full = SERVER_CONNECTIONS;

    return is_wanted(server) && atomic_compare_exchange_strong(&server->busy, &full, SERVER_CONNECTIONS - 1);
}

enum wait { WAIT_MESSAGE, WAIT_OVER, WAIT_YIELDED };

/* WAIT_MESSAGE if one has begun to arrive; otherwise the connection ends. */
static enum wait wait_for_message(struct server *server, int fd)
{
    const int64_t until_ms = clock_monotonic_ms() + IDLE_MS;

    for (;;) {
        struct pollfd waiting[] = {{.fd = fd, .events = POLLIN}, {.fd = server->listener, .events = POLLIN}};
        const int ready = poll(waiting, is_full(server) ? 2 : 1, POLL_MS);
        if (ready < 0 && errno != EINTR) return WAIT_OVER;
        if (ready > 0 && waiting[0].revents != 0) return (waiting[0].revents & POLLIN) != 0 ? WAIT_MESSAGE : WAIT_OVER;
        if (atomic_load(&server->is_ending) || clock_monotonic_ms() >= until_ms) return WAIT_OVER;
        if (is_full(server) && yield_if_wanted(server)) return WAIT_YIELDED;
    }
}

static void note(struct worker *worker, enum doing doing)
{
    atomic_store(&worker->since_ms, clock_monotonic_ms());
    atomic_store(&worker->doing, doing);
}

static int64_t send_until_ms(struct server *server)
{
    return clock_monotonic_ms() + (atomic_load(&server->is_ending) ? HURRIED_MS : MESSAGE_MS);
}

static bool serve_message(struct worker *worker, int fd)
{
    struct buffer *reply = NULL;
    struct bytes message;
    struct error err = {0};

    note(worker, DOING_RECEIVE);
    bool ok = keyd_receive(fd, &worker->in, clock_monotonic_ms() + MESSAGE_MS, &message, &err).ok;
    note(worker, DOING_NOTHING);
    if (ok) reply = keyd_frame_buffer_for(&worker->out, message.data[5]); /* of its type */
    ok = ok && keyd_answer(worker->server->keyd, message, reply, &err).ok;
    keyd_frame_wipe(&worker->in);
    note(worker, DOING_SEND);
    ok = ok && keyd_send(fd, buffer_bytes(reply), send_until_ms(worker->server), &err).ok;
    note(worker, DOING_NOTHING);
    keyd_frame_wipe(&worker->out);
    if (!ok && err.kind == ERROR_INVALID) log_error("a malformed message was refused", &err);
    return ok;
}

static void hold(struct worker *worker, int fd)
{
    (void)pthread_mutex_lock(&worker->server->lock);
    worker->fd = fd;
    (void)pthread_mutex_unlock(&worker->server->lock);
}

static void serve(struct worker *worker, int fd)
{
    struct server *server = worker->server;
    enum wait waited = WAIT_OVER;

    atomic_fetch_add(&server->busy, 1);
    hold(worker, fd);
    if (is_expected_peer(server, fd))
        while (!atomic_load(&server->is_ending) && (waited = wait_for_message(server, fd)) == WAIT_MESSAGE)
            if (!serve_message(worker, fd)) break;
    hold(worker, -1);
    if (waited != WAIT_YIELDED) atomic_fetch_sub(&server->busy, 1);
    (void)close(fd);
}

static bool wait_for_start(struct server *server)
{
    (void)pthread_mutex_lock(&server->lock);
    server->begun++;
    (void)pthread_cond_signal(&server->began);
    while (!server->is_open && !atomic_load(&server->is_ending)) (void)pthread_cond_wait(&server->opened, &server->lock);
    (void)pthread_mutex_unlock(&server->lock);
    return !atomic_load(&server->is_ending);
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    struct server *server = worker->server;

    if (!wait_for_start(server)) return NULL;
    while (!atomic_load(&server->is_ending)) {
        const int fd = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) serve(worker, fd);
        else if (errno != EINTR && errno != ECONNABORTED && !atomic_load(&server->is_ending))
            (void)poll(NULL, 0, POLL_MS); /* out of descriptors: other connections end soon */
    }
    return NULL;
}

static struct result start_worker(struct server *server, struct worker *worker, struct error *err)
{
    pthread_attr_t attributes;

    TRY(keyd_frame_init(&worker->in, err));
    TRY(keyd_frame_init(&worker->out, err));
    if (pthread_attr_init(&attributes) != 0) return failure(err, ERROR_NO_MEMORY, "no memory for a thread");
    (void)pthread_attr_setstacksize(&attributes, STACK_SIZE);
    worker->server = server;
    worker->fd = -1;
    worker->is_started = pthread_create(&worker->thread, &attributes, work, worker) == 0;
    (void)pthread_attr_destroy(&attributes);
    return worker->is_started ? SUCCESS : failure(err, ERROR_NO_MEMORY, "no more threads can be started");
}

/* The sandbox would not allow a thread to begin. */
static void wait_until_all_began(struct server *server)
{
    (void)pthread_mutex_lock(&server->lock);
    while (server->begun < SERVER_CONNECTIONS) (void)pthread_cond_wait(&server->began, &server->lock);
    (void)pthread_mutex_unlock(&server->lock);
}

struct result server_new(const struct keyd *keyd, const struct server_options *options, struct server **server_out,
                         struct error *err)
{
    OWNED(server) *server = memory_zeroed(1, sizeof *server);

    if (server == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the server");
    server->keyd = keyd;
    server->options = *options;
    server->listener = -1;
    (void)pthread_mutex_init(&server->lock, NULL);
    (void)pthread_cond_init(&server->opened, NULL);
    (void)pthread_cond_init(&server->began, NULL);
    for (size_t i = 0; i < SERVER_CONNECTIONS; i++) TRY(start_worker(server, &server->workers[i], err));
    wait_until_all_began(server);
    *server_out = GIVE(server);
    return SUCCESS;
}

/* Binds and listens under a temporary name, then renames: a client that sees the name can connect. */
static struct result publish(const struct server *server, const char *temporary, struct error *err)
{
    const struct server_options *options = &server->options;

    if (listen(server->listener, SERVER_CONNECTIONS) != 0 ||
        (options->group != (gid_t)-1 && chown(temporary, (uid_t)-1, options->group) != 0) ||
        chmod(temporary, options->mode) != 0 || rename(temporary, options->socket_path) != 0)
        return failure(err, ERROR_UNAVAILABLE, "the socket %s can't be made: %s", options->socket_path, strerror(errno));
    return SUCCESS;
}

struct result server_open_socket(struct server *server, struct error *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    const int length = snprintf(address.sun_path, sizeof address.sun_path, "%s.new", server->options.socket_path);
    if (length < 0 || (size_t)length >= sizeof address.sun_path)
        return failure(err, ERROR_INVALID, "the socket path %s is too long; at most %zu letters", server->options.socket_path,
                       sizeof address.sun_path - strlen(".new") - 1);
    server->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)unlink(address.sun_path); /* left by a start that was killed */
    if (server->listener < 0 || bind(server->listener, (const struct sockaddr *)&address, sizeof address) != 0)
        return failure(err, ERROR_UNAVAILABLE, "the socket %s can't be made: %s", address.sun_path, strerror(errno));
    return publish(server, address.sun_path, err);
}

void server_start(struct server *server)
{
    (void)pthread_mutex_lock(&server->lock);
    server->is_open = true;
    (void)pthread_cond_broadcast(&server->opened);
    (void)pthread_mutex_unlock(&server->lock);
}

/* Under the lock. The peer can still read what was sent. */
static void cut_overdue(struct worker *worker)
{
    const enum doing doing = atomic_load(&worker->doing);
    const int64_t waited_ms = clock_monotonic_ms() - atomic_load(&worker->since_ms);

    if (worker->fd >= 0 && doing != DOING_NOTHING && waited_ms > HURRIED_MS) (void)shutdown(worker->fd, SHUT_RDWR);
}

void server_relieve(struct server *server)
{
    if (!is_full(server) || !is_wanted(server)) return;
    (void)pthread_mutex_lock(&server->lock);
    for (size_t i = 0; i < SERVER_CONNECTIONS; i++) cut_overdue(&server->workers[i]);
    (void)pthread_mutex_unlock(&server->lock);
}

/* Complete messages are answered; incomplete ones are not waited for. */
static void end_connections(struct server *server)
{
    for (size_t i = 0; i < SERVER_CONNECTIONS; i++) {
        struct worker *worker = &server->workers[i];
        if (worker->fd < 0) continue;
        (void)shutdown(worker->fd, atomic_load(&worker->doing) == DOING_SEND ? SHUT_RDWR : SHUT_RD);
    }
}

static void end_threads(struct server *server)
{
    atomic_store(&server->is_ending, true);
    (void)pthread_mutex_lock(&server->lock);
    (void)pthread_cond_broadcast(&server->opened);
    end_connections(server);
    (void)pthread_mutex_unlock(&server->lock);
    if (server->listener >= 0) (void)shutdown(server->listener, SHUT_RDWR);
    for (size_t i = 0; i < SERVER_CONNECTIONS; i++)
        if (server->workers[i].is_started) (void)pthread_join(server->workers[i].thread, NULL);
}

void server_free(struct server *server)
{
    if (server == NULL) return;
    end_threads(server);
    for (size_t i = 0; i < SERVER_CONNECTIONS; i++) {
        keyd_frame_done(&server->workers[i].in);
        keyd_frame_done(&server->workers[i].out);
    }
    if (server->listener >= 0) (void)close(server->listener);
    (void)pthread_mutex_destroy(&server->lock);
    (void)pthread_cond_destroy(&server->opened);
    (void)pthread_cond_destroy(&server->began);
    free(server);
}
