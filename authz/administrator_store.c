#include "authz/administrator.h"

#include <assert.h>
#include <stdio.h>

#include "authz/rows_priv.h"
#include "storage/pg_table.h"

/* clang-format off */
static const struct pg_statement administrator_end_bindings_sql = {
    "administrator_end_bindings",
    "UPDATE binding SET revoked_at = now() WHERE revoked_at IS NULL"
    " AND robot_id IN (SELECT robot_id FROM robot WHERE name = $1 AND revoked_at IS NULL)",
    "text", ""};
static const struct pg_statement administrator_end_sql = {
    "administrator_end", "UPDATE robot SET revoked_at = now() WHERE name = $1 AND revoked_at IS NULL", "text", ""};
static const struct pg_statement administrator_was_made_sql = {
    "administrator_was_made", "SELECT count(*) FROM robot WHERE name = $1", "text", "int8"};
static const struct pg_statement *const statements[] = {
    &administrator_end_bindings_sql, &administrator_end_sql, &administrator_was_made_sql,
};
/* clang-format on */
const struct pg_table administrator_table = PG_TABLE(statements);

static struct result end_old(struct pg *pg, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_text(&arguments, ADMINISTRATOR_NAME);
    TRY(pg_run(pg, &administrator_end_bindings_sql, &arguments, NULL, err));
    return pg_run(pg, &administrator_end_sql, &arguments, NULL, err);
}

static struct result bind(struct pg *pg, const struct authz_robot *robot, enum role role, struct error *err)
{
    const struct authz_binding wanted = {.kind = PRINCIPAL_ROBOT, .robot = robot->id, .role = role, .granted_by = "system"};
    struct binding_create create;

    binding_create_init(&create, &wanted, 0);
    return binding_row_insert(pg, &create, err);
}

static struct result insert(struct pg *pg, struct robot_create *create, bool replaces, struct error *err)
{
    if (replaces) TRY(end_old(pg, err));
    TRY(robot_row_insert(pg, create, err));
    TRY(bind(pg, &create->robot, ROLE_REGISTRY_ADMIN, err));
    return bind(pg, &create->robot, ROLE_AUDITOR, err);
}

struct result administrator_draw(bool is_person, struct robot_create *create_out, struct error *err)
{
    TRY(robot_create_init(create_out, ADMINISTRATOR_NAME, NULL, ROBOT_SECONDS_MAX, err));
    create_out->is_administrator = is_person;
    (void)snprintf(create_out->created_by, sizeof create_out->created_by, "system");
    return SUCCESS;
}

struct result administrator_create(const struct permit *permit, struct pg *pg, struct robot_create *create,
                                   const struct administrator_making *making, struct error *err)
{
    const enum action action = making->replaces ? ACTION_ADMINISTRATOR_REPLACE : ACTION_ROBOT_CREATE;

    assert(permit_resource(permit, action)->kind == RESOURCE_SYSTEM);
    TRY(pg_begin(pg, err));
    struct result result = insert(pg, create, making->replaces, err);
    if (result.ok) result = making->keep(making->context, create, err);
    if (!result.ok) {
        pg_rollback(pg);
        return result;
    }
    return pg_commit(pg, err);
}

struct result administrator_was_made(struct pg *pg, bool *was_made_out, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;
    struct pg_arguments arguments = {0};

    pg_add_text(&arguments, ADMINISTRATOR_NAME);
    TRY(pg_run(pg, &administrator_was_made_sql, &arguments, &rows, err));
    *was_made_out = pg_int8(rows, 0, 0) > 0;
    return SUCCESS;
}
