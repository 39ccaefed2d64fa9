/* The organisations of the documents of persons, roles and officers. */
#include <stdlib.h>

#include "authz/officer_entry.h"
#include "authz/own_role_entry.h"
#include "authz/persons_entry.h"
#include "authz/snapshot_load.h"
#include "base/memory.h"
#include "storage/pg_table.h"

/* clang-format off */
/* One of a deleted organisation of the name is told by the number of the log at the birth of the present one. */
static const struct pg_statement persons_places_sql = {
    "persons_places",
    "SELECT s.at, o.organisation_id, o.born FROM unnest($1::text[]) WITH ORDINALITY AS s(name, at) JOIN organisation o USING (name)",
    "text[]", "int8 uuid int8"};
static const struct pg_statement *const statements[] = {
    &persons_places_sql,
};
/* clang-format on */
const struct pg_table persons_places_table = PG_TABLE(statements);

/* An entry of a document, of any kind, that names an organisation. */
struct named_entry {
    const char *name;
    const struct pinned_entry *pinned;
    const struct entry_place *place;
};

/* The documents of persons, then of roles, then of officers. */
static struct named_entry entry_at(const struct trust_rules *rules, size_t at)
{
    const size_t persons = persons_entries_count(rules), roles = own_role_entries_count(rules);

    if (at < persons) {
        const struct persons_entry *entry = persons_entries_at(rules, at);
        return (struct named_entry){entry->name, &entry->pinned, &entry->place};
    }
    if (at < persons + roles) {
        const struct own_role_entry *entry = own_role_entries_at(rules, at - persons);
        return (struct named_entry){entry->organisation, &entry->pinned, &entry->place};
    }
    const struct officer_entry *entry = officer_entries_at(rules, at - persons - roles);
    return (struct named_entry){entry->officer.on, &entry->pinned, &entry->place};
}

/* An entry whose document was signed before the organisation of this name was made is for a deleted one. */
static void note_place(const struct named_entry *entry, const struct pg_rows *rows, size_t row)
{
    const struct uuid organisation = pg_uuid(rows, row, 1);

    if ((uint64_t)pg_int8(rows, row, 2) <= entry->pinned->sequence) entry_place_note(entry->place, &organisation);
}

struct result persons_places_load(struct pg *pg, const struct trust_rules *rules, struct error *err)
{
    const size_t count = persons_entries_count(rules) + own_role_entries_count(rules) + officer_entries_count(rules);
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *found = NULL;

    if (count == 0) return SUCCESS;
    OWNED_STRING names = memory_zeroed(count, sizeof(struct bytes));
    if (names == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a snapshot of rights");
    struct bytes *list = (struct bytes *)(void *)names;
    for (size_t i = 0; i < count; i++) list[i] = bytes_of_text(entry_at(rules, i).name);
    pg_add_text_array(&arguments, list, count);
    TRY(pg_run(pg, &persons_places_sql, &arguments, &found, err));
    for (size_t i = 0; i < pg_rows_count(found); i++) {
        const struct named_entry entry = entry_at(rules, (size_t)pg_int8(found, i, 0) - 1);
        note_place(&entry, found, i);
    }
    return SUCCESS;
}
