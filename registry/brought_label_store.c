/* The table `run_label`. */
#include "registry/brought_label.h"

#include <string.h>

#include "crypto/digest.h"
#include "storage/pg_table.h"

/* clang-format off */
static const struct pg_statement run_label_insert_sql = {
    "run_label_insert",
    "INSERT INTO run_label (project_id, repository, digest, label, run_id, manifest)"
    " VALUES ($1, $2, $3, $4, $5, nullif($6, '')) ON CONFLICT DO NOTHING",
    "uuid text bytea text uuid text", ""};
/* Each different label is kept in the memory of all gateways. */
static const struct pg_statement run_label_room_sql = {
    "run_label_room",
    "SELECT EXISTS (SELECT FROM run_label WHERE digest = $2) OR (SELECT count(DISTINCT digest) FROM run_label) < $3,"
    " EXISTS (SELECT FROM run_label WHERE project_id = $1 AND digest = $2)"
    " OR (SELECT count(DISTINCT digest) FROM run_label WHERE project_id = $1) < $4,"
    " (SELECT coalesce(bool_or(l.digest = $2), false) OR count(DISTINCT l.digest) < $6 FROM run_label l JOIN project p USING (project_id)"
    " WHERE p.organisation_id = $5)",
    "uuid bytea int8 int8 uuid int8", "bool bool bool"};
static const struct pg_statement run_label_raise_epoch_sql = {
    "run_label_raise_epoch", "WITH raised AS (SELECT raise_authorization_epoch($1, true) AS epoch) SELECT epoch FROM raised", "uuid",
    "int8"};
static const struct pg_statement run_label_content_sql = {
    "run_label_content",
    "SELECT EXISTS (SELECT FROM manifest m JOIN repository r USING (repository_id) WHERE r.project_id = $1 AND r.name = $2)", "uuid text",
    "bool"};
static const struct pg_statement *const statements[] = {&run_label_insert_sql, &run_label_room_sql, &run_label_content_sql,
                                                        &run_label_raise_epoch_sql};
/* clang-format on */
const struct pg_table brought_label_statements = PG_TABLE(statements);

static struct result check_room(struct pg *pg, const struct brought_label *row, struct bytes digest, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, &row->where->project);
    pg_add_bytes(&arguments, digest);
    pg_add_int8(&arguments, BROUGHT_LABELS_MAX);
    pg_add_int8(&arguments, BROUGHT_PROJECT_LABELS_MAX);
    pg_add_uuid(&arguments, &row->where->organisation);
    pg_add_int8(&arguments, BROUGHT_ORGANISATION_LABELS_MAX);
    TRY(pg_run(pg, &run_label_room_sql, &arguments, &rows, err));
    if (!pg_bool(rows, 0, 1))
        return failure(
            err, ERROR_LIMIT,
            "runs and manifests have brought %d different labels to this project, and it may have no more: use fewer combinations of"
            " labels, or another project",
            BROUGHT_PROJECT_LABELS_MAX);
    if (!pg_bool(rows, 0, 2))
        return failure(
            err, ERROR_LIMIT,
            "runs and manifests have brought %d different labels to this organisation, and it may have no more: use fewer"
            " combinations of labels",
            BROUGHT_ORGANISATION_LABELS_MAX);
    if (pg_bool(rows, 0, 0)) return SUCCESS;
    return failure(err, ERROR_LIMIT, "runs and manifests have brought %d different labels, and the registry may have no more",
                   BROUGHT_LABELS_MAX);
}

static const char *below_project(const char *name)
{
    const char *slash = strchr(name, '/');

    slash = slash == NULL ? NULL : strchr(slash + 1, '/');
    return slash == NULL ? name : slash + 1;
}

/* What others have pushed would be locked away from its readers by whoever may ask for a run, or push. */
static struct result check_content(struct pg *pg, const struct brought_label *row, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    if (row->may_lock) return SUCCESS;
    pg_add_uuid(&arguments, &row->where->project);
    pg_add_text(&arguments, below_project(row->where->name));
    TRY(pg_run(pg, &run_label_content_sql, &arguments, &rows, err));
    if (!pg_bool(rows, 0, 0)) return SUCCESS;
    if (row->run == NULL)
        return failure(
            err, ERROR_LIMIT,
            "%.100s has content, and not the label that the manifest states: push it to a repository without content, or have"
            " the repository labelled first",
            row->where->name);
    return failure(err, ERROR_LIMIT,
                   "%.100s has content, and not the label of all that the run reads: name a repository without content,"
                   " or ask for a run that another person must approve",
                   row->where->name);
}

struct result brought_label_insert(const struct permit *permit, struct pg *pg, const struct brought_label *row, struct error *err)
{
    const struct digest of = digest_of(DIGEST_SHA256, row->label);
    const struct bytes digest = {of.bytes, SHA256_SIZE};
    struct pg_arguments arguments = {0}, raised = {0};
    OWNED(pg_rows) *rows = NULL;

    permit_require(permit, row->action, row->where);
    TRY(check_content(pg, row, err));
    TRY(check_room(pg, row, digest, err));
    pg_add_uuid(&arguments, &row->where->project);
    pg_add_text(&arguments, below_project(row->where->name));
    pg_add_bytes(&arguments, digest);
    pg_add_bytes(&arguments, row->label);
    pg_add_uuid(&arguments, row->run);
    pg_add_text(&arguments, row->manifest == NULL ? "" : row->manifest);
    TRY(pg_run(pg, &run_label_insert_sql, &arguments, NULL, err));
    pg_add_uuid(&raised, &row->where->organisation);
    return pg_run(pg, &run_label_raise_epoch_sql, &raised, &rows, err);
}
