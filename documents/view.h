/*
 * documents/view.h -- the signed documents that are in force, as sijil-keyd has pinned them.
 *
 * The view is filled from the events of the log and the rows that they name, in the log's order, and compared with keyd's pin. The
 * pin is a chain over all documents of a kind, so a document that is missing, changed or added breaks it. The view then returns no
 * document of that kind (ERROR_CORRUPT). If a gateway dies after it recorded a document and before the pin, the next update of the
 * view asks sijil-keyd to pin it. Policy sets are not in the view (policy/decider/set_load.h).
 *
 * The name of a key's document is the key's thumbprint. A thumbprint has one owner for ever: a later document of another owner does not
 * count, in any scope. A withdrawal in one scope withdraws the key in all scopes. The pin decides the order of the documents, so all
 * gateways find the same owner, whatever the rows say.
 *
 * Thread-safe. The functions here make no decision: handlers read under a permit (gateway/api).
 */
#pragma once

#include "documents/document_store.h"
#include "documents/source.h"

struct document_view;

RESULT document_view_new(struct document_view **view_out, struct error *err);
void document_view_free(struct document_view *view);
DEFINE_OWNED(document_view);

/**
 * Updates the view from the log, and asks sijil-keyd to pin new documents. source->pg needs document_table too. ERROR_CORRUPT:
 * the database differs from keyd's pin. ERROR_UNAVAILABLE: the database or keyd could not be read. Blocks.
 */
RESULT document_view_refresh(struct document_view *view, const struct document_source *source, struct error *err);

/**
 * As document_view_refresh(), but only if keyd has pinned a document of this kind that the view does not have: one call to keyd, no query.
 * The view may then lack documents of other kinds.
 */
RESULT document_view_follow(struct document_view *view, enum document_kind kind, const struct document_source *source,
                            struct error *err);

/** What the view had of a kind after an update. A later update, by another thread, may have changed the view since. */
struct document_reading {
    struct document_pin pin;
    uint64_t
        read_until; /* the next update goes on from this event: what earlier events have recorded is pinned, or refused for good */
    uint64_t
        pinned; /* the newest event that sijil-keyd has pinned, also where the database lacks it and `pin` is of an earlier one, or of none; 0: none */
};

/**
 * As document_view_refresh(), but for one kind alone, whatever the state of the others. After ERROR_CORRUPT too, *reading_out is written.
 */
RESULT document_view_update(struct document_view *view, enum document_kind kind, const struct document_source *source,
                            struct document_reading *reading_out, struct error *err);

/** For /readyz: success unless the last update found that the database differs from keyd's pin. ERROR_CORRUPT names the
 *  difference. */
RESULT document_view_is_sound(struct document_view *view, struct error *err);

#define DOCUMENT_UNLOGGED_MAX 1000 /* the most rows without an event that are counted */
/** Rows of all kinds that no event of the log names: somebody wrote them outside the application. They have no effect. */
uint64_t document_view_unlogged(struct document_view *view);

/** The newest pinned version; it may be a withdrawal, or have expired. */
struct pinned_document {
    const struct document *document;
    uint64_t sequence; /* of its event */
};
/** Called with the view locked: it may neither block nor use the view. */
typedef struct result document_visitor(void *context, const struct pinned_document *pinned, struct error *err);
/**
 * Visits the documents of one kind and scope with names after `after`, in the order of their names, at most `limit`.
 * Documents of a deleted organisation or project of this name are left out. ERROR_CORRUPT. ERROR_UNAVAILABLE if the last
 * successful update is older than 30 s.
 */
struct view_range {
    enum document_kind kind;
    const struct document_scope *scope;
    const char *after; /* "": from the first */
    size_t limit;
};
RESULT document_view_visit(struct document_view *view, const struct view_range *range, document_visitor *visit, void *context,
                           struct error *err);
/** Visits the document with the scope and the name `after`; ERROR_NOT_FOUND. */
RESULT document_view_find(struct document_view *view, const struct view_range *one, document_visitor *visit, void *context,
                          struct error *err);

/**
 * Call it after a refresh that succeeded. Checks that the document that event `sequence` recorded is pinned. ERROR_CONFLICT:
 * sijil-keyd has refused the document for good. The message has keyd's reason only if this view asked keyd to pin the document.
 */
RESULT document_view_check_event(struct document_view *view, enum document_kind kind, uint64_t sequence, struct error *err);

/** The proof that keyd has pinned the document of the event `sequence`. chain_out->later points into `later`. ERROR_NOT_FOUND,
 *  ERROR_LIMIT. */
RESULT document_view_chain(struct document_view *view, enum document_kind kind, uint64_t sequence,
                           struct document_chain *chain_out, struct buffer *later, struct error *err);
/**
 * Visits the newest version with this name in every scope, also of deleted organisations and projects.
 * A document counts only if its `sequence` is at least document_scope.since.
 * The search reads the whole view. ERROR_CORRUPT, ERROR_UNAVAILABLE.
 */
RESULT document_view_visit_name(struct document_view *view, enum document_kind kind, const char *name, document_visitor *visit,
                                void *context, struct error *err);
/** For a caller that has updated the kind just now: visits all documents of it, however old the last update of the other kinds is. */
struct document_visit {
    document_visitor *visit;
    void *context;
};
RESULT document_view_read(struct document_view *view, enum document_kind kind, const struct document_visit *visit,
                          struct error *err);
/** The same for all names. */
RESULT document_view_visit_all(struct document_view *view, enum document_kind kind, document_visitor *visit, void *context,
                               struct error *err);

#define DOCUMENT_HISTORY_MAX 16 /* a key is enrolled in a few scopes, and withdrawn in some of them */
/** The numbers of the events of pinned documents with one name, the oldest first. */
struct document_history {
    size_t count;
    uint64_t sequences[DOCUMENT_HISTORY_MAX];
};
/**
 * All versions in all scopes, also those that do not count. If there is no version, the count is 0. ERROR_LIMIT: more than
 * DOCUMENT_HISTORY_MAX. ERROR_CORRUPT, ERROR_UNAVAILABLE.
 */
RESULT document_view_history(struct document_view *view, enum document_kind kind, const char *name,
                             struct document_history *history_out, struct error *err);

/**
 * The number of the event of the newest pinned version of a trust rule before the event `before`; it may be a withdrawal. ERROR_NOT_FOUND: there
 * is none. ERROR_CORRUPT, ERROR_UNAVAILABLE.
 */
struct view_version {
    const char *scope, *name;
    uint64_t before;
};
RESULT document_view_rule_before(struct document_view *view, const struct view_version *wanted, uint64_t *sequence_out,
                                 struct error *err);

/** Whether the document is in force at `now_ms`. */
bool document_is_in_force(const struct document *document, int64_t now_ms);
