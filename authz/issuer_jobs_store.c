#include "authz/issuer_jobs.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "authz/rights_priv.h"
#include "base/text.h"
#include "storage/pg_table.h"

/* clang-format off */
static const struct pg_statement issuer_task_claim_sql = {
    "issuer_task_claim",
    "UPDATE issuer_fetch f SET attempted_at = date_trunc('milliseconds', clock_timestamp()), due_at = now() + make_interval(secs => ($2::int8)::float8)"
    " FROM trusted_issuer t WHERE t.issuer_id = f.issuer_id AND f.issuer_id = (SELECT issuer_id FROM issuer_fetch"
    " WHERE due_at <= now() AND (failures > 0) = $1 ORDER BY due_at LIMIT 1 FOR UPDATE SKIP LOCKED)"
    " RETURNING f.issuer_id, t.url, coalesce(t.keys_url, ''), array_to_string(t.algorithms, ' '), f.failures, f.attempted_at,"
    " encode(sha256(convert_to(t.jwks, 'UTF8')), 'hex')",
    "bool int8", "uuid text text text int8 timestamptz text"};
/* Each issuer has an interval of its own, so that those that were added at one moment are not asked at one moment for ever. */
static const struct pg_statement issuer_task_end_sql = {
    "issuer_task_end",
    "UPDATE issuer_fetch SET ended_at = now(), problem = $3, report = $4, failures = CASE WHEN $3 IS NULL THEN 0 ELSE failures + 1 END,"
    " confirmed_at = CASE WHEN $3 IS NULL THEN attempted_at ELSE confirmed_at END,"
    " due_at = now() + make_interval(secs => CASE WHEN $3 IS NULL THEN ($5::int8)::float8"
    " ELSE least(($5::int8)::float8, ($6::int8)::float8 * 2 ^ least(failures, 10)) END * (1 + abs(hashtext(issuer_id::text) % 16) / 256.0))"
    " WHERE issuer_id = $1 AND attempted_at = $2",
    "uuid timestamptz text text int8 int8", ""};
static const struct pg_statement issuer_wish_sql = {
    "issuer_wish",
    "UPDATE issuer_fetch SET due_at = greatest(now(), coalesce(attempted_at, now()) + make_interval(secs => ($2::int8)::float8))"
    " WHERE issuer_id = ANY($1) AND due_at > greatest(now(), coalesce(attempted_at, now()) + make_interval(secs => ($2::int8)::float8))"
    " AND (attempted_at IS NULL OR ended_at >= attempted_at)",
    "uuid[] int8", ""};
static const struct pg_statement issuer_confirmations_sql = {
    "issuer_confirmations",
    "SELECT t.url, f.confirmed_at FROM issuer_fetch f JOIN trusted_issuer t USING (issuer_id)", "", "text timestamptz"};
static const struct pg_statement *const statements[] = {
    &issuer_task_claim_sql, &issuer_task_end_sql, &issuer_wish_sql, &issuer_confirmations_sql,
};

static const struct pg_statement issuer_renew_sql = {
    "issuer_renew",
    "WITH mine AS (UPDATE issuer_fetch SET confirmed_at = attempted_at WHERE issuer_id = $1 AND attempted_at = $2 RETURNING issuer_id)"
    " UPDATE trusted_issuer t SET jwks = $3 FROM mine WHERE t.issuer_id = mine.issuer_id AND t.follows AND t.url = $4",
    "uuid timestamptz text text", ""};
static const struct pg_statement *const renew_statements[] = {
    &issuer_renew_sql,
};
/* clang-format on */
const struct pg_table issuer_jobs_table = PG_TABLE(statements);
const struct pg_table issuer_renew_table = PG_TABLE(renew_statements);

static void read_task(const struct pg_rows *rows, struct issuer_task *task_out)
{
    struct issuer_task task = {.id = pg_uuid(rows, 0, 0),
                               .algorithms = jose_algorithms_of(pg_text(rows, 0, 3)),
                               .failures = pg_int8(rows, 0, 4),
                               .attempted_ms = pg_time_ms(rows, 0, 5)};

    (void)text_copy(task.url, sizeof task.url, pg_text(rows, 0, 1));
    (void)text_copy(task.keys_url, sizeof task.keys_url, pg_text(rows, 0, 2));
    (void)text_copy(task.jwks_sha256, sizeof task.jwks_sha256, pg_text(rows, 0, 6));
    *task_out = task;
}

struct result issuer_task_claim(struct pg *pg, bool failed, struct issuer_task *task_out, bool *found_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_bool(&arguments, failed);
    pg_add_int8(&arguments, ISSUER_CLAIM_S);
    TRY(pg_run(pg, &issuer_task_claim_sql, &arguments, &rows, err));
    *found_out = pg_rows_count(rows) > 0;
    if (*found_out) read_task(rows, task_out);
    return SUCCESS;
}

struct result issuer_task_end(struct pg *pg, const struct issuer_task *task, const struct issuer_report *report,
                              struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_uuid(&arguments, &task->id);
    pg_add_time(&arguments, task->attempted_ms);
    pg_add_text(&arguments, report->problem);
    pg_add_text(&arguments, report->report);
    pg_add_int8(&arguments, ISSUER_ASK_EVERY_S);
    pg_add_int8(&arguments, ISSUER_ASK_AGAIN_S);
    return pg_run(pg, &issuer_task_end_sql, &arguments, NULL, err);
}

struct result issuer_wish(struct pg *pg, const struct uuid *ids, size_t count, struct error *err)
{
    struct pg_arguments arguments = {0};
    struct bytes views[ISSUER_WISHES_MAX];

    assert(count <= ISSUER_WISHES_MAX);
    for (size_t i = 0; i < count; i++) views[i] = uuid_bytes(&ids[i]);
    pg_add_uuid_array(&arguments, views, count);
    pg_add_int8(&arguments, ISSUER_ASK_AGAIN_S);
    return pg_run(pg, &issuer_wish_sql, &arguments, NULL, err);
}

struct result issuer_confirmations(struct pg *pg, void (*each)(void *context, const char *url, int64_t confirmed_ms),
                                   void *context, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;

    TRY(pg_run(pg, &issuer_confirmations_sql, NULL, &rows, err));
    for (size_t i = 0; i < pg_rows_count(rows); i++)
        each(context, pg_text(rows, i, 0), pg_is_null(rows, i, 1) ? 0 : pg_time_ms(rows, i, 1));
    return SUCCESS;
}

static struct result run_renew(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    const struct issuer_renew *renew = (const struct issuer_renew *)(const void *)change; /* its first member */
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    assert(permit_resource(permit, ACTION_ISSUER_KEYS)->kind == RESOURCE_SYSTEM);
    pg_add_uuid(&arguments, &renew->task->id);
    pg_add_time(&arguments, renew->task->attempted_ms);
    pg_add_text(&arguments, renew->jwks);
    pg_add_text(&arguments, renew->task->url);
    TRY(pg_run(pg, &issuer_renew_sql, &arguments, &rows, err));
    if (pg_rows_affected(rows) == 0)
        return failure(err, ERROR_CONFLICT, "the issuer was changed, or asked by another gateway, meanwhile");
    return rights_raise_epoch(pg, &(struct uuid){{0}}, err);
}

void issuer_renew_init(struct issuer_renew *renew, const struct issuer_task *task, const char *jwks)
{
    *renew = (struct issuer_renew){.change = {.run = run_renew, .raises_epoch = true}, .task = task, .jwks = jwks};
}
