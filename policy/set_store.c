#include "policy/set_store.h"

#include "crypto/digest.h"
#include "storage/pg_table.h"

/* clang-format off */
/* An event is only a hint: sijil-keyd checks the entry itself. */
static const struct pg_statement policy_set_raise_epoch_sql = {
    "policy_set_raise_epoch", "WITH raised AS (SELECT raise_authorization_epoch() AS epoch) SELECT epoch FROM raised", "", "int8"};
static const struct pg_statement policy_set_events_sql = {
    "policy_set_events", "SELECT seq, leaf, coalesce(policy_set_named(detail, $1), '') FROM policy_loads($2, $3)", "int8 int8 int8",
    "int8 bytea bytea"};
static const struct pg_statement policy_set_find_sql = {
    "policy_set_find",
    "SELECT l.seq, policy_set_named(l.detail, $1) FROM policy_loads($3, NULL) l"
    " WHERE right(l.detail, 73 + length($1::text)) = ' ' || $1::text || ' sha256:' || encode($2, 'hex')"
    " AND policy_set_named(l.detail, $1) IS NOT NULL ORDER BY l.seq LIMIT $4",
    "int8 bytea int8 int8", "int8 bytea"};
static const struct pg_statement policy_set_find_row_sql = {
    "policy_set_find_row", "SELECT -1::int8, envelopes[1] FROM document WHERE kind = 1 AND version = $1 AND digest = $2 LIMIT $3",
    "int8 bytea int8", "int8 bytea"};
static const struct pg_statement policy_set_is_awaited_sql = {
    "policy_set_is_awaited",
    "SELECT count(*) >= $3 OR count(*) FILTER (WHERE policy_set_named(detail, $1) IS NOT NULL) > 0 FROM policy_loads($2, $3)",
    "int8 int8 int8", "bool"};
static const struct pg_statement policy_sets_unrecorded_sql = {
    "policy_sets_unrecorded",
    "SELECT count(*), coalesce(max(epoch), 0) FROM policy_sets_after($1, $3)"
    " WHERE load_detail NOT IN (SELECT coalesce(detail, '') FROM policy_loads($2, $3))",
    "int8 int8 int8", "int8 int8"};
/*
 * Runs under the log's lock, and its time grows with the scope: 0.3 to 0.4 s for 10,000 repositories. It is rare
 * (docs/policies.md). Outside the lock, a repository that is made at the same time would miss its row.
 */
static const struct pg_statement stored_label_insert_sql = {
    "stored_label_insert",
    "INSERT INTO stored_label (repository_id, policy_id, label) SELECT repository_id, $1, $2 FROM repository"
    " WHERE full_name >= $3 AND full_name < $4 AND ('/' || full_name) ~ $5 ON CONFLICT DO NOTHING",
    "text text text text text", ""};
static const struct pg_statement *const statements[] = {
    &policy_set_raise_epoch_sql, &policy_set_events_sql, &policy_set_find_sql, &policy_set_find_row_sql,
    &policy_set_is_awaited_sql, &policy_sets_unrecorded_sql, &stored_label_insert_sql,
};
/* clang-format on */
const struct pg_table policy_set_table = PG_TABLE(statements);

struct result policy_set_insert(const struct permit *permit, struct pg *pg, const struct document_row *row, struct error *err)
{
    struct pg_arguments none = {0};

    TRY(document_insert(permit, pg, row, err));
    return pg_run(pg, &policy_set_raise_epoch_sql, &none, NULL, err);
}

struct result policy_set_events(struct pg *pg, uint64_t least, uint64_t first, struct pg_rows **rows_out, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_int8(&arguments, (int64_t)least);
    pg_add_int8(&arguments, (int64_t)first);
    pg_add_int8(&arguments, POLICY_SETS_READ);
    return pg_run(pg, &policy_set_events_sql, &arguments, rows_out, err);
}

struct result policy_set_find(struct pg *pg, const struct policy_set_row *row, uint64_t first, struct pg_rows **rows_out,
                              struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_int8(&arguments, (int64_t)row->epoch);
    pg_add_bytes(&arguments, (struct bytes){row->digest, SHA256_SIZE});
    pg_add_int8(&arguments, (int64_t)first);
    pg_add_int8(&arguments, POLICY_SETS_READ);
    return pg_run(pg, &policy_set_find_sql, &arguments, rows_out, err);
}

struct result policy_set_find_row(struct pg *pg, const struct policy_set_row *row, struct pg_rows **rows_out, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_int8(&arguments, (int64_t)row->epoch);
    pg_add_bytes(&arguments, (struct bytes){row->digest, SHA256_SIZE});
    pg_add_int8(&arguments, POLICY_SETS_READ);
    return pg_run(pg, &policy_set_find_row_sql, &arguments, rows_out, err);
}

struct result policy_set_is_awaited(struct pg *pg, uint64_t least, uint64_t first, bool *is_awaited_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_int8(&arguments, (int64_t)least);
    pg_add_int8(&arguments, (int64_t)first);
    pg_add_int8(&arguments, UNRECORDED_SETS_MAX);
    TRY(pg_run(pg, &policy_set_is_awaited_sql, &arguments, &rows, err));
    *is_awaited_out = pg_bool(rows, 0, 0);
    return SUCCESS;
}

struct result policy_sets_unrecorded(struct pg *pg, uint64_t after, uint64_t first, struct unrecorded_sets *unrecorded_out,
                                     struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_int8(&arguments, (int64_t)after);
    pg_add_int8(&arguments, (int64_t)first);
    pg_add_int8(&arguments, UNRECORDED_SETS_MAX);
    TRY(pg_run(pg, &policy_sets_unrecorded_sql, &arguments, &rows, err));
    *unrecorded_out = (struct unrecorded_sets){(uint64_t)pg_int8(rows, 0, 0), (uint64_t)pg_int8(rows, 0, 1)};
    return SUCCESS;
}

struct result stored_label_insert(struct pg *pg, const struct stored_label_row *row, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_text(&arguments, row->policy);
    pg_add_text(&arguments, row->label);
    pg_add_text(&arguments, row->from);
    pg_add_text(&arguments, row->until);
    pg_add_text(&arguments, row->matching);
    return pg_run(pg, &stored_label_insert_sql, &arguments, NULL, err);
}
