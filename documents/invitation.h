/*
 * documents/invitation.h -- invitations of runners, in the table runner_invitation (docs/runner.md).
 *
 * Any program with the application's database role may add rows. So the envelope of a row is checked each time: it must be signed by a key that
 * may approve.
 */
#pragma once

#include "documents/change.h"
#include "documents/format/runner_invitation.h"

extern const struct pg_table invitation_table;

#define INVITATIONS_EACH 8  /* of one principal in one scope */
#define INVITATIONS_MAX  64 /* in one organisation, or in the registry */

/** A change: adds an invitation, and removes old ones. ERROR_LIMIT: too many wait; ERROR_CONFLICT: there is one of this runner. */
struct invitation_change {
    struct change change;
    enum action action;
    const struct runner_invitation *invitation;
    struct bytes envelope;           /* canonical JSON */
    const struct uuid *organisation; /* NULL: of the registry */
    const char *invited_by;          /* principal_key() */
    uint8_t code[32];                /* runner_code_hash() */
};
void invitation_change_init(struct invitation_change *change);

/** A change: removes an invitation, used or not. ERROR_NOT_FOUND. */
struct invitation_end {
    struct change change;
    enum action action;
    const char *scope;
    struct uuid runner;
};
void invitation_end_init(struct invitation_end *change, enum action action, const char *scope, const struct uuid *runner);

/**
 * A change: uses the code for the draft, which it records. row->envelopes has the one that the runner has signed. ERROR_CONFLICT: the code was
 * used meanwhile; and the errors of a draft.
 */
struct invitation_use {
    struct change change;
    struct document_draft_change draft;
    struct uuid runner;
};
void invitation_use_init(struct invitation_use *change, const struct document_draft_row *row, const struct uuid *runner);

/** A row. Views live during the visit. */
struct invitation_row {
    struct uuid runner;
    struct bytes envelope;
    const char *invited_by, *name;           /* name "": its code was not used */
    int64_t invited_ms, expires_ms, used_ms; /* used_ms 0: not used */
};
struct invitation_query {
    enum action action;
    const char *scope;
    const struct uuid *runner; /* NULL: all of the scope */
};
typedef struct result invitation_visitor(void *context, const struct invitation_row *row, struct error *err);
/** Visits invitations that wait, or whose draft may wait, oldest first, at most INVITATIONS_MAX. */
RESULT invitation_visit(const struct permit *permit, struct pg *pg, const struct invitation_query *query,
                        invitation_visitor *visit, void *context, struct error *err) __attribute__((nonnull(1, 2, 3, 4, 6)));
