/*
 * gateway/http/tls.h -- TLS 1.3 and nothing else; credentials that can be exchanged while connections live.
 *
 * A session keeps the credentials that its handshake began with, by reference count. There are no session tickets: a
 * resumed session would carry an old identity.
 */
#pragma once

#include <microhttpd.h>

#include "base/owned.h"
#include "gateway/http/connection.h"
#include "gateway/http/tls_files.h"

#define TLS_PRIORITIES "NORMAL:-VERS-ALL:+VERS-TLS1.3:%NO_TICKETS"

struct tls;

/** `files` is copied; its texts stay the caller's, for as long as this lives. */
RESULT tls_new(const struct tls_files *files, struct tls **tls_out, struct error *err);
/** Reads all files again; on failure the old credentials stay. */
RESULT tls_reload(struct tls *tls, struct error *err);
/** PEM texts for libmicrohttpd, which wants some of its own at the start, and not const. */
char *tls_certificate_pem(struct tls *tls);
char *tls_key_pem(struct tls *tls);
/** Before the handshake of a new connection. */
void tls_enter(struct tls *tls, struct connection *connection, struct MHD_Connection *mhd, struct blocks *blocks);
/** Once its session is gone. */
void tls_leave(struct connection *connection);
/** Judges the client's certificate, if it gave one, by the newest authorities; sets connection->confirmation. */
bool tls_check_client(struct tls *tls, struct connection *connection, struct MHD_Connection *mhd);

void tls_free(struct tls *tls);
DEFINE_OWNED(tls);
