#include "detection/detection_store_priv.h"

#include <assert.h>
#include <stdio.h>

#include "storage/pg_table.h"

/* clang-format off */
static const struct pg_statement detection_lock_sql = {
    "detection_lock", "SELECT pg_try_advisory_lock(7309, 0)", "", "bool"};
static const struct pg_statement detection_read_sql = {
    "detection_read", "SELECT at, done FROM audit_detection", "", "int8 int4"};
static const struct pg_statement detection_insert_sql = {
    "detection_insert", "INSERT INTO audit_detection (at) VALUES ($1) ON CONFLICT DO NOTHING", "int8", ""};
static const struct pg_statement detection_advance_sql = {
    "detection_advance", "WITH quick AS (SELECT set_config('synchronous_commit', 'off', true))"
                         " UPDATE audit_detection SET at = $1, done = 0 FROM quick WHERE at < $1", "int8", ""};
static const struct pg_statement detection_alarm_sql = {
    "detection_alarm", "UPDATE audit_detection SET at = $1, done = $2 + 1 WHERE at < $1 OR (at = $1 AND done <= $2)", "int8 int4", ""};
static const struct pg_statement detection_sizes_sql = {
    "detection_sizes",
    "SELECT coalesce((SELECT b.size_bytes FROM organisation o JOIN project p USING (organisation_id) JOIN blob b USING (project_id)"
    " WHERE o.name = w.organisation AND p.name = w.project AND b.region_id = w.region AND b.digest = w.digest LIMIT 1), 0)"
    " FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) WITH ORDINALITY AS w (organisation, project, region, digest, place)"
    " ORDER BY w.place",
    "text[] text[] text[] text[]", "int8"};
static const struct pg_statement detection_robot_sql = {
    "detection_robot",
    "SELECT split_part(x.each, ' ', 1) FROM (SELECT person, behind FROM robot WHERE name = $1 ORDER BY created_at DESC LIMIT 1) r,"
    " unnest(CASE WHEN cardinality(r.behind) > 0 THEN r.behind ELSE ARRAY[r.person] END) AS x(each) WHERE x.each <> 'unknown' LIMIT 16",
    "text", "text"};
/* OFFSET 0: the blob is looked up by its index, also in a plan from the time when the tables were empty. */
static const struct pg_statement detection_places_sql = {
    "detection_places",
    "SELECT r.full_name, r.repository_id, r.project_id, (extract(epoch FROM l.linked_at) * 1000000)::int8 FROM (SELECT blob_id FROM blob WHERE digest = $1 OFFSET 0) b"
    " JOIN LATERAL (SELECT repository_id, linked_at FROM repository_blob WHERE blob_id = b.blob_id OFFSET 0) l ON true"
    " JOIN repository r USING (repository_id) JOIN project p USING (project_id) WHERE r.deleted_at IS NULL AND p.deleted_at IS NULL"
    " ORDER BY l.linked_at, r.repository_id LIMIT $2",
    "text int8", "text uuid uuid int8"};
static const struct pg_statement detection_labelled_sql = {
    "detection_labelled",
    "SELECT f.digest FROM (SELECT repository_id FROM repository WHERE full_name = $1 AND deleted_at IS NULL OFFSET 0) r"
    " JOIN LATERAL (SELECT digest FROM manifest WHERE repository_id = r.repository_id AND digest = $2 AND label IS NOT NULL OFFSET 0) m ON true"
    " JOIN LATERAL (SELECT digest FROM manifest_reference WHERE repository_id = r.repository_id AND manifest_digest = m.digest AND NOT is_manifest"
    " ORDER BY digest LIMIT $3) f ON true",
    "text text int8", "text"};
static const struct pg_statement *const statements[] = {
    &detection_lock_sql, &detection_read_sql, &detection_insert_sql, &detection_advance_sql, &detection_alarm_sql, &detection_sizes_sql, &detection_robot_sql,
    &detection_places_sql, &detection_labelled_sql,
};
/* clang-format on */
const struct pg_table detection_table = PG_TABLE(statements);

struct result detection_lock(struct pg *pg, bool *is_mine_out, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;

    TRY(pg_run(pg, &detection_lock_sql, NULL, &rows, err));
    *is_mine_out = pg_bool(rows, 0, 0);
    return SUCCESS;
}

struct result detection_open(struct pg *pg, uint64_t first, struct detection_position *position_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_int8(&arguments, (int64_t)first);
    TRY(pg_run(pg, &detection_insert_sql, &arguments, NULL, err));
    TRY(pg_run(pg, &detection_read_sql, NULL, &rows, err));
    if (pg_rows_count(rows) != 1) return failure(err, ERROR_CORRUPT, "the position of the detection rules is missing");
    *position_out = (struct detection_position){(uint64_t)pg_int8(rows, 0, 0), (int32_t)pg_int8(rows, 0, 1)};
    return SUCCESS;
}

struct result detection_sizes(struct pg *pg, struct detection_blob *blobs, size_t count, struct error *err)
{
    struct bytes organisations[DETECTION_TOGETHER], projects[DETECTION_TOGETHER], regions[DETECTION_TOGETHER],
        digests[DETECTION_TOGETHER];
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    assert(count > 0 && count <= DETECTION_TOGETHER);
    for (size_t i = 0; i < count; i++) {
        organisations[i] = bytes_of_text(blobs[i].organisation);
        projects[i] = bytes_of_text(blobs[i].project);
        regions[i] = bytes_of_text(blobs[i].region);
        digests[i] = bytes_of_text(blobs[i].digest);
    }
    pg_add_text_array(&arguments, organisations, count);
    pg_add_text_array(&arguments, projects, count);
    pg_add_text_array(&arguments, regions, count);
    pg_add_text_array(&arguments, digests, count);
    TRY(pg_run(pg, &detection_sizes_sql, &arguments, &rows, err));
    if (pg_rows_count(rows) != count) return failure(err, ERROR_CORRUPT, "the sizes of blobs are not one for each");
    for (size_t i = 0; i < count; i++) blobs[i].size_bytes = (uint64_t)pg_int8(rows, i, 0);
    return SUCCESS;
}

struct result detection_persons_of_robot(struct pg *pg, const char *name, struct event_known *known, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_text(&arguments, name);
    TRY(pg_run(pg, &detection_robot_sql, &arguments, &rows, err));
    known->person_count = pg_rows_count(rows) < EVENT_PERSONS_MAX ? pg_rows_count(rows) : EVENT_PERSONS_MAX;
    for (size_t i = 0; i < known->person_count; i++)
        (void)snprintf(known->persons[i], sizeof known->persons[i], "%.79s", pg_text(rows, i, 0));
    return SUCCESS;
}

struct result detection_places(struct pg *pg, const char *digest, struct pg_rows **rows_out, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_text(&arguments, digest);
    pg_add_int8(&arguments, COPY_PLACES_MAX);
    return pg_run(pg, &detection_places_sql, &arguments, rows_out, err);
}

struct result detection_labelled_blobs(struct pg *pg, const char *name, const char *digest, struct pg_rows **rows_out,
                                       struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_text(&arguments, name);
    pg_add_text(&arguments, digest);
    pg_add_int8(&arguments, COPY_BLOBS_MAX);
    return pg_run(pg, &detection_labelled_sql, &arguments, rows_out, err);
}

size_t detection_place_count(const struct pg_rows *rows)
{
    return pg_rows_count(rows);
}

struct copy_place detection_place_of(const struct pg_rows *rows, size_t row)
{
    return (struct copy_place){pg_text(rows, row, 0), pg_uuid(rows, row, 1), pg_uuid(rows, row, 2), pg_int8(rows, row, 3)};
}

const char *detection_blob_at(const struct pg_rows *rows, size_t row)
{
    return pg_text(rows, row, 0);
}

struct result detection_advance(struct pg *pg, uint64_t at, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_int8(&arguments, (int64_t)at);
    return pg_run(pg, &detection_advance_sql, &arguments, NULL, err);
}

static struct result run_alarm(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    static const struct resource registry = {.kind = RESOURCE_SYSTEM};
    const struct alarm_change *self = (const struct alarm_change *)change; /* its first member */
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    permit_require(permit, ACTION_ALARM_RAISE, &registry);
    pg_add_int8(&arguments, (int64_t)self->position.at);
    pg_add_int4(&arguments, self->position.done);
    TRY(pg_run(pg, &detection_alarm_sql, &arguments, &rows, err));
    if (pg_rows_affected(rows) == 1) return SUCCESS;
    return failure(err, ERROR_CONFLICT, "this alarm was recorded before");
}

void alarm_change_init(struct alarm_change *change, const struct detection_position *position, const struct alarm *alarm)
{
    change->change = (struct change){.run = run_alarm, .invalidates = CHANGE_INVALIDATES_NOTHING, .detail = change->text};
    change->position = *position;
    alarm_text(alarm, change->text);
}
