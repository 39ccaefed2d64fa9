/*
 * client/commands/log_document_priv.h -- documents about the log as people write them: one JSON object (docs/delivery.md).
 */
#pragma once

#include <jansson.h>

#include "client/commands/documents.h"

/** One kind of such documents. */
struct log_document_kind {
    enum document_kind kind;
    const char *what;    /* "sink" */
    const char *members; /* of a file, each with a blank before and after it */
};
extern const struct log_document_kind log_document_sink, log_document_detection, log_document_groups, log_document_role,
    log_document_persons, log_document_scim, log_document_officers;

/** A document from a file: its body, without the head of a document. */
struct log_document {
    const char *name, *not_after; /* views into `json`; not_after NULL: in a year */
    json_t *body, *json;
};
/** Reads a file, or the answer of `show --json`. ERROR_INVALID, ERROR_LIMIT. */
RESULT log_document_parse(const struct log_document_kind *kind, struct bytes text, struct log_document *document_out,
                          struct error *err);
/** Appends the payload of version `version`, which begins now. */
RESULT log_document_compose(const struct log_document_kind *kind, const struct log_document *document, uint64_t version,
                            struct buffer *payload, struct error *err);
void log_document_done(struct log_document *document);
#define OWNED_LOG_DOCUMENT __attribute__((cleanup(log_document_done))) struct log_document

/** A kind, and where the registry has it. */
struct log_document_place {
    const struct log_document_kind *of;
    struct documents_list list;
};
/* The commands of a kind, with the operands HOST, and FILE or NAME; they print what the registry then has. */
RESULT log_document_draft(struct invocation *invocation, const struct log_document_place *kind, struct error *err);
RESULT log_document_approve(struct invocation *invocation, const struct log_document_place *kind, struct error *err);
RESULT log_document_revoke(struct invocation *invocation, const struct log_document_place *kind, struct error *err);
RESULT log_document_show(struct invocation *invocation, const struct log_document_place *kind, struct error *err);
/** Appends the path of a document with `tail` behind it. */
RESULT log_document_path(const struct log_document_place *kind, const char *name, const char *tail, struct buffer *path,
                         struct error *err);
