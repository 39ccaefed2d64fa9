/*
 * gateway/http/message.h -- the parts of requests and answers: methods, fields, and bodies from memory or from a source.
 */
#pragma once

#include <stddef.h>

#include "base/bytes.h"
#include "base/result.h"

enum method { METHOD_GET, METHOD_HEAD, METHOD_POST, METHOD_PUT, METHOD_PATCH, METHOD_DELETE, METHOD_COUNT };
#define METHOD_BIT(method) (1U << (method))
/** "GET" and so on. */
const char *method_name(enum method method);
/** Exact, in capital letters (RFC 9110 section 9.1). */
bool method_find(const char *name, enum method *method_out);

/** A header or an argument, as it arrived; both are text without NUL. */
struct field {
    const char *name, *value;
};
#define REQUEST_HEADERS_MAX   100 /* more is 431: real clients send under thirty */
#define REQUEST_ARGUMENTS_MAX 64  /* more is 414: a push may name ten tags, a token request several scopes */

struct fields {
    size_t count;
    struct field *list;
};
/** The next value of a header; the case of the name does not matter. Start with *at = 0. NULL: there is no further one. */
const char *header_next(const struct fields *headers, const char *name, size_t *at);
/** The first value of a header. NULL: absent. */
const char *header_find(const struct fields *headers, const char *name);

/**
 * A body that is produced while it is sent. The event thread reads the parts that need no waiting; workers read all others ahead of
 * the client, through a ring of two blocks.
 * The first block is produced before the status line goes out, so damage there becomes a 500. A later failure aborts the connection,
 * so that the client never takes a part for the whole.
 */
struct response_source {
    void *state;
    uint64_t length; /* known in advance; exactly this many bytes are read */
    /** Fills `length` bytes from `offset` of this answer (not of the object). Called in order, by one thread at a time; once, with
         *  length 0, if the answer is empty. */
    RESULT (*read)(void *state, uint64_t offset, uint8_t *destination, size_t length, struct error *err);
    /** The same without waiting; false: read() must be called. NULL: read() must always be called. */
    bool (*read_cached)(void *state, uint64_t offset, uint8_t *destination, size_t length);
    /** Called exactly once, on a worker, also if nothing was read (HEAD, or the client went away). May be NULL. */
    void (*close)(void *state);
    struct work_pool *senders; /* that read it, and close it; NULL: the server's */
};
#define RESPONSE_BLOCK_SIZE ((size_t)4 * 65520) /* size of each read but the last: four records of SJB1 */

struct response {
    unsigned status;
    struct fields headers;
    struct bytes body;      /* ignored if `source` is set */
    uint64_t unsent_length; /* with 304: the Content-Length that 200 would have (RFC 9110, 8.6) */
    const struct response_source *source;
    bool close_connection; /* the answer is the last one on its connection */
    bool is_broken;        /* memory ran out while the answer was made */
};
