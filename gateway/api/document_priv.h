/*
 * gateway/api/document_priv.h -- what the routes of signing keys and of runners have in common (docs/documents.md): their targets, who has signed a
 * document, and its description in answers.
 */
#pragma once

#include "authz/person.h"
#include "documents/draft.h"
#include "documents/format/signing_key.h"
#include "documents/prove.h"
#include "gateway/api/api_priv.h"
#include "gateway/pipeline/signed_body.h"

/* --- targets --- */

/** Adds the pair for a scope: "", "acme" or "acme/models". NULL: it is not a scope. */
struct resource *document_scope_pair(struct request *request, enum action action, const char *scope);
/** The target of a route with a key's name in the path, in the scope of the parameter `scope`. */
RESULT document_target_named(struct request *request, enum action action);

/* --- who has signed --- */

/** The keys that sijil-keyd counts now. */
RESULT document_trust_now(const struct request *request, struct document_trust *trust_out, struct error *err);
/** The owner of an approver's key, which has the scope of the registry. *key_out stays as it is if the key is not known. */
RESULT document_key_owner(const struct request *request, const uint8_t point[ECDSA_PUBLIC_SIZE], struct signing_key *key_out,
                          struct error *err);
/** Who is behind the principal that has enrolled an approver's key. */
RESULT document_approver_person(const struct request *request, const uint8_t point[ECDSA_PUBLIC_SIZE],
                                struct persons *persons_out, struct error *err);
/** The key in `trust` that has signed this envelope: the root's, or that of an approver who counts. ERROR_DENIED: none has. */
RESULT document_approver_key(const struct document_trust *trust, const struct document *envelope, const uint8_t **point_out,
                             struct error *err);
#define DOCUMENT_SENT_BY_ANOTHER                                                                                                                                                                     \
    "the approval is signed with the key of another person than the one that sends it: only the owner of the key may send it, and has to be one known person here (sijil whoami tells who you are; " \
    "subjects of another issuer than the one that persons come from are nobody)"
/** Whether the caller is the owner of this key, or the key is the root's, which is no person's unless the root is several persons. */
RESULT document_check_sender(const struct request *request, const uint8_t point[ECDSA_PUBLIC_SIZE],
                             const struct document_trust *trust, bool *is_sender_out, struct error *err);
/** A stolen key file must not approve together with the login of another person. ERROR_DENIED. */
RESULT document_check_approver(const struct request *request, const struct document *document, const struct document_trust *trust,
                               struct error *err);

/** Who has signed. The root is no person's key. If the root is several persons, its key is one of them, which only document_check() counts. */
struct document_signers {
    bool has_root; /* and the root is one */
    size_t count;
    struct persons persons[DOCUMENT_SIGNATURES_MAX];
};
/** Each envelope is signed by another person, and the last one by the caller. ERROR_DENIED, ERROR_CONFLICT. */
RESULT document_check_signers(const struct request *request, const struct signed_body *body, const struct document_trust *trust,
                              struct document_signers *signers_out, struct error *err);

/* --- versions --- */

/** The newest version in force; all 0: there is none. */
struct document_known {
    uint64_t version, sequence;
    bool is_withdrawn;
};
/** ERROR_CONFLICT unless the document's version is higher than all that were recorded. */
RESULT document_check_newer(struct request *request, struct pg *pg, const struct document *document,
                            struct document_known *known_out, struct error *err);
/** Of a document that gives roles: ERROR_INVALID if it lives longer than the configuration lets such documents live. */
RESULT document_check_days(const struct request *request, const struct document *document, struct error *err);
/**
 * The action that a draft asks for: one that the root alone signs comes into force at once, so it is asked for as an approval is, which may need a fresh login. The handler calls
 * document_check_draft_action() when it knows the signers.
 */
enum action document_draft_action(const struct request *request, const struct signed_body *body, enum action draft,
                                  enum action approve);
RESULT document_check_draft_action(const struct request *request, const struct document_signers *signers, enum action approve,
                                   struct error *err);
/** Records a draft under `action`; the first pair names its scope. */
RESULT document_record_draft(struct request *request, const struct signed_body *body, enum action action, struct error *err);

/* --- in force --- */

/** Updates the view to the newest event of the log, and has new documents pinned. */
RESULT document_refresh(const struct request *request, struct pg *pg, struct error *err);
/**
 * After a document was recorded: *status_out is 201, or 202 if it will be in force only when keyd can pin it. ERROR_CONFLICT: keyd has refused it,
 * although the gateway's own checks succeeded, because something has changed meanwhile.
 */
RESULT document_put_in_force(struct request *request, struct pg *pg, enum document_kind kind, unsigned *status_out,
                             struct error *err);

/* --- drafts --- */

/** Removes the drafts of the path's name, in the scope of the first pair; drafted_by NULL: of all principals. Answers 204. */
RESULT document_remove_drafts(struct request *request, enum document_kind kind, const char *drafted_by, struct error *err);

/** Descriptions of drafts are added to `list`. */
struct document_drafts {
    const struct request *request;
    struct document_trust trust;
    json_t *list;
};
/** The key that a draft is for. */
struct document_holder {
    const uint8_t *point;
    const char *principal; /* its owner */
    unsigned needed;       /* signatures, including its own; if the root signs, two are enough */
};
/** Adds `envelope`, `envelopes`, `signed_by` and `missing`. Only signatures that count are shown and counted: another program may have written the row. */
RESULT document_add_signatures(const struct document_drafts *drafts, json_t *value, const struct drafted_document *drafted,
                               const struct document_holder *holder, struct error *err);

/* --- answers --- */

/** {"name", "state", "event", "document"}; `sequence` 0: a draft, without "event". ERROR_NO_MEMORY. */
RESULT document_describe(const struct document *document, uint64_t sequence, json_t **value_out, struct error *err);
/** Adds the list `envelopes`. */
RESULT document_add_envelopes(json_t *value, const struct document_proof *proof, struct error *err);
/** The description of the document in force that the path names, with its envelopes, in the scope of the permit for `action`. ERROR_NOT_FOUND. */
RESULT document_show(struct request *request, struct pg *pg, enum action action, enum document_kind kind, json_t **value_out,
                     struct error *err);
/**
 * Answers with the description of document_show(), under an entity tag of the document and its signatures. `is_whole`: nothing else is in it, so it may be
 * answered with 304; else, as with a sink that shows how far it is behind, the tag is for If-Match alone.
 */
RESULT document_answer_shown(struct request *request, const json_t *value, bool is_whole, struct error *err);
/** If-Match and If-None-Match of a request that brings `document`, about the one of its name that is in force. If they don't hold, the answer is 412. */
RESULT document_condition(struct request *request, struct pg *pg, const struct document *document, bool *holds_out,
                          struct error *err);
/** Answers with the description of a document; `sequence` 0: a draft. */
RESULT document_answer(struct request *request, unsigned status, const struct document *document, uint64_t sequence,
                       struct error *err);

/* --- lists --- */

/** Takes `value`, which may be NULL: ERROR_NO_MEMORY. */
RESULT document_list_add(json_t *list, json_t *value, struct error *err);
/** Visits documents in force; `list` is a json_t. */
RESULT document_list_pinned(void *list, const struct pinned_document *pinned, struct error *err);
/** Adds a draft that approvers or the root sign; one that nobody with a key that counts has signed is left out. `needed`: signatures, without the root's. */
RESULT document_list_draft(const struct document_drafts *drafts, const struct drafted_document *drafted, unsigned needed,
                           struct error *err);
/** Answers with a page: `value` has the list `name`, with one more than `limit` if there are more. */
RESULT document_list_answer(struct request *request, json_t *value, const char *name, unsigned limit, struct error *err);
