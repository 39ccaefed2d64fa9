#include "gateway/pipeline/serve.h"

#include <string.h>

#include "gateway/pipeline/callbacks_priv.h"
#include "gateway/pipeline/exchange_priv.h"
#include "policy/decider/decider.h"

#define PEER_CONNECTIONS_MAX 64 /* of all other gateways */

static struct http_limits limits_of(const struct settings *settings)
{
    return (struct http_limits){.headers = (size_t)settings->header_size_max,
                                .path = (size_t)settings->path_size_max,
                                .query = (size_t)settings->query_size_max};
}

static struct tls_files tls_of(const struct gateway *gateway)
{
    const struct settings *settings = gateway->settings;
    struct tls_files files = {.certificate = settings->tls_certificate,
                              .key = settings->tls_key,
                              .client_ca = settings->tls_client_ca,
                              .takes_any = settings->tls_client_any};

    memcpy(files.runner_authority, gateway->runner_authority, sizeof files.runner_authority);
    return files;
}

struct http_options serve_options(const struct gateway *gateway)
{
    const struct settings *settings = gateway->settings;

    return (struct http_options){
        .readers = gateway->readers,
        .receivers = gateway->receivers,
        .senders = gateway->senders,
        .queue_max = (unsigned)settings->queue_max,
        .queue_timeout_ms = settings->queue_timeout,
        .leases = {.time_ms = settings->lease_time * 1000, .size = settings->lease_size},
        .idle_s = settings->idle_timeout,
        .handshake_s = settings->handshake_timeout,
        .head_s = settings->header_timeout,
        .shutdown_s = settings->shutdown_timeout,
        .rate_window_s = settings->rate_window,
        .rate_minimum = settings->rate_minimum,
        .rate_minimum_busy = settings->rate_minimum_busy,
    };
}

int64_t serve_peer_connections(const struct settings *settings)
{
    const int64_t share = settings->connections_max / 4;

    if (settings->peer_listen_port == 0) return 0;
    return share > PEER_CONNECTIONS_MAX ? PEER_CONNECTIONS_MAX : share;
}

static bool asks_authorities(void *context)
{
    const struct gateway *gateway = context;

    return decider_places_authorities(gateway->decider);
}

static struct http_options options_of(struct gateway *gateway)
{
    const struct settings *settings = gateway->settings;
    struct http_options options = serve_options(gateway);

    options.callbacks = &pipeline_callbacks;
    options.context = gateway;
    options.asks_authorities = asks_authorities;
    options.listen_address = settings->listen_address;
    options.listen_port = (int)settings->listen_port;
    options.listen_socket = settings->listen_socket;
    options.tls = tls_of(gateway);
    options.event_threads = (unsigned)settings->event_threads;
    options.first_reads_max = (int)settings->reader_threads / 2;
    options.limits = limits_of(settings);
    options.connections_max = settings->connections_max - serve_peer_connections(settings);
    options.connections_per_address = settings->connections_per_address;
    options.connections_per_network = settings->connections_per_network;
    options.drain_size_max = settings->drain_size_max;
    options.streams_many = settings->streams_max / 2;
    options.streams = &gateway->streams;
    return options;
}

const struct http_callbacks *serve_passed(void)
{
    return &pipeline_callbacks_passed;
}

struct result serve_start(struct gateway *gateway, struct server **server_out, struct error *err)
{
    struct http_options options = options_of(gateway);

    TRY(networks_parse("proxy_networks", gateway->settings->proxy_networks, &options.balancers, err));
    TRY(listeners_parse(gateway->settings->listeners, options.listen_port, &options.listeners, err));
    TRY(pauser_start(&gateway->pauser, err));
    const struct result result = server_start(&options, server_out, err);
    if (!result.ok) pauser_stop(GIVE(gateway->pauser));
    return result;
}

void serve_stop(struct gateway *gateway, struct server *server)
{
    pauser_close(gateway->pauser);
    server_stop(server);
    pauser_stop(GIVE(gateway->pauser));
}
