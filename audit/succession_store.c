#include <string.h>

#include "audit/succession.h"
#include "base/text.h"
#include "storage/pg_table.h"

/* clang-format off */
static const struct pg_statement succession_head_sql = {
    "succession_head", "SELECT coalesce(nullif(name, ''), origin), begins FROM audit_log", "", "text int8"};
static const struct pg_statement succession_pins_sql = {
    "succession_pins",
    "SELECT DISTINCT ON (kind) kind::int8, sequence, digest FROM (SELECT kind, sequence, digest FROM document_pin"
    " WHERE kind > 1 AND sequence < (SELECT size FROM audit_log)"
    " UNION ALL SELECT kind, version, digest FROM document WHERE kind = 1) p ORDER BY kind, sequence DESC",
    "", "int8 int8 bytea"};
static const struct pg_statement *const statements[] = {&succession_head_sql, &succession_pins_sql};
static const struct pg_statement succession_take_sql = {
    "succession_take", "WITH done AS (SELECT audit_succeed($1, $2, $3) AS it) SELECT it FROM done", "text int8 bytea", "bool"};
static const struct pg_statement *const owner_statements[] = {&succession_take_sql};
/* clang-format on */
const struct pg_table audit_succession_table = PG_TABLE(statements);
const struct pg_table audit_succession_owner_table = PG_TABLE(owner_statements);

struct result audit_log_name(struct pg *pg, struct audit_log_name *name_out, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;
    struct audit_log_name name;

    TRY(pg_run(pg, &succession_head_sql, NULL, &rows, err));
    if (pg_rows_count(rows) != 1 || !text_copy(name.name, sizeof name.name, pg_text(rows, 0, 0)))
        return failure(err, ERROR_FORKED, "the state of the log is missing from the database");
    name.begins = (uint64_t)pg_int8(rows, 0, 1);
    *name_out = name;
    return SUCCESS;
}

struct result audit_stored_pins(struct pg *pg, struct document_pin pins_out[DOCUMENT_KINDS_MAX], struct error *err)
{
    OWNED(pg_rows) *rows = NULL;

    TRY(pg_run(pg, &succession_pins_sql, NULL, &rows, err));
    memset(pins_out, 0, DOCUMENT_KINDS_MAX * sizeof pins_out[0]);
    for (size_t i = 0; i < pg_rows_count(rows); i++) {
        const int64_t kind = pg_int8(rows, i, 0);
        const struct bytes digest = pg_bytes(rows, i, 2);
        if (kind < 1 || kind > DOCUMENT_KINDS_MAX || digest.length != DOCUMENT_DIGEST_SIZE) continue;
        pins_out[kind - 1].epoch = (uint64_t)pg_int8(rows, i, 1);
        memcpy(pins_out[kind - 1].digest, digest.data, DOCUMENT_DIGEST_SIZE);
    }
    return SUCCESS;
}

struct result audit_succeed(struct pg *owner, const struct succession *succession, struct bytes statement, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_text(&arguments, succession->after.origin);
    pg_add_int8(&arguments, (int64_t)succession->after.size);
    pg_add_bytes(&arguments, statement);
    return pg_run(owner, &succession_take_sql, &arguments, &rows, err);
}
