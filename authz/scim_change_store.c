/* Changes of persons that SCIM provisions. All changes of all gateways run one after the other, so what a change has read stays so. */
#include <stdio.h>
#include <string.h>

#include "audit/format/scim_state.h"
#include "audit/format/search_terms.h"
#include "authz/rights_priv.h"
#include "authz/scim_rights_priv.h"
#include "base/clock.h"
#include "base/text.h"
#include "storage/pg_table.h"

#define SUBJECTS_MAX "16" /* of a person: one for each client of an issuer that makes pairwise subjects */

/* clang-format off */
static const struct pg_statement scim_change_find_sql = {
    "scim_change_find", "SELECT person, external_id, active, version FROM scim_user WHERE issuer = $1 AND user_id = $2 AND NOT is_deleted",
    "text uuid", "int8 text bool int8"};
static const struct pg_statement scim_change_taken_sql = {
    "scim_change_taken", "SELECT user_id FROM scim_user WHERE issuer = $1 AND name_index = $2", "text bytea", "uuid"};
static const struct pg_statement scim_change_ended_sql = {
    "scim_change_ended",
    "SELECT count(*) FROM scim_user WHERE issuer = $1 AND ended_at > greatest(now() - interval '1 hour', $2)", "text timestamptz", "int8"};
/* A person that was deleted comes back with another id; its subjects are its own still. */
static const struct pg_statement scim_change_create_sql = {
    "scim_change_create",
    "INSERT INTO scim_user AS u (user_id, issuer, external_id, name_index, active, ended_at)"
    " SELECT $1, $2, $3, $4, $5, CASE WHEN $7 THEN now() END WHERE (SELECT reltuples FROM pg_class WHERE oid = 'scim_user'::regclass) < $6::int8"
    " ON CONFLICT (issuer, external_id) DO UPDATE SET user_id = excluded.user_id, name_index = excluded.name_index, active = excluded.active,"
    " is_deleted = false, version = 1, created_at = now(), modified_at = now() WHERE u.is_deleted"
    " RETURNING person, created_at", "uuid text text bytea bool int8 bool", "int8 timestamptz"};
static const struct pg_statement scim_change_write_sql = {
    "scim_change_write",
    "UPDATE scim_user SET active = $2, version = version + 1, modified_at = now(), name_index = CASE WHEN $3 THEN $4 ELSE name_index END,"
    " ended_at = CASE WHEN active AND NOT $2 THEN now() ELSE ended_at END WHERE person = $1 RETURNING created_at, modified_at, version",
    "int8 bool bool bytea", "timestamptz timestamptz int8"};
static const struct pg_statement scim_change_delete_sql = {
    "scim_change_delete",
    "WITH names AS (DELETE FROM scim_name WHERE person = $1), groups AS (DELETE FROM scim_member WHERE person = $1 RETURNING group_id),"
    " past AS (INSERT INTO scim_past_member (group_id, user_id) SELECT g.group_id, u.user_id FROM groups g, scim_user u WHERE u.person = $1"
    " ON CONFLICT DO NOTHING)" /* no row that somebody wrote keeps a person from leaving */
    " UPDATE scim_user SET is_deleted = true, name_index = NULL, modified_at = now(), active = false,"
    " ended_at = CASE WHEN active THEN now() ELSE ended_at END WHERE person = $1", "int8", ""};
static const struct pg_statement scim_change_name_sql = {
    "scim_change_name",
    "INSERT INTO scim_name (person, kind, subject, salt, box) SELECT $1, $2, s.id, $4, $5 FROM audit_subject s WHERE s.subject = $3"
    " ON CONFLICT (person, kind) DO UPDATE SET subject = excluded.subject, salt = excluded.salt, box = excluded.box",
    "int8 int4 bytea bytea bytea", ""};
static const struct pg_statement scim_change_unname_sql = {
    "scim_change_unname", "DELETE FROM scim_name WHERE person = $1 AND kind = $2", "int8 int4", ""};
/* A subject that no event tells was joined by an earlier version: the token shows now whose it is. */
static const struct pg_statement scim_change_link_sql = {
    "scim_change_link",
    "INSERT INTO scim_subject AS x (issuer, subject, person, told) SELECT u.issuer, $2, u.person, $4 FROM scim_user u WHERE u.issuer = $1 AND u.external_id = $3"
    " AND u.active AND NOT u.is_deleted AND (SELECT count(*) FROM scim_subject s WHERE s.person = u.person AND s.subject <> $2) < " SUBJECTS_MAX
    " AND (u.told IS NULL OR EXISTS (SELECT FROM scim_vouched_person v WHERE v.person = u.person))"
    " ON CONFLICT (issuer, subject) DO UPDATE SET told = excluded.told WHERE x.person = excluded.person"
    " RETURNING person, (SELECT encode(scim_link(x.salt, u.issuer, u.external_id, x.issuer, x.subject), 'hex') FROM scim_user u WHERE u.person = x.person)",
    "text text text int8", "int8 text"};
/* Of `told`, also for a person that comes back with another id; otherwise the first event stays. */
static const struct pg_statement scim_change_tell_sql = {
    "scim_change_tell",
    "UPDATE scim_user SET told = CASE WHEN $3 THEN $2 ELSE coalesce(told, $2) END WHERE person = $1"
    " RETURNING user_id, encode(scim_identity(salt, issuer, external_id), 'hex')", "int8 int8 bool", "uuid text"};
/* Whether the first event about a person, or the first token that tells who it is, tells another externalId than the row has now. Their entries are found by the lists of the
   index of searches, which has each place in two bytes (audit/format/posting.h). */
static const struct pg_statement scim_change_doubt_sql = {
    "scim_change_doubt",
    "SELECT EXISTS (SELECT FROM scim_user u CROSS JOIN LATERAL (SELECT encode(scim_identity(u.salt, u.issuer, u.external_id), 'hex') AS identity OFFSET 0) AS d"
    " CROSS JOIN unnest($2::int8[]) AS k (key) CROSS JOIN LATERAL (SELECT block, list FROM audit_post WHERE key = k.key ORDER BY block LIMIT 1) AS p"
    " CROSS JOIN LATERAL generate_series(0, length(p.list) / 2 - 1) AS i"
    " CROSS JOIN LATERAL (SELECT e.action, e.outcome, e.leaf FROM audit_entry e"
    " WHERE e.seq = p.block * 4096 + 256 * get_byte(p.list, 2 * i) + get_byte(p.list, 2 * i + 1) OFFSET 0) AS e"
    " WHERE u.user_id = $1 AND e.action IN ('scim.create', 'scim.change', 'scim.end', 'token.mint') AND e.outcome = 'allowed'"
    " AND (position(convert_to('#' || u.user_id || ' ', 'UTF8') IN e.leaf) > 0 OR position(convert_to(' person=' || u.user_id || ' ', 'UTF8') IN e.leaf) > 0)"
    " AND position(' as='::bytea IN e.leaf) > 0 AND position(convert_to(' as=' || d.identity, 'UTF8') IN e.leaf) = 0)", "uuid int8[]", "bool"};
static const struct pg_statement scim_change_self_sql = {
    "scim_change_self",
    "INSERT INTO scim_subject AS x (issuer, subject, person, told) SELECT issuer, external_id, person, $2 FROM scim_user WHERE person = $1 ON CONFLICT DO NOTHING"
    " RETURNING encode(scim_link(x.salt, x.issuer, x.subject, x.issuer, x.subject), 'hex')", "int8 int8", "text"};
static const struct pg_statement scim_raise_sql = {
    "scim_raise",
    "WITH raised AS (SELECT raise_authorization_epoch(organisation_id, false) AS epoch FROM organisation WHERE name = ANY($1))"
    " SELECT count(*) FROM raised", "text[]", "int8"};
static const struct pg_statement *const statements[] = {
    &scim_change_find_sql, &scim_change_taken_sql, &scim_change_ended_sql, &scim_change_create_sql, &scim_change_write_sql,
    &scim_change_delete_sql, &scim_change_name_sql, &scim_change_unname_sql, &scim_change_link_sql, &scim_change_tell_sql, &scim_change_doubt_sql, &scim_change_self_sql, &scim_raise_sql,
};
/* clang-format on */
const struct pg_table scim_change_table = PG_TABLE(statements);

struct result scim_raise(struct pg *pg, const struct scim_places *places, bool registry, struct error *err)
{
    static const struct uuid nil = {{0}};
    struct bytes names[SCIM_PLACES_MAX];
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    if (places->is_everywhere) return rights_raise_all(pg, err);
    for (size_t i = 0; i < places->count; i++) names[i] = bytes_of_text(places->names[i]);
    pg_add_text_array(&arguments, names, places->count);
    TRY(pg_run(pg, &scim_raise_sql, &arguments, &rows, err));
    return registry || pg_int8(rows, 0, 0) == 0 ? rights_raise_epoch(pg, &nil, err) : SUCCESS;
}

/* ---- names ---- */

static struct result write_name(struct pg *pg, int64_t person, enum scim_name_kind kind, const struct sealed_text *sealed,
                                struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_int8(&arguments, person);
    pg_add_int4(&arguments, (int32_t)kind);
    if (sealed->length == 0) return pg_run(pg, &scim_change_unname_sql, &arguments, NULL, err);
    pg_add_bytes(&arguments, (struct bytes){sealed->subject, sizeof sealed->subject});
    pg_add_bytes(&arguments, (struct bytes){sealed->salt, sizeof sealed->salt});
    pg_add_bytes(&arguments, (struct bytes){sealed->box, sealed->length});
    return pg_run(pg, &scim_change_name_sql, &arguments, NULL, err);
}

static struct result write_names(struct pg *pg, int64_t person, const struct scim_sealed_names *names, struct error *err)
{
    if (names->has_name) TRY(write_name(pg, person, SCIM_USER_NAME_BOX, &names->user_name, err));
    return names->has_display_name ? write_name(pg, person, SCIM_DISPLAY_NAME_BOX, &names->display_name, err) : SUCCESS;
}

static struct result check_name(struct pg *pg, const struct scim_user_change *change, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    if (!change->names->has_name) return SUCCESS;
    pg_add_text(&arguments, change->client.issuer);
    pg_add_bytes(&arguments, (struct bytes){change->names->index, sizeof change->names->index});
    TRY(pg_run(pg, &scim_change_taken_sql, &arguments, &rows, err));
    if (pg_rows_count(rows) == 0) return SUCCESS;
    const struct uuid owner = pg_uuid(rows, 0, 0);
    return uuid_equal(&owner, &change->id) ? SUCCESS : failure(err, ERROR_CONFLICT, "uniqueness: another User has this userName");
}

/* ---- the bound ---- */

/* Two approvers confirm more by another version of the document: the count begins anew with it. */
static struct result check_bound(struct pg *pg, const struct scim_entry *entry, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_text(&arguments, entry->service.issuer);
    pg_add_time(&arguments, entry->pinned.effective_ms);
    TRY(pg_run(pg, &scim_change_ended_sql, &arguments, &rows, err));
    if (pg_int8(rows, 0, 0) < entry->service.ends_in_hour) return SUCCESS;
    return failure(
        err, ERROR_DENIED,
        "%lld persons were deactivated within an hour, as many as the document %s allows: nobody else is until two approvers sign another "
        "version of it, or the hour is over",
        (long long)entry->service.ends_in_hour, entry->name);
}

/* ---- the event ---- */

/* A group of changes may run again, so the detail is written anew each time. */
static void tell_id(struct scim_user_change *change)
{
    uuid_format(&change->id, change->detail);
}

/* Whether the log tells another externalId than the row: then no event may tell that of the row, also not if the row names none. */
static struct result is_doubted(struct pg *pg, const struct uuid *id, bool *is_doubted_out, struct error *err)
{
    char text[UUID_TEXT_SIZE], word[sizeof SCIM_PERSON + UUID_TEXT_SIZE];
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    uuid_format(id, text);
    (void)snprintf(word, sizeof word, SCIM_PERSON "%s", text);
    const int64_t keys[] = {search_key(SEARCH_DETAIL, bytes_of_text(text)), search_key(SEARCH_DETAIL, bytes_of_text(word))};
    pg_add_uuid(&arguments, id);
    pg_add_int8_array(&arguments, keys, sizeof keys / sizeof keys[0]);
    TRY(pg_run(pg, &scim_change_doubt_sql, &arguments, &rows, err));
    *is_doubted_out = pg_bool(rows, 0, 0);
    return SUCCESS;
}

/* The row has this state and this externalId from the event on: `sijil-verify fsck` compares them. */
static struct result tell(struct scim_user_change *change, struct pg *pg, int64_t person, uint64_t entry, const char *state,
                          struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;
    char id[UUID_TEXT_SIZE];
    bool doubted = false;

    uuid_format(&change->id, id);
    (void)snprintf(change->detail, sizeof change->detail, "%s %s", id, state);
    if (!change->is_new) TRY(is_doubted(pg, &change->id, &doubted, err));
    if (doubted) return SUCCESS; /* a person is shut out in any case */
    pg_add_int8(&arguments, person);
    pg_add_int8(&arguments, (int64_t)entry);
    pg_add_bool(&arguments, change->is_new);
    TRY(pg_run(pg, &scim_change_tell_sql, &arguments, &rows, err));
    if (pg_rows_count(rows) != 1) return failure(err, ERROR_NOT_FOUND, "there is no such User");
    (void)snprintf(change->detail, sizeof change->detail, "%s %s " SCIM_IDENTITY "%s", id, state, pg_text(rows, 0, 1));
    return SUCCESS;
}

/* Where a person's externalId is the subject of its tokens, the two are joined from the beginning. */
static struct result join_self(struct scim_user_change *change, struct pg *pg, int64_t person, uint64_t entry, struct error *err)
{
    const size_t length = strlen(change->detail);
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_int8(&arguments, person);
    pg_add_int8(&arguments, (int64_t)entry);
    TRY(pg_run(pg, &scim_change_self_sql, &arguments, &rows, err));
    if (pg_rows_count(rows) == 1)
        (void)snprintf(change->detail + length, sizeof change->detail - length, " " SCIM_LINK "%s", pg_text(rows, 0, 0));
    return SUCCESS;
}

/* ---- making a person ---- */

static struct result insert(struct scim_user_change *change, struct pg *pg, bool ends, int64_t *person_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, &change->id);
    pg_add_text(&arguments, change->client.issuer);
    pg_add_text(&arguments, change->external_id);
    pg_add_bytes(&arguments, (struct bytes){change->names->index, sizeof change->names->index});
    pg_add_bool(&arguments, change->edit->active);
    pg_add_int8(&arguments, SCIM_PERSONS_MAX);
    pg_add_bool(&arguments, ends);
    TRY(pg_run(pg, &scim_change_create_sql, &arguments, &rows, err));
    if (pg_rows_count(rows) == 0)
        return failure(err, ERROR_CONFLICT, "uniqueness: a User with this externalId is there, or %d persons are",
                       SCIM_PERSONS_MAX);
    *person_out = pg_int8(rows, 0, 0);
    change->created_ms = change->modified_ms = pg_time_ms(rows, 0, 1);
    change->version = 1;
    return SUCCESS;
}

/* Where documents of officers are demanded, rows of the database count for nothing, and signed persons alone do. */
static struct result keep_signed(const struct scim_user_change *change, const struct authz_snapshot *snapshot, struct error *err)
{
    if (!authz_scim_ends_administrators(snapshot, change->client.issuer, change->external_id, clock_wall_ms())) return SUCCESS;
    return failure(err, ERROR_CONFLICT,
                   "this is the last registry-admin that a document of officers names: sign a document for another one first");
}

/* A service that admits others has let this person in until now, so one that is made inactive is deactivated. */
static struct result create(struct scim_user_change *change, struct pg *pg, const struct authz_snapshot *snapshot,
                            const struct scim_entry *entry, uint64_t number, struct error *err)
{
    const bool ends = !change->edit->active && entry->service.admits_others;
    struct scim_places places = {.count = 0};
    int64_t person = 0, administrators = 0;

    if (ends) TRY(check_bound(pg, entry, err));
    if (ends) TRY(keep_signed(change, snapshot, err));
    if (ends) TRY(rights_count_administrators(pg, &administrators, err));
    TRY(check_name(pg, change, err));
    TRY(insert(change, pg, ends, &person, err));
    TRY(write_names(pg, person, change->names, err));
    TRY(tell(change, pg, person, number, change->edit->active ? SCIM_STATE_ACTIVE : SCIM_STATE_INACTIVE, err));
    if (strcmp(entry->service.claim, SCIM_SERVICE_CLAIM_SUB) == 0) TRY(join_self(change, pg, person, number, err));
    if (ends) TRY(rights_keep_administrator(pg, administrators, err));
    scim_places_find(authz_snapshot_rules(snapshot), change->client.issuer, NULL, NULL, &places);
    return scim_raise(pg, &places, true, err);
}

static struct result run_create(const struct permit *permit, struct change *base, struct pg *pg, struct error *err)
{
    struct scim_user_change *change = (struct scim_user_change *)(void *)base; /* its first member */
    OWNED(authz_snapshot) *snapshot = NULL;
    const struct scim_entry *entry = NULL;

    permit_require(permit, ACTION_SCIM_CREATE, &(const struct resource){.kind = RESOURCE_SYSTEM});
    tell_id(change);
    TRY(scim_service_now(&change->client, &snapshot, &entry, err));
    return create(change, pg, snapshot, entry, permit_sequence(permit), err);
}

void scim_user_create_init(struct scim_user_change *change, const struct scim_client *client, const struct scim_user_edit *edit,
                           const struct scim_sealed_names *names)
{
    *change = (struct scim_user_change){
        .change = {.run = run_create, .raises_epoch = true, .invalidates = CHANGE_INVALIDATES_NOTHING, .detail = change->detail},
        .client = *client,
        .edit = edit,
        .names = names,
        .is_new = true,
        .id = uuid_random()};
    (void)text_copy(change->external_id, sizeof change->external_id, edit->external_id);
    tell_id(change);
    change->change.concerns_issuer = client->issuer;
    change->change.concerns_subject = change->external_id;
}

/* ---- changing a person ---- */

struct found {
    int64_t person, version;
    bool is_active;
};

static struct result find(struct scim_user_change *change, struct pg *pg, struct found *found, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_text(&arguments, change->client.issuer);
    pg_add_uuid(&arguments, &change->id);
    TRY(pg_run(pg, &scim_change_find_sql, &arguments, &rows, err));
    if (pg_rows_count(rows) == 0) return failure(err, ERROR_NOT_FOUND, "there is no such User");
    *found = (struct found){pg_int8(rows, 0, 0), pg_int8(rows, 0, 3), pg_bool(rows, 0, 2)};
    change->is_other = change->if_version != 0 && change->if_version != found->version;
    if (change->is_other) return failure(err, ERROR_CONFLICT, "the User has another version than If-Match names");
    if (change->edit != NULL && change->edit->has_external_id && strcmp(change->edit->external_id, pg_text(rows, 0, 1)) != 0)
        return failure(err, ERROR_INVALID,
                       "mutability: externalId says who the person is, and can't be changed: delete the User and make another");
    return SUCCESS;
}

static struct result write_row(struct scim_user_change *change, struct pg *pg, const struct found *found, bool is_active,
                               struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_int8(&arguments, found->person);
    if (change->edit == NULL) return pg_run(pg, &scim_change_delete_sql, &arguments, NULL, err);
    TRY(check_name(pg, change, err));
    pg_add_bool(&arguments, is_active);
    pg_add_bool(&arguments, change->names->has_name);
    pg_add_bytes(&arguments, (struct bytes){change->names->index, sizeof change->names->index});
    TRY(pg_run(pg, &scim_change_write_sql, &arguments, &rows, err));
    change->created_ms = pg_time_ms(rows, 0, 0);
    change->modified_ms = pg_time_ms(rows, 0, 1);
    change->version = pg_int8(rows, 0, 2);
    return write_names(pg, found->person, change->names, err);
}

static struct result write_change(struct scim_user_change *change, struct pg *pg, const struct scim_entry *entry,
                                  const struct authz_snapshot *snapshot, uint64_t number, struct error *err)
{
    struct scim_places places = {.count = 0};
    struct found found = {0};
    int64_t administrators = 0;

    TRY(find(change, pg, &found, err));
    const bool is_active = change->edit != NULL && (change->edit->has_active ? change->edit->active : found.is_active);
    const bool ends = found.is_active && !is_active;
    if (is_active != found.is_active && !change->change.raises_epoch)
        return failure(err, ERROR_CONFLICT, "the User was changed meanwhile: try again");
    if (ends) TRY(check_bound(pg, entry, err));
    if (ends) TRY(keep_signed(change, snapshot, err));
    if (ends) TRY(rights_count_administrators(pg, &administrators, err));
    TRY(write_row(change, pg, &found, is_active, err));
    if (ends) TRY(rights_keep_administrator(pg, administrators, err));
    if (change->edit == NULL) scim_places_find(authz_snapshot_rules(snapshot), change->client.issuer, NULL, NULL, &places);
    if (change->change.raises_epoch) TRY(scim_raise(pg, &places, true, err));
    return tell(change, pg, found.person, number,
                change->edit == NULL ? SCIM_STATE_DELETED
                : is_active          ? SCIM_STATE_ACTIVE
                                     : SCIM_STATE_INACTIVE,
                err);
}

static struct result run_change(const struct permit *permit, struct change *base, struct pg *pg, struct error *err)
{
    struct scim_user_change *change = (struct scim_user_change *)(void *)base; /* its first member */
    const bool ends = change->edit == NULL || scim_user_ends(change->edit);
    OWNED(authz_snapshot) *snapshot = NULL;
    const struct scim_entry *entry = NULL;

    permit_require(permit, ends ? ACTION_SCIM_END : ACTION_SCIM_CHANGE, &(const struct resource){.kind = RESOURCE_SYSTEM});
    tell_id(change);
    TRY(scim_service_now(&change->client, &snapshot, &entry, err));
    return write_change(change, pg, entry, snapshot, permit_sequence(permit), err);
}

void scim_user_change_init(struct scim_user_change *change, const struct scim_client *client, const struct scim_user_row *person,
                           const struct scim_user_edit *edit, const struct scim_sealed_names *names, bool raises)
{
    *change = (struct scim_user_change){.change = {.run = run_change,
                                                   .raises_epoch = raises,
                                                   .invalidates = CHANGE_INVALIDATES_NOTHING,
                                                   .detail = change->detail},
                                        .client = *client,
                                        .edit = edit,
                                        .names = names,
                                        .id = person->id};
    (void)text_copy(change->external_id, sizeof change->external_id, person->external_id);
    tell_id(change);
    change->change.concerns_issuer = client->issuer;
    change->change.concerns_subject = change->external_id;
}

/* ---- subjects of tokens ---- */

static struct result not_joined(struct error *err)
{
    return failure(err, ERROR_CONFLICT,
                   "the person is not active here, or has " SUBJECTS_MAX
                   " subjects already, or the subject is joined with it, or the log tells another externalId: try again");
}

struct result scim_join(struct pg *pg, const struct scim_joining *joining, char told_out[SCIM_TOLD_SIZE], struct error *err)
{
    struct pg_arguments arguments = {0}, of_person = {0};
    OWNED(pg_rows) *rows = NULL;
    OWNED(pg_rows) *person = NULL;
    char id[UUID_TEXT_SIZE];
    bool doubted = false;

    pg_add_text(&arguments, joining->issuer);
    pg_add_text(&arguments, joining->subject);
    pg_add_text(&arguments, joining->external_id);
    pg_add_int8(&arguments, (int64_t)joining->entry);
    TRY(pg_run(pg, &scim_change_link_sql, &arguments, &rows, err));
    if (pg_rows_count(rows) == 0) return not_joined(err);
    pg_add_int8(&of_person, pg_int8(rows, 0, 0));
    pg_add_int8(&of_person, (int64_t)joining->entry);
    pg_add_bool(&of_person, false);
    TRY(pg_run(pg, &scim_change_tell_sql, &of_person, &person, err));
    const struct uuid user = pg_uuid(person, 0, 0);
    TRY(is_doubted(pg, &user, &doubted, err));
    if (doubted) return not_joined(err);
    uuid_format(&user, id);
    (void)snprintf(told_out, SCIM_TOLD_SIZE, " " SCIM_PERSON "%s " SCIM_IDENTITY "%s " SCIM_LINK "%s", id, pg_text(person, 0, 1),
                   pg_text(rows, 0, 1));
    return SUCCESS;
}
