/* gateway/pipeline/serve.h -- the server with the pipeline above it. */
#pragma once

#include "gateway/http/server.h"
#include "gateway/pipeline/gateway.h"

/** Listens as the settings say. The gateway's workers must run already, and until serve_stop() returned. */
RESULT serve_start(struct gateway *gateway, struct server **server_out, struct error *err);
/** Accepts nothing more, lets requests finish for up to shutdown_timeout, then cuts them. */
void serve_stop(struct gateway *gateway, struct server *server);
