#include "storage/pg.h"

#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "storage/pg_hosts_priv.h"
#include "storage/pg_priv.h"

#include <poll.h>

static struct result open_new(const char *conninfo, const struct pg_table *const *tables, const struct pg_limits *limits,
                              bool is_lazy, struct pg **pg_out, struct error *err)
{
    OWNED(pg) *pg = memory_zeroed(1, sizeof *pg);

    if (pg == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a connection to PostgreSQL");
    pg->limits = limits;
    pg->is_lazy = is_lazy;
    pg->conninfo = memory_copy_text(conninfo, strlen(conninfo));
    if (pg->conninfo == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a connection to PostgreSQL");
    TRY(pg_collect(pg, tables, err));
    pg->host_count = pg_hosts_count(conninfo);
    TRY(pg_open_any(pg, err));
    *pg_out = GIVE(pg);
    return SUCCESS;
}

struct result pg_open_with(const char *conninfo, const struct pg_table *const *tables, const struct pg_limits *limits,
                           struct pg **pg_out, struct error *err)
{
    return open_new(conninfo, tables, limits, false, pg_out, err);
}

struct result pg_open(const char *conninfo, const struct pg_table *const *tables, struct pg **pg_out, struct error *err)
{
    return open_new(conninfo, tables, &pg_limits_of_requests, false, pg_out, err);
}

struct result pg_open_lazily(const char *conninfo, const struct pg_table *const *tables, struct pg **pg_out, struct error *err)
{
    return open_new(conninfo, tables, &pg_limits_of_requests, true, pg_out, err);
}

bool pg_is_broken(const struct pg *pg)
{
    return pg->connection == NULL;
}

int pg_socket(const struct pg *pg)
{
    return pg->connection == NULL ? -1 : PQsocket(pg->connection);
}

struct pg_backend pg_backend(const struct pg *pg)
{
    static const struct pg_backend none;

    return pg->connection == NULL ? none : pg->backend;
}

static struct result send_one(struct pg *pg, const struct pg_prepared *prepared, const struct pg_arguments *arguments,
                              struct error *err)
{
    struct pg_encoded encoded;

    TRY(pg_encode(prepared, arguments, &encoded, err));
    const struct result ready = pg_before_send(pg, err);
    if (ready.ok) pg->is_uncertain = prepared->is_change && !pg->in_transaction;
    const bool sent = ready.ok && PQsendQueryPrepared(pg->connection, prepared->statement->name, (int)prepared->count,
                                                      encoded.values, encoded.lengths, encoded.formats, 1) == 1;
    pg_encoded_done(&encoded);
    TRY(ready);
    return sent ? SUCCESS : pg_lost(pg, PQerrorMessage(pg->connection), err);
}

struct result pg_run(struct pg *pg, const struct pg_statement *statement, const struct pg_arguments *arguments,
                     struct pg_rows **rows_out, struct error *err)
{
    static const struct pg_arguments none;
    const struct pg_prepared *prepared = pg_find(pg, statement);

    assert(pg->pipelined == 0);
    OWNED(pg_rows) *rows = NULL;
    TRY(pg_rows_new(&rows, err));
    TRY(pg_make_ready(pg, prepared, err));
    TRY(send_one(pg, prepared, arguments == NULL ? &none : arguments, err));
    const struct result taken = pg_take(pg, statement->name, &rows->result, err);
    pg->touched += taken.ok ? 0 : 1;
    if (!taken.ok) return taken;
    pg->is_uncertain = false;
    if (prepared->is_change) pg->touched += (uint64_t)pg_rows_affected(rows);
    if (rows_out != NULL) *rows_out = GIVE(rows);
    return SUCCESS;
}

uint64_t pg_rows_touched(const struct pg *pg)
{
    return pg->touched;
}

struct result pg_execute(struct pg *pg, const char *name, const char *sql, struct error *err)
{
    OWNED_RESULT result = NULL;

    TRY(pg_before_send(pg, err));
    if (!PQsendQuery(pg->connection, sql)) return pg_lost(pg, PQerrorMessage(pg->connection), err);
    return pg_take(pg, name, &result, err);
}

static struct result begin(struct pg *pg, const char *sql, struct error *err)
{
    assert(!pg->in_transaction && pg->pipelined == 0);
    TRY(pg_execute(pg, "BEGIN", sql, err));
    pg->in_transaction = true;
    return SUCCESS;
}

struct result pg_begin(struct pg *pg, struct error *err)
{
    return begin(pg, "BEGIN", err);
}

struct result pg_begin_snapshot(struct pg *pg, struct error *err)
{
    return begin(pg, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", err);
}

struct result pg_commit(struct pg *pg, struct error *err)
{
    OWNED_RESULT result = NULL;

    assert(pg->pipelined == 0);
    TRY(pg_before_send(pg, err));
    assert(pg->in_transaction);
    pg->is_uncertain = true;
    if (!PQsendQuery(pg->connection, "COMMIT")) return pg_lost(pg, PQerrorMessage(pg->connection), err);
    const struct result answered = pg_take(pg, "COMMIT", &result, err);
    pg->is_uncertain = false;
    pg->in_transaction = false; /* a COMMIT that fails rolls back */
    TRY(answered);
    if (strcmp(PQcmdStatus(result), "COMMIT") != 0)
        return failure(err, ERROR_INVALID, "a statement of the transaction had failed: nothing was committed");
    return SUCCESS;
}

void pg_rollback(struct pg *pg)
{
    struct error ignored;

    if (pg->pipelined > 0) pg_break(pg);
    if (!pg->in_transaction) return;
    if (!pg_execute(pg, "ROLLBACK", "ROLLBACK", &ignored).ok) pg_break(pg);
    pg->in_transaction = false;
}

struct result pg_send_listen(struct pg *pg, const char *channel, struct error *err)
{
    struct buffer OWNED_BUFFER sql = BUFFER(128);

    /* LISTEN takes no parameters; a channel is a constant in our source. */
    assert(strspn(channel, "abcdefghijklmnopqrstuvwxyz_") == strlen(channel) && strlen(channel) < 64);
    TRY(buffer_format(&sql, err, "LISTEN %s", channel));
    return pg_execute(pg, "LISTEN", buffer_text(&sql), err);
}

struct result pg_listen(struct pg *pg, const char *channel, struct error *err)
{
    size_t known = 0;

    while (known < pg->channel_count && strcmp(pg->channels[known], channel) != 0) known++;
    assert(known < PG_CHANNELS_MAX);
    TRY(pg_send_listen(pg, channel, err));
    pg->channels[known] = channel;
    if (known == pg->channel_count) pg->channel_count++;
    return SUCCESS;
}

/* Takes all notifications that have arrived. */
static bool take_notifications(struct pg *pg)
{
    bool any = false;

    for (PGnotify *notify; (notify = PQnotifies(pg->connection)) != NULL; any = true) PQfreemem(notify);
    return any;
}

struct result pg_wait_notify(struct pg *pg, unsigned timeout_ms, bool *notified_out, struct error *err)
{
    const int64_t deadline_ms = clock_monotonic_ms() + timeout_ms;

    TRY(pg_before_send(pg, err));
    for (;;) {
        if (!PQconsumeInput(pg->connection)) return pg_lost(pg, PQerrorMessage(pg->connection), err);
        const bool notified = take_notifications(pg);
        const int64_t left_ms = deadline_ms - clock_monotonic_ms();
        if (notified || left_ms <= 0) {
            *notified_out = notified;
            return SUCCESS;
        }
        struct pollfd socket = {.fd = PQsocket(pg->connection), .events = POLLIN};
        (void)poll(&socket, 1, (int)left_ms); /* after an interruption the loop looks again */
    }
}

void pg_free(struct pg *pg)
{
    if (pg == NULL) return;
    PQfinish(pg->connection);
    free(pg->prepared);
    free(pg->conninfo);
    free(pg);
}
