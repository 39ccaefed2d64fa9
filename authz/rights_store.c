#include "authz/rights_priv.h"

#include "authz/binding.h"
#include "storage/pg_table.h"

/* clang-format off */
static const struct pg_statement rights_raise_epoch_sql = {
    "rights_raise_epoch", "WITH raised AS (SELECT raise_authorization_epoch($1, false) AS epoch) SELECT epoch FROM raised",
    "uuid", "int8"};
static const struct pg_statement rights_administrators_sql = {
    "rights_administrators",
    "SELECT count(*) FROM binding b LEFT JOIN robot r USING (robot_id) WHERE b.revoked_at IS NULL"
    " AND b.role = 'registry-admin' AND b.organisation_id IS NULL AND (b.expires_at IS NULL OR b.expires_at > now())"
    " AND CASE WHEN b.robot_id IS NULL THEN EXISTS (SELECT FROM trusted_issuer t WHERE t.url = b.issuer)"
    " AND NOT EXISTS (SELECT FROM scim_subject s JOIN scim_user u USING (person) WHERE s.issuer = b.issuer AND s.subject = b.subject AND NOT u.active)"
    " ELSE r.revoked_at IS NULL AND r.expires_at > now() END",
    "", "int8"};
static const struct pg_statement *const statements[] = {
    &rights_raise_epoch_sql, &rights_administrators_sql,
};
/* clang-format on */
const struct pg_table rights_table = PG_TABLE(statements);

struct result rights_raise_epoch(struct pg *pg, const struct uuid *organisation, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_uuid(&arguments, uuid_is_nil(organisation) ? NULL : organisation);
    return pg_run(pg, &rights_raise_epoch_sql, &arguments, NULL, err);
}

struct result rights_count_administrators(struct pg *pg, int64_t *count_out, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;

    TRY(pg_run(pg, &rights_administrators_sql, NULL, &rows, err));
    *count_out = pg_int8(rows, 0, 0);
    return SUCCESS;
}

struct result rights_keep_administrator(struct pg *pg, int64_t before, struct error *err)
{
    int64_t after = 0;

    TRY(rights_count_administrators(pg, &after, err));
    if (before == 0 || after > 0) return SUCCESS;
    return failure(err, ERROR_CONFLICT,
                   "this is the last registry-admin, and nobody could give the role again: bind another one first");
}
