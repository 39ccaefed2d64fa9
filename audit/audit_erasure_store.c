#include <string.h>

#include "audit/erasure_priv.h"
#include "storage/pg_table.h"

/* clang-format off */
static const struct pg_statement erasure_row_sql = {
    "erasure_row", "SELECT asked, begun, ended, key_version, payloads, erased_at FROM audit_erasure WHERE pseudonym = $1", "text",
    "int8 int8 int8 int4 int8 timestamptz"};
static const struct pg_statement erasure_event_sql = {
    "erasure_event", "SELECT e.leaf FROM audit_erasure a JOIN audit_entry e ON e.seq = a.begun WHERE a.pseudonym = $1", "text", "bytea"};
static const struct pg_statement erasure_blind_sql = {
    "erasure_blind", "SELECT count(*) FROM audit_blind b JOIN audit_subject s ON s.id = b.subject JOIN audit_payload p ON p.subject = s.subject WHERE p.seq = $1",
    "int8", "int8"};
static const struct pg_statement erasure_thin_sql = {
    "erasure_thin", "SELECT gone FROM erasure_thin($1, $2, $3, $4) AS gone", "text int8 int8 int4", "int8"};
static const struct pg_statement erasure_begin_sql = {
    "erasure_begin", "SELECT 1::int8 FROM erasure_begin($1, $2, $3, $4) AS done", "text int8 int8 int8", "int8"};
static const struct pg_statement erasure_rename_sql = {
    "erasure_rename", "SELECT changed FROM erasure_rename($1, $2, $3) AS changed", "text text text", "int8"};
static const struct pg_statement erasure_forget_sql = {
    "erasure_forget", "SELECT gone FROM erasure_forget($1, $2) AS gone", "text int8[]", "int8"};
static const struct pg_statement erasure_end_sql = {
    "erasure_end", "SELECT changed FROM erasure_end($1, $2) AS changed", "text int8", "int8"};
static const struct pg_statement *const statements[] = {
    &erasure_row_sql, &erasure_event_sql, &erasure_blind_sql, &erasure_thin_sql, &erasure_begin_sql, &erasure_rename_sql,
    &erasure_forget_sql, &erasure_end_sql,
};
/* clang-format on */
const struct pg_table audit_erasure_table = PG_TABLE(statements);

struct result erasure_select_row(struct pg *pg, const char *pseudonym, struct erasure_row *row_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    struct erasure_row row = {.asked = 0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_text(&arguments, pseudonym);
    TRY(pg_run(pg, &erasure_row_sql, &arguments, &rows, err));
    if (pg_rows_count(rows) == 0) return failure(err, ERROR_NOT_FOUND, "this erasure has not begun");
    memcpy(row.pseudonym, pseudonym, sizeof row.pseudonym);
    row.asked = (uint64_t)pg_int8(rows, 0, 0);
    row.begun = (uint64_t)pg_int8(rows, 0, 1);
    row.ended = pg_is_null(rows, 0, 2) ? 0 : (uint64_t)pg_int8(rows, 0, 2);
    row.key_version = (uint32_t)pg_int8(rows, 0, 3);
    row.payloads = (uint64_t)pg_int8(rows, 0, 4);
    row.erased_ms = pg_time_ms(rows, 0, 5);
    *row_out = row;
    return SUCCESS;
}

struct result erasure_select_event(struct pg *pg, const char *pseudonym, struct pg_rows **rows_out, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_text(&arguments, pseudonym);
    return pg_run(pg, &erasure_event_sql, &arguments, rows_out, err);
}

static struct result run_number(struct pg *pg, const struct pg_statement *statement, const struct pg_arguments *arguments,
                                int64_t *number_out, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;

    TRY(pg_run(pg, statement, arguments, &rows, err));
    *number_out = pg_int8(rows, 0, 0);
    return SUCCESS;
}

struct result erasure_select_blind(struct pg *pg, uint64_t witness, int64_t *count_out, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_int8(&arguments, (int64_t)witness);
    return run_number(pg, &erasure_blind_sql, &arguments, count_out, err);
}

struct result erasure_delete_blind(struct pg *pg, const struct erasure_person *person, uint64_t begun, int64_t *gone_out,
                                   struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_text(&arguments, person->pseudonym);
    pg_add_int8(&arguments, (int64_t)person->witness);
    pg_add_int8(&arguments, (int64_t)begun);
    pg_add_int4(&arguments, ERASURE_STEP);
    return run_number(pg, &erasure_thin_sql, &arguments, gone_out, err);
}

struct result erasure_delete_key(struct pg *pg, const struct erasure_begin *begin, uint64_t begun, struct error *err)
{
    struct pg_arguments arguments = {0};
    int64_t done = 0;

    pg_add_text(&arguments, begin->pseudonym);
    pg_add_int8(&arguments, (int64_t)begin->witness);
    pg_add_int8(&arguments, (int64_t)begin->asked);
    pg_add_int8(&arguments, (int64_t)begun);
    return run_number(pg, &erasure_begin_sql, &arguments, &done, err);
}

struct result erasure_rename_roles(struct pg *pg, const struct erasure_person *person, struct error *err)
{
    struct pg_arguments arguments = {0};
    int64_t changed = 0;

    pg_add_text(&arguments, person->pseudonym);
    pg_add_text(&arguments, person->issuer);
    pg_add_text(&arguments, person->subject);
    return run_number(pg, &erasure_rename_sql, &arguments, &changed, err);
}

struct result erasure_delete_payloads(struct pg *pg, const char *pseudonym, const int64_t *numbers, size_t count,
                                      struct error *err)
{
    struct pg_arguments arguments = {0};
    int64_t gone = 0;

    pg_add_text(&arguments, pseudonym);
    pg_add_int8_array(&arguments, numbers, count);
    return run_number(pg, &erasure_forget_sql, &arguments, &gone, err);
}

struct result erasure_close(struct pg *pg, const char *pseudonym, uint64_t ended, struct error *err)
{
    struct pg_arguments arguments = {0};
    int64_t changed = 0;

    pg_add_text(&arguments, pseudonym);
    pg_add_int8(&arguments, (int64_t)ended);
    TRY(run_number(pg, &erasure_end_sql, &arguments, &changed, err));
    return changed == 1 ? SUCCESS : failure(err, ERROR_CONFLICT, "this erasure has not begun, or has ended already");
}
