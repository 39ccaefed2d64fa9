/* The table `project_copy`: which regions of a project are to have copies, who works on them, and what was found. */
#include <stdio.h>

#include "registry/copies/copies_priv.h"
#include "storage/pg_table.h"

/* clang-format off */
static const struct pg_statement copy_place_find_sql = {
    "copy_place_find",
    "SELECT p.home_region = $2, c.region_id IS NOT NULL AND c.withdrawn_at IS NULL, (SELECT count(*) FROM project_copy n"
    " WHERE n.project_id = $1 AND n.withdrawn_at IS NULL), c.region_id IS NOT NULL,"
    " EXISTS (SELECT FROM project_copy m WHERE m.project_id = $1 AND m.move IS NOT NULL) FROM project p JOIN region g ON g.region_id = $2 AND g.retired_at IS NULL"
    " LEFT JOIN project_copy c ON c.project_id = p.project_id AND c.region_id = $2 WHERE p.project_id = $1 AND p.deleted_at IS NULL",
    "uuid text", "bool bool int8 bool bool"};
static const struct pg_statement copy_place_insert_sql = {
    "copy_place_insert",
    "INSERT INTO project_copy (project_id, region_id, move) VALUES ($1, $2, CASE WHEN $3 THEN 'to' END) ON CONFLICT (project_id, region_id)"
    " DO UPDATE SET withdrawn_at = NULL, move = nullif(project_copy.move, 'to'), asked_at = now(), due_at = now(), reviewed_version = 0, state = 'new', why = ''",
    "uuid text bool", ""};
static const struct pg_statement copy_place_withdraw_sql = {
    "copy_place_withdraw",
    "UPDATE project_copy SET withdrawn_at = now(), due_at = now(), state = 'withdrawing', why = '', waiting_blobs = 0, waiting_bytes = 0,"
    " waiting_since = NULL, denied_blobs = 0 WHERE project_id = $1 AND region_id = $2 AND withdrawn_at IS NULL",
    "uuid text", ""};
static const struct pg_statement copy_place_raise_epoch_sql = {
    "copy_place_raise_epoch", "WITH raised AS (SELECT raise_authorization_epoch($1, true) AS epoch) SELECT epoch FROM raised", "uuid", "int8"};
static const struct pg_statement copy_place_list_sql = {
    "copy_place_list",
    "SELECT c.region_id, c.withdrawn_at IS NOT NULL, c.state, c.why, b.blobs, b.bytes, c.waiting_blobs, c.waiting_bytes, c.denied_blobs,"
    " c.waiting_since, nullif(c.reviewed_at, '-infinity'), coalesce(c.move, '') FROM project_copy c CROSS JOIN LATERAL (SELECT count(*) AS blobs, coalesce(sum(size_bytes), 0)::int8 AS bytes"
    " FROM blob WHERE project_id = c.project_id AND region_id = c.region_id) b WHERE c.project_id = $1"
    " ORDER BY c.withdrawn_at IS NOT NULL, c.region_id COLLATE \"C\" LIMIT $2",
    "uuid int8", "text bool text text int8 int8 int8 int8 int8 timestamptz timestamptz text"};
/* A gateway that starts again under its name takes up its own claim. One that reads nothing of the home region comes when no other one has come for a minute: what is
 * not allowed any more must go. Nobody moves a home by fetching: manifests need the keys of both ends, and the other gateway would decide `replicate`. */
#define REACHED(home, copy) \
    home " = ANY(CASE WHEN " copy ".move = CASE WHEN " copy ".withdrawn_at IS NULL THEN 'to' ELSE 'from' END THEN $2 ELSE $3 END)"
static const struct pg_statement copy_place_claim_sql = {
    "copy_place_claim",
    "UPDATE project_copy c SET runner = $1, lease_until = now() + interval '30 seconds' FROM project p JOIN organisation o USING (organisation_id)"
    " WHERE p.project_id = c.project_id AND (c.project_id, c.region_id) = (SELECT d.project_id, d.region_id FROM project_copy d JOIN project q USING (project_id)"
    " WHERE d.due_at <= now() - CASE WHEN " REACHED("q.home_region", "d") " THEN interval '0' ELSE interval '1 minute' END AND d.region_id = ANY($2) AND (d.lease_until IS NULL OR d.lease_until <= now() OR d.runner = $1)"
    " ORDER BY d.due_at LIMIT 1 FOR UPDATE OF d SKIP LOCKED)"
    " RETURNING p.organisation_id, p.project_id, coalesce(p.deleted_name, o.name || '/' || p.name), p.home_region, c.region_id,"
    " c.withdrawn_at IS NOT NULL OR p.deleted_at IS NOT NULL, c.reviewed_version,"
    " least(extract(epoch FROM now() - greatest(c.reviewed_at, '1970-01-01')), 1e12)::int8, p.home_region = ANY($2), " REACHED("p.home_region", "c") ", p.deleted_at IS NOT NULL,"
    " coalesce(c.move, '') = 'to', coalesce(c.move, '') = 'from' AND p.deleted_at IS NULL",
    "text text[] text[]", "uuid uuid text text text bool int8 int8 bool bool bool bool bool"};
static const struct pg_statement copy_place_renew_sql = {
    "copy_place_renew",
    "UPDATE project_copy SET lease_until = now() + interval '30 seconds' WHERE project_id = $1 AND region_id = $2 AND runner = $3"
    " AND lease_until IS NOT NULL AND (withdrawn_at IS NULL OR $4)",
    "uuid text text bool", ""};
static const struct pg_statement copy_place_release_sql = {
    "copy_place_release", /* what a person has withdrawn meanwhile is due at once */
    "UPDATE project_copy SET lease_until = NULL, due_at = now() + CASE WHEN withdrawn_at IS NULL OR $13 THEN $4::int8 ELSE 0 END * interval '1 millisecond',"
    " state = CASE WHEN withdrawn_at IS NULL OR ($5 = 'held' AND move = 'from') THEN $5 ELSE 'withdrawing' END, why = $6, waiting_blobs = $7, waiting_bytes = $8, waiting_since = $9,"
    " denied_blobs = $10, reviewed_version = CASE WHEN $11 THEN $12 ELSE reviewed_version END, reviewed_at = CASE WHEN $11 THEN now() ELSE reviewed_at END"
    " WHERE project_id = $1 AND region_id = $2 AND runner = $3",
    "uuid text text int8 text text int8 int8 timestamptz int8 bool int8 bool", ""};
static const struct pg_statement copy_place_remove_sql = {
    "copy_place_remove",
    "DELETE FROM project_copy c USING project p WHERE c.project_id = $1 AND c.region_id = $2 AND p.project_id = c.project_id"
    " AND (c.withdrawn_at IS NOT NULL OR p.deleted_at IS NOT NULL)"
    " AND NOT EXISTS (SELECT FROM blob b WHERE b.project_id = $1 AND b.region_id = $2)"
    " AND NOT EXISTS (SELECT FROM copying w WHERE w.project_id = $1 AND w.region_id = $2)",
    "uuid text", ""};
static const struct pg_statement copy_place_count_sql = {
    "copy_place_count",
    "SELECT region_id, sum(waiting_blobs)::int8, sum(waiting_bytes)::int8, sum(denied_blobs)::int8,"
    " coalesce(extract(epoch FROM now() - min(waiting_since)), 0)::int8 FROM project_copy GROUP BY region_id ORDER BY region_id LIMIT $1",
    "int8", "text int8 int8 int8 int8"};
static const struct pg_statement *const statements[] = {
    &copy_place_find_sql, &copy_place_insert_sql, &copy_place_withdraw_sql, &copy_place_raise_epoch_sql, &copy_place_list_sql,
    &copy_place_claim_sql, &copy_place_renew_sql, &copy_place_release_sql, &copy_place_remove_sql, &copy_place_count_sql,
};
/* clang-format on */
const struct pg_table copy_place_statements = PG_TABLE(statements);

static void add_place(struct pg_arguments *arguments, const struct uuid *project, const char *region)
{
    pg_add_uuid(arguments, project);
    pg_add_text(arguments, region);
}

/* ---- Changes ---- */

static struct result check_place(struct pg *pg, const struct resource *where, bool is_move, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    add_place(&arguments, &where->project, where->region);
    TRY(pg_run(pg, &copy_place_find_sql, &arguments, &rows, err));
    if (pg_rows_count(rows) == 0)
        return failure(err, ERROR_NOT_FOUND, "there is no such project, or no region %.63s that is in use", where->region);
    if (pg_bool(rows, 0, 0)) return failure(err, ERROR_CONFLICT, "%.63s is the project's home region", where->region);
    if (is_move && pg_bool(rows, 0, 4)) return failure(err, ERROR_CONFLICT, "the project is on its way to another home already");
    if (is_move && pg_bool(rows, 0, 3))
        return failure(err, ERROR_CONFLICT, "%.63s has copies of this project: end them first, and wait until they are gone",
                       where->region);
    if (pg_bool(rows, 0, 1)) return failure(err, ERROR_CONFLICT, "%.63s has copies of this project already", where->region);
    if (pg_int8(rows, 0, 2) >= COPY_REGIONS_MAX)
        return failure(err, ERROR_CONFLICT, "a project has copies in at most %d regions", COPY_REGIONS_MAX);
    return SUCCESS;
}

static struct result withdraw_place(struct pg *pg, const struct resource *where, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    add_place(&arguments, &where->project, where->region);
    TRY(pg_run(pg, &copy_place_withdraw_sql, &arguments, &rows, err));
    if (pg_rows_affected(rows) == 1) return SUCCESS;
    return failure(err, ERROR_NOT_FOUND, "the project has no copies in the region %.63s", where->region);
}

static struct result insert_place(struct pg *pg, const struct resource *where, bool is_move, struct error *err)
{
    struct pg_arguments arguments = {0};

    TRY(check_place(pg, where, is_move, err));
    add_place(&arguments, &where->project, where->region);
    pg_add_bool(&arguments, is_move);
    return pg_run(pg, &copy_place_insert_sql, &arguments, NULL, err);
}

static struct result run_place(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    const struct copy_place_change *place = (const struct copy_place_change *)(const void *)change; /* its first member */
    const struct resource *where = &place->where;
    struct pg_arguments arguments = {0};

    permit_require(permit, place->action, where);
    TRY(place->action == ACTION_PROJECT_WITHDRAW ? withdraw_place(pg, where, err)
                                                 : insert_place(pg, where, place->action == ACTION_PROJECT_MIGRATE, err));
    pg_add_uuid(&arguments, &where->organisation);
    return pg_run(pg, &copy_place_raise_epoch_sql, &arguments, NULL, err);
}

void copy_place_prepare(const struct resource *where, enum action action, struct copy_place_change *change_out)
{
    *change_out =
        (struct copy_place_change){.change = {.run = run_place, .raises_epoch = true}, .where = *where, .action = action};
}

/* ---- Reading ---- */

static void read_place(const struct pg_rows *rows, size_t row, struct copy_place *place)
{
    *place = (struct copy_place){.is_withdrawn = pg_bool(rows, row, 1),
                                 .blobs = (uint64_t)pg_int8(rows, row, 4),
                                 .bytes = (uint64_t)pg_int8(rows, row, 5),
                                 .waiting_blobs = (uint64_t)pg_int8(rows, row, 6),
                                 .waiting_bytes = (uint64_t)pg_int8(rows, row, 7),
                                 .denied_blobs = (uint64_t)pg_int8(rows, row, 8)};
    (void)snprintf(place->region, sizeof place->region, "%s", pg_text(rows, row, 0));
    (void)snprintf(place->state, sizeof place->state, "%s", pg_text(rows, row, 2));
    (void)snprintf(place->why, sizeof place->why, "%s", pg_text(rows, row, 3));
    (void)snprintf(place->move, sizeof place->move, "%s", pg_text(rows, row, 11));
    if (!pg_is_null(rows, row, 9)) place->waiting_since_ms = pg_time_ms(rows, row, 9);
    if (!pg_is_null(rows, row, 10)) place->looked_ms = pg_time_ms(rows, row, 10);
}

struct result copy_place_list(const struct permit *permit, struct pg *pg, struct copy_place places_out[COPY_REGIONS_MAX],
                              size_t *count_out, struct error *err)
{
    const struct resource *where = permit_resource(permit, ACTION_PROJECT_READ);
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, &where->project);
    pg_add_int8(&arguments, COPY_REGIONS_MAX);
    TRY(pg_run(pg, &copy_place_list_sql, &arguments, &rows, err));
    for (size_t i = 0; i < pg_rows_count(rows); i++) read_place(rows, i, &places_out[i]);
    *count_out = pg_rows_count(rows);
    return SUCCESS;
}

/* ---- The copier's claim ---- */

struct result copy_place_claim(struct pg *pg, const struct copy_served *served, const char *instance,
                               struct copy_claim *claim_out, bool *found_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_text(&arguments, instance);
    pg_add_text_array(&arguments, served->ids, served->count);
    pg_add_text_array(&arguments, served->reached, served->reached_count);
    TRY(pg_run(pg, &copy_place_claim_sql, &arguments, &rows, err));
    *found_out = pg_rows_count(rows) > 0;
    if (!*found_out) return SUCCESS;
    *claim_out = (struct copy_claim){
        .way = {.organisation = pg_uuid(rows, 0, 0), .project = pg_uuid(rows, 0, 1), .is_move = pg_bool(rows, 0, 11)},
        .was_home = pg_bool(rows, 0, 12),
        .is_withdrawn = pg_bool(rows, 0, 5),
        .reviewed_version = (uint64_t)pg_int8(rows, 0, 6),
        .reviewed_age_s = pg_int8(rows, 0, 7),
        .is_home_served = pg_bool(rows, 0, 8),
        .is_home_reached = pg_bool(rows, 0, 9),
        .is_deleted = pg_bool(rows, 0, 10)};
    (void)snprintf(claim_out->way.name, sizeof claim_out->way.name, "%s", pg_text(rows, 0, 2));
    (void)snprintf(claim_out->way.from, sizeof claim_out->way.from, "%s", pg_text(rows, 0, 3));
    (void)snprintf(claim_out->way.to, sizeof claim_out->way.to, "%s", pg_text(rows, 0, 4));
    return SUCCESS;
}

struct result copy_place_renew(struct pg *pg, const struct copy_claim *claim, const char *instance, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    add_place(&arguments, &claim->way.project, claim->way.to);
    pg_add_text(&arguments, instance);
    pg_add_bool(&arguments, claim->is_withdrawn);
    TRY(pg_run(pg, &copy_place_renew_sql, &arguments, &rows, err));
    return pg_rows_affected(rows) == 1
               ? SUCCESS
               : failure(err, ERROR_CONFLICT, "another gateway makes these copies now, or a person has withdrawn them");
}

struct result copy_place_release(const struct copy_round *round, unsigned pause_ms, struct error *err)
{
    static const char *const names[] = {
#define X(constant, name) [constant] = (name),
        COPY_STATES(X)
#undef X
    };
    struct pg_arguments arguments = {0};

    add_place(&arguments, &round->claim.way.project, round->claim.way.to);
    pg_add_text(&arguments, round->options->instance);
    pg_add_int8(&arguments, pause_ms);
    pg_add_text(&arguments, names[round->state]);
    pg_add_text(&arguments, round->why);
    pg_add_int8(&arguments, (int64_t)round->waiting_blobs);
    pg_add_int8(&arguments, (int64_t)round->waiting_bytes);
    if (round->waiting_since_ms == 0) pg_add_null(&arguments);
    else pg_add_time(&arguments, round->waiting_since_ms);
    pg_add_int8(&arguments, (int64_t)round->denied_blobs);
    pg_add_bool(&arguments, round->is_reviewed);
    pg_add_int8(&arguments, (int64_t)round->review_version);
    pg_add_bool(&arguments, round->claim.is_withdrawn);
    return pg_run(round->pg, &copy_place_release_sql, &arguments, NULL, err);
}

struct result copy_place_remove(struct pg *pg, const struct copy_way *way, struct error *err)
{
    struct pg_arguments arguments = {0};

    add_place(&arguments, &way->project, way->to);
    return pg_run(pg, &copy_place_remove_sql, &arguments, NULL, err);
}

struct result copy_place_count(struct pg *pg, struct copy_count *counts_out, size_t capacity, size_t *count_out,
                               struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_int8(&arguments, (int64_t)capacity);
    TRY(pg_run(pg, &copy_place_count_sql, &arguments, &rows, err));
    for (size_t i = 0; i < pg_rows_count(rows); i++) {
        counts_out[i] = (struct copy_count){.waiting_blobs = (uint64_t)pg_int8(rows, i, 1),
                                            .waiting_bytes = (uint64_t)pg_int8(rows, i, 2),
                                            .denied_blobs = (uint64_t)pg_int8(rows, i, 3),
                                            .lag_s = pg_int8(rows, i, 4)};
        (void)snprintf(counts_out[i].region, sizeof counts_out[i].region, "%s", pg_text(rows, i, 0));
    }
    *count_out = pg_rows_count(rows);
    return SUCCESS;
}
