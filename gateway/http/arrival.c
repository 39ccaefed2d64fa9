/* Connections that come and go: who the client is, and whether there is room for it. */
#include <arpa/inet.h>
#include <string.h>
#include <sys/socket.h>

#include "base/log.h"
#include "gateway/http/framer_read.h"
#include "gateway/http/linger.h"
#include "gateway/http/metrics.h"
#include "gateway/http/server_priv.h"
#include "gateway/http/tls.h"

#define SPARE_MAX 8 /* connections that are left for the unix socket */

static gnutls_session_t session_of(struct MHD_Connection *mhd)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_GNUTLS_SESSION);

    return info == NULL ? NULL : info->tls_session;
}

static bool is_balancer(const struct server *server, const struct sockaddr *address)
{
    struct network network;

    return network_of_socket(address, &network) && networks_hold(&server->options.balancers, &network);
}

static bool has_room(enum network_room room)
{
    if (room == NETWORK_IS_FULL) metric_add(&metrics_http[METRIC_NETWORK_REFUSED], 1);
    if (room == NETWORK_ADDRESS_IS_FULL) metric_add(&metrics_http[METRIC_ADDRESS_REFUSED], 1);
    return room == NETWORK_HAS_ROOM;
}

int64_t server_connections_of_port(const struct http_options *options)
{
    const int64_t most = options->connections_max, spare = most / 16 < SPARE_MAX ? most / 16 : SPARE_MAX;

    return options->listen_socket[0] == '\0' ? most : most - spare;
}

static int64_t most_of_all(const struct server *server, const struct sockaddr *address)
{
    const bool is_port = address != NULL && address->sa_family != AF_UNIX;

    return is_port ? server_connections_of_port(&server->options) : server->options.connections_max;
}

/* Each port has a limit of its own in libmicrohttpd, at which it accepts nothing; this is about all ports together. */
static bool has_room_at_all(const struct server *server, const struct sockaddr *address, int64_t count)
{
    const bool has = count < most_of_all(server, address);

    if (!has) metric_add(&metrics_http[METRIC_ALL_REFUSED], 1);
    return has;
}

bool connection_may_come(const struct server *server, const struct sockaddr *address)
{
    if (!has_room_at_all(server, address, atomic_load(&server->connections))) return false;
    return is_balancer(server, address) || has_room(network_quota_room(server->network_quota, address));
}

/* connection_may_come() may have allowed several threads the same last connection. Those that come too late are counted like the refused ones. */
static bool reserve(struct server *server, struct connection *connection)
{
    return has_room(
        network_quota_enter(server->network_quota, (const struct sockaddr *)&connection->client, &connection->network_ticket));
}

/* ---- The head of a load balancer ---- */

/* No machine elsewhere has a loopback address; who had one would count as a process of this machine. */
static const char *problem_of_client(const struct sockaddr *balancer, const struct sockaddr *client)
{
    struct network from, named;

    if (!network_of_socket(balancer, &from) || !network_of_socket(client, &named)) return "its client has no address";
    const struct network real = network_real(&named);
    if (network_is_loopback(&real) && !network_is_loopback(&from))
        return "its client has an address of the loopback, and the balancer has not";
    return network_is_special(&real) ? "its client has an address that no client has" : NULL;
}

static bool refuse_head(const struct connection *connection, const char *why)
{
    struct network network;
    char address[INET6_ADDRSTRLEN] = "";

    if (network_of_socket((const struct sockaddr *)&connection->client, &network)) network_write_address(&network, address);
    metric_add(&metrics_http[METRIC_HEAD_REFUSED], 1);
    log_line(LOG_WARNING, "a load balancer of proxy_networks sent no PROXY protocol head that can be used", "balancer", address,
             "why", why, NULL);
    return false;
}

/* All of the head is there, or it is wrong. From now on the client is the one that it names. */
static bool head_ended(void *owner)
{
    struct connection *connection = owner;
    struct sockaddr_storage client;
    const char *why = NULL;

    const enum proxy_head_end end = proxy_head_end(&connection->head, &client, &why);
    if (end == PROXY_HEAD_CLIENT) why = problem_of_client((struct sockaddr *)&connection->client, (struct sockaddr *)&client);
    if (why != NULL) return refuse_head(connection, why);
    connection->head.is_wanted = false;
    if (end == PROXY_HEAD_OWN) return true;
    connection->client = client;
    return reserve(connection->server, connection);
}

/* ---- Coming and going ---- */

/* AF_UNSPEC for what is no IP address. */
static void note_client(struct connection *connection, const struct sockaddr *address)
{
    if (address == NULL) return;
    if (address->sa_family == AF_INET) memcpy(&connection->client, address, sizeof(struct sockaddr_in));
    if (address->sa_family == AF_INET6) memcpy(&connection->client, address, sizeof(struct sockaddr_in6));
}

static bool count(struct server *server, struct connection *connection, const struct sockaddr *address)
{
    connection->is_counted = true;
    return has_room_at_all(server, address, atomic_fetch_add(&server->connections, 1));
}

static bool begin(struct server *server, struct MHD_Connection *mhd, struct connection *connection)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    gnutls_session_t session = session_of(mhd);

    if (info == NULL) return false;
    connection->server = server;
    if (!count(server, connection, info->client_addr)) return false;
    note_client(connection, info->client_addr);
    connection->listener = listeners_name_of(&server->options.listeners, connection->fd);
    framer_begin(&connection->framer, &server->options.limits);
    connection->head.is_wanted = session != NULL && is_balancer(server, (const struct sockaddr *)&connection->client);
    if (!connection->head.is_wanted && !reserve(server, connection)) return false;
    if (!framer_enter(&connection->framer, session, connection->fd)) return false;
    tls_enter(server->tls, connection, mhd, server->blocks);
    if (connection->head.is_wanted) transport_await_head(&connection->transport, &connection->head, head_ended);
    return true;
}

static void give_up(struct server *server, struct connection *connection)
{
    network_quota_leave(server->network_quota, &connection->network_ticket);
    if (connection->is_counted) atomic_fetch_sub(&server->connections, 1);
    connection_free(server->watcher, connection);
}

struct connection *connection_arrives(struct server *server, struct MHD_Connection *mhd)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);

    if (info == NULL) return NULL;
    const int fd = info->connect_fd;
    struct connection *connection = connection_new(server->watcher, fd);
    if (connection != NULL && begin(server, mhd, connection)) return connection;
    if (connection != NULL) give_up(server, connection);
    (void)shutdown(fd, SHUT_RDWR); /* the watcher does not know it, so it ends here */
    return NULL;
}

void connection_leave(struct server *server, struct MHD_Connection *mhd, struct connection *connection)
{
    framer_leave(session_of(mhd), connection->fd);
    tls_leave(connection);
    if (connection->must_linger) lingerer_take(server->lingerer, connection->fd);
    give_up(server, connection);
}
