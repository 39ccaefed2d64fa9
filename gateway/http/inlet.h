/*
 * gateway/http/inlet.h -- all bytes of a connection pass here before libmicrohttpd reads them.
 *
 * libmicrohttpd 0.9.75 takes LF for CRLF, chunk extensions of any size and lists of lengths, and answers what it does not take with
 * pages of its own, some of them twice. Here the framing of each request (RFC 9112) is read in the one way that everybody agrees on. What is
 * as it must be passes unchanged; chunk extensions and trailers, which nobody here reads, are left out. At the first byte that may not stand where it stands the
 * request is refused: libmicrohttpd is given the shortest end that makes what it has a whole request, so that our own code is asked for the answer,
 * and nothing of what follows. The answer says why and closes the connection.
 */
#pragma once

#include "gateway/http/http_check.h"

#define INLET_HELD_MAX      15   /* digits of a chunk's size: less than 2^60 */
#define INLET_EXTENSION_MAX 256  /* bytes of the extensions of one chunk */
#define INLET_TRAILERS_MAX  4096 /* bytes of all trailers of a request */
#define INLET_NAME_MAX      17   /* letters of the longest name that matters, "Transfer-Encoding" */
#define INLET_END_MAX       64   /* what is held and the longest end of a request that is refused */

enum inlet_stage {
    INLET_START, INLET_START_LF, INLET_METHOD, INLET_TARGET, INLET_VERSION, INLET_LINE_LF, INLET_LINE_START, INLET_NAME, INLET_BLANKS,
    INLET_VALUE, INLET_HEAD_LF, INLET_BODY, INLET_SIZE, INLET_EXTENSION, INLET_SIZE_LF, INLET_CHUNK, INLET_CHUNK_CR, INLET_CHUNK_LF,
    INLET_TRAILER_START, INLET_TRAILER_NAME, INLET_TRAILER_VALUE, INLET_TRAILER_LF, INLET_TRAILERS_LF, INLET_REFUSED, INLET_STAGES
};

enum inlet_field { INLET_OTHER, INLET_LENGTH, INLET_CODING, INLET_COOKIE };

struct inlet {
    struct http_limits limits;
    enum inlet_stage stage;
    uint64_t requests;           /* heads that have begun */
    struct http_refusal refusal; /* of the last one of them; status 0: none */

    size_t count;                /* letters of what is read: method, target, version, name, value, extension, trailers */
    size_t header_bytes, headers, arguments, empty_lines;
    char name[INLET_NAME_MAX + 1];
    enum inlet_field field;
    bool is_old, has_length, is_chunked, is_query; /* is_old: HTTP/1.0 */
    uint64_t left;               /* of the body, or of the chunk */
    char held[INLET_HELD_MAX];   /* digits of a chunk's size, until its line is found good */
    size_t held_count;
    uint8_t owed[INLET_END_MAX]; /* to be read before anything else */
    size_t owed_count;
};

void inlet_begin(struct inlet *inlet, const struct http_limits *limits);
/** Something is held back or owed: the next bytes must be passed one by one, from elsewhere than where they go. */
bool inlet_is_holding(const struct inlet *inlet);
/**
 * Passes `size` bytes at `place` and answers how many of them are to be read, which stand there then. What has no room there
 * is owed: inlet_pay() has it. Not while something is held back or owed.
 */
size_t inlet_pass(struct inlet *inlet, uint8_t *place, size_t size);
/** Passes one byte; what it sets free is owed. Only when nothing is owed. */
void inlet_pass_one(struct inlet *inlet, uint8_t byte);
/** Gives what is owed, up to `room`. */
size_t inlet_pay(struct inlet *inlet, uint8_t *place, size_t room);
