/* The tables `job` and `job_finding`. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "registry/jobs/job_priv.h"
#include "registry/jobs/statements.h"
#include "storage/pg_table.h"

/* clang-format off */
#define ROW                                                                                                        \
    "job_id, kind, coalesce(region_id, ''), with_digest, rate_bytes, phase, cursor_id, cursor_text, cursor_bytes," \
    " done_count, done_bytes, total_count, total_bytes, found_count, waits_for, runner, runner_epoch,"             \
    " coalesce(lease_until > now(), false), stop_wanted, number, requested_at, started_at, ended_at,"              \
    " coalesce(outcome, ''), project_id, coalesce((SELECT coalesce(p.deleted_name, o.name || '/' || p.name) FROM project p" \
    " JOIN organisation o USING (organisation_id) WHERE p.project_id = job.project_id), ''), is_dry_run, coalesce(stopped_by, '')"
#define ROW_TYPES                                                                                               \
    "uuid text text bool int8 int4 uuid text int8 int8 int8 int8 int8 int8 text text int8 bool bool int8 timestamptz" \
    " timestamptz timestamptz text uuid text bool text"
#define IN_VIEW(parameter) " AND (" parameter "::uuid IS NULL OR project_id = " parameter ")"

static const struct pg_statement job_insert_sql = {
    "job_insert", "INSERT INTO job (job_id, kind, region_id, with_digest, rate_bytes, project_id, is_dry_run, rules, input)"
    " SELECT $1, $2, nullif($3, ''), $4, $5, $6, $7, $8, $9 WHERE ($3 = '' OR EXISTS (SELECT FROM region WHERE region_id = $3))"
    " AND ($6::uuid IS NULL OR EXISTS (SELECT FROM project WHERE project_id = $6)) ON CONFLICT DO NOTHING",
    "uuid text text bool int8 uuid bool text text", ""};
static const struct pg_statement job_place_is_there_sql = {
    "job_place_is_there",
    "SELECT ($1 = '' OR EXISTS (SELECT FROM region WHERE region_id = $1))"
    " AND ($2::uuid IS NULL OR EXISTS (SELECT FROM project WHERE project_id = $2))",
    "text uuid", "bool"};
static const struct pg_statement job_want_stop_sql = {
    "job_want_stop", /* a job that no gateway runs ends at once: perhaps none will ever claim it */
    "UPDATE job SET stop_wanted = true, stopped_by = coalesce(stopped_by, $3), ended_at = CASE WHEN lease_until > now() THEN NULL ELSE now() END,"
    " outcome = CASE WHEN lease_until > now() THEN NULL ELSE 'stopped' END, lease_until = CASE WHEN lease_until > now() THEN lease_until END"
    " WHERE job_id = $1 AND ended_at IS NULL AND ($4::text IS NULL OR kind = $4)" IN_VIEW("$2") " RETURNING " ROW,
    "uuid uuid text text", ROW_TYPES};
static const struct pg_statement job_list_sql = {
    "job_list", "SELECT " ROW " FROM job WHERE number < $1" IN_VIEW("$3") " ORDER BY number DESC LIMIT $2", "int8 int8 uuid",
    ROW_TYPES};
static const struct pg_statement job_find_sql = {
    "job_find", "SELECT " ROW " FROM job WHERE job_id = $1" IN_VIEW("$2"), "uuid uuid", ROW_TYPES};
static const struct pg_statement job_texts_sql = {
    "job_texts", "SELECT rules, report, input FROM job WHERE job_id = $1", "uuid", "text text text"};
static const struct pg_statement job_claim_sql = {
    "job_claim", "UPDATE job SET runner = $1, runner_epoch = runner_epoch + 1, lease_until = now() + $4 * interval '1 ms',"
    " started_at = coalesce(started_at, now()) WHERE job_id = (SELECT job_id FROM job WHERE ended_at IS NULL"
    " AND kind = $2 AND (region_id IS NULL OR region_id = ANY($3)) AND (lease_until IS NULL OR lease_until <= now())"
    " ORDER BY number LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING " ROW,
    "text text text[] int8", ROW_TYPES};
static const struct pg_statement job_save_sql = {
    "job_save", /* an ended job has no lease, and can't end again */
    "UPDATE job SET phase = $3, cursor_id = $4, cursor_text = $5, cursor_bytes = $6, done_count = $7, done_bytes = $8,"
    " total_count = $9, total_bytes = $10, found_count = $11, waits_for = $12, report = coalesce($13, report),"
    " lease_until = CASE WHEN $15::text IS NULL THEN now() + $14 * interval '1 ms' END, outcome = $15,"
    " ended_at = CASE WHEN $15 IS NOT NULL THEN now() END"
    " WHERE job_id = $1 AND runner_epoch = $2 AND ended_at IS NULL RETURNING stop_wanted",
    "uuid int8 int4 uuid text int8 int8 int8 int8 int8 int8 text text int8 text", "bool"};
static const struct pg_statement job_prune_sql = {
    "job_prune", "DELETE FROM job WHERE job_id IN (SELECT job_id FROM job WHERE kind = $1 AND project_id IS NOT DISTINCT FROM $2"
    " AND is_dry_run = $3 AND ended_at IS NOT NULL ORDER BY number DESC OFFSET $4 LIMIT 10)",
    "text uuid bool int8", ""};
static const struct pg_statement job_collection_is_due_sql = {
    "job_collection_is_due", "SELECT NOT EXISTS (SELECT FROM job WHERE kind = 'collection' AND project_id IS NULL AND NOT is_dry_run"
    " AND requested_at > now() - $1::int8 * interval '1 second')",
    "int8", "bool"};
static const struct pg_statement job_scrub_is_due_sql = {
    "job_scrub_is_due",
    "SELECT NOT EXISTS (SELECT FROM job WHERE kind = 'scrub' AND region_id = $1"
    " AND requested_at > now() - $2::int8 * interval '1 second')",
    "text int8", "bool"};
static const struct pg_statement job_add_finding_sql = {
    "job_add_finding",
    "INSERT INTO job_finding (job_id, kind, subject, name, digest, detail) SELECT job_id, $3, $4, $5, $6, $7 FROM job"
    " WHERE job_id = $1 AND runner_epoch = $2 AND ended_at IS NULL ON CONFLICT DO NOTHING",
    "uuid int8 text text text text text", ""};
static const struct pg_statement job_has_finding_sql = {
    "job_has_finding", "SELECT EXISTS (SELECT FROM job_finding WHERE job_id = $1 AND kind = $2 AND subject = $3)",
    "uuid text text", "bool"};
static const struct pg_statement job_findings_sql = {
    "job_findings",
    "SELECT number, kind, subject, name, digest, detail, found_at FROM job_finding WHERE job_id = $1 AND number > $2"
    " ORDER BY number LIMIT $3",
    "uuid int8 int8", "int8 text text text text text timestamptz"};
static const struct pg_statement *const statements[] = {
    &job_insert_sql, &job_place_is_there_sql, &job_want_stop_sql, &job_list_sql, &job_find_sql, &job_texts_sql, &job_claim_sql,
    &job_save_sql, &job_prune_sql, &job_collection_is_due_sql, &job_scrub_is_due_sql, &job_add_finding_sql, &job_has_finding_sql,
    &job_findings_sql,
};
/* clang-format on */
const struct pg_table job_statements = PG_TABLE(statements);

static const struct {
    const char *name, *phases[JOB_DONE + 1];
    enum action begins;
} kinds[JOB_KIND_COUNT] = {
#define X(constant, name, action, run, first, second, third) [constant] = {name, {first, second, third, "done"}, action},
    JOB_KINDS(X)
#undef X
};
static const char *const finding_names[] = {
#define X(constant, name) [constant] = (name),
    JOB_FINDING_KINDS(X)
#undef X
};

const char *job_kind_name(enum job_kind kind)
{
    return kinds[kind].name;
}

const char *job_phase_name(const struct job *job)
{
    return kinds[job->kind].phases[job->phase <= JOB_DONE ? job->phase : JOB_DONE];
}

const char *finding_kind_name(enum finding_kind kind)
{
    return finding_names[kind];
}

static void copy(char *into, size_t size, const char *text)
{
    (void)snprintf(into, size, "%s", text);
}

static enum job_kind kind_of(const char *name)
{
    enum job_kind kind = 0;

    while (kind < JOB_KIND_COUNT && strcmp(kinds[kind].name, name) != 0) kind++;
    assert(kind < JOB_KIND_COUNT); /* the table allows no others */
    return kind;
}

static struct job read_row(const struct pg_rows *rows, size_t row)
{
    struct job job = {.id = pg_uuid(rows, row, 0)};
    uint64_t *const counts[] = {&job.cursor_bytes, &job.done, &job.done_bytes, &job.total, &job.total_bytes, &job.found};

    job.kind = kind_of(pg_text(rows, row, 1));
    copy(job.region, sizeof job.region, pg_text(rows, row, 2));
    job.with_digest = pg_bool(rows, row, 3);
    job.rate_bytes = (uint64_t)pg_int8(rows, row, 4);
    job.phase = (enum job_phase)pg_int8(rows, row, 5);
    job.cursor = pg_uuid(rows, row, 6);
    copy(job.cursor_text, sizeof job.cursor_text, pg_text(rows, row, 7));
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) *counts[i] = (uint64_t)pg_int8(rows, row, 8 + i);
    copy(job.waits_for, sizeof job.waits_for, pg_text(rows, row, 14));
    copy(job.runner, sizeof job.runner, pg_text(rows, row, 15));
    job.runner_epoch = (uint64_t)pg_int8(rows, row, 16);
    job.is_held = pg_bool(rows, row, 17);
    job.stop_wanted = pg_bool(rows, row, 18);
    job.number = pg_int8(rows, row, 19);
    job.requested_ms = pg_time_ms(rows, row, 20);
    job.started_ms = pg_is_null(rows, row, 21) ? 0 : pg_time_ms(rows, row, 21);
    job.ended_ms = pg_is_null(rows, row, 22) ? 0 : pg_time_ms(rows, row, 22);
    copy(job.outcome, sizeof job.outcome, pg_text(rows, row, 23));
    if (!pg_is_null(rows, row, 24)) job.project = pg_uuid(rows, row, 24);
    copy(job.project_name, sizeof job.project_name, pg_text(rows, row, 25));
    job.is_dry_run = pg_bool(rows, row, 26);
    copy(job.stopped_by, sizeof job.stopped_by, pg_text(rows, row, 27));
    return job;
}

/* NULL if the job is not about one project. */
static const struct uuid *project_of(const struct resource *where)
{
    return where->kind == RESOURCE_PROJECT ? &where->project : NULL;
}

static struct result explain_refusal(struct pg *pg, const struct job_begin *begin, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_text(&arguments, begin->job.region);
    pg_add_uuid(&arguments, project_of(&begin->where));
    TRY(pg_run(pg, &job_place_is_there_sql, &arguments, &rows, err));
    if (!pg_bool(rows, 0, 0)) return failure(err, ERROR_NOT_FOUND, "there is no such region or project");
    return failure(err, ERROR_CONFLICT, "a %s of the same is under way: wait for its end, or stop it",
                   job_kind_name(begin->job.kind));
}

static struct result run_begin(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    const struct job_begin *begin = (const struct job_begin *)(const void *)change; /* its first member */
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    permit_require(permit, begin->action, &begin->where);
    pg_add_uuid(&arguments, &begin->job.id);
    pg_add_text(&arguments, job_kind_name(begin->job.kind));
    pg_add_text(&arguments, begin->job.region);
    pg_add_bool(&arguments, begin->job.with_digest);
    pg_add_int8(&arguments, (int64_t)begin->job.rate_bytes);
    pg_add_uuid(&arguments, project_of(&begin->where));
    pg_add_bool(&arguments, begin->job.is_dry_run);
    pg_add_text(&arguments, begin->rules);
    pg_add_text(&arguments, begin->input);
    TRY(pg_run(pg, &job_insert_sql, &arguments, &rows, err));
    return pg_rows_affected(rows) == 1 ? SUCCESS : explain_refusal(pg, begin, err);
}

void job_begin_prepare(const struct resource *where, const struct job *job, struct job_begin *begin_out)
{
    assert(job->kind == JOB_REWRAP || (job->kind == JOB_SCRUB) == (job->region[0] != '\0'));
    assert(job->kind == JOB_COLLECTION || where->kind == RESOURCE_SYSTEM);
    *begin_out = (struct job_begin){.change = {.run = run_begin, .invalidates = CHANGE_INVALIDATES_NOTHING},
                                    .where = *where,
                                    .action = kinds[job->kind].begins,
                                    .job = *job};
}

static struct result run_stop(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    const struct job_stop *stop = (const struct job_stop *)(const void *)change; /* its first member */
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    permit_require(permit, stop->is_of_plan ? ACTION_POLICY_STOP : ACTION_JOB_STOP, &stop->where);
    pg_add_uuid(&arguments, &stop->job);
    pg_add_uuid(&arguments, project_of(&stop->where));
    pg_add_text(&arguments, stop->by);
    pg_add_text(&arguments, stop->is_of_plan ? job_kind_name(JOB_PLAN) : NULL);
    TRY(pg_run(pg, &job_want_stop_sql, &arguments, &rows, err));
    if (pg_rows_count(rows) == 0) return failure(err, ERROR_NOT_FOUND, "there is no such job, or it is over");
    const struct job job = read_row(rows, 0);
    return job.outcome[0] == '\0' ? SUCCESS : job_rows_prune(pg, &job, stop->kept, err);
}

void job_stop_prepare(const struct resource *where, const struct uuid *job, unsigned kept, struct job_stop *stop_out)
{
    *stop_out = (struct job_stop){.change = {.run = run_stop, .invalidates = CHANGE_INVALIDATES_NOTHING},
                                  .where = *where,
                                  .job = *job,
                                  .kept = kept == 0 ? JOBS_KEPT : kept};
}

struct result job_list(const struct permit *permit, struct pg *pg, const struct job_page *page, struct job **jobs_out,
                       size_t *count_out, struct error *err)
{
    const struct resource *where = permit_resource(permit, ACTION_JOB_READ);
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_int8(&arguments, page->from);
    pg_add_int8(&arguments, (int64_t)page->limit);
    pg_add_uuid(&arguments, project_of(where));
    TRY(pg_run(pg, &job_list_sql, &arguments, &rows, err));
    const size_t count = pg_rows_count(rows);
    struct job *jobs = memory_zeroed(count + 1, sizeof *jobs);
    if (jobs == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a list of jobs");
    for (size_t i = 0; i < count; i++) jobs[i] = read_row(rows, i);
    *jobs_out = jobs;
    *count_out = count;
    return SUCCESS;
}

struct result job_row_find(struct pg *pg, const struct uuid *id, const struct uuid *project, struct job *job_out,
                           struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, id);
    pg_add_uuid(&arguments, project);
    TRY(pg_run(pg, &job_find_sql, &arguments, &rows, err));
    if (pg_rows_count(rows) == 0) return failure(err, ERROR_NOT_FOUND, "there is no such job");
    *job_out = read_row(rows, 0);
    return SUCCESS;
}

struct result job_find(const struct permit *permit, struct pg *pg, const struct uuid *id, struct job *job_out, struct error *err)
{
    return job_row_find(pg, id, project_of(permit_resource(permit, ACTION_JOB_READ)), job_out, err);
}

struct result job_row_texts(struct pg *pg, const struct uuid *id, struct job_texts *texts_out, struct pg_rows **rows_out,
                            struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, id);
    TRY(pg_run(pg, &job_texts_sql, &arguments, &rows, err));
    if (pg_rows_count(rows) == 0) return failure(err, ERROR_NOT_FOUND, "there is no such job");
    *texts_out = (struct job_texts){.rules = pg_is_null(rows, 0, 0) ? NULL : pg_text(rows, 0, 0),
                                    .report = pg_text(rows, 0, 1),
                                    .input = pg_is_null(rows, 0, 2) ? NULL : pg_text(rows, 0, 2)};
    *rows_out = GIVE(rows);
    return SUCCESS;
}

struct result job_report_text(const struct permit *permit, struct pg *pg, const struct uuid *id, struct pg_rows **rows_out,
                              const char **report_out, struct error *err)
{
    struct job_texts texts;

    (void)permit_resource(permit, ACTION_JOB_READ);
    TRY(job_row_texts(pg, id, &texts, rows_out, err));
    *report_out = texts.report;
    return SUCCESS;
}

static struct job_finding read_finding(const struct pg_rows *rows, size_t row)
{
    struct job_finding finding = {.number = pg_int8(rows, row, 0), .found_ms = pg_time_ms(rows, row, 6)};

    for (size_t i = 0; i < sizeof finding_names / sizeof finding_names[0]; i++)
        if (strcmp(finding_names[i], pg_text(rows, row, 1)) == 0) finding.kind = (enum finding_kind)i;
    copy(finding.subject, sizeof finding.subject, pg_text(rows, row, 2));
    copy(finding.name, sizeof finding.name, pg_text(rows, row, 3));
    copy(finding.digest, sizeof finding.digest, pg_text(rows, row, 4));
    copy(finding.detail, sizeof finding.detail, pg_text(rows, row, 5));
    return finding;
}

struct result job_findings(const struct permit *permit, struct pg *pg, const struct job_page *page,
                           struct job_finding **findings_out, size_t *count_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    (void)permit_resource(permit, ACTION_JOB_READ);
    pg_add_uuid(&arguments, page->job);
    pg_add_int8(&arguments, page->from);
    pg_add_int8(&arguments, (int64_t)page->limit);
    TRY(pg_run(pg, &job_findings_sql, &arguments, &rows, err));
    const size_t count = pg_rows_count(rows);
    struct job_finding *findings = memory_zeroed(count + 1, sizeof *findings);
    if (findings == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a list of findings");
    for (size_t i = 0; i < count; i++) findings[i] = read_finding(rows, i);
    *findings_out = findings;
    *count_out = count;
    return SUCCESS;
}

struct result job_row_claim(struct pg *pg, const struct job_options *options, const struct job_regions *regions,
                            struct job *job_out, bool *found_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_text(&arguments, options->instance);
    pg_add_text(&arguments, job_kind_name(options->kind));
    pg_add_text_array(&arguments, regions->ids, regions->count);
    pg_add_int8(&arguments, job_lease_ms(options));
    TRY(pg_run(pg, &job_claim_sql, &arguments, &rows, err));
    if (pg_rows_count(rows) == 1) *job_out = read_row(rows, 0);
    *found_out = pg_rows_count(rows) == 1;
    return SUCCESS;
}

static void add_owner(struct pg_arguments *arguments, const struct job *job)
{
    pg_add_uuid(arguments, &job->id);
    pg_add_int8(arguments, (int64_t)job->runner_epoch);
}

static struct result lost(struct error *err)
{
    return failure(err, ERROR_CONFLICT, "another gateway has taken this job over, or it is over");
}

struct result job_row_save(struct pg *pg, const struct job *job, const struct job_saving *saving, bool *stop_out,
                           struct error *err)
{
    const uint64_t counts[] = {job->cursor_bytes, job->done, job->done_bytes, job->total, job->total_bytes, job->found};
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    add_owner(&arguments, job);
    pg_add_int4(&arguments, (int32_t)job->phase);
    pg_add_uuid(&arguments, &job->cursor);
    pg_add_text(&arguments, job->cursor_text);
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) pg_add_int8(&arguments, (int64_t)counts[i]);
    pg_add_text(&arguments, job->waits_for);
    pg_add_text(&arguments, saving->report);
    pg_add_int8(&arguments, saving->lease_ms);
    pg_add_text(&arguments, saving->outcome);
    TRY(pg_run(pg, &job_save_sql, &arguments, &rows, err));
    if (pg_rows_count(rows) == 0) return lost(err);
    *stop_out = pg_bool(rows, 0, 0);
    return SUCCESS;
}

struct result job_rows_prune(struct pg *pg, const struct job *job, unsigned kept, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_text(&arguments, job_kind_name(job->kind));
    pg_add_uuid(&arguments, uuid_is_nil(&job->project) ? NULL : &job->project);
    pg_add_bool(&arguments, job->is_dry_run);
    pg_add_int8(&arguments, kept);
    return pg_run(pg, &job_prune_sql, &arguments, NULL, err);
}

struct result job_collection_is_due(struct pg *pg, int64_t interval_s, bool *is_due_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_int8(&arguments, interval_s);
    TRY(pg_run(pg, &job_collection_is_due_sql, &arguments, &rows, err));
    *is_due_out = pg_bool(rows, 0, 0);
    return SUCCESS;
}

struct result job_scrub_is_due(struct pg *pg, const char *region, int64_t interval_s, bool *is_due_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_text(&arguments, region);
    pg_add_int8(&arguments, interval_s);
    TRY(pg_run(pg, &job_scrub_is_due_sql, &arguments, &rows, err));
    *is_due_out = pg_bool(rows, 0, 0);
    return SUCCESS;
}

struct result job_row_add_finding(struct pg *pg, const struct job *job, const struct job_finding *finding, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    add_owner(&arguments, job);
    pg_add_text(&arguments, finding_kind_name(finding->kind));
    pg_add_text(&arguments, finding->subject);
    pg_add_text(&arguments, finding->name);
    pg_add_text(&arguments, finding->digest);
    pg_add_text(&arguments, finding->detail);
    TRY(pg_run(pg, &job_add_finding_sql, &arguments, &rows, err));
    return pg_rows_affected(rows) == 1 ? SUCCESS : lost(err);
}

struct result job_row_has_finding(struct pg *pg, const struct job *job, const struct job_finding *finding, bool *has_out,
                                  struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, &job->id);
    pg_add_text(&arguments, finding_kind_name(finding->kind));
    pg_add_text(&arguments, finding->subject);
    TRY(pg_run(pg, &job_has_finding_sql, &arguments, &rows, err));
    *has_out = pg_bool(rows, 0, 0);
    return SUCCESS;
}
