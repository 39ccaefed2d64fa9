/*
 * tests/support/database.h -- a separate database for each test.
 *
 * sijil_database_test() starts one PostgreSQL for a whole ctest run (tests/support/postgres.sh); each
 * database_new() is a fresh copy of a template with all migrations applied. Any failure fails the test at once, so
 * no function here returns an error.
 */
#pragma once

#include <sys/types.h>

#include "base/owned.h"

struct database;

/** With all migrations applied. */
struct database *database_new(void);
/** Owned by sijil_owner, but without any table of ours: for tests of the migration runner. */
struct database *database_new_empty(void);
/** Connection strings, valid until database_free(): as the application, as the owner of the tables. */
const char *database_app(const struct database *database);
const char *database_owner(const struct database *database);

/** Runs a statement as the superuser, without the program's knowledge. */
void database_execute(struct database *database, const char *sql);
/** The first value of the result as text; "" for NULL or no row. Valid until the next call. */
const char *database_ask(struct database *database, const char *sql);
/** Ends all other connections to the database, as a dying server would. */
void database_disconnect_all(struct database *database);
/** Call it after the server was killed and started again. */
void database_reconnect(struct database *database);
/** The postmaster's process id. To stop a single backend instead, ask it for pg_backend_pid(). */
pid_t database_server(void);

/** Drops the database, even while others are connected. */
void database_free(struct database *database);
DEFINE_OWNED(database);
