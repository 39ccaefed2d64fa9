/* Loads organisations, projects and labels for decisions. */
#include <stdio.h>
#include <string.h>

#include "authz/snapshot_load.h"
#include "base/memory.h"
#include "policy/decider/snapshot_priv.h"
#include "storage/pg_table.h"

/* clang-format off */
static const struct pg_statement decider_epoch_sql = {"decider_epoch", "SELECT epoch FROM authorization_epoch", "", "int8"};
static const struct pg_statement decider_state_sql = {
    "decider_state",
    "SELECT e.epoch, c.whole_epoch, c.rights_epoch, c.names_epoch FROM authorization_epoch e, authorization_change c"
    " WHERE c.organisation_id = '00000000-0000-0000-0000-000000000000'",
    "", "int8 int8 int8 int8"};
static const struct pg_statement decider_changed_rights_sql = {
    "decider_changed_rights", "SELECT organisation_id, names_epoch FROM authorization_change WHERE part_epoch > $1 LIMIT $2", "int8 int8",
    "uuid int8"};
static const struct pg_statement decider_organisations_sql = {
    "decider_organisations", "SELECT organisation_id, name, label::text FROM organisation WHERE deleted_at IS NULL ORDER BY name COLLATE \"C\"",
    "", "uuid text text"};
static const struct pg_statement decider_projects_sql = {
    "decider_projects",
    "SELECT p.project_id, p.organisation_id, o.name || '/' || p.name, p.home_region, p.label::text, coalesce(c.regions, '')"
    " FROM project p JOIN organisation o USING (organisation_id) LEFT JOIN (SELECT project_id, string_agg(region_id || E'\\n', ''"
    " ORDER BY region_id COLLATE \"C\") AS regions FROM project_copy WHERE withdrawn_at IS NULL GROUP BY project_id) c USING (project_id)"
    " WHERE p.deleted_at IS NULL ORDER BY (o.name || '/' || p.name) COLLATE \"C\"",
    "", "uuid uuid text text text text"};
static const struct pg_statement decider_repositories_sql = {
    "decider_repositories",
    "SELECT r.repository_id, o.name || '/' || p.name || '/' || r.name, r.label::text FROM repository r"
    " JOIN project p USING (project_id) JOIN organisation o USING (organisation_id) WHERE r.label <> '{}'"
    " AND r.deleted_at IS NULL AND p.deleted_at IS NULL"
    " ORDER BY (o.name || '/' || p.name || '/' || r.name) COLLATE \"C\"",
    "", "uuid text text"};
static const struct pg_statement decider_stored_sql = {
    "decider_stored",
    "SELECT name, policy, label FROM (SELECT r.full_name AS name, s.policy_id AS policy, s.label FROM stored_label s"
    " JOIN repository r USING (repository_id) JOIN project p USING (project_id) WHERE r.deleted_at IS NULL AND p.deleted_at IS NULL"
    " UNION ALL SELECT o.name || '/' || p.name || '/' || l.repository, '" LABEL_CARRIED_POLICY "', l.label FROM run_label l"
    " JOIN project p USING (project_id) JOIN organisation o USING (organisation_id) WHERE p.deleted_at IS NULL) s"
    " ORDER BY name COLLATE \"C\"",
    "", "text text text"};
static const struct pg_statement decider_deleted_sql = {
    "decider_deleted",
    "SELECT r.repository_id FROM repository r JOIN project p USING (project_id) WHERE r.deleted_at IS NOT NULL"
    " AND p.deleted_at IS NULL ORDER BY r.repository_id",
    "", "uuid"};
static const struct pg_statement decider_regions_sql = {
    "decider_regions",
    "SELECT region_id, coalesce(mark, ''), coalesce(quarantined_for, ''), coalesce(quarantined_epoch, 0), draining_since IS NOT NULL,"
    " retired_at IS NOT NULL, coalesce(keyd, '') FROM region ORDER BY region_id COLLATE \"C\"",
    "", "text text text int8 bool bool text"};
static const struct pg_statement decider_misplaced_sql = {
    "decider_misplaced",
    "SELECT r.full_name, m.region_id, m.operation <> 'ingest' FROM misplaced_content m JOIN repository r USING (repository_id)"
    " JOIN project p USING (project_id) WHERE r.deleted_at IS NULL AND p.deleted_at IS NULL ORDER BY r.full_name COLLATE \"C\"",
    "", "text text bool"};
static const struct pg_statement decider_spent_sql = {
    "decider_spent", "SELECT exception FROM exception_use WHERE used >= uses ORDER BY exception", "", "bytea"};
static const struct pg_statement *const statements[] = {
    &decider_epoch_sql, &decider_state_sql, &decider_changed_rights_sql, &decider_organisations_sql, &decider_projects_sql,
    &decider_repositories_sql, &decider_stored_sql, &decider_deleted_sql, &decider_regions_sql,
    &decider_misplaced_sql, &decider_spent_sql,
};
/* clang-format on */
const struct pg_table decider_table = PG_TABLE(statements);

#define LABEL_BYTES_MAX (16 * 1024) /* the largest floor has less */

static struct result no_memory(struct error *err)
{
    return failure(err, ERROR_NO_MEMORY, "no memory for a snapshot");
}

static void floor_free(struct floor_label *floor)
{
    if (floor == NULL) return;
    json_decref(floor->json);
    free(floor);
}

NO_LEAK_BEGIN /* an element of the tenancy, which tenancy_done() frees */
    /* A label that can't be read makes the load fail: no request may be decided without it. */
    static struct result
    read_floor(const char *text, const char *name, struct floor_label **floor_out, struct error *err)
{
    struct error problem = {0};
    bool is_stated = false;
    struct floor_label *floor = memory_zeroed(1, sizeof *floor);

    if (floor == NULL) return no_memory(err);
    if (!json_read(bytes_of_text(text), LABEL_BYTES_MAX, &floor->json, &problem).ok ||
        !label_read_floor(floor->json, &floor->label, &is_stated, &problem).ok) {
        floor_free(floor);
        if (problem.kind == ERROR_NO_MEMORY) return no_memory(err);
        return failure(err, ERROR_CORRUPT, "the label of \"%.100s\" can't be read: %.120s", name, problem.message);
    }
    floor->has_lineage = json_object_get(floor->json, "lineage") != NULL;
    if (!is_stated) {
        floor_free(floor);
        floor = NULL;
    }
    *floor_out = floor;
    return SUCCESS;
}
NO_LEAK_END

static struct result copy_name(char *destination, size_t size, const char *text, struct error *err)
{
    const int length = snprintf(destination, size, "%s", text);

    if (length < 0 || (size_t)length >= size)
        return failure(err, ERROR_CORRUPT, "a name in the database is longer than names are: \"%.100s\"", text);
    return SUCCESS;
}

static struct result load_organisations(struct pg *pg, struct tenancy *tenancy, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;
    const struct pg_arguments none = {0};

    TRY(pg_run(pg, &decider_organisations_sql, &none, &rows, err));
    tenancy->organisations = memory_zeroed(pg_rows_count(rows) + 1, sizeof *tenancy->organisations);
    if (tenancy->organisations == NULL) return no_memory(err);
    for (size_t i = 0; i < pg_rows_count(rows); i++) {
        struct tenant_organisation *organisation = &tenancy->organisations[tenancy->organisation_count++];
        organisation->id = pg_uuid(rows, i, 0);
        TRY(copy_name(organisation->name, sizeof organisation->name, pg_text(rows, i, 1), err));
        TRY(read_floor(pg_text(rows, i, 2), organisation->name, &organisation->floor, err));
    }
    return SUCCESS;
}

static struct result copy_text(char **copy_out, const char *text, struct error *err)
{
    const size_t size = strlen(text) + 1;
    char *copy = size == 1 ? NULL : memory_resize(NULL, size);

    if (size > 1 && copy == NULL) return no_memory(err);
    if (copy != NULL) memcpy(copy, text, size);
    *copy_out = copy;
    return SUCCESS;
}

static struct result load_projects(struct pg *pg, struct tenancy *tenancy, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;
    const struct pg_arguments none = {0};

    TRY(pg_run(pg, &decider_projects_sql, &none, &rows, err));
    tenancy->projects = memory_zeroed(pg_rows_count(rows) + 1, sizeof *tenancy->projects);
    if (tenancy->projects == NULL) return no_memory(err);
    for (size_t i = 0; i < pg_rows_count(rows); i++) {
        struct tenant_project *project = &tenancy->projects[tenancy->project_count++];
        project->id = pg_uuid(rows, i, 0);
        project->organisation = pg_uuid(rows, i, 1);
        TRY(copy_name(project->name, sizeof project->name, pg_text(rows, i, 2), err));
        TRY(copy_name(project->home_region, sizeof project->home_region, pg_text(rows, i, 3), err));
        TRY(read_floor(pg_text(rows, i, 4), project->name, &project->floor, err));
        TRY(copy_text(&project->copy_regions, pg_text(rows, i, 5), err));
    }
    return SUCCESS;
}

static struct result load_repositories(struct pg *pg, struct tenancy *tenancy, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;
    const struct pg_arguments none = {0};

    TRY(pg_run(pg, &decider_repositories_sql, &none, &rows, err));
    tenancy->repositories = memory_zeroed(pg_rows_count(rows) + 1, sizeof *tenancy->repositories);
    if (tenancy->repositories == NULL) return no_memory(err);
    for (size_t i = 0; i < pg_rows_count(rows); i++) {
        struct tenant_repository *repository = &tenancy->repositories[tenancy->repository_count++];
        repository->id = pg_uuid(rows, i, 0);
        TRY(copy_name(repository->name, sizeof repository->name, pg_text(rows, i, 1), err));
        TRY(read_floor(pg_text(rows, i, 2), repository->name, &repository->floor, err));
    }
    return SUCCESS;
}

static struct result load_deleted(struct pg *pg, struct tenancy *tenancy, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;

    TRY(pg_run(pg, &decider_deleted_sql, NULL, &rows, err));
    tenancy->deleted = memory_zeroed(pg_rows_count(rows) + 1, sizeof *tenancy->deleted);
    if (tenancy->deleted == NULL) return no_memory(err);
    tenancy->deleted_count = pg_rows_count(rows);
    for (size_t i = 0; i < tenancy->deleted_count; i++) tenancy->deleted[i] = pg_uuid(rows, i, 0);
    return SUCCESS;
}

static struct result load_spent(struct pg *pg, struct tenancy *tenancy, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;

    TRY(pg_run(pg, &decider_spent_sql, NULL, &rows, err));
    tenancy->spent = memory_zeroed(pg_rows_count(rows) + 1, sizeof *tenancy->spent);
    if (tenancy->spent == NULL) return no_memory(err);
    for (size_t i = 0; i < pg_rows_count(rows); i++) {
        const struct bytes key = pg_bytes(rows, i, 0);
        if (key.length != SHA256_SIZE) return failure(err, ERROR_CORRUPT, "an exception that is used up has no SHA-256");
        memcpy(tenancy->spent[tenancy->spent_count++], key.data, SHA256_SIZE);
    }
    return SUCCESS;
}

NO_LEAK_BEGIN /* an element of the tenancy, which tenancy_done() frees */
    static struct result
    read_stored(struct tenancy *tenancy, const char *policy, const char *text, const struct stored_floor **floor_out,
                struct error *err)
{
    if (tenancy->floor_count == STORED_FLOORS_MAX)
        return failure(err, ERROR_LIMIT, "more than %d different labels are stored", STORED_FLOORS_MAX);
    struct stored_floor *floor = memory_zeroed(1, sizeof *floor);
    if (floor == NULL) return no_memory(err);
    *floor = (struct stored_floor){.policy = policy, .text = text};
    tenancy->floors[tenancy->floor_count++] = floor;
    TRY(json_read(bytes_of_text(text), LABEL_BYTES_MAX, &floor->json, err));
    TRY(label_read(floor->json, &floor->label, err));
    *floor_out = floor;
    return SUCCESS;
}
NO_LEAK_END

static struct result find_stored(struct tenancy *tenancy, const char *policy, const char *text,
                                 const struct stored_floor **floor_out, struct error *err)
{
    for (size_t i = 0; i < tenancy->floor_count; i++) {
        struct stored_floor *floor = tenancy->floors[i];
        if (strcmp(floor->policy, policy) != 0 || strcmp(floor->text, text) != 0) continue;
        *floor_out = floor;
        return SUCCESS;
    }
    return read_stored(tenancy, policy, text, floor_out, err);
}

/* A label that can't be read makes the load fail. */
static struct result load_stored(struct pg *pg, struct tenancy *tenancy, struct error *err)
{
    const struct pg_arguments none = {0};

    TRY(pg_run(pg, &decider_stored_sql, &none, &tenancy->stored_rows, err));
    const struct pg_rows *rows = tenancy->stored_rows;
    tenancy->stored = memory_zeroed(pg_rows_count(rows) + 1, sizeof *tenancy->stored);
    if (tenancy->stored == NULL) return no_memory(err);
    for (size_t i = 0; i < pg_rows_count(rows); i++) {
        struct tenant_stored *stored = &tenancy->stored[tenancy->stored_count++];
        struct error problem = {0};
        stored->name = pg_text(rows, i, 0);
        if (find_stored(tenancy, pg_text(rows, i, 1), pg_text(rows, i, 2), &stored->floor, &problem).ok) continue;
        if (problem.kind == ERROR_NO_MEMORY) return no_memory(err);
        return failure(err, ERROR_CORRUPT, "the stored label of \"%.100s\" can't be read: %.120s", stored->name, problem.message);
    }
    return SUCCESS;
}

static struct result load_regions(struct pg *pg, struct tenancy *tenancy, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;

    TRY(pg_run(pg, &decider_regions_sql, NULL, &rows, err));
    tenancy->regions = memory_zeroed(pg_rows_count(rows) + 1, sizeof *tenancy->regions);
    if (tenancy->regions == NULL) return no_memory(err);
    for (size_t i = 0; i < pg_rows_count(rows); i++) {
        struct region_state *state = &tenancy->regions[tenancy->region_count++];
        TRY(copy_name(state->id, sizeof state->id, pg_text(rows, i, 0), err));
        TRY(copy_name(state->mark, sizeof state->mark, pg_text(rows, i, 1), err));
        TRY(copy_name(state->why, sizeof state->why, pg_text(rows, i, 2), err));
        state->quarantined_epoch = (uint64_t)pg_int8(rows, i, 3);
        state->is_draining = pg_bool(rows, i, 4);
        state->is_retired = pg_bool(rows, i, 5);
        TRY(copy_name(state->keyd, sizeof state->keyd, pg_text(rows, i, 6), err));
        tenancy->has_closed_region = tenancy->has_closed_region || state->is_draining || state->why[0] != '\0';
    }
    return SUCCESS;
}

static struct result load_misplaced(struct pg *pg, struct tenancy *tenancy, struct error *err)
{
    TRY(pg_run(pg, &decider_misplaced_sql, NULL, &tenancy->misplaced_rows, err));
    const struct pg_rows *rows = tenancy->misplaced_rows;
    tenancy->misplaced = memory_zeroed(pg_rows_count(rows) + 1, sizeof *tenancy->misplaced);
    if (tenancy->misplaced == NULL) return no_memory(err);
    for (size_t i = 0; i < pg_rows_count(rows); i++)
        tenancy->misplaced[tenancy->misplaced_count++] =
            (struct tenant_misplaced){pg_text(rows, i, 0), pg_text(rows, i, 1), pg_bool(rows, i, 2)};
    return SUCCESS;
}

struct result tenancy_load(struct pg *pg, struct tenancy *tenancy, struct error *err)
{
    TRY(load_regions(pg, tenancy, err));
    TRY(load_organisations(pg, tenancy, err));
    TRY(load_projects(pg, tenancy, err));
    TRY(load_repositories(pg, tenancy, err));
    TRY(load_deleted(pg, tenancy, err));
    TRY(load_spent(pg, tenancy, err));
    TRY(load_misplaced(pg, tenancy, err));
    return load_stored(pg, tenancy, err);
}

struct result tenancy_epoch(struct pg *pg, uint64_t *epoch_out, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;
    const struct pg_arguments none = {0};

    TRY(pg_run(pg, &decider_epoch_sql, &none, &rows, err));
    if (pg_rows_count(rows) != 1) return failure(err, ERROR_CORRUPT, "the database has no authorization epoch");
    *epoch_out = (uint64_t)pg_int8(rows, 0, 0);
    return SUCCESS;
}

static struct result read_changed_rights(struct pg *pg, uint64_t since, struct changed_rights *changed, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;
    struct pg_arguments arguments = {0};

    pg_add_int8(&arguments, (int64_t)since);
    pg_add_int8(&arguments, RIGHTS_CHANGE_MAX + 1);
    TRY(pg_run(pg, &decider_changed_rights_sql, &arguments, &rows, err));
    const size_t count = pg_rows_count(rows);
    if (count > RIGHTS_CHANGE_MAX) changed->is_whole = true;
    for (size_t i = 0; i < count && !changed->is_whole; i++) {
        changed->organisations[changed->count++] = pg_uuid(rows, i, 0);
        changed->has_names = changed->has_names || (uint64_t)pg_int8(rows, i, 1) > since;
    }
    return SUCCESS;
}

struct result tenancy_changed_rights(struct pg *pg, uint64_t since, struct changed_rights *changed_out, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;
    struct changed_rights changed = {0};

    TRY(pg_run(pg, &decider_state_sql, NULL, &rows, err));
    if (pg_rows_count(rows) != 1) return failure(err, ERROR_CORRUPT, "the database has no authorization epoch");
    changed.epoch = (uint64_t)pg_int8(rows, 0, 0);
    changed.whole_epoch = (uint64_t)pg_int8(rows, 0, 1);
    changed.is_whole = since == 0 || (uint64_t)pg_int8(rows, 0, 2) > since || changed.epoch < since;
    changed.has_names = (uint64_t)pg_int8(rows, 0, 3) > since;
    if (!changed.is_whole) TRY(read_changed_rights(pg, since, &changed, err));
    *changed_out = changed;
    return SUCCESS;
}

NO_LEAK_BEGIN /* its last holder frees it */
    struct result
    shared_names_load(struct pg *pg, uint64_t version, struct shared_names **names_out, struct error *err)
{
    OWNED(shared_names) *names = memory_zeroed(1, sizeof *names);

    if (names == NULL) return no_memory(err);
    atomic_init(&names->holders, 1);
    names->version = version;
    TRY(tenancy_load(pg, &names->tenancy, err));
    *names_out = GIVE(names);
    return SUCCESS;
}
NO_LEAK_END

struct shared_names *shared_names_keep(struct shared_names *names)
{
    (void)atomic_fetch_add(&names->holders, 1);
    return names;
}

void shared_names_free(struct shared_names *names)
{
    if (names == NULL || atomic_fetch_sub(&names->holders, 1) != 1) return;
    tenancy_done(&names->tenancy);
    free(names);
}

void tenancy_done(struct tenancy *tenancy)
{
    for (size_t i = 0; i < tenancy->organisation_count; i++) floor_free(tenancy->organisations[i].floor);
    for (size_t i = 0; i < tenancy->project_count; i++) {
        floor_free(tenancy->projects[i].floor);
        free(tenancy->projects[i].copy_regions);
    }
    for (size_t i = 0; i < tenancy->repository_count; i++) floor_free(tenancy->repositories[i].floor);
    for (size_t i = 0; i < tenancy->floor_count; i++) {
        json_decref(tenancy->floors[i]->json);
        free(tenancy->floors[i]);
    }
    pg_rows_free(tenancy->stored_rows);
    pg_rows_free(tenancy->misplaced_rows);
    free(tenancy->misplaced);
    free(tenancy->spent);
    free(tenancy->stored);
    free(tenancy->organisations);
    free(tenancy->projects);
    free(tenancy->repositories);
    free(tenancy->deleted);
    free(tenancy->regions);
}
