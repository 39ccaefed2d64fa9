#include "gateway/http/server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "gateway/http/exchange_priv.h"
#include "gateway/http/framer_read.h"
#include "gateway/http/linger.h"
#include "gateway/http/metrics.h"
#include "gateway/http/network_quota.h"
#include "gateway/http/server_priv.h"
#include "gateway/http/tls.h"

#define CONNECTION_ROOM   ((size_t)16 * 1024) /* beside a head: libmicrohttpd's notes of each header, and the head of an answer */
#define EVENT_THREADS_MAX 4                   /* more event threads than cores gain nothing */
#define BACKLOG           1024                /* the kernel caps it at net.core.somaxconn */

/* libmicrohttpd 0.9.75 closes a connection with a second malformed head, or with a failed epoll_ctl(2), without ending the request. */
static void end_forgotten(struct server *server, struct MHD_Connection *mhd, struct connection *connection)
{
    void *forgotten = connection->exchange;

    const bool is_head =
        connection->exchange != NULL && connection->exchange->phase == PHASE_HEAD; /* else a system call failed */

    exchange_end(server, mhd, &forgotten, is_head ? MHD_REQUEST_TERMINATED_WITH_ERROR : MHD_REQUEST_TERMINATED_READ_ERROR);
}

static void connection_end(struct server *server, struct MHD_Connection *mhd, struct connection *connection)
{
    end_forgotten(server, mhd, connection);
    connection_leave(server, mhd, connection);
}

static void connection_changed(void *context, struct MHD_Connection *mhd, void **connection_context,
                               enum MHD_ConnectionNotificationCode code)
{
    struct server *server = context;

    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        *connection_context = connection_arrives(server, mhd);
    } else if (*connection_context != NULL) {
        connection_end(server, mhd, *connection_context);
        *connection_context = NULL;
    }
}

/*
 * libmicrohttpd answers some requests itself (431, bad lengths, malformed lines) and reports that only in its log, with one line of this
 * form for each request. So the count is exact.
 */
static void server_log(void *context, const char *format, va_list args)
{
    struct server *server = context;

    if (strncmp(format, "Error accepting connection", 26) == 0) atomic_store(&server->is_out_of_descriptors, true);
    if (strstr(format, "HTTP response code is %u") == NULL) return;
    const unsigned status = va_arg(args, unsigned);
    char text[12];

    (void)snprintf(text, sizeof text, "%u", status);
    metric_add(&metrics_http[METRIC_STATUS_4], 1);
    server->options.callbacks->refused_by_library(server->options.context);
    log_line(LOG_INFO, "refused by the parser", "status", text, NULL);
}

/* libmicrohttpd must decode nothing: gateway/http/path.h decodes once. */
static size_t leave_escaped(void *context, struct MHD_Connection *mhd, char *text)
{
    (void)context;
    (void)mhd;
    return strlen(text);
}

static enum MHD_Result may_connect(void *context, const struct sockaddr *address, socklen_t length)
{
    const struct server *server = context;

    (void)length;
    return !atomic_load(&server->is_draining) && connection_may_come(server, address) ? MHD_YES : MHD_NO;
}

static unsigned event_threads(const struct http_options *options)
{
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);

    if (options->event_threads > 0) return options->event_threads;
    return cores < 1 ? 1 : cores > EVENT_THREADS_MAX ? EVENT_THREADS_MAX : (unsigned)cores;
}

/* Memory for a head at all of its limits. No more, because libmicrohttpd zeroes all of it after each request. */
static size_t connection_memory(const struct http_limits *limits)
{
    return limits->path + limits->query + limits->headers + CONNECTION_ROOM;
}

/* Takes over the socket in `own`, also on failure: libmicrohttpd may have closed it then. */
static struct result start_daemon(struct server *server, unsigned flags, struct MHD_OptionItem *own,
                                  struct MHD_Daemon **daemon_out, struct error *err)
{
    const struct http_options *options = &server->options;
    const unsigned threads = server->threads;
    const bool is_port = (flags & MHD_USE_TLS) != 0;
    const int64_t most = is_port ? server_connections_of_port(options) : options->connections_max;
    struct MHD_OptionItem common[] = {
        {MHD_OPTION_EXTERNAL_LOGGER, (intptr_t)server_log, server},
        {MHD_OPTION_NOTIFY_CONNECTION, (intptr_t)connection_changed, server},
        {MHD_OPTION_NOTIFY_COMPLETED, (intptr_t)exchange_end, server},
        {MHD_OPTION_URI_LOG_CALLBACK, (intptr_t)exchange_begin, server},
        {MHD_OPTION_UNESCAPE_CALLBACK, (intptr_t)leave_escaped, server},
        {MHD_OPTION_CONNECTION_MEMORY_LIMIT, (intptr_t)connection_memory(&options->limits), NULL},
        {MHD_OPTION_CONNECTION_LIMIT, (intptr_t)most, NULL},
        {MHD_OPTION_CONNECTION_TIMEOUT, (intptr_t)options->idle_s, NULL},
        {MHD_OPTION_LISTEN_BACKLOG_SIZE, BACKLOG, NULL},
        {threads > 1 ? MHD_OPTION_THREAD_POOL_SIZE : MHD_OPTION_LISTEN_BACKLOG_SIZE, threads > 1 ? threads : BACKLOG, NULL},
        {MHD_OPTION_END, 0, NULL},
    };

    /* The logger must be first; in any other order, early complaints go to standard error. */
    struct MHD_Daemon *daemon =
        MHD_start_daemon(flags | MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG, 0, may_connect,
                         server, exchange_continue, server, MHD_OPTION_ARRAY, common, MHD_OPTION_ARRAY, own, MHD_OPTION_END);
    if (daemon == NULL) return failure(err, ERROR_UNAVAILABLE, "libmicrohttpd does not start");
    *daemon_out = daemon;
    return SUCCESS;
}

/* A numeric address only, because a name could resolve to any address. */
static struct result address_of(const struct http_options *options, int port, struct sockaddr_storage *address_out,
                                socklen_t *length_out, struct error *err)
{
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = four.sin_port};
    const bool is_four = inet_pton(AF_INET, options->listen_address, &four.sin_addr) == 1;

    if (!is_four && inet_pton(AF_INET6, options->listen_address, &six.sin6_addr) != 1)
        return failure(err, ERROR_INVALID, "listen_address = %s: a numeric IP address", options->listen_address);
    *length_out = is_four ? sizeof four : sizeof six;
    memcpy(address_out, is_four ? (const void *)&four : (const void *)&six, *length_out);
    return SUCCESS;
}

/* An address may be added to a machine after this start: for example, an address that moves between machines. */
static enum error_kind kind_of(int number)
{
    return number == EADDRINUSE ? ERROR_CONFLICT : number == EADDRNOTAVAIL ? ERROR_UNAVAILABLE : ERROR_INVALID;
}

static struct result listen_on(int fd, const struct sockaddr *address, socklen_t length, const char *what, struct error *err)
{
    const int yes = 1;

    if (fd < 0) return failure(err, ERROR_UNAVAILABLE, "can't make a socket: %s", strerror(errno));
    if (address->sa_family != AF_UNIX) (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(fd, address, length) == 0 && listen(fd, BACKLOG) == 0) return SUCCESS;
    failure_write(err, kind_of(errno), "can't listen on %s: %s", what, strerror(errno));
    (void)close(fd);
    return (struct result){.ok = false};
}

static struct result bound_port(int fd, int *port_out, struct error *err)
{
    struct sockaddr_storage address = {0};
    socklen_t length = sizeof address;

    if (getsockname(fd, (struct sockaddr *)&address, &length) != 0)
        return failure(err, ERROR_UNAVAILABLE, "can't see the port: %s", strerror(errno));
    /* NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): getsockname() wrote it, and the rest is zero */
    *port_out = ntohs(address.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)(void *)&address)->sin6_port
                                                    : ((struct sockaddr_in *)(void *)&address)->sin_port);
    return SUCCESS;
}

static struct result start_tls_on(struct server *server, int fd, struct error *err)
{
    static char priorities[] = TLS_PRIORITIES;
    struct MHD_OptionItem own[] = {
        {MHD_OPTION_LISTEN_SOCKET, fd, NULL},
        {MHD_OPTION_HTTPS_MEM_CERT, 0, tls_certificate_pem(server->tls)},
        {MHD_OPTION_HTTPS_MEM_KEY, 0, tls_key_pem(server->tls)},
        {MHD_OPTION_HTTPS_PRIORITIES, 0, priorities},
        {MHD_OPTION_END, 0, NULL},
    };

    if (server->port == 0) TRY(bound_port(fd, &server->port, err)); /* of the first one */
    TRY(start_daemon(server, MHD_USE_TLS, own, &server->daemons[server->daemon_count], err));
    server->daemon_count++;
    return SUCCESS;
}

static struct result open_socket(const struct http_options *options, int port, int *fd_out, struct error *err)
{
    struct sockaddr_storage address;
    socklen_t length = 0;

    TRY(address_of(options, port, &address, &length, err));
    const int fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    char what[INET6_ADDRSTRLEN + 16];

    (void)snprintf(what, sizeof what, "%.45s port %d", options->listen_address, port);
    TRY(listen_on(fd, (struct sockaddr *)&address, length, what, err));
    *fd_out = fd;
    return SUCCESS;
}

struct result server_check_address(const struct http_options *options, struct error *err)
{
    int fd = -1;

    TRY(open_socket(options, options->listen_port, &fd, err));
    (void)close(fd);
    return SUCCESS;
}

static struct result start_tls(struct server *server, int port, struct error *err)
{
    int fd = -1;

    TRY(open_socket(&server->options, port, &fd, err));
    return start_tls_on(server, fd, err);
}

/* Plain HTTP for a proxy on this machine. The permissions of the socket file say which processes may connect. */
static struct result start_unix(struct server *server, struct error *err)
{
    const char *path = server->options.listen_socket;
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    if (path[0] == '\0') return SUCCESS;
    if (strlen(path) >= sizeof address.sun_path)
        return failure(err, ERROR_INVALID, "listen_socket: at most %zu characters", sizeof address.sun_path - 1);
    memcpy(address.sun_path, path, strlen(path) + 1);
    (void)unlink(path);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const mode_t mask = umask(0117);
    const struct result result = listen_on(fd, (struct sockaddr *)&address, sizeof address, path, err);
    (void)umask(mask);
    if (!result.ok) return result;
    struct MHD_OptionItem own[] = {{MHD_OPTION_LISTEN_SOCKET, fd, NULL}, {MHD_OPTION_END, 0, NULL}};
    TRY(start_daemon(server, 0, own, &server->daemons[server->daemon_count], err));
    server->daemon_count++;
    return SUCCESS;
}

static struct result start_all(struct server *server, struct error *err)
{
    const struct listeners *further = &server->options.listeners;

    TRY(start_tls(server, server->options.listen_port, err));
    for (size_t i = 0; i < further->count; i++) TRY(start_tls(server, further->each[i].port, err));
    return start_unix(server, err);
}

static void server_free(struct server *server)
{
    for (unsigned i = 0; i < server->daemon_count; i++) MHD_stop_daemon(server->daemons[i]);
    lease_renewer_stop(server->leases);
    watcher_stop(server->watcher);
    lingerer_stop(server->lingerer);
    blocks_free(server->blocks);
    network_quota_free(server->network_quota);
    tls_free(server->tls);
    free(server);
}

static struct result server_fill(struct server *server, struct error *err)
{
    const struct http_options *options = &server->options;
    const struct connection_limits limits = {.idle_ms = options->idle_s * 1000,
                                             .handshake_ms = options->handshake_s * 1000,
                                             .head_ms = options->head_s * 1000,
                                             .window_ms = options->rate_window_s * 1000,
                                             .rate = options->rate_minimum,
                                             .rate_busy = options->rate_minimum_busy,
                                             .streams_many = options->streams_many,
                                             .streams = options->streams};

    const struct network_limits networks = {options->connections_max, options->connections_per_network,
                                            options->connections_per_address};

    server->threads = event_threads(options);
    if (!framer_is_in_place())
        return failure(err, ERROR_INVALID, "libmicrohttpd does not read through this program; it must be linked dynamically");
    TRY(blocks_new(BLOCK_SIZE, &server->blocks, err));
    TRY(network_quota_new(&networks, &server->network_quota, err));
    TRY(tls_new(&options->tls, &server->tls, err));
    TRY(watcher_start(&limits, &server->watcher, err));
    TRY(lease_renewer_start(server, &options->leases, &server->leases, err));
    TRY(lingerer_start(options->drain_size_max, &server->lingerer, err));
    return start_all(server, err);
}

struct result server_start(const struct http_options *options, struct server **server_out, struct error *err)
{
    struct server *server = memory_zeroed(1, sizeof *server);

    if (server == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a server");
    server->options = *options;
    const struct result result = server_fill(server, err);
    atomic_store(&server->is_open, result.ok);
    if (result.ok) *server_out = server;
    else server_free(server);
    return result;
}

struct result server_reload(struct server *server, struct error *err)
{
    TRY(tls_reload(server->tls, err));
    metric_add(&metrics_http[METRIC_RELOADS], 1);
    return SUCCESS;
}

int server_port(const struct server *server)
{
    return server->port;
}

static void cut_all(struct server *server, const char *message)
{
    log_line(LOG_WARNING, message, NULL);
    atomic_store(&server->is_stopping, true);
    watcher_cut_all(server->watcher);
}

/*
 * From now on the kernel refuses new connections. libmicrohttpd 0.9.75 can't stop listening while it runs: MHD_quiesce_daemon() and the
 * daemon's thread may both remove the socket from the epoll set, and the second removal ends the program. So dup3() puts an eventfd in the
 * place of the listening socket; the kernel closes the socket and removes it from the set. A thread removes the socket itself at its limit
 * of connections, or after a failed accept. False: that may have happened, so the socket stays a while, and may_connect() refuses new
 * connections.
 */
static bool stop_listening(const struct server *server, struct MHD_Daemon *daemon)
{
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_CURRENT_CONNECTIONS);
    const uint64_t limit_of_each = (uint64_t)server_connections_of_port(&server->options) / server->threads; /* the lower one */

    /* Each thread may be accepting one more. */
    if (info == NULL || info->num_connections + server->threads >= limit_of_each) return false;
    info = MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_LISTEN_FD);
    if (info == NULL || info->listen_fd < 0) return false;
    const int nothing = eventfd(0, EFD_CLOEXEC);
    if (nothing < 0) return false;
    const bool may_stop = !atomic_load(&server->is_out_of_descriptors);
    if (may_stop) (void)dup3(nothing, info->listen_fd, O_CLOEXEC);
    (void)close(nothing);
    return may_stop;
}

/* Waits until a counter is zero; false when the time is over. Tries again to stop listening, because the number of connections
 * only falls. */
static bool wait_for_none(struct server *server, const _Atomic int *count, int64_t longest_ms)
{
    const struct timespec moment = {.tv_nsec = 10 * 1000000L};
    const int64_t end_ms = clock_monotonic_ms() + longest_ms;

    for (;;) {
        for (unsigned i = 0; i < server->daemon_count; i++)
            server->is_deaf[i] = server->is_deaf[i] || stop_listening(server, server->daemons[i]);
        if (atomic_load(count) <= 0) return true;
        if (clock_monotonic_ms() > end_ms) return false;
        (void)nanosleep(&moment, NULL);
    }
}

void server_stop(struct server *server)
{
    const int64_t longest_ms = server->options.shutdown_s * 1000;

    atomic_store(&server->is_draining, true);
    if (!wait_for_none(server, &server->exchanges, longest_ms)) cut_all(server, "requests did not finish in time and are cut");
    /* The server waits for requests that came in before this line, or cuts them. No connection is suspended afterwards:
     * libmicrohttpd ends the program if it finds a suspended connection at its end. */
    atomic_store(&server->is_open, false);
    while (!wait_for_none(server, &server->exchanges, longest_ms)) cut_all(server, "requests are still being worked on");
    while (!wait_for_none(server, &server->suspended, longest_ms))
        continue; /* the last job that resumed one has left libmicrohttpd */
    for (unsigned i = 0; i < server->daemon_count; i++) MHD_stop_daemon(server->daemons[i]);
    server->daemon_count = 0;
    while (!wait_for_none(server, &server->exchanges, longest_ms))
        log_line(LOG_WARNING, "request bodies are still being stored", NULL);
    if (server->options.listen_socket[0] != '\0') (void)unlink(server->options.listen_socket);
    server_free(server);
}
