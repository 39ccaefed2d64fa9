/* The tables `run_checkpoint` and `run_resume`, as runs use them. */
#include <assert.h>
#include <stdio.h>

#include "storage/pg_table.h"
#include "training/checkpoint_priv.h"
#include "training/content.h"

/* clang-format off */
#define HOLDER "run_id = $1 AND attempt = $2 AND node = $3 AND key = $4"
/* Whether an open run continues from the checkpoint c. */
#define IS_RESUMED "EXISTS (SELECT FROM run_resume u JOIN run o USING (run_id) WHERE u.digest = c.digest AND o.ended_at IS NULL)"
/* Of a run that has not succeeded; as RUN_CHECKPOINT_KEPT_MS. The end of its order is in its row, too. */
#define UNTIL "greatest(r.ended_at, r.expires_at) + interval '30 days'"

static const struct pg_statement checkpoint_lock_sql = {
    "checkpoint_lock", "SELECT node FROM run_attempt WHERE " HOLDER " AND ended_at IS NULL AND ends_at > now() FOR UPDATE",
    "uuid int4 int4 text", "int4"};
static const struct pg_statement checkpoint_thin_sql = {
    "checkpoint_thin",
    "DELETE FROM run_checkpoint c USING (SELECT digest, row_number() OVER (ORDER BY kept_at DESC, digest) AS place FROM run_checkpoint"
    " WHERE run_id = $1) n WHERE c.run_id = $1 AND c.digest = n.digest AND n.place > $2 AND NOT " IS_RESUMED,
    "uuid int8", ""};
/* While its program runs, a runner uploads nothing but checkpoints. So what no kept checkpoint has is of one that went, or never came. */
static const struct pg_statement checkpoint_recount_sql = {
    "checkpoint_recount",
    "WITH gone AS (DELETE FROM run_upload u WHERE u.run_id = $1 AND u.attempt = $2 AND u.node = $3 AND NOT EXISTS"
    " (SELECT FROM run_checkpoint_blob b WHERE b.run_id = $1 AND b.digest = u.digest) RETURNING size_bytes)"
    " UPDATE run_attempt SET uploaded_bytes = uploaded_bytes - (SELECT coalesce(sum(size_bytes), 0) FROM gone)::int8 WHERE " HOLDER
    " AND EXISTS (SELECT FROM gone)",
    "uuid int4 int4 text", ""};
/* Of a place `p`, in the project $2. */
#define CONTINUES(digest)                                                                                                         \
    "(EXISTS (SELECT FROM manifest m WHERE m.repository_id = p.repository_id AND m.digest = " digest ") OR (p.project_id = $2 AND" \
    " EXISTS (SELECT FROM run_checkpoint c JOIN run n USING (run_id) WHERE c.repository_id = p.repository_id AND c.digest = " digest \
    " AND n.state <> 'quarantined')))"
static const struct pg_statement checkpoint_resume_sql = {
    "checkpoint_resume",
    "WITH place AS (SELECT repository_id, project_id FROM repository WHERE full_name = $3 AND deleted_at IS NULL)"
    " INSERT INTO run_resume (run_id, repository, digest, source) SELECT $1, $3, $4, (SELECT c.run_id FROM run_checkpoint c"
    " WHERE c.repository_id = p.repository_id AND c.digest = $4 ORDER BY c.kept_at LIMIT 1) FROM place p WHERE " CONTINUES("$4"),
    "uuid uuid text text", ""};
static const struct pg_statement checkpoint_look_sql = {
    "checkpoint_look",
    "SELECT EXISTS (SELECT FROM repository p WHERE p.full_name = $1 AND p.deleted_at IS NULL AND " CONTINUES("$3") ")",
    "text uuid text", "bool"};
static const struct pg_statement checkpoint_list_sql = {
    "checkpoint_list",
    "SELECT c.digest, p.full_name, c.attempt, c.content_bytes, c.kept_at, CASE WHEN NOT " IS_RESUMED " THEN CASE WHEN r.state = 'succeeded'"
    " THEN r.ended_at WHEN r.ended_at IS NOT NULL THEN " UNTIL " END END FROM run_checkpoint c JOIN run r USING (run_id) JOIN repository p USING (repository_id)"
    " WHERE c.run_id = $1 AND r.project_id = $2 ORDER BY c.kept_at DESC, c.digest LIMIT $3",
    "uuid uuid int8", "text text int4 int8 timestamptz timestamptz"};
#define DUE_ROW(key, is_deleted) "SELECT c.run_id, c.digest, j.project_id, j.organisation_id, coalesce(j.deleted_name, o.name || '/' || j.name), " key ", " \
    is_deleted " FROM run_checkpoint c JOIN run r USING (run_id) JOIN project j USING (project_id) JOIN organisation o USING (organisation_id)"
#define DUE_TYPES "uuid text uuid uuid text text bool"
#define IS_DELETED "(p.deleted_at IS NOT NULL OR j.deleted_at IS NOT NULL)"
/* The row of a run says only where to look: the caller asks for what sijil-keyd has signed. */
static const struct pg_statement checkpoint_due_sql = {
    "checkpoint_due",
    DUE_ROW("''::text", IS_DELETED) " JOIN repository p ON p.repository_id = c.repository_id WHERE " IS_DELETED " OR (r.ended_at IS NOT NULL AND"
    " (r.state = 'succeeded' OR " UNTIL " <= now()) AND NOT " IS_RESUMED ") ORDER BY r.number, c.digest LIMIT $1 OFFSET $2",
    "int8 int8", DUE_TYPES};
/* An order has one envelope, and a run one admission: more are rows that somebody has added. */
static const struct pg_statement checkpoint_over_sql = {
    "checkpoint_over",
    "SELECT kind, envelope FROM run_envelope WHERE run_id = $1 AND kind IN ('order', 'admission') ORDER BY number LIMIT 8", "uuid", "text text"};
/* By the attempts of its run, and not by what its own row says: that can be changed. And what continues from such a run. The attempts are rows, too: the
 * caller asks for what sijil-keyd has signed. */
static const struct pg_statement checkpoint_doubted_sql = {
    "checkpoint_doubted",
    "WITH RECURSIVE doubted AS (SELECT a.run_id, a.key FROM unnest($1::text[], $2::int8[]) AS w (key, since) JOIN run_attempt a ON a.key = w.key"
    " AND (a.ended_at IS NULL OR a.ended_at >= to_timestamp(w.since / 1000.0))"
    " UNION SELECT u.run_id, d.key FROM doubted d JOIN run_resume u ON u.source = d.run_id) "
    DUE_ROW("d.key", "false") " JOIN doubted d ON d.run_id = c.run_id ORDER BY r.number, c.digest, d.key LIMIT $3 OFFSET $4",
    "text[] int8[] int8 int8", DUE_TYPES};
static const struct pg_statement checkpoint_forget_sql = {
    "checkpoint_forget", "DELETE FROM run_checkpoint WHERE run_id = $1 AND digest = $2", "uuid text", ""};
static const struct pg_statement *const statements[] = {
    &checkpoint_lock_sql, &checkpoint_thin_sql, &checkpoint_recount_sql, &checkpoint_resume_sql, &checkpoint_look_sql, &checkpoint_list_sql, &checkpoint_due_sql,
    &checkpoint_over_sql, &checkpoint_doubted_sql, &checkpoint_forget_sql,
};
/* clang-format on */
const struct pg_table run_checkpoint_table = PG_TABLE(statements);

struct result checkpoint_row_lock(struct pg *pg, const struct run_holder *holder, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    run_add_holder(&arguments, holder);
    TRY(pg_run(pg, &checkpoint_lock_sql, &arguments, &rows, err));
    return pg_rows_count(rows) == 1 ? SUCCESS : failure(err, ERROR_CONFLICT, "the lease has ended: no checkpoint is kept for it");
}

struct result checkpoint_rows_thin(struct pg *pg, const struct run_holder *holder, struct error *err)
{
    struct pg_arguments thin = {0}, recount = {0};

    pg_add_uuid(&thin, &holder->run);
    pg_add_int8(&thin, RUN_CHECKPOINTS_KEPT);
    TRY(pg_run(pg, &checkpoint_thin_sql, &thin, NULL, err));
    run_add_holder(&recount, holder);
    return pg_run(pg, &checkpoint_recount_sql, &recount, NULL, err);
}

static struct result is_missing(const struct run_request *request, struct error *err)
{
    return failure(
        err, ERROR_INVALID,
        "resume: %.120s has no such artifact, and keeps no such checkpoint of a run of this project: 'sijil run show' of the run that made"
        " it lists those that are kept",
        request->resume_repository);
}

struct result checkpoint_row_resume(struct pg *pg, const struct run_request *request, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    if (request->resume_digest == NULL) return SUCCESS;
    pg_add_uuid(&arguments, &request->run.id);
    pg_add_uuid(&arguments, &request->where.project);
    pg_add_text(&arguments, request->resume_repository);
    pg_add_text(&arguments, request->resume_digest);
    TRY(pg_run(pg, &checkpoint_resume_sql, &arguments, &rows, err));
    return pg_rows_affected(rows) == 1 ? SUCCESS : is_missing(request, err);
}

struct result checkpoint_row_look(struct pg *pg, const struct run_request *request, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    if (request->resume_digest == NULL) return SUCCESS;
    pg_add_text(&arguments, request->resume_repository);
    pg_add_uuid(&arguments, &request->where.project);
    pg_add_text(&arguments, request->resume_digest);
    TRY(pg_run(pg, &checkpoint_look_sql, &arguments, &rows, err));
    return pg_bool(rows, 0, 0) ? SUCCESS : is_missing(request, err);
}

struct result run_checkpoints(const struct permit *permit, struct pg *pg, enum action action, const struct uuid *run,
                              struct pg_rows **rows_out, struct error *err)
{
    const struct resource *where = permit_resource(permit, action);
    struct pg_arguments arguments = {0};

    pg_add_uuid(&arguments, run);
    pg_add_uuid(&arguments, &where->project);
    pg_add_int8(&arguments, RUN_CHECKPOINTS_SHOWN);
    return pg_run(pg, &checkpoint_list_sql, &arguments, rows_out, err);
}

/* ---- removing ---- */

static void read_due(const struct pg_rows *rows, struct due_checkpoint *due_out, size_t *count_out)
{
    const size_t count = pg_rows_count(rows);

    for (size_t i = 0; i < count; i++) {
        struct resource *where = &due_out[i].where;
        due_out[i].run = pg_uuid(rows, i, 0);
        (void)snprintf(due_out[i].digest, sizeof due_out[i].digest, "%s", pg_text(rows, i, 1));
        *where = (struct resource){.kind = RESOURCE_PROJECT, .project = pg_uuid(rows, i, 2), .organisation = pg_uuid(rows, i, 3)};
        (void)snprintf(where->name, sizeof where->name, "%s", pg_text(rows, i, 4));
        (void)snprintf(due_out[i].key, sizeof due_out[i].key, "%s", pg_text(rows, i, 5));
        due_out[i].is_deleted = pg_bool(rows, i, 6);
    }
    *count_out = count;
}

struct result checkpoint_rows_due(struct pg *pg, const struct row_window *window, struct due_checkpoint *due_out,
                                  size_t *count_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_int8(&arguments, (int64_t)window->most);
    pg_add_int8(&arguments, (int64_t)window->skipped);
    TRY(pg_run(pg, &checkpoint_due_sql, &arguments, &rows, err));
    read_due(rows, due_out, count_out);
    return SUCCESS;
}

struct result checkpoint_rows_doubted(struct pg *pg, const struct run_withdrawals *withdrawals, const struct row_window *window,
                                      struct due_checkpoint *due_out, size_t *count_out, struct error *err)
{
    struct bytes keys[RUN_WITHDRAWALS_MAX];
    int64_t since[RUN_WITHDRAWALS_MAX];
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    assert(withdrawals->count <= RUN_WITHDRAWALS_MAX);
    for (size_t i = 0; i < withdrawals->count; i++) {
        keys[i] = withdrawals->each[i].key;
        since[i] = withdrawals->each[i].since_ms;
    }
    pg_add_text_array(&arguments, keys, withdrawals->count);
    pg_add_int8_array(&arguments, since, withdrawals->count);
    pg_add_int8(&arguments, (int64_t)window->most);
    pg_add_int8(&arguments, (int64_t)window->skipped);
    TRY(pg_run(pg, &checkpoint_doubted_sql, &arguments, &rows, err));
    read_due(rows, due_out, count_out);
    return SUCCESS;
}

struct result checkpoint_rows_over(struct pg *pg, const struct uuid *run, struct pg_rows **rows_out, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_uuid(&arguments, run);
    return pg_run(pg, &checkpoint_over_sql, &arguments, rows_out, err);
}

struct result checkpoint_row_forget(struct pg *pg, const struct uuid *run, const char *digest, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, run);
    pg_add_text(&arguments, digest);
    TRY(pg_run(pg, &checkpoint_forget_sql, &arguments, &rows, err));
    return pg_rows_affected(rows) > 0 ? SUCCESS : failure(err, ERROR_CONFLICT, "the checkpoint is gone already");
}
