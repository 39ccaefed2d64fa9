#include "tests/support/database.h"

#include <libpq-fe.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/unit.h"

#define CONNINFO_SIZE 512

struct database {
    char name[64]; /* an identifier of PostgreSQL: 63 letters */
    char app[CONNINFO_SIZE], owner[CONNINFO_SIZE];
    PGconn *super;
    char *answer;
};

/* One line of a file that postgres.sh left in the directory that CMake named in the environment. */
static void read_state(const char *file, char *line_out, size_t size)
{
    const char *directory = getenv("SIJIL_TEST_POSTGRES");
    char path[CONNINFO_SIZE];

    if (directory == NULL) fail_msg("run this with ctest, which starts PostgreSQL and sets SIJIL_TEST_POSTGRES");
    (void)snprintf(path, sizeof path, "%s/%s", directory, file);
    FILE *stream = fopen(path, "re");
    if (stream == NULL) fail_msg("no %s: PostgreSQL was not started (run this with ctest)", path);
    assert_non_null(fgets(line_out, (int)size, stream));
    (void)fclose(stream);
    line_out[strcspn(line_out, "\n")] = '\0';
}

static PGconn *connect_as_superuser(const char *database)
{
    char socket[256], conninfo[CONNINFO_SIZE];

    read_state("socket", socket, sizeof socket);
    (void)snprintf(conninfo, sizeof conninfo, "host=%s user=postgres dbname=%s", socket, database);
    PGconn *connection = PQconnectdb(conninfo);
    if (PQstatus(connection) != CONNECTION_OK) fail_msg("%s", PQerrorMessage(connection));
    return connection;
}

static PGresult *execute(PGconn *connection, const char *sql)
{
    PGresult *result = PQexec(connection, sql);
    const ExecStatusType status = PQresultStatus(result);

    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) fail_msg("%s: %s", sql, PQerrorMessage(connection));
    return result;
}

static void execute_once(const char *sql)
{
    PGconn *connection = connect_as_superuser("postgres");

    PQclear(execute(connection, sql));
    PQfinish(connection);
}

static struct database *new_from(const char *template)
{
    static unsigned made;
    char socket[256], sql[CONNINFO_SIZE];
    struct database *database = calloc(1, sizeof *database);

    assert_non_null(database);
    read_state("socket", socket, sizeof socket);
    (void)snprintf(database->name, sizeof database->name, "test_%d_%u", (int)getpid(), ++made);
    /* A copy of files costs half of the default strategy, which writes each page to the log. */
    (void)snprintf(sql, sizeof sql, "CREATE DATABASE %s TEMPLATE %s STRATEGY FILE_COPY OWNER sijil_owner", database->name,
                   template);
    execute_once(sql);
    (void)snprintf(database->app, sizeof database->app, "host=%s user=sijil_app dbname=%s", socket, database->name);
    (void)snprintf(database->owner, sizeof database->owner, "host=%s user=sijil_owner dbname=%s", socket, database->name);
    database->super = connect_as_superuser(database->name);
    return database;
}

struct database *database_new(void)
{
    return new_from("sijil_template");
}

struct database *database_new_empty(void)
{
    return new_from("template0");
}

const char *database_app(const struct database *database)
{
    return database->app;
}

const char *database_owner(const struct database *database)
{
    return database->owner;
}

void database_execute(struct database *database, const char *sql)
{
    PQclear(execute(database->super, sql));
}

const char *database_ask(struct database *database, const char *sql)
{
    PGresult *result = execute(database->super, sql);
    const bool is_there = PQntuples(result) > 0 && PQnfields(result) > 0;

    free(database->answer);
    database->answer = strdup(is_there ? PQgetvalue(result, 0, 0) : "");
    assert_non_null(database->answer);
    PQclear(result);
    return database->answer;
}

void database_disconnect_all(struct database *database)
{
    database_execute(database, "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
                               " WHERE datname = current_database() AND pid <> pg_backend_pid()");
}

void database_reconnect(struct database *database)
{
    PQreset(database->super);
    if (PQstatus(database->super) != CONNECTION_OK) fail_msg("%s", PQerrorMessage(database->super));
}

pid_t database_server(void)
{
    char line[32];

    read_state("pid", line, sizeof line);
    return (pid_t)strtol(line, NULL, 10);
}

void database_free(struct database *database)
{
    char sql[CONNINFO_SIZE];

    if (database == NULL) return;
    PQfinish(database->super);
    (void)snprintf(sql, sizeof sql, "DROP DATABASE %s WITH (FORCE)", database->name);
    execute_once(sql);
    free(database->answer);
    free(database);
}
