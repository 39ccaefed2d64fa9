#include "registry/manifest_use_store.h"

#include <stdio.h>

#include "base/memory.h"
#include "registry/registry.h"
#include "storage/pg_table.h"

/* clang-format off */
static const struct pg_statement manifest_uses_insert_sql = {
    "manifest_uses_insert", /* all gateways lock the rows in the same order, so there is no deadlock */
    "INSERT INTO manifest_use AS u (repository_id, digest, used_at) SELECT DISTINCT repository_id, digest, now()"
    " FROM unnest($1::uuid[], $2::text[]) AS n (repository_id, digest) ORDER BY repository_id, digest"
    " ON CONFLICT (repository_id, digest) DO UPDATE SET used_at = excluded.used_at",
    "uuid[] text[]", ""};
static const struct pg_statement manifest_uses_clean_some_sql = {
    "manifest_uses_clean_some", /* of all projects, also of repositories that do not exist any more */
    "WITH page AS MATERIALIZED (SELECT repository_id, digest FROM manifest_use WHERE (repository_id, digest) > ($1, $2)"
    " ORDER BY repository_id, digest LIMIT 2000),"
    " gone AS (DELETE FROM manifest_use u USING page p WHERE u.repository_id = p.repository_id AND u.digest = p.digest"
    " AND NOT EXISTS (SELECT FROM manifest m WHERE m.repository_id = p.repository_id AND m.digest = p.digest OFFSET 0))"
    " SELECT repository_id, digest FROM page ORDER BY repository_id DESC, digest DESC LIMIT 1",
    "uuid text", "uuid text"};
static const struct pg_statement manifest_uses_clean_sql = {
    "manifest_uses_clean",
    "DELETE FROM manifest_use u WHERE u.repository_id = $1 AND NOT EXISTS (SELECT FROM manifest m"
    " WHERE m.repository_id = u.repository_id AND m.digest = u.digest OFFSET 0)",
    "uuid", ""};
static const struct pg_statement *const statements[] = {
    &manifest_uses_insert_sql, &manifest_uses_clean_some_sql, &manifest_uses_clean_sql,
};
/* clang-format on */
const struct pg_table manifest_use_statements = PG_TABLE(statements);

struct result manifest_uses_insert(struct pg *pg, const struct manifest_use *uses, size_t count, struct error *err)
{
    struct bytes *views = memory_zeroed(2 * count + 1, sizeof *views);
    struct pg_arguments arguments = {0};

    if (views == NULL) return failure(err, ERROR_NO_MEMORY, "no memory to write what is pulled");
    for (size_t i = 0; i < count; i++) {
        views[i] = (struct bytes){uses[i].repository.bytes, sizeof uses[i].repository.bytes};
        views[count + i] = bytes_of_text(uses[i].digest);
    }
    pg_add_uuid_array(&arguments, views, count);
    pg_add_text_array(&arguments, views + count, count);
    const struct result result = pg_run(pg, &manifest_uses_insert_sql, &arguments, NULL, err);
    free(views);
    return result;
}

struct result manifest_uses_clean(struct pg *pg, const struct uuid *repository, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_uuid(&arguments, repository);
    return pg_run(pg, &manifest_uses_clean_sql, &arguments, NULL, err);
}

struct result manifest_uses_clean_some(struct pg *pg, struct manifest_use *last, bool *found_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, &last->repository);
    pg_add_text(&arguments, last->digest);
    TRY(pg_run(pg, &manifest_uses_clean_some_sql, &arguments, &rows, err));
    const bool found = pg_rows_count(rows) == 1;
    if (found) last->repository = pg_uuid(rows, 0, 0);
    if (found) (void)snprintf(last->digest, sizeof last->digest, "%s", pg_text(rows, 0, 1));
    *found_out = found;
    return SUCCESS;
}
