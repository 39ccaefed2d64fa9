/*
 * storage/migrate.h -- brings a database to the schema that this program was built with.
 *
 * The files of migrations/ are part of the program. They are applied in order, forward only, each in a transaction of its
 * own, under an advisory lock, as the role that owns the tables (docs/database.md). The table schema_migration has each
 * applied file with its SHA-256: a file that was edited afterwards is refused.
 */
#pragma once

#include "base/result.h"

/** One file; the table of all files ends with a NULL name. */
struct migration {
    unsigned number;  /* rising */
    const char *name; /* "0001_tenancy" */
    const char *sql;
    const char *checksum; /* SHA-256 of the file, lower-case hex */
};

struct migration_report {
    unsigned applied; /* in this run */
    unsigned version; /* the number of the last migration that the database has */
};

/** The number of the last migration that this program has. */
unsigned storage_schema_version(void);

/**
 * Applies the missing migrations. `conninfo` names the owner of the tables. ERROR_CONFLICT: the database is newer than this
 * program, or has an edited or unknown migration; or a migration is missing while gateways have sessions, which would
 * continue with a wrong schema. ERROR_INVALID: a migration failed, and changed nothing. ERROR_UNAVAILABLE: no database, or
 * another migrator held the lock for a minute.
 */
RESULT storage_migrate(const char *conninfo, struct migration_report *report_out, struct error *err);
/** As storage_migrate(), with other files, for tests. */
RESULT storage_migrate_with(const char *conninfo, const struct migration *migrations, struct migration_report *report_out,
                            struct error *err);

/**
 * ERROR_CONFLICT, with a remedy, if the schema of the database is older or newer than this program, or comes from other
 * files. For the application's role; changes nothing.
 */
RESULT storage_check_schema(const char *conninfo, struct error *err);
/** ERROR_DENIED if the role owns the tables or is a superuser: such a gateway could rewrite the log. */
RESULT storage_check_role(const char *conninfo, struct error *err);
/** ERROR_DENIED if the role does not own the database, and so can't migrate. Changes nothing. */
RESULT storage_check_owner(const char *conninfo, struct error *err);
