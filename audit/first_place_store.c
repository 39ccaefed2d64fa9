#include "audit/first_place_priv.h"

#include "storage/pg_table.h"

/* clang-format off */
static const struct pg_statement first_place_known_sql = {
    "first_place_known", "SELECT indexed FROM audit_search", "", "int8"};
static const struct pg_statement first_place_rows_sql = {
    "first_place_rows", "SELECT b.block, b.list FROM audit_blind b JOIN audit_subject s ON s.id = b.subject"
                        " WHERE b.key = $1 AND s.subject = $2 AND b.block <= $3 ORDER BY b.block LIMIT 1", "int8 bytea int8", "int8 bytea"};
static const struct pg_statement first_place_subject_sql = {
    "first_place_subject", "SELECT b.block, b.list FROM audit_blind b JOIN audit_subject s ON s.id = b.subject"
                           " WHERE s.subject = $1 AND b.block <= $2 ORDER BY b.block LIMIT 64", "bytea int8", "int8 bytea"};
static const struct pg_statement *const statements[] = {
    &first_place_known_sql, &first_place_rows_sql, &first_place_subject_sql,
};
/* clang-format on */
const struct pg_table first_place_table = PG_TABLE(statements);

struct result first_place_known(struct pg *pg, uint64_t *known_out, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;

    TRY(pg_run(pg, &first_place_known_sql, NULL, &rows, err));
    *known_out = pg_rows_count(rows) == 1 ? (uint64_t)pg_int8(rows, 0, 0) : 0;
    return SUCCESS;
}

struct result first_place_rows(struct pg *pg, const struct first_place_query *query, struct pg_rows **rows_out, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_int8(&arguments, query->key);
    pg_add_bytes(&arguments, query->subject);
    pg_add_int8(&arguments, (int64_t)query->block);
    return pg_run(pg, &first_place_rows_sql, &arguments, rows_out, err);
}

struct result first_place_subject_rows(struct pg *pg, struct bytes subject, uint64_t block, struct pg_rows **rows_out,
                                       struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_bytes(&arguments, subject);
    pg_add_int8(&arguments, (int64_t)block);
    return pg_run(pg, &first_place_subject_sql, &arguments, rows_out, err);
}
