#include "authz/binding.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "authz/person_priv.h"
#include "authz/rights_priv.h"
#include "authz/rows_priv.h"
#include "authz/snapshot_priv.h"
#include "base/memory.h"
#include "base/text.h"
#include "storage/pg_table.h"

/* clang-format off */
#define ROW                                                                                                       \
    "SELECT b.binding_id, b.robot_id, coalesce(b.issuer, ''), coalesce(b.subject, ''), b.role,"                   \
    " b.organisation_id, b.project_id, coalesce(b.pattern, ''), b.granted_by, b.expires_at, b.created_at,"        \
    " coalesce(r.name, ''), concat_ws('/', o.name, p.name)"                                                       \
    " FROM binding b LEFT JOIN robot r USING (robot_id)"                                                          \
    " LEFT JOIN organisation o ON o.organisation_id = b.organisation_id"                                          \
    " LEFT JOIN project p ON p.project_id = b.project_id WHERE b.revoked_at IS NULL"
#define ROW_TYPES "uuid uuid text text text uuid uuid text text timestamptz timestamptz text text"

#define END_EXPIRED "UPDATE binding SET revoked_at = now() WHERE revoked_at IS NULL AND expires_at <= now()"
#define OF_ROBOT    " AND organisation_id IS NOT DISTINCT FROM $1 AND robot_id = $2"
#define OF_SUBJECT  " AND organisation_id IS NOT DISTINCT FROM $1 AND robot_id IS NULL AND issuer = $2 AND subject = $3"

static const struct pg_statement binding_robot_fits_sql = {
    "binding_robot_fits",
    "SELECT 1::int8 FROM robot WHERE robot_id = $1 AND revoked_at IS NULL"
    " AND (organisation_id IS NULL OR organisation_id = $2)",
    "uuid uuid", "int8"};
/*
 * One statement for robots and one for external principals: no index serves IS NOT DISTINCT FROM, and a scan under
 * the log's lock would delay all changes.
 */
static const struct pg_statement binding_end_expired_robot_sql = {
    "binding_end_expired_robot", END_EXPIRED OF_ROBOT, "uuid uuid", ""};
static const struct pg_statement binding_end_expired_subject_sql = {
    "binding_end_expired_subject", END_EXPIRED OF_SUBJECT, "uuid text text", ""};
static const struct pg_statement binding_count_robot_sql = {
    "binding_count_robot", "SELECT count(*) FROM binding WHERE revoked_at IS NULL" OF_ROBOT, "uuid uuid", "int8"};
static const struct pg_statement binding_count_subject_sql = {
    "binding_count_subject", "SELECT count(*) FROM binding WHERE revoked_at IS NULL" OF_SUBJECT, "uuid text text", "int8"};
static const struct pg_statement binding_insert_sql = {
    "binding_insert",
    "INSERT INTO binding (binding_id, robot_id, issuer, subject, role, organisation_id, project_id, pattern,"
    " granted_by, expires_at, giver, giver_issuer, salt)"
    " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9,"
    " CASE WHEN $10::int8 > 0 THEN now() + $10::int8 * interval '1 second' END, $11, $12, $13) ON CONFLICT DO NOTHING"
    " RETURNING expires_at",
    "uuid uuid text text text uuid uuid text text int8 text text bytea", "timestamptz"};
/* Finds security officers that could be the same person as a subject. A robot could be, if the subject, or somebody whom nobody knows, has made it or has seen a secret of it.
   Another subject could be, if its issuer is another one and no document separates the two, or if SCIM has joined both with one person. */
#define COULD_BE(key, of_issuer) \
    "(" key " = $2 OR " key " IN " SUBJECTS_OF_PERSON("$3", "$5") " OR (" key " LIKE 'ext:%' AND " of_issuer " <> $3 AND NOT " key " = ANY ($4) AND NOT $2 = ANY ($4)))"
static const struct pg_statement binding_is_officer_sql = {
    "binding_is_officer",
    "SELECT count(*) FROM binding b LEFT JOIN robot r USING (robot_id) WHERE b.revoked_at IS NULL AND b.role = 'security-officer'"
    " AND (b.expires_at IS NULL OR b.expires_at > now()) AND ($1::uuid IS NULL OR b.organisation_id IS NULL OR b.organisation_id = $1)"
    " AND CASE WHEN b.robot_id IS NULL THEN NOT (b.issuer = $3 AND b.subject = $5)"
    " AND " COULD_BE("'ext:' || encode(sha256(convert_to(b.issuer || E'\\n' || b.subject, 'UTF8')), 'hex')", "b.issuer")
    " ELSE cardinality(r.behind) = 0 OR EXISTS (SELECT FROM unnest(r.behind) AS x WHERE x = 'unknown'"
    " OR " COULD_BE("split_part(x, ' ', 1)", "split_part(x, ' ', 2)") ") END",
    "uuid text text text[] text", "int8"};
/* Whether the grantee is the granter, or somebody behind it. */
static const struct pg_statement binding_is_own_sql = {
    "binding_is_own",
    "SELECT count(*) FROM unnest(ARRAY[$3, $4] || (SELECT behind FROM robot WHERE robot_id = CASE WHEN $3 LIKE 'robot:%' THEN substr($3, 7)::uuid END)) AS x WHERE split_part(x, ' ', 1) = $5 OR split_part(x, ' ', 1) IN " SUBJECTS_OF_PERSON("$1", "$2"),
    "text text text text text", "int8"};
static const struct pg_statement binding_granting_person_sql = {
    "binding_granting_person",
    "SELECT p.key, coalesce((SELECT split_part(x, ' ', 2) FROM robot, unnest(behind) AS x WHERE robot_id ="
    " CASE WHEN $1 LIKE 'robot:%' THEN substr($1, 7)::uuid END AND split_part(x, ' ', 1) = p.key LIMIT 1), '')"
    " FROM (SELECT coalesce(" PERSON_BEHIND("$1") ", '') AS key) AS p", "text", "text text"};
static const struct pg_statement binding_revoke_sql = {
    "binding_revoke",
    "UPDATE binding SET revoked_at = now() WHERE binding_id = $1 AND revoked_at IS NULL", "uuid", ""};
static const struct pg_statement binding_list_sql = {
    "binding_list",
    ROW " AND ($1::uuid IS NULL OR b.organisation_id = $1) AND ($2::uuid IS NULL OR b.project_id = $2)"
        " AND b.binding_id > $3 ORDER BY b.binding_id LIMIT $4",
    "uuid uuid uuid int8", ROW_TYPES};
static const struct pg_statement binding_find_sql = {"binding_find", ROW " AND b.binding_id = $1", "uuid", ROW_TYPES};
/* Reads all bindings of the organisation, and of the registry: no index knows the hash. */
static const struct pg_statement binding_subjects_sql = {
    "binding_subjects",
    "SELECT DISTINCT sha256(convert_to(issuer || E'\\n' || subject, 'UTF8')), issuer, subject FROM binding"
    " WHERE revoked_at IS NULL AND robot_id IS NULL AND (expires_at IS NULL OR expires_at > now())"
    " AND (organisation_id IS NULL OR organisation_id = $1)"
    " AND sha256(convert_to(issuer || E'\\n' || subject, 'UTF8')) = ANY ($2)",
    "uuid bytea[]", "bytea text text"};
static const struct pg_statement binding_since_sql = {
    "binding_since", "SELECT binding_id, created_at FROM binding WHERE binding_id = ANY ($1)", "uuid[]", "uuid timestamptz"};
static const struct pg_statement *const statements[] = {
    &binding_robot_fits_sql, &binding_end_expired_robot_sql, &binding_end_expired_subject_sql, &binding_count_robot_sql,
    &binding_count_subject_sql, &binding_insert_sql, &binding_revoke_sql, &binding_list_sql, &binding_find_sql, &binding_is_officer_sql, &binding_is_own_sql, &binding_granting_person_sql, &binding_subjects_sql, &binding_since_sql,
};
/* clang-format on */
const struct pg_table binding_table = PG_TABLE(statements);

static const struct uuid *or_null(const struct uuid *id)
{
    return uuid_is_nil(id) ? NULL : id;
}

static const char *text_or_null(const char *text)
{
    return text[0] == '\0' ? NULL : text;
}

/* A missing id must not make the scope wider than the decided one. */
static struct result check_scope(const struct authz_binding *binding, struct error *err)
{
    const bool has_organisation = !uuid_is_nil(&binding->organisation), has_project = !uuid_is_nil(&binding->project);
    const bool needs_project = binding->scope == RESOURCE_PROJECT || binding->scope == RESOURCE_REPOSITORY;

    if (has_organisation != (binding->scope != RESOURCE_SYSTEM) || has_project != needs_project ||
        (binding->pattern[0] != '\0') != (binding->scope == RESOURCE_REPOSITORY))
        return failure(err, ERROR_NOT_FOUND, "there is no such organisation or project");
    return SUCCESS;
}

/* Another organisation's robot is reported as not found, so its existence is not revealed. */
static struct result check_robot(struct pg *pg, const struct authz_binding *binding, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;
    struct pg_arguments arguments = {0};

    if (binding->kind != PRINCIPAL_ROBOT) return SUCCESS;
    pg_add_uuid(&arguments, &binding->robot);
    pg_add_uuid(&arguments, or_null(&binding->organisation));
    TRY(pg_run(pg, &binding_robot_fits_sql, &arguments, &rows, err));
    if (pg_rows_count(rows) == 0)
        return failure(err, ERROR_NOT_FOUND, "there is no such robot in the organisation of this scope");
    return SUCCESS;
}

/* An expired binding does not count, and does not prevent a new one for the same role. */
static struct result check_not_too_many(struct pg *pg, const struct authz_binding *binding, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;
    struct pg_arguments arguments = {0};

    const bool is_robot = binding->kind == PRINCIPAL_ROBOT;

    pg_add_uuid(&arguments,
                or_null(&binding->organisation)); /* counted for each organisation, so that one can't use up the limit of
                                                                 another */
    if (is_robot) pg_add_uuid(&arguments, &binding->robot);
    else pg_add_text(&arguments, binding->issuer);
    if (!is_robot) pg_add_text(&arguments, binding->subject);
    TRY(pg_run(pg, is_robot ? &binding_end_expired_robot_sql : &binding_end_expired_subject_sql, &arguments, NULL, err));
    TRY(pg_run(pg, is_robot ? &binding_count_robot_sql : &binding_count_subject_sql, &arguments, &rows, err));
    if (pg_int8(rows, 0, 0) >= BINDINGS_PER_PRINCIPAL_MAX)
        return failure(err, ERROR_LIMIT, "a principal has at most %d bindings in one organisation; bind a wider scope",
                       BINDINGS_PER_PRINCIPAL_MAX);
    return SUCCESS;
}

static struct result find_granting_person(struct pg *pg, struct binding_create *create, struct error *err)
{
    struct authz_binding *binding = &create->binding;
    OWNED(pg_rows) *rows = NULL;
    struct pg_arguments arguments = {0};

    pg_add_text(&arguments, binding->granted_by);
    TRY(pg_run(pg, &binding_granting_person_sql, &arguments, &rows, err));
    binding->granting_person = person_new(pg_text(rows, 0, 0), NULL);
    if (strncmp(binding->granted_by, "robot:", 6) == 0)
        (void)text_copy(create->granter_issuer, sizeof create->granter_issuer, pg_text(rows, 0, 1));
    return SUCCESS;
}

/* A decision can compare robots but not external subjects, which are not part of its resource. So persons are compared here. */
static struct result check_not_oneself(struct pg *pg, const struct authz_binding *binding, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;
    struct pg_arguments arguments = {0};
    char key[PRINCIPAL_KEY_SIZE];

    binding_grantee_key(binding, key);
    pg_add_text(&arguments, binding->issuer);
    pg_add_text(&arguments, binding->subject);
    pg_add_text(&arguments, binding->granted_by);
    pg_add_text(&arguments, binding->granting_person.key);
    pg_add_text(&arguments, key);
    TRY(pg_run(pg, &binding_is_own_sql, &arguments, &rows, err));
    if (pg_int8(rows, 0, 0) == 0) return SUCCESS;
    return failure(err, ERROR_DENIED, "nobody can give a role to itself, also not by a robot; ask another administrator");
}

/* Two security officers must be two persons, as in snapshot_grant.c. */
static struct result check_second_officer(struct pg *pg, const struct binding_create *create, struct error *err)
{
    const struct authz_binding *binding = &create->binding;
    const size_t count = create->separate == NULL ? 0 : create->separate->count;
    struct bytes separate[PERSONS_SEPARATED_MAX];
    OWNED(pg_rows) *rows = NULL;
    struct pg_arguments arguments = {0};
    char key[PRINCIPAL_KEY_SIZE];

    if (binding->role != ROLE_SECURITY_OFFICER) return SUCCESS;
    TRY(rights_trust_officers(pg, &binding->organisation, err));
    if (binding->kind != PRINCIPAL_EXTERNAL) return SUCCESS;
    binding_grantee_key(binding, key);
    for (size_t i = 0; i < count; i++) separate[i] = bytes_of_text(create->separate->keys[i]);
    pg_add_uuid(&arguments, or_null(&binding->organisation));
    pg_add_text(&arguments, key);
    pg_add_text(&arguments, binding->issuer);
    pg_add_text_array(&arguments, separate, count);
    pg_add_text(&arguments, binding->subject);
    TRY(pg_run(pg, &binding_is_officer_sql, &arguments, &rows, err));
    if (pg_int8(rows, 0, 0) == 0) return SUCCESS;
    return failure(
        err, ERROR_DENIED,
        "the second security officer must be another person than the first: a robot counts as everybody who made it or saw its secret, and subjects of "
        "different issuers as one person");
}

struct result binding_row_insert(struct pg *pg, struct binding_create *create, struct error *err)
{
    const struct authz_binding *binding = &create->binding;
    OWNED(pg_rows) *rows = NULL;
    struct pg_arguments arguments = {0};
    bool is_given = false;

    TRY(check_scope(binding, err));
    TRY(rights_give(pg, create, &is_given, err));
    if (is_given) return SUCCESS;
    TRY(find_granting_person(pg, create, err));
    TRY(check_not_oneself(pg, binding, err));
    TRY(check_robot(pg, binding, err));
    TRY(check_second_officer(pg, create, err));
    TRY(check_not_too_many(pg, binding, err));
    pg_add_uuid(&arguments, &binding->id);
    binding_add_grantee(&arguments, binding);
    pg_add_text(&arguments, binding_role_name(binding));
    pg_add_uuid(&arguments, or_null(&binding->organisation));
    pg_add_uuid(&arguments, or_null(&binding->project));
    pg_add_text(&arguments, text_or_null(binding->pattern));
    pg_add_text(&arguments, binding->granted_by);
    pg_add_int8(&arguments, create->lifetime_s);
    pg_add_text(&arguments, text_or_null(binding->granting_person.key));
    pg_add_text(&arguments, binding->granting_person.key[0] == '\0' ? NULL : text_or_null(create->granter_issuer));
    pg_add_bytes(&arguments, (struct bytes){create->salt, sizeof create->salt});
    TRY(pg_run(pg, &binding_insert_sql, &arguments, &rows, err));
    if (pg_rows_count(rows) == 0) return failure(err, ERROR_CONFLICT, BINDING_IS_THERE);
    create->binding.expires_ms = pg_is_null(rows, 0, 0) ? 0 : pg_time_ms(rows, 0, 0);
    return rights_raise_binding(pg, &binding->id, err);
}

/* The place comes from the permit. */
static struct result take_scope(const struct permit *permit, struct binding_create *create, struct error *err)
{
    const struct resource *scope = permit_resource(permit, ACTION_BINDING_CREATE);
    char detail[RESOURCE_DETAIL_MAX + 1];

    authz_grant_detail(&create->binding, detail);
    assert(binding_allows_scope(&create->binding, scope->kind));
    if (strcmp(detail, scope->detail) != 0) /* a robot of that name was made or revoked since the decision */
        return failure(err, ERROR_CONFLICT, "the robot of that name is another one now; try again");
    create->binding.scope = scope->kind;
    create->binding.organisation = scope->organisation;
    create->binding.project = scope->project;
    create->binding.pattern[0] = '\0';
    if (scope->kind == RESOURCE_REPOSITORY)
        (void)snprintf(create->binding.pattern, sizeof create->binding.pattern, "%s", scope->name);
    return SUCCESS;
}

struct result binding_insert(const struct permit *permit, struct pg *pg, struct binding_create *create, struct error *err)
{
    TRY(take_scope(permit, create, err));
    return binding_row_insert(pg, create, err);
}

static struct result run_create(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    return binding_insert(permit, pg, (struct binding_create *)change, err);
}

/* What run_create() refuses without a statement has all of them run, too: it says why. */
static struct result add_creates(const struct permit *const *permits, struct change *const *changes, size_t count, struct pg *pg,
                                 struct error *err)
{
    struct error why = {0};
    bool is_refused = false;

    for (size_t i = 0; i < count; i++) {
        struct binding_create *create = (struct binding_create *)changes[i]; /* its first member */
        if (!take_scope(permits[i], create, &why).ok || !check_scope(&create->binding, &why).ok) is_refused = true;
    }
    return rights_add_given(pg, changes, count, is_refused, err);
}

static void take_create(struct change *change, const struct pg_rows *answer)
{
    rights_take_given((struct binding_create *)change, answer, change->row);
}

void binding_create_init(struct binding_create *create, const struct authz_binding *binding, int64_t lifetime_s)
{
    char decided[RESOURCE_DETAIL_MAX + 1], id[UUID_TEXT_SIZE], told[AUTHZ_TOLD_SIZE];

    *create =
        (struct binding_create){.change = {.run = run_create, .raises_epoch = true, .invalidates = CHANGE_INVALIDATES_NOTHING},
                                .binding = *binding,
                                .lifetime_s = lifetime_s};
    create->change.only_gives = !role_is_of_officers(binding->role);
    create->change.add_all = create->change.only_gives ? add_creates : NULL; /* of officers: persons are compared first */
    create->change.take = take_create;
    create->binding.id = uuid_random();
    uuid_format(&create->binding.id, id);
    authz_grant_detail(binding, decided);
    authz_grant_told(binding, lifetime_s, create->salt, told);
    (void)snprintf(create->detail, sizeof create->detail, "%s %s%s", decided, id, told);
    create->change.detail = create->detail;
    if (binding->kind != PRINCIPAL_EXTERNAL) return;
    create->change.concerns_issuer = create->binding.issuer;
    create->change.concerns_subject = create->binding.subject;
}

static struct result run_revoke(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    const struct binding_revoke *revoke = (const struct binding_revoke *)change;
    const struct resource *scope = permit_resource(permit, ACTION_BINDING_REVOKE);
    OWNED(pg_rows) *rows = NULL;
    struct pg_arguments arguments = {0};
    struct uuid decided = {0};
    int64_t before = 0;

    assert(uuid_parse(bytes_of_text(scope->detail), &decided) && uuid_equal(&decided, &revoke->binding));
    const struct officer_end end = {.binding = &revoke->binding, .by = revoke->revoked_by};
    TRY(rights_keep_officer(pg, &end, err));
    TRY(rights_count_administrators(pg, &before, err));
    pg_add_uuid(&arguments, &revoke->binding);
    TRY(pg_run(pg, &binding_revoke_sql, &arguments, &rows, err));
    if (pg_rows_affected(rows) == 0) return failure(err, ERROR_NOT_FOUND, "there is no such binding");
    TRY(rights_keep_administrator(pg, before, err));
    return rights_raise_binding(pg, &revoke->binding, err);
}

void binding_revoke_init(struct binding_revoke *revoke, const struct uuid *binding, const struct principal *by)
{
    *revoke = (struct binding_revoke){
        .change = {.run = run_revoke, .raises_epoch = true, .invalidates = CHANGE_INVALIDATES_NOTHING}, .binding = *binding};
    principal_key(by, revoke->revoked_by);
}

static struct result row_of(const struct pg_rows *rows, size_t row, struct binding_row *row_out, struct error *err)
{
    struct binding_row made = {.created_ms = pg_time_ms(rows, row, 10)};
    struct authz_binding *binding = &made.binding;

    binding->id = pg_uuid(rows, row, 0);
    binding->kind = pg_is_null(rows, row, 1) ? PRINCIPAL_EXTERNAL : PRINCIPAL_ROBOT;
    if (!pg_is_null(rows, row, 1)) binding->robot = pg_uuid(rows, row, 1);
    (void)text_copy(binding->issuer, sizeof binding->issuer, pg_text(rows, row, 2));
    (void)text_copy(binding->subject, sizeof binding->subject, pg_text(rows, row, 3));
    if (!binding_read_role(binding, pg_text(rows, row, 4)))
        return failure(err, ERROR_CORRUPT, "a binding has the unknown role %.40s", pg_text(rows, row, 4));
    if (!pg_is_null(rows, row, 5)) binding->organisation = pg_uuid(rows, row, 5);
    if (!pg_is_null(rows, row, 6)) binding->project = pg_uuid(rows, row, 6);
    (void)text_copy(binding->pattern, sizeof binding->pattern, pg_text(rows, row, 7));
    (void)text_copy(binding->granted_by, sizeof binding->granted_by, pg_text(rows, row, 8));
    binding->expires_ms = pg_is_null(rows, row, 9) ? 0 : pg_time_ms(rows, row, 9);
    binding->scope = binding_scope(binding);
    (void)text_copy(made.robot, sizeof made.robot, pg_text(rows, row, 11));
    (void)text_copy(made.on, sizeof made.on, binding->pattern[0] != '\0' ? binding->pattern : pg_text(rows, row, 12));
    *row_out = made;
    return SUCCESS;
}

static struct result rows_of(const struct pg_rows *rows, struct binding_row **rows_out, struct error *err)
{
    const size_t count = pg_rows_count(rows);
    OWNED_STRING block = memory_zeroed(count + 1, sizeof(struct binding_row));

    if (block == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for %zu bindings", count);
    struct binding_row *list = (void *)block;
    for (size_t i = 0; i < count; i++) TRY(row_of(rows, i, &list[i], err));
    block = NULL;
    *rows_out = list;
    return SUCCESS;
}

struct result binding_list(const struct permit *permit, struct pg *pg, const struct uuid *after, size_t limit,
                           struct binding_page *page_out, struct error *err)
{
    const struct resource *scope = permit_resource(permit, ACTION_BINDING_READ);
    static const struct uuid first = {{0}};
    OWNED(pg_rows) *rows = NULL;
    struct pg_arguments arguments = {0};

    assert(limit <= BINDING_PAGE_MAX && scope->kind != RESOURCE_REPOSITORY);
    pg_add_uuid(&arguments, or_null(&scope->organisation));
    pg_add_uuid(&arguments, or_null(&scope->project));
    pg_add_uuid(&arguments, after == NULL ? &first : after);
    pg_add_int8(&arguments, (int64_t)limit);
    TRY(pg_run(pg, &binding_list_sql, &arguments, &rows, err));
    struct binding_page page = {.count = pg_rows_count(rows)};
    TRY(rows_of(rows, &page.rows, err));
    *page_out = page;
    return SUCCESS;
}

struct result binding_find(const struct permit *permit, struct pg *pg, const struct uuid *id, struct binding_row *row_out,
                           struct error *err)
{
    OWNED(pg_rows) *rows = NULL;
    struct pg_arguments arguments = {0};

    (void)permit_resource(permit, ACTION_BINDING_CREATE);
    pg_add_uuid(&arguments, id);
    TRY(pg_run(pg, &binding_find_sql, &arguments, &rows, err));
    if (pg_rows_count(rows) == 0) return failure(err, ERROR_NOT_FOUND, "there is no such binding");
    return row_of(rows, 0, row_out, err);
}

struct result binding_subjects(const struct permit *permit, struct pg *pg, const struct subject_query *query, struct error *err)
{
    const struct resource *scope = permit_resource(permit, query->action);
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, or_null(&scope->organisation));
    pg_add_bytes_array(&arguments, query->digests, query->count);
    TRY(pg_run(pg, &binding_subjects_sql, &arguments, &rows, err));
    for (size_t i = 0; i < pg_rows_count(rows); i++)
        TRY(query->take(query->context, pg_bytes(rows, i, 0), pg_text(rows, i, 1), pg_text(rows, i, 2), err));
    return SUCCESS;
}

struct result binding_since(const struct permit *permit, struct pg *pg, const struct bytes *ids, size_t count,
                            const struct binding_times *times, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;
    struct pg_arguments arguments = {0};

    (void)permit_resource(permit, ACTION_ACCESS_REVIEW);
    pg_add_uuid_array(&arguments, ids, count);
    TRY(pg_run(pg, &binding_since_sql, &arguments, &rows, err));
    for (size_t i = 0; i < pg_rows_count(rows); i++) {
        const struct uuid id = pg_uuid(rows, i, 0);
        times->take(times->context, &id, pg_time_ms(rows, i, 1));
    }
    return SUCCESS;
}
