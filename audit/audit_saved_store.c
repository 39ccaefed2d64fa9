#include "audit/saved_search_priv.h"

#include "storage/pg_table.h"

/* clang-format off */
static const struct pg_statement saved_select_sql = {
    "saved_select", "SELECT v.saved_id, v.salt, v.box, v.saved_at FROM audit_saved v JOIN audit_subject s ON s.id = v.subject WHERE s.subject = $1"
                    " ORDER BY v.saved_at, v.saved_id", "bytea", "uuid bytea bytea timestamptz"};
static const struct pg_statement saved_insert_sql = {
    "saved_insert", "INSERT INTO audit_saved (saved_id, subject, salt, box) SELECT $1, s.id, $3, $4 FROM audit_subject s WHERE s.subject = $2"
                    " AND (SELECT count(*) FROM audit_saved v WHERE v.subject = s.id) < $5", "uuid bytea bytea bytea int8", ""};
static const struct pg_statement saved_delete_sql = {
    "saved_delete", "DELETE FROM audit_saved v USING audit_subject s WHERE s.id = v.subject AND s.subject = $1 AND v.saved_id = $2", "bytea uuid", ""};
static const struct pg_statement *const statements[] = {&saved_select_sql, &saved_insert_sql, &saved_delete_sql};
/* clang-format on */
const struct pg_table audit_saved_table = PG_TABLE(statements);

struct result saved_select(struct pg *pg, const uint8_t subject[32], struct pg_rows **rows_out, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_bytes(&arguments, (struct bytes){subject, 32});
    return pg_run(pg, &saved_select_sql, &arguments, rows_out, err);
}

struct result saved_insert(struct pg *pg, const struct saved_search_change *change, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, &change->id);
    pg_add_bytes(&arguments, (struct bytes){change->subject, sizeof change->subject});
    pg_add_bytes(&arguments, (struct bytes){change->salt, sizeof change->salt});
    pg_add_bytes(&arguments, buffer_bytes(&change->box));
    pg_add_int8(&arguments, SAVED_SEARCHES_MAX);
    TRY(pg_run(pg, &saved_insert_sql, &arguments, &rows, err));
    if (pg_rows_affected(rows) == 1) return SUCCESS;
    return failure(err, ERROR_LIMIT, "%d searches of yours are saved already: remove one", SAVED_SEARCHES_MAX);
}

struct result saved_delete(struct pg *pg, const uint8_t subject[32], const struct uuid *id, bool *was_there_out,
                           struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_bytes(&arguments, (struct bytes){subject, 32});
    pg_add_uuid(&arguments, id);
    TRY(pg_run(pg, &saved_delete_sql, &arguments, &rows, err));
    *was_there_out = pg_rows_affected(rows) == 1;
    return SUCCESS;
}
