/*
 * authz/persons_entry.h -- the documents of persons that are in force (docs/identity.md, "Persons"), as a list of trust rules has them.
 */
#pragma once

#include "authz/entry_place.h"
#include "authz/trust_rules.h"
#include "documents/format/persons.h"

#define PERSONS_ENTRIES_MAX 1024 /* documents in force */

struct persons_entry {
    char name[PERSONS_NAME_MAX + 1];
    struct pinned_entry pinned;
    struct persons_rule rule; /* views into pinned.json */
    struct entry_place place; /* found: the organisation is there, and was there when the document was signed */
};

size_t persons_entries_count(const struct trust_rules *rules);
const struct persons_entry *persons_entries_at(const struct trust_rules *rules, size_t number);
/** False: the database differs from sijil-keyd's pin of these documents, or this version can't take one, so no subject is known to be a person. */
bool persons_entries_are_sound(const struct trust_rules *rules);

/** Whether a document in force says that persons come from this issuer. */
bool persons_entries_name(const struct trust_rules *rules, const char *issuer, int64_t now_ms);

/** The document of the organisation (nil: the registry), or else the registry's; NULL if there is none. */
const struct persons_entry *persons_entry_of(const struct trust_rules *rules, const struct uuid *organisation, int64_t now_ms);
/** Whether the document of the organisation, or the registry's, says that this subject is a separate person. */
bool persons_entry_separates(const struct trust_rules *rules, const struct uuid *organisation, const char *key, int64_t now_ms);
