/*
 * documents/replacement.h -- another key of a person whose keys give power waits, when none of its keys has signed the new one's document (docs/documents.md, "Replaced keys").
 *
 * The event key.replace names the document and all its signatures, and sijil-keyd begins the wait when its signed log has that event. The draft stays, until an approver approves
 * it again after the wait. Rows have no part in this: a wait is only what sijil-keyd says.
 */
#pragma once

#include "audit/sequencer.h"
#include "crypto/keyd_replacement.h"
#include "documents/format/document.h"
#include "documents/source.h"

/** Records the event and changes nothing. Contains pointers into itself: don't copy it. */
struct replacement_change {
    struct change change;
    char detail[DOCUMENT_DETAIL_SIZE];
};
void replacement_change_init(struct replacement_change *change, const struct document *document);

/** The event of the permit names these envelopes. *counts_ms_out: when the wait is over. The errors of keyd_replace_key(). */
struct replacement {
    const struct bytes *envelopes;
    size_t count;
};
RESULT replacement_begin(const struct permit *permit, const struct document_source *source, const struct replacement *replacement,
                         int64_t *counts_ms_out, struct error *err) __attribute__((nonnull));
