#include "authz/elevation.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "authz/rights_priv.h"
#include "base/memory.h"
#include "base/text.h"
#include "storage/pg_table.h"

#define HOUR_S 3600

/* clang-format off */
#define IS_WAITING "binding_id IS NULL AND ended_at IS NULL AND waits_until > now()"
#define ON_SCOPE(o, p, n) \
    "organisation_id IS NOT DISTINCT FROM " o " AND project_id IS NOT DISTINCT FROM " p " AND pattern IS NOT DISTINCT FROM " n
#define ROW \
    "SELECT e.elevation_id, e.binding_id, e.issuer, e.subject, e.role, coalesce(e.pattern, concat_ws('/', o.name, p.name)), e.reason," \
    " CASE WHEN e.ended_at IS NOT NULL OR b.revoked_at IS NOT NULL OR b.expires_at <= now() THEN 'ended' WHEN b.binding_id IS NOT NULL THEN 'granted'" \
    " WHEN e.waits_until > now() THEN 'waiting' ELSE 'ended' END," \
    " e.hours, e.asked_at, coalesce(b.expires_at, e.waits_until), coalesce(e.decided_by, '')" \
    " FROM elevation e LEFT JOIN binding b USING (binding_id) LEFT JOIN organisation o ON o.organisation_id = e.organisation_id" \
    " LEFT JOIN project p ON p.project_id = e.project_id"
#define ROW_TYPES "uuid uuid text text text text text text int8 timestamptz timestamptz text"

/* Each use sweeps a few rows that are long over. */
static const struct pg_statement elevation_insert_sql = {
    "elevation_insert",
    "WITH swept AS (DELETE FROM elevation WHERE elevation_id IN"
    " (SELECT elevation_id FROM elevation WHERE waits_until < now() - interval '90 days' ORDER BY waits_until LIMIT 16)),"
    " waiting AS (SELECT count(*) AS n FROM elevation WHERE issuer = $2 AND subject = $3 AND " IS_WAITING "),"
    " made AS (INSERT INTO elevation (elevation_id, issuer, subject, role, organisation_id, project_id, pattern, hours, reason, waits_until)"
    " SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, now() + interval '7 days' FROM waiting WHERE n < $10 RETURNING 1)"
    " SELECT count(*) FROM made",
    "uuid text text text uuid uuid text int8 text int8", "int8"};
static const struct pg_statement elevation_waits_sql = {
    "elevation_waits",
    "SELECT count(*) FROM elevation WHERE elevation_id = $1 AND issuer = $2 AND subject = $3 AND role = $4 AND " ON_SCOPE("$5", "$6", "$7")
    " AND hours = $8 AND " IS_WAITING,
    "uuid text text text uuid uuid text int8", "int8"};
static const struct pg_statement elevation_granted_sql = {
    "elevation_granted", "UPDATE elevation SET binding_id = $2, decided_by = $3 WHERE elevation_id = $1", "uuid uuid text", ""};
static const struct pg_statement elevation_end_sql = {
    "elevation_end",
    "WITH ended AS (UPDATE elevation SET ended_at = now(), decided_by = coalesce(decided_by, $2) WHERE elevation_id = $1 AND ended_at IS NULL"
    " AND " ON_SCOPE("$3", "$4", "$5") " AND role = $6 AND ($7 OR (issuer = $8 AND subject = $9)) RETURNING binding_id),"
    " revoked AS (UPDATE binding SET revoked_at = now() WHERE binding_id IN (SELECT binding_id FROM ended) AND revoked_at IS NULL RETURNING 1)"
    " SELECT (SELECT count(*) FROM ended), (SELECT count(*) FROM revoked)",
    "uuid text uuid uuid text text bool text text", "int8 int8"};
static const struct pg_statement elevation_list_sql = {
    "elevation_list",
    ROW " WHERE ($1::uuid IS NULL OR e.organisation_id = $1) AND ($2::uuid IS NULL OR e.project_id = $2)"
        " AND ($3::text IS NULL OR (e.issuer = $3 AND e.subject = $4)) AND e.elevation_id > $5 ORDER BY e.elevation_id LIMIT $6",
    "uuid uuid text text uuid int8", ROW_TYPES};
static const struct pg_statement *const statements[] = {
    &elevation_insert_sql, &elevation_waits_sql, &elevation_granted_sql, &elevation_end_sql, &elevation_list_sql,
};
/* clang-format on */
const struct pg_table elevation_table = PG_TABLE(statements);

static const struct uuid *or_null(const struct uuid *id)
{
    return uuid_is_nil(id) ? NULL : id;
}

static void add_scope(struct pg_arguments *arguments, const struct resource *scope)
{
    pg_add_uuid(arguments, or_null(&scope->organisation));
    pg_add_uuid(arguments, or_null(&scope->project));
    pg_add_text(arguments, scope->kind == RESOURCE_REPOSITORY ? scope->name : NULL);
}

bool elevation_takes(const struct authz_binding *wanted)
{
    static const enum role refused[] = {ROLE_REGISTRY_ADMIN, ROLE_SECURITY_OFFICER, ROLE_BREAK_GLASS, ROLE_WITNESS};

    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        if (wanted->role == refused[i]) return false;
    return true;
}

/* ---- asking ---- */

static struct result run_request(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    const struct elevation_request *request = (const struct elevation_request *)change; /* its first member */
    const struct resource *scope = permit_resource(permit, ACTION_ELEVATION_REQUEST);
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    assert(strcmp(scope->detail, request->role) == 0);
    if (scope->kind != RESOURCE_SYSTEM &&
        uuid_is_nil(scope->kind == RESOURCE_ORGANISATION ? &scope->organisation : &scope->project))
        return failure(err, ERROR_NOT_FOUND, "there is no such organisation or project");
    pg_add_uuid(&arguments, &request->id);
    pg_add_text(&arguments, request->person->issuer);
    pg_add_text(&arguments, request->person->subject);
    pg_add_text(&arguments, request->role);
    add_scope(&arguments, scope);
    pg_add_int8(&arguments, request->hours);
    pg_add_text(&arguments, request->reason);
    pg_add_int8(&arguments, ELEVATIONS_WAITING_MAX);
    TRY(pg_run(pg, &elevation_insert_sql, &arguments, &rows, err));
    if (pg_int8(rows, 0, 0) == 1) return SUCCESS;
    return failure(err, ERROR_LIMIT, "%d of your requests wait already: end one first", ELEVATIONS_WAITING_MAX);
}

void elevation_request_init(struct elevation_request *request, const struct resource *scope)
{
    char id[UUID_TEXT_SIZE];

    request->change = (struct change){.run = run_request, .invalidates = CHANGE_INVALIDATES_NOTHING, .detail = request->detail};
    request->id = uuid_random();
    uuid_format(&request->id, id);
    (void)snprintf(request->detail, sizeof request->detail, "%s %s", scope->detail, id);
}

/* ---- granting ---- */

static struct result check_waits(const struct elevation_grant *grant, const struct resource *scope, struct pg *pg,
                                 struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, &grant->id);
    pg_add_text(&arguments, grant->create.binding.issuer);
    pg_add_text(&arguments, grant->create.binding.subject);
    pg_add_text(&arguments, binding_role_name(&grant->create.binding));
    add_scope(&arguments, scope);
    pg_add_int8(&arguments, grant->create.lifetime_s / HOUR_S);
    TRY(pg_run(pg, &elevation_waits_sql, &arguments, &rows, err));
    if (pg_int8(rows, 0, 0) == 1) return SUCCESS;
    return failure(err, ERROR_CONFLICT,
                   "no request with this id waits for this role of this person on this scope, for so many hours");
}

static struct result run_grant(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    struct elevation_grant *grant = (struct elevation_grant *)change; /* its first member */
    struct pg_arguments arguments = {0};

    TRY(check_waits(grant, permit_resource(permit, ACTION_BINDING_CREATE), pg, err));
    TRY(binding_insert(permit, pg, &grant->create, err));
    pg_add_uuid(&arguments, &grant->id);
    pg_add_uuid(&arguments, &grant->create.binding.id);
    pg_add_text(&arguments, grant->create.binding.granted_by);
    return pg_run(pg, &elevation_granted_sql, &arguments, NULL, err);
}

void elevation_grant_init(struct elevation_grant *grant, const struct uuid *id, const struct authz_binding *binding,
                          int64_t hours)
{
    binding_create_init(&grant->create, binding, hours * HOUR_S);
    grant->change = grant->create.change;
    grant->change.run = run_grant;
    grant->change.add_all = NULL; /* it takes more than one statement */
    grant->id = *id;
}

/* ---- the end ---- */

static struct result run_end(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    const struct elevation_end *end = (const struct elevation_end *)change; /* its first member */
    const struct resource *scope = permit_resource(permit, ACTION_ELEVATION_END);
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;
    struct uuid decided = {{0}};
    char ended_by[PRINCIPAL_KEY_SIZE];

    assert(uuid_parse(bytes_of_text(scope->detail), &decided) && uuid_equal(&decided, &end->id));
    principal_key(end->by, ended_by);
    pg_add_uuid(&arguments, &end->id);
    pg_add_text(&arguments, ended_by);
    add_scope(&arguments, scope);
    pg_add_text(&arguments, end->role);
    pg_add_bool(&arguments, end->is_of_others);
    pg_add_text(&arguments, end->by->issuer);
    pg_add_text(&arguments, end->by->subject);
    TRY(pg_run(pg, &elevation_end_sql, &arguments, &rows, err));
    if (pg_int8(rows, 0, 0) == 0) return failure(err, ERROR_NOT_FOUND, "there is no such request on this scope");
    return rights_raise_epoch(pg, &scope->organisation, err);
}

void elevation_end_init(struct elevation_end *end, const struct uuid *id, const struct principal *by)
{
    *end = (struct elevation_end){.change = {.run = run_end, .raises_epoch = true}, .id = *id, .by = by};
}

/* ---- rows ---- */

static const char *state_of(const char *text)
{
    static const char *const states[] = {"waiting", "granted", "ended"};

    for (size_t i = 0; i < sizeof states / sizeof states[0]; i++)
        if (strcmp(states[i], text) == 0) return states[i];
    return "ended";
}

static void read_row(const struct pg_rows *rows, size_t row, struct elevation_row *row_out)
{
    row_out->id = pg_uuid(rows, row, 0);
    if (!pg_is_null(rows, row, 1)) row_out->binding = pg_uuid(rows, row, 1);
    (void)text_copy(row_out->issuer, sizeof row_out->issuer, pg_text(rows, row, 2));
    (void)text_copy(row_out->subject, sizeof row_out->subject, pg_text(rows, row, 3));
    (void)text_copy(row_out->role, sizeof row_out->role, pg_text(rows, row, 4));
    (void)text_copy(row_out->on, sizeof row_out->on, pg_text(rows, row, 5));
    (void)text_copy(row_out->reason, sizeof row_out->reason, pg_text(rows, row, 6));
    row_out->state = state_of(pg_text(rows, row, 7));
    row_out->hours = pg_int8(rows, row, 8);
    row_out->asked_ms = pg_time_ms(rows, row, 9);
    row_out->until_ms = pg_time_ms(rows, row, 10);
    (void)text_copy(row_out->decided_by, sizeof row_out->decided_by, pg_text(rows, row, 11));
}

struct result elevation_list(const struct permit *permit, struct pg *pg, const struct elevation_query *query,
                             struct elevation_row **rows_out, size_t *count_out, struct error *err)
{
    const struct resource *scope = permit_resource(permit, ACTION_ELEVATION_READ);
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    assert(query->limit <= ELEVATION_PAGE_MAX && scope->kind != RESOURCE_REPOSITORY);
    pg_add_uuid(&arguments, or_null(&scope->organisation));
    pg_add_uuid(&arguments, or_null(&scope->project));
    pg_add_text(&arguments, query->own == NULL ? NULL : query->own->issuer);
    pg_add_text(&arguments, query->own == NULL ? NULL : query->own->subject);
    pg_add_uuid(&arguments, query->after);
    pg_add_int8(&arguments, (int64_t)query->limit);
    TRY(pg_run(pg, &elevation_list_sql, &arguments, &rows, err));
    struct elevation_row *list = memory_zeroed(pg_rows_count(rows) + 1, sizeof *list);
    if (list == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a list");
    for (size_t i = 0; i < pg_rows_count(rows); i++) read_row(rows, i, &list[i]);
    *rows_out = list;
    *count_out = pg_rows_count(rows);
    return SUCCESS;
}
