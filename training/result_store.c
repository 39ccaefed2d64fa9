/* The tables `run_lineage` and `run_admission`, and what results ask of `run` and `run_envelope`. */
#include <stdio.h>
#include <string.h>

#include "storage/pg_table.h"
#include "training/result_priv.h"
#include "training/run_priv.h"

/* clang-format off */
static const struct pg_statement run_result_kind_sql = {
    "run_result_kind",
    "SELECT e.kind FROM run_envelope e JOIN run r USING (run_id) WHERE e.run_id = $1 AND e.digest = $2 AND r.project_id = $3"
    " AND e.kind IN ('result', 'node result', 'late')",
    "uuid bytea uuid", "text"};
static const struct pg_statement run_results_sql = {
    "run_results",
    "SELECT envelope FROM run_envelope WHERE run_id = $1 AND kind IN ('result', 'node result', 'late') AND principal = $2", "uuid text", "text"};
static const struct pg_statement run_late_count_sql = {
    "run_late_count", "SELECT count(*) FROM run_envelope WHERE run_id = $1 AND kind = 'late'", "uuid", "int8"};
static const struct pg_statement run_finishing_sql = {
    "run_finishing",
    "WITH waiting AS (SELECT run_id FROM run WHERE state = 'finishing' AND claimed_until <= now() ORDER BY number LIMIT 1"
    " FOR UPDATE SKIP LOCKED)"
    " UPDATE run SET claimed_by = $1, tries = least(tries + 1, 100),"
    " claimed_until = now() + least(interval '20 seconds' * power(2, least(tries, 10)), interval '5 minutes')"
    " FROM waiting, project p, organisation o"
    " WHERE run.run_id = waiting.run_id AND p.project_id = run.project_id AND o.organisation_id = p.organisation_id"
    " RETURNING run.run_id, p.project_id, p.organisation_id, coalesce(p.deleted_name, o.name || '/' || p.name)",
    "text", "uuid uuid uuid text"};
static const struct pg_statement run_admission_keep_sql = {
    "run_admission_keep", "INSERT INTO run_admission (run_id, epoch, policies) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
    "uuid int8 bytea", ""};
static const struct pg_statement run_admission_find_sql = {
    "run_admission_find", "SELECT epoch, policies FROM run_admission WHERE run_id = $1", "uuid", "int8 bytea"};
static const struct pg_statement run_lineage_insert_sql = {
    "run_lineage_insert",
    "INSERT INTO run_lineage (run_id, role, name, repository, digest)"
    " SELECT $1, r, n, p, d FROM unnest($2::text[], $3::text[], $4::text[], $5::text[]) AS l (r, n, p, d)",
    "uuid text[] text[] text[] text[]", ""};
static const struct pg_statement *const statements[] = {
    &run_result_kind_sql, &run_results_sql, &run_late_count_sql, &run_finishing_sql, &run_admission_keep_sql, &run_admission_find_sql,
    &run_lineage_insert_sql,
};
/* clang-format on */
const struct pg_table run_result_table = PG_TABLE(statements);

struct result run_result_find(const struct permit *permit, struct pg *pg, const struct uuid *run,
                              const struct run_envelope *result, char kind_out[16], struct error *err)
{
    const struct resource *where = permit_resource(permit, ACTION_RUN_FINISH);
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;
    uint8_t digest[SHA256_SIZE];

    run_digest_bytes(result, digest);
    pg_add_uuid(&arguments, run);
    pg_add_bytes(&arguments, (struct bytes){digest, sizeof digest});
    pg_add_uuid(&arguments, &where->project);
    TRY(pg_run(pg, &run_result_kind_sql, &arguments, &rows, err));
    (void)snprintf(kind_out, 16, "%s", pg_rows_count(rows) == 0 ? "" : pg_text(rows, 0, 0));
    return SUCCESS;
}

struct result run_rows_results(struct pg *pg, const struct uuid *run, const char *principal, struct pg_rows **rows_out,
                               struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_uuid(&arguments, run);
    pg_add_text(&arguments, principal);
    return pg_run(pg, &run_results_sql, &arguments, rows_out, err);
}

struct result run_rows_late(struct pg *pg, const struct uuid *run, int64_t *count_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, run);
    TRY(pg_run(pg, &run_late_count_sql, &arguments, &rows, err));
    *count_out = pg_int8(rows, 0, 0);
    return SUCCESS;
}

struct result run_row_finishing(struct pg *pg, const char *instance, struct run_finishing *finishing_out, bool *found_out,
                                struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_text(&arguments, instance);
    TRY(pg_run(pg, &run_finishing_sql, &arguments, &rows, err));
    *found_out = pg_rows_count(rows) == 1;
    if (!*found_out) return SUCCESS;
    finishing_out->run = pg_uuid(rows, 0, 0);
    run_read_where(rows, 0, 1, &finishing_out->where);
    uuid_format(&finishing_out->run, finishing_out->where.detail);
    return SUCCESS;
}

static struct result keep_set(struct pg *pg, const struct uuid *run, const struct run_admission_set *set, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_uuid(&arguments, run);
    pg_add_int8(&arguments, (int64_t)set->epoch);
    pg_add_bytes(&arguments, (struct bytes){set->digest, sizeof set->digest});
    return pg_run(pg, &run_admission_keep_sql, &arguments, NULL, err);
}

struct result run_row_admission(struct pg *pg, const struct uuid *run, struct run_admission_set *set, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    TRY(keep_set(pg, run, set, err));
    pg_add_uuid(&arguments, run);
    TRY(pg_run(pg, &run_admission_find_sql, &arguments, &rows, err));
    if (pg_rows_count(rows) == 0) return failure(err, ERROR_CORRUPT, "the set of an admission is not kept");
    set->epoch = (uint64_t)pg_int8(rows, 0, 0);
    memcpy(set->digest, pg_bytes(rows, 0, 1).data, sizeof set->digest);
    return SUCCESS;
}

struct result run_rows_lineage(struct pg *pg, const struct uuid *run, const struct run_lineage *lineage, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_uuid(&arguments, run);
    pg_add_text_array(&arguments, lineage->roles, lineage->count);
    pg_add_text_array(&arguments, lineage->names, lineage->count);
    pg_add_text_array(&arguments, lineage->repositories, lineage->count);
    pg_add_text_array(&arguments, lineage->digests, lineage->count);
    return pg_run(pg, &run_lineage_insert_sql, &arguments, NULL, err);
}
