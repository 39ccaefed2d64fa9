/*
 * runner/talk/talk_priv.h -- shared by both sides.
 */
#pragma once

#include <sys/socket.h>

#include "crypto/tls.h"
#include "runner/talk/talk.h"

#define TALK_HANDS_MS 5000 /* for the handshake */

struct talk {
    struct tls *tls;
};

/** Takes it over in any case. */
RESULT talk_new(struct tls *tls, struct talk **talk_out, struct error *err);
/** False: the text is no IP address. */
bool talk_fill_address(struct sockaddr_storage *address, socklen_t *size, const char *text, unsigned port);
/** Of a connected socket. */
void talk_watch_peer(int fd);
