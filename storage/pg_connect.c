#include <poll.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "storage/pg_priv.h"

#define SERVER_VERSION_MIN 150000

/* A gateway that hangs in a transaction may hold the log's lock, so it loses its session before other gateways stop
 * waiting: in less than lock_timeout. JIT is off, because compiling a statement takes longer than running any of
 * ours. The time zone is UTC, where a day always has 24 hours. */
const struct pg_limits pg_limits_of_requests = {
    .connect_ms = 5000,
    .answer_ms = 10000,
    .session =
        "SET TimeZone = 'UTC'; SET statement_timeout = '8s'; SET lock_timeout = '5s'; SET default_transaction_isolation = 'read committed';"
        "SET idle_in_transaction_session_timeout = '3s'; SET client_connection_check_interval = '2s'; SET jit = off",
};

const struct pg_limits pg_limits_of_migrations = {
    .connect_ms = 5000,
    .answer_ms = 3600000,
    .session = "SET TimeZone = 'UTC'; SET statement_timeout = '59min'; SET lock_timeout = '60s';"
               "SET client_connection_check_interval = '2s'; SET client_min_messages = 'warning'",
};

static void drop_notice(void *context, const PGresult *notice)
{
    (void)context;
    (void)notice;
}

/* The connection string overrides the first rows, and the last rows override the connection string. */
static PGconn *start(const char *conninfo)
{
    static const char *const keys[] = {
        "connect_timeout",  "keepalives_idle",  "keepalives_interval",
        "keepalives_count", "tcp_user_timeout", "application_name",
        "dbname",           "client_encoding",  NULL,
    };
    const char *const values[] = {"5", "10", "5", "3", "10000", "sijil", conninfo, "UTF8", NULL};

    return PQconnectStartParams(keys, values, 1);
}

static struct result connect_within(struct pg *pg, int64_t deadline_ms, struct error *err)
{
    for (PostgresPollingStatusType next = PGRES_POLLING_WRITING; next != PGRES_POLLING_OK;) {
        if (next == PGRES_POLLING_FAILED) return pg_lost(pg, PQerrorMessage(pg->connection), err);
        TRY(pg_await(pg, next == PGRES_POLLING_READING ? POLLIN : POLLOUT, deadline_ms, err));
        next = PQconnectPoll(pg->connection);
    }
    return SUCCESS;
}

static const struct requirement {
    const char *setting, *why;
} requirements[] = {
    {"fsync", "fsync is off: a crash would lose what was acknowledged; set fsync = on"},
    {"full_page_writes", "full_page_writes is off: a crash could tear pages; set full_page_writes = on"},
    {"synchronous_commit", "synchronous_commit is off: a crash would lose what was acknowledged; set it to on"},
};

/* One row: version, whether the server is a standby, the settings in the order of `requirements`, and the backend. Not through the view
 * pg_stat_activity, which joins two catalogs to that function: on a new connection, that takes longer than all else here. */
static const char server_sql[] = "SELECT current_setting('server_version_num'), pg_is_in_recovery(), current_setting('fsync'),"
                                 " current_setting('full_page_writes'), current_setting('synchronous_commit'),"
                                 " current_setting('server_encoding'), pid, (extract(epoch FROM backend_start) * 1000000)::int8"
                                 " FROM pg_stat_get_activity(pg_backend_pid())";

static int64_t number_at(const PGresult *row, int column)
{
    uint64_t number = 0;

    (void)text_to_u64(bytes_of_text(PQgetvalue(row, 0, column)), INT64_MAX, &number);
    return (int64_t)number;
}

static struct result check_server(const PGresult *row, struct error *err)
{
    if (number_at(row, 0) < SERVER_VERSION_MIN)
        return failure(err, ERROR_INVALID, "PostgreSQL %s is too old: 15 or newer is needed", PQgetvalue(row, 0, 0));
    if (strcmp(PQgetvalue(row, 0, 1), "t") == 0)
        return failure(err, ERROR_UNAVAILABLE, "this PostgreSQL is a standby; connect to the primary");
    for (size_t i = 0; i < sizeof requirements / sizeof requirements[0]; i++)
        if (strcmp(PQgetvalue(row, 0, (int)i + 2), "off") == 0)
            return failure(err, ERROR_INVALID, "PostgreSQL's %s", requirements[i].why);
    if (strcmp(PQgetvalue(row, 0, 5), "UTF8") != 0)
        return failure(err, ERROR_INVALID, "the database's encoding is %s; it must be UTF8", PQgetvalue(row, 0, 5));
    return SUCCESS;
}

static struct result inspect_server(struct pg *pg, struct error *err)
{
    OWNED_RESULT row = NULL;

    TRY(pg_before_send(pg, err));
    if (!PQsendQuery(pg->connection, server_sql)) return pg_lost(pg, PQerrorMessage(pg->connection), err);
    TRY(pg_take(pg, "server settings", &row, err));
    if (PQntuples(row) != 1) return failure(err, ERROR_UNAVAILABLE, "PostgreSQL does not say who answers");
    TRY(check_server(row, err));
    pg->backend = (struct pg_backend){number_at(row, 6), number_at(row, 7)};
    return SUCCESS;
}

static struct result listen_again(struct pg *pg, struct error *err)
{
    for (size_t i = 0; i < pg->channel_count; i++) TRY(pg_send_listen(pg, pg->channels[i], err));
    return SUCCESS;
}

static struct result set_up(struct pg *pg, struct error *err)
{
    TRY(connect_within(pg, clock_monotonic_ms() + pg->limits->connect_ms, err));
    TRY(inspect_server(pg, err));
    TRY(pg_execute(pg, "session settings", pg->limits->session, err));
    TRY(pg_prepare_all(pg, err));
    return listen_again(pg, err);
}

struct result pg_reopen(struct pg *pg, struct error *err)
{
    pg_break(pg);
    pg->connection = start(pg->conninfo);
    if (pg->connection == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a connection to PostgreSQL");
    (void)PQsetNoticeReceiver(pg->connection, drop_notice, NULL);
    if (PQsetnonblocking(pg->connection, 1) != 0 || PQstatus(pg->connection) == CONNECTION_BAD)
        return pg_lost(pg, PQerrorMessage(pg->connection), err);

    const struct result ready = set_up(pg, err);
    if (!ready.ok) pg_break(pg); /* a partly prepared connection is of no use */
    return ready;
}

/* "5432", or one for each host: "5432,,5433". libpq checks them only when it connects. */
static bool are_ports(const char *ports)
{
    uint64_t number = 0;

    for (size_t length; ports != NULL && *ports != '\0'; ports += length + (ports[length] == ',')) {
        length = strcspn(ports, ",");
        const struct bytes port = {(const uint8_t *)ports, length};
        if (length > 0 && (!text_to_u64(port, UINT16_MAX, &number) || number == 0)) return false;
    }
    return true;
}

struct result pg_conninfo_check(const char *conninfo, bool *has_password_out, struct error *err)
{
    PQconninfoOption *options = PQconninfoParse(conninfo, NULL);

    if (options == NULL)
        return failure(err, ERROR_INVALID,
                       "no connection string: pairs name=value with spaces between, and values with spaces in single quotes");
    *has_password_out = false;
    struct result result = SUCCESS;
    for (const PQconninfoOption *option = options; option->keyword != NULL; option++) {
        if (strcmp(option->keyword, "password") == 0 && option->val != NULL) *has_password_out = true;
        if (strcmp(option->keyword, "port") == 0 && !are_ports(option->val))
            result = failure(err, ERROR_INVALID, "port: a number from 1 to 65535, or one for each host with commas between");
    }
    PQconninfoFree(options);
    return result;
}
