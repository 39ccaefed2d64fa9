#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "authz/break_glass_load_priv.h"
#include "authz/group_place.h"
#include "authz/officer_entry.h"
#include "authz/robot.h"
#include "authz/scim_entry.h"
#include "authz/scim_load_priv.h"
#include "authz/snapshot_load.h"
#include "authz/snapshot_priv.h"
#include "authz/snapshot_rows_priv.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"
#include "storage/pg_table.h"

/* clang-format off */
/* Values that no rotation could have written are ignored: neither the secret nor its end counts (docs/audit.md). */
#define ROBOTS                                                                                                    \
    "SELECT robot_id, organisation_id, name, secret_hash, expires_at, CASE WHEN " ROBOT_GRACE_IS_POSSIBLE " THEN previous_hash END,"            \
    " CASE WHEN " ROBOT_GRACE_IS_POSSIBLE " THEN previous_until END, array_to_string(behind, E'\\n'), asked_since FROM robot WHERE revoked_at IS NULL AND expires_at > now()"               \
    " AND NOT EXISTS (SELECT FROM doubted_row d WHERE d.id = robot.robot_id)"
/* A glass is broken by a signed document alone: a row with its role gives nothing. Nor does one that the verifier of the log has found to be another than events tell. */
#define IS_LIVE                                                                                                   \
    "revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now()) AND issuer IS DISTINCT FROM '" TRUST_ISSUER "' AND role <> 'break-glass'" \
    " AND NOT EXISTS (SELECT FROM doubted_row d WHERE d.id = binding.binding_id)"
#define BINDINGS "SELECT " BINDING_COLUMNS " FROM binding WHERE " IS_LIVE
#define OF_ORGANISATIONS " AND (organisation_id = ANY($1) OR ($2 AND organisation_id IS NULL))"
#define ROBOT_TYPES      "uuid uuid text bytea timestamptz bytea timestamptz text timestamptz"

static const struct pg_statement snapshot_robots_sql = {"snapshot_robots", ROBOTS, "", ROBOT_TYPES};
static const struct pg_statement snapshot_robots_of_sql = {
    "snapshot_robots_of", ROBOTS OF_ORGANISATIONS, "uuid[] bool", ROBOT_TYPES};
static const struct pg_statement snapshot_bindings_sql = {"snapshot_bindings", BINDINGS, "", BINDING_TYPES};
static const struct pg_statement snapshot_bindings_of_sql = {
    "snapshot_bindings_of", BINDINGS OF_ORGANISATIONS, "uuid[] bool", BINDING_TYPES};
/* Roles that were given or taken one by one; what the statements above leave out is gone. */
static const struct pg_statement snapshot_changed_bindings_sql = {
    "snapshot_changed_bindings",
    "SELECT " BINDING_COLUMNS ", NOT (" IS_LIVE ") FROM binding WHERE changed_epoch > $1 LIMIT $2",
    "int8 int8", BINDING_TYPES " bool"};
/* The same with the epoch, if nothing else has changed: else no row comes. One statement sees one moment. */
static const struct pg_statement snapshot_single_roles_sql = {
    "snapshot_single_roles",
    "SELECT " BINDING_COLUMNS ", NOT (" IS_LIVE "), (SELECT epoch FROM authorization_epoch) FROM binding WHERE changed_epoch > $1"
    " AND NOT EXISTS (SELECT FROM authorization_change c WHERE c.part_epoch > $1 OR c.whole_epoch > $1) LIMIT $2",
    "int8 int8", BINDING_TYPES " bool int8"};
static const struct pg_statement snapshot_issuers_sql = {
    "snapshot_issuers",
    "SELECT issuer_id, url, audience, array_to_string(algorithms, ' '), lifetime_max_s, jwks, follows, f.confirmed_at"
    " FROM trusted_issuer LEFT JOIN issuer_fetch f USING (issuer_id) ORDER BY url",
    "", "uuid text text text int8 text bool timestamptz"};
/* The places of grants, by their names; those of a deleted organisation or project of the name are told by the number of the log at its birth. */
static const struct pg_statement snapshot_places_sql = {
    "snapshot_places",
    "SELECT s.at, o.organisation_id, p.project_id, greatest(o.born, coalesce(p.born, 0))"
    " FROM unnest($1::text[]) WITH ORDINALITY AS s(name, at) JOIN organisation o ON o.name = split_part(s.name, '/', 1)"
    " LEFT JOIN project p ON p.organisation_id = o.organisation_id AND p.name = split_part(s.name, '/', 2)"
    " WHERE (strpos(s.name, '/') = 0 OR p.project_id IS NOT NULL) AND ($2 OR o.organisation_id = ANY($3))",
    "text[] bool uuid[]", "int8 uuid uuid int8"};
/* The groups that persons' newest tokens named, as their events tell. A row of a day ahead, or of a token that is not issued yet, was written by no gateway. */
static const struct pg_statement snapshot_group_logins_sql = {
    "snapshot_group_logins",
    "SELECT l.issuer, l.subject, g, l.until FROM group_login_told l, unnest(l.groups) AS g"
    " WHERE l.groups && $1 AND g = ANY($1) AND l.until > now() AND l.until <= now() + interval '24 hours'"
    " AND l.issued_at <= now() + interval '5 minutes' ORDER BY l.issuer, l.subject, g",
    "text[]", "text text text timestamptz"};
static const struct pg_statement *const statements[] = {
    &snapshot_group_logins_sql, &snapshot_places_sql, &snapshot_robots_sql, &snapshot_robots_of_sql, &snapshot_bindings_sql, &snapshot_bindings_of_sql, &snapshot_changed_bindings_sql, &snapshot_single_roles_sql, &snapshot_issuers_sql,
};
/* clang-format on */
const struct pg_table authz_snapshot_table = PG_TABLE(statements);

/* One grant of a trust rule, or of a document about groups. */
struct grant_of_document {
    const struct trust_entry *entry; /* NULL: of a group */
    const struct group_entry *group;
    size_t number;
    bool is_found; /* the place is there; of a grant to a group */
};

/* The rows of a snapshot during loading. */
struct loading {
    struct pg_rows *robot_rows, *binding_rows, *issuer_rows, *place_rows, *login_rows, *member_rows, *glass_rows;
    struct scim_persons *persons;     /* NULL: not read */
    const struct trust_rules *rules;  /* NULL: none */
    struct grant_of_document *grants; /* of all rules, in the order of the places that were asked for */
    struct group_place *places;       /* of grants to groups, by issuer and group */
    size_t place_count;
    struct authz_robot *robots;
    struct authz_binding *bindings;
    struct issuer_record *issuers; /* jwks points into issuer_rows */
};

static void loading_done(struct loading *loading)
{
    pg_rows_free(loading->robot_rows);
    pg_rows_free(loading->binding_rows);
    pg_rows_free(loading->issuer_rows);
    pg_rows_free(loading->place_rows);
    pg_rows_free(loading->login_rows);
    pg_rows_free(loading->member_rows);
    pg_rows_free(loading->glass_rows);
    scim_persons_free(loading->persons);
    free(loading->grants);
    free(loading->places);
    free(loading->robots);
    free(loading->bindings);
    free(loading->issuers);
}

/* ---- grants of documents ---- */

static size_t count_grants(const struct trust_rules *rules)
{
    size_t count = 0;

    for (size_t i = 0; i < trust_rules_count(rules); i++) count += trust_rules_at(rules, i)->rule.grant_count;
    for (size_t i = 0; i < group_entries_count(rules); i++) count += group_entries_at(rules, i)->roles.grant_count;
    return count;
}

/* The organisation, or the organisation and the project. */
static struct bytes place_of(const char *on)
{
    const char *slash = strchr(on, '/');
    const char *end = slash == NULL ? NULL : strchr(slash + 1, '/');

    return (struct bytes){(const uint8_t *)on, end == NULL ? strlen(on) : (size_t)(end - on)};
}

static void list_grants(const struct trust_rules *rules, struct grant_of_document *grants, struct bytes *names)
{
    size_t count = 0;

    for (size_t i = 0; i < trust_rules_count(rules); i++) {
        const struct trust_entry *entry = trust_rules_at(rules, i);
        for (size_t number = 0; number < entry->rule.grant_count; number++, count++) {
            grants[count] = (struct grant_of_document){.entry = entry, .number = number};
            names[count] = place_of(entry->rule.grants[number].on);
        }
    }
    for (size_t i = 0; i < group_entries_count(rules); i++) {
        const struct group_entry *group = group_entries_at(rules, i);
        for (size_t number = 0; number < group->roles.grant_count; number++, count++) {
            grants[count] = (struct grant_of_document){.group = group, .number = number};
            names[count] = place_of(group->roles.grants[number].on);
        }
    }
}

/* `change` NULL: of all organisations. */
static struct result run_places(struct pg *pg, const struct rights_change *change, struct loading *loading, struct error *err)
{
    const size_t count = count_grants(loading->rules), changed = change == NULL ? 0 : change->count;
    struct pg_arguments arguments = {0};
    struct bytes ids[RIGHTS_CHANGE_MAX];

    if (count == 0) return SUCCESS;
    OWNED_STRING names = memory_zeroed(count, sizeof(struct bytes));
    loading->grants = memory_zeroed(count, sizeof *loading->grants);
    if (names == NULL || loading->grants == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a snapshot of rights");
    list_grants(loading->rules, loading->grants, (struct bytes *)(void *)names);
    for (size_t i = 0; i < changed; i++) ids[i] = uuid_bytes(&change->organisations[i]);
    pg_add_text_array(&arguments, (const struct bytes *)(const void *)names, count);
    pg_add_bool(&arguments, change == NULL);
    pg_add_uuid_array(&arguments, ids, changed);
    return pg_run(pg, &snapshot_places_sql, &arguments, &loading->place_rows, err);
}

/* The id is always the same for the same grant of the same version, and no row of the database has it. */
static struct uuid id_of_grant(const struct grant_of_document *grant)
{
    char text[TRUST_KEY_SIZE + DIGEST_TEXT_SIZE + 24];
    uint8_t hash[SHA256_SIZE];
    struct uuid id;

    (void)snprintf(text, sizeof text, "%s\n%s\n%zu", grant->entry->key, grant->entry->pinned.digest, grant->number);
    sha256_of(bytes_of_text(text), hash);
    memcpy(id.bytes, hash, sizeof id.bytes);
    return id;
}

/* The part of a binding that the grant decides. */
static bool read_given(const char *role, const char *on, const struct pg_rows *rows, size_t row, struct authz_binding *binding)
{
    if (!binding_read_role(binding, role) || (binding->role != ROLE_OWN && !role_is_of_content(binding->role))) return false;
    binding->kind = PRINCIPAL_EXTERNAL;
    binding->organisation = pg_uuid(rows, row, 1);
    binding->project = snapshot_uuid_or_nil(rows, row, 2);
    if (place_of(on).length < strlen(on)) (void)text_copy(binding->pattern, sizeof binding->pattern, on);
    binding->scope = binding_scope(binding);
    return true;
}

/* False: the organisation or the project was made after the rule was signed, so the rule meant a deleted one of the name. */
static bool read_place(const struct loading *loading, size_t row, struct authz_binding *binding)
{
    const struct pg_rows *rows = loading->place_rows;
    const struct grant_of_document *grant = &loading->grants[pg_int8(rows, row, 0) - 1];

    if (grant->entry == NULL || (uint64_t)pg_int8(rows, row, 3) > grant->entry->pinned.sequence) return false;
    const struct trust_grant *given = &grant->entry->rule.grants[grant->number];
    if (!read_given(given->role, given->on, rows, row, binding)) return false;
    binding->id = id_of_grant(grant);
    (void)text_copy(binding->issuer, sizeof binding->issuer, TRUST_ISSUER);
    (void)text_copy(binding->subject, sizeof binding->subject, grant->entry->key);
    (void)text_copy(binding->granted_by, sizeof binding->granted_by, "rule");
    binding->expires_ms = grant->entry->pinned.expires_ms;
    return true;
}

/* The same for a grant to a group, without the person. */
static bool read_group_place(const struct loading *loading, size_t row, struct group_place *place)
{
    const struct pg_rows *rows = loading->place_rows;
    struct grant_of_document *grant = &loading->grants[pg_int8(rows, row, 0) - 1];

    if (grant->group == NULL || (uint64_t)pg_int8(rows, row, 3) > grant->group->pinned.sequence) return false;
    const struct group_grant *given = &grant->group->roles.grants[grant->number];
    *place = (struct group_place){.entry = grant->group, .grant = grant->number};
    if (!read_given(given->role, given->on, rows, row, &place->binding)) return false;
    group_entry_place(grant->group, grant->number, &place->binding.organisation);
    grant->is_found = true;
    return grant->group->pinned.effective_ms <= clock_wall_ms() + PINNED_EARLY_MS && group_place_end(loading->rules, place);
}

static struct result read_group_places(struct loading *loading, struct error *err)
{
    const size_t count = loading->place_rows == NULL ? 0 : pg_rows_count(loading->place_rows);

    if (group_entries_count(loading->rules) == 0 || count == 0) return SUCCESS;
    loading->places = memory_zeroed(count, sizeof *loading->places);
    if (loading->places == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a snapshot of rights");
    for (size_t i = 0; i < count; i++)
        if (read_group_place(loading, i, &loading->places[loading->place_count])) loading->place_count++;
    group_places_sort(loading->places, loading->place_count);
    return SUCCESS;
}

/*
 * Forgets places that were deleted: else each token that names the group would seem to tell something new, and have the rights read again. `change` NULL:
 * all organisations were read.
 */
static void forget_places(const struct rights_change *change, const struct loading *loading)
{
    const size_t count = group_entries_count(loading->rules) == 0 ? 0 : count_grants(loading->rules);

    for (size_t i = 0; i < count; i++) {
        const struct grant_of_document *grant = &loading->grants[i];
        if (grant->group == NULL || grant->is_found || !group_entry_is_placed(grant->group, grant->number)) continue;
        bool was_read = change == NULL;
        for (size_t k = 0; !was_read && k < change->count; k++)
            was_read = uuid_equal(&change->organisations[k], group_entry_organisation(grant->group, grant->number));
        if (was_read) group_entry_forget(grant->group, grant->number);
    }
}

/* The names of the groups of one source that have a grant in what is loaded. */
static size_t list_groups(const struct loading *loading, bool provisioned, struct bytes *names)
{
    size_t count = 0;

    for (size_t i = 0; i < loading->place_count; i++)
        if (loading->places[i].entry->roles.is_provisioned == provisioned)
            names[count++] = bytes_of_text(group_place_group(&loading->places[i]));
    return count;
}

/* Who is in the groups that have a grant in what is loaded. */
static struct result run_logins(struct pg *pg, const struct rights_change *change, struct loading *loading, struct error *err)
{
    struct pg_arguments arguments = {0};

    TRY(read_group_places(loading, err));
    forget_places(change, loading);
    if (loading->place_count == 0) return SUCCESS;
    OWNED_STRING names = memory_zeroed(loading->place_count, sizeof(struct bytes));
    if (names == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a snapshot of rights");
    struct bytes *list = (struct bytes *)(void *)names;
    const size_t provisioned = list_groups(loading, true, list);
    if (provisioned > 0) TRY(scim_load_members(pg, list, provisioned, &loading->member_rows, err));
    const size_t named = list_groups(loading, false, list);
    if (named == 0) return SUCCESS;
    pg_add_text_array(&arguments, list, named);
    return pg_run(pg, &snapshot_group_logins_sql, &arguments, &loading->login_rows, err);
}

/* Adds the bindings of persons by their groups, or counts them if `bindings` is NULL. Groups of SCIM have no end of their own. */
static size_t add_group_bindings(const struct loading *loading, bool provisioned, struct authz_binding *bindings)
{
    const struct pg_rows *rows = provisioned ? loading->member_rows : loading->login_rows;
    struct group_member member = {.issuer = ""};
    size_t count = 0;

    for (size_t i = 0; rows != NULL && i < pg_rows_count(rows); i++) {
        const char *issuer = pg_text(rows, i, 0), *subject = pg_text(rows, i, 1);
        if (strcmp(issuer, member.issuer) != 0 || strcmp(subject, member.subject) != 0)
            member = (struct group_member){issuer, subject, provisioned, provisioned ? INT64_MAX : pg_time_ms(rows, i, 3), 0};
        count += group_bindings_of(loading->places, loading->place_count, &member, pg_text(rows, i, 2),
                                   bindings == NULL ? NULL : bindings + count);
    }
    return count;
}

static void add_grants(struct loading *loading, struct authz_parts *parts)
{
    const size_t count = loading->place_rows == NULL ? 0 : pg_rows_count(loading->place_rows);

    for (size_t i = 0; i < count; i++)
        if (read_place(loading, i, &loading->bindings[parts->binding_count])) parts->binding_count++;
    parts->binding_count += add_group_bindings(loading, false, loading->bindings + parts->binding_count);
    parts->binding_count += add_group_bindings(loading, true, loading->bindings + parts->binding_count);
    parts->binding_count += glass_bindings(loading->rules, loading->glass_rows, loading->bindings + parts->binding_count);
    parts->rules = loading->rules;
    parts->persons = loading->persons;
}

/* ---- rows ---- */

static struct result run_all(struct pg *pg, struct loading *loading, struct error *err)
{
    TRY(run_places(pg, NULL, loading, err));
    TRY(persons_places_load(pg, loading->rules, err));
    TRY(run_logins(pg, NULL, loading, err));
    TRY(glass_load(pg, loading->rules, NULL, &loading->glass_rows, err));
    TRY(pg_run(pg, &snapshot_robots_sql, NULL, &loading->robot_rows, err));
    TRY(pg_run(pg, &snapshot_bindings_sql, NULL, &loading->binding_rows, err));
    TRY(scim_load_persons(pg, &loading->persons, err));
    return pg_run(pg, &snapshot_issuers_sql, NULL, &loading->issuer_rows, err);
}

/* For few organisations; after changes in more of them everything is read. */
static struct result run_changed(struct pg *pg, const struct rights_change *change, struct loading *loading, struct error *err)
{
    struct bytes ids[RIGHTS_CHANGE_MAX];
    struct pg_arguments arguments = {0};
    bool has_registry = false;

    assert(change->count <= RIGHTS_CHANGE_MAX);
    TRY(run_places(pg, change, loading, err));
    TRY(persons_places_load(pg, loading->rules, err));
    TRY(run_logins(pg, change, loading, err));
    TRY(glass_load(pg, loading->rules, change, &loading->glass_rows, err));
    for (size_t i = 0; i < change->count; i++) {
        ids[i] = uuid_bytes(&change->organisations[i]);
        has_registry = has_registry || uuid_is_nil(&change->organisations[i]);
    }
    pg_add_uuid_array(&arguments, ids, change->count);
    pg_add_bool(&arguments, has_registry);
    TRY(pg_run(pg, &snapshot_robots_of_sql, &arguments, &loading->robot_rows, err));
    TRY(pg_run(pg, &snapshot_bindings_of_sql, &arguments, &loading->binding_rows, err));
    if (!has_registry) return SUCCESS;
    TRY(scim_load_persons(pg, &loading->persons, err));
    return pg_run(pg, &snapshot_issuers_sql, NULL, &loading->issuer_rows, err);
}

static struct result make_room(struct loading *loading, const struct authz_parts *parts, struct error *err)
{
    const size_t places = loading->place_rows == NULL ? 0 : pg_rows_count(loading->place_rows);
    const size_t glasses = loading->glass_rows == NULL ? 0 : pg_rows_count(loading->glass_rows);
    const size_t granted = places + glasses + add_group_bindings(loading, false, NULL) + add_group_bindings(loading, true, NULL);

    loading->robots = memory_zeroed(parts->robot_count + 1, sizeof *loading->robots);
    loading->bindings = memory_zeroed(parts->binding_count + granted + 1, sizeof *loading->bindings);
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
    const int64_t now_ms = clock_wall_ms();

    TRY(make_room(loading, &parts, err));
    for (size_t i = 0; i < parts.robot_count; i++) TRY(snapshot_read_robot(loading->robot_rows, i, &loading->robots[i], err));
    for (size_t i = 0; i < parts.binding_count; i++) {
        TRY(snapshot_read_binding(loading->binding_rows, i, &loading->bindings[i], err));
        officers_judge(loading->rules, &loading->bindings[i], now_ms);
    }
    for (size_t i = 0; i < parts.issuer_count; i++) snapshot_read_issuer(loading->issuer_rows, i, &loading->issuers[i]);
    add_grants(loading, &parts);
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

struct result authz_snapshot_load(struct pg *pg, const struct trust_rules *rules, struct authz_snapshot **snapshot_out,
                                  struct error *err)
{
    struct loading loading = {.rules = rules};

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

struct result snapshot_renew_parts(struct pg *pg, const struct authz_snapshot *before, const struct rights_change *change,
                                   struct authz_snapshot **snapshot_out, struct error *err)
{
    struct loading loading = {.rules = authz_snapshot_rules(before)};

    const struct result result = renew(pg, before, change, &loading, snapshot_out, err);
    loading_done(&loading);
    return result;
}

struct result snapshot_load_changes(struct pg *pg, uint64_t since, bool is_alone, struct pg_rows **rows_out, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_int8(&arguments, (int64_t)since);
    pg_add_int8(&arguments, RIGHTS_BINDINGS_MAX + 1);
    return pg_run(pg, is_alone ? &snapshot_single_roles_sql : &snapshot_changed_bindings_sql, &arguments, rows_out, err);
}

bool snapshot_row_is_gone(const struct pg_rows *rows, size_t row)
{
    return pg_bool(rows, row, BINDING_WIDTH);
}
