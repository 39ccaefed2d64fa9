/*
 * gateway/http/framer.h -- checks the framing of every request before libmicrohttpd reads it.
 *
 * libmicrohttpd 0.9.75 accepts LF instead of CRLF, chunk extensions of any size and lists of lengths. It answers malformed requests
 * with pages of its own, some of them twice. The framer reads the framing of each request (RFC 9112) in the one way that all readers
 * agree on. A well-formed request passes unchanged; chunk extensions and trailers, which nothing here reads, are left out. At the
 * first byte that is not allowed, the framer refuses the request. Then libmicrohttpd gets the shortest end that completes the
 * request so far, so that it asks our code for the answer. It gets no byte after that. The answer says why and closes the
 * connection.
 */
#pragma once

#include "gateway/http/http_check.h"

#define FRAMER_HELD_MAX      15   /* digits of a chunk's size: less than 2^60 */
#define FRAMER_EXTENSION_MAX 256  /* bytes of the extensions of one chunk */
#define FRAMER_TRAILERS_MAX  4096 /* bytes of all trailers of a request */
#define FRAMER_NAME_MAX      17   /* letters of the longest name that the framer looks for, "Transfer-Encoding" */
#define FRAMER_END_MAX       64   /* held bytes, and the longest end of a refused request */

enum framer_stage {
    FRAMER_START,
    FRAMER_START_LF,
    FRAMER_METHOD,
    FRAMER_TARGET,
    FRAMER_VERSION,
    FRAMER_LINE_LF,
    FRAMER_LINE_START,
    FRAMER_NAME,
    FRAMER_SPACES,
    FRAMER_VALUE,
    FRAMER_HEAD_LF,
    FRAMER_BODY,
    FRAMER_SIZE,
    FRAMER_EXTENSION,
    FRAMER_SIZE_LF,
    FRAMER_CHUNK,
    FRAMER_CHUNK_CR,
    FRAMER_CHUNK_LF,
    FRAMER_TRAILER_START,
    FRAMER_TRAILER_NAME,
    FRAMER_TRAILER_VALUE,
    FRAMER_TRAILER_LF,
    FRAMER_TRAILERS_LF,
    FRAMER_REFUSED,
    FRAMER_STAGES
};

enum framer_field { FRAMER_OTHER, FRAMER_LENGTH, FRAMER_CODING, FRAMER_COOKIE };

struct framer {
    struct http_limits limits;
    enum framer_stage stage;
    uint64_t requests;           /* request heads that have begun */
    struct http_refusal refusal; /* of the newest request; status 0: none */

    size_t count; /* letters read so far of a method, target, version, name, value, extension or trailers */
    size_t header_bytes, headers, arguments, empty_lines;
    char name[FRAMER_NAME_MAX + 1];
    enum framer_field field;
    bool is_old, has_length, is_chunked, is_query; /* is_old: HTTP/1.0 */
    uint64_t left;                                 /* bytes left of the body, or of the chunk */
    char held[FRAMER_HELD_MAX];                    /* digits of a chunk's size, until its line is known to be well-formed */
    size_t held_count;
    uint8_t queued[FRAMER_END_MAX]; /* bytes that libmicrohttpd gets before anything else */
    size_t queued_count;
};

void framer_begin(struct framer *framer, const struct http_limits *limits);
/** Whether bytes are held or queued. Then the next bytes must be passed one by one with framer_pass_one(). */
bool framer_is_holding(const struct framer *framer);
/**
 * Checks `size` bytes at `destination`, and returns how many bytes libmicrohttpd may read there. Bytes without room there are queued:
 * framer_take_queued() gives them. Call it only while nothing is held or queued.
 */
size_t framer_pass(struct framer *framer, uint8_t *destination, size_t size);
/** Checks one byte. Bytes that it releases are queued. Call it only while nothing is queued. */
void framer_pass_one(struct framer *framer, uint8_t byte);
/** Copies queued bytes, at most `room`, and returns how many. */
size_t framer_take_queued(struct framer *framer, uint8_t *destination, size_t room);
