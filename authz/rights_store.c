#include "authz/rights_priv.h"
#include "authz/rows_priv.h"
#include "authz/snapshot_rows_priv.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "authz/binding.h"
#include "authz/history.h"
#include "authz/officer_entry.h"
#include "authz/person_priv.h"
#include "authz/snapshot_priv.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"
#include "storage/pg_table.h"

/* clang-format off */
static const struct pg_statement rights_raise_epoch_sql = {
    "rights_raise_epoch", "WITH raised AS (SELECT raise_authorization_epoch($1, false) AS epoch) SELECT epoch FROM raised",
    "uuid", "int8"};
static const struct pg_statement rights_raise_all_sql = {
    "rights_raise_all", "WITH raised AS (SELECT raise_authorization_epoch() AS epoch) SELECT epoch FROM raised", "", "int8"};
static const struct pg_statement rights_raise_binding_sql = {
    "rights_raise_binding", "WITH raised AS (SELECT raise_authorization_epoch_of_binding($1) AS epoch) SELECT epoch FROM raised", "uuid",
    "int8"};
#define IS_DEACTIVATED \
    "EXISTS (SELECT FROM scim_subject s JOIN scim_user u USING (person) WHERE s.issuer = b.issuer AND s.subject = b.subject AND NOT u.active)"
/* Gateways believe it no longer, so nobody is left by it. */
#define IS_DOUBTED "EXISTS (SELECT FROM doubted_row d WHERE d.id = b.binding_id OR d.id = b.robot_id)"
static const struct pg_statement rights_administrators_sql = {
    "rights_administrators",
    "SELECT count(*) FROM binding b LEFT JOIN robot r USING (robot_id) WHERE b.revoked_at IS NULL"
    " AND b.role = 'registry-admin' AND b.organisation_id IS NULL AND (b.expires_at IS NULL OR b.expires_at > now())"
    " AND CASE WHEN b.robot_id IS NULL THEN EXISTS (SELECT FROM trusted_issuer t WHERE t.url = b.issuer)"
    " AND NOT " IS_DEACTIVATED
    " ELSE r.revoked_at IS NULL AND r.expires_at > now() END AND NOT " IS_DOUBTED,
    "", "int8"};
/*
 * A grant as nearly all are, in one round trip: the giver is not the grantee, the robot is there, the role is new, no other one of the grantee has expired, and they are
 * not too many. Else no row comes, and nothing has changed (binding_row_insert()). The row has its epoch from the start, because to update it would write all its indexes again.
 */
#define GIVER                                                                                                                                           \
    "giver AS MATERIALIZED (SELECT p.key, CASE WHEN $9 LIKE 'robot:%' THEN (SELECT split_part(x, ' ', 2) FROM unnest((SELECT maker.behind FROM " MAKER_OF("$9") ")) AS x" \
    " WHERE split_part(x, ' ', 1) = p.key LIMIT 1) ELSE $11 END AS issuer FROM (SELECT coalesce(" PERSON_BEHIND("$9") ", '') AS key) AS p)"
#define GRANT(who, robot_fits)                                                                                                                           \
    "WITH " GIVER ", fitting AS MATERIALIZED (SELECT giver.* FROM giver WHERE " robot_fits                                                                \
    " AND NOT EXISTS (SELECT FROM unnest(ARRAY[$9, giver.key] || (SELECT maker.behind FROM " MAKER_OF("$9") ")) AS x"                                      \
    " WHERE split_part(x, ' ', 1) = $12 OR split_part(x, ' ', 1) IN " SUBJECTS_OF_PERSON("$3", "$4") ")"                                                  \
    " AND (SELECT count(*) < $13 AND coalesce(bool_and((expires_at IS NULL OR expires_at > now()) AND NOT (role = $5"                                     \
    " AND project_id IS NOT DISTINCT FROM $7 AND pattern IS NOT DISTINCT FROM $8)), true)"                                                                \
    " FROM binding WHERE revoked_at IS NULL AND organisation_id IS NOT DISTINCT FROM $6 AND " who ")),"                                                   \
    " raised AS MATERIALIZED (SELECT raise_authorization_epoch_of_grant($6) AS epoch, fitting.* FROM fitting),"                                           \
    " made AS (INSERT INTO binding (binding_id, robot_id, issuer, subject, role, organisation_id, project_id, pattern, granted_by, expires_at, giver,"     \
    " giver_issuer, changed_epoch, salt) SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, CASE WHEN $10::int8 > 0 THEN now() + $10::int8 * interval '1 second' END,"   \
    " nullif(key, ''), CASE WHEN key <> '' THEN nullif(issuer, '') END, epoch, $14 FROM raised ON CONFLICT DO NOTHING RETURNING expires_at, giver)"             \
    " SELECT expires_at, coalesce(giver, '') FROM made"
#define GRANT_TYPES "uuid uuid text text text uuid uuid text text int8 text text int8 bytea"
static const struct pg_statement rights_give_robot_sql = {
    "rights_give_robot",
    GRANT("robot_id = $2", "EXISTS (SELECT FROM robot WHERE robot_id = $2 AND revoked_at IS NULL AND (organisation_id IS NULL OR organisation_id = $6))"),
    GRANT_TYPES, "timestamptz text"};
static const struct pg_statement rights_give_subject_sql = {
    "rights_give_subject", GRANT("robot_id IS NULL AND issuer = $3 AND subject = $4", "true"), GRANT_TYPES, "timestamptz text"};
/*
 * The same for all grants of a group of the log. If one of them can't be given so, or two of them are of the same role, the statement divides by zero, and they run one by
 * one. What each of the others in the group adds to the number of a grantee's roles counts for all.
 */
#define NO_ID "'00000000-0000-0000-0000-000000000000'"
#define IS_FREE(who)                                                                                                                                     \
    "(SELECT count(*) + beside <= $13 AND coalesce(bool_and((b.expires_at IS NULL OR b.expires_at > now()) AND NOT (b.role = asked.role"                  \
    " AND b.project_id IS NOT DISTINCT FROM asked.project AND b.pattern IS NOT DISTINCT FROM asked.pattern)), true)"                                      \
    " FROM binding b WHERE b.revoked_at IS NULL AND b.organisation_id IS NOT DISTINCT FROM asked.organisation AND " who ")"
static const struct pg_statement rights_give_all_sql = {
    "rights_give_all",
    "WITH asked AS MATERIALIZED (SELECT a.id, nullif(a.robot, " NO_ID ") AS robot, nullif(a.issuer, '') AS issuer, nullif(a.subject, '') AS subject, a.role,"
    " nullif(a.organisation, " NO_ID ") AS organisation, nullif(a.project, " NO_ID ") AS project, nullif(a.pattern, '') AS pattern, a.giver, a.lifetime,"
    " nullif(a.giver_issuer, '') AS giver_issuer, a.grantee, a.salt, coalesce(" PERSON_BEHIND("a.giver") ", '') AS person,"
    " (SELECT maker.behind FROM " MAKER_OF("a.giver") ") AS behind, count(*) OVER (PARTITION BY a.grantee, a.organisation) AS beside"
    " FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::uuid[], $7::uuid[], $8::text[], $9::text[], $10::int8[], $11::text[], $12::text[], $14::bytea[])"
    " AS a (id, robot, issuer, subject, role, organisation, project, pattern, giver, lifetime, giver_issuer, grantee, salt)),"
    " fitting AS MATERIALIZED (SELECT * FROM asked"
    " WHERE (robot IS NULL OR EXISTS (SELECT FROM robot r WHERE r.robot_id = asked.robot AND r.revoked_at IS NULL"
    " AND (r.organisation_id IS NULL OR r.organisation_id = asked.organisation)))"
    " AND NOT EXISTS (SELECT FROM unnest(ARRAY[giver, person] || behind) AS x"
    " WHERE split_part(x, ' ', 1) = grantee OR split_part(x, ' ', 1) IN " SUBJECTS_OF_PERSON("asked.issuer", "asked.subject") ")"
    " AND CASE WHEN robot IS NULL THEN " IS_FREE("b.robot_id IS NULL AND b.issuer = asked.issuer AND b.subject = asked.subject")
    " ELSE " IS_FREE("b.robot_id = asked.robot") " END),"
    " raised AS MATERIALIZED (SELECT raise_authorization_epoch_of_grants((SELECT array_agg(organisation) FROM fitting)) AS epoch),"
    " made AS (INSERT INTO binding (binding_id, robot_id, issuer, subject, role, organisation_id, project_id, pattern, granted_by, expires_at, giver,"
    " giver_issuer, changed_epoch, salt) SELECT id, robot, f.issuer, subject, role, organisation, project, pattern, f.giver,"
    " CASE WHEN lifetime > 0 THEN now() + lifetime * interval '1 second' END, nullif(person, ''), CASE WHEN person = '' THEN NULL WHEN f.giver LIKE 'robot:%' THEN"
    " (SELECT nullif(split_part(x, ' ', 2), '') FROM unnest(behind) AS x WHERE split_part(x, ' ', 1) = person LIMIT 1) ELSE giver_issuer END, epoch, salt"
    " FROM fitting f, raised ON CONFLICT DO NOTHING RETURNING binding_id, expires_at, giver)"
    " SELECT expires_at, coalesce(giver, ''), 1::int8 / (SELECT (count(*) = cardinality($1))::int4 FROM made)"
    " FROM unnest($1) WITH ORDINALITY AS wanted (id, place) LEFT JOIN made ON binding_id = id ORDER BY place",
    "uuid[] uuid[] text[] text[] text[] uuid[] uuid[] text[] text[] int8[] text[] text[] int8 bytea[]", "timestamptz text int8"};
/* The officers whose role ends, that are the last ones of their scope, and that somebody else has appointed. An officer that SCIM has deactivated, or whose row is doubted, is no officer that is left.
   But nobody else ends its role, either: whoever could do that would then appoint the next first officer alone. */
static const struct pg_statement rights_last_officers_sql = {
    "rights_last_officers",
    "WITH live AS MATERIALIZED (SELECT b.binding_id, b.robot_id, b.issuer, b.organisation_id, b.granted_by, b.giver,"
    " b.robot_id IS NULL AND " IS_DEACTIVATED " OR " IS_DOUBTED " AS is_out"
    " FROM binding b LEFT JOIN robot r USING (robot_id) WHERE b.revoked_at IS NULL AND b.role = 'security-officer'"
    " AND (b.expires_at IS NULL OR b.expires_at > now())"
    " AND CASE WHEN b.robot_id IS NULL THEN EXISTS (SELECT FROM trusted_issuer t WHERE t.url = b.issuer)"
    " ELSE r.revoked_at IS NULL AND r.expires_at > now() END),"
    " lost AS (SELECT * FROM live WHERE binding_id = $1 OR robot_id = $2 OR issuer = (SELECT url FROM trusted_issuer WHERE issuer_id = $3))"
    " SELECT count(*) FROM lost WHERE granted_by <> $4 AND coalesce(giver <> " PERSON_BEHIND("$4") ", true) AND NOT EXISTS"
    " (SELECT FROM live WHERE NOT is_out AND live.organisation_id IS NOT DISTINCT FROM lost.organisation_id AND live.binding_id NOT IN (SELECT binding_id FROM lost))",
    "uuid uuid uuid text", "int8"};
static const struct pg_statement rights_doubted_officers_sql = {
    "rights_doubted_officers",
    "SELECT count(*) FROM binding b LEFT JOIN robot r USING (robot_id) WHERE b.revoked_at IS NULL AND b.role = 'security-officer'"
    " AND (b.expires_at IS NULL OR b.expires_at > now()) AND r.revoked_at IS NULL"
    " AND ($1::uuid IS NULL OR b.organisation_id IS NULL OR b.organisation_id = $1) AND " IS_DOUBTED,
    "uuid", "int8"};
#define THERE_AT(time) "created_at <= " time " AND (revoked_at IS NULL OR revoked_at > " time ")"
/* A rotation gives the robot another end, so the end of then is not known: it counts as if it had not come. */
static const struct pg_statement history_robot_sql = {
    "history_robot",
    "SELECT robot_id, organisation_id, name, greatest(expires_at, $2 + interval '1 second'), array_to_string(behind, E'\\n') FROM robot"
    " WHERE name = $1 AND " THERE_AT("$2") " LIMIT 1",
    "text timestamptz", "uuid uuid text timestamptz text"};
static const struct pg_statement history_bindings_sql = {
    "history_bindings",
    "SELECT " BINDING_COLUMNS " FROM binding WHERE role <> 'break-glass' AND (robot_id = $1 OR (issuer = $2 AND subject = $3))"
    " AND (organisation_id IS NULL OR organisation_id = $4) AND " THERE_AT("$5") " AND (expires_at IS NULL OR expires_at > $5)"
    " ORDER BY organisation_id NULLS FIRST, binding_id LIMIT 2 * $6",
    "uuid text text uuid timestamptz int8", BINDING_TYPES};
static const struct pg_statement *const statements[] = {
    &rights_raise_epoch_sql, &rights_raise_all_sql, &rights_raise_binding_sql, &rights_give_robot_sql, &rights_give_subject_sql, &rights_give_all_sql, &rights_administrators_sql, &rights_last_officers_sql, &rights_doubted_officers_sql, &history_robot_sql, &history_bindings_sql,
};
/* clang-format on */
const struct pg_table rights_table = PG_TABLE(statements);

struct result rights_raise_epoch(struct pg *pg, const struct uuid *organisation, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_uuid(&arguments, uuid_is_nil(organisation) ? NULL : organisation);
    return pg_run(pg, &rights_raise_epoch_sql, &arguments, NULL, err);
}

struct result rights_raise_all(struct pg *pg, struct error *err)
{
    return pg_run(pg, &rights_raise_all_sql, NULL, NULL, err);
}

struct result rights_raise_binding(struct pg *pg, const struct uuid *binding, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_uuid(&arguments, binding);
    return pg_run(pg, &rights_raise_binding_sql, &arguments, NULL, err);
}

void binding_add_grantee(struct pg_arguments *arguments, const struct authz_binding *binding)
{
    const bool is_robot = binding->kind == PRINCIPAL_ROBOT;

    pg_add_uuid(arguments, is_robot ? &binding->robot : NULL);
    pg_add_text(arguments, is_robot || binding->issuer[0] == '\0' ? NULL : binding->issuer);
    pg_add_text(arguments, is_robot || binding->subject[0] == '\0' ? NULL : binding->subject);
}

void binding_grantee_key(const struct authz_binding *binding, char key_out[PRINCIPAL_KEY_SIZE])
{
    struct principal grantee = {.kind = binding->kind, .id = binding->robot};

    memcpy(grantee.issuer, binding->issuer, sizeof grantee.issuer);
    memcpy(grantee.subject, binding->subject, sizeof grantee.subject);
    principal_key(&grantee, key_out);
}

struct result rights_give(struct pg *pg, struct binding_create *create, bool *is_given_out, struct error *err)
{
    struct authz_binding *binding = &create->binding;
    const bool is_robot = binding->kind == PRINCIPAL_ROBOT;
    OWNED(pg_rows) *rows = NULL;
    struct pg_arguments arguments = {0};
    char key[PRINCIPAL_KEY_SIZE];

    *is_given_out = false;
    if (role_is_of_officers(binding->role)) return SUCCESS;
    binding_grantee_key(binding, key);
    pg_add_uuid(&arguments, &binding->id);
    binding_add_grantee(&arguments, binding);
    pg_add_text(&arguments, binding_role_name(binding));
    pg_add_uuid(&arguments, uuid_is_nil(&binding->organisation) ? NULL : &binding->organisation);
    pg_add_uuid(&arguments, uuid_is_nil(&binding->project) ? NULL : &binding->project);
    pg_add_text(&arguments, binding->pattern[0] == '\0' ? NULL : binding->pattern);
    pg_add_text(&arguments, binding->granted_by);
    pg_add_int8(&arguments, create->lifetime_s);
    pg_add_text(&arguments, create->granter_issuer[0] == '\0' ? NULL : create->granter_issuer);
    pg_add_text(&arguments, key);
    pg_add_int8(&arguments, BINDINGS_PER_PRINCIPAL_MAX);
    pg_add_bytes(&arguments, (struct bytes){create->salt, sizeof create->salt});
    TRY(pg_run(pg, is_robot ? &rights_give_robot_sql : &rights_give_subject_sql, &arguments, &rows, err));
    *is_given_out = pg_rows_count(rows) == 1;
    if (!*is_given_out) return SUCCESS;
    rights_take_given(create, rows, 0);
    return SUCCESS;
}

#define GRANT_TEXTS 7
/* The columns of many grants. */
struct grants {
    struct bytes ids[AUDIT_CHANGES_TOGETHER], robots[AUDIT_CHANGES_TOGETHER], organisations[AUDIT_CHANGES_TOGETHER],
        projects[AUDIT_CHANGES_TOGETHER], salts[AUDIT_CHANGES_TOGETHER];
    struct bytes texts[GRANT_TEXTS][AUDIT_CHANGES_TOGETHER]; /* issuer, subject, role, pattern, giver, its issuer, grantee */
    int64_t lifetimes[AUDIT_CHANGES_TOGETHER];
    char keys[AUDIT_CHANGES_TOGETHER][PRINCIPAL_KEY_SIZE];
};

static void take_grant(struct grants *grants, size_t at, const struct binding_create *create)
{
    static const struct uuid nobody = {{0}};
    const struct authz_binding *binding = &create->binding;
    const bool is_robot = binding->kind == PRINCIPAL_ROBOT;
    const char *texts[GRANT_TEXTS] = {is_robot ? "" : binding->issuer,
                                      is_robot ? "" : binding->subject,
                                      binding_role_name(binding),
                                      binding->pattern,
                                      binding->granted_by,
                                      create->granter_issuer,
                                      grants->keys[at]};

    binding_grantee_key(binding, grants->keys[at]);
    grants->ids[at] = uuid_bytes(&binding->id);
    grants->robots[at] = uuid_bytes(is_robot ? &binding->robot : &nobody);
    grants->organisations[at] = uuid_bytes(&binding->organisation);
    grants->projects[at] = uuid_bytes(&binding->project);
    grants->salts[at] = (struct bytes){create->salt, sizeof create->salt};
    grants->lifetimes[at] = create->lifetime_s;
    for (size_t i = 0; i < GRANT_TEXTS; i++) grants->texts[i][at] = bytes_of_text(texts[i]);
}

struct result rights_add_given(struct pg *pg, struct change *const *creates, size_t count, bool is_refused, struct error *err)
{
    struct pg_arguments arguments = {0};
    struct grants grants;

    assert(count <= AUDIT_CHANGES_TOGETHER);
    for (size_t i = 0; i < count; i++) take_grant(&grants, i, (const struct binding_create *)creates[i]); /* its first member */
    pg_add_uuid_array(&arguments, grants.ids, count);
    pg_add_uuid_array(&arguments, grants.robots, count);
    for (size_t i = 0; i < 3; i++) pg_add_text_array(&arguments, grants.texts[i], count);
    pg_add_uuid_array(&arguments, grants.organisations, count);
    pg_add_uuid_array(&arguments, grants.projects, count);
    for (size_t i = 3; i < 5; i++) pg_add_text_array(&arguments, grants.texts[i], count);
    pg_add_int8_array(&arguments, grants.lifetimes, count);
    for (size_t i = 5; i < GRANT_TEXTS; i++) pg_add_text_array(&arguments, grants.texts[i], count);
    pg_add_int8(&arguments, is_refused ? 0 : BINDINGS_PER_PRINCIPAL_MAX);
    pg_add_bytes_array(&arguments, grants.salts, count);
    return pg_pipeline_add(pg, &rights_give_all_sql, &arguments, err);
}

void rights_take_given(struct binding_create *create, const struct pg_rows *rows, size_t row)
{
    create->binding.expires_ms = pg_is_null(rows, row, 0) ? 0 : pg_time_ms(rows, row, 0);
    create->binding.granting_person = person_new(pg_text(rows, row, 1), NULL);
}

struct result rights_count_administrators(struct pg *pg, int64_t *count_out, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;

    TRY(pg_run(pg, &rights_administrators_sql, NULL, &rows, err));
    *count_out = pg_int8(rows, 0, 0);
    return SUCCESS;
}

struct result rights_keep_administrator(struct pg *pg, int64_t before, struct error *err)
{
    int64_t after = 0;

    TRY(rights_count_administrators(pg, &after, err));
    if (before == 0 || after > 0) return SUCCESS;
    return failure(err, ERROR_CONFLICT,
                   "this is the last registry-admin, and nobody could give the role again: bind another one first");
}

struct result rights_keep_officer(struct pg *pg, const struct officer_end *end, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, end->binding);
    pg_add_uuid(&arguments, end->robot);
    pg_add_uuid(&arguments, end->issuer);
    pg_add_text(&arguments, end->by);
    TRY(pg_run(pg, &rights_last_officers_sql, &arguments, &rows, err));
    if (pg_int8(rows, 0, 0) == 0) return SUCCESS;
    return failure(
        err, ERROR_CONFLICT,
        "this is the last security officer of its scope, and another person has appointed it: appoint another one first");
}

struct result rights_trust_officers(struct pg *pg, const struct uuid *organisation, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, uuid_is_nil(organisation) ? NULL : organisation);
    TRY(pg_run(pg, &rights_doubted_officers_sql, &arguments, &rows, err));
    if (pg_int8(rows, 0, 0) == 0) return SUCCESS;
    return failure(
        err, ERROR_CONFLICT,
        "a security officer of this scope counts no longer, because its row is not what events tell: the owner of the database "
        "mends or removes that row before another one is appointed");
}

/* ---- the past: authz/history.h ---- */

static struct result read_robot(struct pg *pg, const struct history_question *question, struct authz_robot *robot,
                                bool *is_there_out, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;
    struct pg_arguments arguments = {0};

    *is_there_out = false;
    if (question->robot == NULL) return SUCCESS;
    pg_add_text(&arguments, question->robot);
    pg_add_time(&arguments, question->wall_ms);
    TRY(pg_run(pg, &history_robot_sql, &arguments, &rows, err));
    *is_there_out = pg_rows_count(rows) == 1;
    if (!*is_there_out) return SUCCESS;
    robot->id = pg_uuid(rows, 0, 0);
    if (!pg_is_null(rows, 0, 1)) robot->organisation = pg_uuid(rows, 0, 1);
    (void)text_copy(robot->name, sizeof robot->name, pg_text(rows, 0, 2));
    robot->enabled = true;
    robot->expires_ms = pg_time_ms(rows, 0, 3);
    persons_add_lines(&robot->persons, pg_text(rows, 0, 4));
    return SUCCESS;
}

static struct result run_bindings(struct pg *pg, const struct history_question *question, const struct uuid *robot,
                                  struct pg_rows **rows_out, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_uuid(&arguments, robot);
    pg_add_text(&arguments, robot == NULL ? question->issuer : NULL);
    pg_add_text(&arguments, robot == NULL ? question->subject : NULL);
    pg_add_uuid(&arguments, question->organisation);
    pg_add_time(&arguments, question->wall_ms);
    pg_add_int8(&arguments, BINDINGS_PER_PRINCIPAL_MAX);
    return pg_run(pg, &history_bindings_sql, &arguments, rows_out, err);
}

/* Documents of officers count as they are now: of then it is not known which had been signed. */
static struct result read_bindings(const struct pg_rows *rows, const struct authz_snapshot *now,
                                   struct authz_binding **bindings_out, struct error *err)
{
    struct authz_binding *bindings = memory_zeroed(pg_rows_count(rows) + 1, sizeof *bindings);
    struct result read = bindings == NULL ? failure(err, ERROR_NO_MEMORY, "no memory for rights") : SUCCESS;

    for (size_t i = 0; i < pg_rows_count(rows) && read.ok; i++) {
        read = snapshot_read_binding(rows, i, &bindings[i], err);
        if (read.ok) officers_judge(now->rules, &bindings[i], clock_wall_ms());
    }
    if (read.ok) *bindings_out = bindings;
    else free(bindings);
    return read;
}

/* A principal is found in the part of its organisation, or of the registry: the other parts are empty. */
static struct result assemble(const struct authz_snapshot *now, const struct authz_robot *robot,
                              const struct authz_binding *bindings, size_t count, struct authz_snapshot **then_out,
                              struct error *err)
{
    const struct authz_parts rows = {
        .robots = robot, .robot_count = robot == NULL ? 0 : 1, .bindings = bindings, .binding_count = count, .rules = now->rules};

    return snapshot_of_rows(now, &rows, then_out, err);
}

struct result authz_history(const struct permit *permit, struct pg *pg, const struct authz_snapshot *now,
                            const struct history_question *question, struct authz_snapshot **then_out, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;
    struct authz_robot robot = {.id = {{0}}};
    struct authz_binding *bindings = NULL;
    bool is_there = false;

    (void)permit_resource(permit, question->action); /* authz.explain or authz.ask: asserted by the caller's decision */
    TRY(read_robot(pg, question, &robot, &is_there, err));
    if (question->robot != NULL && !is_there) return assemble(now, NULL, NULL, 0, then_out, err);
    TRY(run_bindings(pg, question, is_there ? &robot.id : NULL, &rows, err));
    TRY(read_bindings(rows, now, &bindings, err));
    const struct result made = assemble(now, is_there ? &robot : NULL, bindings, pg_rows_count(rows), then_out, err);
    free(bindings);
    return made;
}
