/*
 * runner/talk/talk_priv.h -- shared by both sides.
 */
#pragma once

#include <openssl/ssl.h>

#include "runner/talk/talk.h"

struct talk {
    SSL *tls;
    int fd;
    bool has_failed; /* nothing can be sent any more, not even an end */
};

/** Takes the connected socket over in any case, and finishes the handshake within TALK_SILENCE_MS. */
RESULT talk_begin(int fd, SSL_CTX *context, bool is_server, struct talk **talk_out, struct error *err);
/** TLS 1.3 alone, without sessions. NULL: no memory. */
SSL_CTX *talk_context(bool is_server);
/** Of the key of a certificate. */
bool talk_pin(X509 *certificate, char pin_out[TALK_PIN_SIZE]);
