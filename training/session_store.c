/* The table `run_session`: the newest session of each runner's key. */
#include <stdio.h>

#include "storage/pg_table.h"
#include "training/run_priv.h"

/* clang-format off */
static const struct pg_statement run_session_note_sql = {
    "run_session_note",
    "INSERT INTO run_session (key, runner, session, generation) VALUES ($1, $2, $3, $4)"
    " ON CONFLICT (key) DO UPDATE SET session = $3, generation = $4, heard_at = now() WHERE run_session.suspended_at IS NULL"
    " AND run_session.runner = $2 AND ($4 > run_session.generation OR ($4 = run_session.generation AND run_session.session = $3))",
    "text uuid bytea int8", ""};
static const struct pg_statement run_session_why_sql = {
    "run_session_why", "SELECT coalesce(suspended, '') FROM run_session WHERE key = $1", "text", "text"};
static const struct pg_statement run_session_suspend_sql = {
    "run_session_suspend",
    "WITH gone AS (UPDATE run_attempt SET deadline = now() WHERE key = $1 AND ended_at IS NULL)"
    " UPDATE run_session SET suspended_at = now(), suspended = $2 WHERE key = $1 AND suspended_at IS NULL",
    "text text", ""};
static const struct pg_statement run_session_find_sql = {
    "run_session_find",
    "SELECT generation = $4, generation > $4 FROM run_session WHERE key = $1 AND runner = $2 AND session = $3 AND suspended_at IS NULL",
    "text uuid bytea int8", "bool bool"};
static const struct pg_statement *const statements[] = {
    &run_session_note_sql, &run_session_why_sql, &run_session_suspend_sql, &run_session_find_sql,
};
/* clang-format on */
const struct pg_table run_session_table = PG_TABLE(statements);

struct result run_session_suspended(struct pg *pg, const char *key, char reason_out[RUN_REASON_SIZE], struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_text(&arguments, key);
    TRY(pg_run(pg, &run_session_why_sql, &arguments, &rows, err));
    (void)snprintf(reason_out, RUN_REASON_SIZE, "%s", pg_rows_count(rows) == 0 ? "" : pg_text(rows, 0, 0));
    return SUCCESS;
}

struct result run_session_note(struct pg *pg, const struct run_session *session, bool *is_only_out,
                               char reason_out[RUN_REASON_SIZE], struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_text(&arguments, session->key);
    pg_add_uuid(&arguments, &session->runner);
    pg_add_bytes(&arguments, (struct bytes){session->session, sizeof session->session});
    pg_add_int8(&arguments, session->generation);
    TRY(pg_run(pg, &run_session_note_sql, &arguments, &rows, err));
    *is_only_out = pg_rows_affected(rows) == 1;
    return *is_only_out ? SUCCESS : run_session_suspended(pg, session->key, reason_out, err);
}

struct result run_session_find(struct lookup *lookup, const struct run_session *session, enum run_session_place *place_out,
                               struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_text(&arguments, session->key);
    pg_add_uuid(&arguments, &session->runner);
    pg_add_bytes(&arguments, (struct bytes){session->session, sizeof session->session});
    pg_add_int8(&arguments, session->generation);
    TRY(pg_run(lookup_connection(lookup), &run_session_find_sql, &arguments, &rows, err));
    *place_out = RUN_SESSION_NEW;
    if (pg_rows_count(rows) == 1 && pg_bool(rows, 0, 0)) *place_out = RUN_SESSION_KNOWN;
    if (pg_rows_count(rows) == 1 && pg_bool(rows, 0, 1)) *place_out = RUN_SESSION_OVERTAKEN;
    return SUCCESS;
}

struct result run_session_suspend(struct pg *pg, const char *key, const char *reason, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_text(&arguments, key);
    pg_add_text(&arguments, reason);
    return pg_run(pg, &run_session_suspend_sql, &arguments, NULL, err);
}
