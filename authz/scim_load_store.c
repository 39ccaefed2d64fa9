#include <stdlib.h>

#include "authz/scim_load_priv.h"
#include "authz/snapshot.h"
#include "authz/snapshot_rows_priv.h"
#include "base/memory.h"
#include "storage/pg_table.h"

/* clang-format off */
static const struct pg_statement scim_persons_sql = {
    "scim_persons",
    "SELECT u.issuer, u.external_id, coalesce(s.subject, ''), u.active AND NOT u.is_deleted, u.told IS NULL OR s.told IS NULL"
    " FROM scim_user u LEFT JOIN scim_subject s USING (person)",
    "", "text text text bool bool"};
/* Also of persons that are not active: they are not live, and nothing is read again when they are active again. Only rows for which the log vouches give a role. */
static const struct pg_statement scim_members_sql = {
    "scim_members",
    "SELECT u.issuer, s.subject, k.key FROM scim_group g CROSS JOIN LATERAL (VALUES (g.group_id::text), (g.external_id)) AS k (key)"
    " JOIN scim_member m USING (group_id) JOIN scim_user u USING (person) JOIN scim_vouched s USING (person)"
    " WHERE (g.group_id::text = ANY($1) OR g.external_id = ANY($1)) AND k.key = ANY($1) AND u.issuer = g.issuer AND NOT u.is_deleted"
    " ORDER BY u.issuer, s.subject, k.key",
    "text[]", "text text text"};
static const struct pg_statement *const statements[] = {&scim_persons_sql, &scim_members_sql};
/* clang-format on */
const struct pg_table scim_load_table = PG_TABLE(statements);

static void read_person(const struct pg_rows *rows, size_t row, struct scim_person *person)
{
    *person = (struct scim_person){.issuer = pg_text(rows, row, 0),
                                   .external_id = pg_text(rows, row, 1),
                                   .subject = pg_text(rows, row, 2),
                                   .is_active = pg_bool(rows, row, 3),
                                   .is_untold = pg_bool(rows, row, 4)};
}

struct result scim_load_persons(struct pg *pg, struct scim_persons **persons_out, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;

    TRY(pg_run(pg, &scim_persons_sql, NULL, &rows, err));
    const size_t count = pg_rows_count(rows);
    struct scim_person *persons = memory_zeroed(count + 1, sizeof *persons);
    if (persons == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for persons");
    for (size_t i = 0; i < count; i++) read_person(rows, i, &persons[i]);
    const struct result result = scim_persons_new(persons, count, persons_out, err);
    free(persons);
    return result;
}

struct result scim_load_members(struct pg *pg, const struct bytes *groups, size_t count, struct pg_rows **rows_out,
                                struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_text_array(&arguments, groups, count);
    return pg_run(pg, &scim_members_sql, &arguments, rows_out, err);
}
