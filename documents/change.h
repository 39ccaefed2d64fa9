/*
 * documents/change.h -- records a document, or a draft of one, in the transaction of its event.
 *
 * The document comes into force later, when documents/view.h has asked sijil-keyd to pin it. The sequencer must know
 * document_table.
 */
#pragma once

#include "audit/sequencer.h"
#include "documents/document_store.h"

/** Contains pointers into itself: don't copy it. The memory that `row` points at must outlive the record. */
struct document_change {
    struct change change;
    struct document_row row;
    bool
        ends_draft; /* the draft of this document must exist; it is removed, with all other drafts of its name and scope. Those of a signing key end with its withdrawal, too */
    char detail[DOCUMENT_DETAIL_SIZE];
};
/** row->action is document_action() of the document. */
void document_change_init(struct document_change *change, const struct document_row *row, bool ends_draft);

#define DOCUMENT_DRAFTS_EACH 8 /* of one principal in one scope */
/** A new draft replaces older ones of the same name, scope and principal. ERROR_LIMIT if too many drafts of the organisation or of this
 *  principal wait already; ERROR_CONFLICT if this draft waits already, or has other signatures. */
struct document_draft_change {
    struct change change;
    struct document_draft_row row;
    char detail[DOCUMENT_DETAIL_SIZE];
};
/** row->document was read from row->envelopes: one of a new draft; several add the last one to the draft that has the others. */
void document_draft_change_init(struct document_draft_change *change, const struct document_draft_row *row);

/** A change: removes drafts that wait. ERROR_NOT_FOUND: there are none. */
struct document_draft_end {
    struct change change;
    struct document_draft_removal removal;
};
void document_draft_end_init(struct document_draft_end *change, const struct document_draft_removal *removal);
