/* The table `run_offer`: what runners had free when they last asked for work. Nothing is leased by it; people learn from it why a run waits. */
#include <assert.h>

#include "storage/pg_table.h"
#include "training/lease_jobs.h"
#include "training/run_priv.h"
#include "training/work.h"

#define OFFER_FORGOTTEN_S 3600 /* such an old offer says nothing about the runner */

/* clang-format off */
static const struct pg_statement run_offer_note_sql = {
    "run_offer_note",
    "INSERT INTO run_offer AS o (key, pool, organisation_id, project_id, regions, jurisdictions, isolation, assurance, nodes, cpus, memory_bytes, devices_most,"
    " device_types, device_migs, device_memory, enrolled_until) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)"
    " ON CONFLICT (key) DO UPDATE SET pool = excluded.pool, organisation_id = excluded.organisation_id, project_id = excluded.project_id,"
    " regions = excluded.regions, jurisdictions = excluded.jurisdictions, isolation = excluded.isolation, assurance = excluded.assurance,"
    " nodes = excluded.nodes, cpus = excluded.cpus, memory_bytes = excluded.memory_bytes, devices_most = excluded.devices_most,"
    " device_types = excluded.device_types, device_migs = excluded.device_migs, device_memory = excluded.device_memory,"
    " enrolled_until = excluded.enrolled_until, asked_at = now()"
    " WHERE o.asked_at < now() - $17 * interval '1 second' OR (o.pool, o.organisation_id, o.project_id, o.regions, o.jurisdictions, o.isolation,"
    " o.assurance, o.nodes, o.cpus, o.memory_bytes, o.devices_most, o.device_types, o.device_migs, o.device_memory, o.enrolled_until)"
    " IS DISTINCT FROM (excluded.pool, excluded.organisation_id, excluded.project_id, excluded.regions, excluded.jurisdictions, excluded.isolation,"
    " excluded.assurance, excluded.nodes, excluded.cpus, excluded.memory_bytes, excluded.devices_most, excluded.device_types, excluded.device_migs,"
    " excluded.device_memory, excluded.enrolled_until)",
    "text text uuid uuid text[] text[] int4 int4 int8 int8 int8 int8 text[] text[] int8[] timestamptz int8", ""};
/* Runners that are busy with runs of the same organisation have not asked lately; those of other organisations are not counted. */
/* What a runner lacks, as the search for a run asks for it (claim_store.c). A value that is not known is NULL, and NULL lacks nothing. */
static const struct pg_statement run_offers_sql = {
    "run_offers",
    "WITH asked AS (SELECT array_remove(ARRAY[CASE WHEN NOT r.regions && o.regions THEN 'region' END,"
    " CASE WHEN NOT r.jurisdictions @> o.jurisdictions OR cardinality(o.jurisdictions) = 0 THEN 'jurisdiction' END,"
    " CASE WHEN r.isolation > o.isolation THEN 'isolation' END, CASE WHEN r.assurance > o.assurance THEN 'assurance' END,"
    " CASE WHEN r.cpus > o.cpus THEN 'cpus' END, CASE WHEN r.memory_bytes > o.memory_bytes THEN 'memory' END,"
    " CASE WHEN r.devices > o.devices_most OR (o.devices_most IS NOT NULL AND r.devices >"
    " (SELECT count(*) FROM unnest(o.device_types, o.device_migs, o.device_memory) AS d (type, mig, memory)"
    " WHERE strpos(' ' || d.type || ' ', ' ' || r.device_type || ' ') > 0 AND d.mig = r.device_mig AND d.memory >= r.device_memory)) THEN 'devices' END,"
    " CASE WHEN r.nodes > 1 AND o.nodes = 0 THEN 'nodes' END,"
    " CASE WHEN least(r.expires_at, now() + (r.time_s + $3) * interval '1 second') + interval '1 minute' > o.enrolled_until THEN 'enrolment' END,"
    " CASE WHEN EXISTS (SELECT 1 FROM run_attempt a WHERE a.run_id = r.run_id AND a.key = o.key AND a.outcome = 'returned'"
    " AND a.ended_at > now() - $4 * interval '1 millisecond') THEN 'rest' END], NULL) AS lacks"
    " FROM run r JOIN project p USING (project_id) JOIN run_offer o ON o.pool = r.pool AND (o.organisation_id IS NULL OR o.organisation_id = p.organisation_id)"
    " AND (o.project_id IS NULL OR o.project_id = r.project_id) AND o.asked_at > now() - $5 * interval '1 second'"
    " AND NOT EXISTS (SELECT 1 FROM run_session s WHERE s.key = o.key AND s.suspended_at IS NOT NULL)"
    " WHERE r.run_id = $1 AND r.project_id = $2 AND r.state = 'ordered'),"
    " busy AS (SELECT count(DISTINCT a.key) AS runners FROM run r JOIN project p USING (project_id) JOIN run other ON other.pool = r.pool AND other.ended_at IS NULL"
    " JOIN project q ON q.project_id = other.project_id JOIN run_attempt a ON a.run_id = other.run_id AND a.ended_at IS NULL"
    " LEFT JOIN run_offer o ON o.key = a.key WHERE r.run_id = $1 AND r.project_id = $2 AND other.run_id <> r.run_id"
    " AND (o.asked_at IS NULL OR o.asked_at <= now() - $5 * interval '1 second') AND q.organisation_id = p.organisation_id"
    " AND (o.project_id IS NULL OR o.project_id = r.project_id)), said AS ("
    "SELECT 0 AS place, ''::text AS what, (SELECT count(*) FROM asked) AS runners"
    " UNION ALL SELECT 1, 'fits', (SELECT count(*) FROM asked WHERE cardinality(lacks) = 0)"
    " UNION ALL SELECT 2, 'busy', runners FROM busy WHERE runners > 0"
    " UNION ALL SELECT 3, lack, count(*) FROM asked, unnest(lacks) AS lack GROUP BY lack)"
    " SELECT what, runners FROM said WHERE EXISTS (SELECT 1 FROM run WHERE run_id = $1 AND project_id = $2 AND state = 'ordered')"
    " ORDER BY place, runners DESC, what",
    "uuid uuid int8 int8 int8", "text int8"};
static const struct pg_statement run_offer_forget_sql = {
    "run_offer_forget", "DELETE FROM run_offer WHERE asked_at < now() - $1 * interval '1 second'", "int8", ""};
static const struct pg_statement *const statements[] = {&run_offer_note_sql, &run_offers_sql, &run_offer_forget_sql};
/* clang-format on */
const struct pg_table run_offer_table = PG_TABLE(statements);

static struct result note(struct pg *pg, struct pg_arguments *arguments, struct error *err)
{
    pg_add_int8(arguments, RUN_OFFER_EVERY_S);
    return pg_run(pg, &run_offer_note_sql, arguments, NULL, err);
}

struct result run_offer_note(struct pg *pg, const struct run_offer *offer, struct error *err)
{
    const struct bytes region = bytes_of_text(offer->region);
    struct pg_arguments arguments = {0};

    assert(offer->device_count <= RUN_OFFERED_MAX && offer->jurisdiction_count <= RUN_JURISDICTIONS_MAX);
    pg_add_text(&arguments, offer->key);
    pg_add_text(&arguments, offer->pool);
    pg_add_uuid(&arguments, offer->organisation);
    pg_add_uuid(&arguments, offer->project);
    pg_add_text_array(&arguments, &region, 1);
    pg_add_text_array(&arguments, offer->jurisdictions, offer->jurisdiction_count);
    pg_add_int4(&arguments, (int32_t)offer->isolation);
    pg_add_int4(&arguments, (int32_t)offer->assurance);
    pg_add_int8(&arguments, offer->nodes);
    pg_add_int8(&arguments, offer->cpus);
    pg_add_int8(&arguments, offer->memory_bytes);
    pg_add_int8(&arguments, offer->devices_most);
    pg_add_text_array(&arguments, offer->device_types, offer->device_count);
    pg_add_text_array(&arguments, offer->device_migs, offer->device_count);
    pg_add_int8_array(&arguments, offer->device_memory, offer->device_count);
    pg_add_time(&arguments, offer->enrolled_until_ms);
    return note(pg, &arguments, err);
}

#define NOT_KNOWN 11 /* columns from jurisdictions to enrolled_until */

struct result run_offer_note_queue(struct pg *pg, const char *key, const struct run_queue_query *query, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_text(&arguments, key);
    pg_add_text(&arguments, query->pool);
    pg_add_uuid(&arguments, query->organisation);
    pg_add_uuid(&arguments, query->project);
    pg_add_text_array(&arguments, query->regions, query->region_count);
    for (unsigned i = 0; i < NOT_KNOWN; i++) pg_add_null(&arguments);
    return note(pg, &arguments, err);
}

struct result run_read_offers(const struct permit *permit, struct pg *pg, enum action action, const struct uuid *id,
                              struct pg_rows **rows_out, struct error *err)
{
    const struct resource *where = run_project_of(permit, action);
    struct pg_arguments arguments = {0};

    pg_add_uuid(&arguments, id);
    pg_add_uuid(&arguments, &where->project);
    pg_add_int8(&arguments, RUN_FETCH_S);
    pg_add_int8(&arguments, RUN_SILENCE_MS);
    pg_add_int8(&arguments, RUN_OFFER_LIVE_S);
    return pg_run(pg, &run_offers_sql, &arguments, rows_out, err);
}

struct result run_offer_forget(struct pg *pg, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_int8(&arguments, OFFER_FORGOTTEN_S);
    return pg_run(pg, &run_offer_forget_sql, &arguments, NULL, err);
}
