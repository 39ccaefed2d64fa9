/*
 * authz/break_glass_entry.h -- the broken glasses that are in force (docs/break-glass.md), as a list of trust rules has them.
 *
 * A signed document names the holder by a hash, because documents are kept for ever. A row of the database has the issuer and the subject, for some hours: it counts
 * only if their hash is the one that the document names, so no row gives anything to anybody.
 */
#pragma once

#include "authz/trust_rules.h"
#include "documents/format/break_glass.h"

#define GLASS_ENTRIES_MAX 64             /* in force at a time */
#define GLASS_GIVER       "break-glass:" /* granted_by of a binding of the snapshot: this, and the name of the document */

struct glass_entry {
    char name[BREAK_GLASS_NAME_MAX + 1];
    struct pinned_entry pinned;
    struct break_glass glass; /* views into pinned.json */
};

/** The name of the document in `granted_by` of a role by a broken glass; NULL: it is none. */
const char *glass_giver(const char *granted_by);

size_t glass_entries_count(const struct trust_rules *rules);
const struct glass_entry *glass_entries_at(const struct trust_rules *rules, size_t number);

/** The statements that record holders, for the sequencer, and read them with a snapshot. */
extern const struct pg_table break_glass_table;
