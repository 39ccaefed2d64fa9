/*
 * gateway/pipeline/response.h -- an answer: status, headers, and a body from memory or from a source.
 *
 * Answers live in the request's arena, and so must all that they point at. Making one never fails visibly: when the
 * arena is full the request's answer becomes 500 by itself. The pipeline adds X-Request-Id, Sijil-Audit,
 * Docker-Distribution-Api-Version (on /v2) and the security headers; handlers set what is theirs.
 */
#pragma once

#include "base/bytes.h"
#include "base/json.h"
#include "gateway/pipeline/request.h"

#define RESPONSE_HEADERS_MAX 29 /* a pushed index with twelve OCI-Tag values and warnings, and what each answer has */

/** No body. */
void response_empty(struct request *request, unsigned status);
/** 304: what the client has is what 200 would bring, of so many bytes. */
void response_not_modified(struct request *request, uint64_t length);
/** A body that is already in the arena, or constant. `content_type` NULL: none is sent. */
void response_bytes(struct request *request, unsigned status, const char *content_type, struct bytes body);
/** Copies; text/plain; charset=utf-8. */
void response_text(struct request *request, unsigned status, const char *text);
/** Writes `value` (compact, any order of keys); the caller keeps it. application/json. */
void response_json(struct request *request, unsigned status, const json_t *value);
/** The source is copied; its state is not. At most one for each request. */
void response_from_source(struct request *request, unsigned status, const char *content_type,
                          const struct response_source *source);
/** Adds a header to the answer that was made; name and value are copied. A value with a control
 *  character, or one header too many, makes the answer a 500. */
void response_header(struct request *request, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/**
 * Warning: 299 - "..." (specification, "Warnings"): oras, containerd, regctl and `sijil` show it to the user. Added to an
 * answer that was made; one that would be too many, or too long, is left out: no answer fails for it.
 */
void response_warning(struct request *request, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** {"errors":[{"code","message","detail"}]}; `detail` may be NULL, and stays the caller's. */
void response_oci_error(struct request *request, unsigned status, const char *code, const char *message,
                        const json_t *detail);
/** RFC 9457: application/problem+json with type, title, status, detail and the request's id as instance. */
void response_problem(struct request *request, unsigned status, const char *title, const char *detail);
/** The same with the members of `extra` beside them (RFC 9457 section 3.2); it stays the caller's. */
void response_problem_with(struct request *request, unsigned status, const char *title, const char *detail,
                           const json_t *extra);
/** The one on /v2, with `code`, and the other elsewhere, with `title`. */
void response_error(struct request *request, unsigned status, const char *code, const char *title, const char *why);
/** 404, byte for byte the same for what does not exist and for what this caller may not know of. */
void response_unknown(struct request *request);
/** 405, with the methods that the path has (bits of METHOD_BIT) in Allow. */
void response_not_allowed(struct request *request, unsigned methods);
/** For the operator's log: what is ours to mend as an error, with the request's id; a caller's mistake as debug. */
void failure_tell(const struct request *request, const struct error *err);
/**
 * Why it failed, for anybody: where the message of an error quotes PostgreSQL, or names a socket, the part of the service and the kind
 * of error stand instead; the rest is the program's own words.
 */
void failure_words(const struct error *err, char words_out[sizeof err->message]);
/** The answer to a failure, as OCI error on /v2 and as problem elsewhere, by the table in gateway/pipeline/failure.c. */
void response_failure(struct request *request, const struct error *err);
