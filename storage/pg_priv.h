/*
 * storage/pg_priv.h -- shared by storage/pg*.c.
 *
 * The connection is libpq's asynchronous one. Only pg_await() waits, and it has a deadline. A connection that missed its
 * deadline, or whose peer is gone, is closed at once (pg_break): it is then "broken".
 */
#pragma once

#include <libpq-fe.h>

#include "storage/pg_table.h"

#define PG_BOOL        16
#define PG_BYTEA       17
#define PG_INT8        20
#define PG_INT4        23
#define PG_TEXT        25
#define PG_BYTEA_ARRAY 1001
#define PG_TEXT_ARRAY  1009
#define PG_INT8_ARRAY  1016
#define PG_TIMESTAMPTZ 1184
#define PG_UUID        2950
#define PG_UUID_ARRAY  2951

/** The time limits of a connection, and the settings of its session. */
struct pg_limits {
    unsigned connect_ms, answer_ms;
    const char *session; /* SQL */
};
/** For requests: 10 s, so no thread hangs on a server that does not answer. */
extern const struct pg_limits pg_limits_of_requests;
/** For migrations, which may rewrite a large table. */
extern const struct pg_limits pg_limits_of_migrations;

struct pg_prepared {
    const struct pg_statement *statement;
    size_t count;
    Oid types[PG_PARAMETERS_MAX];
    bool is_change; /* anything except a SELECT, or the BEGIN of a transaction */
    bool is_ready;  /* prepared on the present connection, and checked */
};

#define PG_CHANNELS_MAX 4 /* no caller listens to more than two */

struct pg {
    PGconn *connection; /* NULL: broken */
    struct pg_backend backend;
    struct pg_backend awaiting; /* which waited for a standby in vain, and may wait still; all 0: none */
    char *conninfo;
    unsigned host_count, first_host; /* in the connection string, and which one the next attempt begins with */
    const struct pg_limits *limits;
    struct pg_prepared *prepared; /* sorted by the statement's address */
    size_t prepared_count;
    bool is_lazy;     /* prepares a statement when it first runs */
    bool has_failed;  /* the last attempt to connect */
    bool has_standby; /* a commit waits for a standby: synchronous_standby_names */
    bool in_transaction;
    bool is_uncertain;   /* a running statement may have become durable although its answer is lost */
    size_t pipelined;    /* added and not yet run */
    bool commits;        /* the pipeline ends in COMMIT */
    uint64_t touched;    /* rows that pg_run() changed, and failures */
    char constraint[64]; /* that the newest refused statement would break (NAMEDATALEN); "": none */
    const char *channels[PG_CHANNELS_MAX];
    size_t channel_count;
};

struct pg_rows {
    PGresult *result;
};

/* pg_connect.c */
RESULT pg_open_any(struct pg *pg, struct error *err);

/* pg_type.c */

#define PG_COLUMNS_MAX 32 /* of one result: a row of a job has 27 */
/** The types in "uuid text int8". ERROR_INVALID for an unknown word or more than `maximum`. */
RESULT pg_types_of(const char *words, size_t maximum, Oid *types_out, size_t *count_out, struct error *err);
const char *pg_type_name(Oid type); /* "int8"; "another type" for a type that we don't use */

/* pg_value.c */

/** Arguments in PostgreSQL's binary format. `values` point into `text`. */
struct pg_encoded {
    struct buffer text;
    const char *values[PG_PARAMETERS_MAX];
    int lengths[PG_PARAMETERS_MAX], formats[PG_PARAMETERS_MAX];
};
/** Asserts that the arguments fit the statement. */
RESULT pg_encode(const struct pg_prepared *prepared, const struct pg_arguments *arguments, struct pg_encoded *encoded_out,
                 struct error *err);
void pg_encoded_done(struct pg_encoded *encoded);

/** Made before anything is sent, so lack of memory can't hide the server's answer. */
RESULT pg_rows_new(struct pg_rows **rows_out, struct error *err);

/* pg_wait.c */

void pg_break(struct pg *pg);
/** Breaks the connection and returns the error: ERROR_UNCERTAIN if the running statement may have taken effect. */
RESULT pg_lost(struct pg *pg, const char *why, struct error *err);
/** Waits for `events` (of poll) on the socket. Breaks the connection when the deadline passes. */
RESULT pg_await(struct pg *pg, short events, int64_t deadline_ms, struct error *err);
/** The next result of libpq; NULL ends the results of a statement. The caller clears it. */
RESULT pg_next(struct pg *pg, int64_t deadline_ms, PGresult **result_out, struct error *err);
/** The only result of a statement, checked. */
RESULT pg_take(struct pg *pg, const char *name, PGresult **result_out, struct error *err);
int64_t pg_deadline(const struct pg *pg);
/** Called before anything is sent: a fault on demand breaks the connection here. */
RESULT pg_before_send(struct pg *pg, struct error *err);

static inline void pg_result_free_owned(PGresult **result)
{
    PQclear(*result);
}
#define OWNED_RESULT __attribute__((cleanup(pg_result_free_owned))) PGresult *

/* pg_error.c */

/** Fails if the result is an error. An error that ends the connection breaks it. */
RESULT pg_check(struct pg *pg, const PGresult *result, const char *name, struct error *err);

/* pg_prepare.c */

/** Collects the statements of all tables. ERROR_INVALID for a name that occurs twice. */
RESULT pg_collect(struct pg *pg, const struct pg_table *const *tables, struct error *err);
/** Prepares them on the connection and compares their types with the schema; a lazy connection does so later. */
RESULT pg_prepare_all(struct pg *pg, struct error *err);
/** The same for one statement, if that was not done yet. Breaks the connection if it fails. */
RESULT pg_make_ready(struct pg *pg, const struct pg_prepared *prepared, struct error *err);
/** Aborts the program if no table of this connection has the statement. */
const struct pg_prepared *pg_find(const struct pg *pg, const struct pg_statement *statement);
extern const struct pg_statement pg_begin_sql, pg_commit_sql;

/* pg.c */

RESULT pg_open_with(const char *conninfo, const struct pg_table *const *tables, const struct pg_limits *limits,
                    struct pg **pg_out, struct error *err);
/** Runs SQL text that is part of the program (a migration, a setting); drops the results. */
RESULT pg_execute(struct pg *pg, const char *name, const char *sql, struct error *err);
RESULT pg_send_listen(struct pg *pg, const char *channel, struct error *err);
