/*
 * client/trace.h -- what --verbose shows of one exchange: two lines, and no secret.
 *
 * Never shown: headers, bodies, queries, and an upload's Location (whoever has it can write into that upload). What the
 * registry says is shown with control letters as '?'.
 */
#pragma once

#include "client/http.h"

struct trace {
    const char *origin;              /* "https://host:port" */
    const struct http_request *request;
    const struct http_response *response; /* status 0: no complete answer came */
    uint64_t sent_bytes, received_bytes;  /* of bodies */
    int64_t duration_ms;
};

/** Appends the two lines, each with its end. */
RESULT trace_write(const struct trace *trace, struct buffer *text, struct error *err);
