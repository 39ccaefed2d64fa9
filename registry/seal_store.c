#include "registry/registry_priv.h"
#include "registry/seal_priv.h"
#include "storage/pg_table.h"

/* clang-format off */
static const struct pg_statement project_key_insert_sql = {
    "project_key_insert",
    "INSERT INTO project_key (key_id, project_id, region_id, key_version, wrapped_key, commitment)"
    " VALUES ($1, $2, $3, $4, $5, $6)",
    "uuid uuid text int4 bytea bytea", ""};
static const struct pg_statement project_key_current_sql = {
    "project_key_current",
    "SELECT key_id, key_version, wrapped_key, commitment FROM project_key WHERE project_id = $1 AND is_current",
    "uuid", "uuid int4 bytea bytea"};
static const struct pg_statement *const statements[] = {
    &project_key_insert_sql, &project_key_current_sql,
};
/* clang-format on */
const struct pg_table seal_statements = PG_TABLE(statements);

struct result project_key_insert(struct pg *pg, const struct resource *where, const struct key_record *record, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_uuid(&arguments, &record->id);
    pg_add_uuid(&arguments, &where->project);
    pg_add_text(&arguments, where->region);
    key_record_add(&arguments, record);
    return pg_run(pg, &project_key_insert_sql, &arguments, NULL, err);
}

struct result project_key_current(struct pg *pg, const struct uuid *project, struct key_record *record_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;
    struct key_record record = {0};

    pg_add_uuid(&arguments, project);
    TRY(pg_run(pg, &project_key_current_sql, &arguments, &rows, err));
    if (pg_rows_count(rows) != 1) return failure(err, ERROR_CORRUPT, "the project has no key for its manifests");
    record.id = pg_uuid(rows, 0, 0);
    TRY(key_record_read(rows, 0, 1, &record, err));
    *record_out = record;
    return SUCCESS;
}
