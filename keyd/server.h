/*
 * keyd/server.h -- serves the unix socket: a fixed number of threads, each with one connection at a time.
 *
 * Only processes of the given users are accepted (SO_PEERCRED). A message must arrive whole, and the peer must take
 * the reply, within seconds. An idle connection is closed after five minutes. While other connections wait for a thread, an
 * idle one is closed at once, and one in the middle of a message within half a second. Neither delays the end of the server.
 */
#pragma once

#include <sys/types.h>

#include "keyd/answer.h"

#define SERVER_CONNECTIONS 32 /* four gateways with eight each; their memory is allocated at the start */
#define SERVER_UIDS_MAX    16

struct server_options {
    const char *socket_path;
    uid_t uids[SERVER_UIDS_MAX]; /* users that may connect */
    size_t uid_count;
    mode_t mode; /* of the socket: 0600 or 0660 */
    gid_t group; /* of the socket; (gid_t)-1: unchanged */
};

struct server;

/** Makes the threads and their locked memory; they do not serve yet. `keyd` must outlive the server. */
RESULT server_new(const struct keyd *keyd, const struct server_options *options, struct server **server_out, struct error *err);
/** Creates the socket, listening, under its final name, and replaces a stale one. Call it before sandbox_enter(). */
RESULT server_open_socket(struct server *server, struct error *err);
/** Lets the threads accept connections. */
void server_start(struct server *server);
/** Call it several times a second: ends connections that are slow with a message while others wait for a thread. */
void server_relieve(struct server *server);
/** Ends all connections and waits for the threads. The socket's name stays, because the sandbox can't remove it. */
void server_free(struct server *server);
DEFINE_OWNED(server);
