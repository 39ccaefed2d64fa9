/*
 * gateway/http/http_check.h -- checks the head of a request before anything else reads it.
 *
 * The framer (gateway/http/framer.h) has checked line ends and framing on the bytes; this checks the head that libmicrohttpd parsed
 * from them. A refused request gets the status named here, and its connection is closed: after a malformed head it is not certain where
 * the next request begins (RFC 9112 section 11.2).
 */
#pragma once

#include "gateway/http/message.h"

struct http_head {
    const char *method, *version;
    struct bytes target; /* as it arrived, with the query */
    struct fields headers;
};

struct http_limits {
    size_t headers, path, query; /* bytes */
};

struct http_refusal {
    unsigned status;
    const char *why; /* constant text */
    bool is_of_path; /* a name in the path has a letter that no name may have */
};

/** The framing of the body; only for a well-formed head. */
struct http_framing {
    bool has_body, is_chunked;
    bool expects_continue;
    uint64_t length; /* of a body that is not chunked */
};

/** False: refused. */
bool http_check(const struct http_head *head, const struct http_limits *limits, struct http_framing *framing_out,
                struct http_refusal *refusal_out);
