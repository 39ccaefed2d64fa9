#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "policy/label.h"
#include "registry/project.h"
#include "registry/registry_priv.h"
#include "registry/seal_priv.h"
#include "storage/pg_table.h"

/* clang-format off */
#define PROJECT_NAME   "(o.name || '/' || p.name)"
/* The page begins after the row with the id `last`. A name as the cursor would reveal a name that the reader may not see. */
#define PAGE(name, from, id, last, limit) \
    "(" last "::uuid IS NULL OR " name " COLLATE \"C\" > (SELECT " name " FROM " from " WHERE " id " = " last ")) ORDER BY " name \
    " COLLATE \"C\" LIMIT " limit
/* Also counts deleted projects that still have content: otherwise a client could fill the database by making and deleting
 * projects in turn. */
#define PROJECTS_OF(organisation) "(SELECT count(*) FROM project WHERE organisation_id = " organisation " AND emptied_at IS NULL)"
#define NAMESPACE_TYPES    "uuid text text text timestamptz"

static const struct pg_statement organisation_insert_sql = {
    "organisation_insert",
    "INSERT INTO organisation (organisation_id, name, label, born) VALUES ($1, $2, $3::text::jsonb, $4) ON CONFLICT DO NOTHING",
    "uuid text text int8", ""};
static const struct pg_statement project_insert_sql = {
    "project_insert",
    "INSERT INTO project (project_id, organisation_id, name, home_region, label, born)"
    " SELECT $1, o.organisation_id, $3, g.region_id, $5::text::jsonb, $7 FROM organisation o, region g"
    " WHERE o.organisation_id = $2 AND o.deleted_at IS NULL AND g.region_id = $4 AND " PROJECTS_OF("$2") " < $6 ON CONFLICT DO NOTHING",
    "uuid uuid text text text int8 int8", ""};
static const struct pg_statement project_is_there_sql = {
    "project_is_there",
    "SELECT EXISTS (SELECT FROM project WHERE organisation_id = $1 AND name = $2), " PROJECTS_OF("$1"), "uuid text", "bool int8"};
static const struct pg_statement namespace_raise_epoch_sql = {
    "namespace_raise_epoch", "WITH raised AS (SELECT raise_authorization_epoch($1, true) AS epoch) SELECT epoch FROM raised", "uuid",
    "int8"};
static const struct pg_statement label_of_organisation_sql = {
    "label_of_organisation",
    "SELECT label::text FROM organisation WHERE organisation_id = $1 AND deleted_at IS NULL", "uuid", "text"};
static const struct pg_statement label_of_project_sql = {
    "label_of_project", "SELECT label::text FROM project WHERE project_id = $1 AND deleted_at IS NULL", "uuid", "text"};
static const struct pg_statement label_of_repository_sql = {
    "label_of_repository", "SELECT label::text FROM repository WHERE repository_id = $1 AND deleted_at IS NULL", "uuid", "text"};
static const struct pg_statement namespace_born_sql = {
    "namespace_born", /* the later time of the two: older events with these names are about deleted ones */
    "SELECT coalesce(greatest((SELECT born FROM organisation WHERE organisation_id = $1),"
    " (SELECT born FROM project WHERE project_id = $2)), 0)",
    "uuid uuid", "int8"};
static const struct pg_statement label_organisation_sql = {
    "label_organisation", "UPDATE organisation SET label = $2::text::jsonb WHERE organisation_id = $1", "uuid text",
    ""};
static const struct pg_statement label_project_sql = {
    "label_project", "UPDATE project SET label = $2::text::jsonb WHERE project_id = $1", "uuid text", ""};
static const struct pg_statement label_repository_sql = {
    "label_repository", "UPDATE repository SET label = $2::text::jsonb WHERE repository_id = $1", "uuid text", ""};
static const struct pg_statement namespace_organisations_sql = {
    "namespace_organisations",
    "SELECT o.organisation_id, o.name, '', o.label::text, o.created_at"
    " FROM organisation o WHERE o.deleted_at IS NULL AND ($1::uuid IS NULL OR o.organisation_id = $1) AND $2::uuid IS NULL AND "
    PAGE("o.name", "organisation o", "o.organisation_id", "$3", "$4"),
    "uuid uuid uuid int8", NAMESPACE_TYPES};
static const struct pg_statement namespace_projects_sql = {
    "namespace_projects",
    "SELECT p.project_id, " PROJECT_NAME ", p.home_region, p.label::text, p.created_at"
    " FROM project p JOIN organisation o USING (organisation_id) WHERE p.deleted_at IS NULL AND ($1::uuid IS NULL OR o.organisation_id = $1)"
    " AND ($2::uuid IS NULL OR p.project_id = $2) AND "
    PAGE(PROJECT_NAME, "project p JOIN organisation o USING (organisation_id)", "p.project_id", "$3", "$4"),
    "uuid uuid uuid int8", NAMESPACE_TYPES};
/* Separate statements, because a plan that also serves a reader of everything would scan all rows. */
static const struct pg_statement namespace_organisations_of_sql = {
    "namespace_organisations_of",
    "SELECT o.organisation_id, o.name, '', o.label::text, o.created_at FROM organisation o"
    " WHERE o.deleted_at IS NULL AND o.organisation_id = ANY($1) AND " PAGE("o.name", "organisation o", "o.organisation_id", "$2", "$3"),
    "uuid[] uuid int8", NAMESPACE_TYPES};
static const struct pg_statement namespace_projects_of_sql = {
    "namespace_projects_of",
    "SELECT p.project_id, " PROJECT_NAME ", p.home_region, p.label::text, p.created_at"
    " FROM project p JOIN organisation o USING (organisation_id)"
    " WHERE p.deleted_at IS NULL AND (p.organisation_id = ANY($1) OR p.project_id = ANY($2)) AND "
    PAGE(PROJECT_NAME, "project p JOIN organisation o USING (organisation_id)", "p.project_id", "$3", "$4"),
    "uuid[] uuid[] uuid int8", NAMESPACE_TYPES};
static const struct pg_statement *const statements[] = {
    &organisation_insert_sql, &project_insert_sql, &project_is_there_sql, &namespace_raise_epoch_sql, &label_of_organisation_sql,
    &label_of_project_sql, &label_of_repository_sql, &namespace_born_sql, &label_organisation_sql, &label_project_sql,
    &label_repository_sql, &namespace_organisations_sql, &namespace_projects_sql, &namespace_organisations_of_sql, &namespace_projects_of_sql,
};
/* clang-format on */
const struct pg_table project_statements = PG_TABLE(statements);

/* The names or labels of one organisation change. A new organisation is announced to all, because any caller may have got "not
 * there". */
static struct result raise_epoch(struct pg *pg, const struct uuid *organisation, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_uuid(&arguments, organisation == NULL || uuid_is_nil(organisation) ? NULL : organisation);
    return pg_run(pg, &namespace_raise_epoch_sql, &arguments, NULL, err);
}

static struct result run_organisation(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    const struct organisation_create *create = (const struct organisation_create *)(const void *)change; /* first member */
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    permit_require(permit, ACTION_ORGANISATION_CREATE, &create->where);
    pg_add_uuid(&arguments, &create->organisation);
    pg_add_text(&arguments, create->where.name);
    pg_add_text(&arguments, create->label);
    pg_add_int8(&arguments, (int64_t)permit_sequence(permit));
    TRY(pg_run(pg, &organisation_insert_sql, &arguments, &rows, err));
    if (pg_rows_affected(rows) == 0) return failure(err, ERROR_CONFLICT, "there is an organisation of that name");
    return raise_epoch(pg, NULL, err);
}

struct result organisation_create_prepare(const struct resource *where, const char *label, struct organisation_create *create_out,
                                          struct error *err)
{
    if (!namespace_name_is_valid(bytes_of_text(where->name)))
        return failure(err, ERROR_INVALID, "an organisation's name has a-z, 0-9 and single separators . _ -, at most %d",
                       NAMESPACE_NAME_MAX);
    *create_out = (struct organisation_create){.change = {.run = run_organisation, .raises_epoch = true},
                                               .where = *where,
                                               .label = label,
                                               .organisation = uuid_random()};
    return SUCCESS;
}

/* "models" of "acme/models". */
static const char *project_name(const struct resource *where)
{
    const char *slash = strchr(where->name, '/');

    return slash == NULL ? "" : slash + 1;
}

/* Explains why no row was made: the name is taken, or the organisation or region does not exist. */
static struct result why_no_project(struct pg *pg, const struct project_create *create, struct error *err)
{
    const struct resource *where = &create->where;
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, &where->organisation);
    pg_add_text(&arguments, project_name(where));
    TRY(pg_run(pg, &project_is_there_sql, &arguments, &rows, err));
    if (pg_bool(rows, 0, 0)) return failure(err, ERROR_CONFLICT, "there is a project of that name");
    if (pg_int8(rows, 0, 1) >= create->most)
        return failure(
            err, ERROR_CONFLICT,
            "the organisation has as many projects as it may, %u (projects_per_organisation): delete some and collect garbage, or ask"
            " the operator for more",
            create->most);
    return failure(err, ERROR_NOT_FOUND, "there is no such organisation, or no region %.63s", where->region);
}

static struct result run_project(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    const struct project_create *create = (const struct project_create *)(const void *)change; /* its first member */
    struct resource made = create->where;
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    permit_require(permit, ACTION_PROJECT_CREATE, &create->where);
    made.project = create->project;
    pg_add_uuid(&arguments, &create->project);
    pg_add_uuid(&arguments, &create->where.organisation);
    pg_add_text(&arguments, project_name(&create->where));
    pg_add_text(&arguments, create->where.region);
    pg_add_text(&arguments, create->label);
    pg_add_int8(&arguments, create->most);
    pg_add_int8(&arguments, (int64_t)permit_sequence(permit));
    TRY(pg_run(pg, &project_insert_sql, &arguments, &rows, err));
    if (pg_rows_affected(rows) == 0) return why_no_project(pg, create, err);
    TRY(project_key_insert(pg, &made, &create->key, err));
    return raise_epoch(pg, &create->where.organisation, err);
}

struct result project_create_prepare(struct registry *registry, const struct resource *where, const char *label,
                                     struct project_create *create_out, struct error *err)
{
    struct project_create create = {.change = {.run = run_project, .raises_epoch = true},
                                    .where = *where,
                                    .label = label,
                                    .project = uuid_random(),
                                    .most = registry->namespaces.projects_per_organisation};
    struct resource made = *where;

    if (!namespace_name_is_valid(bytes_of_text(project_name(where))))
        return failure(err, ERROR_INVALID, "a project is named organisation/project, of a-z, 0-9 and single separators");
    if (uuid_is_nil(&where->organisation)) return failure(err, ERROR_NOT_FOUND, "there is no such organisation");
    made.project = create.project;
    TRY(project_key_new(registry, &made, &create.key, err));
    *create_out = create;
    return SUCCESS;
}

/* The id of the labelled resource, and the statements that read and write its label. */
static const struct uuid *labelled(const struct resource *where, const struct pg_statement **read_out,
                                   const struct pg_statement **write_out)
{
    const bool is_repository = where->kind == RESOURCE_REPOSITORY, is_project = where->kind == RESOURCE_PROJECT;

    *read_out = is_repository ? &label_of_repository_sql : is_project ? &label_of_project_sql : &label_of_organisation_sql;
    *write_out = is_repository ? &label_repository_sql : is_project ? &label_project_sql : &label_organisation_sql;
    return is_repository ? &where->repository : is_project ? &where->project : &where->organisation;
}

/* A label without `lineage` leaves it unknown, which is the strictest value. */
static bool states_lineage(const json_t *old, const json_t *new)
{
    const char *lineage = json_text_of(new, "lineage");

    return json_object_get(old, "lineage") == NULL && lineage != NULL && strcmp(lineage, "unknown") != 0;
}

static struct result check_rises(const char *old_text, const char *new_text, struct error *err)
{
    OWNED_JSON old_json = NULL;
    OWNED_JSON new_json = NULL;
    struct label old_label, new_label;
    bool is_stated = false;

    TRY(json_read(bytes_of_text(old_text), LABEL_TEXT_MAX, &old_json, err));
    TRY(json_read(bytes_of_text(new_text), LABEL_TEXT_MAX, &new_json, err));
    TRY(label_read_floor(old_json, &old_label, &is_stated, err));
    if (!is_stated) return SUCCESS;
    TRY(label_read_floor(new_json, &new_label, &is_stated, err));
    if (is_stated && label_covers(&new_label, &old_label) && !states_lineage(old_json, new_json)) return SUCCESS;
    return failure(err, ERROR_CONFLICT, "a label can only rise: the new one must be at least as strict as the present one");
}

static struct result run_label(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    const struct label_change *label = (const struct label_change *)(const void *)change; /* its first member */
    const struct pg_statement *read = NULL, *write = NULL;
    const struct uuid *id = labelled(&label->where, &read, &write);
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    permit_require(permit, label->where.kind == RESOURCE_REPOSITORY ? ACTION_REPOSITORY_LABEL : ACTION_PROJECT_LABEL,
                   &label->where);
    pg_add_uuid(&arguments, id);
    TRY(pg_run(pg, read, &arguments, &rows, err));
    if (pg_rows_count(rows) == 0) return failure(err, ERROR_NOT_FOUND, "there is no such organisation, project or repository");
    TRY(check_rises(pg_text(rows, 0, 0), label->label, err));
    pg_add_text(&arguments, label->label);
    TRY(pg_run(pg, write, &arguments, NULL, err));
    return raise_epoch(pg, &label->where.organisation, err);
}

void label_change_prepare(const struct resource *where, const char *label, struct label_change *change_out)
{
    *change_out = (struct label_change){.change = {.run = run_label, .raises_epoch = true}, .where = *where, .label = label};
}

struct result namespace_born(const struct permit *permit, struct pg *pg, uint64_t *sequence_out, struct error *err)
{
    const struct resource *where = permit_resource(permit, ACTION_AUDIT_READ);
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, &where->organisation);
    pg_add_uuid(&arguments, &where->project);
    TRY(pg_run(pg, &namespace_born_sql, &arguments, &rows, err));
    *sequence_out = (uint64_t)pg_int8(rows, 0, 0);
    return SUCCESS;
}

static void read_scope(const struct pg_rows *rows, size_t row, struct namespace_record *record)
{
    record->id = pg_uuid(rows, row, 0);
    (void)snprintf(record->name, sizeof record->name, "%s", pg_text(rows, row, 1));
    (void)snprintf(record->region, sizeof record->region, "%s", pg_text(rows, row, 2));
    record->label = pg_text(rows, row, 3);
    record->created_ms = pg_time_ms(rows, row, 4);
}

/* `views` must live until the statement has run. */
static void add_ids(struct pg_arguments *arguments, const struct uuid *ids, size_t count,
                    struct bytes views[NAMESPACE_READER_MAX])
{
    assert(count <= NAMESPACE_READER_MAX);
    for (size_t i = 0; i < count; i++) views[i] = uuid_bytes(&ids[i]);
    pg_add_uuid_array(arguments, views, count);
}

static struct result run_list(struct pg *pg, const struct namespace_query *query, struct pg_rows **rows_out, struct error *err)
{
    const struct resource *where = query->where;
    const struct namespace_reader *reader = query->reader;
    const struct pg_statement *statement = query->projects ? &namespace_projects_sql : &namespace_organisations_sql;
    struct pg_arguments arguments = {0};
    struct bytes organisations[NAMESPACE_READER_MAX], projects[NAMESPACE_READER_MAX];

    if (reader != NULL) {
        assert(where->kind == RESOURCE_SYSTEM);
        statement = query->projects ? &namespace_projects_of_sql : &namespace_organisations_of_sql;
        add_ids(&arguments, reader->organisations, reader->organisation_count, organisations);
        if (query->projects) add_ids(&arguments, reader->projects, reader->project_count, projects);
    } else {
        pg_add_uuid(&arguments, where->kind == RESOURCE_SYSTEM ? NULL : &where->organisation);
        pg_add_uuid(&arguments, where->kind == RESOURCE_PROJECT ? &where->project : NULL);
    }
    pg_add_uuid(&arguments, uuid_is_nil(&query->last) ? NULL : &query->last);
    pg_add_int8(&arguments, (int64_t)query->limit + 1); /* one row more shows whether another page follows */
    return pg_run(pg, statement, &arguments, rows_out, err);
}

struct result namespace_list(const struct permit *permit, struct pg *pg, const struct namespace_query *query,
                             struct namespace_page **page_out, struct error *err)
{
    const struct resource *where = query->where;
    OWNED(pg_rows) *rows = NULL;

    permit_require(permit, where->kind == RESOURCE_SYSTEM ? ACTION_PROJECT_LIST : ACTION_PROJECT_READ, where);
    TRY(run_list(pg, query, &rows, err));
    const size_t found = pg_rows_count(rows);
    OWNED(namespace_page) *page = memory_zeroed(1, sizeof *page);
    if (page == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a list");
    page->has_more = found > query->limit;
    page->records = memory_zeroed(found + 1, sizeof *page->records);
    if (page->records == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a list");
    page->count = page->has_more ? query->limit : found;
    for (size_t i = 0; i < page->count; i++) read_scope(rows, i, &page->records[i]);
    page->rows = GIVE(rows);
    *page_out = GIVE(page);
    return SUCCESS;
}

void namespace_page_free(struct namespace_page *page)
{
    if (page == NULL) return;
    pg_rows_free(page->rows);
    free(page->records);
    free(page);
}
