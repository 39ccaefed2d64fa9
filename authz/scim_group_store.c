#include "authz/scim_group.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/format/scim_state.h"
#include "authz/scim_rights_priv.h"
#include "base/memory.h"
#include "base/text.h"
#include "storage/pg_table.h"

/* clang-format off */
#define COLUMNS "SELECT g.group_id, coalesce(g.external_id, ''), g.display_name, g.version, g.created_at, g.modified_at FROM scim_group g"
#define COLUMN_TYPES "uuid text text int8 timestamptz timestamptz"
#define CHOSEN \
    " WHERE g.issuer = $1 AND ($2 IS NULL OR g.group_id = $2) AND ($3 IS NULL OR g.external_id = $3)" \
    " AND ($4 IS NULL OR lower(g.display_name) = lower($4)) AND ($5 IS NULL OR EXISTS (SELECT FROM scim_member m JOIN scim_user u USING (person)" \
    " WHERE m.group_id = g.group_id AND u.user_id = $5))"
#define CHOSEN_TYPES "text uuid text text uuid"
static const struct pg_statement scim_group_of_id_sql = {
    "scim_group_of_id", COLUMNS " WHERE g.issuer = $1 AND g.group_id = $2", "text uuid", COLUMN_TYPES};
static const struct pg_statement scim_group_page_sql = {
    "scim_group_page", COLUMNS CHOSEN " ORDER BY g.created_at, g.group_id OFFSET $6 LIMIT $7", CHOSEN_TYPES " int8 int8", COLUMN_TYPES};
static const struct pg_statement scim_group_total_sql = {
    "scim_group_total", "SELECT count(*) FROM scim_group g" CHOSEN, CHOSEN_TYPES, "int8"};
static const struct pg_statement scim_group_members_sql = {
    "scim_group_members", "SELECT u.user_id FROM scim_member m JOIN scim_user u USING (person) WHERE m.group_id = $1 ORDER BY u.person", "uuid", "uuid"};
static const struct pg_statement scim_group_create_sql = {
    "scim_group_create",
    "INSERT INTO scim_group (group_id, issuer, external_id, display_name) SELECT $1, $2, nullif($3, ''), $4"
    " WHERE (SELECT count(*) FROM scim_group WHERE issuer = $2) < $5::int8 ON CONFLICT (issuer, external_id) DO NOTHING RETURNING group_id",
    "uuid text text text int8", "uuid"};
static const struct pg_statement scim_group_write_sql = {
    "scim_group_write",
    "UPDATE scim_group SET version = version + 1, modified_at = now(), display_name = coalesce($2, display_name),"
    " external_id = coalesce(external_id, nullif($3, '')) WHERE group_id = $1", "uuid text text", ""};
static const struct pg_statement scim_group_taken_sql = {
    "scim_group_taken", "SELECT group_id FROM scim_group WHERE issuer = $1 AND external_id = $2", "text text", "uuid"};
static const struct pg_statement scim_group_delete_sql = {"scim_group_delete", "DELETE FROM scim_group WHERE group_id = $1", "uuid", ""};
static const struct pg_statement scim_group_clear_sql = {
    "scim_group_clear",
    "DELETE FROM scim_member m USING scim_user u WHERE m.person = u.person AND m.group_id = $1 AND (NOT $3 AND u.user_id = ANY($2) OR $3 AND u.user_id <> ALL($2))",
    "uuid uuid[] bool", ""};
/* The number of the ids that are persons of the service; all of them are members then. */
static const struct pg_statement scim_group_add_sql = {
    "scim_group_add",
    "WITH known AS (SELECT person FROM scim_user WHERE issuer = $2 AND user_id = ANY($3) AND NOT is_deleted),"
    " added AS (INSERT INTO scim_member (group_id, person) SELECT $1, person FROM known ON CONFLICT DO NOTHING)"
    " SELECT count(*) FROM known", "uuid text uuid[]", "int8"};
static const struct pg_statement scim_group_size_sql = {
    "scim_group_size", "SELECT count(*) FROM scim_member WHERE group_id = $1", "uuid", "int8"};
static const struct pg_statement scim_group_digest_sql = {
    "scim_group_digest", "SELECT members FROM audit_dump_group WHERE group_id = $1", "uuid", "bytea"};
static const struct pg_statement scim_group_forget_sql = {
    "scim_group_forget", "DELETE FROM scim_past_member WHERE group_id = $1", "uuid", ""};
static const struct pg_statement *const statements[] = {
    &scim_group_of_id_sql, &scim_group_page_sql, &scim_group_total_sql, &scim_group_members_sql, &scim_group_create_sql, &scim_group_write_sql, &scim_group_taken_sql,
    &scim_group_delete_sql, &scim_group_clear_sql, &scim_group_add_sql, &scim_group_size_sql, &scim_group_digest_sql, &scim_group_forget_sql,
};
/* clang-format on */
const struct pg_table scim_group_table = PG_TABLE(statements);

/* ---- looking ---- */

static void read_row(const struct pg_rows *rows, size_t row, struct scim_group_row *group)
{
    group->id = pg_uuid(rows, row, 0);
    (void)text_copy(group->external_id, sizeof group->external_id, pg_text(rows, row, 1));
    (void)text_copy(group->display_name, sizeof group->display_name, pg_text(rows, row, 2));
    group->version = pg_int8(rows, row, 3);
    group->created_ms = pg_time_ms(rows, row, 4);
    group->modified_ms = pg_time_ms(rows, row, 5);
}

static struct result find(struct pg *pg, const char *issuer, const struct uuid *id, struct scim_group_row *row_out,
                          struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_text(&arguments, issuer);
    pg_add_uuid(&arguments, id);
    TRY(pg_run(pg, &scim_group_of_id_sql, &arguments, &rows, err));
    if (pg_rows_count(rows) == 0) return failure(err, ERROR_NOT_FOUND, "there is no such Group");
    read_row(rows, 0, row_out);
    return SUCCESS;
}

struct result scim_group_find(const struct permit *permit, const struct scim_look *look, const struct uuid *id,
                              struct scim_group_row *row_out, struct error *err)
{
    (void)permit_resource(permit, look->action);
    return find(look->source->pg, look->issuer, id, row_out, err);
}

static void add_choice(struct pg_arguments *arguments, const struct scim_group_query *query)
{
    pg_add_text(arguments, query->issuer);
    pg_add_uuid(arguments, query->id);
    pg_add_text(arguments, query->external_id);
    pg_add_text(arguments, query->display_name);
    pg_add_uuid(arguments, query->member);
}

struct result scim_group_list(const struct permit *permit, struct pg *pg, const struct scim_group_query *query,
                              struct scim_group_page *page, struct error *err)
{
    struct pg_arguments arguments = {0}, counted = {0};
    OWNED(pg_rows) *rows = NULL, *total = NULL;

    (void)permit_resource(permit, ACTION_SCIM_LOOK);
    add_choice(&counted, query);
    TRY(pg_run(pg, &scim_group_total_sql, &counted, &total, err));
    add_choice(&arguments, query);
    pg_add_int8(&arguments, query->first);
    pg_add_int8(&arguments, (int64_t)query->limit);
    TRY(pg_run(pg, &scim_group_page_sql, &arguments, &rows, err));
    page->total = pg_int8(total, 0, 0);
    page->count = pg_rows_count(rows);
    for (size_t i = 0; i < page->count && i < SCIM_PAGE_MAX; i++) read_row(rows, i, &page->rows[i]);
    return SUCCESS;
}

struct result scim_group_members(const struct permit *permit, const struct scim_look *look, const struct uuid *id, json_t *list,
                                 struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    (void)permit_resource(permit, look->action);
    pg_add_uuid(&arguments, id);
    TRY(pg_run(look->source->pg, &scim_group_members_sql, &arguments, &rows, err));
    for (size_t i = 0; i < pg_rows_count(rows); i++) {
        const struct uuid member = pg_uuid(rows, i, 0);
        char text[UUID_TEXT_SIZE];
        uuid_format(&member, text);
        if (json_array_append_new(list, json_pack("{s:s, s:s}", "value", text, "type", "User")) != 0)
            return failure(err, ERROR_NO_MEMORY, "no memory for members");
    }
    return SUCCESS;
}

/* ---- members ---- */

static struct result clear(struct pg *pg, const struct uuid *group, const struct bytes *ids, size_t count, bool all_others,
                           struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_uuid(&arguments, group);
    pg_add_uuid_array(&arguments, ids, count);
    pg_add_bool(&arguments, all_others);
    return pg_run(pg, &scim_group_clear_sql, &arguments, NULL, err);
}

static struct result add(const struct scim_group_change *change, struct pg *pg, const struct bytes *ids, size_t count,
                         struct error *err)
{
    struct pg_arguments arguments = {0}, sized = {0};
    OWNED(pg_rows) *rows = NULL, *size = NULL;

    if (count == 0) return SUCCESS;
    pg_add_uuid(&arguments, &change->id);
    pg_add_text(&arguments, change->client.issuer);
    pg_add_uuid_array(&arguments, ids, count);
    TRY(pg_run(pg, &scim_group_add_sql, &arguments, &rows, err));
    if (pg_int8(rows, 0, 0) != (int64_t)count)
        return failure(err, ERROR_INVALID, "invalidValue: a member is no User of this service");
    pg_add_uuid(&sized, &change->id);
    TRY(pg_run(pg, &scim_group_size_sql, &sized, &size, err));
    if (pg_int8(size, 0, 0) <= SCIM_MEMBERS_MAX) return SUCCESS;
    return failure(err, ERROR_LIMIT, "a Group has at most %d members", SCIM_MEMBERS_MAX);
}

struct listed {
    struct uuid *ids;
    struct bytes *views;
};

static size_t list(const struct scim_group_edit *edit, bool added, struct listed *listed)
{
    const size_t count = scim_group_ids(edit, added, listed->ids);

    for (size_t i = 0; i < count; i++) listed->views[i] = uuid_bytes(&listed->ids[i]);
    return count;
}

static struct result write_listed(const struct scim_group_change *change, struct pg *pg, struct listed *listed, struct error *err)
{
    const struct scim_group_edit *edit = change->edit;

    if (!edit->replaces_members) {
        const size_t removed = list(edit, false, listed);
        if (removed > 0) TRY(clear(pg, &change->id, listed->views, removed, false, err));
    }
    const size_t added = list(edit, true, listed);
    if (edit->replaces_members && !change->is_new) TRY(clear(pg, &change->id, listed->views, added, true, err));
    return add(change, pg, listed->views, added, err);
}

static struct result write_members(const struct scim_group_change *change, struct pg *pg, struct error *err)
{
    const size_t count = json_object_size(change->edit->members) + 1;
    struct listed listed = {memory_zeroed(count, sizeof *listed.ids), memory_zeroed(count, sizeof *listed.views)};
    struct result result = {.ok = false};

    if (listed.ids == NULL || listed.views == NULL) failure_write(err, ERROR_NO_MEMORY, "no memory for members");
    else result = write_listed(change, pg, &listed, err);
    free(listed.ids);
    free(listed.views);
    return result;
}

/* ---- the event ---- */

#define MEMBERS_SIZE (2 * SHA256_SIZE + 1)

static struct result read_members(struct pg *pg, const struct uuid *group, char members_out[MEMBERS_SIZE], struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, group);
    TRY(pg_run(pg, &scim_group_digest_sql, &arguments, &rows, err));
    const struct bytes members = pg_rows_count(rows) == 1 ? pg_bytes(rows, 0, 0) : (struct bytes){0};
    if (members.length != SHA256_SIZE) return failure(err, ERROR_CORRUPT, "the members of a group of SCIM have no digest");
    text_hex(members.data, members.length, members_out);
    return SUCCESS;
}

/*
 * What the rows are before the event and from it on: `sijil-verify fsck` compares them with the rows, and with the event before. Persons that were deleted since the
 * last event still belong to what was. A group of changes may run again, so the detail is written anew each time.
 */
static struct result tell_members(struct scim_group_change *change, struct pg *pg, const char *was, struct error *err)
{
    struct pg_arguments arguments = {0};
    char id[UUID_TEXT_SIZE], now[MEMBERS_SIZE];
    const char *told = was[0] == '\0' ? "" : " " SCIM_MEMBERS_WAS;

    uuid_format(&change->id, id);
    if (change->edit == NULL) {
        (void)snprintf(change->detail, sizeof change->detail, "%s " SCIM_STATE_DELETED "%s%s", id, told, was);
        return SUCCESS;
    }
    pg_add_uuid(&arguments, &change->id);
    TRY(pg_run(pg, &scim_group_forget_sql, &arguments, NULL, err));
    TRY(read_members(pg, &change->id, now, err));
    (void)snprintf(change->detail, sizeof change->detail, "%s " SCIM_MEMBERS_NOW "%s%s%s", id, now, told, was);
    return SUCCESS;
}

/* ---- changes ---- */

static struct result create(const struct scim_group_change *change, struct pg *pg, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, &change->id);
    pg_add_text(&arguments, change->client.issuer);
    pg_add_text(&arguments, change->edit->external_id);
    pg_add_text(&arguments, change->edit->display_name);
    pg_add_int8(&arguments, SCIM_GROUPS_MAX);
    TRY(pg_run(pg, &scim_group_create_sql, &arguments, &rows, err));
    if (pg_rows_count(rows) == 1) return SUCCESS;
    return failure(err, ERROR_CONFLICT, "uniqueness: a Group with this externalId is there, or %d groups are", SCIM_GROUPS_MAX);
}

/* RFC 7643, 7: what is immutable may be set once. */
static struct result check_external_id(const struct scim_group_change *change, struct pg *pg, const struct scim_group_row *row,
                                       struct error *err)
{
    const char *wanted = change->edit->has_external_id ? change->edit->external_id : row->external_id;
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    if (strcmp(wanted, row->external_id) == 0) return SUCCESS;
    if (row->external_id[0] != '\0')
        return failure(
            err, ERROR_INVALID,
            "mutability: externalId can't be changed, because documents give roles to it: delete the Group and make another");
    pg_add_text(&arguments, change->client.issuer);
    pg_add_text(&arguments, wanted);
    TRY(pg_run(pg, &scim_group_taken_sql, &arguments, &rows, err));
    return pg_rows_count(rows) == 0 ? SUCCESS : failure(err, ERROR_CONFLICT, "uniqueness: another Group has this externalId");
}

static struct result change_row(struct scim_group_change *change, struct pg *pg, const struct scim_group_row *row,
                                struct error *err)
{
    const struct scim_group_edit *edit = change->edit;
    struct pg_arguments arguments = {0};

    change->is_other = change->if_version != 0 && change->if_version != row->version;
    if (change->is_other) return failure(err, ERROR_CONFLICT, "the Group has another version than If-Match names");
    pg_add_uuid(&arguments, &change->id);
    if (edit == NULL) return pg_run(pg, &scim_group_delete_sql, &arguments, NULL, err);
    TRY(check_external_id(change, pg, row, err));
    pg_add_text(&arguments, edit->has_name ? edit->display_name : NULL);
    pg_add_text(&arguments, edit->has_external_id ? edit->external_id : "");
    return pg_run(pg, &scim_group_write_sql, &arguments, NULL, err);
}

static struct result write_change(struct scim_group_change *change, struct pg *pg, const struct authz_snapshot *snapshot,
                                  struct error *err)
{
    struct scim_places places = {.count = 0};
    struct scim_group_row row = {.version = 0};
    char id[UUID_TEXT_SIZE], was[MEMBERS_SIZE] = "";

    uuid_format(&change->id, id);
    if (change->is_new) TRY(create(change, pg, err));
    if (!change->is_new) TRY(find(pg, change->client.issuer, &change->id, &row, err));
    if (!change->is_new) TRY(read_members(pg, &change->id, was, err));
    if (!change->is_new) TRY(change_row(change, pg, &row, err));
    if (change->edit != NULL) TRY(write_members(change, pg, err));
    TRY(tell_members(change, pg, was, err));
    const bool has_old = row.external_id[0] != '\0' || change->edit == NULL;
    scim_places_find(authz_snapshot_rules(snapshot), change->client.issuer, id,
                     has_old ? row.external_id : change->edit->external_id, &places);
    if (change->change.raises_epoch) return scim_raise(pg, &places, false, err);
    return places.count == 0 ? SUCCESS : failure(err, ERROR_CONFLICT, "the roles of groups have changed meanwhile: try again");
}

static struct result run(const struct permit *permit, struct change *base, struct pg *pg, struct error *err)
{
    struct scim_group_change *change = (struct scim_group_change *)(void *)base; /* its first member */
    OWNED(authz_snapshot) *snapshot = NULL;
    const struct scim_entry *entry = NULL;

    permit_require(permit, ACTION_SCIM_GROUP, &(const struct resource){.kind = RESOURCE_SYSTEM});
    uuid_format(&change->id, change->detail);
    TRY(scim_service_now(&change->client, &snapshot, &entry, err));
    return write_change(change, pg, snapshot, err);
}

void scim_group_change_init(struct scim_group_change *change, const struct scim_client *client, const struct uuid *id,
                            const struct scim_group_edit *edit, bool raises)
{
    *change = (struct scim_group_change){
        .change = {.run = run, .raises_epoch = raises, .invalidates = CHANGE_INVALIDATES_NOTHING, .detail = change->detail},
        .client = *client,
        .edit = edit,
        .is_new = id == NULL,
        .id = id == NULL ? uuid_random() : *id};
    uuid_format(&change->id, change->detail);
}
