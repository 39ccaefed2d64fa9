/*
 * policy/document.h -- residency policies and exceptions, compiled from signed JSON.
 *
 * Nothing in a document is ignored: an unknown member makes the whole document invalid. Compiled documents are
 * immutable and may be read by any number of threads.
 */
#pragma once

#include "base/json.h"
#include "base/owned.h"

#define POLICY_DOCUMENT_BYTES_MAX (256 * 1024) /* one policy; the largest sample has 6 KiB */
#define POLICY_DEPTH_MAX          12           /* deepest shape is 8 */
#define POLICY_TEXT_MAX           4096         /* bytes of one text */
#define POLICY_LIST_MAX           256          /* members of any list or map in a document */
#define POLICY_COUNT_MAX          64           /* policies in one set */
#define POLICY_EVALUATOR          "sijil-2"    /* in every decision: changed whenever the semantics change */

struct policy_document;
struct policy_exception;
struct policy_documents;

/** Checks and compiles one policy. ERROR_INVALID names the member, ERROR_LIMIT the limit. */
RESULT policy_document_read(struct bytes text, struct policy_document **document_out, struct error *err);
/** As policy_document_read(), for parsed JSON; the document keeps a reference. */
RESULT policy_document_new(json_t *json, struct policy_document **document_out, struct error *err);
/** "health-ae@3" */
const char *policy_document_name(const struct policy_document *document);
/** "sha256:..." of the canonical JSON. */
const char *policy_document_digest(const struct policy_document *document);
void policy_document_free(struct policy_document *document);
DEFINE_OWNED(policy_document);

/**
 * The policies of an evaluation, sorted by name, each document once. Takes an array of JSON documents; one invalid
 * document makes the call fail.
 */
RESULT policy_documents_new(const json_t *array, struct policy_documents **documents_out, struct error *err);
size_t policy_documents_count(const struct policy_documents *documents);
void policy_documents_free(struct policy_documents *documents);
DEFINE_OWNED(policy_documents);

/**
 * Compiles an exception. A malformed exception is no error here: it lifts nothing, and decisions made with it contain
 * a warning. policy_exception_problem() is then the reason; NULL for a well-formed one. ERROR_LIMIT, ERROR_NO_MEMORY.
 */
RESULT policy_exception_new(json_t *json, struct policy_exception **exception_out, struct error *err);
const char *policy_exception_problem(const struct policy_exception *exception);
void policy_exception_free(struct policy_exception *exception);
DEFINE_OWNED(policy_exception);
