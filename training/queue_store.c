/* The runs that wait for runners, or that runners hold, as a scheduler must know them. */
#include "storage/pg_table.h"
#include "training/run_priv.h"
#include "training/work.h"

/* clang-format off */
static const struct pg_statement run_queue_sql = {
    "run_queue",
    "SELECT r.run_id, r.attempt + CASE WHEN EXISTS (SELECT 1 FROM run_attempt a WHERE a.run_id = r.run_id AND a.ended_at IS NULL) THEN 0 ELSE 1 END,"
    " r.state <> 'ordered', r.nodes, r.cpus, r.memory_bytes, r.time_s, r.devices, r.device_type,"
    " array_to_string(ARRAY(SELECT u FROM unnest(r.regions) u WHERE u = ANY ($4) ORDER BY u), ' '), e.envelope"
    " FROM run r JOIN project p USING (project_id) JOIN run_envelope e ON e.run_id = r.run_id AND e.kind = 'order'"
    " WHERE r.ended_at IS NULL AND r.pool = $1 AND ($2::uuid IS NULL OR p.organisation_id = $2) AND ($3::uuid IS NULL OR r.project_id = $3)"
    " AND r.regions && $4 AND r.expires_at > now() AND ((r.state = 'ordered' AND r.attempt < r.attempts)"
    " OR r.run_id IN (SELECT run_id FROM run_attempt WHERE ended_at IS NULL)) ORDER BY r.number LIMIT $5",
    "text uuid uuid text[] int8", "uuid int4 bool int4 int8 int8 int8 int8 text text text"};
static const struct pg_statement *const statements[] = {&run_queue_sql};
/* clang-format on */
const struct pg_table run_queue_table = PG_TABLE(statements);

static struct run_queued read_row(const struct pg_rows *rows, size_t row)
{
    return (struct run_queued){.run = pg_uuid(rows, row, 0),
                               .attempt = pg_int8(rows, row, 1),
                               .is_held = pg_bool(rows, row, 2),
                               .nodes = pg_int8(rows, row, 3),
                               .cpus = pg_int8(rows, row, 4),
                               .memory_bytes = pg_int8(rows, row, 5),
                               .time_s = pg_int8(rows, row, 6),
                               .devices = pg_int8(rows, row, 7),
                               .device_type = pg_text(rows, row, 8),
                               .regions = pg_text(rows, row, 9),
                               .order = pg_text(rows, row, 10)};
}

struct result run_queue_visit(struct lookup *lookup, const struct run_queue_query *query, bool *more_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_text(&arguments, query->pool);
    pg_add_uuid(&arguments, query->organisation);
    pg_add_uuid(&arguments, query->project);
    pg_add_text_array(&arguments, query->regions, query->region_count);
    pg_add_int8(&arguments, RUN_QUEUE_MAX + 1);
    TRY(pg_run(lookup_connection(lookup), &run_queue_sql, &arguments, &rows, err));
    const size_t count = pg_rows_count(rows);
    for (size_t i = 0; i < count && i < RUN_QUEUE_MAX; i++) {
        const struct run_queued queued = read_row(rows, i);
        TRY(query->visit(query->context, &queued, err));
    }
    *more_out = count > RUN_QUEUE_MAX;
    return SUCCESS;
}
