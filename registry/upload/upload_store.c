#include "registry/upload/upload_store.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "registry/quota_store.h"
#include "registry/registry_priv.h"
#include "registry/stored_blob_store.h"
#include "storage/pg_table.h"

/* clang-format off */
#define CHECKPOINT_COLUMNS "writer_epoch, sequence, offset_bytes, checkpoint_epoch, checkpoint_digest"
#define CHECKPOINT_TYPES   "int8 int8 int8 int8 bytea"
#define OWNER              "upload_id = $1 AND repository_id = $2 AND region_id = $3 AND bound_to = $4 AND secret_hash = $5"
/* Moves the expiry at most once an hour, so that not each piece changes the index. */
#define GOES_ON                                                                                                    \
    "moved_at = now(), expires_at = CASE WHEN expires_at < now() + interval '23 hours' THEN now() + interval '24 hours' ELSE expires_at END"

#define IS_COUNTED(project) "EXISTS (SELECT FROM project_quota q WHERE q.project_id = " project " AND q.bytes_max IS NOT NULL)"

#define INSERT                                                                                                      \
    "INSERT INTO upload (upload_id, repository_id, project_id, region_id, blob_id, digest_algorithm, key_version,"   \
    " wrapped_key, commitment, bound_to, secret_hash, writer_epoch, organisation_id, issuer, subject)"              \
    " SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $14, p.organisation_id, $16, $17 FROM project p,"         \
    " LATERAL (SELECT count(*) AS whole, count(*) FILTER (WHERE bound_to = $10) AS own FROM upload WHERE project_id = $3) n," \
    " LATERAL (SELECT count(*) AS together FROM upload u WHERE u.organisation_id = p.organisation_id) s"             \
    " LEFT JOIN project_quota q ON q.project_id = $3 WHERE p.project_id = $3"                                        \
    " AND n.whole < coalesce(q.sessions_max, $12) AND n.own < coalesce(q.client_sessions_max, $13) AND s.together < $15" \
    " AND (q.bytes_max IS NULL OR q.bytes_used < q.bytes_max)"
#define INSERT_TYPES "uuid uuid uuid text uuid text int4 bytea bytea bytea bytea int8 int8 int8 int8 text text"

static const struct pg_statement upload_insert_sql = {
    "upload_insert", "WITH made AS (" INSERT " RETURNING 1) SELECT count(*), " IS_COUNTED("$3") " FROM made", INSERT_TYPES, "int8 bool"};
static const struct pg_statement upload_insert_in_one_trip_sql = {
    "upload_insert_in_one_trip", "WITH made AS (" INSERT " RETURNING 1) SELECT 1 / count(*), " IS_COUNTED("$3") " FROM made", INSERT_TYPES,
    "int8 bool"};
static const struct pg_statement upload_find_sql = {
    "upload_find",
    "SELECT blob_id, digest_algorithm, key_version, wrapped_key, commitment, " CHECKPOINT_COLUMNS ", reserved_bytes,"
    " " IS_COUNTED("u.project_id") " FROM upload u WHERE " OWNER " AND expires_at > now()",
    "uuid uuid text bytea bytea", "uuid text int4 bytea bytea " CHECKPOINT_TYPES " int8 bool"};
static const struct pg_statement upload_reserve_sql = {
    "upload_reserve", /* as much as is wished, or all that is left if that is enough */
    "WITH room AS (SELECT u.upload_id, u.project_id, u.reserved_bytes,"
    " least($4, q.bytes_max - q.bytes_used + u.reserved_bytes) AS wanted FROM upload u JOIN project_quota q USING (project_id)"
    " WHERE u.upload_id = $1 AND u.writer_epoch = $2 AND q.bytes_max - q.bytes_used + u.reserved_bytes >= $3),"
    " counted AS (UPDATE project_quota q SET bytes_used = q.bytes_used + r.wanted - r.reserved_bytes FROM room r"
    " WHERE q.project_id = r.project_id)"
    " UPDATE upload u SET reserved_bytes = r.wanted FROM room r WHERE u.upload_id = r.upload_id RETURNING u.reserved_bytes",
    "uuid int8 int8 int8", "int8"};
static const struct pg_statement upload_give_back_sql = {
    "upload_give_back",
    "WITH room AS (SELECT upload_id, project_id, reserved_bytes FROM upload WHERE upload_id = $1 AND writer_epoch = $2"
    " AND reserved_bytes > $3),"
    " counted AS (UPDATE project_quota q SET bytes_used = q.bytes_used + $3 - r.reserved_bytes FROM room r"
    " WHERE q.project_id = r.project_id)"
    " UPDATE upload u SET reserved_bytes = $3 FROM room r WHERE u.upload_id = r.upload_id",
    "uuid int8 int8", ""};
static const struct pg_statement upload_is_counted_sql = {
    "upload_is_counted",
    "SELECT " IS_COUNTED("u.project_id") " FROM upload u WHERE u.upload_id = $1 AND u.writer_epoch = $2", "uuid int8", "bool"};
static const struct pg_statement upload_claim_sql = {
    "upload_claim", /* the clock: the session may have ended while this waited for the row, after its own now() */
    "UPDATE upload SET writer_epoch = writer_epoch + 1, " GOES_ON " WHERE upload_id = $1 AND expires_at > clock_timestamp()"
    " RETURNING " CHECKPOINT_COLUMNS,
    "uuid", CHECKPOINT_TYPES};
static const struct pg_statement upload_save_sql = {
    "upload_save",
    "UPDATE upload SET checkpoint_epoch = $2, sequence = $3, offset_bytes = $4, checkpoint_digest = $5, " GOES_ON
    " WHERE upload_id = $1 AND writer_epoch = $2 AND sequence < $3",
    "uuid int8 int8 int8 bytea", ""};
static const struct pg_statement upload_goes_on_sql = {
    "upload_goes_on", "UPDATE upload SET " GOES_ON " WHERE upload_id = $1 AND writer_epoch = $2", "uuid int8", ""};
static const struct pg_statement upload_is_gone_sql = {
    "upload_is_gone",
    "SELECT NOT EXISTS (SELECT FROM upload WHERE upload_id = $1) AND NOT EXISTS (SELECT FROM blob WHERE blob_id = $2)",
    "uuid uuid", "bool"};
static const struct pg_statement upload_drop_sql = {
    "upload_drop",
    "WITH gone AS (DELETE FROM upload WHERE upload_id = $1 AND writer_epoch = $2" UPLOAD_ENDED ")," UPLOAD_RELEASE
    " INSERT INTO abandoned_object (blob_id, region_id) SELECT blob_id, region_id FROM gone",
    "uuid int8", ""};
static const struct pg_statement upload_cancel_sql = {
    "upload_cancel",
    "WITH gone AS (DELETE FROM upload WHERE " OWNER UPLOAD_ENDED ")," UPLOAD_RELEASE
    " INSERT INTO abandoned_object (blob_id, region_id) SELECT blob_id, region_id FROM gone RETURNING blob_id",
    "uuid uuid text bytea bytea", "uuid"};
static const struct pg_statement upload_expired_sql = {
    "upload_expired",
    UPLOADS_THAT_END "SELECT u.upload_id, u.blob_id, p.organisation_id, u.project_id, u.repository_id,"
    " coalesce(r.deleted_name, r.full_name), u.region_id, u.expires_at > now()"
    " FROM ending u JOIN repository r USING (repository_id) JOIN project p ON p.project_id = u.project_id"
    " ORDER BY u.expires_at LIMIT $5", "int8 int8 int8 int8 int8", "uuid uuid uuid uuid uuid text text bool"};
static const struct pg_statement upload_expire_sql = {
    "upload_expire", /* unless it made progress since it was listed */
    "WITH gone AS (DELETE FROM upload WHERE upload_id = $1 AND (expires_at <= now() OR " UPLOAD_IS_IDLE("$2") ")" UPLOAD_ENDED ")," UPLOAD_RELEASE
    " INSERT INTO abandoned_object (blob_id, region_id) SELECT blob_id, region_id FROM gone",
    "uuid int8", ""};
static const struct pg_statement *const statements[] = {
    &upload_insert_sql, &upload_insert_in_one_trip_sql, &upload_find_sql, &upload_reserve_sql, &upload_give_back_sql,
    &upload_is_counted_sql, &upload_claim_sql, &upload_save_sql, &upload_goes_on_sql, &upload_is_gone_sql, &upload_drop_sql,
    &upload_cancel_sql, &upload_expired_sql, &upload_expire_sql,
};
/* clang-format on */
const struct pg_table upload_statements = PG_TABLE(statements);

static const char *algorithm_name(enum digest_algorithm algorithm)
{
    return algorithm == DIGEST_SHA512 ? "sha512" : "sha256";
}

static void add_begun(struct pg_arguments *arguments, const struct upload_begin *begin)
{
    pg_add_uuid(arguments, &begin->location.upload);
    pg_add_uuid(arguments, &begin->repository);
    pg_add_uuid(arguments, &begin->where.project);
    pg_add_text(arguments, begin->where.region);
    pg_add_uuid(arguments, &begin->blob);
    pg_add_text(arguments, algorithm_name(begin->algorithm));
    key_record_add(arguments, &begin->key);
    pg_add_bytes(arguments, (struct bytes){begin->bound_to, sizeof begin->bound_to});
    pg_add_bytes(arguments, (struct bytes){begin->secret_hash, sizeof begin->secret_hash});
    pg_add_int8(arguments, begin->limits.per_project);
    pg_add_int8(arguments, begin->limits.per_client);
    pg_add_int8(arguments, UPLOAD_FIRST_EPOCH);
    pg_add_int8(arguments, begin->limits.per_organisation);
    pg_add_text(arguments, begin->issuer);
    pg_add_text(arguments, begin->subject);
}

struct result upload_row_insert(struct pg *pg, struct upload_begin *begin, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    add_begun(&arguments, begin);
    TRY(pg_run(pg, &upload_insert_sql, &arguments, &rows, err));
    const struct wanted_session wanted = {&begin->where.project, begin->bound_to, &begin->limits};
    if (pg_int8(rows, 0, 0) == 0) return quota_refuse_session(pg, &wanted, err);
    upload_row_take_begin(rows, begin);
    return SUCCESS;
}

struct result upload_row_add(struct pg *pg, const struct upload_begin *begin, struct error *err)
{
    struct pg_arguments arguments = {0};

    add_begun(&arguments, begin);
    return pg_pipeline_add(pg, &upload_insert_in_one_trip_sql, &arguments, err);
}

void upload_row_take_begin(const struct pg_rows *answer, struct upload_begin *begin)
{
    begin->is_counted = pg_bool(answer, 0, 1);
}

/* Reads CHECKPOINT_COLUMNS. */
static struct result read_checkpoint(const struct pg_rows *rows, size_t column, struct upload_row *row, struct error *err)
{
    const struct bytes digest = pg_bytes(rows, 0, column + 4);
    struct blob_checkpoint checkpoint = {
        .sequence = (uint64_t)pg_int8(rows, 0, column + 1),
        .offset = (uint64_t)pg_int8(rows, 0, column + 2),
        .writer_epoch = (uint64_t)pg_int8(rows, 0, column + 3),
    };

    if (checkpoint.sequence > 0) {
        if (digest.length != sizeof checkpoint.digest)
            return failure(err, ERROR_CORRUPT, "an upload's row has a checkpoint's digest of %zu bytes", digest.length);
        memcpy(checkpoint.digest, digest.data, digest.length);
    }
    row->writer_epoch = (uint64_t)pg_int8(rows, 0, column);
    row->checkpoint = checkpoint;
    return SUCCESS;
}

static void add_owner(struct pg_arguments *arguments, const struct upload_key *key)
{
    pg_add_uuid(arguments, &key->upload);
    pg_add_uuid(arguments, &key->repository);
    pg_add_text(arguments, key->region);
    pg_add_bytes(arguments, (struct bytes){key->bound_to, SHA256_SIZE});
    pg_add_bytes(arguments, (struct bytes){key->secret_hash, SHA256_SIZE});
}

struct result no_such_upload(struct error *err)
{
    return failure(err, ERROR_NOT_FOUND, "there is no such upload, or it has ended: begin a new one");
}

struct result upload_row_take_find(const struct pg_rows *answer, struct upload_row *row, bool *found_out, struct error *err)
{
    struct upload_row read = {.upload = row->upload};

    if (pg_rows_count(answer) == 0) {
        *found_out = false;
        return SUCCESS;
    }
    read.blob = read.key.id = pg_uuid(answer, 0, 0);
    read.algorithm = strcmp(pg_text(answer, 0, 1), "sha512") == 0 ? DIGEST_SHA512 : DIGEST_SHA256;
    TRY(key_record_read(answer, 0, 2, &read.key, err));
    TRY(read_checkpoint(answer, 5, &read, err));
    read.reserved = (uint64_t)pg_int8(answer, 0, 10);
    read.is_counted = pg_bool(answer, 0, 11);
    *row = read;
    *found_out = true;
    return SUCCESS;
}

struct result upload_row_find(struct pg *pg, const struct upload_key *key, struct upload_row *row, bool *found_out,
                              struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    add_owner(&arguments, key);
    TRY(pg_run(pg, &upload_find_sql, &arguments, &rows, err));
    return upload_row_take_find(rows, row, found_out, err);
}

struct result upload_row_add_find(struct pg *pg, const struct upload_key *key, struct error *err)
{
    struct pg_arguments arguments = {0};

    add_owner(&arguments, key);
    return pg_pipeline_add(pg, &upload_find_sql, &arguments, err);
}

struct result upload_row_claim(struct pg *pg, struct upload_row *row, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, &row->upload);
    TRY(pg_run(pg, &upload_claim_sql, &arguments, &rows, err));
    if (pg_rows_count(rows) == 0) return no_such_upload(err);
    return read_checkpoint(rows, 0, row, err);
}

static struct result lost(struct error *err)
{
    return failure(err, ERROR_CONFLICT, "another writer has taken this upload over, or it has ended");
}

struct result upload_row_save(struct pg *pg, const struct uuid *upload, const struct blob_checkpoint *checkpoint,
                              struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, upload);
    pg_add_int8(&arguments, (int64_t)checkpoint->writer_epoch);
    pg_add_int8(&arguments, (int64_t)checkpoint->sequence);
    pg_add_int8(&arguments, (int64_t)checkpoint->offset);
    pg_add_bytes(&arguments, (struct bytes){checkpoint->digest, sizeof checkpoint->digest});
    TRY(pg_run(pg, &upload_save_sql, &arguments, &rows, err));
    return pg_rows_affected(rows) == 1 ? SUCCESS : lost(err);
}

/* Nothing was reserved: the quota was removed, the session has ended, or there is no room. */
static struct result why_not_reserved(struct pg *pg, struct upload_row *upload, const struct upload_reservation *wanted,
                                      struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, &upload->upload);
    pg_add_int8(&arguments, (int64_t)upload->writer_epoch);
    TRY(pg_run(pg, &upload_is_counted_sql, &arguments, &rows, err));
    if (pg_rows_count(rows) == 0) return lost(err);
    if (pg_bool(rows, 0, 0)) return quota_refuse(pg, &wanted->project, (int64_t)(wanted->needed - upload->reserved), err);
    upload->is_counted = false;
    return SUCCESS;
}

struct result upload_row_reserve(struct pg *pg, struct upload_row *upload, const struct upload_reservation *wanted,
                                 struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, &upload->upload);
    pg_add_int8(&arguments, (int64_t)upload->writer_epoch);
    pg_add_int8(&arguments, (int64_t)wanted->needed);
    pg_add_int8(&arguments, (int64_t)wanted->wished);
    TRY(pg_run(pg, &upload_reserve_sql, &arguments, &rows, err));
    if (pg_rows_count(rows) != 1) return why_not_reserved(pg, upload, wanted, err);
    upload->reserved = (uint64_t)pg_int8(rows, 0, 0);
    return SUCCESS;
}

struct result upload_row_give_back(struct pg *pg, const struct upload_row *upload, uint64_t kept, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_uuid(&arguments, &upload->upload);
    pg_add_int8(&arguments, (int64_t)upload->writer_epoch);
    pg_add_int8(&arguments, (int64_t)kept);
    return pg_run(pg, &upload_give_back_sql, &arguments, NULL, err);
}

/* Runs a statement that changes the row of the writer that claimed it last. */
static struct result run_as_writer(struct pg *pg, const struct pg_statement *statement, const struct upload_row *upload,
                                   struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, &upload->upload);
    pg_add_int8(&arguments, (int64_t)upload->writer_epoch);
    TRY(pg_run(pg, statement, &arguments, &rows, err));
    return pg_rows_affected(rows) == 1 ? SUCCESS : lost(err);
}

struct result upload_row_touch(struct pg *pg, const struct upload_row *upload, struct error *err)
{
    return run_as_writer(pg, &upload_goes_on_sql, upload, err);
}

struct result upload_row_is_gone(struct pg *pg, const struct upload_row *upload, bool *is_gone_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, &upload->upload);
    pg_add_uuid(&arguments, &upload->blob);
    TRY(pg_run(pg, &upload_is_gone_sql, &arguments, &rows, err));
    *is_gone_out = pg_bool(rows, 0, 0);
    return SUCCESS;
}

struct result upload_row_drop(struct pg *pg, const struct upload_row *upload, struct error *err)
{
    return run_as_writer(pg, &upload_drop_sql, upload, err);
}

static struct result drop(struct pg *pg, const struct uuid *blob, const char *region, struct dropped_blobs *dropped,
                          struct error *err)
{
    dropped->blobs[dropped->count++] = *blob;
    return abandoned_insert(pg, blob, region, err);
}

static struct blob_commit blob_commit_of(const struct upload_commit_row *commit, const struct blob_row *fresh)
{
    return (struct blob_commit){.where = commit->where,
                                .fresh = fresh,
                                .upload = commit->upload->upload,
                                .writer_epoch = commit->upload->writer_epoch,
                                .lease_s = commit->lease_s,
                                .is_held = commit->is_held};
}

struct result upload_row_commit(struct pg *pg, const struct upload_commit_row *commit, struct dropped_blobs *dropped_out,
                                struct error *err)
{
    const struct upload_row *upload = commit->upload;
    const struct blob_row fresh = {.key = *commit->key, .content = *commit->content};
    const struct blob_commit blob = blob_commit_of(commit, &fresh);
    struct dropped_blobs dropped = {0};
    struct uuid other = {0};

    TRY(blob_row_commit(pg, &blob, &other, err));
    if (!uuid_equal(&fresh.key.id, &upload->blob)) {
        TRY(abandoned_forget(pg, &fresh.key.id, err)); /* its object was reserved */
        TRY(drop(pg, &upload->blob, commit->where->region, &dropped, err));
    }
    if (!uuid_is_nil(&other)) TRY(drop(pg, &other, commit->where->region, &dropped, err));
    *dropped_out = dropped;
    return SUCCESS;
}

struct result upload_row_add_commit(struct pg *pg, const struct upload_commit_row *commit, struct error *err)
{
    const struct blob_row fresh = {.key = *commit->key, .content = *commit->content};
    const struct blob_commit blob = blob_commit_of(commit, &fresh);

    assert(uuid_equal(&commit->key->id, &commit->upload->blob));
    return blob_row_add_commit(pg, &blob, err);
}

void upload_row_take_commit(const struct pg_rows *answer, const struct upload_row *upload, struct dropped_blobs *dropped_out)
{
    const struct uuid there = pg_uuid(answer, 0, 0);

    if (!uuid_equal(&there, &upload->blob)) *dropped_out = (struct dropped_blobs){1, {upload->blob}};
}

struct result upload_row_cancel(struct pg *pg, const struct upload_key *key, struct uuid *blob_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    add_owner(&arguments, key);
    TRY(pg_run(pg, &upload_cancel_sql, &arguments, &rows, err));
    if (pg_rows_count(rows) == 0) return no_such_upload(err);
    *blob_out = pg_uuid(rows, 0, 0);
    return SUCCESS;
}

void upload_add_limits(struct pg_arguments *arguments, const struct session_limits *limits)
{
    pg_add_int8(arguments, limits->per_client);
    pg_add_int8(arguments, limits->per_project);
    pg_add_int8(arguments, limits->per_organisation);
    pg_add_int8(arguments, limits->idle_s);
}

struct result upload_rows_expired(struct pg *pg, const struct session_limits *limits, struct expired_upload *expired_out,
                                  size_t capacity, size_t *count_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    upload_add_limits(&arguments, limits);
    pg_add_int8(&arguments, (int64_t)capacity);
    TRY(pg_run(pg, &upload_expired_sql, &arguments, &rows, err));
    const size_t count = pg_rows_count(rows);
    for (size_t i = 0; i < count; i++) {
        struct expired_upload *expired = &expired_out[i];
        *expired = (struct expired_upload){.upload = pg_uuid(rows, i, 0),
                                           .blob = pg_uuid(rows, i, 1),
                                           .organisation = pg_uuid(rows, i, 2),
                                           .project = pg_uuid(rows, i, 3),
                                           .repository = pg_uuid(rows, i, 4),
                                           .makes_room = pg_bool(rows, i, 7)};
        (void)snprintf(expired->name, sizeof expired->name, "%s", pg_text(rows, i, 5));
        (void)snprintf(expired->region, sizeof expired->region, "%s", pg_text(rows, i, 6));
    }
    *count_out = count;
    return SUCCESS;
}

struct result upload_row_expire(struct pg *pg, const struct uuid *upload, const struct session_limits *limits, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, upload);
    pg_add_int8(&arguments, limits->idle_s);
    TRY(pg_run(pg, &upload_expire_sql, &arguments, &rows, err));
    return pg_rows_affected(rows) == 1 ? SUCCESS : failure(err, ERROR_NOT_FOUND, "the session has ended, or made progress");
}
