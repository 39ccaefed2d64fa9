/*
 * gateway/http/range.h -- Range and Content-Range, parsed strictly.
 */
#pragma once

#include "gateway/http/message.h"

enum range_kind {
    RANGE_WHOLE,        /* no range, or a range that may be ignored (RFC 9110 section 14.2): plain 200 */
    RANGE_PART,         /* 206 */
    RANGE_UNSATISFIABLE /* 416 with Content-Range: bytes * / size; also for a last before the first, as other servers do */
};

struct range {
    uint64_t first, last; /* both included, last < size */
};

/** RFC 9110 section 14.1.2. Several ranges, other units and malformed ones are RANGE_WHOLE. `value` may be NULL. */
enum range_kind range_read(const char *value, uint64_t size, struct range *range_out);
/** The same for a request, with If-Range (RFC 9110 section 13.1.5) against a strong `etag` with its quotes. */
enum range_kind range_of_request(enum method method, const struct fields *headers, uint64_t size, const char *etag,
                                 struct range *range_out);

/**
 * "0-1023", the form of OCI uploads, or "bytes 0-1023/2048" and "bytes 0-1023/ *" (without the space), the form of RFC 9110 section
 * 14.4. False for other text, and for a last before the first.
 */
bool content_range_read(const char *value, struct range *range_out);
