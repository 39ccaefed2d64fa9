/* Which run a runner gets: the search among ordered runs, and the runners that are kept for a run of several nodes (the table `run_share`). */
#include <assert.h>

#include "crypto/random.h"
#include "storage/pg_table.h"
#include "training/run_priv.h"

#define HAS_ATTEMPT "EXISTS (SELECT 1 FROM run_attempt a WHERE a.run_id = r.run_id AND a.ended_at IS NULL)"
/* What an offer must have, in the order of add_offer(). A minute: clocks differ. */
#define FITS                                                                                                                         \
    " WHERE r.state = 'ordered' AND r.pool = $1 AND r.expires_at > now()"                                                            \
    " AND ($2::uuid IS NULL OR p.organisation_id = $2) AND ($3::uuid IS NULL OR r.project_id = $3)"                                  \
    " AND cardinality($4) > 0 AND r.jurisdictions @> $4 AND $13 = ANY (r.regions) AND r.devices <= $14 AND r.isolation <= $5"        \
    " AND r.assurance <= $6 AND r.cpus <= $7 AND r.memory_bytes <= $8"                                                               \
    " AND r.devices <= (SELECT count(*) FROM unnest($9::text[], $10::text[], $11::int8[]) AS d (type, mig, memory)"                  \
    " WHERE strpos(' ' || d.type || ' ', ' ' || r.device_type || ' ') > 0 AND d.mig = r.device_mig AND d.memory >= r.device_memory)" \
    " AND ($15::uuid IS NULL OR (r.run_id = $15 AND $16 = r.attempt + CASE WHEN " HAS_ATTEMPT " THEN 0 ELSE 1 END))"                 \
    " AND least(r.expires_at, now() + (r.time_s + $18) * interval '1 second') + interval '1 minute' <= $19"                          \
    " AND NOT EXISTS (SELECT 1 FROM run_attempt a WHERE a.run_id = r.run_id AND a.key = $12 AND a.outcome = 'returned'"              \
    " AND a.ended_at > now() - $17 * interval '1 millisecond')"                                                                      \
    " AND r.attempt < r.attempts + CASE WHEN " HAS_ATTEMPT " THEN 1 ELSE 0 END"
#define FITS_TYPES "text uuid uuid text[] int4 int4 int8 int8 text[] text[] int8[] text text int8 uuid int4 int8 int8 timestamptz"
/* Enough runners are kept for the run, and this one still has a lease to take. */
#define IS_TO_TAKE                                                                                                           \
    "(r.gathered AND r.gather_until > now() AND EXISTS (SELECT 1 FROM run_share s WHERE s.run_id = r.run_id AND s.key = $12" \
    " AND s.nodes > (SELECT count(*) FROM run_attempt a WHERE a.run_id = r.run_id AND a.key = $12 AND a.ended_at IS NULL)))"

/* Another run of this pool and organisation gathers now. */
#define ANOTHER_GATHERS                                                                       \
    "EXISTS (SELECT 1 FROM run x JOIN project q USING (project_id) WHERE x.state = 'ordered'" \
    " AND x.nodes > 1 AND x.pool = r.pool AND x.gather_until > now() AND q.organisation_id = p.organisation_id)"
#define KEPT_OF_OTHERS \
    "(SELECT coalesce(sum(s.nodes), 0) FROM run_share s WHERE s.run_id = r.run_id AND s.key <> $2 AND s.until > now())"
/* Whether this runner may be kept from younger runs for r: not while another large run of the organisation rests that it was counted for, and not if
 * it was kept for another run and has got none since. */
#define MAY_BE_KEPT                                                                                                       \
    "NOT EXISTS (SELECT 1 FROM run_share s JOIN run x USING (run_id) JOIN project q USING (project_id) WHERE s.key = $12" \
    " AND x.run_id <> r.run_id AND x.state = 'ordered' AND x.gather_until <= now() AND x.gather_after > now()"            \
    " AND q.organisation_id = p.organisation_id) AND NOT EXISTS (SELECT 1 FROM run_kept k WHERE k.key = $12 AND k.run_id <> r.run_id)"

/* clang-format off */
/* A run that another gateway claims at this moment is skipped without waiting. */
static const struct pg_statement run_claim_sql = {
    "run_claim",
    "WITH waiting AS (SELECT r.run_id FROM run r JOIN project p USING (project_id)" FITS
    " AND r.claimed_until <= now() AND CASE WHEN r.nodes = 1 THEN r.number < $20 ELSE " IS_TO_TAKE " END"
    " ORDER BY r.number LIMIT 1 FOR UPDATE OF r SKIP LOCKED)"
    " UPDATE run SET claimed_by = $12, claimed_until = now() + interval '10 seconds' FROM waiting, project p, organisation o"
    " WHERE run.run_id = waiting.run_id AND p.project_id = run.project_id AND o.organisation_id = p.organisation_id"
    " RETURNING run.run_id, p.project_id, p.organisation_id, o.name || '/' || p.name, run.attempt, run.nodes, run.time_s, run.expires_at,"
    " (SELECT count(*) FROM run_attempt a WHERE a.run_id = run.run_id AND a.attempt = run.attempt AND a.ended_at IS NULL), run.attempts",
    FITS_TYPES " int8", "uuid uuid uuid text int4 int4 int8 timestamptz int8 int4"};
static const struct pg_statement run_region_drop_sql = {
    "run_region_drop",
    "UPDATE run SET regions = array_remove(regions, $2), claimed_by = '', claimed_until = 'epoch' WHERE run_id = $1 AND state = 'ordered'"
    " AND project_id = $3 AND (claimed_by = $4 OR claimed_until <= now()) RETURNING cardinality(regions)",
    "uuid text uuid text", "int4"};
/* In an organisation one run of a pool gathers at a time. A job of a scheduler is for its run alone, so it keeps no runner from others. */
static const struct pg_statement run_gather_find_sql = {
    "run_gather_find",
    "SELECT r.run_id, p.project_id, p.organisation_id, o.name || '/' || p.name, r.number, r.nodes, r.gathered AND r.gather_until > now(),"
    " r.nodes - (SELECT coalesce(sum(s.nodes), 0) FROM run_share s WHERE s.run_id = r.run_id AND s.key <> $12 AND s.until > now()),"
    " r.nodes <= $20 + (SELECT coalesce(sum(s.nodes), 0) FROM run_share s WHERE s.run_id = r.run_id AND s.key <> $12"
    " AND s.until > now() - interval '1 day') AND " MAY_BE_KEPT
    " FROM run r JOIN project p USING (project_id) JOIN organisation o USING (organisation_id)" FITS
    " AND r.nodes > 1 AND (" IS_TO_TAKE " OR (NOT " HAS_ATTEMPT
    " AND (CASE WHEN r.gather_until > now() THEN NOT r.gathered ELSE r.gather_after <= now() END)"
    " AND r.nodes > (SELECT coalesce(sum(s.nodes), 0) FROM run_share s WHERE s.run_id = r.run_id AND s.key <> $12 AND s.until > now())"
    " AND (r.gather_until > now() OR $15 IS NOT NULL OR NOT " ANOTHER_GATHERS ")))"
    " ORDER BY r.number LIMIT 1",
    FITS_TYPES " int4", "uuid uuid uuid text int8 int4 bool int8 bool"};
/* Two gateways may both have found that no run gathers. The lock makes the last look and the beginning one step. */
static const struct pg_statement run_gather_lock_sql = {
    "run_gather_lock", "SELECT 1::int8 FROM pg_advisory_xact_lock(7308, hashtext($1::text || ' ' || $2))", "uuid text", "int8"};
/* Each gathering waits twice as long as the one before, up to half an hour, and others then have the runners for about as long. The length of that
 * rest is drawn: otherwise two runs that keep each other's runners could give up and begin together for ever. */
static const struct pg_statement run_gather_begin_sql = {
    "run_gather_begin",
    "UPDATE run r SET gathers = least(gathers + 1, 100), gathered = false,"
    " gather_until = now() + least(power(2, gathers), $3) * $2 * interval '1 millisecond',"
    " gather_after = now() + least(power(2, gathers), $3) * $2 * (1.5 + $4 / 256.0) * interval '1 millisecond'"
    " FROM project p WHERE r.run_id = $1 AND p.project_id = r.project_id AND r.state = 'ordered' AND r.gather_until <= now()"
    " AND r.gather_after <= now() AND ($5 OR NOT " ANOTHER_GATHERS ")",
    "uuid int8 int8 int4 bool", ""};
static const struct pg_statement run_gather_join_sql = {
    "run_gather_join",
    "INSERT INTO run_share (run_id, key, nodes, until) SELECT r.run_id, $2, least($3, r.nodes - " KEPT_OF_OTHERS ")::int4,"
    " now() + $4 * interval '1 millisecond' FROM run r WHERE r.run_id = $1 AND r.state = 'ordered' AND NOT r.gathered AND r.gather_until > now()"
    " AND r.nodes > " KEPT_OF_OTHERS
    " ON CONFLICT (run_id, key) DO UPDATE SET nodes = excluded.nodes, until = excluded.until",
    "uuid text int4 int8", ""};
static const struct pg_statement run_gather_complete_sql = {
    "run_gather_complete",
    "WITH held AS (INSERT INTO run_kept (key, run_id) SELECT $4, $1 WHERE $5 ON CONFLICT (key) DO UPDATE SET run_id = excluded.run_id"
    " WHERE run_kept.run_id <> excluded.run_id)"
    " UPDATE run r SET gathered = true, gather_until = now() + ($2 + nodes * $3) * interval '1 millisecond' WHERE run_id = $1 AND state = 'ordered' AND NOT gathered"
    " AND gather_until > now() AND nodes <= (SELECT sum(s.nodes) FROM run_share s WHERE s.run_id = r.run_id AND s.until > now())",
    "uuid int8 int8 text bool", ""};
static const struct pg_statement run_gather_end_sql = {
    "run_gather_end",
    "WITH gone AS (UPDATE run_share SET until = least(until, now()) WHERE run_id = $1) UPDATE run SET gather_until = 'epoch', gather_after = 'epoch', gathers = 0,"
    " gathered = false WHERE run_id = $1",
    "uuid", ""};
static const struct pg_statement run_gather_leave_sql = {
    "run_gather_leave", "WITH paid AS (DELETE FROM run_kept WHERE key = $1) UPDATE run_share SET until = now() WHERE key = $1 AND run_id <> $2 AND until > now()", "text uuid", ""};
static const struct pg_statement run_gather_note_sql = {
    "run_gather_note",
    "INSERT INTO run_share (run_id, key, nodes, until) VALUES ($1, $2, $3, now()) ON CONFLICT (run_id, key) DO UPDATE SET nodes = excluded.nodes, until = now()",
    "uuid text int4", ""};
static const struct pg_statement *const statements[] = {
    &run_claim_sql, &run_region_drop_sql, &run_gather_find_sql, &run_gather_lock_sql, &run_gather_begin_sql,
    &run_gather_join_sql, &run_gather_complete_sql, &run_gather_end_sql,
    &run_gather_leave_sql, &run_gather_note_sql,
};
/* clang-format on */
const struct pg_table run_claim_table = PG_TABLE(statements);

static void add_offer(struct pg_arguments *arguments, const struct run_offer *offer)
{
    assert(offer->device_count <= RUN_OFFERED_MAX && offer->jurisdiction_count <= RUN_JURISDICTIONS_MAX);
    pg_add_text(arguments, offer->pool);
    pg_add_uuid(arguments, offer->organisation);
    pg_add_uuid(arguments, offer->project);
    pg_add_text_array(arguments, offer->jurisdictions, offer->jurisdiction_count);
    pg_add_int4(arguments, (int32_t)offer->isolation);
    pg_add_int4(arguments, (int32_t)offer->assurance);
    pg_add_int8(arguments, offer->cpus);
    pg_add_int8(arguments, offer->memory_bytes);
    pg_add_text_array(arguments, offer->device_types, offer->device_count);
    pg_add_text_array(arguments, offer->device_migs, offer->device_count);
    pg_add_int8_array(arguments, offer->device_memory, offer->device_count);
    pg_add_text(arguments, offer->key);
    pg_add_text(arguments, offer->region);
    pg_add_int8(arguments, offer->devices_most);
    pg_add_uuid(arguments, offer->run);
    pg_add_int4(arguments, (int32_t)offer->attempt);
    pg_add_int8(arguments, RUN_SILENCE_MS);
    pg_add_int8(arguments, RUN_FETCH_S);
    pg_add_time(arguments, offer->enrolled_until_ms);
}

/* ---- the search ---- */

static struct run_claim read_claim(const struct pg_rows *rows)
{
    const int64_t leased = pg_int8(rows, 0, 8);
    struct run_claim claim = {.run = pg_uuid(rows, 0, 0),
                              .attempt = pg_int8(rows, 0, 4) + (leased == 0 ? 1 : 0),
                              .node = leased,
                              .nodes = pg_int8(rows, 0, 5),
                              .time_s = pg_int8(rows, 0, 6),
                              .expires_ms = pg_time_ms(rows, 0, 7),
                              .attempts = pg_int8(rows, 0, 9)};

    run_read_where(rows, 0, 1, &claim.where);
    return claim;
}

/* Below which number runs of one node are for this runner. */
static int64_t bound_of(const struct run_offer *offer, const struct run_gather *gather)
{
    if (gather == NULL || offer->run != NULL) return INT64_MAX;
    if (gather->is_gathered) return 0;
    return gather->is_likely ? gather->number : INT64_MAX;
}

struct result run_claim(struct pg *pg, const struct run_offer *offer, const struct run_gather *gather,
                        struct run_claim *claim_out, bool *found_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    add_offer(&arguments, offer);
    pg_add_int8(&arguments, bound_of(offer, gather));
    TRY(pg_run(pg, &run_claim_sql, &arguments, &rows, err));
    *found_out = pg_rows_count(rows) == 1;
    if (*found_out) *claim_out = read_claim(rows);
    return SUCCESS;
}

struct result run_region_drop(const struct permit *permit, struct pg *pg, const struct run_claim *claim, const char *region,
                              int64_t *regions_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    permit_require_above(permit, ACTION_RUNNER_ASK, &claim->where);
    pg_add_uuid(&arguments, &claim->run);
    pg_add_text(&arguments, region);
    pg_add_uuid(&arguments, &claim->where.project);
    pg_add_text(&arguments, permit_resource(permit, ACTION_RUNNER_ASK)->detail);
    TRY(pg_run(pg, &run_region_drop_sql, &arguments, &rows, err));
    *regions_out =
        pg_rows_count(rows) == 1 ? pg_int8(rows, 0, 0) : 1; /* else another runner has claimed it, or it has moved on */
    return SUCCESS;
}

/* ---- runs of several nodes ---- */

struct result run_gather_find(struct lookup *lookup, const struct run_offer *offer, struct run_gather *gather_out,
                              bool *found_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    *found_out = false;
    if (offer->nodes == 0) return SUCCESS;
    add_offer(&arguments, offer);
    pg_add_int4(&arguments, (int32_t)offer->nodes);
    TRY(pg_run(lookup_connection(lookup), &run_gather_find_sql, &arguments, &rows, err));
    *found_out = pg_rows_count(rows) == 1;
    if (!*found_out) return SUCCESS;
    const int64_t lacking = pg_int8(rows, 0, 7);
    *gather_out = (struct run_gather){.claim = {.run = pg_uuid(rows, 0, 0), .nodes = pg_int8(rows, 0, 5)},
                                      .number = pg_int8(rows, 0, 4),
                                      .share = offer->nodes < lacking ? offer->nodes : lacking,
                                      .is_gathered = pg_bool(rows, 0, 6),
                                      .is_likely = pg_bool(rows, 0, 8)};
    run_read_where(rows, 0, 1, &gather_out->claim.where);
    return SUCCESS;
}

static struct result complete(struct pg *pg, const struct run_offer *offer, const struct run_gather *gather,
                              enum run_keeping *keeping_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, &gather->claim.run);
    pg_add_int8(&arguments, RUN_TAKE_MS);
    pg_add_int8(&arguments, RUN_TAKE_EACH_MS);
    pg_add_text(&arguments, offer->key);
    pg_add_bool(&arguments, offer->run == NULL && gather->is_likely);
    TRY(pg_run(pg, &run_gather_complete_sql, &arguments, &rows, err));
    if (pg_rows_affected(rows) == 1) *keeping_out = RUN_KEEPS_ENOUGH;
    return SUCCESS;
}

/* Two statements: the second one sees the shares of all that have joined before. */
static struct result join(struct pg *pg, const struct run_offer *offer, const struct run_gather *gather,
                          enum run_keeping *keeping_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, &gather->claim.run);
    pg_add_text(&arguments, offer->key);
    pg_add_int4(&arguments, (int32_t)gather->share);
    pg_add_int8(&arguments, RUN_SHARE_MS);
    TRY(pg_run(pg, &run_gather_join_sql, &arguments, &rows, err));
    *keeping_out = pg_rows_affected(rows) == 1 ? RUN_KEEPS : RUN_KEEPS_NOT;
    return *keeping_out == RUN_KEEPS ? complete(pg, offer, gather, keeping_out, err) : SUCCESS;
}

static struct result lock(struct pg *pg, const struct run_offer *offer, const struct run_gather *gather, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_uuid(&arguments, &gather->claim.where.organisation);
    pg_add_text(&arguments, offer->pool);
    return pg_run(pg, &run_gather_lock_sql, &arguments, NULL, err);
}

static struct result begin(struct pg *pg, const struct run_offer *offer, const struct run_gather *gather, struct error *err)
{
    struct pg_arguments arguments = {0};
    uint8_t drawn = 0;

    random_bytes(&drawn, sizeof drawn);
    TRY(lock(pg, offer, gather, err));
    pg_add_uuid(&arguments, &gather->claim.run);
    pg_add_int8(&arguments, RUN_GATHER_MS);
    pg_add_int8(&arguments, RUN_GATHER_LONGEST);
    pg_add_int4(&arguments, drawn);
    pg_add_bool(&arguments, offer->run != NULL);
    return pg_run(pg, &run_gather_begin_sql, &arguments, NULL, err);
}

static struct result begin_alone(struct pg *pg, const struct run_offer *offer, const struct run_gather *gather, struct error *err)
{
    TRY(pg_begin(pg, err));
    if (begin(pg, offer, gather, err).ok) return pg_commit(pg, err);
    pg_rollback(pg);
    return (struct result){.ok = false};
}

/* Mostly the run gathers already: then nothing is locked. */
struct result run_gather_join(struct pg *pg, const struct run_offer *offer, const struct run_gather *gather,
                              enum run_keeping *keeping_out, struct error *err)
{
    assert(gather->share > 0 && !gather->is_gathered);
    TRY(join(pg, offer, gather, keeping_out, err));
    if (*keeping_out != RUN_KEEPS_NOT) return SUCCESS;
    TRY(begin_alone(pg, offer, gather, err));
    return join(pg, offer, gather, keeping_out, err);
}

struct result run_gather_note(struct pg *pg, const struct run_offer *offer, const struct run_gather *gather, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_uuid(&arguments, &gather->claim.run);
    pg_add_text(&arguments, offer->key);
    pg_add_int4(&arguments, (int32_t)gather->share);
    return pg_run(pg, &run_gather_note_sql, &arguments, NULL, err);
}

struct result run_row_gather_end(struct pg *pg, const struct uuid *run, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_uuid(&arguments, run);
    return pg_run(pg, &run_gather_end_sql, &arguments, NULL, err);
}

struct result run_row_gather_leave(struct pg *pg, const char *key, const struct uuid *run, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_text(&arguments, key);
    pg_add_uuid(&arguments, run);
    return pg_run(pg, &run_gather_leave_sql, &arguments, NULL, err);
}
