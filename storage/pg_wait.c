#include <errno.h>
#include <poll.h>
#include <string.h>

#include "base/clock.h"
#include "base/fault.h"
#include "storage/pg_priv.h"

void pg_break(struct pg *pg)
{
    PQfinish(pg->connection);
    pg->connection = NULL;
    pg->in_transaction = false;
    pg->is_uncertain = false;
    pg->commits = false;
    pg->pipelined = 0;
}

struct result pg_lost(struct pg *pg, const char *why, struct error *err)
{
    const enum error_kind kind = pg->is_uncertain ? ERROR_UNCERTAIN : ERROR_UNAVAILABLE;
    const struct result lost = failure(err, kind, PG_CONNECTION_FAILED "%.*s%s", (int)strcspn(why, "\n"), why,
                                       kind == ERROR_UNCERTAIN ? " (whether the change was made is not known)" : "");

    pg_break(pg); /* last, because `why` may be libpq's memory */
    return lost;
}

/* The server's last message is read before the end of the connection. */
void pg_notice_loss(struct pg *pg)
{
    struct pollfd idle = {.fd = pg_socket(pg), .events = POLLIN};

    while (pg->connection != NULL && !pg->in_transaction && poll(&idle, 1, 0) > 0)
        if (PQconsumeInput(pg->connection) != 1 || PQstatus(pg->connection) != CONNECTION_OK) pg_break(pg);
}

int64_t pg_deadline(const struct pg *pg)
{
    return clock_monotonic_ms() + pg->limits->answer_ms;
}

struct result pg_before_send(struct pg *pg, struct error *err)
{
    if (pg->connection == NULL) return failure(err, ERROR_UNAVAILABLE, PG_CONNECTION_FAILED "the connection is broken");
    if (fault_is_due(FAULT_QUERY)) return pg_lost(pg, "a failure that a test asked for", err);
    return SUCCESS;
}

struct result pg_await(struct pg *pg, short events, int64_t deadline_ms, struct error *err)
{
    struct pollfd socket = {.fd = PQsocket(pg->connection), .events = events};

    for (;;) {
        const int64_t left_ms = deadline_ms - clock_monotonic_ms();
        if (left_ms <= 0) return pg_lost(pg, "no answer in time", err);
        const int ready = poll(&socket, 1, left_ms > 60000 ? 60000 : (int)left_ms);
        if (ready > 0) return SUCCESS;
        if (ready < 0 && errno != EINTR) return pg_lost(pg, strerror(errno), err);
    }
}

struct result pg_next(struct pg *pg, int64_t deadline_ms, PGresult **result_out, struct error *err)
{
    for (;;) {
        const int unsent = PQflush(pg->connection);
        if (unsent < 0) return pg_lost(pg, PQerrorMessage(pg->connection), err);
        if (!PQisBusy(pg->connection)) break;
        TRY(pg_await(pg, unsent > 0 ? POLLIN | POLLOUT : POLLIN, deadline_ms, err));
        if (!PQconsumeInput(pg->connection)) return pg_lost(pg, PQerrorMessage(pg->connection), err);
    }
    *result_out = PQgetResult(pg->connection);
    return SUCCESS;
}

/* Reads all results of one statement, or of several statements that were sent as one text; the first failure counts. */
static struct result drain(struct pg *pg, const char *name, int64_t deadline_ms, struct error *err)
{
    struct result outcome = SUCCESS;
    struct error later;

    for (;;) {
        OWNED_RESULT rest = NULL;
        TRY(pg_next(pg, deadline_ms, &rest, outcome.ok ? err : &later));
        if (rest == NULL) return outcome;
        const struct result checked = pg_check(pg, rest, name, outcome.ok ? err : &later);
        if (outcome.ok) outcome = checked;
        if (pg->connection == NULL) return outcome;
    }
}

struct result pg_take(struct pg *pg, const char *name, PGresult **result_out, struct error *err)
{
    OWNED_RESULT result = NULL;
    const int64_t deadline_ms = pg_deadline(pg);
    struct error later;

    if (fault_is_due(FAULT_QUERY)) return pg_lost(pg, "a failure that a test asked for", err);
    TRY(pg_next(pg, deadline_ms, &result, err));
    if (result == NULL) return pg_lost(pg, PQerrorMessage(pg->connection), err);

    const struct result outcome = pg_check(pg, result, name, err);
    if (pg->connection == NULL) return outcome;
    const struct result drained = drain(pg, name, deadline_ms, outcome.ok ? err : &later);
    if (!outcome.ok) return outcome;
    TRY(drained);
    *result_out = GIVE(result);
    return SUCCESS;
}
