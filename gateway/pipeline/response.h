/*
 * gateway/pipeline/response.h -- an answer: status, headers, and a body from memory or from a source.
 *
 * An answer lives in the request's arena, and so must everything that it points at. The functions never fail: if the arena is full, the
 * answer becomes a 500. The pipeline adds X-Request-Id, Sijil-Audit, Docker-Distribution-Api-Version (on /v2) and the security headers;
 * handlers set the other headers.
 */
#pragma once

#include "base/bytes.h"
#include "base/json.h"
#include "gateway/pipeline/request.h"

#define RESPONSE_HEADERS_MAX 29 /* a pushed index has twelve OCI-Tag values and warnings, beside the headers of every answer */

/** No body. */
void response_empty(struct request *request, unsigned status);
/** 304: the client has the current content; `length` is the Content-Length of the 200. */
void response_not_modified(struct request *request, uint64_t length);
/** A body in the arena, or constant. `content_type` NULL: no Content-Type. */
void response_bytes(struct request *request, unsigned status, const char *content_type, struct bytes body);
/** Copies `text`; text/plain; charset=utf-8. */
void response_text(struct request *request, unsigned status, const char *text);
/** Writes `value` (compact, any order of keys) as application/json; the caller keeps the value. */
void response_json(struct request *request, unsigned status, const json_t *value);
/** The source is copied; its state is not. At most one for each request. */
void response_from_source(struct request *request, unsigned status, const char *content_type,
                          const struct response_source *source);
/**
 * A body of any size on the heap; takes over `body`, also on failure. `count`: one is taken from it when the body is not needed any more, here or at the end of the
 * answer, so a caller can bound how many are on their way; NULL: nothing counts them.
 */
void response_buffer(struct request *request, unsigned status, const char *content_type, struct buffer *body, _Atomic int *count);
/** Adds a header to the answer; name and value are copied. A value with a control character, or one header too many, makes the answer
 *  a 500. */
void response_header(struct request *request, const char *name, const char *format, ...) __attribute__((format(printf, 3, 4)));

/**
 * Warning: 299 - "..." (specification, "Warnings"): oras, containerd, regctl and `sijil` show it to the user. Added to the answer; a
 * warning that is too long, or one too many, is left out: no answer fails because of a warning.
 */
void response_warning(struct request *request, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** {"errors":[{"code","message","detail"}]}; `detail` may be NULL, and belongs to the caller. */
void response_oci_error(struct request *request, unsigned status, const char *code, const char *message, const json_t *detail);
/** RFC 9457: application/problem+json with type, title, status, detail and the request's id as instance. */
void response_problem(struct request *request, unsigned status, const char *title, const char *detail);
/** The same with the members of `extra` (RFC 9457 section 3.2), which belongs to the caller. It may have a `type` of its own. */
void response_problem_with(struct request *request, unsigned status, const char *title, const char *detail, const json_t *extra);
/** An OCI error with `code` on /v2, a problem with `title` elsewhere. */
void response_error(struct request *request, unsigned status, const char *code, const char *title, const char *why);
/** 404, byte for byte the same for things that do not exist and for things that the caller may not know of. */
void response_unknown(struct request *request);
/** 405, with the methods that the path has (bits of METHOD_BIT) in Allow. */
void response_not_allowed(struct request *request, unsigned methods);
/** Logs a failure for the operator: as an error with the request's id if the service failed, as debug if the caller made a mistake. */
void failure_log(const struct request *request, const struct error *err);
/**
 * Writes the reason of a failure for any reader. If the message quotes PostgreSQL or names a socket, the part of the service and the kind
 * of error replace that; the rest are the program's own words.
 */
void failure_words(const struct error *err, char words_out[sizeof err->message]);
/** The status of the answer to a failure, and its detail. */
unsigned failure_status(const struct error *err, char words_out[sizeof err->message]);
/** Makes the answer to a failure, an OCI error on /v2 and a problem elsewhere, by the table in gateway/pipeline/failure.c. */
void response_failure(struct request *request, const struct error *err);
