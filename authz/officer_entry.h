/*
 * authz/officer_entry.h -- the documents of officers (docs/identity.md, "Officers"), as a list of trust rules has them, and which bindings count by them.
 *
 * A row of the table of bindings tells who has the role; a signed document that names this very principal, role and place makes it count. So neither a row nor a document
 * gives anything alone. Before a registry-admin has a document, rows alone count; the first one ends that for good, also if it is withdrawn later.
 */
#pragma once

#include "authz/entry_place.h"
#include "authz/snapshot.h"
#include "documents/format/officers.h"

#define OFFICER_ENTRIES_MAX 1024 /* documents in force */

struct officer_entry {
    char name[OFFICERS_NAME_MAX + 1];
    struct pinned_entry pinned;
    struct officer officer;   /* views into pinned.json */
    struct entry_place place; /* of `on` */
    bool key_is_withdrawn;
    int64_t key_expires_ms; /* of the enrolment that ends last; 0: the key is not enrolled any more */
};

size_t officer_entries_count(const struct trust_rules *rules);
const struct officer_entry *officer_entries_at(const struct trust_rules *rules, size_t number);
/** Whether a row alone gives nothing. Also true if documents were pinned and the database differs from them: then no role of officers counts. */
bool officers_are_demanded(const struct trust_rules *rules);
/** The document that makes this binding, as it was bound, count now; NULL: there is none. */
const struct officer_entry *officer_entry_of(const struct trust_rules *rules, const struct authz_binding *binding,
                                             int64_t now_ms);
/** If documents are demanded: ends the binding with its document and the officer's key, or makes it one of ROLE_UNSIGNED_OFFICER. */
void officers_judge(const struct trust_rules *rules, struct authz_binding *binding, int64_t now_ms);
/** How many documents count now; it changes when one or its key ends. */
size_t officers_in_force(const struct trust_rules *rules, int64_t now_ms);
