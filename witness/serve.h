/*
 * witness/serve.h -- a witness over HTTPS: POST /add-checkpoint, GET /HEX/checkpoint, GET /metrics for this machine, GET /healthz.
 *
 * The server is that of the gateway (gateway/http); its limits are constants here, because nobody but logs and monitors asks.
 */
#pragma once

#include "witness/answer.h"

struct witness_server;

/** The texts belong to the caller and must live as long as the server. */
struct witness_options {
    const char *address;           /* in figures */
    int port;                      /* 0: any */
    const char *certificate, *key; /* PEM files */
    const char *socket;            /* "": none; plain HTTP for a proxy on this machine */
};

/** Listens. `witness` must outlive the server. */
RESULT witness_serve(const struct witness *witness, const struct witness_options *options, struct witness_server **server_out,
                     struct error *err);
int witness_server_port(const struct witness_server *server);
/** Reads certificate and key again. On failure the old ones stay. */
RESULT witness_server_reload(struct witness_server *server, struct error *err);
/** Lets requests finish, and frees the server. */
void witness_server_stop(struct witness_server *server);
