#include <stdio.h>

#include "base/memory.h"
#include "registry/collect_priv.h"

#define OPEN "state IN ('waiting', 'running')"
/* Whoever may ask may ask again, but not fill the table or keep others out. */
#define OPEN_MAX         "200"
#define OPEN_OF_ONE_MAX  "4"

static const struct pg_statement statements[] = {
    {"collection_insert",
     "WITH old AS (DELETE FROM collection WHERE NOT " OPEN " AND requested_at < now() - interval '90 days')"
     " INSERT INTO collection (collection_id, project_id, is_dry_run, rules) SELECT $1, $2, $3, $4"
     " WHERE (SELECT count(*) FROM collection WHERE " OPEN ") < " OPEN_MAX
     " AND (SELECT count(*) FROM collection WHERE " OPEN " AND project_id IS NOT DISTINCT FROM $2) < " OPEN_OF_ONE_MAX,
     "uuid uuid bool text", ""},
    {"collection_is_due",
     "SELECT NOT EXISTS (SELECT FROM collection WHERE project_id IS NULL AND NOT is_dry_run"
     " AND requested_at > now() - $1::int8 * interval '1 second')",
     "int8", "bool"},
    {"collection_take", /* a runner that said nothing for a minute is dead, or stops at its next step */
     "UPDATE collection SET state = 'running', runner = $1, begun_at = coalesce(begun_at, now()), beat_at = now()"
     " WHERE collection_id = (SELECT collection_id FROM collection WHERE state = 'waiting'"
     " OR (state = 'running' AND beat_at < now() - interval '60 seconds') ORDER BY requested_at LIMIT 1 FOR UPDATE SKIP LOCKED)"
     " RETURNING collection_id, project_id, is_dry_run, rules, report",
     "uuid", "uuid uuid bool text text"},
    {"collection_save",
     "UPDATE collection SET state = $3, report = $4, beat_at = now(),"
     " ended_at = CASE WHEN $3 IN ('done', 'failed') THEN now() END"
     " WHERE collection_id = $1 AND runner = $2 AND state = 'running'",
     "uuid uuid text text", ""},
    {"collection_list",
     "SELECT c.collection_id, coalesce(o.name || '/' || p.name, ''), c.state, c.is_dry_run, c.requested_at, c.begun_at, c.ended_at,"
     " CASE WHEN $2::uuid IS NULL THEN '{}' ELSE c.report END"
     " FROM collection c LEFT JOIN project p USING (project_id) LEFT JOIN organisation o USING (organisation_id)"
     " WHERE ($1::uuid IS NULL OR c.project_id = $1) AND ($2::uuid IS NULL OR c.collection_id = $2)"
     " AND ($3::uuid IS NULL OR (c.requested_at, c.collection_id) <"
     " (SELECT requested_at, collection_id FROM collection WHERE collection_id = $3))"
     " ORDER BY c.requested_at DESC, c.collection_id DESC LIMIT $4",
     "uuid uuid uuid int8", "uuid text text bool timestamptz timestamptz timestamptz text"},
};
const struct pg_table collection_statements = PG_TABLE(statements);

static struct result run_request(struct change *change, struct pg *pg, const struct permit *permit, struct error *err)
{
    const struct collection_request *request = (const struct collection_request *)(const void *)change; /* its first member */
    const bool is_of_project = request->where.kind == RESOURCE_PROJECT;
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    permit_require(permit, ACTION_STORAGE_COLLECT, &request->where);
    pg_add_uuid(&arguments, &request->collection);
    pg_add_uuid(&arguments, is_of_project ? &request->where.project : NULL);
    pg_add_bool(&arguments, request->is_dry_run);
    pg_add_text(&arguments, request->rules);
    TRY(pg_run(pg, "collection_insert", &arguments, &rows, err));
    if (pg_rows_affected(rows) == 1) return SUCCESS;
    return failure(err, ERROR_CONFLICT, "several collections wait already: look at them before asking for another");
}

struct result collection_request_prepare(const struct resource *where, bool is_dry_run, const char *rules,
                                         struct collection_request *request_out, struct error *err)
{
    const bool is_of_project = where->kind == RESOURCE_PROJECT;

    if (is_of_project && uuid_is_nil(&where->project)) return failure(err, ERROR_NOT_FOUND, "there is no such project");
    if (rules != NULL && (!is_dry_run || !is_of_project))
        return failure(err, ERROR_INVALID, "rules are tried in a dry run of one project; set them first to use them");
    *request_out = (struct collection_request){.change = {.run = run_request, .reach = CHANGE_REACHES_NOTHING}, .where = *where,
                                               .collection = uuid_random(), .is_dry_run = is_dry_run, .rules = rules};
    return SUCCESS;
}

struct result collection_is_due(struct pg *pg, int64_t interval_s, bool *is_due_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_int8(&arguments, interval_s);
    TRY(pg_run(pg, "collection_is_due", &arguments, &rows, err));
    *is_due_out = pg_bool(rows, 0, 0);
    return SUCCESS;
}

/* What an earlier runner removed is gone, and counts. */
static void read_totals(const char *report, struct collect_totals *totals)
{
    struct error ignored = {0};
    OWNED_JSON object = NULL;

    if (!json_read(bytes_of_text(report), COLLECTION_REPORT_MAX, &object, &ignored).ok) return;
    (void)json_integer_of(object, "blobs", &totals->blobs);
    (void)json_integer_of(object, "bytes", &totals->bytes);
    (void)json_integer_of(object, "manifests", &totals->manifests);
    (void)json_integer_of(object, "tags", &totals->tags);
    (void)json_integer_of(object, "sessions", &totals->sessions);
}

struct result collection_row_take(struct pg *pg, const struct uuid *runner, struct collect_run *run, struct pg_rows **rows_out,
                                  struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, runner);
    TRY(pg_run(pg, "collection_take", &arguments, &rows, err));
    if (pg_rows_count(rows) > 0) {
        run->id = pg_uuid(rows, 0, 0);
        if (!pg_is_null(rows, 0, 1)) run->only = pg_uuid(rows, 0, 1);
        run->is_dry_run = pg_bool(rows, 0, 2);
        if (!pg_is_null(rows, 0, 3)) run->try_rules = pg_text(rows, 0, 3);
        if (!run->is_dry_run) read_totals(pg_text(rows, 0, 4), &run->totals);
    }
    *rows_out = GIVE(rows);
    return SUCCESS;
}

struct result collection_row_save(struct pg *pg, const struct collect_run *run, const char *state, const char *report,
                                  struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, &run->id);
    pg_add_uuid(&arguments, &run->runner->id);
    pg_add_text(&arguments, state);
    pg_add_text(&arguments, report);
    TRY(pg_run(pg, "collection_save", &arguments, &rows, err));
    return pg_rows_affected(rows) == 1 ? SUCCESS : failure(err, ERROR_CONFLICT, "another gateway has this collection now");
}

static void read_record(const struct pg_rows *rows, size_t row, struct collection_record *record)
{
    record->id = pg_uuid(rows, row, 0);
    (void)snprintf(record->project, sizeof record->project, "%s", pg_text(rows, row, 1));
    (void)snprintf(record->state, sizeof record->state, "%s", pg_text(rows, row, 2));
    record->is_dry_run = pg_bool(rows, row, 3);
    record->requested_ms = pg_time_ms(rows, row, 4);
    record->begun_ms = pg_time_ms(rows, row, 5);
    record->ended_ms = pg_time_ms(rows, row, 6);
    record->report = pg_text(rows, row, 7);
}

struct result collection_list(struct pg *pg, const struct collection_query *query, struct collection_page **page_out,
                              struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    permit_require(query->permit, ACTION_STORAGE_COLLECT, query->where);
    pg_add_uuid(&arguments, query->where->kind == RESOURCE_PROJECT ? &query->where->project : NULL);
    pg_add_uuid(&arguments, uuid_is_nil(&query->id) ? NULL : &query->id);
    pg_add_uuid(&arguments, uuid_is_nil(&query->last) ? NULL : &query->last);
    pg_add_int8(&arguments, (int64_t)query->limit + 1); /* one more tells whether another page follows */
    TRY(pg_run(pg, "collection_list", &arguments, &rows, err));
    const size_t found = pg_rows_count(rows);
    OWNED(collection_page) *page = memory_zeroed(1, sizeof *page);
    if (page == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a list");
    page->has_more = found > query->limit;
    page->count = page->has_more ? query->limit : found;
    page->records = memory_zeroed(page->count + 1, sizeof *page->records);
    if (page->records == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a list");
    for (size_t i = 0; i < page->count; i++) read_record(rows, i, &page->records[i]);
    page->rows = GIVE(rows);
    *page_out = GIVE(page);
    return SUCCESS;
}

void collection_page_free(struct collection_page *page)
{
    if (page == NULL) return;
    pg_rows_free(page->rows);
    free(page->records);
    free(page);
}
