/* The table `run_draft`, the search for runs that wait for their orders, and the order in the table `run`. */
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "storage/pg_table.h"
#include "training/order_priv.h"
#include "training/run_priv.h"
#include "training/unproven.h"

/* clang-format off */
static const struct pg_statement run_wish_sql = {
    "run_wish",
    "WITH waiting AS (SELECT run_id FROM run WHERE state = 'requested' AND claimed_until <= now() AND expires_at > now()"
    " ORDER BY claimed_until, number LIMIT 1 FOR UPDATE SKIP LOCKED)"
    " UPDATE run SET claimed_by = $1, claimed_until = now() + interval '30 seconds' FROM waiting, project p, organisation o"
    " WHERE run.run_id = waiting.run_id AND p.project_id = run.project_id AND o.organisation_id = p.organisation_id"
    " RETURNING run.run_id, p.project_id, p.organisation_id, coalesce(p.deleted_name, o.name || '/' || p.name), run.requester,"
    " (SELECT count(*) FROM run_envelope e WHERE e.run_id = run.run_id AND e.kind = 'approval'),"
    " (SELECT e.envelope FROM run_envelope e WHERE e.run_id = run.run_id AND e.kind = 'request' AND e.digest = run.request)",
    "text", "uuid uuid uuid text text int8 text"};
static const struct pg_statement run_wish_approvals_sql = {
    "run_wish_approvals", "SELECT envelope FROM run_envelope WHERE run_id = $1 AND kind = 'approval' ORDER BY number LIMIT 9", "uuid", "text"};
static const struct pg_statement run_draft_find_sql = {
    "run_draft_find",
    "SELECT event, policies, jurisdictions, regions, approvals, signed_request, attempts, coalesce(checkpoint, '') FROM run_draft"
    " WHERE run_id = $1",
    "uuid", "int8 text text text int4 bool int4 text"};
static const struct pg_statement run_draft_insert_sql = {
    "run_draft_insert",
    "INSERT INTO run_draft (run_id, event, policies, jurisdictions, regions, approvals, signed_request, attempts)"
    " SELECT run_id, $2, $3, $4, $5, $6, $7, $8 FROM run WHERE run_id = $1 AND state = 'requested' ON CONFLICT DO NOTHING",
    "uuid int8 text text text int4 bool int4", ""};
static const struct pg_statement run_draft_checkpoint_sql = {
    "run_draft_checkpoint", "UPDATE run_draft SET checkpoint = $3 WHERE run_id = $1 AND event = $2 AND checkpoint IS NULL",
    "uuid int8 text", ""};
static const struct pg_statement run_draft_drop_sql = {"run_draft_drop", "DELETE FROM run_draft WHERE run_id = $1", "uuid", ""};
static const struct pg_statement run_waiting_pools_sql = {
    "run_waiting_pools", "SELECT DISTINCT pool FROM run WHERE state = 'ordered' AND claimed_until <= now() AND expires_at > now()", "",
    "text"};
static const struct pg_statement run_order_sql = {
    "run_order",
    "UPDATE run SET attempts = $2, nodes = $3, time_s = $4, cpus = $5, memory_bytes = $6, isolation = $7, assurance = $8, jurisdictions = $9,"
    " devices = $10, device_type = $11, device_mig = $12, device_memory = $13, expires_at = $14, regions = string_to_array($15, ' '),"
    " claimed_by = '', claimed_until = 'epoch' WHERE run_id = $1",
    "uuid int4 int4 int8 int8 int8 int4 int4 text[] int8 text text int8 timestamptz text", ""};
static const struct pg_statement run_end_known_sql = {
    "run_end_known",
    "SELECT r.run_id, r.request FROM run_draft d JOIN run r USING (run_id) WHERE NOT d.is_freed AND r.ended_at IS NOT NULL ORDER BY r.ended_at LIMIT $1",
    "int8", "uuid bytea"};
static const struct pg_statement run_freed_sql = {
    "run_freed", "UPDATE run_draft SET is_freed = true WHERE run_id = $1", "uuid", ""};
/* The request of a run is the one that its row names, which nothing changes: no other row says what was asked for. */
static const struct pg_statement run_order_find_sql = {
    "run_order_find", "SELECT envelope FROM run_envelope WHERE run_id = $1 AND kind = 'order'", "uuid", "text"};
static const struct pg_statement run_ordered_find_sql = {
    "run_ordered_find",
    "SELECT o.envelope, e.envelope FROM run_envelope o JOIN run r USING (run_id)"
    " JOIN run_envelope e ON e.run_id = r.run_id AND e.kind = 'request' AND e.digest = r.request WHERE o.run_id = $1 AND o.kind = 'order'",
    "uuid", "text text"};
static const struct pg_statement run_request_find_sql = {
    "run_request_find",
    "SELECT e.envelope FROM run r JOIN run_envelope e ON e.run_id = r.run_id AND e.kind = 'request' AND e.digest = r.request WHERE r.run_id = $1",
    "uuid", "text"};
static const struct pg_statement *const statements[] = {
    &run_order_sql, &run_order_find_sql, &run_ordered_find_sql, &run_request_find_sql, &run_wish_sql, &run_wish_approvals_sql, &run_draft_find_sql, &run_draft_insert_sql, &run_draft_checkpoint_sql, &run_draft_drop_sql, &run_waiting_pools_sql,
    &run_end_known_sql, &run_freed_sql,
};
/* clang-format on */
const struct pg_table run_draft_table = PG_TABLE(statements);

void run_draft_done(struct run_draft *draft)
{
    free(draft->regions);
    draft->regions = NULL;
}

void run_wish_done(struct run_wish *wish)
{
    run_envelope_free(wish->request);
    wish->request = NULL;
}

static struct result read_wish(const struct pg_rows *rows, struct run_wish *wish, struct error *err)
{
    char id[UUID_TEXT_SIZE];

    wish->run = pg_uuid(rows, 0, 0);
    run_read_where(rows, 0, 1, &wish->where);
    (void)snprintf(wish->requester, sizeof wish->requester, "%s", pg_text(rows, 0, 4));
    wish->approvals = pg_int8(rows, 0, 5);
    TRY(run_envelope_read(pg_bytes(rows, 0, 6), RUN_REQUEST, &wish->request, err));
    uuid_format(&wish->run, id);
    (void)snprintf(wish->where.detail, sizeof wish->where.detail, "%s %s", wish->request->digest, id);
    return SUCCESS;
}

struct result run_row_wish(struct pg *pg, const char *instance, struct run_wish *wish_out, bool *found_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_text(&arguments, instance);
    TRY(pg_run(pg, &run_wish_sql, &arguments, &rows, err));
    *found_out = pg_rows_count(rows) == 1;
    return *found_out ? read_wish(rows, wish_out, err) : SUCCESS;
}

struct result run_rows_approvals(struct pg *pg, const struct uuid *run, struct pg_rows **rows_out, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_uuid(&arguments, run);
    return pg_run(pg, &run_wish_approvals_sql, &arguments, rows_out, err);
}

struct result run_row_draft_find(struct pg *pg, const struct uuid *run, struct run_draft *draft, bool *found_out,
                                 struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, run);
    TRY(pg_run(pg, &run_draft_find_sql, &arguments, &rows, err));
    *found_out = pg_rows_count(rows) == 1;
    if (!*found_out) return SUCCESS;
    *draft = (struct run_draft){.event = (uint64_t)pg_int8(rows, 0, 0),
                                .approvals = pg_int8(rows, 0, 4),
                                .signed_request = pg_bool(rows, 0, 5),
                                .attempts = pg_int8(rows, 0, 6)};
    (void)snprintf(draft->policies, sizeof draft->policies, "%s", pg_text(rows, 0, 1));
    (void)snprintf(draft->jurisdictions, sizeof draft->jurisdictions, "%s", pg_text(rows, 0, 2));
    (void)snprintf(draft->checkpoint, sizeof draft->checkpoint, "%s", pg_text(rows, 0, 7));
    draft->regions = memory_copy_text(pg_text(rows, 0, 3), pg_bytes(rows, 0, 3).length);
    return draft->regions != NULL ? SUCCESS : failure(err, ERROR_NO_MEMORY, "no memory for an order");
}

struct result run_row_draft(struct pg *pg, const struct uuid *run, const struct run_draft *draft, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, run);
    pg_add_int8(&arguments, (int64_t)draft->event);
    pg_add_text(&arguments, draft->policies);
    pg_add_text(&arguments, draft->jurisdictions);
    pg_add_text(&arguments, draft->regions);
    pg_add_int4(&arguments, (int32_t)draft->approvals);
    pg_add_bool(&arguments, draft->signed_request);
    pg_add_int4(&arguments, (int32_t)draft->attempts);
    TRY(pg_run(pg, &run_draft_insert_sql, &arguments, &rows, err));
    if (pg_rows_affected(rows) == 1) return SUCCESS;
    return failure(err, ERROR_CONFLICT, "the run is not requested any more, or another gateway orders it");
}

struct result run_row_draft_checkpoint(struct pg *pg, const struct uuid *run, const struct run_draft *draft, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, run);
    pg_add_int8(&arguments, (int64_t)draft->event);
    pg_add_text(&arguments, draft->checkpoint);
    TRY(pg_run(pg, &run_draft_checkpoint_sql, &arguments, &rows, err));
    if (pg_rows_affected(rows) == 1) return SUCCESS;
    return failure(err, ERROR_CONFLICT, "another gateway orders this run");
}

struct result run_rows_ended(struct pg *pg, size_t most, struct pg_rows **rows_out, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_int8(&arguments, (int64_t)most);
    return pg_run(pg, &run_end_known_sql, &arguments, rows_out, err);
}

struct result run_row_freed(struct pg *pg, const struct uuid *run, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_uuid(&arguments, run);
    return pg_run(pg, &run_freed_sql, &arguments, NULL, err);
}

struct result run_row_draft_drop(struct pg *pg, const struct uuid *run, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_uuid(&arguments, run);
    return pg_run(pg, &run_draft_drop_sql, &arguments, NULL, err);
}

struct result run_waiting_pools(struct pg *pg, struct pg_rows **rows_out, struct error *err)
{
    const struct pg_arguments none = {0};

    return pg_run(pg, &run_waiting_pools_sql, &none, rows_out, err);
}

/* ---- the order ---- */

struct result run_row_order(struct pg *pg, const struct run_order *order, struct error *err)
{
    const struct run_need *need = &order->need;
    const struct run_move move = {&order->run, &order->where.project, ACTION_RUN_ORDER, RUN_STATE_ORDERED, NULL};
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    TRY(run_row_move(pg, &move, err));
    TRY(run_row_add_envelope(pg, &order->run, "order", &order->order, err));
    pg_add_uuid(&arguments, &order->run);
    pg_add_int4(&arguments, (int32_t)need->attempts);
    pg_add_int4(&arguments, (int32_t)need->nodes);
    pg_add_int8(&arguments, need->time_s);
    pg_add_int8(&arguments, need->cpus);
    pg_add_int8(&arguments, need->memory_bytes);
    pg_add_int4(&arguments, (int32_t)need->isolation);
    pg_add_int4(&arguments, (int32_t)need->assurance);
    pg_add_text_array(&arguments, need->jurisdictions, need->jurisdiction_count);
    pg_add_int8(&arguments, need->devices);
    pg_add_text(&arguments, need->device_type);
    pg_add_text(&arguments, need->device_mig);
    pg_add_int8(&arguments, need->device_memory);
    pg_add_time(&arguments, need->expires_ms);
    pg_add_text(&arguments, order->regions);
    TRY(pg_run(pg, &run_order_sql, &arguments, &rows, err));
    return pg_rows_affected(rows) == 1 ? SUCCESS : failure(err, ERROR_CONFLICT, "there is no such run");
}

struct result run_order_find(struct lookup *lookup, const struct uuid *run, struct run_envelope **order_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, run);
    TRY(pg_run(lookup_connection(lookup), &run_order_find_sql, &arguments, &rows, err));
    if (pg_rows_count(rows) == 0) return failure(err, ERROR_NOT_FOUND, "the run has no order");
    return run_envelope_read(bytes_of_text(pg_text(rows, 0, 0)), RUN_ORDER, order_out, err);
}

void run_ordered_done(struct run_ordered *ordered)
{
    run_envelope_free(ordered->order);
    run_envelope_free(ordered->request);
}

struct result run_ordered_find(struct lookup *lookup, const struct uuid *run, struct run_ordered *ordered, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, run);
    TRY(pg_run(lookup_connection(lookup), &run_ordered_find_sql, &arguments, &rows, err));
    if (pg_rows_count(rows) == 0) return failure(err, ERROR_NOT_FOUND, "the run has no order");
    TRY(run_envelope_read(bytes_of_text(pg_text(rows, 0, 0)), RUN_ORDER, &ordered->order, err));
    return run_envelope_read(bytes_of_text(pg_text(rows, 0, 1)), RUN_REQUEST, &ordered->request, err);
}

struct result run_request_find(struct lookup *lookup, const struct uuid *run, struct run_envelope **request_out,
                               struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, run);
    TRY(pg_run(lookup_connection(lookup), &run_request_find_sql, &arguments, &rows, err));
    if (pg_rows_count(rows) == 0) return failure(err, ERROR_NOT_FOUND, "the run has no request");
    return run_envelope_read(bytes_of_text(pg_text(rows, 0, 0)), RUN_REQUEST, request_out, err);
}
