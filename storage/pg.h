/*
 * storage/pg.h -- PostgreSQL, through prepared statements only.
 *
 * SQL is in *_store.c files, as objects that are private to their file (storage/pg_table.h), so no other file can run them.
 * A connection prepares the tables of statements that it is given, and checks the parameter and column types of each
 * statement against the live schema, before the statement first runs. No SQL text is built at run time. All values are sent in binary. A connection belongs
 * to one thread at a time.
 */
#pragma once

#include "base/bytes.h"
#include "base/owned.h"
#include "base/uuid.h"

struct pg;
struct pg_statement;
struct pg_table;

/* Prefixes of messages that quote PostgreSQL or libpq. Such a message may name tables, roles and addresses, so it is for the
 * log, not for clients. */
#define PG_STATEMENT_FAILED  "PostgreSQL, "
#define PG_CONNECTION_FAILED "PostgreSQL: "

/**
 * Connects, sets statement and lock timeouts, and prepares and checks all statements of the NULL-terminated `tables`.
 * ERROR_UNAVAILABLE if the server can't be reached. ERROR_INVALID if the server has fsync or synchronous_commit off, or if
 * a statement does not fit the schema ("run sijild --migrate").
 */
RESULT pg_open(const char *conninfo, const struct pg_table *const *tables, struct pg **pg_out, struct error *err);
/**
 * As pg_open(), but each statement is prepared and checked when it first runs, in one more round trip. A program with many
 * connections opens one with pg_open(), which checks all statements, and the others with this: each would cost the
 * server a fiftieth of a second, and memory, for statements of which it runs few. Such a connection has no pipelines.
 */
RESULT pg_open_lazily(const char *conninfo, const struct pg_table *const *tables, struct pg **pg_out, struct error *err);
/** Checks the form of a connection string, without a connection. The error quotes nothing, because any part of it may be a
 *  password. */
RESULT pg_conninfo_check(const char *conninfo, bool *has_password_out, struct error *err);
/** Whether the connection broke: then pg_reopen() is needed. */
bool pg_is_broken(const struct pg *pg);
/**
 * For a connection that was idle: checks, without a round trip, whether the server has closed it. If so, the connection is
 * marked as broken before a statement is lost.
 */
void pg_notice_loss(struct pg *pg);
/** Connects and prepares again. An open transaction is lost. */
RESULT pg_reopen(struct pg *pg, struct error *err);
/**
 * ERROR_INVALID if the connection string names several hosts, and the server, when this connection was made, waited for no standby: if it is lost, what was
 * acknowledged last is lost with it. For a warning: the last server of a group must still serve.
 */
RESULT pg_standby_check(const struct pg *pg, struct error *err);
/**
 * If the connection string names several hosts: returns when the standby has all that this connection has seen. What is seen may be on the primary alone,
 * because PostgreSQL ends a commit that waits for the standby when its backend is ended or the server starts again, and does not take it back. Outside of a
 * transaction. ERROR_UNAVAILABLE: no standby has confirmed it in time, and the connection is broken.
 */
RESULT pg_await_standby(struct pg *pg, struct error *err);
int pg_socket(const struct pg *pg);
/** The server process of a connection; all 0: none. Process numbers are used again, and a second container may have the same number now. */
struct pg_backend {
    int64_t id, began_us;
};
struct pg_backend pg_backend(const struct pg *pg);

/** The arguments of one execution, at most PG_PARAMETERS_MAX. Views must live until pg_run() returns. */
#define PG_PARAMETERS_MAX 24
struct pg_arguments {
    size_t count;
    struct pg_argument {
        char type; /* set by the functions below */
        bool is_null;
        int64_t integer;
        struct bytes bytes;
        const struct bytes *array;
        const int64_t *integers;
        size_t array_count;
    } values[PG_PARAMETERS_MAX];
};
void pg_add_int8(struct pg_arguments *arguments, int64_t value);
void pg_add_int4(struct pg_arguments *arguments, int32_t value);
void pg_add_bool(struct pg_arguments *arguments, bool value);
void pg_add_text(struct pg_arguments *arguments, const char *value);        /* NULL is SQL's NULL */
void pg_add_bytes(struct pg_arguments *arguments, struct bytes value);      /* bytea or text; NULL data is empty */
void pg_add_null(struct pg_arguments *arguments);                           /* of any type */
void pg_add_uuid(struct pg_arguments *arguments, const struct uuid *value); /* NULL is SQL's NULL */
void pg_add_time(struct pg_arguments *arguments, int64_t wall_ms);
void pg_add_text_array(struct pg_arguments *arguments, const struct bytes *values, size_t count);
void pg_add_bytes_array(struct pg_arguments *arguments, const struct bytes *values, size_t count);
void pg_add_uuid_array(struct pg_arguments *arguments, const struct bytes *values, size_t count);
void pg_add_int8_array(struct pg_arguments *arguments, const int64_t *values, size_t count);

struct pg_rows;

/**
 * Executes a statement that this connection has prepared; another statement aborts the program. *rows_out may be NULL if no
 * rows are wanted. Errors: ERROR_UNAVAILABLE (lost connection, timeout), ERROR_FULL (disk full), ERROR_UNCERTAIN (lost
 * during a COMMIT, or during a change outside a transaction), ERROR_CONFLICT (constraint, deadlock, serialization),
 * ERROR_CORRUPT (checksum of a page), ERROR_INVALID (anything else: a bug or a broken schema). No call waits longer than 10
 * s: after that the connection is broken. After an error inside a transaction only pg_rollback() is possible.
 */
RESULT pg_run(struct pg *pg, const struct pg_statement *statement, const struct pg_arguments *arguments,
              struct pg_rows **rows_out, struct error *err);
/** Rows affected by INSERT, UPDATE or DELETE, or returned. */
int64_t pg_rows_affected(const struct pg_rows *rows);
size_t pg_rows_count(const struct pg_rows *rows);
bool pg_is_null(const struct pg_rows *rows, size_t row, size_t column);
/** The type must be the declared one (asserted). Views live as long as `rows`. NULL reads as 0, false or empty. */
int64_t pg_int8(const struct pg_rows *rows, size_t row, size_t column); /* also int4 */
bool pg_bool(const struct pg_rows *rows, size_t row, size_t column);
const char *pg_text(const struct pg_rows *rows, size_t row, size_t column);
struct bytes pg_bytes(const struct pg_rows *rows, size_t row, size_t column);
struct uuid pg_uuid(const struct pg_rows *rows, size_t row, size_t column);
int64_t pg_time_ms(const struct pg_rows *rows, size_t row, size_t column);
void pg_rows_free(struct pg_rows *rows);
DEFINE_OWNED(pg_rows);

/**
 * Several statements in one round trip (libpq's pipeline mode). Results come in order; the first error ends the pipeline.
 * Between the first add and the run no other function may be called. An add that fails breaks the connection, because the
 * statements before it must not take effect.
 */
RESULT pg_pipeline_add(struct pg *pg, const struct pg_statement *statement, const struct pg_arguments *arguments,
                       struct error *err);
/** Sends the statements and returns a pg_rows for each in rows_out[0 .. count-1]; on failure frees them and sets NULL. */
RESULT pg_pipeline_run(struct pg *pg, struct pg_rows **rows_out, size_t count, struct error *err);
/** BEGIN as the first and COMMIT as the last statement of a pipeline, each with a pg_rows of its own. They are prepared
 *  with the tables, so a connection without tables has no pipelines. If the run fails but the connection lives,
 *  pg_rollback() ends the transaction. */
RESULT pg_pipeline_begin(struct pg *pg, struct error *err);
RESULT pg_pipeline_commit(struct pg *pg, struct error *err);
/** Whether the statement that was refused last would break this constraint. For a CHECK that is a limit, which callers meet. */
bool pg_breaks(const struct pg *pg, const char *constraint);
/** The rows that pg_run() has changed, plus its failed statements. If this number did not grow, the transaction is unchanged. */
uint64_t pg_rows_touched(const struct pg *pg);

RESULT pg_begin(struct pg *pg, struct error *err);
/** Reads only, with one view of the data (REPEATABLE READ). End it with pg_commit() or pg_rollback(). */
RESULT pg_begin_snapshot(struct pg *pg, struct error *err);
/** ERROR_UNCERTAIN if the answer was lost: the transaction may or may not be durable. */
RESULT pg_commit(struct pg *pg, struct error *err);
/** Never fails: if the rollback fails, the connection is broken. */
void pg_rollback(struct pg *pg);

/**
 * pg_wait_notify() waits up to timeout_ms for a NOTIFY on a channel that pg_listen() named (a literal: the pointer is
 * kept). Call pg_listen() once for each channel; pg_reopen() listens again. Notifications
 * between the break and pg_reopen() are lost, so read the data again.
 */
RESULT pg_listen(struct pg *pg, const char *channel, struct error *err);
RESULT pg_wait_notify(struct pg *pg, unsigned timeout_ms, bool *notified_out, struct error *err);

void pg_free(struct pg *pg);
DEFINE_OWNED(pg);
