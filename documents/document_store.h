/*
 * documents/document_store.h -- rows of the tables document, document_pin and document_draft.
 *
 * Any program with the application's database role may add rows. So readers begin with the events of the log and find a row
 * by its event. They read only the envelopes of a row, and check them against sijil-keyd's pin (documents/view.h).
 */
#pragma once

#include "audit/permit.h"
#include "documents/format/document.h"
#include "storage/lookup.h"

extern const struct pg_table document_table;

/** A document with its envelopes, recorded under a permit for `action`. */
struct document_row {
    enum action action;
    const struct document *document;
    const struct bytes *envelopes;
    size_t envelope_count;
    const char *recorded_by; /* principal_key() */
};
/** Appends a row, unless it exists. */
RESULT document_insert(const struct permit *permit, struct pg *pg, const struct document_row *row, struct error *err)
    __attribute__((nonnull));

/**
 * For a change that records a document after a comparison with all others of its kind: ERROR_CONFLICT if another one was recorded since event `read_until`,
 * also at another gateway. The change must raise the authorization epoch: then no two such changes run at the same time.
 */
RESULT document_check_latest(const struct permit *permit, struct pg *pg, const struct document_row *row, uint64_t read_until,
                             struct error *err) __attribute__((nonnull));

#define DOCUMENT_EVENTS_READ 16 /* at a time: the envelopes of one event have up to 64 KiB */
/**
 * The organisation or project that has a name now. A name may be used again after its owner was deleted. The documents of the old
 * owner don't count for the new one. So a document counts only if its event's number is at least `since`: the size of the log
 * when the present owner was made.
 */
struct document_scope {
    const char *name; /* "": the registry */
    uint64_t since;   /* INT64_MAX: nothing has this name, so no document counts */
};
/** Borrows `name`. */
RESULT document_scope_find(struct lookup *lookup, const char *name, struct document_scope *scope_out, struct error *err);

/* --- drafts: signed by their holder, and not yet by all signers --- */

/** A draft, under a permit for `action`. */
struct document_draft_row {
    enum action action;
    const struct document *document;
    const struct bytes *envelopes; /* the holder's first */
    size_t envelope_count;
    const char *drafted_by;          /* principal_key() of the principal that brings the last envelope */
    const struct uuid *organisation; /* NULL: of the registry */
};
struct document_drafts_waiting {
    int64_t of_organisation, of_principal; /* waiting drafts */
    bool is_there;                         /* this draft is among the waiting ones */
};
/** Removes expired drafts, and counts the others. */
RESULT document_draft_count(const struct permit *permit, struct pg *pg, const struct document_draft_row *row,
                            struct document_drafts_waiting *waiting_out, struct error *err) __attribute__((nonnull));
RESULT document_draft_insert(const struct permit *permit, struct pg *pg, const struct document_draft_row *row, struct error *err)
    __attribute__((nonnull));
/** The draft gets row->envelopes: those that it has, and one more. ERROR_CONFLICT if it has others, or is gone. */
RESULT document_draft_sign(const struct permit *permit, struct pg *pg, const struct document_draft_row *row, struct error *err)
    __attribute__((nonnull));
/**
 * Removes the draft of a document that is recorded now. The draft must have all of row->envelopes but the last, so each signature came in a request
 * of its own. ERROR_NOT_FOUND: there is no such draft.
 */
RESULT document_draft_take(const struct permit *permit, struct pg *pg, const struct document_row *row, struct error *err)
    __attribute__((nonnull));

/** The drafts to remove, under a permit for `action`. */
struct document_draft_removal {
    enum action action;
    enum document_kind kind;
    const char *scope, *name;
    const char *drafted_by; /* principal_key(); NULL: of all principals */
};
/** *removed_out: how many were waiting; expired ones are removed, too. */
RESULT document_draft_remove(const struct permit *permit, struct pg *pg, const struct document_draft_removal *removal,
                             size_t *removed_out, struct error *err) __attribute__((nonnull));

/** The drafts to read, under a permit for `action`. */
struct document_draft_query {
    enum action action;
    enum document_kind kind;
    const char *scope, *name; /* name NULL: all of the scope */
};
#define DOCUMENT_DRAFTS_MAX 64 /* waiting drafts in one organisation, or in the registry */
/**
 * Waiting drafts, oldest first, at most DOCUMENT_DRAFTS_MAX. Columns: four envelopes, "" after the last, and the principals that brought them,
 * with a space between two.
 */
RESULT document_drafts(const struct permit *permit, struct pg *pg, const struct document_draft_query *query,
                       struct pg_rows **rows_out, struct error *err) __attribute__((nonnull));
#define DOCUMENT_DRAFT_SIGNERS DOCUMENT_SIGNATURES_MAX /* the column after the envelopes */
