#include <string.h>

#include "audit/erasure_priv.h"
#include "base/text.h"
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
static const struct pg_statement erasure_role_sql = {
    "erasure_role",
    "SELECT role, person FROM (SELECT binding_id AS role, 0::int8 AS person, created_at FROM binding WHERE issuer = $1 AND subject = $2"
    " UNION ALL SELECT NULL, person, created_at FROM scim_user WHERE issuer = $1 AND external_id = $2) AS named ORDER BY person, created_at, role LIMIT 1",
    "text text", "uuid int8"};
static const struct pg_statement erasure_name_sql = {
    "erasure_name", "INSERT INTO audit_named (pseudonym, subject, binding_id, person) VALUES ($1, $2, $3, nullif($4, 0)) ON CONFLICT DO NOTHING",
    "text bytea uuid int8", ""};
static const struct pg_statement erasure_named_sql = {
    "erasure_named",
    "SELECT w.issuer, w.name, w.subject, greatest((SELECT max(greatest(o.created_at, o.revoked_at, CASE WHEN o.expires_at <= now() THEN o.expires_at END))"
    " FROM binding o WHERE o.issuer = w.issuer AND o.subject = w.name),"
    " (SELECT greatest(u.created_at, u.ended_at) FROM scim_user u WHERE u.issuer = w.issuer AND u.external_id = w.name))"
    " FROM (SELECT coalesce(b.issuer, u.issuer) AS issuer, coalesce(b.subject, u.external_id) AS name, n.subject FROM audit_named n"
    " LEFT JOIN binding b USING (binding_id) LEFT JOIN scim_user u USING (person) WHERE n.pseudonym = $1) AS w",
    "text", "text text bytea timestamptz"};
static const struct pg_statement erasure_begin_named_sql = {
    "erasure_begin_named", "SELECT 1::int8 FROM erasure_begin_named($1, $2, $3) AS done", "text int8 int8", "int8"};
static const struct pg_statement *const statements[] = {
    &erasure_row_sql, &erasure_event_sql, &erasure_blind_sql, &erasure_thin_sql, &erasure_begin_sql, &erasure_rename_sql,
    &erasure_forget_sql, &erasure_end_sql, &erasure_role_sql, &erasure_name_sql, &erasure_named_sql, &erasure_begin_named_sql,
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

struct result erasure_delete_named_key(struct pg *pg, const struct erasure_begin *begin, uint64_t begun, struct error *err)
{
    struct pg_arguments arguments = {0};
    int64_t done = 0;

    pg_add_text(&arguments, begin->pseudonym);
    pg_add_int8(&arguments, (int64_t)begin->asked);
    pg_add_int8(&arguments, (int64_t)begun);
    return run_number(pg, &erasure_begin_named_sql, &arguments, &done, err);
}

/* ---- a person that never acted ---- */

struct result erasure_select_role(struct pg *pg, const char *const names[2], struct erasure_named *named_out, bool *is_found_out,
                                  struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_text(&arguments, names[0]);
    pg_add_text(&arguments, names[1]);
    TRY(pg_run(pg, &erasure_role_sql, &arguments, &rows, err));
    *is_found_out = pg_rows_count(rows) == 1 && text_copy(named_out->issuer, sizeof named_out->issuer, names[0]);
    if (!*is_found_out) return SUCCESS;
    named_out->person = pg_int8(rows, 0, 1);
    if (named_out->person == 0) named_out->binding = pg_uuid(rows, 0, 0);
    return SUCCESS;
}

struct result erasure_insert_named(struct pg *pg, const char *pseudonym, const struct erasure_named *named, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_text(&arguments, pseudonym);
    pg_add_bytes(&arguments, (struct bytes){named->index, sizeof named->index});
    pg_add_uuid(&arguments, named->person == 0 ? &named->binding : NULL);
    pg_add_int8(&arguments, named->person);
    return pg_run(pg, &erasure_name_sql, &arguments, NULL, err);
}

struct result erasure_select_named(struct pg *pg, const char *pseudonym, struct erasure_person *person_out, uint8_t index_out[32],
                                   struct error *err)
{
    struct erasure_person person = {.witness = ERASURE_NO_WITNESS};
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_text(&arguments, pseudonym);
    TRY(pg_run(pg, &erasure_named_sql, &arguments, &rows, err));
    if (pg_rows_count(rows) == 0 || !text_copy(person.pseudonym, sizeof person.pseudonym, pseudonym) ||
        !text_copy(person.issuer, sizeof person.issuer, pg_text(rows, 0, 0)) ||
        !text_copy(person.subject, sizeof person.subject, pg_text(rows, 0, 1)))
        return failure(err, ERROR_NOT_FOUND, "no event has this pseudonym");
    const struct bytes index = pg_bytes(rows, 0, 2);
    if (index.length != 32) return failure(err, ERROR_CORRUPT, "the row of a person without events is damaged");
    memcpy(index_out, index.data, 32);
    person.newest_ms = pg_time_ms(rows, 0, 3);
    *person_out = person;
    erasure_person_wipe(&person);
    return SUCCESS;
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
