/*
 * runner/talk/talk_priv.h -- shared by both sides.
 */
#pragma once

#include "crypto/tls.h"
#include "runner/talk/talk.h"

#define TALK_HANDS_MS 5000 /* for the handshake */

struct talk {
    struct tls *tls;
};

/** Takes it over in any case. */
RESULT talk_new(struct tls *tls, struct talk **talk_out, struct error *err);
