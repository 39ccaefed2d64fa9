/*
 * audit/search_find_priv.h -- the parts of a search: its keys, and the comparison of an entry with its conditions.
 */
#pragma once

#include "audit/search_walk_priv.h"

/** Adds the groups of all conditions and of the permit's scope. `from` and `until` bound the years of blind keys. */
RESULT search_add_groups(const struct permit *permit, const struct search_source *source, const struct search *search,
                         struct search_walk *walk, struct error *err) __attribute__((nonnull));

/** The first entry whose time is not before `wall_ms`; `size` if there is none. Entries are in the order of their times. */
RESULT search_entry_at(struct pg *pg, int64_t wall_ms, uint64_t size, uint64_t *sequence_out, struct error *err)
    __attribute__((nonnull));

/** A search, with all that it is compared by. */
struct search_hunt {
    const struct permit *permit;
    const struct search_source *source;
    const struct search *search;
};
/** Whether an entry of the page is an event inside the permit's scope that meets all conditions: by its leaf, its facts and its payload. */
RESULT search_meets(const struct search_hunt *hunt, struct audit_page *page, size_t index, bool *meets_out, struct error *err);
