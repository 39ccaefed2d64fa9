/*
 * gateway/oci/oci_priv.h -- what the handlers of OCI Distribution share: targets, locations, error answers.
 *
 * Errors carry the specification's codes ("Error Codes"); a message never tells more than the caller may know.
 */
#pragma once

#include "gateway/pipeline/gateway.h"
#include "gateway/pipeline/handler.h"
#include "registry/recorder.h"
#include "registry/registry.h"

/** An error answer; always success, so that a handler can return it. */
RESULT oci_refuse(struct request *request, unsigned status, const char *code, const char *message);
/**
 * The answer to a failure of the registry: what is not found has `code`; limits are 429; a digest, a conflict and
 * damage have answers of their own. What is not the caller's business is passed on as the failure that it is.
 */
RESULT oci_fail(struct request *request, const char *code, struct error *err);
/** The same, where a conflict is that something needs what is to be deleted. */
RESULT oci_fail_to_delete(struct request *request, const char *code, struct error *err);

/** One pair for this request's repository: checks the name (400 NAME_INVALID), resolves ids and region. NULL: an answer was
 *  made. */
struct resource *oci_target(struct request *request, enum action action);
/** The resource that was decided on. */
const struct resource *oci_where(const struct request *request);

/** Would these be allowed? They are decided, and nothing is recorded: for what an answer may say. */
bool oci_may(const struct request *request, const struct action_pair *pairs, size_t count);

/** For HEAD (gateway/pipeline/handler.h, `instead`): a client that may push here but not look is told that nothing is there. */
void oci_probe_instead(struct request *request);
/** Was the request taken for such a probe? */
bool oci_is_probe(const struct request *request);

/** A body of any size from the heap; takes `body` over, also when it fails. */
void oci_body(struct request *request, unsigned status, const char *content_type, struct buffer *body);
/** Location, relative to the request (RFC 9110, 10.2.2): right by whatever name and through whatever tunnel a client came. */
void oci_location(struct request *request, const char *kind, const char *reference);
/** Warns whoever comes with a robot's secret that ends in a week. */
void oci_warn_of_expiry(struct request *request);
/** For GET and HEAD. True when If-Match does not name the entity tag (412), or If-None-Match does (304; the object has so many bytes). */
bool oci_is_answered_by_condition(struct request *request, const char *etag, uint64_t size);

/** `n` of a list: false and 400 for anything but a number. Absent: `fallback`; larger than it: cut to `most`. */
bool oci_page_size(struct request *request, unsigned fallback, unsigned most, unsigned *size_out);
/** Link: <...>; rel="next" for a page that ended with `last`. */
void oci_next_page(struct request *request, const char *path, unsigned size, const char *last);

/** Records outcomes of a request's operation. */
struct request_recorder {
    struct recorder recorder;
    struct request *request;
};
void request_recorder_init(struct request_recorder *recorder, struct request *request);
