/*
 * storage/migrate.h -- brings a database to the schema that this program was built with.
 *
 * The files of migrations/ are part of the program. They are applied in order, forward only, each in a
 * transaction of its own, under an advisory lock, as the role that owns the tables (docs/database.md). What
 * was applied is kept with its SHA-256 in the table schema_migration: a file that was edited afterwards is
 * refused.
 */
#pragma once

#include "base/result.h"

/** One file; the table of all ends with a NULL name. */
struct migration {
    unsigned number;  /* rising */
    const char *name; /* "0001_tenancy" */
    const char *sql;
    const char *checksum; /* SHA-256 of the file, lower-case hex */
};

struct migration_report {
    unsigned applied; /* now */
    unsigned version; /* the number of the last one that the database has */
};

/** The number of the last migration that this program has. */
unsigned storage_schema_version(void);

/**
 * Applies what is missing. `conninfo` names the owner of the tables. ERROR_CONFLICT: the database is newer
 * than this program, or has an edited or unknown migration; or something is missing and gateways have sessions
 * in it: they would go on with a schema that is not theirs. ERROR_INVALID: a migration failed, and left
 * nothing. ERROR_UNAVAILABLE: no database, or another migrator held the lock for a minute.
 */
RESULT storage_migrate(const char *conninfo, struct migration_report *report_out, struct error *err);
/** The same with other files, for tests. */
RESULT storage_migrate_with(const char *conninfo, const struct migration *migrations,
                            struct migration_report *report_out, struct error *err);

/**
 * Refuses (ERROR_CONFLICT, with the way out) a database whose schema is older or newer than this program, or
 * has other files. For the application's role; changes nothing.
 */
RESULT storage_check_schema(const char *conninfo, struct error *err);
/** Refuses (ERROR_DENIED) to serve as a role that owns the tables, or may do as it likes: it could rewrite the log. */
RESULT storage_check_role(const char *conninfo, struct error *err);
/** Refuses (ERROR_DENIED) a role that can't migrate, because it does not own the database. Changes nothing. */
RESULT storage_check_owner(const char *conninfo, struct error *err);
