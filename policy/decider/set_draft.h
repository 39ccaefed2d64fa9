/*
 * policy/decider/set_draft.h -- policy sets that wait for signatures, and those that were loaded before (docs/policies.md).
 *
 * A draft has one envelope, to which each approval adds a signature. Rows prove nothing: the caller verifies the signatures.
 */
#pragma once

#include "documents/format/set_change.h"
#include "policy/decider/set_load.h"
#include "storage/lookup.h"

#define POLICY_DRAFT_NAME_SIZE 17 /* the first 16 hex digits of the SHA-256 of the payload */
#define POLICY_DRAFTS_MAX      16 /* that wait in a registry */
#define POLICY_DRAFTS_EACH     4  /* of one principal */

void policy_draft_name(struct bytes payload, char name_out[POLICY_DRAFT_NAME_SIZE]);

/** Views into `rows`. */
struct policy_draft {
    struct pg_rows *rows;
    const char *name, *drafted_by;  /* principal_key() */
    struct bytes payload, envelope; /* the envelope is empty as long as nobody has signed */
    int64_t expires_ms;
    enum set_change change; /* as it was found when it was drafted; for readers, because sijil-keyd finds it anew */
    const char *why;        /* "": nothing to say */
};
void policy_draft_done(struct policy_draft *draft);
#define OWNED_POLICY_DRAFT __attribute__((cleanup(policy_draft_done))) struct policy_draft
/** ERROR_NOT_FOUND: there is none, or it has expired. `action`: of the permit. */
RESULT policy_draft_find(const struct permit *permit, enum action action, struct pg *pg, const char *name,
                         struct policy_draft *draft_out, struct error *err) __attribute__((nonnull));
/** The same before there is a permit: what the request changes is made from the draft. */
RESULT policy_draft_lookup(struct lookup *lookup, const char *name, struct policy_draft *draft_out, struct error *err)
    __attribute__((nonnull));
/** Visits the drafts that wait, the oldest first. */
typedef struct result policy_draft_visitor(void *context, const struct policy_draft *draft, struct error *err);
RESULT policy_draft_visit(const struct permit *permit, enum action action, struct pg *pg, policy_draft_visitor *visit,
                          void *context, struct error *err) __attribute__((nonnull(1, 3, 4, 6)));

/** A change of one draft, in the transaction of its event. Views: they must outlive the record. */
struct policy_draft_change {
    struct change change;
    enum action action;
    const char *name, *drafted_by;
    struct bytes payload;          /* of a new draft */
    struct bytes before, envelope; /* of a signature: the envelope without it and with it */
    int64_t expires_ms;
    struct set_change_found found; /* of a new draft: what it changes */
};
/** ERROR_LIMIT: too many wait. ERROR_CONFLICT: this one waits already. */
void policy_draft_add_init(struct policy_draft_change *change);
/** ERROR_CONFLICT: somebody else has signed it meanwhile, or it is gone. */
void policy_draft_sign_init(struct policy_draft_change *change);
/** ERROR_NOT_FOUND. */
void policy_draft_end_init(struct policy_draft_change *change);

/** The exceptions of a set with what was used of each. The permit is of policy.read. */
struct policy_exception_view;
struct policy_exception_use {
    int64_t used, last_ms; /* last_ms: 0 if it was never used */
};
typedef struct result policy_exception_visitor(void *context, const struct policy_exception_view *view,
                                               const struct policy_exception_use *use, struct error *err);
RESULT policy_exception_visit(const struct permit *permit, struct pg *pg, const struct policy_set *set,
                              policy_exception_visitor *visit, void *context, struct error *err)
    __attribute__((nonnull(1, 2, 3, 4, 6)));

/** Sets that were loaded, by the events of the log. sijil-keyd may have refused one. */
struct policy_past_set {
    int64_t sequence, epoch, loaded_ms;
    char digest[72];
    char loaded_by[256];
    char comment[257]; /* "": none */
};
#define POLICY_HISTORY_PAGE 16 /* envelopes have up to 2 MiB */
struct policy_history {
    size_t most; /* how many are wanted, at most POLICY_HISTORY_PAGE + 1 */
    size_t count;
    struct policy_past_set each[POLICY_HISTORY_PAGE + 1];
};
/** From event `first` on, the oldest first. */
RESULT policy_history_read(const struct permit *permit, struct pg *pg, uint64_t first, struct policy_history *history,
                           struct error *err) __attribute__((nonnull));
/** The same for a permit of report.residency: a report names the sets under which decisions about a project were made. */
RESULT policy_history_report(const struct permit *permit, struct pg *pg, uint64_t first, struct policy_history *history,
                             struct error *err) __attribute__((nonnull));
/** Appends the envelope of the set that event `number` loads. The permit is of report.residency. ERROR_NOT_FOUND. */
RESULT policy_set_report(const struct permit *permit, struct pg *pg, uint64_t number, struct buffer *envelope, struct error *err)
    __attribute__((nonnull));
/** The envelope of the newest set with this epoch. ERROR_NOT_FOUND. */
RESULT policy_set_of_epoch(const struct permit *permit, struct pg *pg, uint64_t epoch, struct buffer *envelope, struct error *err)
    __attribute__((nonnull));

/** Documents of approvers' keys, as the log names them: whoever counts the signatures of sets finds out itself which ones count. */
#define POLICY_APPROVERS_PAGE 100
struct policy_approver_key {
    uint64_t sequence;
    int64_t time_ms;
    size_t envelope_count;
    struct bytes envelopes[DOCUMENT_SIGNATURES_MAX]; /* views into `rows` */
    const char *recorder;                            /* likewise: who sent a restriction; NULL: not told */
};
struct policy_approver_keys {
    struct pg_rows *rows;
    size_t most; /* how many documents are read, at most POLICY_APPROVERS_PAGE */
    size_t count;
    struct policy_approver_key each[POLICY_APPROVERS_PAGE];
    uint64_t next; /* the list goes on from this event; 0: it ends here */
};
void policy_approver_keys_done(struct policy_approver_keys *keys);
#define OWNED_APPROVER_KEYS __attribute__((cleanup(policy_approver_keys_done))) struct policy_approver_keys
/** From event `first` on. The permit is of policy.read. Other signing keys of the registry are left out. */
RESULT policy_approver_keys_read(const struct permit *permit, struct pg *pg, uint64_t first, struct policy_approver_keys *keys,
                                 struct error *err) __attribute__((nonnull));
/**
 * What tells who has signed the restrictions of an organisation: the documents of its security officers, the keys that they name, those of approvers, and the restrictions. The permit is of
 * restriction.read, for the organisation.
 */
RESULT restriction_documents_read(const struct permit *permit, struct pg *pg, uint64_t first, struct policy_approver_keys *keys,
                                  struct error *err) __attribute__((nonnull));
