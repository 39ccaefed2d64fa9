#include <poll.h>
#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "storage/pg_hosts_priv.h"
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

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* The connection string overrides the first rows, and the last rows override the connection string. */
static PGconn *start(const struct pg *pg)
{
    static const char *const names[] = {
        "connect_timeout",
        "keepalives_idle",
        "keepalives_interval",
        "keepalives_count",
        "tcp_user_timeout",
        "application_name",
        "dbname",
        "client_encoding",
        NULL,
        NULL,
        NULL,
        NULL,
    };
    const char *values[COUNT_OF(names)] = {"5", "10", "5", "3", "10000", "sijil", pg->conninfo, "UTF8"};
    const char *keys[COUNT_OF(names)];
    struct pg_hosts hosts;
    size_t count = 8;

    memcpy(keys, names, sizeof keys);
    pg_hosts_turn(pg->conninfo, pg->host_count, pg->first_host, &hosts);
    for (size_t i = 0; i < PG_HOST_LISTS; i++) {
        if (hosts.lists[i] == NULL) continue;
        keys[count] = hosts.keywords[i];
        values[count++] = hosts.lists[i];
    }
    PGconn *connection = PQconnectStartParams(keys, values, 1);
    pg_hosts_done(&hosts);
    return connection;
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
                                 " current_setting('server_encoding'), pid, (extract(epoch FROM backend_start) * 1000000)::int8,"
                                 " current_setting('synchronous_standby_names')"
                                 " FROM pg_stat_get_activity(pg_backend_pid())";

static int64_t number_at(const PGresult *row, int column)
{
    uint64_t number = 0;

    (void)text_to_u64(bytes_of_text(PQgetvalue(row, 0, column)), INT64_MAX, &number);
    return (int64_t)number;
}

/* Whoever names several hosts wants a standby to take over: it must have what was acknowledged. Without synchronous_standby_names nobody waits for a standby: that is a
 * warning (pg_standby_check()), because the last server of a group must still serve. */
static struct result check_standby(const struct pg *pg, const char *synchronous_commit, struct error *err)
{
    if (pg->host_count == 1 || (strcmp(synchronous_commit, "local") != 0 && strcmp(synchronous_commit, "remote_write") != 0))
        return SUCCESS;
    return failure(
        err, ERROR_INVALID,
        "PostgreSQL's synchronous_commit is %.20s, and the connection string names several hosts: a standby that takes over could lack "
        "what was acknowledged; set it to on",
        synchronous_commit);
}

static struct result check_server(const struct pg *pg, const PGresult *row, struct error *err)
{
    if (number_at(row, 0) < SERVER_VERSION_MIN)
        return failure(err, ERROR_INVALID, "PostgreSQL %s is too old: 15 or newer is needed", PQgetvalue(row, 0, 0));
    if (strcmp(PQgetvalue(row, 0, 1), "t") == 0)
        return failure(err, ERROR_UNAVAILABLE, "this PostgreSQL is a standby; connect to the primary");
    for (size_t i = 0; i < sizeof requirements / sizeof requirements[0]; i++)
        if (strcmp(PQgetvalue(row, 0, (int)i + 2), "off") == 0)
            return failure(err, ERROR_INVALID, "PostgreSQL's %s", requirements[i].why);
    TRY(check_standby(pg, PQgetvalue(row, 0, 4), err));
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
    TRY(check_server(pg, row, err));
    pg->has_standby = PQgetvalue(row, 0, 8)[0] != '\0';
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

/* Which host the newest connection of this process has begun with. One that does not answer costs seconds, so only the first connection tries it. */
static atomic_uint good_host;

struct result pg_reopen(struct pg *pg, struct error *err)
{
    pg_break(pg);
    if (!pg->has_failed) pg->first_host = atomic_load(&good_host) % pg->host_count;
    pg->connection = start(pg);
    if (pg->connection == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a connection to PostgreSQL");
    (void)PQsetNoticeReceiver(pg->connection, drop_notice, NULL);
    if (PQsetnonblocking(pg->connection, 1) != 0 || PQstatus(pg->connection) == CONNECTION_BAD)
        return pg_lost(pg, PQerrorMessage(pg->connection), err);

    const struct result ready = set_up(pg, err);
    if (!ready.ok) pg_break(pg); /* a partly prepared connection is of no use */
    pg->has_failed = !ready.ok;
    if (ready.ok && pg->host_count > 1) atomic_store(&good_host, pg->first_host);
    if (!ready.ok) pg->first_host = (pg->first_host + 1) % pg->host_count;
    return ready;
}

/* A first connection tries each host once, and each in its own time. */
struct result pg_open_any(struct pg *pg, struct error *err)
{
    struct result opened = pg_reopen(pg, err);

    for (unsigned i = 1; !opened.ok && err->kind == ERROR_UNAVAILABLE && i < pg->host_count; i++) opened = pg_reopen(pg, err);
    return opened;
}

struct result pg_standby_check(const struct pg *pg, struct error *err)
{
    if (pg->host_count == 1 || pg->has_standby) return SUCCESS;
    return failure(
        err, ERROR_INVALID,
        "the connection string names several hosts, and this PostgreSQL waits for no standby (synchronous_standby_names is empty): if "
        "it is lost, what was acknowledged last is lost with it (docs/database.md)");
}

/* A backend does not notice that nobody waits for its answer. Without this each attempt would leave one, until the server has no room for more. */
static struct result end_awaiting(struct pg *pg, struct error *err)
{
    struct buffer OWNED_BUFFER sql = BUFFER(300);

    if (pg->awaiting.id == 0) return SUCCESS;
    TRY(buffer_format(&sql, err,
                      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = %lld"
                      " AND (extract(epoch FROM backend_start) * 1000000)::int8 = %lld AND pid <> pg_backend_pid()",
                      (long long)pg->awaiting.id, (long long)pg->awaiting.began_us));
    TRY(pg_execute(pg, "end of a wait", buffer_text(&sql), err));
    pg->awaiting = (struct pg_backend){0};
    return SUCCESS;
}

/* A commit with a record of its own is behind all that was seen before, and waits for the standby. */
struct result pg_await_standby(struct pg *pg, struct error *err)
{
    if (pg->host_count == 1) return SUCCESS;
    TRY(end_awaiting(pg, err));
    pg->awaiting = pg->backend;
    TRY(pg_execute(pg, "wait for a standby", "SELECT pg_logical_emit_message(true, 'sijil', '')", err));
    pg->awaiting = (struct pg_backend){0};
    return SUCCESS;
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
