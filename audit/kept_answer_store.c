#include "audit/kept_answer_jobs.h"
#include "audit/kept_answer_priv.h"
#include "storage/pg_table.h"

/* clang-format off */
static const struct pg_statement kept_select_sql = {
    "kept_select", "SELECT k.request, k.salt, k.box, k.expires_at > now() + $3 * interval '1 second' FROM kept_answer k JOIN audit_subject s ON s.id = k.subject"
                   " WHERE s.subject = $1 AND k.name = $2 AND k.expires_at > now()", "bytea bytea int4", "bytea bytea bytea bool"};
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
static const struct pg_statement kept_thin_sql = {
    "kept_thin", "UPDATE kept_answer k SET salt = NULL, box = NULL FROM audit_subject s WHERE s.id = k.subject AND s.subject = $1 AND k.box IS NOT NULL"
                 " AND k.expires_at <= (SELECT o.expires_at FROM kept_answer o WHERE o.subject = s.id AND o.box IS NOT NULL"
                 " ORDER BY o.expires_at DESC OFFSET $2 LIMIT 1)", "bytea int8", ""};
static const struct pg_statement kept_forget_sql = {
    "kept_forget", "DELETE FROM kept_answer WHERE ctid = ANY (ARRAY(SELECT k.ctid FROM kept_answer k WHERE k.expires_at <= now() LIMIT 10000 FOR UPDATE SKIP LOCKED))",
    "", ""};
static const struct pg_statement *const statements[] = {&kept_select_sql, &kept_claim_sql, &kept_fill_sql, &kept_thin_sql, &kept_forget_sql};
/* clang-format on */
const struct pg_table kept_answer_table = PG_TABLE(statements);

#define NEW_S 60 /* longer than a gateway works at an answer after its change */

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
    pg_add_int4(&arguments, KEPT_HOURS * 3600 - NEW_S);
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

static struct result thin(struct pg *pg, const uint8_t subject[32], struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_bytes(&arguments, of_digest(subject));
    pg_add_int8(&arguments, KEPT_MOST);
    return pg_run(pg, &kept_thin_sql, &arguments, &rows, err);
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
    TRY(pg_run(pg, &kept_fill_sql, &arguments, &rows, err));
    return thin(pg, subject, err);
}

struct result kept_answer_forget(struct pg *pg, struct error *err)
{
    return pg_run(pg, &kept_forget_sql, NULL, NULL, err);
}
