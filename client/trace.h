/*
 * client/trace.h -- the two lines of --verbose for one exchange, without secrets.
 *
 * Never shown: headers, bodies, queries, and an upload's Location, because any holder of it can write into that upload. In text of the
 * registry, control characters become '?'.
 */
#pragma once

#include "client/http.h"

struct trace {
    const char *origin; /* "https://host:port" */
    const struct http_request *request;
    const struct http_response *response; /* status 0: no complete answer arrived */
    uint64_t sent_bytes, received_bytes;  /* of bodies */
    int64_t duration_ms;
};

/** Appends the two lines with their line ends. */
RESULT trace_write(const struct trace *trace, struct buffer *text, struct error *err);
