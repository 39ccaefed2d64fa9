/*
 * authz/restriction_entry.h -- the restrictions of organisations that are in force (docs/policies.md), as a list of trust rules has them. policy/ makes policies of them.
 */
#pragma once

#include "authz/entry_place.h"
#include "authz/trust_rules.h"
#include "documents/format/restriction.h"

struct restriction_entry {
    char organisation[64];
    struct pinned_entry pinned;
    const json_t *policy;     /* a view into pinned.json */
    struct entry_place place; /* of the organisation; it was there when the document was signed */
};

size_t restriction_entries_count(const struct trust_rules *rules);
/** Sorted by organisation and name. */
const struct restriction_entry *restriction_entries_at(const struct trust_rules *rules, size_t number);
