/*
 * gateway/http/framer_read.h -- puts gateway/http/framer.h between the sockets and libmicrohttpd.
 *
 * libmicrohttpd reads with gnutls_record_recv() and recv() and has no hook between them and itself. The program defines both functions,
 * and the dynamic linker finds these before those of the libraries (docs/decisions/0029). Sessions and sockets without a framer are read
 * as usual.
 */
#pragma once

#include <gnutls/gnutls.h>

#include "gateway/http/framer.h"

/** False: libmicrohttpd would not read through these functions. Then the server must not start. */
bool framer_is_in_place(void);
/** Passes all reads of `session`, or of the socket `fd` if that is NULL, through `framer`. False: there is no room for it. */
bool framer_enter(struct framer *framer, gnutls_session_t session, int fd);
/** Before the descriptor is closed. */
void framer_leave(gnutls_session_t session, int fd);
