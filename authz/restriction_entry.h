/*
 * authz/restriction_entry.h -- the restrictions of organisations that are in force (docs/policies.md), as a list of trust rules has them. policy/ makes policies of them.
 *
 * Rule: they count for the name of the organisation, whatever the rows of the database say about its birth: of other documents an older one gives no rights, and of these it must take none away.
 */
#pragma once

#include "authz/trust_rules.h"
#include "documents/format/restriction.h"

struct restriction_entry {
    char organisation[64];
    struct pinned_entry pinned;
    const json_t *policy; /* a view into pinned.json */
};

size_t restriction_entries_count(const struct trust_rules *rules);
/** Sorted by organisation and name. */
const struct restriction_entry *restriction_entries_at(const struct trust_rules *rules, size_t number);
