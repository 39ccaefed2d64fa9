#include "authz/robot.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "authz/person_priv.h"
#include "authz/rights_priv.h"
#include "authz/rows_priv.h"
#include "base/memory.h"
#include "storage/pg_table.h"

/* clang-format off */
#define ROW                                                                                                        \
    "SELECT r.robot_id, r.organisation_id, r.name, r.expires_at, r.created_at, coalesce(o.name, ''),"               \
    " CASE WHEN previous_hash IS NOT NULL AND previous_until > now() AND " ROBOT_GRACE_IS_POSSIBLE " THEN previous_until END," \
    " coalesce(r.certificate, '')"                                                                                            \
    " FROM robot r LEFT JOIN organisation o USING (organisation_id) WHERE r.revoked_at IS NULL"
#define ROW_TYPES "uuid uuid text timestamptz timestamptz text timestamptz text"

static const struct pg_statement robot_insert_sql = {
    "robot_insert",
    "INSERT INTO robot (robot_id, organisation_id, name, secret_hash, created_by, expires_at, person, behind)"
    " VALUES ($1, $2, $3, $4, $5, now() + $6::int8 * interval '1 second', coalesce(" PERSON_BEHIND("$5") ", $7),"
    " CASE WHEN $7 IS NULL THEN " PERSONS_BEHIND("$5", "$8") " ELSE ARRAY[$7] END)"
    " ON CONFLICT DO NOTHING RETURNING expires_at, array_to_string(behind, E'\n')",
    "uuid uuid text bytea text int8 text text", "timestamptz text"};
static const struct pg_statement robot_revoke_sql = {
    "robot_revoke",
    "UPDATE robot SET revoked_at = now() WHERE robot_id = $1 AND revoked_at IS NULL"
    " AND organisation_id IS NOT DISTINCT FROM $2",
    "uuid uuid", ""};
static const struct pg_statement robot_revoke_bindings_sql = {
    "robot_revoke_bindings",
    "UPDATE binding SET revoked_at = now() WHERE robot_id = $1 AND revoked_at IS NULL", "uuid", ""};
static const struct pg_statement robot_list_sql = {
    "robot_list",
    ROW " AND ($1::uuid IS NULL OR r.organisation_id = $1) AND r.name > $2 COLLATE \"C\""
        " ORDER BY r.name COLLATE \"C\" LIMIT $3",
    "uuid text int8", ROW_TYPES};
static const struct pg_statement robot_find_sql = {"robot_find", ROW " AND r.robot_id = $1", "uuid", ROW_TYPES};
static const struct pg_statement robot_find_name_sql = {"robot_find_name", ROW " AND r.name = $1", "text", ROW_TYPES};
static const struct pg_statement robot_shown_sql = {"robot_shown", "SELECT name FROM robot WHERE robot_id = $1", "uuid", "text"};
static const struct pg_statement *const statements[] = {
    &robot_shown_sql, &robot_insert_sql, &robot_revoke_sql, &robot_revoke_bindings_sql,
    &robot_list_sql, &robot_find_sql, &robot_find_name_sql,
};
/* clang-format on */
const struct pg_table robot_table = PG_TABLE(statements);

/* One part of a name, as in the CHECK of the table: [a-z0-9]+([._-][a-z0-9]+)*, at most 63 bytes. */
static bool is_part(struct bytes text)
{
    bool after_letter = false;

    if (text.length == 0 || text.length > 63) return false;
    for (size_t i = 0; i < text.length; i++) {
        const uint8_t at = text.data[i];
        const bool is_letter = (at >= 'a' && at <= 'z') || (at >= '0' && at <= '9');
        if (!is_letter && (!after_letter || (at != '.' && at != '_' && at != '-'))) return false;
        after_letter = is_letter;
    }
    return after_letter;
}

bool robot_name_is_possible(struct bytes name)
{
    static const char kind[] = "robot$";
    const size_t kind_length = sizeof kind - 1;

    if (name.length < kind_length || memcmp(name.data, kind, kind_length) != 0) return false;
    const struct bytes rest = {name.data + kind_length, name.length - kind_length};
    const uint8_t *plus = rest.length == 0 ? NULL : memchr(rest.data, '+', rest.length);
    if (plus == NULL) return is_part(rest);
    const size_t organisation = (size_t)(plus - rest.data);
    return is_part((struct bytes){rest.data, organisation}) && is_part((struct bytes){plus + 1, rest.length - organisation - 1});
}

struct result robot_name(const char *organisation, struct bytes name, char name_out[ROBOT_NAME_SIZE], struct error *err)
{
    if (!is_part(name) || (organisation != NULL && !is_part(bytes_of_text(organisation))))
        return failure(err, ERROR_INVALID, "a robot's name is 1 to 63 of a-z and 0-9, with single . _ - between them");
    (void)snprintf(name_out, ROBOT_NAME_SIZE, "robot$%s%s%.*s", organisation == NULL ? "" : organisation,
                   organisation == NULL ? "" : "+", (int)name.length, (const char *)name.data);
    return SUCCESS;
}

static const struct uuid *or_null(const struct uuid *id)
{
    return uuid_is_nil(id) ? NULL : id;
}

struct result robot_row_insert(struct pg *pg, struct robot_create *create, struct error *err)
{
    const struct authz_robot *robot = &create->robot;
    OWNED(pg_rows) *rows = NULL;
    struct pg_arguments arguments = {0};

    pg_add_uuid(&arguments, &robot->id);
    pg_add_uuid(&arguments, or_null(&robot->organisation));
    pg_add_text(&arguments, robot->name);
    pg_add_bytes(&arguments, (struct bytes){robot->secret_hash, sizeof robot->secret_hash});
    pg_add_text(&arguments, create->created_by);
    pg_add_int8(&arguments, create->lifetime_s);
    pg_add_text(&arguments, create->is_administrator ? PERSON_ADMINISTRATOR : NULL);
    pg_add_text(&arguments, create->maker_issuer);
    TRY(pg_run(pg, &robot_insert_sql, &arguments, &rows, err));
    if (pg_rows_count(rows) == 0)
        return failure(err, ERROR_CONFLICT, "there is a robot called %.140s already; revoke it first", robot->name);
    create->robot.expires_ms = pg_time_ms(rows, 0, 0);
    persons_add_lines(&create->robot.persons, pg_text(rows, 0, 1));
    return rights_raise_epoch(pg, &robot->organisation, err);
}

static struct result run_create(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    struct robot_create *create = (struct robot_create *)change;
    const struct resource *resource = permit_resource(permit, ACTION_ROBOT_CREATE);

    assert(uuid_equal(&resource->organisation, &create->robot.organisation));
    return robot_row_insert(pg, create, err);
}

struct result robot_create_init(struct robot_create *create, const char *name, const struct uuid *organisation,
                                int64_t lifetime_s, struct error *err)
{
    struct robot_create made = {.change = {.run = run_create, .raises_epoch = true}, .lifetime_s = lifetime_s};
    char id[UUID_TEXT_SIZE], told[ROBOT_TOLD_SIZE];

    if (lifetime_s < 1 || lifetime_s > ROBOT_SECONDS_MAX)
        return failure(err, ERROR_INVALID, "a robot lives 1 second to %d days", ROBOT_DAYS_MAX);
    TRY(robot_secret_new(&made.secret, made.robot.secret_hash, err));
    made.robot.id = uuid_random();
    made.robot.enabled = true;
    if (organisation != NULL) made.robot.organisation = *organisation;
    (void)snprintf(made.robot.name, sizeof made.robot.name, "%s", name);
    uuid_format(&made.robot.id, id);
    robot_told(made.robot.secret_hash, lifetime_s, told);
    (void)snprintf(made.detail, sizeof made.detail, "%s %s%s", name, id, told);
    *create = made;
    create->change.detail = create->detail;
    return SUCCESS;
}

void robot_create_done(struct robot_create *create)
{
    secret_free(create->secret);
    create->secret = NULL;
}

static struct result run_revoke(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    const struct robot_revoke *revoke = (const struct robot_revoke *)change;
    const struct resource *resource = permit_resource(permit, ACTION_ROBOT_REVOKE);
    OWNED(pg_rows) *rows = NULL;
    struct pg_arguments arguments = {0}, robot = {0};
    int64_t before = 0;

    assert(uuid_equal(&resource->organisation, &revoke->organisation));
    const struct officer_end end = {.robot = &revoke->robot, .by = revoke->revoked_by};
    TRY(rights_keep_officer(pg, &end, err));
    TRY(rights_count_administrators(pg, &before, err));
    pg_add_uuid(&arguments, &revoke->robot);
    pg_add_uuid(&arguments, or_null(&revoke->organisation));
    TRY(pg_run(pg, &robot_revoke_sql, &arguments, &rows, err));
    if (pg_rows_affected(rows) == 0) return failure(err, ERROR_NOT_FOUND, "there is no such robot");
    pg_add_uuid(&robot, &revoke->robot);
    TRY(pg_run(pg, &robot_revoke_bindings_sql, &robot, NULL, err));
    TRY(rights_keep_administrator(pg, before, err));
    return rights_raise_epoch(pg, &revoke->organisation, err);
}

void robot_revoke_init(struct robot_revoke *revoke, const struct uuid *robot, const struct uuid *organisation,
                       const struct principal *by)
{
    *revoke = (struct robot_revoke){.change = {.run = run_revoke, .raises_epoch = true}, .robot = *robot};
    if (organisation != NULL) revoke->organisation = *organisation;
    principal_key(by, revoke->revoked_by);
}

static void row_of(const struct pg_rows *rows, size_t row, struct robot_row *row_out)
{
    struct robot_row made = {.robot = {.id = pg_uuid(rows, row, 0), .enabled = true, .expires_ms = pg_time_ms(rows, row, 3)},
                             .created_ms = pg_time_ms(rows, row, 4)};

    if (!pg_is_null(rows, row, 1)) made.robot.organisation = pg_uuid(rows, row, 1);
    if (!pg_is_null(rows, row, 6)) made.robot.previous_until_ms = pg_time_ms(rows, row, 6);
    (void)snprintf(made.robot.name, sizeof made.robot.name, "%s", pg_text(rows, row, 2));
    (void)snprintf(made.organisation, sizeof made.organisation, "%s", pg_text(rows, row, 5));
    (void)snprintf(made.certificate, sizeof made.certificate, "%s", pg_text(rows, row, 7));
    *row_out = made;
}

struct result robot_list(const struct permit *permit, struct pg *pg, const char *after, size_t limit, struct robot_page *page_out,
                         struct error *err)
{
    const struct resource *where = permit_resource(permit, ACTION_ROBOT_READ);
    OWNED(pg_rows) *rows = NULL;
    struct pg_arguments arguments = {0};

    assert(limit <= ROBOT_PAGE_MAX);
    pg_add_uuid(&arguments, where->kind == RESOURCE_SYSTEM ? NULL : &where->organisation);
    pg_add_text(&arguments, after == NULL ? "" : after);
    pg_add_int8(&arguments, (int64_t)limit);
    TRY(pg_run(pg, &robot_list_sql, &arguments, &rows, err));
    const size_t count = pg_rows_count(rows);
    struct robot_row *list = memory_zeroed(count + 1, sizeof *list);
    if (list == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for %zu robots", count);
    for (size_t i = 0; i < count; i++) row_of(rows, i, &list[i]);
    *page_out = (struct robot_page){list, count};
    return SUCCESS;
}

struct result robot_resolve(struct lookup *lookup, const char *name, struct robot_identity *identity_out, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;
    struct pg_arguments arguments = {0};
    struct uuid id;
    const bool is_id = uuid_parse(bytes_of_text(name), &id);

    if (is_id) pg_add_uuid(&arguments, &id);
    else pg_add_text(&arguments, name);
    TRY(pg_run(lookup_connection(lookup), is_id ? &robot_find_sql : &robot_find_name_sql, &arguments, &rows, err));
    if (pg_rows_count(rows) == 0) return failure(err, ERROR_NOT_FOUND, "there is no such robot");
    *identity_out =
        (struct robot_identity){pg_uuid(rows, 0, 0), pg_is_null(rows, 0, 1) ? (struct uuid){{0}} : pg_uuid(rows, 0, 1)};
    return SUCCESS;
}

struct result robot_shown(const struct permit *permit, struct pg *pg, enum action action, const struct uuid *id,
                          char name_out[ROBOT_NAME_SIZE], struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    (void)permit_resource(permit, action);
    pg_add_uuid(&arguments, id);
    TRY(pg_run(pg, &robot_shown_sql, &arguments, &rows, err));
    (void)snprintf(name_out, ROBOT_NAME_SIZE, "%s", pg_rows_count(rows) == 0 ? "" : pg_text(rows, 0, 0));
    return SUCCESS;
}
