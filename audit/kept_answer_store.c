#include "audit/kept_answer_priv.h"
#include "storage/pg_table.h"

/* clang-format off */
static const struct pg_statement kept_select_sql = {
    "kept_select", "SELECT k.request, k.salt, k.box FROM kept_answer k JOIN audit_subject s ON s.id = k.subject"
                   " WHERE s.subject = $1 AND k.name = $2 AND k.expires_at > now()", "bytea bytea", "bytea bytea bytea"};
/* More rows are swept than come. An expired row of this key is written anew. */
static const struct pg_statement kept_claim_sql = {
    "kept_claim", "WITH swept AS (DELETE FROM kept_answer WHERE ctid IN (SELECT k.ctid FROM kept_answer k WHERE k.expires_at <= now() AND k.name <> $2"
                  " ORDER BY k.expires_at LIMIT 4))"
                  " INSERT INTO kept_answer AS k (subject, name, request, expires_at) SELECT s.id, $2, $3, now() + $4 * interval '1 hour'"
                  " FROM audit_subject s WHERE s.subject = $1 ON CONFLICT (subject, name) DO UPDATE"
                  " SET request = EXCLUDED.request, expires_at = EXCLUDED.expires_at, salt = NULL, box = NULL WHERE k.expires_at <= now()",
    "bytea bytea bytea int4", ""};
static const struct pg_statement kept_fill_sql = {
    "kept_fill", "UPDATE kept_answer k SET salt = $4, box = $5 FROM audit_subject s WHERE s.id = k.subject AND s.subject = $1 AND k.name = $2"
                 " AND k.request = $3 AND k.box IS NULL", "bytea bytea bytea bytea bytea", ""};
static const struct pg_statement *const statements[] = {&kept_select_sql, &kept_claim_sql, &kept_fill_sql};
/* clang-format on */
const struct pg_table kept_answer_table = PG_TABLE(statements);

static struct bytes of_digest(const uint8_t digest[32])
{
    return (struct bytes){digest, 32};
}

struct result kept_select(struct pg *pg, const uint8_t subject[32], const struct kept_request *request, struct pg_rows **rows_out,
                          struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_bytes(&arguments, of_digest(subject));
    pg_add_bytes(&arguments, of_digest(request->name));
    return pg_run(pg, &kept_select_sql, &arguments, rows_out, err);
}

struct result kept_claim(struct pg *pg, const uint8_t subject[32], const struct kept_request *request, bool *is_new_out,
                         struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_bytes(&arguments, of_digest(subject));
    pg_add_bytes(&arguments, of_digest(request->name));
    pg_add_bytes(&arguments, of_digest(request->request));
    pg_add_int4(&arguments, KEPT_HOURS);
    TRY(pg_run(pg, &kept_claim_sql, &arguments, &rows, err));
    *is_new_out = pg_rows_affected(rows) == 1;
    return SUCCESS;
}

struct result kept_fill(struct pg *pg, const uint8_t subject[32], const struct kept_request *request, const uint8_t salt[32],
                        struct bytes box, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_bytes(&arguments, of_digest(subject));
    pg_add_bytes(&arguments, of_digest(request->name));
    pg_add_bytes(&arguments, of_digest(request->request));
    pg_add_bytes(&arguments, of_digest(salt));
    pg_add_bytes(&arguments, box);
    return pg_run(pg, &kept_fill_sql, &arguments, &rows, err);
}
