#include "storage/migrate.h"

#include <string.h>
#include <time.h>

#include "storage/migrations_priv.h"
#include "storage/pg_priv.h"

/* Our key of PostgreSQL's advisory locks: "sijilmig" in ASCII. */
#define LOCK_SQL "SELECT pg_advisory_xact_lock(8316866972155963751)"

/* Sessions of a gateway that was killed end within 2 s (docs/database.md). */
#define GATEWAYS_END_MS 5000
#define PAUSE_MS        100

/* The owner's table; the application may only read it. */
static const char table_sql[] = "CREATE TABLE IF NOT EXISTS schema_migration ("
                                " number int PRIMARY KEY, name text NOT NULL UNIQUE, checksum text NOT NULL,"
                                " applied_at timestamptz NOT NULL DEFAULT now());"
                                "GRANT SELECT ON schema_migration TO sijil_app";

static const struct pg_statement schema_migration_list_sql = {
    "schema_migration_list", "SELECT number, name, checksum FROM schema_migration ORDER BY number", "", "int4 text text"};
static const struct pg_statement *const read_statements[] = {
    &schema_migration_list_sql,
};
static const struct pg_statement schema_migration_insert_sql = {
    "schema_migration_insert", "INSERT INTO schema_migration (number, name, checksum) VALUES ($1, $2, $3)", "int4 text text", ""};
static const struct pg_statement *const write_statements[] = {
    &schema_migration_insert_sql,
};
static const struct pg_statement schema_gateways_sql = {
    "schema_gateways", "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND usename = 'sijil_app'", "",
    "int8"};
static const struct pg_statement *const gateway_statements[] = {
    &schema_gateways_sql,
};
static const struct pg_statement schema_role_owns_sql = {
    "schema_role_owns",
    "SELECT pg_has_role(current_user, relowner, 'MEMBER'), current_user::text FROM pg_class"
    " WHERE oid = 'schema_migration'::regclass",
    "", "bool text"};
static const struct pg_statement *const role_statements[] = {
    &schema_role_owns_sql,
};
static const struct pg_statement schema_owner_owns_sql = {
    "schema_owner_owns",
    "SELECT pg_has_role(current_user, datdba, 'USAGE'), current_user::text, current_database()::text FROM pg_database"
    " WHERE datname = current_database()",
    "", "bool text text"};
static const struct pg_statement *const owner_statements[] = {
    &schema_owner_owns_sql,
};
static const struct pg_table gateway_table = PG_TABLE(gateway_statements);
static const struct pg_table role_table = PG_TABLE(role_statements);
static const struct pg_table owner_table = PG_TABLE(owner_statements);
static const struct pg_table read_table = PG_TABLE(read_statements);
static const struct pg_table write_table = PG_TABLE(write_statements);

unsigned storage_schema_version(void)
{
    unsigned version = 0;

    for (const struct migration *each = storage_migrations; each->name != NULL; each++) version = each->number;
    return version;
}

static struct result check_applied(const struct pg_rows *rows, size_t row, const struct migration *expected, struct error *err)
{
    const long long number = pg_int8(rows, row, 0);
    const char *name = pg_text(rows, row, 1);

    if (expected->name == NULL)
        return failure(err, ERROR_CONFLICT,
                       "the database has migration %s, which this program does not know: it is newer;"
                       " install the sijil that made it, or a later one",
                       name);
    if (number != expected->number || strcmp(name, expected->name) != 0)
        return failure(err, ERROR_CONFLICT, "the database's migration %lld is %s, this program's is %s", number, name,
                       expected->name);
    if (strcmp(pg_text(rows, row, 2), expected->checksum) != 0)
        return failure(err, ERROR_CONFLICT,
                       "migration %s was edited after it had been applied: restore the file and rebuild,"
                       " and put the change into a new migration",
                       name);
    return SUCCESS;
}

/* The number of `migrations` that the database has. They must be the first ones, and unchanged. */
static struct result count_applied(struct pg *pg, const struct migration *migrations, size_t *count_out, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;

    TRY(pg_run(pg, &schema_migration_list_sql, NULL, &rows, err));
    const size_t count = pg_rows_count(rows);
    for (size_t i = 0; i < count; i++) TRY(check_applied(rows, i, &migrations[i], err));
    *count_out = count;
    return SUCCESS;
}

static struct result record(struct pg *pg, const struct migration *migration, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_int4(&arguments, (int32_t)migration->number);
    pg_add_text(&arguments, migration->name);
    pg_add_text(&arguments, migration->checksum);
    return pg_run(pg, &schema_migration_insert_sql, &arguments, NULL, err);
}

/* The lock ends with the transaction, so another migrator may run between two files. Each transaction therefore asks which file
 * is next. */
static struct result apply_next(struct pg *pg, const struct migration *migrations, bool *applied_out, unsigned *version_out,
                                struct error *err)
{
    size_t count = 0;

    TRY(pg_execute(pg, "lock of the migrations", LOCK_SQL, err));
    TRY(count_applied(pg, migrations, &count, err));
    const struct migration *next = &migrations[count];
    if (next->name != NULL) {
        TRY(pg_execute(pg, next->name, next->sql, err));
        TRY(record(pg, next, err));
    }
    TRY(pg_commit(pg, err));
    *applied_out = next->name != NULL;
    *version_out = count == 0 ? 0 : migrations[count - 1].number;
    return SUCCESS;
}

static struct result apply_all(struct pg *pg, const struct migration *migrations, struct migration_report *report_out,
                               struct error *err)
{
    struct migration_report report = {0};

    for (bool applied = true; applied; report.applied += applied) {
        TRY(pg_begin(pg, err));
        const struct result done = apply_next(pg, migrations, &applied, &report.version, err);
        if (!done.ok) {
            pg_rollback(pg);
            return done;
        }
    }
    *report_out = report;
    return SUCCESS;
}

/* On a connection of its own, before the statements that need the table are prepared. */
static struct result make_table(const char *conninfo, struct error *err)
{
    OWNED(pg) *pg = NULL;

    TRY(pg_open_with(conninfo, NULL, &pg_limits_of_migrations, &pg, err));
    TRY(pg_begin(pg, err));
    TRY(pg_execute(pg, "lock of the migrations", LOCK_SQL, err));
    TRY(pg_execute(pg, "schema_migration", table_sql, err));
    return pg_commit(pg, err);
}

/* A gateway checks the schema only when it starts, so no gateway may run now. The loop is not in a transaction: inside one
 * PostgreSQL would count the sessions only once. */
static struct result wait_for_gateways(struct pg *pg, struct error *err)
{
    const struct timespec pause = {.tv_nsec = PAUSE_MS * 1000000L};

    for (unsigned waited_ms = 0;; waited_ms += PAUSE_MS) {
        OWNED(pg_rows) *rows = NULL;
        TRY(pg_run(pg, &schema_gateways_sql, NULL, &rows, err));
        const long long sessions = pg_int8(rows, 0, 0);
        if (sessions == 0) return SUCCESS;
        if (waited_ms >= GATEWAYS_END_MS)
            return failure(err, ERROR_CONFLICT, "the role sijil_app has sessions (%lld): stop all gateways, then migrate",
                           sessions);
        (void)nanosleep(&pause, NULL);
    }
}

static struct result refuse_beside_gateways(struct pg *pg, const struct migration *migrations, struct error *err)
{
    size_t count = 0;

    TRY(count_applied(pg, migrations, &count, err));
    return migrations[count].name == NULL ? SUCCESS : wait_for_gateways(pg, err);
}

struct result storage_migrate_with(const char *conninfo, const struct migration *migrations, struct migration_report *report_out,
                                   struct error *err)
{
    const struct pg_table *const tables[] = {&read_table, &write_table, &gateway_table, NULL};
    OWNED(pg) *pg = NULL;

    TRY(make_table(conninfo, err));
    TRY(pg_open_with(conninfo, tables, &pg_limits_of_migrations, &pg, err));
    TRY(refuse_beside_gateways(pg, migrations, err));
    return apply_all(pg, migrations, report_out, err);
}

struct result storage_migrate(const char *conninfo, struct migration_report *report_out, struct error *err)
{
    return storage_migrate_with(conninfo, storage_migrations, report_out, err);
}

struct result storage_check_schema(const char *conninfo, struct error *err)
{
    const struct pg_table *const tables[] = {&read_table, NULL};
    OWNED(pg) *pg = NULL;
    size_t count = 0;

    const struct result opened = pg_open(conninfo, tables, &pg, err);
    if (!opened.ok && err->kind == ERROR_INVALID && strstr(err->message, "schema_migration") != NULL)
        return failure(err, ERROR_CONFLICT, "the database has no tables of sijil: run sijild --migrate");
    if (!opened.ok) return opened;
    TRY(count_applied(pg, storage_migrations, &count, err));
    if (storage_migrations[count].name != NULL)
        return failure(err, ERROR_CONFLICT, "the database lacks migration %s: run sijild --migrate",
                       storage_migrations[count].name);
    return SUCCESS;
}

struct result storage_check_role(const char *conninfo, struct error *err)
{
    const struct pg_table *const tables[] = {&role_table, NULL};
    OWNED(pg) *pg = NULL;
    OWNED(pg_rows) *rows = NULL;

    TRY(pg_open(conninfo, tables, &pg, err));
    TRY(pg_run(pg, &schema_role_owns_sql, NULL, &rows, err));
    if (pg_rows_count(rows) == 1 && !pg_bool(rows, 0, 0)) return SUCCESS;
    return failure(err, ERROR_DENIED,
                   "the role \"%.63s\" owns the tables, or is a superuser: a gateway must not be able to change the "
                   "audit log. Use the application's role, sijil_app",
                   pg_rows_count(rows) == 1 ? pg_text(rows, 0, 1) : "");
}

struct result storage_check_owner(const char *conninfo, struct error *err)
{
    const struct pg_table *const tables[] = {&owner_table, NULL};
    OWNED(pg) *pg = NULL;
    OWNED(pg_rows) *rows = NULL;

    TRY(pg_open(conninfo, tables, &pg, err));
    TRY(pg_run(pg, &schema_owner_owns_sql, NULL, &rows, err));
    if (pg_rows_count(rows) == 1 && pg_bool(rows, 0, 0)) return SUCCESS;
    return failure(err, ERROR_DENIED, "the role \"%.63s\" does not own the database \"%.63s\": use the owner, sijil_owner",
                   pg_rows_count(rows) == 1 ? pg_text(rows, 0, 1) : "", pg_rows_count(rows) == 1 ? pg_text(rows, 0, 2) : "");
}
