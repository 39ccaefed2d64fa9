/*
 * gateway/http/message.h -- what requests and answers consist of: methods, fields, and bodies from memory or from a source.
 */
#pragma once

#include <stddef.h>

#include "base/bytes.h"
#include "base/result.h"

enum method { METHOD_GET, METHOD_HEAD, METHOD_POST, METHOD_PUT, METHOD_PATCH, METHOD_DELETE, METHOD_COUNT };
#define METHOD_BIT(method) (1U << (method))
/** "GET" and so on. */
const char *method_name(enum method method);
/** Exact, in capitals (RFC 9110 section 9.1). */
bool method_find(const char *name, enum method *method_out);

/** A header or an argument, as it came; both are text without NUL. */
struct field {
    const char *name, *value;
};
#define REQUEST_HEADERS_MAX   100 /* more is 431: real clients send under thirty */
#define REQUEST_ARGUMENTS_MAX 64  /* more is 414: a push may name ten tags, a token request several scopes */

struct fields {
    size_t count;
    struct field *list;
};
/** The next value of a header, whose name is in any case; start with *at = 0. NULL when there is none left. */
const char *header_next(const struct fields *headers, const char *name, size_t *at);
/** The first one. NULL if absent. */
const char *header_find(const struct fields *headers, const char *name);

/**
 * Bytes that are produced while they are sent: by the event thread what needs no waiting, else by workers, ahead of
 * the client, through a ring of two blocks.
 * The first block is produced before the status line goes out, so that damage there is a 500; a failure later aborts
 * the connection, so that the client never takes a part for the whole.
 */
struct response_source {
    void *state;
    uint64_t length;           /* known before; exactly so many bytes are read */
    /** Fills `length` bytes from `offset` of this answer (not of the object); called in order, by one thread at a time; once, for
     *  none, where the answer is empty. */
    RESULT (*read)(void *state, uint64_t offset, uint8_t *place, size_t length, struct error *err);
    /** The same if it needs no waiting; false: read() has to. May be NULL: it always has to. */
    bool (*read_at_once)(void *state, uint64_t offset, uint8_t *place, size_t length);
    /** Called exactly once, on a worker, also when nothing was read (HEAD, or the client went away). May be NULL. */
    void (*close)(void *state);
};
#define RESPONSE_BLOCK_SIZE ((size_t)4 * 65520) /* a read asks for so much, but for the last one: four records of SJB1 */

struct response {
    unsigned status;
    struct fields headers;
    struct bytes body;                     /* ignored if `source` is set */
    uint64_t unsent_length;                /* of 304: the Content-Length that 200 would have (RFC 9110, 8.6) */
    const struct response_source *source;
    bool close_connection;                 /* the answer is the last one on its connection */
    bool is_broken;                        /* memory ran out while it was made */
};
