/*
 * gateway/http/tls.h -- TLS 1.3 only, with credentials that can be replaced while connections live.
 *
 * A session keeps the credentials of its handshake, by reference count. There are no session tickets, because a resumed session would
 * keep an old identity.
 */
#pragma once

#include <microhttpd.h>

#include "base/owned.h"
#include "gateway/http/connection.h"
#include "gateway/http/tls_files.h"

#define TLS_PRIORITIES "NORMAL:-VERS-ALL:+VERS-TLS1.3:%NO_TICKETS"

struct tls;

/** `files` is copied; its texts belong to the caller and must live as long as the result. */
RESULT tls_new(const struct tls_files *files, struct tls **tls_out, struct error *err);
/** Reads all files again. On failure the old credentials stay. */
RESULT tls_reload(struct tls *tls, struct error *err);
/** PEM texts that libmicrohttpd needs at its start. Its pointers are not const. */
char *tls_certificate_pem(struct tls *tls);
char *tls_key_pem(struct tls *tls);
/** Call it before the handshake of a new connection. */
void tls_enter(struct tls *tls, struct connection *connection, struct MHD_Connection *mhd, struct blocks *blocks);
/** Call it after the session ended. */
void tls_leave(struct connection *connection);
/**
 * Verifies the client's certificate, if there is one, by the newest authorities, and sets connection->confirmation. For a runner's
 * certificate it also sets connection->runner. An expired certificate of a runner is no failure: it is compared with the clock at each
 * request.
 */
bool tls_check_client(struct tls *tls, struct connection *connection, struct MHD_Connection *mhd);

void tls_free(struct tls *tls);
DEFINE_OWNED(tls);
