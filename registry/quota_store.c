#include "registry/quota_store.h"

#include <inttypes.h>
#include <pthread.h>

#include "crypto/digest.h"
#include "registry/event_quota.h"
#include "registry/maintenance.h"
#include "storage/pg_table.h"

/* clang-format off */
#define HAS_BYTES(project)                                                                                              \
    "(SELECT coalesce(sum(size_bytes), 0) FROM blob WHERE project_id = " project ")"                                    \
    " + (SELECT coalesce(sum(m.size_bytes), 0) FROM repository r JOIN manifest m USING (repository_id)"                 \
    " WHERE r.project_id = " project ")"                                                                                \
    " + (SELECT coalesce(sum(reserved_bytes), 0) FROM upload WHERE project_id = " project ")"                           \
    " + (SELECT coalesce(sum(reserved_bytes), 0) FROM run_log WHERE project_id = " project " AND gone_at IS NULL)"

static const struct pg_statement quota_ensure_sql = {
    "quota_ensure", /* runs under the log's lock, so it counts nothing; quota_count_new() counts later */
    "WITH events AS (INSERT INTO project_events (project_id, minute, taken) SELECT project_id, 0, 0 FROM project"
    " WHERE project_id = $1 AND $2 ON CONFLICT DO NOTHING)"
    " INSERT INTO project_quota AS q (project_id, bytes_used, uncounted)"
    " SELECT project_id, 0, gen_random_uuid() FROM project WHERE project_id = $1"
    " ON CONFLICT (project_id) DO UPDATE SET bytes_used = q.bytes_used",
    "uuid bool", ""};
/* Reads everything in one snapshot. The present content minus the changes since the row was made is the content at that time. So
 * each gateway gets the same result, whenever it counts. */
static const struct pg_statement quota_uncounted_sql = {
    "quota_uncounted",
    "SELECT q.project_id, q.uncounted, (" HAS_BYTES("q.project_id") ")::int8 - q.bytes_used FROM project_quota q"
    " WHERE q.uncounted IS NOT NULL AND ($1::uuid IS NULL OR q.project_id = $1) LIMIT 1",
    "uuid", "uuid uuid int8"};
static const struct pg_statement quota_counted_sql = {
    "quota_counted",
    "UPDATE project_quota SET bytes_used = bytes_used + $3, uncounted = NULL WHERE project_id = $1 AND uncounted = $2",
    "uuid uuid int8", ""};
static const struct pg_statement quota_set_own_sql = {
    "quota_set_own",
    "UPDATE project_quota SET bytes_own = $2, sessions_own = $3, events_own = $4, bytes_max = least($2, bytes_ceiling),"
    " sessions_max = least($3, sessions_ceiling), events_max = least($4, events_ceiling), client_sessions_own = $5,"
    " client_sessions_max = least($5, client_sessions_ceiling), cpu_own = $6, cpu_max = least($6, cpu_ceiling), gpu_own = $7,"
    " gpu_max = least($7, gpu_ceiling) WHERE project_id = $1",
    "uuid int8 int8 int8 int8 int8 int8", ""};
static const struct pg_statement quota_set_ceiling_sql = {
    "quota_set_ceiling",
    "UPDATE project_quota SET bytes_ceiling = $2, sessions_ceiling = $3, events_ceiling = $4, bytes_max = least($2, bytes_own),"
    " sessions_max = least($3, sessions_own), events_max = least($4, events_own), client_sessions_ceiling = $5,"
    " client_sessions_max = least($5, client_sessions_own), cpu_ceiling = $6, cpu_max = least($6, cpu_own), gpu_ceiling = $7,"
    " gpu_max = least($7, gpu_own) WHERE project_id = $1",
    "uuid int8 int8 int8 int8 int8 int8", ""};
static const struct pg_statement quota_ceiling_sql = {
    "quota_ceiling",
    "SELECT coalesce(bytes_ceiling, -1), coalesce(sessions_ceiling, -1), coalesce(events_ceiling, -1),"
    " coalesce(client_sessions_ceiling, -1), coalesce(cpu_ceiling, -1), coalesce(gpu_ceiling, -1) FROM project_quota"
    " WHERE project_id = $1",
    "uuid", "int8 int8 int8 int8 int8 int8"};
static const struct pg_statement quota_remove_sql = {
    "quota_remove", /* a row without any limit */
    "WITH gone AS (DELETE FROM project_quota WHERE project_id = $1 AND num_nonnulls(bytes_ceiling, sessions_ceiling,"
    " events_ceiling, bytes_own, sessions_own, events_own, client_sessions_ceiling, client_sessions_own, cpu_ceiling, cpu_own, gpu_ceiling,"
    " gpu_own) = 0 RETURNING project_id)"
    " DELETE FROM project_events e USING gone g WHERE e.project_id = g.project_id",
    "uuid", ""};
static const struct pg_statement quota_read_sql = {
    "quota_read",
    "SELECT coalesce(q.bytes_max, -1), coalesce(q.sessions_max, -1), coalesce(q.events_max, -1),"
    " CASE WHEN q.uncounted IS NULL THEN q.bytes_used END,"
    " coalesce(q.bytes_ceiling, -1), coalesce(q.sessions_ceiling, -1), coalesce(q.events_ceiling, -1),"
    " (SELECT coalesce(sum(reserved_bytes), 0)::int8 FROM upload WHERE project_id = $1)"
    " + (SELECT coalesce(sum(reserved_bytes - bytes), 0)::int8 FROM run_log WHERE project_id = $1 AND gone_at IS NULL),"
    " (SELECT count(*) FROM upload WHERE project_id = $1), coalesce(q.client_sessions_max, -1),"
    " coalesce(q.client_sessions_ceiling, -1), coalesce(q.cpu_max, -1), coalesce(q.gpu_max, -1), coalesce(q.cpu_ceiling, -1),"
    " coalesce(q.gpu_ceiling, -1), (coalesce(u.cpu_used_ms, 0) + 999) / 1000, (coalesce(u.gpu_used_ms, 0) + 999) / 1000, r.cpu, r.gpu"
    " FROM project p LEFT JOIN project_quota q USING (project_id) LEFT JOIN project_runs u USING (project_id),"
    " LATERAL (SELECT coalesce(sum(cpu_reserved_s), 0)::int8 AS cpu, coalesce(sum(gpu_reserved_s), 0)::int8 AS gpu FROM run"
    " WHERE project_id = $1 AND ended_at IS NULL AND cpu_reserved_s > 0) r WHERE p.project_id = $1",
    "uuid", "int8 int8 int8 int8 int8 int8 int8 int8 int8 int8 int8 int8 int8 int8 int8 int8 int8 int8 int8"};
static const struct pg_statement quota_count_sql = {"quota_count", "SELECT (" HAS_BYTES("$1") ")::int8", "uuid", "int8"};
static const struct pg_statement quota_session_refusal_sql = {
    "quota_session_refusal", /* the figures that explain why no session was made */
    "SELECT q.bytes_used >= q.bytes_max, coalesce(q.sessions_max, $2), coalesce(q.client_sessions_max, $3),"
    " (SELECT count(*) FROM upload u WHERE u.project_id = $1 AND u.bound_to = $4),"
    " (SELECT count(*) FROM upload u WHERE u.organisation_id = p.organisation_id)"
    " FROM project p LEFT JOIN project_quota q USING (project_id) WHERE p.project_id = $1",
    "uuid int8 int8 bytea", "bool int8 int8 int8 int8"};
static const struct pg_statement quota_events_list_sql = {
    "quota_events_list",
    "SELECT project_id, events_max FROM project_quota WHERE events_max IS NOT NULL ORDER BY project_id LIMIT $1", "int8",
    "uuid int8"};
static const struct pg_statement quota_events_take_sql = {
    "quota_events_take", /* if the clock is behind the row's minute (it was set back), nothing is given */
    "WITH clock AS MATERIALIZED (SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::int8 AS ms),"
    " old AS MATERIALIZED (SELECT project_id, ms, ms / 60000 AS minute, CASE WHEN e.minute < ms / 60000 THEN 0"
    " WHEN e.minute > ms / 60000 THEN $3 ELSE e.taken END AS taken FROM project_events e, clock WHERE project_id = $1"
    " FOR UPDATE OF e)"
    " UPDATE project_events e SET minute = greatest(e.minute, o.minute),"
    " taken = CASE WHEN e.minute > o.minute THEN e.taken ELSE o.taken + greatest(least($2, $3 - o.taken), 0) END"
    " FROM old o WHERE e.project_id = o.project_id RETURNING greatest(least($2, $3 - o.taken), 0), 60000 - o.ms % 60000,"
    " greatest($3 - o.taken - $2, 0)",
    "uuid int8 int8", "int8 int8 int8"};
static const struct pg_statement quota_events_count_sql = {
    "quota_events_count", "SELECT count(*) FROM project_quota WHERE events_max IS NOT NULL AND project_id <> $1", "uuid", "int8"};
static const struct pg_statement *const statements[] = {
    &quota_ensure_sql, &quota_uncounted_sql, &quota_counted_sql, &quota_set_own_sql, &quota_set_ceiling_sql, &quota_ceiling_sql,
    &quota_remove_sql, &quota_read_sql, &quota_count_sql, &quota_session_refusal_sql, &quota_events_list_sql,
    &quota_events_take_sql, &quota_events_count_sql,
};
/* clang-format on */
const struct pg_table quota_statements = PG_TABLE(statements);

static bool is_limit(int64_t limit, int64_t least, int64_t most)
{
    return limit == QUOTA_NONE || (limit >= least && limit <= most);
}

static void add_limit(struct pg_arguments *arguments, int64_t limit)
{
    if (limit == QUOTA_NONE) pg_add_null(arguments);
    else pg_add_int8(arguments, limit);
}

/* Each gateway keeps all quotas of events in memory, so their number is limited. */
static struct result check_count(struct pg *pg, const struct uuid *project, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, project);
    TRY(pg_run(pg, &quota_events_count_sql, &arguments, &rows, err));
    if (pg_int8(rows, 0, 0) < QUOTA_EVENTS_PROJECTS) return SUCCESS;
    return failure(err, ERROR_CONFLICT, "%d projects have a quota of events already: no other project can have one",
                   QUOTA_EVENTS_PROJECTS);
}

static struct result check_below(int64_t own, int64_t ceiling, const char *member, struct error *err)
{
    if (own == QUOTA_NONE || ceiling == QUOTA_NONE || own <= ceiling) return SUCCESS;
    return failure(err, ERROR_DENIED, "%s: at most %" PRId64 ", which an administrator of the registry has set", member, ceiling);
}

static struct result check_ceiling(struct pg *pg, const struct quota_change *quota, struct error *err)
{
    const struct quota_limits_of_project *own = &quota->limits;
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, &quota->where.project);
    TRY(pg_run(pg, &quota_ceiling_sql, &arguments, &rows, err));
    if (pg_rows_count(rows) == 0) return SUCCESS;
    TRY(check_below(own->bytes, pg_int8(rows, 0, 0), "bytes", err));
    TRY(check_below(own->sessions, pg_int8(rows, 0, 1), "sessions", err));
    TRY(check_below(own->client_sessions, pg_int8(rows, 0, 3), "sessions_per_client", err));
    TRY(check_below(own->cpu_s, pg_int8(rows, 0, 4), "cpu_seconds", err));
    TRY(check_below(own->gpu_s, pg_int8(rows, 0, 5), "gpu_seconds", err));
    return check_below(own->events, pg_int8(rows, 0, 2), "events_per_minute", err);
}

static bool is_none(const struct quota_limits_of_project *limits)
{
    return limits->bytes == QUOTA_NONE && limits->sessions == QUOTA_NONE && limits->events == QUOTA_NONE &&
           limits->client_sessions == QUOTA_NONE && limits->cpu_s == QUOTA_NONE && limits->gpu_s == QUOTA_NONE;
}

/* Makes the row, if there is a limit to store. */
static struct result make_row(struct pg *pg, const struct quota_change *quota, struct error *err)
{
    const bool limits_events = quota->limits.events != QUOTA_NONE;
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    if (limits_events) TRY(check_count(pg, &quota->where.project, err));
    if (is_none(&quota->limits)) return SUCCESS;
    pg_add_uuid(&arguments, &quota->where.project);
    pg_add_bool(&arguments, limits_events);
    TRY(pg_run(pg, &quota_ensure_sql, &arguments, &rows, err));
    return pg_rows_affected(rows) == 1 ? SUCCESS : failure(err, ERROR_NOT_FOUND, "there is no such project");
}

static struct result run_change(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    static const struct resource the_system = {.kind = RESOURCE_SYSTEM};
    const struct quota_change *quota = (const struct quota_change *)(const void *)change; /* its first member */
    struct pg_arguments arguments = {0}, project = {0};

    permit_require(permit, ACTION_PROJECT_QUOTA, &quota->where);
    if (quota->setter == QUOTA_FROM_ABOVE) permit_require(permit, ACTION_PROJECT_QUOTA, &the_system);
    else TRY(check_ceiling(pg, quota, err));
    pg_add_uuid(&arguments, &quota->where.project);
    add_limit(&arguments, quota->limits.bytes);
    add_limit(&arguments, quota->limits.sessions);
    add_limit(&arguments, quota->limits.events);
    add_limit(&arguments, quota->limits.client_sessions);
    add_limit(&arguments, quota->limits.cpu_s);
    add_limit(&arguments, quota->limits.gpu_s);
    TRY(make_row(pg, quota, err));
    TRY(pg_run(pg, quota->setter == QUOTA_FROM_ABOVE ? &quota_set_ceiling_sql : &quota_set_own_sql, &arguments, NULL, err));
    pg_add_uuid(&project, &quota->where.project);
    return is_none(&quota->limits) ? pg_run(pg, &quota_remove_sql, &project, NULL, err) : SUCCESS;
}

struct result quota_change_prepare(const struct resource *where, enum quota_setter setter,
                                   const struct quota_limits_of_project *limits, struct quota_change *change_out,
                                   struct error *err)
{
    if (uuid_is_nil(&where->project)) return failure(err, ERROR_NOT_FOUND, "there is no such project");
    if (!is_limit(limits->bytes, 0, INT64_MAX)) return failure(err, ERROR_INVALID, "bytes is a number of 0 or more, or null");
    if (!is_limit(limits->sessions, 0, QUOTA_SESSIONS_MAX))
        return failure(err, ERROR_INVALID, "sessions is a number from 0 to %d, or null", QUOTA_SESSIONS_MAX);
    if (!is_limit(limits->client_sessions, 0, QUOTA_SESSIONS_MAX))
        return failure(err, ERROR_INVALID, "sessions_per_client is a number from 0 to %d, or null", QUOTA_SESSIONS_MAX);
    if (!is_limit(limits->events, 1, QUOTA_EVENTS_MAX))
        return failure(err, ERROR_INVALID, "events_per_minute is a number from 1 to %d, or null", QUOTA_EVENTS_MAX);
    if (!is_limit(limits->cpu_s, 0, QUOTA_SECONDS_MAX) || !is_limit(limits->gpu_s, 0, QUOTA_SECONDS_MAX))
        return failure(err, ERROR_INVALID, "cpu_seconds and gpu_seconds are numbers from 0 to %" PRId64 ", or null",
                       QUOTA_SECONDS_MAX);
    *change_out = (struct quota_change){.change = {.run = run_change, .invalidates = CHANGE_INVALIDATES_NOTHING},
                                        .where = *where,
                                        .setter = setter,
                                        .limits = *limits};
    return SUCCESS;
}

static struct result count_new(struct pg *pg, const struct uuid *project, bool *found_out, struct error *err)
{
    struct pg_arguments what = {0}, counted = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&what, project);
    TRY(pg_run(pg, &quota_uncounted_sql, &what, &rows, err));
    const bool found = pg_rows_count(rows) > 0;
    if (found) {
        const struct uuid of = pg_uuid(rows, 0, 0), count = pg_uuid(rows, 0, 1);
        pg_add_uuid(&counted, &of);
        pg_add_uuid(&counted, &count);
        pg_add_int8(&counted, pg_int8(rows, 0, 2));
        TRY(pg_run(pg, &quota_counted_sql, &counted, NULL, err));
    }
    *found_out = found;
    return SUCCESS;
}

struct result quota_count_new(const struct permit *permit, struct pg *pg, const struct resource *where, struct error *err)
{
    bool found = false;

    permit_require(permit, ACTION_PROJECT_QUOTA, where);
    return count_new(pg, &where->project, &found, err);
}

struct result quota_count_pending(struct pg *pg, bool *found_out, struct error *err)
{
    return count_new(pg, NULL, found_out, err);
}

static struct result read_use(struct pg *pg, const struct uuid *project, struct quota_use *use, bool *is_kept_out,
                              struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, project);
    TRY(pg_run(pg, &quota_read_sql, &arguments, &rows, err));
    if (pg_rows_count(rows) == 0) return failure(err, ERROR_NOT_FOUND, "there is no such project");
    *use = (struct quota_use){.limits = {.bytes = pg_int8(rows, 0, 0),
                                         .sessions = pg_int8(rows, 0, 1),
                                         .events = pg_int8(rows, 0, 2),
                                         .client_sessions = pg_int8(rows, 0, 9),
                                         .cpu_s = pg_int8(rows, 0, 11),
                                         .gpu_s = pg_int8(rows, 0, 12)},
                              .ceiling = {.bytes = pg_int8(rows, 0, 4),
                                          .sessions = pg_int8(rows, 0, 5),
                                          .events = pg_int8(rows, 0, 6),
                                          .client_sessions = pg_int8(rows, 0, 10),
                                          .cpu_s = pg_int8(rows, 0, 13),
                                          .gpu_s = pg_int8(rows, 0, 14)},
                              .bytes_used = pg_int8(rows, 0, 3),
                              .bytes_reserved = pg_int8(rows, 0, 7),
                              .sessions = pg_int8(rows, 0, 8),
                              .cpu_s = pg_int8(rows, 0, 15),
                              .gpu_s = pg_int8(rows, 0, 16),
                              .cpu_reserved_s = pg_int8(rows, 0, 17),
                              .gpu_reserved_s = pg_int8(rows, 0, 18)};
    *is_kept_out = !pg_is_null(rows, 0, 3);
    return SUCCESS;
}

/* Counting a large project takes long, and any reader may repeat the request: so only one count runs at a time. */
static struct result count_now(struct pg *pg, const struct uuid *project, int64_t *bytes_out, struct error *err)
{
    static pthread_mutex_t counting = PTHREAD_MUTEX_INITIALIZER;
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    if (pthread_mutex_trylock(&counting) != 0)
        return failure(err, ERROR_UNAVAILABLE, "a project without a quota is being counted already; try again in a moment");
    pg_add_uuid(&arguments, project);
    const struct result counted = pg_run(pg, &quota_count_sql, &arguments, &rows, err);
    pthread_mutex_unlock(&counting);
    if (counted.ok) *bytes_out = pg_int8(rows, 0, 0);
    return counted;
}

struct result quota_read(const struct permit *permit, struct pg *pg, const struct resource *where, struct quota_use *use_out,
                         struct error *err)
{
    struct quota_use use;
    bool is_kept = false;

    permit_require(permit, ACTION_PROJECT_READ, where);
    TRY(read_use(pg, &where->project, &use, &is_kept, err));
    if (!is_kept) TRY(count_now(pg, &where->project, &use.bytes_used, err));
    *use_out = use;
    return SUCCESS;
}

struct result quota_is_used_up(struct error *err)
{
    return failure(err, ERROR_DENIED,
                   "the project's quota of bytes is used up: delete unneeded content and collect garbage, or ask for more");
}

struct result quota_refuse(struct pg *pg, const struct uuid *project, int64_t wanted_bytes, struct error *err)
{
    struct quota_use use;
    bool is_kept = false;

    TRY(read_use(pg, project, &use, &is_kept, err));
    return failure(err, ERROR_DENIED,
                   "%" PRId64 " bytes more do not fit into the project's quota: %" PRId64 " of %" PRId64 " are used, %" PRId64
                   " of them by open uploads and logs of runs; delete unneeded content and collect garbage, or ask for more",
                   wanted_bytes, use.bytes_used, use.limits.bytes, use.bytes_reserved);
}

#define WHEN_IDLE "beyond half of them, idle ones end by themselves"

struct result quota_refuse_session(struct pg *pg, const struct wanted_session *wanted, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, wanted->project);
    pg_add_int8(&arguments, wanted->limits->per_project);
    pg_add_int8(&arguments, wanted->limits->per_client);
    pg_add_bytes(&arguments, (struct bytes){wanted->bound_to, SHA256_SIZE});
    TRY(pg_run(pg, &quota_session_refusal_sql, &arguments, &rows, err));
    if (pg_rows_count(rows) == 0) return failure(err, ERROR_NOT_FOUND, "there is no such project");
    if (pg_bool(rows, 0, 0)) return quota_is_used_up(err);
    const long long whole = pg_int8(rows, 0, 1), own = pg_int8(rows, 0, 2);
    if (pg_int8(rows, 0, 3) >= own)
        return failure(
            err, ERROR_LIMIT,
            "you have as many open uploads in this project as one client may, %lld: finish or cancel some, or ask for a quota"
            " (sessions_per_client); " WHEN_IDLE,
            own);
    if (pg_int8(rows, 0, 4) >= wanted->limits->per_organisation)
        return failure(
            err, ERROR_LIMIT,
            "the organisation has as many open uploads as it may, %u, in all its projects: finish or cancel some; " WHEN_IDLE,
            wanted->limits->per_organisation);
    return failure(
        err, ERROR_LIMIT,
        "the project has as many open uploads as it may, %lld, of all its clients: finish or cancel some, or ask for a quota"
        " (sessions); " WHEN_IDLE,
        whole);
}

struct result quota_events_list(struct pg *pg, struct quota_events *events_out, size_t capacity, size_t *count_out,
                                struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_int8(&arguments, (int64_t)capacity);
    TRY(pg_run(pg, &quota_events_list_sql, &arguments, &rows, err));
    const size_t count = pg_rows_count(rows);
    for (size_t i = 0; i < count; i++)
        events_out[i] = (struct quota_events){.project = pg_uuid(rows, i, 0), .most = pg_int8(rows, i, 1)};
    *count_out = count;
    return SUCCESS;
}

struct result quota_events_take(struct pg *pg, const struct quota_events *events, int64_t portion,
                                struct quota_portion *portion_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, &events->project);
    pg_add_int8(&arguments, portion);
    pg_add_int8(&arguments, events->most);
    TRY(pg_run(pg, &quota_events_take_sql, &arguments, &rows, err));
    /* If there is no row, the quota was just removed. */
    *portion_out = (struct quota_portion){.count = portion, .left_ms = 1000};
    if (pg_rows_count(rows) == 1)
        *portion_out =
            (struct quota_portion){.count = pg_int8(rows, 0, 0), .left_ms = pg_int8(rows, 0, 1), .others = pg_int8(rows, 0, 2)};
    return SUCCESS;
}
