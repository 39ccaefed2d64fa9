/* Which content the manifests of an order name, and the table `run_upload`. */
#include <assert.h>

#include "registry/held_manifest_store.h"
#include "storage/pg_table.h"
#include "training/content.h"
#include "training/run_priv.h"

/* clang-format off */
static const struct pg_statement run_content_sql = {
    "run_content", /* an image may be an index, whose manifests its digest fixes */
    "WITH RECURSIVE named (digest) AS (SELECT unnest($2::text[]) COLLATE \"C\" UNION SELECT r.digest FROM named n JOIN manifest_reference r"
    " ON r.repository_id = $1 AND r.manifest_digest = n.digest AND r.is_manifest)"
    " SELECT EXISTS (SELECT FROM named WHERE digest = $3), EXISTS (SELECT FROM named n JOIN manifest_reference r ON r.repository_id = $1"
    " AND r.manifest_digest = n.digest AND r.digest = $3 AND NOT r.is_manifest),"
    " EXISTS (SELECT FROM run_checkpoint c JOIN run_checkpoint_blob b ON b.run_id = c.run_id AND b.checkpoint = c.digest"
    " JOIN run n ON n.run_id = c.run_id WHERE c.repository_id = $1 AND c.digest = $4 AND b.digest = $3 AND n.state <> 'quarantined')",
    "uuid text[] text text", "bool bool bool"};
#define HOLDER "run_id = $1 AND attempt = $2 AND node = $3 AND key = $4 AND ended_at IS NULL AND ends_at > now()"
static const struct pg_statement run_uploaded_sql = {
    "run_uploaded", "SELECT uploaded_bytes FROM run_attempt WHERE " HOLDER, "uuid int4 int4 text", "int8"};
/* The check uploaded_bytes <= upload_max refuses the whole statement. */
static const struct pg_statement run_upload_keep_sql = {
    "run_upload_keep",
    "WITH held AS (SELECT run_id FROM run_attempt WHERE " HOLDER "),"
    " fresh AS (INSERT INTO run_upload (run_id, attempt, node, repository, digest, size_bytes)"
    " SELECT $1, $2, $3, $5, $6, $7 FROM held ON CONFLICT DO NOTHING RETURNING size_bytes),"
    " counted AS (UPDATE run_attempt a SET uploaded_bytes = a.uploaded_bytes + f.size_bytes, upload_max = $8,"
    " open_bytes = greatest(a.open_bytes - coalesce((SELECT reserved_bytes FROM run_upload_open WHERE upload_id = $9), 0), 0)"
    " FROM fresh f WHERE a.run_id = $1 AND a.attempt = $2 AND a.node = $3),"
    " closing AS (UPDATE run_upload_open SET reserved_bytes = 0 WHERE upload_id = $9 AND EXISTS (SELECT FROM fresh))"
    " SELECT count(*) FROM held",
    "uuid int4 int4 text text text int8 int8 uuid", "int8"};
static const struct pg_statement run_upload_confirm_sql = {
    "run_upload_confirm",
    "UPDATE run_upload SET is_whole = true WHERE run_id = $1 AND attempt = $2 AND node = $3 AND repository = $4 AND digest = $5"
    " AND size_bytes = $6 AND NOT is_whole",
    "uuid int4 int4 text text int8", ""};
static const struct pg_statement run_upload_missing_sql = {
    "run_upload_missing",
    "SELECT n.d, n.size FROM unnest($5::text[], $6::int8[]) AS n (d, size) WHERE NOT EXISTS (SELECT FROM run_upload u WHERE u.run_id = $1"
    " AND u.attempt = $2 AND u.node = $3 AND u.repository = $4 AND u.digest = n.d COLLATE \"C\" AND u.size_bytes = n.size AND u.is_whole) LIMIT 1",
    "uuid int4 int4 text text[] int8[]", "text int8"};
/* A counter, and no sum over the open ones: two statements at once see each other's change of one row only. */
static const struct pg_statement run_upload_reserve_sql = {
    "run_upload_reserve",
    "WITH own AS (SELECT coalesce(max(reserved_bytes), 0) AS bytes FROM run_upload_open WHERE upload_id = $5),"
    " counted AS (UPDATE run_attempt a SET open_bytes = a.open_bytes + greatest($6 - o.bytes, 0) FROM own o WHERE " HOLDER
    " AND a.uploaded_bytes + a.open_bytes + greatest($6 - o.bytes, 0) <= 2 * $7 RETURNING 1),"
    " kept AS (INSERT INTO run_upload_open (upload_id, run_id, attempt, node, reserved_bytes) SELECT $5, $1, $2, $3, $6 FROM counted"
    " ON CONFLICT (upload_id) DO UPDATE SET reserved_bytes = greatest(run_upload_open.reserved_bytes, excluded.reserved_bytes))"
    " SELECT count(*) FROM counted",
    "uuid int4 int4 text uuid int8 int8", "int8"};
static const struct pg_statement run_watched_sql = {
    "run_watched",
    "SELECT n.place FROM unnest($1::uuid[], $2::int8[], $3::int8[]) WITH ORDINALITY AS n (run, attempt, node, place) JOIN run_attempt a"
    " ON a.run_id = n.run AND a.attempt = n.attempt AND a.node = n.node WHERE a.ended_at IS NULL",
    "uuid[] int8[] int8[]", "int8"};
static const struct pg_statement *const statements[] = {
    &run_content_sql, &run_uploaded_sql, &run_upload_reserve_sql, &run_upload_keep_sql, &run_upload_confirm_sql, &run_upload_missing_sql, &run_watched_sql,
};
/* clang-format on */
const struct pg_table run_content_table = PG_TABLE(statements);

struct result run_content_find(struct lookup *lookup, const struct run_content_query *query, struct run_content *content_out,
                               struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, query->repository);
    pg_add_text_array(&arguments, query->digests, query->count);
    pg_add_text(&arguments, query->digest);
    pg_add_text(&arguments, query->resume);
    TRY(pg_run(lookup_connection(lookup), &run_content_sql, &arguments, &rows, err));
    *content_out =
        (struct run_content){.is_manifest = pg_bool(rows, 0, 0), .is_blob = pg_bool(rows, 0, 1), .is_kept = pg_bool(rows, 0, 2)};
    return SUCCESS;
}

static struct result ended(struct error *err)
{
    return failure(err, ERROR_NOT_FOUND, "the lease has ended: nothing more is taken for this attempt");
}

struct result run_uploaded_find(struct lookup *lookup, const struct run_holder *holder, int64_t *bytes_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    run_add_holder(&arguments, holder);
    TRY(pg_run(lookup_connection(lookup), &run_uploaded_sql, &arguments, &rows, err));
    if (pg_rows_count(rows) == 0) return ended(err);
    *bytes_out = pg_int8(rows, 0, 0);
    return SUCCESS;
}

struct result run_watched_look(struct lookup *lookup, struct run_watched *watched, size_t count, struct error *err)
{
    struct bytes runs[RUN_WATCHED_MAX];
    int64_t attempts[RUN_WATCHED_MAX], nodes[RUN_WATCHED_MAX];
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    assert(count <= RUN_WATCHED_MAX);
    for (size_t i = 0; i < count; i++) {
        runs[i] = (struct bytes){watched[i].run.bytes, sizeof watched[i].run.bytes};
        attempts[i] = watched[i].attempt;
        nodes[i] = watched[i].node;
    }
    pg_add_uuid_array(&arguments, runs, count);
    pg_add_int8_array(&arguments, attempts, count);
    pg_add_int8_array(&arguments, nodes, count);
    TRY(pg_run(lookup_connection(lookup), &run_watched_sql, &arguments, &rows, err));
    for (size_t i = 0; i < count; i++) watched[i].has_ended = true;
    for (size_t i = 0; i < pg_rows_count(rows); i++) watched[pg_int8(rows, i, 0) - 1].has_ended = false;
    return SUCCESS;
}

static void add_reserving(struct pg_arguments *arguments, const struct run_reserving *reserving)
{
    run_add_holder(arguments, reserving->holder);
    pg_add_uuid(arguments, reserving->upload);
    pg_add_int8(arguments, reserving->bytes);
    pg_add_int8(arguments, reserving->most_bytes);
}

struct result run_upload_reserve(const struct permit *permit, struct pg *pg, const struct run_reserving *reserving,
                                 struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;
    int64_t kept = 0;

    permit_require(permit, reserving->action, reserving->where);
    add_reserving(&arguments, reserving);
    TRY(pg_run(pg, &run_upload_reserve_sql, &arguments, &rows, err));
    if (pg_int8(rows, 0, 0) == 1) return SUCCESS;
    TRY(run_uploaded_find(lookup_of(pg), reserving->holder, &kept, err));
    return failure(err, ERROR_DENIED,
                   "the order allows %lld bytes of outputs and log, and open uploads have the rest: finish or cancel them",
                   (long long)reserving->most_bytes);
}

struct result run_uploaded_keep(const struct permit *permit, struct pg *pg, const struct run_uploaded *uploaded,
                                struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;
    struct error why = {0};

    assert(uploaded->action == ACTION_UPLOAD_BEGIN || uploaded->action == ACTION_UPLOAD_COMMIT);
    permit_require(permit, uploaded->action, uploaded->where);
    run_add_holder(&arguments, uploaded->holder);
    pg_add_text(&arguments, uploaded->where->name);
    pg_add_text(&arguments, uploaded->digest);
    pg_add_int8(&arguments, uploaded->size_bytes);
    pg_add_int8(&arguments, uploaded->most_bytes);
    pg_add_uuid(&arguments, uploaded->upload);
    if (!pg_run(pg, &run_upload_keep_sql, &arguments, &rows, &why).ok) {
        if (!pg_breaks(pg, "run_attempt_uploaded")) return failure(err, why.kind, "%s", why.message);
        return failure(err, ERROR_DENIED, "the order allows %lld bytes of outputs and log: with this blob they would be more",
                       (long long)uploaded->most_bytes);
    }
    return pg_int8(rows, 0, 0) == 1 ? SUCCESS : ended(err);
}

static void add_attempt(struct pg_arguments *arguments, const struct run_holder *holder, const char *repository)
{
    pg_add_uuid(arguments, &holder->run);
    pg_add_int4(arguments, (int32_t)holder->attempt);
    pg_add_int4(arguments, (int32_t)holder->node);
    pg_add_text(arguments, repository);
}

struct result run_uploaded_confirm(const struct permit *permit, struct pg *pg, const struct run_uploaded *uploaded,
                                   struct error *err)
{
    struct pg_arguments arguments = {0};

    permit_require(permit, uploaded->action, uploaded->where);
    add_attempt(&arguments, uploaded->holder, uploaded->where->name);
    pg_add_text(&arguments, uploaded->digest);
    pg_add_int8(&arguments, uploaded->size_bytes);
    return pg_run(pg, &run_upload_confirm_sql, &arguments, NULL, err);
}

/* ---- what a lease has uploaded ---- */

struct result run_sent_check(const struct permit *permit, struct pg *pg, const struct run_sent *sent, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;
    OWNED_HELD_BLOBS wanted = {.count = 0};

    run_require_lease(permit, sent->action, sent->holder);
    TRY(held_blobs_list(sent->manifest, &wanted, err));
    add_attempt(&arguments, sent->holder, sent->repository);
    pg_add_text_array(&arguments, wanted.digests, wanted.count);
    pg_add_int8_array(&arguments, wanted.sizes, wanted.count);
    TRY(pg_run(pg, &run_upload_missing_sql, &arguments, &rows, err));
    if (pg_rows_count(rows) == 0) return SUCCESS;
    return failure(err, ERROR_INVALID,
                   "the manifest of %.63s needs the blob %.80s, and this lease has not uploaded it with %lld bytes: upload it to "
                   "%.120s first",
                   sent->name, pg_text(rows, 0, 0), (long long)pg_int8(rows, 0, 1), sent->repository);
}
