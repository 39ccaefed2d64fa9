/*
 * client/commands/documents.h -- what `sijil key`, `sijil runner` and `sijil ci rule` have in common: signed documents, their lists and their drafts.
 */
#pragma once

#include <jansson.h>

#include "client/commands/command.h"
#include "client/session.h"
#include "documents/format/document.h"

#define DOCUMENTS_ENVELOPE_ROOM DOCUMENT_ENVELOPE_MAX((size_t)16 * 1024) /* the largest kind that people sign here */

/** The value of --scope; "" without it: the registry. */
const char *documents_scope(const struct invocation *invocation);
/** Signs a payload: an envelope for a request. */
RESULT documents_sign(enum document_kind kind, struct bytes payload, const struct ecdsa_key *key, json_t **envelope_out,
                      struct error *err);
/** Documents of one kind, as the registry lists them. */
struct documents_list {
    const char *base;  /* the path below /api/v1: "/keys/signing" */
    const char *name;  /* the member of the answer: "keys" */
    const char *what;  /* one of them, in messages: "key" */
    bool has_no_scope; /* all of them are of the registry */
};
/** Appends the drafts and the documents of all pages to `rows`. */
RESULT documents_get_all(const struct invocation *invocation, struct session *session, const struct documents_list *list,
                         json_t *rows, struct error *err);
/** The row of the document that the second operand names: a draft if `is_draft`, else an enrolled one. The caller owns *row_out. */
RESULT documents_choose(const struct invocation *invocation, struct session *session, const struct documents_list *list,
                        bool is_draft, json_t **row_out, struct error *err);
/** The document, or else the draft, that the command line names. */
RESULT documents_find(struct invocation *invocation, const struct documents_list *list, json_t **answer_out, struct error *err);
/** Appends the path of the document that the second operand names, with --scope. `base`: as in a list. */
RESULT documents_path(const struct invocation *invocation, const char *base, const char *tail, struct buffer *path,
                      struct error *err);
/** Appends the path of a document; without "?scope=" if `scope` is NULL. */
RESULT documents_path_of(const char *base, const char *name, const char *tail, const char *scope, struct buffer *path,
                         struct error *err);
/** The number of the newest recorded version of the document; 0 if there is none. */
RESULT documents_newest_version(struct session *session, const struct documents_list *list, const char *name, const char *scope,
                                int64_t *version_out, struct error *err);
/** The body of an approval: what the draft's `envelopes` have, and a signature over the document that was read from them. */
RESULT documents_sign_too(const json_t *draft, const struct document *document, const struct ecdsa_key *key, json_t **body_out,
                          struct error *err);
/**
 * Shows a member of what is about to be signed, on standard error, because the answer goes to standard output. All of it, however long: what is cut would be
 * signed unseen. Characters that steer a terminal are replaced.
 */
RESULT documents_show_member(const char *name, const json_t *value, struct error *err);
/** Prints the registry's description of a runner. */
RESULT runner_print(const struct invocation *invocation, const json_t *answer, struct error *err);
/** Sends DELETE to that path. */
RESULT documents_end(struct invocation *invocation, const char *base, const char *tail, struct error *err);
