/* Rows of persons that SCIM provisions: looking. The changes are in scim_change_store.c. */
#include <string.h>

#include "authz/scim_rights_priv.h"
#include "base/text.h"
#include "storage/pg_table.h"

/* clang-format off */
#define COLUMNS \
    "SELECT u.user_id, u.external_id, u.active, u.version, u.created_at, u.modified_at, n.salt, n.box, d.salt, d.box FROM scim_user u" \
    " LEFT JOIN scim_name n ON n.person = u.person AND n.kind = 1 LEFT JOIN scim_name d ON d.person = u.person AND d.kind = 2" \
    " WHERE u.issuer = $1 AND NOT u.is_deleted"
#define COLUMN_TYPES "uuid text bool int8 timestamptz timestamptz bytea bytea bytea bytea"
#define CHOSEN " AND ($2 IS NULL OR u.user_id = $2) AND ($3 IS NULL OR u.external_id = $3) AND ($4 IS NULL OR u.name_index = $4)" \
    " AND ($5 IS NULL OR u.active = $5)"
static const struct pg_statement scim_user_of_id_sql = {"scim_user_of_id", COLUMNS " AND u.user_id = $2", "text uuid", COLUMN_TYPES};
static const struct pg_statement scim_user_page_sql = {
    "scim_user_page", COLUMNS CHOSEN " ORDER BY u.person OFFSET $6 LIMIT $7", "text uuid text bytea bool int8 int8", COLUMN_TYPES};
static const struct pg_statement scim_user_total_sql = {
    "scim_user_total", "SELECT count(*) FROM scim_user u WHERE u.issuer = $1 AND NOT u.is_deleted" CHOSEN, "text uuid text bytea bool", "int8"};
static const struct pg_statement scim_user_of_external_sql = {
    "scim_user_of_external", COLUMNS " AND u.external_id = $2", "text text", COLUMN_TYPES};
static const struct pg_statement scim_user_of_name_sql = {"scim_user_of_name", COLUMNS " AND u.name_index = $2", "text bytea", COLUMN_TYPES};
static const struct pg_statement scim_counts_sql = {
    "scim_counts",
    "SELECT count(*) FILTER (WHERE active), count(*) FILTER (WHERE NOT active AND NOT is_deleted),"
    " (SELECT count(*) FROM scim_group WHERE issuer = $1), count(*) FILTER (WHERE ended_at > greatest(now() - interval '1 hour', $2))"
    " FROM scim_user WHERE issuer = $1", "text timestamptz", "int8 int8 int8 int8"};
static const struct pg_statement *const statements[] = {
    &scim_user_of_id_sql, &scim_user_page_sql, &scim_user_total_sql, &scim_user_of_external_sql, &scim_user_of_name_sql, &scim_counts_sql,
};
/* clang-format on */
const struct pg_table scim_user_table = PG_TABLE(statements);

/* ---- names ---- */

/* What a box is bound to: the kind, and whose it is. */
struct box_place {
    uint8_t what[1 + SCIM_EXTERNAL_MAX];
    struct sealed_place place;
};

static void place_of(const char *issuer, const char *external_id, enum scim_name_kind kind, struct box_place *place)
{
    const size_t length = strlen(external_id);

    place->what[0] = (uint8_t)kind;
    memcpy(place->what + 1, external_id, length);
    place->place = (struct sealed_place){issuer, external_id, {place->what, 1 + length}};
}

static struct result seal(const struct search_source *source, const struct box_place *place, const char *text,
                          struct sealed_text *sealed, struct error *err)
{
    sealed->length = 0;
    return text[0] == '\0' ? SUCCESS : sealed_text_seal(source, &place->place, text, sealed, err);
}

struct result scim_names_seal(const struct search_source *source, const char *issuer, const char *external_id,
                              const struct scim_user_edit *edit, struct scim_sealed_names *names_out, struct error *err)
{
    struct box_place place;

    names_out->has_name = edit->has_name;
    names_out->has_display_name = edit->has_display_name;
    place_of(issuer, external_id, SCIM_USER_NAME_BOX, &place);
    if (edit->has_name) TRY(scim_name_index(source, issuer, edit->user_name, names_out->index, err));
    if (edit->has_name) TRY(seal(source, &place, edit->user_name, &names_out->user_name, err));
    place_of(issuer, external_id, SCIM_DISPLAY_NAME_BOX, &place);
    return edit->has_display_name ? seal(source, &place, edit->display_name, &names_out->display_name, err) : SUCCESS;
}

struct result scim_name_open(const struct permit *permit, const struct scim_look *look, const struct scim_user_row *row,
                             enum scim_name_kind kind, char text_out[SEALED_TEXT_MAX + 1], struct error *err)
{
    const struct sealed_text *sealed = kind == SCIM_USER_NAME_BOX ? &row->user_name : &row->display_name;
    const struct sealed_reading reading = {look->action, look->source};
    struct box_place place;

    text_out[0] = '\0';
    if (sealed->length == 0) return SUCCESS;
    place_of(look->issuer, row->external_id, kind, &place);
    return sealed_text_open(permit, &reading, &place.place, sealed, text_out, err);
}

struct result scim_name_index(const struct search_source *source, const char *issuer, const char *user_name,
                              uint8_t index_out[32], struct error *err)
{
    char lower[SCIM_NAME_MAX + 1];

    (void)text_copy(lower, sizeof lower, user_name);
    for (char *at = lower; *at != '\0'; at++)
        if (*at >= 'A' && *at <= 'Z') *at = (char)(*at - 'A' + 'a');
    return sealed_text_index(source, issuer, lower, index_out, err);
}

/* ---- rows ---- */

/* A row with a longer box than any that was sealed has none. */
static void read_box(const struct pg_rows *rows, size_t row, size_t column, struct sealed_text *sealed)
{
    const struct bytes salt = pg_bytes(rows, row, column), box = pg_bytes(rows, row, column + 1);

    sealed->length = 0;
    if (salt.length != sizeof sealed->salt || box.length > sizeof sealed->box) return;
    memcpy(sealed->salt, salt.data, salt.length);
    memcpy(sealed->box, box.data, box.length);
    sealed->length = box.length;
}

static void read_row(const struct pg_rows *rows, size_t row, struct scim_user_row *user)
{
    user->id = pg_uuid(rows, row, 0);
    (void)text_copy(user->external_id, sizeof user->external_id, pg_text(rows, row, 1));
    user->is_active = pg_bool(rows, row, 2);
    user->version = pg_int8(rows, row, 3);
    user->created_ms = pg_time_ms(rows, row, 4);
    user->modified_ms = pg_time_ms(rows, row, 5);
    read_box(rows, row, 6, &user->user_name);
    read_box(rows, row, 8, &user->display_name);
}

struct result scim_user_of(struct pg *pg, const char *issuer, const struct uuid *id, struct scim_user_row *row_out,
                           struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_text(&arguments, issuer);
    pg_add_uuid(&arguments, id);
    TRY(pg_run(pg, &scim_user_of_id_sql, &arguments, &rows, err));
    if (pg_rows_count(rows) == 0) return failure(err, ERROR_NOT_FOUND, "there is no such User");
    read_row(rows, 0, row_out);
    return SUCCESS;
}

struct result scim_user_find(const struct permit *permit, const struct scim_look *look, const struct uuid *id,
                             struct scim_user_row *row_out, struct error *err)
{
    (void)permit_resource(permit, look->action);
    return scim_user_of(look->source->pg, look->issuer, id, row_out, err);
}

static void add_choice(struct pg_arguments *arguments, const struct scim_user_query *query)
{
    pg_add_text(arguments, query->issuer);
    pg_add_uuid(arguments, query->id);
    pg_add_text(arguments, query->external_id);
    if (query->name_index == NULL) pg_add_null(arguments);
    else pg_add_bytes(arguments, (struct bytes){query->name_index, 32});
    if (query->active == NULL) pg_add_null(arguments);
    else pg_add_bool(arguments, *query->active);
}

/* Clients look for one person again and again, by an index. */
static struct result find_one(struct pg *pg, const struct scim_user_query *query, struct pg_rows **rows_out, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_text(&arguments, query->issuer);
    if (query->external_id != NULL) {
        pg_add_text(&arguments, query->external_id);
        return pg_run(pg, &scim_user_of_external_sql, &arguments, rows_out, err);
    }
    pg_add_bytes(&arguments, (struct bytes){query->name_index, 32});
    return pg_run(pg, &scim_user_of_name_sql, &arguments, rows_out, err);
}

static struct result find_page(struct pg *pg, const struct scim_user_query *query, struct pg_rows **rows_out, int64_t *total_out,
                               struct error *err)
{
    struct pg_arguments arguments = {0}, counted = {0};
    OWNED(pg_rows) *total = NULL;

    add_choice(&counted, query);
    TRY(pg_run(pg, &scim_user_total_sql, &counted, &total, err));
    add_choice(&arguments, query);
    pg_add_int8(&arguments, query->first);
    pg_add_int8(&arguments, (int64_t)query->limit);
    TRY(pg_run(pg, &scim_user_page_sql, &arguments, rows_out, err));
    *total_out = pg_int8(total, 0, 0);
    return SUCCESS;
}

struct result scim_user_list(const struct permit *permit, struct pg *pg, const struct scim_user_query *query,
                             struct scim_user_page *page, struct error *err)
{
    const bool is_plain = query->id == NULL && query->active == NULL && query->first == 0 && query->limit > 0;
    const bool is_one = is_plain && (query->external_id == NULL) != (query->name_index == NULL);
    OWNED(pg_rows) *rows = NULL;

    (void)permit_resource(permit, ACTION_SCIM_LOOK);
    if (is_one) TRY(find_one(pg, query, &rows, err));
    else TRY(find_page(pg, query, &rows, &page->total, err));
    page->count = pg_rows_count(rows);
    if (is_one) page->total = (int64_t)page->count;
    for (size_t i = 0; i < page->count && i < SCIM_PAGE_MAX; i++) read_row(rows, i, &page->rows[i]);
    return SUCCESS;
}

struct result scim_count(const struct permit *permit, struct pg *pg, const char *issuer, int64_t since_ms,
                         struct scim_counts *counts_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    (void)permit_resource(permit, ACTION_SCIM_READ);
    pg_add_text(&arguments, issuer);
    pg_add_time(&arguments, since_ms);
    TRY(pg_run(pg, &scim_counts_sql, &arguments, &rows, err));
    *counts_out = (struct scim_counts){pg_int8(rows, 0, 0), pg_int8(rows, 0, 1), pg_int8(rows, 0, 2), pg_int8(rows, 0, 3)};
    return SUCCESS;
}
