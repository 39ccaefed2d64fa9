/* The tables `run_log`, `run_log_piece` and `run_log_reader`. */
#include <stdio.h>

#include "registry/quota_store.h"
#include "storage/pg_table.h"
#include "training/content.h"
#include "training/log_jobs.h"
#include "training/log_priv.h"
#include "training/run_priv.h"

/* clang-format off */
/* Longer than an order lives and its log is kept. So this removes only rows that nothing else has removed. */
#define FAR     "interval '60 days'"
#define LOG(of) of "run_id = $1 AND " of "attempt = $2 AND " of "node = $3"

static const struct pg_statement run_log_find_sql = {
    "run_log_find",
    "SELECT l.run_id IS NOT NULL, l.gone_at IS NOT NULL, a.ended_at IS NULL AND a.ends_at > now(), coalesce(l.bytes, 0), coalesce(l.bytes_max, 0)"
    " FROM run_attempt a LEFT JOIN run_log l USING (run_id, attempt, node) WHERE " LOG("a.") " AND a.key = $4",
    "uuid int4 int4 text", "bool bool bool int8 int8"};
static const struct pg_statement run_log_begin_sql = {
    "run_log_begin",
    "WITH room AS (SELECT WHERE NOT EXISTS (SELECT FROM project_quota q WHERE q.project_id = $5 AND q.bytes_used + $7 > q.bytes_max)"
    " OR EXISTS (SELECT FROM run_log WHERE " LOG("") ")),"
    " made AS (INSERT INTO run_log (run_id, attempt, node, repository_id, project_id, region_id, bytes_max, reserved_bytes)"
    " SELECT $1, $2, $3, $4, $5, $6, $7, $7 FROM room ON CONFLICT DO NOTHING RETURNING project_id, reserved_bytes),"
    " counted AS (UPDATE project_quota q SET bytes_used = q.bytes_used + m.reserved_bytes FROM made m WHERE q.project_id = m.project_id)"
    " SELECT EXISTS (SELECT FROM room)",
    "uuid int4 int4 uuid uuid text int8", "bool"};
/* After the end of the attempt nothing more is reserved. If the object's own row is gone, the object is about to be removed: then blob_id is NULL, and
 * the statement fails. */
static const struct pg_statement run_log_append_sql = {
    "run_log_append",
    "WITH grown AS (UPDATE run_log l SET bytes = l.bytes + $6 FROM run_attempt a WHERE " LOG("l.") " AND l.bytes = $5"
    " AND l.bytes + $6 <= l.reserved_bytes AND l.gone_at IS NULL AND " LOG("a.") " AND a.key = $4 AND a.ended_at IS NULL AND a.ends_at > now()"
    " RETURNING l.project_id, l.region_id),"
    " kept AS (UPDATE abandoned_object o SET abandoned_at = now() + " FAR " FROM grown WHERE o.blob_id = $7 RETURNING o.blob_id),"
    " piece AS (INSERT INTO run_log_piece (run_id, attempt, node, start, length, blob_id, project_id, region_id, digest, size_bytes, part,"
    " key_version, wrapped_key, commitment) SELECT $1, $2, $3, $5, $6::int4, k.blob_id, g.project_id, g.region_id, $8, $9, $10, $11, $12, $13"
    " FROM grown g LEFT JOIN kept k ON true)"
    " SELECT count(*) FROM grown",
    "uuid int4 int4 text int8 int8 uuid text int8 int8 int4 bytea bytea", "int8"};
/* A piece must be of its run's project. Otherwise a row could show the log of another project to the readers of this run. */
static const struct pg_statement run_log_pieces_sql = {
    "run_log_pieces",
    "SELECT p.start, p.length, p.region_id, p.project_id, j.organisation_id, p.blob_id, p.digest, p.size_bytes, p.part, p.key_version,"
    " p.wrapped_key, p.commitment FROM run_log_piece p JOIN run r USING (run_id) JOIN project j ON j.project_id = p.project_id AND j.project_id = r.project_id"
    " WHERE " LOG("p.") " AND p.start > $4 - 262144"
    " AND p.start + p.length > $4 ORDER BY p.start LIMIT $5",
    "uuid int4 int4 int8 int8", "int8 int4 text uuid uuid uuid text int8 int8 int4 bytea bytea"};
static const struct pg_statement run_log_tail_sql = {
    "run_log_tail",
    "SELECT count(*), coalesce(min(start), 0) FROM (SELECT start FROM run_log_piece WHERE " LOG("") " ORDER BY start DESC LIMIT $4) t",
    "uuid int4 int4 int8", "int8 int8"};
static const struct pg_statement run_log_merge_sql = {
    "run_log_merge",
    "WITH held AS (SELECT run_id FROM run_log WHERE " LOG("") " AND bytes = $4 + $5 AND gone_at IS NULL FOR UPDATE),"
    " old AS (SELECT p.blob_id FROM run_log_piece p JOIN held USING (run_id) WHERE " LOG("p.") " AND p.start >= $4),"
    " kept AS (UPDATE abandoned_object o SET abandoned_at = now() + " FAR " FROM held WHERE o.blob_id = $6 RETURNING o.blob_id),"
    " one AS (UPDATE run_log_piece p SET length = $5::int4, blob_id = k.blob_id, digest = $7, size_bytes = $8, part = $9, key_version = $10,"
    " wrapped_key = $11, commitment = $12 FROM kept k WHERE " LOG("p.") " AND p.start = $4),"
    " others AS (DELETE FROM run_log_piece p USING kept WHERE " LOG("p.") " AND p.start > $4),"
    " freed AS (UPDATE abandoned_object o SET abandoned_at = now() + interval '1 minute' FROM old, kept WHERE o.blob_id = old.blob_id)"
    " SELECT count(*) FROM kept",
    "uuid int4 int4 int8 int8 uuid text int8 int8 int4 bytea bytea", "int8"};
static const struct pg_statement run_log_place_sql = {
    "run_log_place",
    "SELECT p.project_id, p.organisation_id, coalesce(p.deleted_name, o.name || '/' || p.name), e.envelope FROM run r JOIN project p USING (project_id)"
    " JOIN organisation o USING (organisation_id) JOIN run_envelope e ON e.run_id = r.run_id AND e.kind = 'request' AND e.digest = r.request"
    " WHERE r.run_id = $1",
    "uuid", "uuid uuid text text"};
static const struct pg_statement run_log_reader_sql = {
    "run_log_reader", "SELECT EXISTS (SELECT FROM run_log_reader WHERE run_id = $1 AND principal = $2)", "uuid text", "bool"};
static const struct pg_statement run_log_reader_add_sql = {
    "run_log_reader_add", "INSERT INTO run_log_reader (run_id, principal) VALUES ($1, $2) ON CONFLICT DO NOTHING", "uuid text", ""};
static const struct pg_statement run_log_view_sql = {
    "run_log_view",
    "SELECT r.state, n.attempt, coalesce(l.bytes, 0), l.gone_at IS NOT NULL, a.ended_at IS NOT NULL FROM run r"
    " CROSS JOIN LATERAL (SELECT CASE WHEN $3 = 0 THEN r.attempt ELSE $3 END AS attempt) n"
    " LEFT JOIN run_log l ON l.run_id = r.run_id AND l.attempt = n.attempt AND l.node = $4"
    " LEFT JOIN run_attempt a ON a.run_id = r.run_id AND a.attempt = n.attempt AND a.node = $4"
    " WHERE r.run_id = $1 AND EXISTS (SELECT FROM run_log_reader WHERE run_id = $1 AND principal = $2)",
    "uuid text int4 int4", "text int4 int8 bool bool"};
static const struct pg_statement run_log_kept_sql = {
    "run_log_kept", "UPDATE run_log SET pieces_due = now() + interval '1 hour' WHERE run_id = $1 AND pieces_due IS NULL", "uuid", ""};
static const struct pg_statement run_log_due_sql = {
    "run_log_due",
    "SELECT DISTINCT r.run_id, p.project_id, p.organisation_id, coalesce(p.deleted_name, o.name || '/' || p.name) FROM run_log l"
    " JOIN run r USING (run_id) JOIN project p ON p.project_id = l.project_id JOIN organisation o USING (organisation_id)"
    " LEFT JOIN repository t ON t.repository_id = l.repository_id WHERE l.gone_at IS NULL AND (l.pieces_due <= now()"
    " OR r.ended_at <= now() - interval '7 days' OR t.repository_id IS NULL OR t.deleted_at IS NOT NULL OR p.deleted_at IS NOT NULL) LIMIT $1",
    "int8", "uuid uuid uuid text"};
static const struct pg_statement run_log_forget_sql = {
    "run_log_forget",
    "WITH gone AS (DELETE FROM run_log_piece WHERE run_id = $1 RETURNING blob_id),"
    " freed AS (UPDATE abandoned_object o SET abandoned_at = now() + interval '1 minute' FROM gone WHERE o.blob_id = gone.blob_id),"
    " counted AS (UPDATE project_quota q SET bytes_used = q.bytes_used - l.bytes FROM (SELECT project_id, sum(reserved_bytes) AS bytes"
    " FROM run_log WHERE run_id = $1 AND gone_at IS NULL GROUP BY project_id) l WHERE q.project_id = l.project_id)"
    " UPDATE run_log SET gone_at = now(), reserved_bytes = 0 WHERE run_id = $1 AND gone_at IS NULL",
    "uuid", ""};
static const struct pg_statement *const statements[] = {
    &run_log_find_sql, &run_log_begin_sql, &run_log_append_sql, &run_log_pieces_sql, &run_log_tail_sql, &run_log_merge_sql, &run_log_place_sql,
    &run_log_reader_sql, &run_log_reader_add_sql, &run_log_view_sql, &run_log_kept_sql, &run_log_due_sql, &run_log_forget_sql,
};
/* clang-format on */
const struct pg_table run_log_table = PG_TABLE(statements);

static void add_log(struct pg_arguments *arguments, const struct log_id *log)
{
    pg_add_uuid(arguments, &log->run);
    pg_add_int4(arguments, (int32_t)log->attempt);
    pg_add_int4(arguments, (int32_t)log->node);
}

/* ---- writing ---- */

struct result log_row_find(struct pg *pg, const struct run_holder *holder, struct log_row *row_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    run_add_holder(&arguments, holder);
    TRY(pg_run(pg, &run_log_find_sql, &arguments, &rows, err));
    if (pg_rows_count(rows) == 0) return failure(err, ERROR_NOT_FOUND, "this runner has no such lease");
    *row_out = (struct log_row){.is_begun = pg_bool(rows, 0, 0),
                                .is_gone = pg_bool(rows, 0, 1),
                                .is_live = pg_bool(rows, 0, 2),
                                .bytes = (uint64_t)pg_int8(rows, 0, 3),
                                .bytes_max = (uint64_t)pg_int8(rows, 0, 4)};
    return SUCCESS;
}

struct result run_log_find(struct lookup *lookup, const struct run_holder *holder, bool *is_begun_out, uint64_t *bytes_out,
                           struct error *err)
{
    struct log_row row;

    TRY(log_row_find(lookup_connection(lookup), holder, &row, err));
    *is_begun_out = row.is_begun;
    *bytes_out = row.bytes;
    return SUCCESS;
}

struct result log_row_begin(struct pg *pg, const struct run_log_begin *begin, const struct uuid *repository, struct error *err)
{
    const struct log_id log = {begin->holder.run, begin->holder.attempt, begin->holder.node};
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    add_log(&arguments, &log);
    pg_add_uuid(&arguments, repository);
    pg_add_uuid(&arguments, &begin->where.project);
    pg_add_text(&arguments, begin->where.region);
    pg_add_int8(&arguments, begin->bytes_max);
    TRY(pg_run(pg, &run_log_begin_sql, &arguments, &rows, err));
    return pg_bool(rows, 0, 0) ? SUCCESS : quota_refuse(pg, &begin->where.project, begin->bytes_max, err);
}

struct result log_row_append(struct pg *pg, const struct run_log_append *append, const struct sealed_piece *piece,
                             bool *is_added_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    run_add_holder(&arguments, append->holder);
    pg_add_int8(&arguments, (int64_t)append->offset);
    pg_add_int8(&arguments, (int64_t)append->bytes.length);
    piece_add(&arguments, piece);
    TRY(pg_run(pg, &run_log_append_sql, &arguments, &rows, err));
    *is_added_out = pg_int8(rows, 0, 0) == 1;
    return SUCCESS;
}

/* ---- pieces ---- */

struct result log_rows_from(struct pg *pg, const struct log_id *log, uint64_t offset, struct log_piece pieces_out[LOG_PIECES_MAX],
                            size_t *count_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    add_log(&arguments, log);
    pg_add_int8(&arguments, (int64_t)offset);
    pg_add_int8(&arguments, LOG_PIECES_MAX);
    TRY(pg_run(pg, &run_log_pieces_sql, &arguments, &rows, err));
    const size_t count = pg_rows_count(rows);
    for (size_t i = 0; i < count && i < LOG_PIECES_MAX; i++) {
        struct log_piece *piece = &pieces_out[i];
        *piece = (struct log_piece){
            .start = (uint64_t)pg_int8(rows, i, 0),
            .length = (size_t)pg_int8(rows, i, 1),
            .where = {.kind = RESOURCE_PROJECT, .project = pg_uuid(rows, i, 3), .organisation = pg_uuid(rows, i, 4)}};
        (void)snprintf(piece->where.region, sizeof piece->where.region, "%s", pg_text(rows, i, 2));
        TRY(piece_take(rows, i, 5, &piece->sealed, err));
    }
    *count_out = count;
    return SUCCESS;
}

struct result log_row_tail(struct pg *pg, const struct log_id *log, int64_t wanted, uint64_t end, uint64_t *start_out,
                           struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    add_log(&arguments, log);
    pg_add_int8(&arguments, wanted);
    TRY(pg_run(pg, &run_log_tail_sql, &arguments, &rows, err));
    *start_out = pg_int8(rows, 0, 0) == wanted ? (uint64_t)pg_int8(rows, 0, 1) : end;
    return SUCCESS;
}

struct result log_row_merge(struct pg *pg, const struct log_id *log, const struct log_piece *merged, struct error *err)
{
    struct pg_arguments arguments = {0};

    add_log(&arguments, log);
    pg_add_int8(&arguments, (int64_t)merged->start);
    pg_add_int8(&arguments, (int64_t)merged->length);
    piece_add(&arguments, &merged->sealed);
    return pg_run(pg, &run_log_merge_sql, &arguments, NULL, err);
}

/* ---- reading ---- */

struct result run_log_place_find(struct lookup *lookup, const struct uuid *run, struct run_log_place *place_out,
                                 struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;
    OWNED(run_envelope) *request = NULL;

    pg_add_uuid(&arguments, run);
    TRY(pg_run(lookup_connection(lookup), &run_log_place_sql, &arguments, &rows, err));
    if (pg_rows_count(rows) == 0) return failure(err, ERROR_NOT_FOUND, "there is no such run");
    TRY(run_envelope_read(bytes_of_text(pg_text(rows, 0, 3)), RUN_REQUEST, &request, err));
    run_read_where(rows, 0, 0, &place_out->project);
    (void)snprintf(place_out->repository, sizeof place_out->repository, "%s", run_first_output(request));
    return SUCCESS;
}

struct result log_row_add_reader(struct pg *pg, const struct run_log_reader *reader, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_uuid(&arguments, &reader->run);
    pg_add_text(&arguments, reader->principal);
    return pg_run(pg, &run_log_reader_add_sql, &arguments, NULL, err);
}

struct result run_log_reader_is_known(struct lookup *lookup, const struct uuid *run, const char *principal, bool *is_known_out,
                                      struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, run);
    pg_add_text(&arguments, principal);
    TRY(pg_run(lookup_connection(lookup), &run_log_reader_sql, &arguments, &rows, err));
    *is_known_out = pg_bool(rows, 0, 0);
    return SUCCESS;
}

/* The newest attempt may be followed by another one as long as the run goes on; an attempt that is named has an end of its own. */
static bool is_over(const struct run_log_view *view, bool attempt_has_ended, bool is_named)
{
    return run_state_is_end(view->state) || (attempt_has_ended && (is_named || view->state == RUN_STATE_FINISHING));
}

struct result log_row_view(struct pg *pg, const struct run_log_query *query, struct run_log_view *view_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, &query->run);
    pg_add_text(&arguments, query->principal);
    pg_add_int4(&arguments, (int32_t)query->attempt);
    pg_add_int4(&arguments, (int32_t)query->node);
    TRY(pg_run(pg, &run_log_view_sql, &arguments, &rows, err));
    if (pg_rows_count(rows) == 0) return failure(err, ERROR_NOT_FOUND, "there is no such run");
    struct run_log_view view = {
        .attempt = pg_int8(rows, 0, 1), .bytes = (uint64_t)pg_int8(rows, 0, 2), .is_gone = pg_bool(rows, 0, 3)};
    TRY(run_read_state(rows, 0, 0, &view.state, err));
    view.has_ended = is_over(&view, pg_bool(rows, 0, 4), query->attempt != 0);
    *view_out = view;
    return SUCCESS;
}

/* ---- the end ---- */

struct result run_log_was_kept(struct pg *pg, const struct uuid *run, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_uuid(&arguments, run);
    return pg_run(pg, &run_log_kept_sql, &arguments, NULL, err);
}

struct result log_rows_due(struct pg *pg, struct due_log *due_out, size_t capacity, size_t *count_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_int8(&arguments, (int64_t)capacity);
    TRY(pg_run(pg, &run_log_due_sql, &arguments, &rows, err));
    const size_t count = pg_rows_count(rows);
    for (size_t i = 0; i < count; i++) {
        due_out[i].run = pg_uuid(rows, i, 0);
        run_read_where(rows, i, 1, &due_out[i].where);
    }
    *count_out = count;
    return SUCCESS;
}

struct result log_row_forget(struct pg *pg, const struct uuid *run, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, run);
    TRY(pg_run(pg, &run_log_forget_sql, &arguments, &rows, err));
    return pg_rows_affected(rows) > 0 ? SUCCESS : failure(err, ERROR_CONFLICT, "the log is gone already");
}
