/* The organisations of the documents of persons, and of roles. */
#include <stdlib.h>

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

/* Number `at` of the names that were asked for. */
static void place(const struct trust_rules *rules, size_t at, const struct uuid *organisation, uint64_t born)
{
    const size_t persons = persons_entries_count(rules);

    if (at < persons) {
        const struct persons_entry *entry = persons_entries_at(rules, at);
        if (born <= entry->pinned.sequence) persons_entry_place(entry, organisation);
        return;
    }
    const struct own_role_entry *role = own_role_entries_at(rules, at - persons);
    if (born <= role->pinned.sequence) own_role_entry_place(role, organisation);
}

struct result persons_places_load(struct pg *pg, const struct trust_rules *rules, struct error *err)
{
    const size_t persons = persons_entries_count(rules), count = persons + own_role_entries_count(rules);
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    if (count == 0) return SUCCESS;
    OWNED_STRING names = memory_zeroed(count, sizeof(struct bytes));
    if (names == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a snapshot of rights");
    struct bytes *list = (struct bytes *)(void *)names;
    for (size_t i = 0; i < persons; i++) list[i] = bytes_of_text(persons_entries_at(rules, i)->name);
    for (size_t i = persons; i < count; i++) list[i] = bytes_of_text(own_role_entries_at(rules, i - persons)->organisation);
    pg_add_text_array(&arguments, list, count);
    TRY(pg_run(pg, &persons_places_sql, &arguments, &rows, err));
    for (size_t i = 0; i < pg_rows_count(rows); i++) {
        const struct uuid organisation = pg_uuid(rows, i, 1);
        place(rules, (size_t)pg_int8(rows, i, 0) - 1, &organisation, (uint64_t)pg_int8(rows, i, 2));
    }
    return SUCCESS;
}
