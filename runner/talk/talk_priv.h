/*
 * runner/talk/talk_priv.h -- shared by both sides.
 */
#pragma once

#include "crypto/tls.h"
#include "runner/talk/talk.h"

#define TALK_HEAD_SIZE 5

struct talk {
    struct tls *tls;
};

/** The kind and the length of a message. False: it is none. */
bool talk_head_read(const uint8_t head[TALK_HEAD_SIZE], enum talk_kind *kind_out, size_t *length_out);
/** Takes it over in any case. */
RESULT talk_new(struct tls *tls, struct talk **talk_out, struct error *err);
