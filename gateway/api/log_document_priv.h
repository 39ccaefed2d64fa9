/*
 * gateway/api/log_document_priv.h -- what the routes of sinks have in common with those of other documents of the registry, about the log, groups and persons: drafts,
 * approvals, withdrawals and lists (docs/delivery.md).
 */
#pragma once

#include "gateway/api/document_priv.h"

/** One kind, and the actions of its routes. */
struct log_documents {
    enum document_kind kind;
    enum action draft, approve, revoke, reject, read;
    const char *list; /* the member of the answer of a list: "sinks" */
    const char *what; /* "sink", in messages */
    unsigned most;    /* documents in force at a time; 0: any number */
    bool gives_roles; /* the rights are read again before the next decision */
    bool grants;      /* it gives roles itself: the configuration bounds its life */
    /** Whether who sends it could also take it back; NULL: yes. */
    RESULT (*check_request)(const struct request *request, const struct document *document, struct error *err);
    /** Whether who sends a withdrawal that the root has not signed may withdraw; NULL: yes. */
    RESULT (*check_end)(const struct request *request, struct error *err);
    /** Whether these persons may sign it; NULL: yes, if their keys count. */
    RESULT(*check_signers)
    (const struct request *request, const struct document *document, const struct document_signers *signers, struct error *err);
    /** Adds to a whole page, with `drafts`, what only this kind has; NULL: nothing. */
    RESULT (*finish)(struct request *request, struct pg *pg, json_t *value, struct error *err);
    /** Adds a draft to its list, if its signatures count; NULL: document_list_draft(), because approvers alone sign. */
    RESULT (*list_draft)(const struct document_drafts *drafts, const struct drafted_document *drafted, struct error *err);
    /** Adds to the description of a document in force what only this kind has; NULL: nothing. */
    RESULT (*add)(struct request *request, struct pg *pg, json_t *value, struct error *err);
};
extern const struct log_documents log_sinks, log_detections, log_groups, log_roles, log_persons, log_scim, log_glasses,
    log_glass_reviews, log_officers;

/* Targets; handlers find the kind by the action of the first pair. */
RESULT log_document_target_draft(struct request *request, const struct log_documents *documents, struct error *err);
RESULT log_document_target_approve(struct request *request, const struct log_documents *documents, struct error *err);
RESULT log_document_target_revoke(struct request *request, const struct log_documents *documents, struct error *err);
/** Of a route with the name of a document in the path. */
RESULT log_document_target_named(struct request *request, enum action action);
RESULT log_document_target_list(struct request *request, enum action action); /* 404 in any other scope than "" */

/** All that does not depend on who has signed. */
RESULT log_document_check_new(struct request *request, struct pg *pg, const struct log_documents *documents,
                              const struct document *document, struct error *err);
/** Records the document under `action`, has it pinned, and answers. With several envelopes it ends the draft. */
RESULT log_document_put_in_force(struct request *request, struct pg *pg, const struct signed_body *body, enum action action,
                                 struct error *err);

/** What handler_log_document_draft does, for a handler that adds something. */
RESULT log_document_handle_draft(struct request *request, struct pg *pg, struct error *err);

/** The kind whose routes have this action. */
const struct log_documents *log_documents_of(enum action action);
