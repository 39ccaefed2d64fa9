/* The tables `content_hold` and `signed_hold`. */
#include "registry/content_hold.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"
#include "registry/hold_rows.h"
#include "storage/pg_table.h"

/* clang-format off */
#define ON_SCOPE \
    "organisation_id = $2 AND project_id IS NOT DISTINCT FROM $3 AND repository IS NOT DISTINCT FROM $4"

static const struct pg_statement content_hold_insert_sql = {
    "content_hold_insert",
    "INSERT INTO content_hold (hold_id, organisation_id, project_id, repository, reason, set_by) SELECT $1, $2, $3, $4, $5, $6"
    " WHERE (SELECT count(*) < $7 FROM content_hold WHERE organisation_id = $2 AND released_at IS NULL)",
    "uuid uuid uuid text text text int8", ""};
static const struct pg_statement content_hold_ask_sql = {
    "content_hold_ask",
    "UPDATE content_hold SET release_reason = $5, release_asked_by = $6, release_asked_at = now()"
    " WHERE hold_id = $1 AND released_at IS NULL AND " ON_SCOPE,
    "uuid uuid uuid text text text", ""};
static const struct pg_statement content_hold_free_sql = {
    "content_hold_free",
    "UPDATE content_hold SET released_by = $6, released_at = now() WHERE hold_id = $1 AND released_at IS NULL AND " ON_SCOPE
    " AND release_asked_by = $5 AND release_asked_by <> $6 AND release_asked_at > now() - interval '7 days'",
    "uuid uuid uuid text text text", ""};
static const struct pg_statement content_hold_find_sql = {
    "content_hold_find", "SELECT true FROM content_hold WHERE hold_id = $1 AND released_at IS NULL AND " ON_SCOPE,
    "uuid uuid uuid text", "bool"};
static const struct pg_statement content_hold_list_sql = {
    "content_hold_list",
    "SELECT h.hold_id, CASE WHEN h.released_at IS NOT NULL THEN 'released'"
    " WHEN h.release_asked_at > now() - interval '7 days' THEN 'releasing' ELSE 'held' END,"
    " coalesce(h.repository, concat_ws('/', coalesce(o.name, o.deleted_name), p.name)), h.reason, coalesce(h.release_reason, ''), h.set_by,"
    " coalesce(h.release_asked_by, ''), coalesce(h.released_by, ''), h.set_at, h.release_asked_at, h.released_at"
    " FROM content_hold h JOIN organisation o USING (organisation_id) LEFT JOIN project p ON p.project_id = h.project_id"
    " WHERE ($1::uuid IS NULL OR h.organisation_id = $1) AND ($2::uuid IS NULL OR h.project_id = $2) AND h.hold_id > $3"
    " ORDER BY h.hold_id LIMIT $4",
    "uuid uuid uuid int8", "uuid text text text text text text text timestamptz timestamptz timestamptz"};
static const struct pg_statement content_hold_raise_epoch_sql = {
    "content_hold_raise_epoch", "WITH raised AS (SELECT raise_authorization_epoch($1, true) AS epoch) SELECT epoch FROM raised", "uuid",
    "int8"};
static const struct pg_statement signed_hold_write_sql = {
    "signed_hold_write",
    "WITH told AS (SELECT name, content, nullif(digest, '') AS digest, until::timestamptz AS until"
    " FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS t (name, content, digest, until)),"
    " gone AS (DELETE FROM signed_hold h WHERE NOT EXISTS (SELECT FROM told t WHERE t.name = h.name) RETURNING 1),"
    " written AS (INSERT INTO signed_hold AS h (name, content, digest, until) SELECT name, content, digest, until FROM told"
    " ON CONFLICT (name) DO UPDATE SET content = excluded.content, digest = excluded.digest, until = excluded.until"
    " WHERE (h.content, h.digest, h.until) IS DISTINCT FROM (excluded.content, excluded.digest, excluded.until) RETURNING 1)"
    " SELECT (SELECT count(*) FROM gone) + (SELECT count(*) FROM written)",
    "text[] text[] text[] text[]", "int8"};
static const struct pg_statement *const statements[] = {
    &signed_hold_write_sql, &content_hold_insert_sql, &content_hold_ask_sql, &content_hold_free_sql, &content_hold_find_sql, &content_hold_list_sql,
    &content_hold_raise_epoch_sql,
};
/* clang-format on */
const struct pg_table content_hold_statements = PG_TABLE(statements);

static const struct uuid *or_null(const struct uuid *id)
{
    return uuid_is_nil(id) ? NULL : id;
}

static void add_scope(struct pg_arguments *arguments, const struct resource *scope)
{
    pg_add_uuid(arguments, &scope->organisation);
    pg_add_uuid(arguments, scope->kind == RESOURCE_ORGANISATION ? NULL : or_null(&scope->project));
    pg_add_text(arguments, scope->kind == RESOURCE_REPOSITORY ? scope->name : NULL);
}

/* Deletions that were planned before are planned again, and find the hold. */
static struct result raise_epoch(struct pg *pg, const struct uuid *organisation, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_uuid(&arguments, organisation);
    return pg_run(pg, &content_hold_raise_epoch_sql, &arguments, NULL, err);
}

static struct result check_scope(const struct resource *scope, struct error *err)
{
    assert(scope->kind != RESOURCE_SYSTEM);
    if (!uuid_is_nil(scope->kind == RESOURCE_ORGANISATION ? &scope->organisation : &scope->project)) return SUCCESS;
    return failure(err, ERROR_NOT_FOUND, "there is no such organisation or project");
}

static struct result run_hold(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    const struct content_hold *hold = (const struct content_hold *)(const void *)change; /* its first member */
    const struct resource *scope = permit_resource(permit, ACTION_CONTENT_HOLD);
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    TRY(check_scope(scope, err));
    pg_add_uuid(&arguments, &hold->id);
    add_scope(&arguments, scope);
    pg_add_text(&arguments, hold->reason);
    pg_add_text(&arguments, hold->by);
    pg_add_int8(&arguments, CONTENT_HOLDS_MAX);
    TRY(pg_run(pg, &content_hold_insert_sql, &arguments, &rows, err));
    if (pg_rows_affected(rows) == 1) return raise_epoch(pg, &scope->organisation, err);
    return failure(err, ERROR_LIMIT, "%d holds are in force in this organisation: use a wider scope", CONTENT_HOLDS_MAX);
}

void content_hold_init(struct content_hold *hold, const struct principal *by, const char *reason)
{
    *hold = (struct content_hold){
        .change = {.run = run_hold, .raises_epoch = true, .detail = hold->detail}, .id = uuid_random(), .reason = reason};
    principal_key(by, hold->by);
    uuid_format(&hold->id, hold->detail);
}

/* ---- the end ---- */

static struct result find(struct pg *pg, const struct uuid *id, const struct resource *scope, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, id);
    add_scope(&arguments, scope);
    TRY(pg_run(pg, &content_hold_find_sql, &arguments, &rows, err));
    return pg_rows_count(rows) == 1 ? SUCCESS : failure(err, ERROR_NOT_FOUND, "no such hold is in force on this scope");
}

static struct result run_release(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    const struct content_release *release = (const struct content_release *)(const void *)change; /* its first member */
    const struct resource *scope = permit_resource(permit, release->action);
    const bool is_last = release->action == ACTION_CONTENT_FREE;
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;
    struct uuid id;

    if (!uuid_parse(bytes_of_text(scope->detail), &id)) return failure(err, ERROR_NOT_FOUND, "no such hold is in force");
    TRY(check_scope(scope, err));
    TRY(find(pg, &id, scope, err));
    pg_add_uuid(&arguments, &id);
    add_scope(&arguments, scope);
    pg_add_text(&arguments, release->text);
    pg_add_text(&arguments, release->by);
    TRY(pg_run(pg, is_last ? &content_hold_free_sql : &content_hold_ask_sql, &arguments, &rows, err));
    if (pg_rows_affected(rows) == 1) return SUCCESS;
    return failure(err, ERROR_CONFLICT, "the person that you name has not asked for the release in the last seven days");
}

void content_release_init(struct content_release *release, enum action action, const struct principal *by, const char *text)
{
    assert(action == ACTION_CONTENT_RELEASE || action == ACTION_CONTENT_FREE);
    *release = (struct content_release){
        .change = {.run = run_release, .invalidates = CHANGE_INVALIDATES_NOTHING}, .action = action, .text = text};
    principal_key(by, release->by);
}

/* ---- rows ---- */

static const char *state_of(const char *text)
{
    static const char *const states[] = {"held", "releasing", "released"};

    for (size_t i = 0; i < sizeof states / sizeof states[0]; i++)
        if (strcmp(states[i], text) == 0) return states[i];
    return "held";
}

static void read_row(const struct pg_rows *rows, size_t row, struct content_hold_row *row_out)
{
    row_out->id = pg_uuid(rows, row, 0);
    row_out->state = state_of(pg_text(rows, row, 1));
    (void)text_copy(row_out->on, sizeof row_out->on, pg_text(rows, row, 2));
    (void)text_copy(row_out->reason, sizeof row_out->reason, pg_text(rows, row, 3));
    (void)text_copy(row_out->release_reason, sizeof row_out->release_reason, pg_text(rows, row, 4));
    (void)text_copy(row_out->set_by, sizeof row_out->set_by, pg_text(rows, row, 5));
    (void)text_copy(row_out->asked_by, sizeof row_out->asked_by, pg_text(rows, row, 6));
    (void)text_copy(row_out->released_by, sizeof row_out->released_by, pg_text(rows, row, 7));
    row_out->set_ms = pg_time_ms(rows, row, 8);
    row_out->asked_ms = pg_time_ms(rows, row, 9);
    row_out->released_ms = pg_time_ms(rows, row, 10);
}

struct result content_hold_list(const struct permit *permit, struct pg *pg, const struct content_hold_query *query,
                                struct content_hold_row **rows_out, size_t *count_out, struct error *err)
{
    const struct resource *scope = permit_resource(permit, ACTION_CONTENT_HOLDS);
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    assert(query->limit <= CONTENT_HOLD_PAGE_MAX && scope->kind != RESOURCE_REPOSITORY);
    pg_add_uuid(&arguments, or_null(&scope->organisation));
    pg_add_uuid(&arguments, or_null(&scope->project));
    pg_add_uuid(&arguments, query->after);
    pg_add_int8(&arguments, (int64_t)query->limit);
    TRY(pg_run(pg, &content_hold_list_sql, &arguments, &rows, err));
    struct content_hold_row *list = memory_zeroed(pg_rows_count(rows) + 1, sizeof *list);
    if (list == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a list");
    for (size_t i = 0; i < pg_rows_count(rows); i++) read_row(rows, i, &list[i]);
    *rows_out = list;
    *count_out = pg_rows_count(rows);
    return SUCCESS;
}

/* ---- signed holds ---- */

#define COLUMNS 4

static void add_rows(struct pg_arguments *arguments, struct bytes *values, char (*times)[CLOCK_TEXT_SIZE],
                     const struct hold_row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        clock_format(rows[i].until_ms, times[i]);
        values[i] = bytes_of_text(rows[i].name);
        values[count + i] = bytes_of_text(rows[i].content);
        values[2 * count + i] = bytes_of_text(rows[i].digest);
        values[3 * count + i] = bytes_of_text(times[i]);
    }
    for (size_t column = 0; column < COLUMNS; column++) pg_add_text_array(arguments, values + column * count, count);
}

struct result hold_rows_write(struct pg *pg, const struct hold_row *rows, size_t count, int64_t *changed_out, struct error *err)
{
    struct bytes *values = memory_zeroed(COLUMNS * count + 1, sizeof *values);
    char(*times)[CLOCK_TEXT_SIZE] = memory_zeroed(count + 1, sizeof *times);
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *answer = NULL;
    struct result written = SUCCESS;

    if (values == NULL || times == NULL) {
        written = failure(err, ERROR_NO_MEMORY, "no memory for holds");
    } else {
        add_rows(&arguments, values, times, rows, count);
        written = pg_run(pg, &signed_hold_write_sql, &arguments, &answer, err);
    }
    free(times);
    free(values);
    if (written.ok) *changed_out = pg_int8(answer, 0, 0);
    return written;
}
