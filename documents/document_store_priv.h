/* documents/document_store_priv.h -- how the view of documents in force reads the log and keeps keyd's pins; no client asks for it. */
#pragma once

#include "documents/document_store.h"

/**
 * Events that record a document of `kind`, from number `first` on, oldest first, at most DOCUMENT_EVENTS_READ. Columns:
 * number, leaf, and from DOCUMENT_EVENT_ENVELOPES on the envelopes that the event names, "" after the last.
 */
RESULT document_events(struct pg *pg, enum document_kind kind, uint64_t first, struct pg_rows **rows_out, struct error *err);
#define DOCUMENT_EVENT_ENVELOPES 2
/** The leaf of the event `sequence`, in one row. ERROR_NOT_FOUND. */
RESULT document_leaf(struct pg *pg, uint64_t sequence, struct pg_rows **rows_out, struct error *err);
/** The number of rows of a kind; stops counting at `most`. */
RESULT document_count(struct pg *pg, enum document_kind kind, uint64_t most, uint64_t *count_out, struct error *err);

/** Whether a row claims that keyd has pinned the event number pin->epoch, and that its pin was then `pin`. */
RESULT document_pin_is_claimed(struct pg *pg, enum document_kind kind, const struct document_pin *pin, bool *is_claimed_out,
                               struct error *err);
/** Writes such a claim, after keyd's answer. */
RESULT document_pin_claim(struct pg *pg, enum document_kind kind, const struct document_pin *pin, struct error *err);
