/*
 * gateway/http/framer.h -- all bytes of a connection pass here before libmicrohttpd reads them.
 *
 * libmicrohttpd 0.9.75 takes LF for CRLF, chunk extensions of any size and lists of lengths, and answers what it does not take with
 * pages of its own, some of them twice. Here the framing of each request (RFC 9112) is read in the one way that everybody agrees on. What is
 * as it must be passes unchanged; chunk extensions and trailers, which nobody here reads, are left out. At the first byte that may not stand where it stands the
 * request is refused: libmicrohttpd is given the shortest end that makes what it has a whole request, so that our own code is asked for the answer,
 * and nothing of what follows. The answer says why and closes the connection.
 */
#pragma once

#include "gateway/http/http_check.h"

#define FRAMER_HELD_MAX      15   /* digits of a chunk's size: less than 2^60 */
#define FRAMER_EXTENSION_MAX 256  /* bytes of the extensions of one chunk */
#define FRAMER_TRAILERS_MAX  4096 /* bytes of all trailers of a request */
#define FRAMER_NAME_MAX      17   /* letters of the longest name that matters, "Transfer-Encoding" */
#define FRAMER_END_MAX       64   /* what is held and the longest end of a request that is refused */

enum framer_stage {
    FRAMER_START, FRAMER_START_LF, FRAMER_METHOD, FRAMER_TARGET, FRAMER_VERSION, FRAMER_LINE_LF, FRAMER_LINE_START, FRAMER_NAME, FRAMER_BLANKS,
    FRAMER_VALUE, FRAMER_HEAD_LF, FRAMER_BODY, FRAMER_SIZE, FRAMER_EXTENSION, FRAMER_SIZE_LF, FRAMER_CHUNK, FRAMER_CHUNK_CR, FRAMER_CHUNK_LF,
    FRAMER_TRAILER_START, FRAMER_TRAILER_NAME, FRAMER_TRAILER_VALUE, FRAMER_TRAILER_LF, FRAMER_TRAILERS_LF, FRAMER_REFUSED, FRAMER_STAGES
};

enum framer_field { FRAMER_OTHER, FRAMER_LENGTH, FRAMER_CODING, FRAMER_COOKIE };

struct framer {
    struct http_limits limits;
    enum framer_stage stage;
    uint64_t requests;           /* heads that have begun */
    struct http_refusal refusal; /* of the last one of them; status 0: none */

    size_t count;                /* letters of what is read: method, target, version, name, value, extension, trailers */
    size_t header_bytes, headers, arguments, empty_lines;
    char name[FRAMER_NAME_MAX + 1];
    enum framer_field field;
    bool is_old, has_length, is_chunked, is_query; /* is_old: HTTP/1.0 */
    uint64_t left;               /* of the body, or of the chunk */
    char held[FRAMER_HELD_MAX];   /* digits of a chunk's size, until its line is found good */
    size_t held_count;
    uint8_t owed[FRAMER_END_MAX]; /* to be read before anything else */
    size_t owed_count;
};

void framer_begin(struct framer *framer, const struct http_limits *limits);
/** Something is held back or owed: the next bytes must be passed one by one, from elsewhere than where they go. */
bool framer_is_holding(const struct framer *framer);
/**
 * Passes `size` bytes at `place` and answers how many of them are to be read, which stand there then. What has no room there
 * is owed: framer_pay() has it. Not while something is held back or owed.
 */
size_t framer_pass(struct framer *framer, uint8_t *place, size_t size);
/** Passes one byte; what it sets free is owed. Only when nothing is owed. */
void framer_pass_one(struct framer *framer, uint8_t byte);
/** Gives what is owed, up to `room`. */
size_t framer_pay(struct framer *framer, uint8_t *place, size_t room);
