/* gateway/pipeline/serve.h -- starts and stops the server with the pipeline's callbacks. */
#pragma once

#include "gateway/http/server.h"
#include "gateway/pipeline/gateway.h"

/** What each server of the gateway has alike: its workers, and the times and rates of the settings. The rest is empty. */
struct http_options serve_options(const struct gateway *gateway);
/** How many of connections_max gateways of other regions have for themselves: 0 without a port for them. */
int64_t serve_peer_connections(const struct settings *settings);
/** The callbacks of a request that a gateway of another region passes on (gateway/pipeline/passing.h); their context is the gateway. */
const struct http_callbacks *serve_passed(void);
/** Listens as the settings say. The gateway's workers must run from now until serve_stop() has returned. */
RESULT serve_start(struct gateway *gateway, struct server **server_out, struct error *err);
/** Accepts no further connection, lets requests finish for up to shutdown_timeout, then cuts them. */
void serve_stop(struct gateway *gateway, struct server *server);
