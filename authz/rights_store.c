#include "authz/rights_priv.h"

#include "authz/binding.h"
#include "authz/person_priv.h"
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
    " ELSE r.revoked_at IS NULL AND r.expires_at > now() END",
    "", "int8"};
/* The officers whose role ends, that are the last ones of their scope, and that somebody else has appointed. */
static const struct pg_statement rights_last_officers_sql = {
    "rights_last_officers",
    "WITH live AS MATERIALIZED (SELECT b.binding_id, b.robot_id, b.issuer, b.organisation_id, b.granted_by, b.giver"
    " FROM binding b LEFT JOIN robot r USING (robot_id) WHERE b.revoked_at IS NULL AND b.role = 'security-officer'"
    " AND (b.expires_at IS NULL OR b.expires_at > now())"
    " AND CASE WHEN b.robot_id IS NULL THEN EXISTS (SELECT FROM trusted_issuer t WHERE t.url = b.issuer)"
    " ELSE r.revoked_at IS NULL AND r.expires_at > now() END),"
    " lost AS (SELECT * FROM live WHERE binding_id = $1 OR robot_id = $2 OR issuer = (SELECT url FROM trusted_issuer WHERE issuer_id = $3))"
    " SELECT count(*) FROM lost WHERE granted_by <> $4 AND coalesce(giver <> " PERSON_BEHIND("$4") ", true) AND NOT EXISTS"
    " (SELECT FROM live WHERE live.organisation_id IS NOT DISTINCT FROM lost.organisation_id AND live.binding_id NOT IN (SELECT binding_id FROM lost))",
    "uuid uuid uuid text", "int8"};
static const struct pg_statement *const statements[] = {
    &rights_raise_epoch_sql, &rights_administrators_sql, &rights_last_officers_sql,
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

struct result rights_keep_officer(struct pg *pg, const struct officer_end *end, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, end->binding);
    pg_add_uuid(&arguments, end->robot);
    pg_add_uuid(&arguments, end->issuer);
    pg_add_text(&arguments, end->by);
    TRY(pg_run(pg, &rights_last_officers_sql, &arguments, &rows, err));
    if (pg_int8(rows, 0, 0) == 0) return SUCCESS;
    return failure(
        err, ERROR_CONFLICT,
        "this is the last security officer of its scope, and another person has appointed it: appoint another one first");
}
