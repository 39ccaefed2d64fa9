/*
 * gateway/http/framer_read.h -- how gateway/http/framer.h gets to the bytes of a connection.
 *
 * libmicrohttpd reads with gnutls_record_recv() and recv(), and has no place between those and itself. Both are defined here, in
 * the program, where the dynamic linker finds them before those of the libraries (docs/decisions/0029). Sessions and sockets that
 * were not named here are read as if nothing stood between.
 */
#pragma once

#include <gnutls/gnutls.h>

#include "gateway/http/framer.h"

/** False: libmicrohttpd would not read through this. Then nothing may be served. */
bool framer_is_in_place(void);
/** From now on what is read of `session`, or of the socket `fd` where that is NULL, passes `framer`. False: there is no room for it. */
bool framer_enter(struct framer *framer, gnutls_session_t session, int fd);
/** Before the descriptor is closed. */
void framer_leave(gnutls_session_t session, int fd);
