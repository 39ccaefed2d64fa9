/*
 * gateway/oci/oci_priv.h -- the functions that the handlers of OCI Distribution share: targets, locations, error answers.
 *
 * Errors carry the specification's codes ("Error Codes"); a message never tells more than the caller may know.
 */
#pragma once

#include "crypto/digest.h"
#include "gateway/pipeline/gateway.h"
#include "gateway/pipeline/handler.h"
#include "gateway/pipeline/passing.h"
#include "registry/registry.h"

/** An error answer. Always returns success, so that a handler can return the result. */
RESULT oci_refuse(struct request *request, unsigned status, const char *code, const char *message);
/**
 * The answer to a failure of the registry. ERROR_NOT_FOUND gets `code`; limits are 429; a wrong digest, a conflict and damage have
 * separate answers. Other failures do not concern the client, and are passed on unchanged.
 */
RESULT oci_fail(struct request *request, const char *code, struct error *err);
/** The same for deletions: ERROR_CONFLICT means that another object needs the one to be deleted. */
RESULT oci_fail_to_delete(struct request *request, const char *code, struct error *err);

/** Adds a pair for this request's repository: checks the name (400 NAME_INVALID), resolves ids and region. NULL: an answer was
 *  made. */
struct resource *oci_target(struct request *request, enum action action);
/**
 * After oci_target(), for a read of content: if the home region can't be read, the decision is about a further region of the project that has copies, and
 * the log names that one (docs/replication.md).
 */
void oci_read_nearest(struct request *request, struct resource *resource);

#define OCI_COPIES_MAX 9 /* regions of a project: its home, and eight more */
struct oci_copies {
    struct registry *registry;
    size_t count;
    char tried[OCI_COPIES_MAX][REGION_ID_MAX + 1];
};
/** The next region with copies that can be read, other than the resource's own and those before; sets resource->region. False: there is none. */
bool oci_next_copy(struct request *request, struct oci_copies *copies, struct resource *resource);
/** Whether content in this region is read through another gateway: this one can't read there, and knows one that may. */
bool oci_is_passed_on(const struct request *request, const char *region);
/** If it is: decides the request about that region, and records it. False: it is not, or the client may not read there; then nothing has changed. */
bool oci_decide_for(struct request *request, const char *region);
/** Asks the gateway of the region that was decided, and then those of further regions with copies, each decided and recorded. Errors of passing_open(). */
RESULT oci_pass_on(struct request *request, const struct passing_part *part, struct passing **passing_out, struct error *err);
struct stored_manifest;
/** The bytes of a manifest, from there, compared with its digest. If the other gateway refuses it, that is the answer. */
RESULT oci_pass_manifest_on(struct request *request, struct stored_manifest *manifest, struct error *err);
/** The action of a route that reads content: `read`, but run.fetch for the token of a run (gateway/pipeline/run_gate.h). */
enum action oci_reading(const struct request *request, enum action read);
/** After oci_target(), for a run that reads: a second pair, which decides `train` for the place of its runner. */
void oci_add_place(struct request *request);
/** The resource of the decision. */
const struct resource *oci_where(const struct request *request);

/** Whether the pairs would be allowed. Decides without a record: for the text of an answer only. */
bool oci_may(const struct request *request, const struct action_pair *pairs, size_t count);

/** `instead` of HEAD (gateway/pipeline/handler.h): a client that may push here but not read gets 404. */
void oci_probe_instead(struct request *request);
/** Whether `instead` replaced the pair, so that the answer must be "not there". */
bool oci_is_probe(const struct request *request);

/** Location, relative to the request (RFC 9110, 10.2.2), so that it works for each name and tunnel that a client may use. */
void oci_location(struct request *request, const char *kind, const char *reference);
/** Adds a warning if the robot's secret of this request ends within a week. */
void oci_warn_of_expiry(struct request *request);
#define OCI_ETAG_SIZE (DIGEST_TEXT_SIZE + sizeof "\".docker\"")

/** The entity tag of the content with this digest. The same manifest under another media type is another answer, so it has
 *  another `suffix`. */
void oci_etag(const char *digest, const char *suffix, char etag_out[OCI_ETAG_SIZE]);
/** For GET and HEAD. True: an answer was made, because If-Match does not name the entity tag (412) or If-None-Match does (304, with `size`). */
bool oci_is_answered_by_condition(struct request *request, const char *etag, uint64_t size);

/** `n` of a list. Absent: `fallback`; more than `most`: `most`. False: not a number, and the answer is 400. */
bool oci_page_size(struct request *request, unsigned fallback, unsigned most, unsigned *size_out);
/** Link: <...>; rel="next" for a page with `last` at its end. */
void oci_next_page(struct request *request, const char *path, unsigned size, const char *last);
