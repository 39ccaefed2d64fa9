#include "audit/first_place_priv.h"

#include "audit/format/search_terms.h"
#include "storage/pg_table.h"

/* clang-format off */
static const struct pg_statement first_place_known_sql = {
    "first_place_known", "SELECT indexed FROM audit_search", "", "int8"};
/* The subject is one value, not a join: so the index of the key is read in order, and no further than the first rows. */
#define ROWS(of_key)                                                                                                                \
    "SELECT b.block, b.list, d.list, b.key FROM audit_blind b LEFT JOIN audit_post d ON d.key = $5 AND d.block = b.block"                \
    " WHERE b.subject = (SELECT id FROM audit_subject WHERE subject = $1) AND b.block <= $2 AND (b.block, b.key) > ($3, $4)"        \
    of_key " ORDER BY b.block, b.key LIMIT $6"
static const struct pg_statement first_place_rows_sql = {
    "first_place_rows", ROWS(" AND b.key = $7"), "bytea int8 int8 int8 int8 int8 int8", "int8 bytea bytea int8"};
static const struct pg_statement first_place_subject_sql = {
    "first_place_subject", ROWS(""), "bytea int8 int8 int8 int8 int8", "int8 bytea bytea int8"};
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

struct result first_place_rows(struct pg *pg, const struct first_place_query *query, const struct first_place_cursor *after,
                               struct pg_rows **rows_out, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_bytes(&arguments, query->subject);
    pg_add_int8(&arguments, (int64_t)query->block);
    pg_add_int8(&arguments, after->block);
    pg_add_int8(&arguments, after->key);
    pg_add_int8(&arguments, search_key(SEARCH_OUTCOME, bytes_of_text("denied")));
    pg_add_int8(&arguments, FIRST_PLACE_ROWS);
    if (query->has_key) pg_add_int8(&arguments, query->key);
    return pg_run(pg, query->has_key ? &first_place_rows_sql : &first_place_subject_sql, &arguments, rows_out, err);
}
