#include "storage/create.h"

#include "storage/pg_priv.h"

static const struct pg_statement database_count_sql = {"database_count",
                                                       "SELECT count(*) FROM pg_database WHERE datname = 'sijil'", "", "int8"};
static const struct pg_statement *const statements[] = {
    &database_count_sql,
};
static const struct pg_table table = PG_TABLE(statements);

static const char roles_sql[] = "DO $$ DECLARE role text; BEGIN"
                                " FOREACH role IN ARRAY ARRAY['sijil_owner', 'sijil_app'] LOOP"
                                "  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role) THEN"
                                "   EXECUTE format('CREATE ROLE %I LOGIN', role);"
                                "  END IF;"
                                " END LOOP; END $$";
static const char database_sql[] = "CREATE DATABASE sijil OWNER sijil_owner ENCODING 'UTF8' TEMPLATE template0";
static const char rights_sql[] = "REVOKE CONNECT, TEMPORARY ON DATABASE sijil FROM PUBLIC;"
                                 "GRANT CONNECT ON DATABASE sijil TO sijil_app";

struct result storage_create_database(const char *conninfo, struct error *err)
{
    const struct pg_table *const tables[] = {&table, NULL};
    OWNED(pg) *pg = NULL;
    OWNED(pg_rows) *rows = NULL;

    TRY(pg_open_with(conninfo, tables, &pg_limits_of_migrations, &pg, err));
    TRY(pg_execute(pg, "roles", roles_sql, err));
    TRY(pg_run(pg, &database_count_sql, NULL, &rows, err));
    if (pg_int8(rows, 0, 0) == 0) TRY(pg_execute(pg, "database", database_sql, err));
    return pg_execute(pg, "rights", rights_sql, err);
}
