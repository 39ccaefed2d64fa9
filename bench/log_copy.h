/*
 * bench/log_copy.h -- PostgreSQL's COPY in its binary form, for benches that fill a log without a statement for each group of events.
 */
#pragma once

#include <libpq-fe.h>
#include <stddef.h>
#include <stdint.h>

/** A connection that copies rows into one table, inside a transaction. A failure ends the program. */
struct log_copy {
    PGconn *connection;
    uint8_t *rows;
    size_t length, room;
};

/** Connects, and begins a transaction. */
void log_copy_open(struct log_copy *copy, const char *conninfo);
/** One value: the first one of the first row; `sql` may have no parameters. */
PGresult *log_copy_ask(struct log_copy *copy, const char *sql);
/** Begins the copy. "audit_tile (level, idx, hashes, root)". */
void log_copy_begin(struct log_copy *copy, const char *table);
void log_copy_row(struct log_copy *copy, unsigned columns);
void log_copy_int4(struct log_copy *copy, int32_t value);
void log_copy_int8(struct log_copy *copy, int64_t value);
/** bytea or text. */
void log_copy_bytes(struct log_copy *copy, const void *data, size_t length);
void log_copy_text(struct log_copy *copy, const char *text);
void log_copy_int8_array(struct log_copy *copy, const int64_t *values, size_t count);
/** Ends the copy; the transaction stays open. */
void log_copy_end(struct log_copy *copy);
/** Commits, and closes the connection. */
void log_copy_commit(struct log_copy *copy);
