#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "authz/robot.h"
#include "authz/snapshot_load.h"
#include "authz/snapshot_priv.h"
#include "base/memory.h"
#include "base/text.h"
#include "storage/pg_table.h"

/* clang-format off */
/* Values that no rotation could have written are ignored: neither the secret nor its end counts (docs/audit.md). */
#define ROBOTS                                                                                                    \
    "SELECT robot_id, organisation_id, name, secret_hash, expires_at, CASE WHEN " ROBOT_GRACE_IS_POSSIBLE " THEN previous_hash END,"            \
    " CASE WHEN " ROBOT_GRACE_IS_POSSIBLE " THEN previous_until END, coalesce(person, '') FROM robot WHERE revoked_at IS NULL AND expires_at > now()"
#define BINDINGS                                                                                                  \
    "SELECT binding_id, robot_id, coalesce(issuer, ''), coalesce(subject, ''), role, organisation_id, project_id," \
    " coalesce(pattern, ''), granted_by, expires_at, coalesce(giver, '') FROM binding"                            \
    " WHERE revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now())"
#define OF_ORGANISATIONS " AND (organisation_id = ANY($1) OR ($2 AND organisation_id IS NULL))"
#define ROBOT_TYPES      "uuid uuid text bytea timestamptz bytea timestamptz text"
#define BINDING_TYPES    "uuid uuid text text text uuid uuid text text timestamptz text"

static const struct pg_statement snapshot_robots_sql = {"snapshot_robots", ROBOTS, "", ROBOT_TYPES};
static const struct pg_statement snapshot_robots_of_sql = {
    "snapshot_robots_of", ROBOTS OF_ORGANISATIONS, "uuid[] bool", ROBOT_TYPES};
static const struct pg_statement snapshot_bindings_sql = {"snapshot_bindings", BINDINGS, "", BINDING_TYPES};
static const struct pg_statement snapshot_bindings_of_sql = {
    "snapshot_bindings_of", BINDINGS OF_ORGANISATIONS, "uuid[] bool", BINDING_TYPES};
static const struct pg_statement snapshot_issuers_sql = {
    "snapshot_issuers",
    "SELECT issuer_id, url, audience, array_to_string(algorithms, ' '), lifetime_max_s, jwks FROM trusted_issuer"
    " ORDER BY url",
    "", "uuid text text text int8 text"};
static const struct pg_statement *const statements[] = {
    &snapshot_robots_sql, &snapshot_robots_of_sql, &snapshot_bindings_sql, &snapshot_bindings_of_sql, &snapshot_issuers_sql,
};
/* clang-format on */
const struct pg_table authz_snapshot_table = PG_TABLE(statements);

/* The rows of a snapshot during loading. */
struct loading {
    struct pg_rows *robot_rows, *binding_rows, *issuer_rows;
    struct authz_robot *robots;
    struct authz_binding *bindings;
    struct issuer_record *issuers; /* jwks points into issuer_rows */
};

static void loading_done(struct loading *loading)
{
    pg_rows_free(loading->robot_rows);
    pg_rows_free(loading->binding_rows);
    pg_rows_free(loading->issuer_rows);
    free(loading->robots);
    free(loading->bindings);
    free(loading->issuers);
}

static struct uuid uuid_or_nil(const struct pg_rows *rows, size_t row, size_t column)
{
    return pg_is_null(rows, row, column) ? ((struct uuid){{0}}) : pg_uuid(rows, row, column);
}

static struct result read_previous(const struct pg_rows *rows, size_t row, struct authz_robot *robot, struct error *err)
{
    const struct bytes hash = pg_bytes(rows, row, 5);

    if (!pg_is_null(rows, row, 6)) robot->previous_until_ms = pg_time_ms(rows, row, 6);
    if (pg_is_null(rows, row, 5)) return SUCCESS;
    if (hash.length != sizeof robot->previous_hash)
        return failure(err, ERROR_CORRUPT, "the robot %.140s has no hash of its previous secret", robot->name);
    memcpy(robot->previous_hash, hash.data, hash.length);
    return SUCCESS;
}

static struct result read_robot(const struct pg_rows *rows, size_t row, struct authz_robot *robot, struct error *err)
{
    const struct bytes hash = pg_bytes(rows, row, 3);

    if (hash.length != sizeof robot->secret_hash)
        return failure(err, ERROR_CORRUPT, "the robot %.140s has no hash of a secret", pg_text(rows, row, 2));
    robot->id = pg_uuid(rows, row, 0);
    robot->organisation = uuid_or_nil(rows, row, 1);
    (void)text_copy(robot->name, sizeof robot->name, pg_text(rows, row, 2));
    memcpy(robot->secret_hash, hash.data, hash.length);
    robot->enabled = true;
    robot->expires_ms = pg_time_ms(rows, row, 4);
    (void)text_copy(robot->person.key, sizeof robot->person.key, pg_text(rows, row, 7));
    return read_previous(rows, row, robot, err);
}

/* The CHECKs of the columns limit the length of all texts. */
static struct result read_binding(const struct pg_rows *rows, size_t row, struct authz_binding *binding, struct error *err)
{
    if (!role_find(bytes_of_text(pg_text(rows, row, 4)), &binding->role))
        return failure(err, ERROR_CORRUPT, "a binding has the unknown role %.40s", pg_text(rows, row, 4));
    binding->id = pg_uuid(rows, row, 0);
    binding->kind = pg_is_null(rows, row, 1) ? PRINCIPAL_EXTERNAL : PRINCIPAL_ROBOT;
    binding->robot = uuid_or_nil(rows, row, 1);
    (void)text_copy(binding->issuer, sizeof binding->issuer, pg_text(rows, row, 2));
    (void)text_copy(binding->subject, sizeof binding->subject, pg_text(rows, row, 3));
    binding->organisation = uuid_or_nil(rows, row, 5);
    binding->project = uuid_or_nil(rows, row, 6);
    (void)text_copy(binding->pattern, sizeof binding->pattern, pg_text(rows, row, 7));
    (void)text_copy(binding->granted_by, sizeof binding->granted_by, pg_text(rows, row, 8));
    binding->expires_ms = pg_is_null(rows, row, 9) ? 0 : pg_time_ms(rows, row, 9);
    (void)text_copy(binding->granting_person.key, sizeof binding->granting_person.key, pg_text(rows, row, 10));
    binding->scope = binding_scope(binding);
    return SUCCESS;
}

static void read_issuer(const struct pg_rows *rows, size_t row, struct issuer_record *record)
{
    record->id = pg_uuid(rows, row, 0);
    (void)text_copy(record->url, sizeof record->url, pg_text(rows, row, 1));
    (void)text_copy(record->audience, sizeof record->audience, pg_text(rows, row, 2));
    record->algorithms = jose_algorithms_of(pg_text(rows, row, 3));
    record->types = ISSUER_TYPES;
    record->lifetime_max_s = (unsigned)pg_int8(rows, row, 4);
    record->jwks = pg_text(rows, row, 5);
}

static struct result run_all(struct pg *pg, struct loading *loading, struct error *err)
{
    TRY(pg_run(pg, &snapshot_robots_sql, NULL, &loading->robot_rows, err));
    TRY(pg_run(pg, &snapshot_bindings_sql, NULL, &loading->binding_rows, err));
    return pg_run(pg, &snapshot_issuers_sql, NULL, &loading->issuer_rows, err);
}

/* For few organisations; after changes in more of them everything is read. */
static struct result run_changed(struct pg *pg, const struct rights_change *change, struct loading *loading, struct error *err)
{
    struct bytes ids[RIGHTS_CHANGE_MAX];
    struct pg_arguments arguments = {0};
    bool has_registry = false;

    assert(change->count <= RIGHTS_CHANGE_MAX);
    for (size_t i = 0; i < change->count; i++) {
        ids[i] = uuid_bytes(&change->organisations[i]);
        has_registry = has_registry || uuid_is_nil(&change->organisations[i]);
    }
    pg_add_uuid_array(&arguments, ids, change->count);
    pg_add_bool(&arguments, has_registry);
    TRY(pg_run(pg, &snapshot_robots_of_sql, &arguments, &loading->robot_rows, err));
    TRY(pg_run(pg, &snapshot_bindings_of_sql, &arguments, &loading->binding_rows, err));
    return has_registry ? pg_run(pg, &snapshot_issuers_sql, NULL, &loading->issuer_rows, err) : SUCCESS;
}

static struct result make_room(struct loading *loading, const struct authz_parts *parts, struct error *err)
{
    loading->robots = memory_zeroed(parts->robot_count + 1, sizeof *loading->robots);
    loading->bindings = memory_zeroed(parts->binding_count + 1, sizeof *loading->bindings);
    loading->issuers = memory_zeroed(parts->issuer_count + 1, sizeof *loading->issuers);
    if (loading->robots == NULL || loading->bindings == NULL || loading->issuers == NULL)
        return failure(err, ERROR_NO_MEMORY, "no memory for a snapshot of rights");
    return SUCCESS;
}

static struct result read_rows(struct loading *loading, struct authz_parts *parts_out, struct error *err)
{
    struct authz_parts parts = {.robot_count = pg_rows_count(loading->robot_rows),
                                .binding_count = pg_rows_count(loading->binding_rows),
                                .issuer_count = loading->issuer_rows == NULL ? 0 : pg_rows_count(loading->issuer_rows)};
    TRY(make_room(loading, &parts, err));
    for (size_t i = 0; i < parts.robot_count; i++) TRY(read_robot(loading->robot_rows, i, &loading->robots[i], err));
    for (size_t i = 0; i < parts.binding_count; i++) TRY(read_binding(loading->binding_rows, i, &loading->bindings[i], err));
    for (size_t i = 0; i < parts.issuer_count; i++) read_issuer(loading->issuer_rows, i, &loading->issuers[i]);
    parts.robots = loading->robots;
    parts.bindings = loading->bindings;
    parts.issuers = loading->issuers;
    *parts_out = parts;
    return SUCCESS;
}

static struct result load(struct pg *pg, struct loading *loading, struct authz_snapshot **snapshot_out, struct error *err)
{
    struct authz_parts parts;

    TRY(run_all(pg, loading, err));
    TRY(read_rows(loading, &parts, err));
    return authz_snapshot_build(&parts, snapshot_out, err);
}

struct result authz_snapshot_load(struct pg *pg, struct authz_snapshot **snapshot_out, struct error *err)
{
    struct loading loading = {0};

    const struct result result = load(pg, &loading, snapshot_out, err);
    loading_done(&loading);
    return result;
}

static struct result renew(struct pg *pg, const struct authz_snapshot *before, const struct rights_change *change,
                           struct loading *loading, struct authz_snapshot **snapshot_out, struct error *err)
{
    struct authz_parts parts;

    TRY(run_changed(pg, change, loading, err));
    TRY(read_rows(loading, &parts, err));
    return snapshot_build(before, change, &parts, snapshot_out, err);
}

struct result authz_snapshot_renew(struct pg *pg, const struct authz_snapshot *before, const struct rights_change *change,
                                   struct authz_snapshot **snapshot_out, struct error *err)
{
    struct loading loading = {0};

    const struct result result = renew(pg, before, change, &loading, snapshot_out, err);
    loading_done(&loading);
    return result;
}
