#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "audit/audit_store.h"
#include "audit/decision_make.h"
#include "audit/log_check_priv.h"
#include "base/text.h"
#include "storage/pg_table.h"

/* clang-format off */
#define ADVANCE                                                                                               \
    "WITH fenced AS (UPDATE audit_log SET size = $3, last_ts = $4, frontier = $5, altered = greatest(altered, $6)" \
    " WHERE size = $1 AND epoch = $2"
#define ADVANCE_TYPES "int8 int8 int8 int8 bytea int8"
/* If the fence finds no row, the statement divides by zero. PostgreSQL then skips the rest of the pipeline, including
 * COMMIT. One statement writes all rows, because a statement costs more than its rows. */
#define APPEND                                                                                                \
    " RETURNING 1),"                                                                                          \
    " entries AS (INSERT INTO audit_entry (seq, ts, leaf, leaf_hash, action, outcome)"                        \
    " SELECT $1 + e.place - 1, $4, e.leaf, e.leaf_hash, e.action, e.outcome"                                  \
    " FROM unnest($7::bytea[], $8::bytea[], $9::text[], $10::text[])"                                         \
    " WITH ORDINALITY AS e (leaf, leaf_hash, action, outcome, place)),"                                       \
    " runs AS (INSERT INTO audit_run (key, last, n, seqs)"                                                    \
    " SELECT r.key, ($15::int8[])[r.until], r.n, ($15::int8[])[r.first:r.until]"                              \
    " FROM unnest($11::bytea[], $12::int8[], $13::int8[], $14::int8[]) AS r (key, n, first, until)),"         \
    " payloads AS (INSERT INTO audit_payload (seq, subject, salt, box)"                                       \
    " SELECT * FROM unnest($16::int8[], $17::bytea[], $18::bytea[], $19::bytea[]))"                           \
    " SELECT 1 / count(*)"
#define APPEND_TYPES " bytea[] bytea[] text[] text[] bytea[] int8[] int8[] int8[] int8[] int8[] bytea[] bytea[] bytea[]"

/*
 * PostgreSQL takes two locks of one statement in the order in which they are written. It would plan the statements with arrays anew each time, which takes longer than they run:
 * for the rest of the transaction, or until the rights are read, each has one plan.
 */
#define PLANS(mode) "set_config('plan_cache_mode', '" mode "', true)"
#define LOCKS(epoch) \
    "SELECT 1::int8 FROM (SELECT " PLANS("force_generic_plan") ", " epoch "(7307, 1), pg_advisory_xact_lock(7307, 2) OFFSET 0) AS held"

static const struct pg_statement audit_hold_epoch_sql = {"audit_hold_epoch", LOCKS("pg_advisory_xact_lock_shared"), "", "int8"};
static const struct pg_statement audit_lock_epoch_sql = {"audit_lock_epoch", LOCKS("pg_advisory_xact_lock"), "", "int8"};
static const struct pg_statement audit_lock_log_sql = {
    "audit_lock_log", "SELECT 1::int8 FROM pg_advisory_xact_lock(7307, 2)", "", "int8"};
static const struct pg_statement audit_read_state_sql = {
    "audit_read_state",
    "SELECT l.size, l.epoch, l.last_ts, (extract(epoch FROM clock_timestamp()) * 1000)::int8, a.epoch, l.frontier,"
    " l.origin, l.altered FROM audit_log l, authorization_epoch a",
    "", "int8 int8 int8 int8 int8 bytea text int8"};
static const struct pg_statement audit_read_heads_sql = {
    "audit_read_heads",
    "SELECT coalesce(head.n, 0), coalesce(head.last, -1), (SELECT e.leaf FROM audit_entry e WHERE e.seq = head.last)"
    " FROM unnest($1::bytea[]) WITH ORDINALITY AS wanted (key, place) LEFT JOIN LATERAL (SELECT r.n, r.last FROM audit_run r"
    " WHERE r.key = wanted.key AND r.last < (SELECT size FROM audit_log) ORDER BY r.last DESC LIMIT 1) AS head ON true"
    " ORDER BY wanted.place",
    "bytea[]", "int8 int8 bytea"};
static const struct pg_statement audit_read_rights_sql = {
    "audit_read_rights",
    "SELECT coalesce(c.epoch, 0), coalesce(c.taken_epoch, 0) FROM (SELECT " PLANS("auto") " OFFSET 0) AS plans,"
    " unnest($1::uuid[]) WITH ORDINALITY AS wanted (id, place)"
    " LEFT JOIN authorization_change c ON c.organisation_id = wanted.id ORDER BY wanted.place",
    "uuid[]", "int8 int8"};
static const struct pg_statement audit_count_erasures_sql = {"audit_count_erasures", "SELECT count(*) FROM audit_erasure", "", "int8"};
static const struct pg_statement audit_append_sql = {"audit_append", ADVANCE APPEND " FROM fenced", ADVANCE_TYPES APPEND_TYPES, "int8"};
static const struct pg_statement audit_append_unread_sql = {
    "audit_append_unread",
    ADVANCE " AND (SELECT epoch FROM authorization_epoch) BETWEEN $20 AND $21"
            " AND NOT EXISTS (SELECT FROM authorization_change WHERE organisation_id = ANY($22)"
            " AND CASE WHEN $24 THEN taken_epoch ELSE epoch END > $23)" APPEND
            ", (SELECT epoch FROM authorization_epoch) FROM fenced",
    ADVANCE_TYPES APPEND_TYPES " int8 int8 uuid[] int8 bool", "int8 int8"};
static const struct pg_statement audit_insert_tiles_sql = {
    "audit_insert_tiles",
    "INSERT INTO audit_tile (level, idx, hashes, root)"
    " SELECT t.level::int4, t.idx, t.hashes, t.root FROM unnest($1::int8[], $2::int8[], $3::bytea[], $4::bytea[])"
    " AS t (level, idx, hashes, root)",
    "int8[] int8[] bytea[] bytea[]", ""};
static const struct pg_statement audit_insert_facts_sql = {
    "audit_insert_facts",
    "INSERT INTO audit_facts (digest, facts) SELECT * FROM unnest($1::bytea[], $2::bytea[]) ON CONFLICT DO NOTHING",
    "bytea[] bytea[]", ""};
static const struct pg_statement audit_find_entry_sql = {
    "audit_find_entry", "SELECT leaf_hash FROM audit_entry WHERE seq = $1", "int8", "bytea"};
static const struct pg_statement audit_entry_leaf_sql = {
    "audit_entry_leaf", "SELECT leaf FROM audit_entry WHERE seq = $1", "int8", "bytea"};
static const struct pg_statement audit_end_backend_sql = {
    "audit_end_backend",
    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
    " WHERE pid = $1 AND (extract(epoch FROM backend_start) * 1000000)::int8 = $2 AND pid <> pg_backend_pid()",
    "int8 int8", "int8"};
static const struct pg_statement audit_next_boot_sql = {"audit_next_boot", "SELECT nextval('audit_boot')", "", "int8"};
static const struct pg_statement audit_name_log_sql = {
    "audit_name_log", "UPDATE audit_log SET origin = $1 WHERE size = 0 AND origin = '' AND $1 <> ''", "text", ""};
static const struct pg_statement audit_use_left_sql = {
    "audit_use_left", "SELECT NOT EXISTS (SELECT FROM exception_use WHERE exception = $1 AND used >= uses)", "bytea", "bool"};
static const struct pg_statement audit_use_take_sql = {
    "audit_use_take",
    "INSERT INTO exception_use AS u (exception, id, project_id, organisation_id, uses, used) VALUES ($1, $2, $3, $4, $5, 1)"
    " ON CONFLICT (exception) DO UPDATE SET used = u.used + 1 WHERE u.used < u.uses RETURNING used",
    "bytea text uuid uuid int8", "int8"};
static const struct pg_statement *const statements[] = {
    &audit_hold_epoch_sql, &audit_lock_epoch_sql, &audit_lock_log_sql, &audit_read_state_sql, &audit_read_heads_sql,
    &audit_read_rights_sql, &audit_count_erasures_sql, &audit_append_sql, &audit_append_unread_sql, &audit_insert_tiles_sql,
    &audit_insert_facts_sql, &audit_find_entry_sql, &audit_entry_leaf_sql, &audit_end_backend_sql, &audit_next_boot_sql, &audit_name_log_sql,
    &audit_use_left_sql, &audit_use_take_sql,
};
/* clang-format on */
const struct pg_table audit_append_table = PG_TABLE(statements);

static struct result read_state(const struct pg_rows *rows, struct audit_state *state_out, struct error *err)
{
    struct audit_state state;

    if (pg_rows_count(rows) != 1) return failure(err, ERROR_FORKED, "the state of the log is missing from the database");
    state.size = (uint64_t)pg_int8(rows, 0, 0);
    state.epoch = pg_int8(rows, 0, 1);
    state.last_time_ms = pg_int8(rows, 0, 2);
    state.now_ms = pg_int8(rows, 0, 3);
    state.authorization_epoch = (uint64_t)pg_int8(rows, 0, 4);
    state.altered = (uint64_t)pg_int8(rows, 0, 7);
    if (!merkle_frontier_read(state.size, pg_bytes(rows, 0, 5), &state.frontier, err).ok)
        return failure(err, ERROR_FORKED, "the state of the log was changed: its frontier does not fit its size");
    if (!text_copy(state.origin, sizeof state.origin, pg_text(rows, 0, 6)))
        return failure(err, ERROR_CORRUPT, "the log's origin is too long");
    *state_out = state;
    return SUCCESS;
}

static struct result read_heads(const struct pg_rows *rows, const struct audit_heads *heads, struct error *err)
{
    if (pg_rows_count(rows) != heads->count)
        return failure(err, ERROR_CORRUPT, "the heads of the log's keys are not one for each key");
    TRY(log_check_heads(rows, heads->keys, heads->count, err));
    for (size_t i = 0; i < heads->count; i++) heads->ordinals[i] = pg_int8(rows, i, 0);
    return SUCCESS;
}

static struct result read_rights(const struct pg_rows *rows, const struct audit_rights *rights, struct error *err)
{
    if (pg_rows_count(rows) != rights->count)
        return failure(err, ERROR_CORRUPT, "the changes of organisations are not one for each");
    for (size_t i = 0; i < rights->count; i++) {
        rights->epochs[i] = (uint64_t)pg_int8(rows, i, 0);
        rights->taken[i] = (uint64_t)pg_int8(rows, i, 1);
    }
    return SUCCESS;
}

#define BEGIN_STEPS 5 /* BEGIN, locks, state, heads, rights */
#define LOCK_STEPS  2 /* of those */

static struct result add_locks(struct pg *pg, bool exclusive_epoch, struct error *err)
{
    TRY(pg_pipeline_begin(pg, err));
    return pg_pipeline_add(pg, exclusive_epoch ? &audit_lock_epoch_sql : &audit_hold_epoch_sql, NULL, err);
}

static struct result add_begin(struct pg *pg, bool exclusive_epoch, const struct audit_heads *heads,
                               const struct audit_rights *rights, struct error *err)
{
    struct pg_arguments arguments = {0}, organisations = {0};

    pg_add_bytes_array(&arguments, heads->keys, heads->count);
    pg_add_uuid_array(&organisations, rights->organisations, rights->count);
    TRY(add_locks(pg, exclusive_epoch, err));
    TRY(pg_pipeline_add(pg, &audit_read_state_sql, NULL, err));
    TRY(pg_pipeline_add(pg, &audit_read_heads_sql, &arguments, err));
    return pg_pipeline_add(pg, &audit_read_rights_sql, &organisations, err);
}

struct result audit_begin(struct pg *pg, bool exclusive_epoch, const struct audit_heads *heads, const struct audit_rights *rights,
                          struct audit_state *state_out, struct error *err)
{
    struct pg_rows *rows[BEGIN_STEPS];
    struct audit_state state;

    TRY(add_begin(pg, exclusive_epoch, heads, rights, err));
    TRY(pg_pipeline_run(pg, rows, BEGIN_STEPS, err));
    struct result result = read_state(rows[LOCK_STEPS], &state, err);
    if (result.ok) result = read_heads(rows[LOCK_STEPS + 1], heads, err);
    if (result.ok) result = read_rights(rows[LOCK_STEPS + 2], rights, err);
    for (size_t i = 0; i < BEGIN_STEPS; i++) pg_rows_free(rows[i]);
    if (result.ok) *state_out = state;
    return result;
}

struct result audit_load_heads(struct pg *pg, const struct audit_heads *heads, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;
    struct pg_arguments arguments = {0};

    pg_add_bytes_array(&arguments, heads->keys, heads->count);
    TRY(pg_run(pg, &audit_read_heads_sql, &arguments, &rows, err));
    return read_heads(rows, heads, err);
}

static void add_entries(struct pg_arguments *arguments, const struct audit_append *append)
{
    pg_add_bytes_array(arguments, append->leaves, append->count);
    pg_add_bytes_array(arguments, append->hashes, append->count);
    pg_add_text_array(arguments, append->actions, append->count);
    pg_add_text_array(arguments, append->outcomes, append->count);
}

static void add_runs(struct pg_arguments *arguments, const struct audit_append *append)
{
    pg_add_bytes_array(arguments, append->keys, append->key_count);
    pg_add_int8_array(arguments, append->ordinals, append->key_count);
    pg_add_int8_array(arguments, append->firsts, append->key_count);
    pg_add_int8_array(arguments, append->untils, append->key_count);
    pg_add_int8_array(arguments, append->sequences, append->sequence_count);
}

static void add_payloads(struct pg_arguments *arguments, const struct audit_append *append)
{
    pg_add_int8_array(arguments, append->payload_sequences, append->payload_count);
    pg_add_bytes_array(arguments, append->payload_subjects, append->payload_count);
    pg_add_bytes_array(arguments, append->payload_salts, append->payload_count);
    pg_add_bytes_array(arguments, append->payload_boxes, append->payload_count);
}

/* `fence` is NULL if the rights were read under the lock. */
static struct result add_append(struct pg *pg, const struct audit_append *append, const struct audit_fence *fence,
                                struct error *err)
{
    const uint64_t size = append->old_size + append->count;
    struct pg_arguments arguments = {0};

    pg_add_int8(&arguments, (int64_t)append->old_size);
    pg_add_int8(&arguments, append->epoch);
    pg_add_int8(&arguments, (int64_t)size);
    pg_add_int8(&arguments, append->time_ms);
    pg_add_bytes(&arguments, append->frontier);
    pg_add_int8(&arguments, append->alters ? (int64_t)size : 0);
    add_entries(&arguments, append);
    add_runs(&arguments, append);
    add_payloads(&arguments, append);
    if (fence == NULL) return pg_pipeline_add(pg, &audit_append_sql, &arguments, err);
    pg_add_int8(&arguments, (int64_t)fence->from);
    pg_add_int8(&arguments, (int64_t)fence->until);
    pg_add_uuid_array(&arguments, fence->organisations, fence->count);
    pg_add_int8(&arguments, (int64_t)fence->oldest);
    pg_add_bool(&arguments, fence->ignores_grants);
    return pg_pipeline_add(pg, &audit_append_unread_sql, &arguments, err);
}

static struct result add_tiles(struct pg *pg, const struct audit_append *append, struct error *err)
{
    struct pg_arguments tiles = {0};

    if (append->tile_count == 0) return SUCCESS;
    pg_add_int8_array(&tiles, append->tile_levels, append->tile_count);
    pg_add_int8_array(&tiles, append->tile_indices, append->tile_count);
    pg_add_bytes_array(&tiles, append->tile_hashes, append->tile_count);
    pg_add_bytes_array(&tiles, append->tile_roots, append->tile_count);
    return pg_pipeline_add(pg, &audit_insert_tiles_sql, &tiles, err);
}

static struct result add_facts(struct pg *pg, const struct audit_append *append, struct error *err)
{
    struct pg_arguments facts = {0};

    if (append->facts_count == 0) return SUCCESS;
    pg_add_bytes_array(&facts, append->facts_digests, append->facts_count);
    pg_add_bytes_array(&facts, append->facts, append->facts_count);
    return pg_pipeline_add(pg, &audit_insert_facts_sql, &facts, err);
}

#define COMMIT_STEPS_MAX 3 /* tiles, facts, COMMIT */

static size_t commit_steps(const struct audit_append *append)
{
    return 1 + (append->tile_count > 0 ? (size_t)1 : 0) + (append->facts_count > 0 ? (size_t)1 : 0);
}

static struct result add_commit(struct pg *pg, const struct audit_append *append, struct error *err)
{
    TRY(add_tiles(pg, append, err));
    TRY(add_facts(pg, append, err));
    return pg_pipeline_commit(pg, err);
}

static void free_rows(struct pg_rows **rows, size_t count)
{
    for (size_t i = 0; i < count; i++) pg_rows_free(rows[i]);
}

struct result audit_commit(struct pg *pg, const struct audit_append *append, struct error *err)
{
    const size_t steps = 1 + commit_steps(append);
    struct pg_rows *rows[1 + COMMIT_STEPS_MAX];

    TRY(add_append(pg, append, NULL, err));
    TRY(add_commit(pg, append, err));
    TRY(pg_pipeline_run(pg, rows, steps, err));
    free_rows(rows, steps);
    return SUCCESS;
}

struct result audit_open_in_one_trip(struct pg *pg, const struct audit_append *append, const struct audit_fence *fence,
                                     struct error *err)
{
    TRY(add_locks(pg, fence->excludes, err));
    return add_append(pg, append, fence, err);
}

#define OPEN_STEPS (LOCK_STEPS + 1) /* and the rows behind the fence */

struct result audit_close_in_one_trip(struct pg *pg, const struct audit_append *append, struct audit_trip *trip,
                                      struct error *err)
{
    const size_t steps = OPEN_STEPS + trip->change_count + commit_steps(append);
    struct pg_rows *rows[OPEN_STEPS + AUDIT_CHANGES_IN_ONE_TRIP + COMMIT_STEPS_MAX];

    assert(trip->change_count <= AUDIT_CHANGES_IN_ONE_TRIP);
    trip->is_refused = false;
    TRY(add_commit(pg, append, err));
    const struct result result = pg_pipeline_run(pg, rows, steps, err);
    trip->is_refused = !result.ok && !pg_is_broken(pg) && err->kind != ERROR_UNCERTAIN;
    if (!result.ok) return result;
    trip->authorization_epoch = (uint64_t)pg_int8(rows[LOCK_STEPS], 0, 1);
    for (size_t i = 0; i < trip->change_count; i++) trip->answers[i] = rows[OPEN_STEPS + i];
    free_rows(rows, OPEN_STEPS);
    free_rows(rows + OPEN_STEPS + trip->change_count, steps - OPEN_STEPS - trip->change_count);
    return SUCCESS;
}

static struct result find_entry(struct pg *pg, uint64_t sequence, const struct merkle_hash *hash, bool *has_out,
                                struct error *err)
{
    OWNED(pg_rows) *rows = NULL;
    struct pg_arguments arguments = {0};

    TRY(pg_run(pg, &audit_lock_log_sql, NULL, NULL, err));
    pg_add_int8(&arguments, (int64_t)sequence);
    TRY(pg_run(pg, &audit_find_entry_sql, &arguments, &rows, err));
    *has_out = pg_rows_count(rows) == 1 && bytes_equal(pg_bytes(rows, 0, 0), (struct bytes){hash->bytes, sizeof hash->bytes});
    return SUCCESS;
}

/* The backend may still have commands to read. None of them may commit after a caller was told that the append failed. If
 * the backend does not hold the log's lock, it is ended before it reads its next command. If it holds the
 * lock, our request for the lock waits until its transaction has ended. */
static struct result end_backend(struct pg *pg, const struct pg_backend *backend, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_int8(&arguments, backend->id);
    pg_add_int8(&arguments, backend->began_us);
    return pg_run(pg, &audit_end_backend_sql, &arguments, NULL, err);
}

struct result audit_has_entry(struct pg *pg, const struct pg_backend *backend, uint64_t sequence, const struct merkle_hash *hash,
                              bool *has_out, struct error *err)
{
    TRY(end_backend(pg, backend, err));
    TRY(pg_begin(pg, err));
    const struct result result = find_entry(pg, sequence, hash, has_out, err);
    pg_rollback(pg);
    TRY(result);
    return *has_out ? pg_await_standby(pg, err) : SUCCESS; /* the ended backend may have waited for it */
}

struct result audit_entry_leaf(struct pg *pg, uint64_t sequence, struct pg_rows **rows_out, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_int8(&arguments, (int64_t)sequence);
    return pg_run(pg, &audit_entry_leaf_sql, &arguments, rows_out, err);
}

struct result audit_count_erasures(struct pg *pg, int64_t *count_out, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;

    TRY(pg_run(pg, &audit_count_erasures_sql, NULL, &rows, err));
    *count_out = pg_int8(rows, 0, 0);
    return SUCCESS;
}

struct result audit_next_boot(struct pg *pg, uint64_t *boot_out, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;

    TRY(pg_run(pg, &audit_next_boot_sql, NULL, &rows, err));
    *boot_out = (uint64_t)pg_int8(rows, 0, 0);
    return SUCCESS;
}

struct result audit_name_log(struct pg *pg, const char *origin, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;
    struct pg_arguments arguments = {0};

    pg_add_text(&arguments, origin);
    TRY(pg_run(pg, &audit_name_log_sql, &arguments, NULL, err));
    TRY(pg_run(pg, &audit_read_state_sql, NULL, &rows, err));
    if (pg_rows_count(rows) != 1 || strcmp(pg_text(rows, 0, 6), origin) != 0)
        return failure(err, ERROR_FORKED, "the database holds the log \"%.60s\", not \"%.60s\": connect to the right one",
                       pg_rows_count(rows) == 1 ? pg_text(rows, 0, 6) : "", origin);
    return SUCCESS;
}

/* ---- uses of exceptions ---- */

struct result audit_use_is_left(struct pg *pg, const struct exception_use *use, bool *is_left_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_bytes(&arguments, (struct bytes){use->key, sizeof use->key});
    TRY(pg_run(pg, &audit_use_left_sql, &arguments, &rows, err));
    *is_left_out = pg_bool(rows, 0, 0);
    return SUCCESS;
}

struct result audit_use_take(struct pg *pg, const struct exception_use *use, uint64_t *number_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_bytes(&arguments, (struct bytes){use->key, sizeof use->key});
    pg_add_text(&arguments, use->id);
    pg_add_uuid(&arguments, &use->project);
    pg_add_uuid(&arguments, &use->organisation);
    pg_add_int8(&arguments, use->uses);
    TRY(pg_run(pg, &audit_use_take_sql, &arguments, &rows, err));
    if (pg_rows_count(rows) == 0) return failure(err, ERROR_CONFLICT, "no use of the exception %s is left", use->id);
    *number_out = (uint64_t)pg_int8(rows, 0, 0);
    return SUCCESS;
}
