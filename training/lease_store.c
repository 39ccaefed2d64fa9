/* The table `run_attempt`, and the columns of `run` that leases change. */
#include <stdio.h>
#include <string.h>

#include "storage/pg_table.h"
#include "training/run_priv.h"
#include "training/unproven.h"

/* clang-format off */
static const struct pg_statement run_attempt_begin_sql = {
    "run_attempt_begin",
    "UPDATE run SET attempt = $2, claimed_by = '', claimed_until = 'epoch' WHERE run_id = $1 AND claimed_by = $3 AND attempts >= $2"
    " AND attempt = CASE WHEN $4 = 0 THEN $2 - 1 ELSE $2 END",
    "uuid int4 text int4", ""};
static const struct pg_statement run_attempt_insert_sql = {
    "run_attempt_insert",
    "INSERT INTO run_attempt (run_id, attempt, node, runner, key, session, deadline, ends_at)"
    " VALUES ($1, $2, $3, $4, $5, $6, least(now() + $7 * interval '1 millisecond', $8), $8) ON CONFLICT DO NOTHING",
    "uuid int4 int4 uuid text bytea int8 timestamptz", ""};
static const struct pg_statement run_attempt_keep_sql = {
    "run_attempt_keep",
    "UPDATE run_attempt SET lease = $5 WHERE run_id = $1 AND attempt = $2 AND node = $3 AND key = $4 AND ended_at IS NULL",
    "uuid int4 int4 text text", ""};
static const struct pg_statement run_held_sql = {
    "run_held",
    "SELECT p.project_id, p.organisation_id, coalesce(p.deleted_name, o.name || '/' || p.name), r.state, a.runner, a.leased_at, a.ends_at,"
    " a.ended_at IS NOT NULL, a.phase, coalesce(r.reason, a.why, ''), a.session, coalesce(s.session, ''), coalesce(s.suspended, ''), r.nodes FROM run_attempt a"
    " JOIN run r USING (run_id) JOIN project p USING (project_id) JOIN organisation o USING (organisation_id) LEFT JOIN run_session s ON s.key = a.key"
    " WHERE a.run_id = $1 AND a.attempt = $2 AND a.node = $3 AND a.key = $4",
    "uuid int4 int4 text", "uuid uuid text text uuid timestamptz timestamptz bool text text bytea bytea text int4"};
static const struct pg_statement run_held_newest_sql = {
    "run_held_newest", "SELECT attempt, node FROM run_attempt WHERE run_id = $1 AND key = $2 ORDER BY attempt DESC, node LIMIT 1",
    "uuid text", "int4 int4"};
/* The use is what the runner claims, and it counts in the project's budget. So it is at most what the order gives since the lease, plus a second. While
 * other nodes lack their leases, nothing moves the end: an attempt whose other runners do not come is lost. */
static const struct pg_statement run_heartbeat_sql = {
    "run_heartbeat",
    "UPDATE run_attempt a SET heard_at = now(), phase = $6, deadline = CASE WHEN r.state = 'ordered' THEN a.deadline"
    " ELSE least(now() + $5 * interval '1 millisecond', ends_at) END,"
    " progress = nullif($7, -1), memory_bytes = $10,"
    " cpu_ms = greatest(a.cpu_ms, least($8, r.cpus * (1000 + (extract(epoch FROM now() - leased_at) * 1000)::int8))),"
    " device_ms = greatest(a.device_ms, least($9, r.devices * (1000 + (extract(epoch FROM now() - leased_at) * 1000)::int8)))"
    " FROM run r WHERE r.run_id = $1 AND a.run_id = $1 AND a.attempt = $2 AND node = $3 AND key = $4 AND a.ended_at IS NULL"
    " AND ends_at > now()",
    "uuid int4 int4 text int8 text int4 int8 int8 int8", ""};
/* A node that is ready to start, and how many are. The place where it listens and the certificate of its key can't change any more. */
static const struct pg_statement run_ready_sql = {
    "run_ready",
    "UPDATE run_attempt a SET started_at = coalesce(started_at, now()), listen = nullif($6, ''), certificate = $7, heard_at = now(),"
    " phase = CASE WHEN r.state = 'running' THEN 'running' WHEN a.phase = 'leased' OR a.phase = 'fetching' THEN 'waiting' ELSE a.phase END,"
    " deadline = CASE WHEN r.state = 'ordered' THEN a.deadline ELSE least(now() + $5 * interval '1 millisecond', ends_at) END"
    " FROM run r WHERE r.run_id = $1 AND a.run_id = $1 AND a.attempt = $2 AND node = $3 AND key = $4 AND a.ended_at IS NULL AND ends_at > now()"
    " AND (started_at IS NULL OR listen IS NOT DISTINCT FROM nullif($6, '')) AND (certificate IS NULL OR certificate = $7)"
    " RETURNING (SELECT count(*) FROM run_attempt o WHERE o.run_id = $1 AND o.attempt = $2 AND o.node <> $3 AND o.started_at IS NOT NULL)",
    "uuid int4 int4 text int8 text text", "int8"};
static const struct pg_statement run_peers_sql = {
    "run_peers",
    "SELECT node, coalesce(listen, ''), lease, certificate FROM run_attempt WHERE run_id = $1 AND attempt = $2 AND node <> $3 AND lease IS NOT NULL AND certificate IS NOT NULL"
    " AND EXISTS (SELECT FROM run_attempt o WHERE o.run_id = $1 AND o.attempt = $2 AND o.node = $3 AND o.key = $4 AND o.ended_at IS NULL)"
    " ORDER BY node",
    "uuid int4 int4 text", "int4 text text text"};
static const struct pg_statement run_certify_sql = {
    "run_certify",
    "UPDATE run_attempt SET certificate = $5 WHERE run_id = $1 AND attempt = $2 AND node = $3 AND key = $4 AND ended_at IS NULL"
    " AND (certificate IS NULL OR certificate = $5)",
    "uuid int4 int4 text text", ""};
static const struct pg_statement run_nodes_left_sql = {
    "run_nodes_left",
    "SELECT r.nodes - (SELECT count(*) FROM run_attempt a WHERE a.run_id = r.run_id AND a.attempt = $2 AND a.outcome = 'finished') FROM run r"
    " WHERE r.run_id = $1 AND r.state = 'running'",
    "uuid int4", "int8"};
static const struct pg_statement run_attempt_end_sql = {
    "run_attempt_end",
    "UPDATE run_attempt SET ended_at = now(), outcome = $5 WHERE run_id = $1 AND attempt = $2 AND node = $3 AND key = $4"
    " AND ended_at IS NULL AND ends_at > now()",
    "uuid int4 int4 text text", ""};
static const struct pg_statement run_attempt_lose_sql = {
    "run_attempt_lose",
    "UPDATE run_attempt a SET ended_at = now(), outcome = 'lost', why = $3 WHERE run_id = $1 AND attempt = $2 AND ended_at IS NULL"
    " AND EXISTS (SELECT 1 FROM run_attempt d WHERE d.run_id = a.run_id AND d.attempt = a.attempt AND d.ended_at IS NULL"
    " AND d.deadline <= now())",
    "uuid int4 text", ""};
static const struct pg_statement run_lost_sql = {
    "run_lost",
    "SELECT a.run_id, p.project_id, p.organisation_id, coalesce(p.deleted_name, o.name || '/' || p.name), a.attempt, r.attempts, a.node,"
    " r.nodes, r.state = 'ordered' FROM (SELECT run_id, attempt, (array_agg(node ORDER BY deadline))[1] AS node FROM run_attempt"
    " WHERE ended_at IS NULL AND deadline <= now() GROUP BY 1, 2 ORDER BY min(deadline)"
    " LIMIT $1) a JOIN run r USING (run_id) JOIN project p USING (project_id) JOIN organisation o USING (organisation_id)",
    "int8", "uuid uuid uuid text int4 int4 int4 int4 bool"};
static const struct pg_statement run_leased_sql = {
    "run_leased",
    "SELECT a.run_id, p.project_id, p.organisation_id, coalesce(p.deleted_name, o.name || '/' || p.name), a.attempt, r.nodes, r.time_s,"
    " r.expires_at, a.node, a.ends_at, a.lease IS NOT NULL, r.attempts FROM run_attempt a JOIN run r USING (run_id) JOIN project p USING (project_id)"
    " JOIN organisation o USING (organisation_id) WHERE a.key = $1 AND a.session = $2 AND a.ended_at IS NULL AND a.phase = 'leased'"
    " AND ($3::uuid IS NULL OR (a.run_id = $3 AND a.attempt = $4))"
    " AND a.ends_at > now() AND r.ended_at IS NULL ORDER BY a.leased_at LIMIT 1",
    "text bytea uuid int4", "uuid uuid uuid text int4 int4 int8 timestamptz int4 timestamptz bool int4"};
static const struct pg_statement run_lease_find_sql = {
    "run_lease_find",
    "SELECT lease FROM run_attempt WHERE run_id = $1 AND attempt = $2 AND node = $3 AND key = $4 AND lease IS NOT NULL", "uuid int4 int4 text",
    "text"};
static const struct pg_statement run_leases_sql = {
    "run_leases",
    "SELECT a.attempt, a.node, a.lease, coalesce(a.certificate, '') FROM run_attempt a JOIN run r USING (run_id) WHERE a.run_id = $1 AND a.lease IS NOT NULL"
    " AND (a.node = 0 OR a.attempt = r.attempt) ORDER BY a.attempt DESC, a.node",
    "uuid", "int4 int4 text text"};
static const struct pg_statement run_node_results_sql = {
    "run_node_results",
    "SELECT attempt, node, envelope FROM run_envelope WHERE run_id = $1 AND kind = 'node result' AND attempt = $2 ORDER BY node", "uuid int4",
    "int4 int4 text"};
static const struct pg_statement *const statements[] = {
    &run_attempt_begin_sql, &run_attempt_insert_sql, &run_attempt_keep_sql, &run_held_sql, &run_held_newest_sql,
    &run_heartbeat_sql, &run_ready_sql, &run_peers_sql, &run_certify_sql, &run_nodes_left_sql, &run_attempt_end_sql, &run_attempt_lose_sql, &run_lost_sql, &run_leased_sql,
    &run_lease_find_sql, &run_leases_sql, &run_node_results_sql,
};
/* clang-format on */
const struct pg_table run_lease_table = PG_TABLE(statements);

#define GONE "the lease has ended, or is another runner's"

static struct result exactly_one(const struct pg_rows *rows, const char *otherwise, struct error *err)
{
    return pg_rows_affected(rows) == 1 ? SUCCESS : failure(err, ERROR_CONFLICT, "%s", otherwise);
}

static struct result begin_attempt(struct pg *pg, const struct run_lease *lease, struct error *err)
{
    const struct run_claim *claim = &lease->claim;
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, &claim->run);
    pg_add_int4(&arguments, (int32_t)claim->attempt);
    pg_add_text(&arguments, lease->holder.key);
    pg_add_int4(&arguments, (int32_t)claim->node);
    TRY(pg_run(pg, &run_attempt_begin_sql, &arguments, &rows, err));
    return exactly_one(rows, "another runner was faster: ask again", err);
}

/* A runner that takes another run is kept for none any more. */
struct result run_row_lease(struct pg *pg, const struct run_lease *lease, struct error *err)
{
    const struct run_claim *claim = &lease->claim;
    const struct run_move move = {&claim->run, &lease->where.project, ACTION_RUN_LEASE,
                                  claim->node + 1 >= claim->nodes ? RUN_STATE_LEASED : RUN_STATE_ORDERED, NULL};
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    TRY(run_row_move(pg, &move, err));
    TRY(begin_attempt(pg, lease, err));
    pg_add_uuid(&arguments, &claim->run);
    pg_add_int4(&arguments, (int32_t)claim->attempt);
    pg_add_int4(&arguments, (int32_t)claim->node);
    pg_add_uuid(&arguments, &lease->runner);
    pg_add_text(&arguments, lease->holder.key);
    pg_add_bytes(&arguments, (struct bytes){lease->session, sizeof lease->session});
    pg_add_int8(&arguments, RUN_SILENCE_MS + (claim->nodes > 1 ? claim->nodes * RUN_TAKE_EACH_MS : 0));
    pg_add_time(&arguments, lease->ends_ms);
    TRY(pg_run(pg, &run_attempt_insert_sql, &arguments, &rows, err));
    TRY(exactly_one(rows, "this node is leased already", err));
    TRY(run_row_gather_leave(pg, lease->holder.key, &claim->run, err));
    return claim->nodes > 1 && move.to == RUN_STATE_LEASED ? run_row_gather_end(pg, &claim->run, err) : SUCCESS;
}

struct result run_lease_keep(const struct permit *permit, struct pg *pg, const struct run_lease *lease, struct bytes envelope,
                             struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    permit_require(permit, ACTION_RUN_LEASE, &lease->where);
    run_add_holder(&arguments, &lease->holder);
    pg_add_bytes(&arguments, envelope);
    TRY(pg_run(pg, &run_attempt_keep_sql, &arguments, &rows, err));
    return exactly_one(rows, GONE, err);
}

static void read_session(const struct pg_rows *rows, size_t column, uint8_t session_out[RUN_SESSION_SIZE])
{
    const struct bytes session = pg_bytes(rows, 0, column);

    if (session.length == RUN_SESSION_SIZE) memcpy(session_out, session.data, RUN_SESSION_SIZE);
}

struct result run_held_find(struct lookup *lookup, const struct run_holder *holder, struct run_held *held_out, struct error *err)
{
    enum run_state state = RUN_STATE_COUNT;
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    run_add_holder(&arguments, holder);
    TRY(pg_run(lookup_connection(lookup), &run_held_sql, &arguments, &rows, err));
    if (pg_rows_count(rows) == 0) return failure(err, ERROR_NOT_FOUND, "this runner has no such lease");
    TRY(run_read_state(rows, 0, 3, &state, err));
    *held_out = (struct run_held){.state = state,
                                  .runner = pg_uuid(rows, 0, 4),
                                  .leased_ms = pg_time_ms(rows, 0, 5),
                                  .ends_ms = pg_time_ms(rows, 0, 6),
                                  .has_ended = pg_bool(rows, 0, 7)};
    run_read_where(rows, 0, 0, &held_out->where);
    (void)snprintf(held_out->phase, sizeof held_out->phase, "%s", pg_text(rows, 0, 8));
    (void)snprintf(held_out->reason, sizeof held_out->reason, "%s", pg_text(rows, 0, 9));
    read_session(rows, 10, held_out->session);
    read_session(rows, 11, held_out->newest);
    held_out->nodes = pg_int8(rows, 0, 13);
    (void)snprintf(held_out->suspended, sizeof held_out->suspended, "%s", pg_text(rows, 0, 12));
    return SUCCESS;
}

struct result run_held_newest(struct lookup *lookup, const struct uuid *run, const char *key, struct run_holder *holder_out,
                              struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, run);
    pg_add_text(&arguments, key);
    TRY(pg_run(lookup_connection(lookup), &run_held_newest_sql, &arguments, &rows, err));
    if (pg_rows_count(rows) == 0) return failure(err, ERROR_NOT_FOUND, "this runner has no such lease");
    *holder_out = (struct run_holder){.run = *run, .attempt = pg_int8(rows, 0, 0), .node = pg_int8(rows, 0, 1), .key = key};
    return SUCCESS;
}

struct result run_leased_find(struct lookup *lookup, const struct run_offer *offer, const uint8_t session[RUN_SESSION_SIZE],
                              struct run_leased *leased_out, bool *found_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_text(&arguments, offer->key);
    pg_add_bytes(&arguments, (struct bytes){session, RUN_SESSION_SIZE});
    pg_add_uuid(&arguments, offer->run);
    pg_add_int4(&arguments, (int32_t)offer->attempt);
    TRY(pg_run(lookup_connection(lookup), &run_leased_sql, &arguments, &rows, err));
    *found_out = pg_rows_count(rows) == 1;
    if (!*found_out) return SUCCESS;
    *leased_out = (struct run_leased){.claim = {.run = pg_uuid(rows, 0, 0),
                                                .attempt = pg_int8(rows, 0, 4),
                                                .nodes = pg_int8(rows, 0, 5),
                                                .time_s = pg_int8(rows, 0, 6),
                                                .expires_ms = pg_time_ms(rows, 0, 7),
                                                .node = pg_int8(rows, 0, 8),
                                                .attempts = pg_int8(rows, 0, 11)},
                                      .ends_ms = pg_time_ms(rows, 0, 9),
                                      .is_signed = pg_bool(rows, 0, 10)};
    run_read_where(rows, 0, 1, &leased_out->claim.where);
    return SUCCESS;
}

struct result run_lease_find(struct lookup *lookup, const struct run_holder *holder, struct run_envelope **lease_out,
                             struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    run_add_holder(&arguments, holder);
    TRY(pg_run(lookup_connection(lookup), &run_lease_find_sql, &arguments, &rows, err));
    if (pg_rows_count(rows) == 0) return failure(err, ERROR_NOT_FOUND, "the lease is not signed");
    return run_envelope_read(pg_bytes(rows, 0, 0), RUN_LEASE, lease_out, err);
}

struct result run_heartbeat(struct pg *pg, const struct run_holder *holder, const struct run_heard *heard, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    run_add_holder(&arguments, holder);
    pg_add_int8(&arguments, RUN_SILENCE_MS);
    pg_add_text(&arguments, heard->phase);
    pg_add_int4(&arguments, (int32_t)heard->progress);
    pg_add_int8(&arguments, heard->cpu_ms);
    pg_add_int8(&arguments, heard->device_ms);
    pg_add_int8(&arguments, heard->memory_bytes);
    TRY(pg_run(pg, &run_heartbeat_sql, &arguments, &rows, err));
    return exactly_one(rows, GONE, err);
}

struct result run_ready(struct pg *pg, const struct run_holder *holder, const struct run_readiness *readiness, int64_t *ready_out,
                        struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    run_add_holder(&arguments, holder);
    pg_add_int8(&arguments, RUN_SILENCE_MS);
    pg_add_text(&arguments, readiness->listen);
    pg_add_text(&arguments, readiness->certificate);
    TRY(pg_run(pg, &run_ready_sql, &arguments, &rows, err));
    if (pg_rows_count(rows) == 0)
        return failure(err, ERROR_CONFLICT, GONE ", or it listened elsewhere or had another certificate before");
    *ready_out = pg_int8(rows, 0, 0) + 1;
    return SUCCESS;
}

struct result run_certify(struct pg *pg, const struct run_holder *holder, struct bytes certificate, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    run_add_holder(&arguments, holder);
    pg_add_bytes(&arguments, certificate);
    TRY(pg_run(pg, &run_certify_sql, &arguments, &rows, err));
    return exactly_one(rows, GONE ", or it had another certificate before", err);
}

struct result run_peers(struct lookup *lookup, const struct run_holder *holder, struct pg_rows **rows_out, struct error *err)
{
    struct pg_arguments arguments = {0};

    run_add_holder(&arguments, holder);
    return pg_run(lookup_connection(lookup), &run_peers_sql, &arguments, rows_out, err);
}

struct result run_nodes_left(struct pg *pg, const struct run_holder *holder, int64_t *left_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, &holder->run);
    pg_add_int4(&arguments, (int32_t)holder->attempt);
    TRY(pg_run(pg, &run_nodes_left_sql, &arguments, &rows, err));
    if (pg_rows_count(rows) == 0)
        return failure(err, ERROR_CONFLICT, "the program was not started on all nodes, or the run has ended");
    *left_out = pg_int8(rows, 0, 0);
    return SUCCESS;
}

struct result run_rows_leases(struct pg *pg, const struct uuid *run, struct pg_rows **rows_out, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_uuid(&arguments, run);
    return pg_run(pg, &run_leases_sql, &arguments, rows_out, err);
}

struct result run_rows_node_results(struct pg *pg, const struct uuid *run, int64_t attempt, struct pg_rows **rows_out,
                                    struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_uuid(&arguments, run);
    pg_add_int4(&arguments, (int32_t)attempt);
    return pg_run(pg, &run_node_results_sql, &arguments, rows_out, err);
}

struct result run_attempt_end(struct pg *pg, const struct run_holder *holder, const char *outcome, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    run_add_holder(&arguments, holder);
    pg_add_text(&arguments, outcome);
    TRY(pg_run(pg, &run_attempt_end_sql, &arguments, &rows, err));
    return exactly_one(rows, GONE, err);
}

struct result run_attempt_lose(struct pg *pg, const struct uuid *run, int64_t attempt, const char *why, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, run);
    pg_add_int4(&arguments, (int32_t)attempt);
    pg_add_text(&arguments, why);
    TRY(pg_run(pg, &run_attempt_lose_sql, &arguments, &rows, err));
    return pg_rows_affected(rows) > 0 ? SUCCESS : failure(err, ERROR_CONFLICT, "the attempt goes on, or has ended");
}

struct result run_rows_lost(struct pg *pg, struct lost_attempt *lost_out, size_t capacity, size_t *count_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_int8(&arguments, (int64_t)capacity);
    TRY(pg_run(pg, &run_lost_sql, &arguments, &rows, err));
    for (size_t i = 0; i < pg_rows_count(rows); i++) {
        lost_out[i] = (struct lost_attempt){.run.run = pg_uuid(rows, i, 0),
                                            .attempt = pg_int8(rows, i, 4),
                                            .attempts = pg_int8(rows, i, 5),
                                            .node = pg_int8(rows, i, 6),
                                            .nodes = pg_int8(rows, i, 7),
                                            .is_incomplete = pg_bool(rows, i, 8)};
        run_read_where(rows, i, 1, &lost_out[i].run.where);
    }
    *count_out = pg_rows_count(rows);
    return SUCCESS;
}
