/* The client's pool of connections: made when they are needed, replaced when they break. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/memory.h"
#include "crypto/keyd_client_priv.h"
#include "crypto/keyd_frame.h"
#include "crypto/metrics.h"

enum { CONNECTIONS = 8 }; /* further threads wait: keyd itself serves only a few requests at a time */

struct keyd_connection {
    int fd; /* -1: not connected */
    bool busy, has_frame;
    uint64_t last_id;
    struct keyd_frame frame;
};

struct keyd_client {
    struct sockaddr_un address;
    unsigned timeout_ms;
    pthread_mutex_t lock; /* of the busy flags */
    pthread_cond_t freed;
    struct keyd_connection connections[CONNECTIONS];
    struct keyd_routes routes;
};

struct result keyd_client_new(const char *socket_path, unsigned timeout_ms, struct keyd_client **client_out, struct error *err)
{
    if (strlen(socket_path) >= sizeof(((struct sockaddr_un *)0)->sun_path))
        return failure(err, ERROR_INVALID, "the socket path \"%.120s\" is too long: choose a shorter folder", socket_path);
    struct keyd_client *client = memory_zeroed(1, sizeof *client);
    if (client == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a connection to sijil-keyd");
    client->address.sun_family = AF_UNIX;
    memcpy(client->address.sun_path, socket_path, strlen(socket_path));
    client->timeout_ms = timeout_ms;
    for (size_t i = 0; i < CONNECTIONS; i++) client->connections[i].fd = -1;
    (void)pthread_mutex_init(&client->lock, NULL);
    (void)pthread_cond_init(&client->freed, NULL);
    (void)pthread_mutex_init(&client->routes.lock, NULL);
    *client_out = client;
    return SUCCESS;
}

struct result keyd_client_like(const struct keyd_client *client, const char *socket_path, struct keyd_client **client_out,
                               struct error *err)
{
    return keyd_client_new(socket_path, client->timeout_ms, client_out, err);
}

struct keyd_routes *keyd_client_routes(struct keyd_client *client)
{
    return &client->routes;
}

static void disconnect(struct keyd_connection *connection)
{
    if (connection->fd >= 0) (void)close(connection->fd);
    connection->fd = -1;
}

void keyd_client_free(struct keyd_client *client)
{
    if (client == NULL) return;
    for (size_t i = 0; i < CONNECTIONS; i++) {
        disconnect(&client->connections[i]);
        keyd_frame_done(&client->connections[i].frame);
    }
    for (size_t i = 0; i < client->routes.count; i++) keyd_client_free(client->routes.each[i].client);
    (void)pthread_mutex_destroy(&client->routes.lock);
    (void)pthread_mutex_destroy(&client->lock);
    (void)pthread_cond_destroy(&client->freed);
    free(client);
}

static struct keyd_connection *find_free(struct keyd_client *client)
{
    struct keyd_connection *found = NULL;

    for (size_t i = 0; i < CONNECTIONS; i++) {
        struct keyd_connection *each = &client->connections[i];
        if (each->busy) continue;
        if (found == NULL || (found->fd < 0 && each->fd >= 0)) found = each;
    }
    return found;
}

static struct keyd_connection *take(struct keyd_client *client, int64_t deadline_ms)
{
    const struct timespec until = {.tv_sec = deadline_ms / 1000, .tv_nsec = deadline_ms % 1000 * 1000000};
    struct keyd_connection *found;

    (void)pthread_mutex_lock(&client->lock);
    while ((found = find_free(client)) == NULL)
        if (pthread_cond_clockwait(&client->freed, &client->lock, CLOCK_MONOTONIC, &until) == ETIMEDOUT) break;
    if (found != NULL) found->busy = true;
    (void)pthread_mutex_unlock(&client->lock);
    return found;
}

void keyd_call_done(struct keyd_call *call)
{
    struct keyd_connection *connection = call->connection;

    if (connection == NULL) return;
    if (connection->has_frame) keyd_frame_wipe(&connection->frame);
    (void)pthread_mutex_lock(&call->client->lock);
    connection->busy = false;
    (void)pthread_cond_signal(&call->client->freed);
    (void)pthread_mutex_unlock(&call->client->lock);
    call->connection = NULL;
}

/* connect(2) on a unix socket waits only while the backlog is full; SO_SNDTIMEO bounds that. */
static struct result connect_socket(const struct keyd_client *client, int fd, int64_t deadline_ms, struct error *err)
{
    const int64_t left_ms = deadline_ms - clock_monotonic_ms();
    const struct timeval limit = {.tv_sec = left_ms / 1000, .tv_usec = left_ms % 1000 * 1000};

    if (left_ms <= 0) return failure(err, ERROR_UNAVAILABLE, "sijil-keyd does not answer in time");
    if (fault_is_due(FAULT_SOCKET) || setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) != 0 ||
        connect(fd, (const struct sockaddr *)&client->address, sizeof client->address) != 0 ||
        fcntl(fd, F_SETFL, O_NONBLOCK) != 0)
        return failure(err, ERROR_UNAVAILABLE, KEYD_NOT_REACHED "%.108s: %s", client->address.sun_path, strerror(errno));
    return SUCCESS;
}

static struct result reconnect(const struct keyd_client *client, struct keyd_connection *connection, int64_t deadline_ms,
                               struct error *err)
{
    disconnect(connection);
    const int fd = fault_is_due(FAULT_SOCKET) ? -1 : socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return failure(err, ERROR_UNAVAILABLE, "a socket for sijil-keyd can't be opened: %s", strerror(errno));
    const struct result result = connect_socket(client, fd, deadline_ms, err);
    if (result.ok) connection->fd = fd;
    else (void)close(fd);
    return result;
}

static struct result send_request(struct keyd_connection *connection, const struct keyd_request *request, int64_t deadline_ms,
                                  struct error *err)
{
    if (keyd_type_is_large((uint8_t)request->type)) { /* it holds no secret, so it is not in locked memory */
        struct buffer OWNED_BUFFER large = BUFFER(KEYD_MESSAGE_LARGE);
        TRY(keyd_request_write(&large, request, err));
        return keyd_send(connection->fd, buffer_bytes(&large), deadline_ms, err);
    }
    struct buffer *message = keyd_frame_buffer(&connection->frame);
    TRY(keyd_request_write(message, request, err));
    return keyd_send(connection->fd, buffer_bytes(message), deadline_ms, err);
}

static struct result exchange(struct keyd_connection *connection, struct keyd_request *request, int64_t deadline_ms,
                              struct keyd_reply *reply_out, struct error *err)
{
    struct bytes message;

    request->id = ++connection->last_id;
    TRY(send_request(connection, request, deadline_ms, err));
    TRY(keyd_receive(connection->fd, &connection->frame, deadline_ms, &message, err));
    if (!keyd_reply_read(message, reply_out, err).ok || reply_out->id != request->id ||
        (reply_out->type != request->type && reply_out->type != KEYD_ERROR))
        return failure(
            err, ERROR_UNAVAILABLE,
            "sijil-keyd sent a reply that does not belong to the request: check that sijild and sijil-keyd have the same version");
    return SUCCESS;
}

/* Every request may be sent twice, because it changes keyd's state at most once. A connection of the pool may be stale. */
static struct result try_twice(struct keyd_client *client, struct keyd_connection *connection, struct keyd_request *request,
                               int64_t deadline_ms, struct keyd_reply *reply_out, struct error *err)
{
    if (connection->fd >= 0) {
        const struct result result = exchange(connection, request, deadline_ms, reply_out, err);
        if (result.ok || err->kind != ERROR_UNAVAILABLE) return result;
    }
    TRY(reconnect(client, connection, deadline_ms, err));
    return exchange(connection, request, deadline_ms, reply_out, err);
}

static struct result call_keyd(struct keyd_client *client, struct keyd_request *request, struct keyd_call *call,
                               struct error *err)
{
    const int64_t deadline_ms = clock_monotonic_ms() + client->timeout_ms;
    struct keyd_connection *connection = take(client, deadline_ms);

    if (connection == NULL) return failure(err, ERROR_UNAVAILABLE, "sijil-keyd is too busy to answer in time");
    *call = (struct keyd_call){.client = client, .connection = connection};
    if (!connection->has_frame) {
        TRY(keyd_frame_init(&connection->frame, err));
        connection->has_frame = true;
    }
    const struct result result = try_twice(client, connection, request, deadline_ms, &call->reply, err);
    if (!result.ok) {
        disconnect(connection);
        return result;
    }
    if (call->reply.type != KEYD_ERROR) return SUCCESS;
    const struct bytes message = call->reply.as.error.message;
    return failure(err, call->reply.as.error.kind, "%.*s", (int)message.length, (const char *)message.data);
}

struct result keyd_call(struct keyd_client *client, struct keyd_request *request, struct keyd_call *call, struct error *err)
{
    const int64_t began_us = clock_monotonic_us();
    const struct result called = call_keyd(client, request, call, err);

    keyd_metrics_count(request->type, clock_monotonic_us() - began_us, called.ok ? ERROR_NONE : err->kind);
    return called;
}
