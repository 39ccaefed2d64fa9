/*
 * documents/source.h -- where documents are read and pinned.
 */
#pragma once

#include "audit/sequencer.h"
#include "crypto/keyd_client.h"
#include "storage/pg.h"

/** `pg` needs audit_tree_table. */
struct document_source {
    struct pg *pg;
    struct keyd_client *keyd;
    struct sequencer *sequencer; /* lets the log be signed, so that an event can be proven */
};
