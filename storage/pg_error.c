#include <stdio.h>
#include <string.h>

#include "storage/pg_priv.h"

/* Each row has the beginning of an SQLSTATE; the first matching row counts. */
static const struct {
    const char *state;
    enum error_kind kind;
} kinds[] = {
    {"08", ERROR_UNAVAILABLE},    /* connection */
    {"22021", ERROR_INVALID},     /* bytes that are not UTF-8 */
    {"23001", ERROR_CONFLICT},    /* another row needs this one */
    {"23503", ERROR_CONFLICT},    /* a row that it needs is gone, or another row needs this one */
    {"23505", ERROR_CONFLICT},    /* there is such a row */
    {"23P01", ERROR_CONFLICT},    /* there is a row that excludes it */
    {"23", ERROR_INVALID},        /* the schema allows no such row: program and schema do not fit, or a limit (pg_breaks()) */
    {"25006", ERROR_UNAVAILABLE}, /* read-only: a standby, until it is promoted */
    {"28", ERROR_UNAVAILABLE},    /* role or password */
    {"3D000", ERROR_UNAVAILABLE}, /* no such database */
    {"40003", ERROR_UNCERTAIN},   /* statement completion unknown */
    {"40", ERROR_CONFLICT},       /* serialization, deadlock */
    {"53100", ERROR_FULL},        /* disk full */
    {"53", ERROR_UNAVAILABLE},    /* memory, connections */
    {"54", ERROR_LIMIT},          /* too large for the program */
    {"55P03", ERROR_UNAVAILABLE}, /* lock not available in time */
    {"57014", ERROR_UNAVAILABLE}, /* statement_timeout */
    {"57P", ERROR_UNAVAILABLE},   /* shutting down, crashed, starting */
    {"58P", ERROR_CORRUPT},       /* a file of the database is missing */
    {"58", ERROR_UNAVAILABLE},    /* I/O error */
    {"XX001", ERROR_CORRUPT},     /* a page fails its checksum */
    {"XX002", ERROR_CORRUPT},     /* an index is broken */
};

static enum error_kind kind_of(const char *state)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strncmp(state, kinds[i].state, strlen(kinds[i].state)) == 0) return kinds[i].kind;
    return ERROR_INVALID;
}

static bool ends_the_session(const PGresult *result)
{
    const char *severity = PQresultErrorField(result, PG_DIAG_SEVERITY_NONLOCALIZED);
    return severity != NULL && (strcmp(severity, "FATAL") == 0 || strcmp(severity, "PANIC") == 0);
}

static void note_constraint(struct pg *pg, const PGresult *result)
{
    const char *constraint = PQresultErrorField(result, PG_DIAG_CONSTRAINT_NAME);

    (void)snprintf(pg->constraint, sizeof pg->constraint, "%s", constraint == NULL ? "" : constraint);
}

bool pg_breaks(const struct pg *pg, const char *constraint)
{
    return strcmp(pg->constraint, constraint) == 0;
}

struct result pg_check(struct pg *pg, const PGresult *result, const char *name, struct error *err)
{
    const ExecStatusType status = PQresultStatus(result);
    if (status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK) return SUCCESS;

    if (status == PGRES_PIPELINE_ABORTED) return failure(err, ERROR_INVALID, "an earlier statement failed");

    /* Only the primary message, because the detail may quote a row. */
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *message = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    if (state == NULL || PQstatus(pg->connection) == CONNECTION_BAD || ends_the_session(result))
        return pg_lost(pg, message != NULL ? message : PQresultErrorMessage(result), err);

    pg->is_uncertain = false;
    note_constraint(pg, result);
    return failure(err, kind_of(state), PG_STATEMENT_FAILED "%s: %s (%s)", name, message == NULL ? "?" : message, state);
}
