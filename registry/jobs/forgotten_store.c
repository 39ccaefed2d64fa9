/* The table `forgotten_key`. */
#include <stdio.h>

#include "audit/job_permit.h"
#include "base/clock.h"
#include "base/memory.h"
#include "registry/jobs/forgotten.h"
#include "registry/jobs/maintenance.h"
#include "registry/jobs/statements.h"
#include "registry/maintenance.h"
#include "registry/registry_priv.h"
#include "storage/pg_table.h"

enum {
    DROP_MAX = 5000, /* in one round; with more, all keys are dropped */
    RECORD_MAX = 50,
};

/* clang-format off */
#define NAMES " JOIN project p USING (project_id) JOIN organisation o USING (organisation_id)"
#define COLUMNS                                                                                                  \
    "f.blob_id, f.project_id, p.organisation_id, coalesce(p.deleted_name, o.name || '/' || p.name), f.region_id, f.digest, f.size_bytes,"  \
    " f.key_version, f.forgotten_at"
#define COLUMN_TYPES "uuid uuid uuid text text text int8 int4 timestamptz"

/* Longer than a key is served from the cache, and than a transaction can last after its trigger ran. */
static const struct pg_statement forgotten_lately_sql = {
    "forgotten_lately",
    "SELECT blob_id FROM forgotten_key WHERE forgotten_at > now() - interval '90 s' ORDER BY forgotten_at DESC LIMIT $1",
    "int8", "uuid"};
static const struct pg_statement forgotten_claim_sql = {
    "forgotten_claim",
    "UPDATE forgotten_key f SET claimed_until = now() + interval '60 s' FROM project p, organisation o"
    " WHERE p.project_id = f.project_id AND o.organisation_id = p.organisation_id AND f.blob_id IN (SELECT blob_id FROM"
    " forgotten_key WHERE sequence IS NULL AND (claimed_until IS NULL OR claimed_until < now()) ORDER BY forgotten_at"
    " LIMIT $1 FOR UPDATE SKIP LOCKED) RETURNING " COLUMNS,
    "int8", COLUMN_TYPES};
static const struct pg_statement forgotten_record_sql = {
    "forgotten_record", "UPDATE forgotten_key SET sequence = $2 WHERE blob_id = $1 AND sequence IS NULL", "uuid int8", ""};
static const struct pg_statement forgotten_find_sql = {
    "forgotten_find",
    "SELECT " COLUMNS ", f.sequence, EXISTS (SELECT FROM blob b WHERE b.project_id = f.project_id AND b.digest = f.digest)"
    " FROM forgotten_key f" NAMES " WHERE f.project_id = $1 AND f.digest = $2 ORDER BY f.forgotten_at DESC LIMIT 1",
    "uuid text", COLUMN_TYPES " int8 bool"};
static const struct pg_statement forgotten_find_deleted_sql = {
    "forgotten_find_deleted", /* in a deleted project, by its former name */
    "SELECT " COLUMNS ", f.sequence, EXISTS (SELECT FROM blob b WHERE b.project_id = f.project_id AND b.digest = f.digest)"
    " FROM project p JOIN organisation o USING (organisation_id) JOIN forgotten_key f USING (project_id)"
    " WHERE p.deleted_at IS NOT NULL AND p.deleted_name = $1 AND ($2::uuid IS NULL OR p.organisation_id = $2) AND f.digest = $3"
    " ORDER BY f.forgotten_at DESC LIMIT 1",
    "text uuid text", COLUMN_TYPES " int8 bool"};
static const struct pg_statement forgotten_stored_sql = {
    "forgotten_stored", /* one row if it is stored: whether a manifest refers to it, and its lease */
    "SELECT bool_or(EXISTS (SELECT FROM repository_blob r JOIN manifest_reference m USING (repository_id, digest)"
    " WHERE r.blob_id = b.blob_id AND NOT m.is_manifest)), max(b.lease_until), max(b.lease_until) > now()"
    " FROM blob b WHERE b.project_id = $1 AND b.digest = $2 HAVING count(*) > 0",
    "uuid text", "bool timestamptz bool"};
static const struct pg_statement *const statements[] = {
    &forgotten_lately_sql, &forgotten_claim_sql, &forgotten_record_sql, &forgotten_find_sql, &forgotten_find_deleted_sql,
    &forgotten_stored_sql,
};
/* clang-format on */
const struct pg_table forgotten_statements = PG_TABLE(statements);

struct result registry_drop_forgotten(struct registry *registry, struct pg *pg, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_int8(&arguments, DROP_MAX);
    TRY(pg_run(pg, &forgotten_lately_sql, &arguments, &rows, err));
    const size_t count = pg_rows_count(rows);
    struct uuid *ids = count == DROP_MAX ? NULL : memory_zeroed(count + 1, sizeof *ids);
    if (ids == NULL) {
        registry_forget_keys(registry);
        return SUCCESS;
    }
    for (size_t i = 0; i < count; i++) ids[i] = pg_uuid(rows, i, 0);
    key_cache_forget(registry->keys, ids, count);
    free(ids);
    return SUCCESS;
}

static struct forgotten_key read_key(const struct pg_rows *rows, size_t row)
{
    struct forgotten_key key = {
        .blob = pg_uuid(rows, row, 0), .project = pg_uuid(rows, row, 1), .organisation = pg_uuid(rows, row, 2)};

    (void)snprintf(key.name, sizeof key.name, "%s", pg_text(rows, row, 3));
    (void)snprintf(key.region, sizeof key.region, "%s", pg_text(rows, row, 4));
    (void)snprintf(key.digest, sizeof key.digest, "%s", pg_text(rows, row, 5));
    key.size_bytes = (uint64_t)pg_int8(rows, row, 6);
    key.key_version = (uint32_t)pg_int8(rows, row, 7);
    key.forgotten_ms = pg_time_ms(rows, row, 8);
    return key;
}

/* Records the event, then stores its number. If the gateway is killed in between, the event is recorded again; it is never
 * lost. */
static struct result record(struct registry *registry, struct pg *pg, const struct forgotten_key *key, struct error *err)
{
    struct action_pair pair = {
        .action = ACTION_KEY_FORGOTTEN,
        .resource = {.kind = RESOURCE_PROJECT, .organisation = key->organisation, .project = key->project}};
    struct pg_arguments arguments = {0};
    OWNED(permit) *permit = NULL;

    (void)snprintf(pair.resource.name, sizeof pair.resource.name, "%s", key->name);
    (void)snprintf(pair.resource.region, sizeof pair.resource.region, "%s", key->region);
    (void)snprintf(pair.resource.detail, sizeof pair.resource.detail, "%s", key->digest);
    TRY(permit_for_job(registry->sequencer, &pair, &permit, err));
    pg_add_uuid(&arguments, &key->blob);
    pg_add_int8(&arguments, (int64_t)permit_sequence(permit));
    return pg_run(pg, &forgotten_record_sql, &arguments, NULL, err);
}

struct result registry_record_forgotten(struct registry *registry, struct pg *pg, size_t *count_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_int8(&arguments, RECORD_MAX);
    TRY(pg_run(pg, &forgotten_claim_sql, &arguments, &rows, err));
    const size_t count = pg_rows_count(rows);
    for (size_t i = 0; i < count; i++) {
        const struct forgotten_key key = read_key(rows, i);
        TRY(record(registry, pg, &key, err));
    }
    *count_out = count;
    return SUCCESS;
}

/* The first step that is still needed before the key can be forgotten. registry/jobs/collect_store.c has the same conditions. */
static struct result explain_stored(const struct pg_rows *rows, struct error *err)
{
    char until[CLOCK_TEXT_SIZE];

    if (pg_bool(rows, 0, 0))
        return failure(err, ERROR_CONFLICT, "it is stored, and a manifest refers to it: delete that by its digest first");
    clock_format(pg_time_ms(rows, 0, 1), until);
    if (pg_bool(rows, 0, 2))
        return failure(err, ERROR_CONFLICT,
                       "it is stored, and safe until %s, because somebody pushed it or was told of it: collect after that",
                       until);
    return failure(err, ERROR_CONFLICT, "it is stored, and nothing needs it: its key is forgotten when the garbage is collected");
}

static struct result explain_absence(struct pg *pg, const struct resource *where, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, &where->project);
    pg_add_text(&arguments, where->detail);
    TRY(pg_run(pg, &forgotten_stored_sql, &arguments, &rows, err));
    if (pg_rows_count(rows) > 0) return explain_stored(rows, err);
    return failure(err, ERROR_NOT_FOUND, "nothing of that digest was deleted in this project");
}

struct result forgotten_key_find(const struct permit *permit, struct pg *pg, const struct resource *where,
                                 struct forgotten_key *key_out, struct error *err)
{
    const bool is_deleted = uuid_is_nil(&where->project);
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    permit_require(permit, ACTION_DELETION_CERTIFY, where);
    if (is_deleted) {
        pg_add_text(&arguments, where->name);
        pg_add_uuid(&arguments, uuid_is_nil(&where->organisation) ? NULL : &where->organisation);
    } else {
        pg_add_uuid(&arguments, &where->project);
    }
    pg_add_text(&arguments, where->detail);
    TRY(pg_run(pg, is_deleted ? &forgotten_find_deleted_sql : &forgotten_find_sql, &arguments, &rows, err));
    if (pg_rows_count(rows) == 0) return explain_absence(pg, where, err);
    if (pg_is_null(rows, 0, 9))
        return failure(err, ERROR_UNAVAILABLE, "it was just deleted, and its event is about to be recorded: ask again");
    struct forgotten_key key = read_key(rows, 0);
    key.sequence = (uint64_t)pg_int8(rows, 0, 9);
    key.is_stored_again = pg_bool(rows, 0, 10);
    *key_out = key;
    return SUCCESS;
}
