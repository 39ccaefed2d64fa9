/* The organisations of the documents of persons and officers. */
#include <stdlib.h>

#include "authz/officer_entry.h"
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

/* An entry whose document was signed before the organisation of this name was made is for a deleted one. */
static void note_place(const struct pinned_entry *pinned, const struct entry_place *place, const struct pg_rows *rows, size_t row)
{
    const struct uuid organisation = pg_uuid(rows, row, 1);

    if ((uint64_t)pg_int8(rows, row, 2) <= pinned->sequence) entry_place_note(place, &organisation);
}

/* The names of all documents of persons, and then of all officers of organisations. */
struct result persons_places_load(struct pg *pg, const struct trust_rules *rules, struct error *err)
{
    const size_t persons = persons_entries_count(rules), count = persons + officer_entries_count(rules);
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    if (count == 0) return SUCCESS;
    OWNED_STRING names = memory_zeroed(count, sizeof(struct bytes));
    if (names == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a snapshot of rights");
    struct bytes *list = (struct bytes *)(void *)names;
    for (size_t i = 0; i < count; i++)
        list[i] =
            bytes_of_text(i < persons ? persons_entries_at(rules, i)->name : officer_entries_at(rules, i - persons)->officer.on);
    pg_add_text_array(&arguments, list, count);
    TRY(pg_run(pg, &persons_places_sql, &arguments, &rows, err));
    for (size_t i = 0; i < pg_rows_count(rows); i++) {
        const size_t at = (size_t)pg_int8(rows, i, 0) - 1;
        if (at < persons) note_place(&persons_entries_at(rules, at)->pinned, &persons_entries_at(rules, at)->place, rows, i);
        else
            note_place(&officer_entries_at(rules, at - persons)->pinned, &officer_entries_at(rules, at - persons)->place, rows,
                       i);
    }
    return SUCCESS;
}
