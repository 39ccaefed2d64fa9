/*
 * gateway/http/framer_priv.h -- what the parts of the framer share: the head, the chunks, and the end of a request that is refused.
 */
#pragma once

#include <string.h>

#include "gateway/http/framer.h"

#define FRAMER_VERSION_TEXT "HTTP/1.1"

/** Bytes to be read before anything else; what exceeds the room is cut off. */
void framer_queue(struct framer *framer, const char *text, size_t length);
/** Queues for libmicrohttpd the shortest end that makes a whole request of what has passed. */
void framer_refuse(struct framer *framer, unsigned status, const char *why);
void framer_expect_lf(struct framer *framer, uint8_t byte, enum framer_stage next);

static inline void framer_enter(struct framer *framer, enum framer_stage stage)
{
    framer->stage = stage;
    framer->count = 0;
}

/* RFC 9110 section 5.6.2. */
static inline bool framer_is_token_letter(uint8_t byte)
{
    return byte > ' ' && byte < 0x7f && strchr("\"(),/:;<=>?@[\\]{}", byte) == NULL;
}

/* Printable ASCII and tabs: other bytes have no meaning that two readers share (RFC 9110 section 5.5). */
static inline bool framer_is_value_letter(uint8_t byte)
{
    return (byte >= ' ' && byte < 0x7f) || byte == '\t';
}

/* Steps of a chunked body: each takes one byte at its stage (RFC 9112 section 7.1). */
void framer_take_size(struct framer *framer, uint8_t byte);
void framer_take_extension(struct framer *framer, uint8_t byte);
void framer_end_size(struct framer *framer, uint8_t byte);
void framer_begin_chunk_end(struct framer *framer, uint8_t byte);
void framer_end_chunk(struct framer *framer, uint8_t byte);
void framer_take_trailer(struct framer *framer, uint8_t byte);
void framer_end_trailer(struct framer *framer, uint8_t byte);
void framer_end_trailers(struct framer *framer, uint8_t byte);
