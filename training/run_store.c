/* The tables `run` and `run_envelope`. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "storage/pg_table.h"
#include "training/budget_priv.h"
#include "training/checkpoint_priv.h"
#include "training/run_priv.h"

/* clang-format off */
#define ROW                                                                                                                       \
    "run_id, state, request, requester, approvals_wanted, (SELECT count(*) FROM run_envelope e WHERE e.run_id = run.run_id"       \
    " AND e.kind = 'approval'), pool, number, requested_at, expires_at, ended_at, reason, attempt, attempts,"       \
    " command, EXISTS (SELECT 1 FROM run_doubt d WHERE d.run_id = run.run_id)"
#define ROW_TYPES "uuid text bytea text int4 int8 text int8 timestamptz timestamptz timestamptz text int4 int4 text bool"
static const struct pg_statement run_insert_sql = {
    "run_insert",
    "INSERT INTO run (run_id, project_id, state, request, requester, approvals_wanted, pool, expires_at, command)"
    " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT (run_id) DO NOTHING",
    "uuid uuid text bytea text int4 text timestamptz text", ""};
/* Under the log's lock: one row, however many runs the project has. */
static const struct pg_statement run_room_sql = {
    "run_room", "SELECT open_runs, bytes FROM project_runs WHERE project_id = $1", "uuid", "int8 int8"};
static const struct pg_statement run_is_same_sql = {
    "run_is_same", "SELECT project_id = $2 AND request = $3 FROM run WHERE run_id = $1", "uuid uuid bytea", "bool"};
static const struct pg_statement run_envelope_insert_sql = {
    "run_envelope_insert",
    "INSERT INTO run_envelope (run_id, kind, digest, principal, envelope, attempt, node) VALUES ($1, $2, $3, $4, $5, nullif($6, 0),"
    " CASE WHEN $6 > 0 THEN $7 END) ON CONFLICT DO NOTHING",
    "uuid text bytea text text int4 int4", ""};
static const struct pg_statement run_move_sql = {
    "run_move",
    "UPDATE run SET state = $3, ended_at = CASE WHEN $4 THEN now() END, reason = $6 WHERE run_id = $1 AND project_id = $2 AND state = ANY($5)",
    "uuid uuid text bool text[] text", ""};
static const struct pg_statement run_attempts_end_sql = {
    "run_attempts_end", "UPDATE run_attempt SET ended_at = now(), outcome = $2, why = $3 WHERE run_id = $1 AND ended_at IS NULL",
    "uuid text text", ""};
static const struct pg_statement run_approvals_sql = {
    "run_approvals", "SELECT count(*) FROM run_envelope WHERE run_id = $1 AND kind = 'approval'", "uuid", "int8"};
static const struct pg_statement run_find_sql = {
    "run_find", "SELECT " ROW " FROM run WHERE run_id = $1 AND project_id = $2", "uuid uuid", ROW_TYPES};
static const struct pg_statement run_list_sql = {
    "run_list",
    "SELECT " ROW " FROM run WHERE project_id = $1 AND number < $2 AND ($3::text IS NULL OR state = $3) ORDER BY number DESC LIMIT $4",
    "uuid int8 text int8", ROW_TYPES};
/* One result at most: that of node 0, or, of a run that did not succeed, the last one that was taken. So it is the one that ended the run, if a result did. */
static const struct pg_statement run_envelopes_sql = {
    "run_envelopes",
    "SELECT CASE e.kind WHEN 'node result' THEN 'result' ELSE e.kind END, e.digest, e.principal, e.envelope"
    " FROM run_envelope e JOIN run r USING (run_id) WHERE e.run_id = $1 AND r.project_id = $2 AND e.kind <> 'late'"
    " AND (e.kind <> 'request' OR e.digest = r.request)"
    " AND (e.kind NOT IN ('result', 'node result') OR (coalesce(e.attempt, r.attempt) = r.attempt"
    " AND CASE WHEN r.state IN ('failed', 'cancelled') THEN NOT EXISTS (SELECT FROM run_envelope l WHERE l.run_id = e.run_id"
    " AND l.kind IN ('result', 'node result') AND l.attempt = e.attempt AND l.number > e.number) ELSE e.kind = 'result' END))"
    " ORDER BY e.number", "uuid uuid",
    "text bytea text text"};
static const struct pg_statement run_activity_sql = {
    "run_activity", "SELECT a.phase, coalesce(a.progress, -1) FROM run_attempt a JOIN run r USING (run_id) WHERE a.run_id = $1"
    " AND r.project_id = $2 AND a.ended_at IS NULL ORDER BY a.attempt DESC, a.node LIMIT 1", "uuid uuid", "text int4"};
static const struct pg_statement run_nodes_sql = {
    "run_nodes", "SELECT a.node, a.runner, CASE WHEN a.ended_at IS NULL THEN a.phase ELSE a.outcome END, coalesce(a.progress, -1) FROM run_attempt a"
    " JOIN run r USING (run_id) WHERE a.run_id = $1 AND r.project_id = $2 AND r.nodes > 1 AND a.attempt = r.attempt ORDER BY a.node", "uuid uuid",
    "int4 uuid text int4"};
static const struct pg_statement run_kept_sql = {
    "run_kept", "SELECT r.nodes, least(r.nodes, (SELECT coalesce(sum(s.nodes), 0) FROM run_share s WHERE s.run_id = r.run_id AND s.until > now()))"
    " FROM run r WHERE r.run_id = $1 AND r.project_id = $2 AND r.nodes > 1 AND r.state = 'ordered'", "uuid uuid", "int4 int8"};
static const struct pg_statement run_due_sql = {
    "run_due",
    "SELECT run_id, p.project_id, p.organisation_id, coalesce(p.deleted_name, o.name || '/' || p.name)"
    " FROM run JOIN project p USING (project_id) JOIN organisation o USING (organisation_id)"
    " WHERE ended_at IS NULL AND state <> 'finishing' AND expires_at <= now() ORDER BY expires_at LIMIT $1",
    "int8", "uuid uuid uuid text"};
static const struct pg_statement run_rerun_sql = {
    "run_rerun",
    "SELECT EXISTS (SELECT FROM run r JOIN run_envelope e USING (run_id) WHERE r.run_id = $1 AND r.project_id = $2 AND e.kind = 'order'"
    " AND e.digest = $3)",
    "uuid uuid bytea", "bool"};
/* A request by a token that sijil-keyd would sign again, without a new place: it keeps its promise until a day after the request. */
static const struct pg_statement run_is_asked_sql = {
    "run_is_asked",
    "SELECT r.project_id = $2 AND r.requester = $3 AND r.expires_at > now() - interval '23 hours'"
    " AND convert_from(decode(e.envelope::json->>'payload', 'base64'), 'UTF8')::json->'claims' IS NOT NULL"
    " FROM run r JOIN run_envelope e ON e.run_id = r.run_id AND e.kind = 'request' AND e.digest = r.request WHERE r.run_id = $1",
    "uuid uuid text", "bool"};
static const struct pg_statement *const statements[] = {
    &run_is_asked_sql, &run_rerun_sql, &run_insert_sql, &run_room_sql, &run_is_same_sql, &run_envelope_insert_sql, &run_move_sql, &run_attempts_end_sql, &run_approvals_sql,
    &run_find_sql, &run_list_sql, &run_envelopes_sql, &run_activity_sql, &run_nodes_sql, &run_kept_sql, &run_due_sql,
};
/* clang-format on */
const struct pg_table run_table = PG_TABLE(statements);

static struct result read_row(const struct pg_rows *rows, size_t row, struct run *run_out, struct error *err)
{
    struct run run = {.id = pg_uuid(rows, row, 0), .approvals_wanted = pg_int8(rows, row, 4), .approvals = pg_int8(rows, row, 5)};

    TRY(run_read_state(rows, row, 1, &run.state, err));
    memcpy(run.request, pg_bytes(rows, row, 2).data, sizeof run.request);
    (void)snprintf(run.requester, sizeof run.requester, "%s", pg_text(rows, row, 3));
    (void)snprintf(run.pool, sizeof run.pool, "%s", pg_text(rows, row, 6));
    run.number = pg_int8(rows, row, 7);
    run.requested_ms = pg_time_ms(rows, row, 8);
    run.expires_ms = pg_time_ms(rows, row, 9);
    run.ended_ms = pg_is_null(rows, row, 10) ? 0 : pg_time_ms(rows, row, 10);
    (void)snprintf(run.reason, sizeof run.reason, "%s", pg_text(rows, row, 11));
    run.attempt = pg_int8(rows, row, 12);
    run.attempts = pg_int8(rows, row, 13);
    (void)snprintf(run.command, sizeof run.command, "%s", pg_text(rows, row, 14));
    run.may_be_doubted = pg_bool(rows, row, 15);
    *run_out = run;
    return SUCCESS;
}

/* ---- changes ---- */

struct result run_row_add_envelope(struct pg *pg, const struct uuid *run, const char *kind, const struct run_signed *added,
                                   struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, run);
    pg_add_text(&arguments, kind);
    pg_add_bytes(&arguments, (struct bytes){added->digest, sizeof added->digest});
    pg_add_text(&arguments, added->principal);
    pg_add_bytes(&arguments, added->envelope);
    pg_add_int4(&arguments, (int32_t)added->attempt);
    pg_add_int4(&arguments, (int32_t)added->node);
    TRY(pg_run(pg, &run_envelope_insert_sql, &arguments, &rows, err));
    if (pg_rows_affected(rows) == 1) return SUCCESS;
    return failure(err, ERROR_CONFLICT, "the run has such an envelope of this principal already");
}

/* `more`: runs that are not counted yet. */
static struct result check_room(struct pg *pg, const struct run_request *request, int64_t more, struct error *err)
{
    const int64_t bytes = (int64_t)request->request.envelope.length;
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, &request->where.project);
    TRY(pg_run(pg, &run_room_sql, &arguments, &rows, err));
    if (pg_rows_count(rows) == 0) return SUCCESS; /* the project has had no run */
    if (pg_int8(rows, 0, 0) + more > RUNS_OPEN_MAX)
        return failure(err, ERROR_LIMIT, "the project has %d open runs: cancel some, or wait for their end", RUNS_OPEN_MAX);
    if (pg_int8(rows, 0, 1) + bytes <= request->bytes_max) return SUCCESS;
    return failure(
        err, ERROR_LIMIT,
        "the envelopes of the project's runs have %lld bytes, and are kept for ever; this request has %lld, and the project may have %lld "
        "(run_bytes_per_project): use another project, or ask the operator for more",
        (long long)pg_int8(rows, 0, 1), (long long)bytes, (long long)request->bytes_max);
}

static struct result is_taken(struct error *err)
{
    return failure(err, ERROR_CONFLICT, "another request has this run's id: sign a request with an id of its own");
}

/* A client that lost the answer sends the request again. */
static struct result check_same(struct pg *pg, const struct run_request *request, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, &request->run.id);
    pg_add_uuid(&arguments, &request->where.project);
    pg_add_bytes(&arguments, (struct bytes){request->request.digest, sizeof request->request.digest});
    TRY(pg_run(pg, &run_is_same_sql, &arguments, &rows, err));
    if (pg_rows_count(rows) == 1 && pg_bool(rows, 0, 0)) return SUCCESS;
    return is_taken(err);
}

static struct result insert(struct pg *pg, const struct run_request *request, bool *is_new_out, struct error *err)
{
    const struct run *run = &request->run;
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, &run->id);
    pg_add_uuid(&arguments, &request->where.project);
    pg_add_text(&arguments, run_state_name(run_state_first(run->approvals_wanted)));
    pg_add_bytes(&arguments, (struct bytes){request->request.digest, sizeof request->request.digest});
    pg_add_text(&arguments, request->request.principal);
    pg_add_int4(&arguments, (int32_t)run->approvals_wanted);
    pg_add_text(&arguments, run->pool);
    pg_add_time(&arguments, run->expires_ms);
    pg_add_text(&arguments, run->command);
    TRY(pg_run(pg, &run_insert_sql, &arguments, &rows, err));
    *is_new_out = pg_rows_affected(rows) == 1;
    return SUCCESS;
}

/* Otherwise a request could name a run that does not exist, so that a model looks as if it had been made twice. */
static struct result check_rerun(struct pg *pg, const struct run_request *request, struct error *err)
{
    const struct run_rerun *repeated = &request->rerun;
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    if (!repeated->is_named) return SUCCESS;
    pg_add_uuid(&arguments, &repeated->run);
    pg_add_uuid(&arguments, &request->where.project);
    pg_add_bytes(&arguments, (struct bytes){repeated->order, sizeof repeated->order});
    TRY(pg_run(pg, &run_rerun_sql, &arguments, &rows, err));
    if (pg_bool(rows, 0, 0)) return SUCCESS;
    return failure(err, ERROR_INVALID, "rerun: this project has no such run with this order");
}

struct result run_row_request(struct pg *pg, const struct run_request *request, struct error *err)
{
    bool is_new = false;

    TRY(insert(pg, request, &is_new, err));
    if (!is_new) return check_same(pg, request, err);
    TRY(check_rerun(pg, request, err));
    TRY(check_room(pg, request, 0, err)); /* it was inserted already, so it is counted */
    TRY(run_budget_check(pg, &request->where.project, &request->run.id, &request->cost, err));
    TRY(checkpoint_row_resume(pg, request, err));
    return run_row_add_envelope(pg, &request->run.id, "request", &request->request, err);
}

/* *is_asked_out: the same caller has asked for this run by a token, so sijil-keyd decides whether it is the same request. */
static struct result find_asked(struct pg *pg, const struct run_request *request, bool *is_asked_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, &request->run.id);
    pg_add_uuid(&arguments, &request->where.project);
    pg_add_text(&arguments, request->request.principal);
    TRY(pg_run(pg, &run_is_asked_sql, &arguments, &rows, err));
    *is_asked_out = pg_rows_count(rows) > 0;
    return !*is_asked_out || pg_bool(rows, 0, 0) ? SUCCESS : is_taken(err);
}

struct result run_request_look(struct lookup *lookup, const struct run_request *request, struct error *err)
{
    struct pg *pg = lookup_connection(lookup);
    bool is_asked = false;

    TRY(find_asked(pg, request, &is_asked, err));
    if (is_asked) return SUCCESS;
    TRY(check_rerun(pg, request, err));
    TRY(check_room(pg, request, 1, err));
    TRY(run_budget_check(pg, &request->where.project, &request->run.id, &request->cost, err));
    return checkpoint_row_look(pg, request, err);
}

struct result run_attempts_end(struct pg *pg, const struct uuid *run, const char *outcome, const char *why, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_uuid(&arguments, run);
    pg_add_text(&arguments, outcome);
    pg_add_text(&arguments, why);
    return pg_run(pg, &run_attempts_end_sql, &arguments, NULL, err);
}

struct result run_row_move(struct pg *pg, const struct run_move *move, struct error *err)
{
    struct bytes before[RUN_STATE_COUNT];
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, move->run);
    pg_add_uuid(&arguments, move->project);
    pg_add_text(&arguments, run_state_name(move->to));
    pg_add_bool(&arguments, run_state_is_end(move->to));
    pg_add_text_array(&arguments, before, run_states_before(move->action, move->to, before));
    pg_add_text(&arguments, move->reason);
    TRY(pg_run(pg, &run_move_sql, &arguments, &rows, err));
    if (pg_rows_affected(rows) == 1)
        return run_state_is_end(move->to) ? run_attempts_end(pg, move->run, "stopped", NULL, err) : SUCCESS;
    return failure(err, ERROR_CONFLICT, "the run's state does not allow this: look at the run again");
}

struct result run_row_why_not(struct pg *pg, const struct uuid *run, const struct uuid *project, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;
    struct run found;

    pg_add_uuid(&arguments, run);
    pg_add_uuid(&arguments, project);
    TRY(pg_run(pg, &run_find_sql, &arguments, &rows, err));
    if (pg_rows_count(rows) == 0) return failure(err, ERROR_NOT_FOUND, "there is no such run in this project");
    TRY(read_row(rows, 0, &found, err));
    return failure(err, ERROR_CONFLICT, "the run is %s: it can't be cancelled any more", run_state_name(found.state));
}

static struct result count_approvals(struct pg *pg, const struct uuid *run, int64_t *count_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, run);
    TRY(pg_run(pg, &run_approvals_sql, &arguments, &rows, err));
    *count_out = pg_int8(rows, 0, 0);
    return SUCCESS;
}

struct result run_row_approve(struct pg *pg, const struct run_approve *approve, struct error *err)
{
    const struct run *run = &approve->run;
    const bool is_last = run->approvals + 1 >= run->approvals_wanted;
    const struct run_move move = {&run->id, &approve->where.project, ACTION_RUN_APPROVE,
                                  is_last ? RUN_STATE_REQUESTED : RUN_STATE_AWAITING_APPROVAL, NULL};
    int64_t count = 0;

    TRY(run_row_move(pg, &move, err));
    TRY(count_approvals(pg, &run->id, &count, err));
    if (count != run->approvals)
        return failure(err, ERROR_CONFLICT, "another approval arrived meanwhile: look at the run, and approve it again");
    return run_row_add_envelope(pg, &run->id, "approval", &approve->approval, err);
}

struct result run_rows_due(struct pg *pg, struct due_run *due_out, size_t capacity, size_t *count_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_int8(&arguments, (int64_t)capacity);
    TRY(pg_run(pg, &run_due_sql, &arguments, &rows, err));
    for (size_t i = 0; i < pg_rows_count(rows); i++) {
        due_out[i] = (struct due_run){.run = pg_uuid(rows, i, 0)};
        run_read_where(rows, i, 1, &due_out[i].where);
    }
    *count_out = pg_rows_count(rows);
    return SUCCESS;
}

/* ---- reading ---- */

/* The last five actions are for bundles and chains (training/papers.h). */
const struct resource *run_project_of(const struct permit *permit, enum action action)
{
    assert(action == ACTION_RUN_READ || action == ACTION_RUN_REQUEST || action == ACTION_RUN_APPROVE ||
           action == ACTION_RUN_ORDER || action == ACTION_RUN_LEASE || action == ACTION_RUN_REFUSE ||
           action == ACTION_RUN_FINISH || action == ACTION_RUN_ADMIT);
    return permit_resource(permit, action);
}

struct result run_find(const struct permit *permit, struct pg *pg, enum action action, const struct uuid *id, struct run *run_out,
                       struct error *err)
{
    const struct resource *where = run_project_of(permit, action);
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, id);
    pg_add_uuid(&arguments, &where->project);
    TRY(pg_run(pg, &run_find_sql, &arguments, &rows, err));
    if (pg_rows_count(rows) == 0) return failure(err, ERROR_NOT_FOUND, "there is no such run in this project");
    return read_row(rows, 0, run_out, err);
}

struct result run_read_activity(const struct permit *permit, struct pg *pg, enum action action, const struct uuid *id,
                                struct run_activity *activity_out, struct error *err)
{
    const struct resource *where = run_project_of(permit, action);
    struct run_activity activity = {.progress = -1};
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, id);
    pg_add_uuid(&arguments, &where->project);
    TRY(pg_run(pg, &run_activity_sql, &arguments, &rows, err));
    if (pg_rows_count(rows) > 0) {
        (void)snprintf(activity.phase, sizeof activity.phase, "%s", pg_text(rows, 0, 0));
        activity.progress = pg_int8(rows, 0, 1);
    }
    *activity_out = activity;
    return SUCCESS;
}

struct result run_nodes(const struct permit *permit, struct pg *pg, enum action action, const struct uuid *id,
                        struct pg_rows **rows_out, struct error *err)
{
    const struct resource *where = run_project_of(permit, action);
    struct pg_arguments arguments = {0};

    pg_add_uuid(&arguments, id);
    pg_add_uuid(&arguments, &where->project);
    return pg_run(pg, &run_nodes_sql, &arguments, rows_out, err);
}

struct result run_read_kept(const struct permit *permit, struct pg *pg, enum action action, const struct uuid *id,
                            struct run_kept *kept_out, struct error *err)
{
    const struct resource *where = run_project_of(permit, action);
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, id);
    pg_add_uuid(&arguments, &where->project);
    TRY(pg_run(pg, &run_kept_sql, &arguments, &rows, err));
    *kept_out = (struct run_kept){.nodes = 0};
    if (pg_rows_count(rows) == 1) *kept_out = (struct run_kept){pg_int8(rows, 0, 0), pg_int8(rows, 0, 1)};
    return SUCCESS;
}

struct result run_envelopes(const struct permit *permit, struct pg *pg, enum action action, const struct uuid *id,
                            struct pg_rows **rows_out, struct error *err)
{
    const struct resource *where = run_project_of(permit, action);
    struct pg_arguments arguments = {0};

    pg_add_uuid(&arguments, id);
    pg_add_uuid(&arguments, &where->project);
    return pg_run(pg, &run_envelopes_sql, &arguments, rows_out, err);
}

struct result run_list(const struct permit *permit, struct pg *pg, const struct run_page *page, struct run **runs_out,
                       size_t *count_out, struct error *err)
{
    const struct resource *where = permit_resource(permit, ACTION_RUN_READ);
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, &where->project);
    pg_add_int8(&arguments, page->before);
    pg_add_text(&arguments, page->state);
    pg_add_int8(&arguments, (int64_t)page->limit);
    TRY(pg_run(pg, &run_list_sql, &arguments, &rows, err));
    const size_t count = pg_rows_count(rows);
    struct run *runs = memory_zeroed(count + 1, sizeof *runs);
    if (runs == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a list of runs");
    for (size_t i = 0; i < count; i++) {
        if (read_row(rows, i, &runs[i], err).ok) continue;
        free(runs);
        return (struct result){.ok = false};
    }
    *runs_out = runs;
    *count_out = count;
    return SUCCESS;
}
