/*
 * gateway/http/server.h -- the HTTP server: libmicrohttpd with TLS 1.3, its limits, and an orderly end.
 *
 * Event threads copy bytes and nothing else; all else runs on the gateway's workers.
 */
#pragma once

#include "gateway/pipeline/gateway.h"

struct server;

/** Listens as the settings say. The gateway's workers must run already, and until server_stop() returned. */
RESULT server_start(struct gateway *gateway, struct server **server_out, struct error *err);
/** Reads certificate, key and client authorities again; on failure the old ones stay. Drops no connection. */
RESULT server_reload(struct server *server, struct error *err);
/** The TCP port that is listened on. */
int server_port(const struct server *server);
/** Accepts nothing more, lets requests finish for up to shutdown_timeout, then cuts them; frees the server. */
void server_stop(struct server *server);
