/*
 * keyd/server.h -- serves the unix socket: a fixed number of threads, each with one connection at a time.
 *
 * Only processes of the given users are heard (SO_PEERCRED). A message must arrive whole, and its reply be taken,
 * within seconds; a silent connection is closed after a while. When others wait for a thread, a silent one gives way at
 * once, and one in the midst of a message within half a second. Neither delays the server's end.
 */
#pragma once

#include <sys/types.h>

#include "keyd/answer.h"

#define SERVER_CONNECTIONS 32 /* four gateways with eight each; memory for all is there from the start */
#define SERVER_UIDS_MAX    16

struct server_options {
    const char *socket_path;
    uid_t uids[SERVER_UIDS_MAX]; /* who may connect */
    size_t uid_count;
    mode_t mode;                 /* of the socket: 0600 or 0660 */
    gid_t group;                 /* of the socket; (gid_t)-1 leaves it */
};

struct server;

/** Makes the threads and their locked memory; they serve nothing yet. `keyd` must outlive the server. */
RESULT server_new(const struct keyd *keyd, const struct server_options *options, struct server **server_out,
                  struct error *err);
/** The socket appears under its name, whole and listening, and replaces a stale one. Call before sandbox_enter(). */
RESULT server_open_socket(struct server *server, struct error *err);
/** Lets the threads accept connections. */
void server_start(struct server *server);
/** To be called several times a second: cuts peers that are slow with a message while others wait for a thread. */
void server_relieve(struct server *server);
/** Ends all connections and waits for the threads. The socket's name stays: the sandbox can't remove it. */
void server_free(struct server *server);
DEFINE_OWNED(server);
