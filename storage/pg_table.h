/*
 * storage/pg_table.h -- how a *_store.c defines its statements. Only those files may include this (tests/lint).
 *
 *     static const struct pg_statement tag_delete_sql = {"tag_delete", "DELETE FROM tag WHERE ...", "uuid text", ""};
 *     static const struct pg_statement *const statements[] = {&tag_delete_sql};
 *     const struct pg_table tag_statements = PG_TABLE(statements);
 *
 * The object is static and called NAME_sql; one table of the file lists it (tests/lint/statements.py).
 */
#pragma once

#include "storage/lookup.h"
#include "storage/pg.h"

/** One statement. Types are words of: int8 int4 bool text bytea uuid timestamptz int8[] text[] bytea[] uuid[]. */
struct pg_statement {
    const char *name; /* unique over all tables: "blob_find" */
    const char
        *sql; /* $1 .. $n; a statement that begins with SELECT must change no row, not even by a function; use WITH for that */
    const char *parameters; /* "uuid text int8"; "" for none */
    const char *columns;    /* of the result: "uuid bytea"; "" for none */
};

struct pg_table {
    const struct pg_statement *const *statements;
    size_t count;
};

/** The connection of a lookup, for functions that find the id of a named thing. */
struct pg *lookup_connection(struct lookup *lookup);

#define PG_TABLE(array)                                                    \
    {                                                                      \
        .statements = (array), .count = sizeof(array) / sizeof((array)[0]) \
    }
