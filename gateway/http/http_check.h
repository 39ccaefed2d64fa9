/*
 * gateway/http/http_check.h -- what must be true of a request's head before anybody believes any of it.
 *
 * How lines end and bodies are framed was judged on the bytes already (gateway/http/framer.h); this judges what libmicrohttpd made of them. Whatever it refuses
 * is answered with the status that it names and the connection is closed, because where the next request begins is
 * then a matter of opinion (RFC 9112 section 11.2).
 */
#pragma once

#include "gateway/http/message.h"

struct http_head {
    const char *method, *version;
    struct bytes target;       /* as it came, query included */
    struct fields headers;
};

struct http_limits {
    size_t headers, path, query; /* bytes */
};

struct http_refusal {
    unsigned status;
    const char *why; /* constant text */
    bool is_of_path; /* a name in the path has a letter that none has */
};

/** How the body is framed, once the head was found good. */
struct http_framing {
    bool has_body, is_chunked;
    bool expects_continue;
    uint64_t length; /* of a body that is not chunked */
};

/** False: refused. */
bool http_check(const struct http_head *head, const struct http_limits *limits, struct http_framing *framing_out,
                struct http_refusal *refusal_out);
