/* The table `run_label`. */
#include "registry/brought_label.h"

#include <stdio.h>
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
    "SELECT EXISTS (SELECT FROM run_label WHERE digest = $2) OR (SELECT count(DISTINCT digest) < $3"
    " AND count(DISTINCT digest) FILTER (WHERE manifest IS NOT NULL) < $4 FROM run_label),"
    " EXISTS (SELECT FROM run_label WHERE project_id = $1 AND digest = $2) OR (SELECT count(DISTINCT digest) < $5"
    " AND count(DISTINCT digest) FILTER (WHERE manifest IS NOT NULL) < $6 FROM run_label WHERE project_id = $1),"
    " (SELECT coalesce(bool_or(l.digest = $2), false) OR (count(DISTINCT l.digest) < $8"
    " AND count(DISTINCT l.digest) FILTER (WHERE l.manifest IS NOT NULL) < $9) FROM run_label l JOIN project p USING (project_id)"
    " WHERE p.organisation_id = $7)",
    "uuid bytea int8 int8 int8 int8 uuid int8 int8", "bool bool bool"};
static const struct pg_statement run_label_forget_sql = {
    "run_label_forget", "WITH forgotten AS (SELECT forget_brought_labels($1) AS number) SELECT number FROM forgotten", "uuid", "int8"};
static const struct pg_statement run_label_raise_epoch_sql = {
    "run_label_raise_epoch", "WITH raised AS (SELECT raise_authorization_epoch($1, true) AS epoch) SELECT epoch FROM raised", "uuid",
    "int8"};
static const struct pg_statement run_label_content_sql = {
    "run_label_content",
    "SELECT EXISTS (SELECT FROM manifest m JOIN repository r USING (repository_id) WHERE r.project_id = $1 AND r.name = $2)", "uuid text",
    "bool"};
static const struct pg_statement label_sources_sql = {
    "label_sources",
    "SELECT r.full_name, m.repository_id = $1 FROM (SELECT repository_id, created_at FROM manifest WHERE digest = $2 OFFSET 0) m"
    " JOIN repository r USING (repository_id) JOIN project p USING (project_id) WHERE r.project_id = $4 AND r.deleted_at IS NULL AND p.deleted_at IS NULL"
    " ORDER BY m.repository_id <> $1, m.created_at, m.repository_id LIMIT $3",
    "uuid text int8 uuid", "text bool"};
static const struct pg_statement *const statements[] = {&run_label_insert_sql, &run_label_room_sql, &run_label_forget_sql, &run_label_content_sql,
                                                        &run_label_raise_epoch_sql, &label_sources_sql};
/* clang-format on */
const struct pg_table brought_label_statements = PG_TABLE(statements);

/* So many of `most` places. Of these, half are for runs, and for people that may label what they push to. */
static void add_places(struct pg_arguments *arguments, const struct brought_label *row, int64_t most)
{
    pg_add_int8(arguments, most);
    pg_add_int8(arguments, brought_label_is_reserved(row) ? most : most / 2);
}

enum room { ROOM_IN_ALL, ROOM_LACKS_IN_REGISTRY, ROOM_LACKS_IN_PROJECT, ROOM_LACKS_IN_ORGANISATION };

static struct result find_room(struct pg *pg, const struct brought_label *row, struct bytes digest, enum room *room_out,
                               struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, &row->where->project);
    pg_add_bytes(&arguments, digest);
    add_places(&arguments, row, BROUGHT_LABELS_MAX);
    add_places(&arguments, row, BROUGHT_PROJECT_LABELS_MAX);
    pg_add_uuid(&arguments, &row->where->organisation);
    add_places(&arguments, row, BROUGHT_ORGANISATION_LABELS_MAX);
    TRY(pg_run(pg, &run_label_room_sql, &arguments, &rows, err));
    *room_out = !pg_bool(rows, 0, 1)   ? ROOM_LACKS_IN_PROJECT
                : !pg_bool(rows, 0, 2) ? ROOM_LACKS_IN_ORGANISATION
                : !pg_bool(rows, 0, 0) ? ROOM_LACKS_IN_REGISTRY
                                       : ROOM_IN_ALL;
    return SUCCESS;
}

static struct result refuse(const struct brought_label *row, enum room room, struct error *err)
{
    static const struct {
        const char *where;
        int most;
    } rooms[] = {[ROOM_LACKS_IN_REGISTRY] = {"the registry", BROUGHT_LABELS_MAX},
                 [ROOM_LACKS_IN_PROJECT] = {"this project", BROUGHT_PROJECT_LABELS_MAX},
                 [ROOM_LACKS_IN_ORGANISATION] = {"this organisation", BROUGHT_ORGANISATION_LABELS_MAX}};

    if (brought_label_is_reserved(row))
        return failure(
            err, ERROR_LIMIT,
            "runs and manifests have brought %d different labels to %s, and it may have no more: delete repositories that"
            " have such labels, or use fewer combinations of labels",
            rooms[room].most, rooms[room].where);
    return failure(
        err, ERROR_LIMIT,
        "manifests may bring %d different labels to %s, and as many more are for runs and for people that may label it:"
        " delete repositories that have such labels, or use fewer combinations of labels",
        rooms[room].most / 2, rooms[room].where);
}

static struct result forget(struct pg *pg, const struct uuid *organisation, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, organisation);
    return pg_run(pg, &run_label_forget_sql, &arguments, &rows, err);
}

/* Whoever deletes repositories gets their places back when they are needed: all rows of an organisation may be many. */
static struct result check_room(struct pg *pg, const struct brought_label *row, struct bytes digest, struct error *err)
{
    enum room room = ROOM_IN_ALL;

    TRY(find_room(pg, row, digest, &room, err));
    if (room == ROOM_IN_ALL) return SUCCESS;
    TRY(forget(pg, &row->where->organisation, err));
    TRY(find_room(pg, row, digest, &room, err));
    return room == ROOM_IN_ALL ? SUCCESS : refuse(row, room, err);
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

bool brought_label_is_reserved(const struct brought_label *row)
{
    return row->run != NULL || row->may_lock;
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

struct result label_sources_find(struct pg *pg, const struct resource *where, const char *subject,
                                 struct label_sources *sources_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;
    struct label_sources sources = {.count = 0};

    pg_add_uuid(&arguments, &where->repository);
    pg_add_text(&arguments, subject);
    pg_add_int8(&arguments, LABEL_SOURCES_MAX);
    pg_add_uuid(&arguments, &where->project);
    TRY(pg_run(pg, &label_sources_sql, &arguments, &rows, err));
    for (size_t i = 0; i < pg_rows_count(rows); i++) {
        if (pg_bool(rows, i, 1)) sources.is_here = true;
        else (void)snprintf(sources.names[sources.count++], sizeof sources.names[0], "%s", pg_text(rows, i, 0));
    }
    *sources_out = sources;
    return SUCCESS;
}
