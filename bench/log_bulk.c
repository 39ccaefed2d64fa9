/*
 * bench/log_bulk.c -- fills a registry's log with events of the realistic mix (bench/event_mix.h), far faster than gateways append.
 *
 * usage: log_bulk CONNINFO KEYD-SOCKET ORIGIN EVENTS EPOCH SEED [unsearched]
 * With the rights of a gateway. Leaves, sealed parts, hashes, tiles, numbers under keys and index rows are those that a gateway writes,
 * made by its code; only the rows come by COPY. It holds the log's lock: gateways wait, and go on behind the new events. sijil-keyd signs
 * the longer log as it signs any other. With "unsearched" the index of searches gets no rows, and is said to know the events: they can't be found, and take
 * 1.6 GB a million instead of 2.4. Status 3: the index of searches is behind the log; try again. Prints events/s.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"
#include "bench/event_mix.h"
#include "bench/log_bulk.h"
#include "crypto/keyd_client.h"

#define SOURCES  64 /* clients that take turns */
#define SUBJECTS 4096
#define LEVELS   4                 /* of tiles: 2^32 entries */
#define BEHIND   3                 /* status */
#define FACTS    ((size_t)1 << 17) /* the mix has 15,000 different ones */

static struct bulk {
    const char *conninfo, *origin;
    struct keyd_client *keyd;
    struct pg *pg; /* for the keys of subjects */
    struct subject_cache *subjects;
    struct log_copy log, payloads, runs, tiles, facts; /* `log` has the locks, and commits last */
    struct bulk_keys keys;
    struct bulk_index *index; /* NULL: events are unsearched */
    struct merkle_frontier frontier;
    struct merkle_hash tails[LEVELS][TILE_WIDTH];
    int64_t time_ms;
    uint64_t boot, number;
    struct mix_source sources[SOURCES];
    struct leaf leaf;
    uint8_t facts_seen[FACTS][LEAF_FACTS_DIGEST]; /* a set, by the first bytes; zeros: free */
} bulk;

static void must(struct result result, const struct error *err)
{
    if (result.ok) return;
    (void)fprintf(stderr, "log_bulk: %s\n", err->message);
    exit(1);
}

static uint64_t ask_number(const char *sql)
{
    PGresult *result = log_copy_ask(&bulk.log, sql);
    const uint64_t number = PQntuples(result) == 1 ? load_u64((const uint8_t *)PQgetvalue(result, 0, 0)) : 0;

    PQclear(result);
    return number;
}

static void read_hashes(const char *sql, struct merkle_hash *hashes, size_t count)
{
    PGresult *result = log_copy_ask(&bulk.log, sql);

    if ((size_t)PQntuples(result) != count) abort();
    for (size_t i = 0; i < count; i++) memcpy(hashes[i].bytes, PQgetvalue(result, (int)i, 0), MERKLE_HASH_SIZE);
    PQclear(result);
}

/* The unfinished tile of each level. */
static void read_tails(uint64_t size)
{
    char sql[160];

    (void)snprintf(sql, sizeof sql, "SELECT leaf_hash FROM audit_entry WHERE seq >= %" PRIu64 " ORDER BY seq",
                   size / TILE_WIDTH * TILE_WIDTH);
    read_hashes(sql, bulk.tails[0], size % TILE_WIDTH);
    for (unsigned level = 1; level < LEVELS; level++) {
        const uint64_t full = tile_full_count(size, level - 1);
        (void)snprintf(sql, sizeof sql, "SELECT root FROM audit_tile WHERE level = %u AND idx >= %" PRIu64 " ORDER BY idx",
                       level - 1, full / TILE_WIDTH * TILE_WIDTH);
        read_hashes(sql, bulk.tails[level], full % TILE_WIDTH);
    }
}

static void read_state(void)
{
    struct error err = {0};

    PQclear(log_copy_ask(&bulk.log, "SELECT pg_advisory_xact_lock(7307, 7)"));
    PQclear(log_copy_ask(&bulk.log, "SELECT pg_advisory_xact_lock(7307, 2)"));
    if (ask_number("SELECT l.size - s.indexed FROM audit_log l, audit_search s") != 0) exit(BEHIND);
    PGresult *state = log_copy_ask(&bulk.log, "SELECT size, last_ts, frontier FROM audit_log");
    const struct bytes frontier = {(const uint8_t *)PQgetvalue(state, 0, 2), (size_t)PQgetlength(state, 0, 2)};
    const uint64_t size = load_u64((const uint8_t *)PQgetvalue(state, 0, 0));
    bulk.time_ms = (int64_t)load_u64((const uint8_t *)PQgetvalue(state, 0, 1));
    must(merkle_frontier_read(size, frontier, &bulk.frontier, &err), &err);
    PQclear(state);
    read_tails(size);
    bulk.boot = ask_number("SELECT nextval('audit_boot')");
    bulk_keys_init(&bulk.keys, &bulk.log);
}

static void open_all(uint64_t seed, uint64_t epoch, bool is_searched)
{
    static const struct pg_table *const tables[] = {&audit_subject_table, NULL};
    struct error err = {0};

    must(pg_open(bulk.conninfo, tables, &bulk.pg, &err), &err);
    must(subject_cache_new(SUBJECTS, &bulk.subjects, &err), &err);
    log_copy_open(&bulk.log, bulk.conninfo);
    read_state();
    log_copy_open(&bulk.payloads, bulk.conninfo);
    log_copy_open(&bulk.runs, bulk.conninfo);
    log_copy_open(&bulk.tiles, bulk.conninfo);
    log_copy_open(&bulk.facts, bulk.conninfo);
    if (is_searched) must(bulk_index_new(bulk.conninfo, bulk.keyd, bulk.frontier.size, &bulk.index, &err), &err);
    for (size_t i = 0; i < SOURCES; i++) mix_seed(&bulk.sources[i], seed * SOURCES + i + 1, epoch);
}

/* False: the facts with this digest are stored, or were added before. */
static bool note_facts(const uint8_t *digest)
{
    static const uint8_t nothing[LEAF_FACTS_DIGEST];
    size_t slot = load_u64(digest) % FACTS;

    while (memcmp(bulk.facts_seen[slot], nothing, sizeof nothing) != 0) {
        if (memcmp(bulk.facts_seen[slot], digest, sizeof nothing) == 0) return false;
        slot = (slot + 1) % FACTS;
    }
    memcpy(bulk.facts_seen[slot], digest, sizeof nothing);
    return true;
}

static void read_facts(void)
{
    PGresult *result = log_copy_ask(&bulk.log, "SELECT digest FROM audit_facts LIMIT 50000");

    for (int i = 0; i < PQntuples(result); i++) (void)note_facts((const uint8_t *)PQgetvalue(result, i, 0));
    PQclear(result);
}

static void add_facts(const struct decision *decision)
{
    if (!note_facts(decision->facts_digests[0])) return;
    log_copy_row(&bulk.facts, 2);
    log_copy_bytes(&bulk.facts, decision->facts_digests[0], LEAF_FACTS_DIGEST);
    log_copy_bytes(&bulk.facts, decision->parts.facts[0].data, decision->parts.facts[0].length);
}

/* Partitions are made beforehand: an entry has a place when it comes. */
static void begin_copies(uint64_t until)
{
    char sql[80];

    for (uint64_t i = 0; i <= until >> 24; i++) {
        (void)snprintf(sql, sizeof sql, "SELECT audit_add_partition(%" PRIu64 ")", i);
        PQclear(log_copy_ask(&bulk.log, sql));
    }
    read_facts();
    log_copy_begin(&bulk.facts, "audit_facts (digest, facts)");
    log_copy_begin(&bulk.log, "audit_entry (seq, ts, leaf, leaf_hash, action, outcome)");
    log_copy_begin(&bulk.payloads, "audit_payload (seq, subject, salt, box)");
    log_copy_begin(&bulk.runs, "audit_run (key, last, n, seqs)");
    log_copy_begin(&bulk.tiles, "audit_tile (level, idx, hashes, root)");
}

static void add_tile(unsigned level, uint64_t index)
{
    const struct merkle_hash root = tile_root(bulk.tails[level], TILE_WIDTH);

    log_copy_row(&bulk.tiles, 4);
    log_copy_int4(&bulk.tiles, (int32_t)level);
    log_copy_int8(&bulk.tiles, (int64_t)index);
    log_copy_bytes(&bulk.tiles, bulk.tails[level], TILE_BYTES);
    log_copy_bytes(&bulk.tiles, root.bytes, sizeof root.bytes);
    if (level + 1 < LEVELS) bulk.tails[level + 1][index % TILE_WIDTH] = root;
}

static void add_hash(const struct merkle_hash *hash)
{
    uint64_t index = bulk.frontier.size;

    merkle_append(&bulk.frontier, hash);
    bulk.tails[0][index % TILE_WIDTH] = *hash;
    for (unsigned level = 0; level < LEVELS && (index + 1) % TILE_WIDTH == 0; level++) {
        index /= TILE_WIDTH;
        add_tile(level, index);
    }
}

static void add_payload(const struct event *event, const struct buffer *box)
{
    log_copy_row(&bulk.payloads, 4);
    log_copy_int8(&bulk.payloads, (int64_t)event->sequence);
    log_copy_bytes(&bulk.payloads, event->record->resolved->index, 32);
    log_copy_bytes(&bulk.payloads, event->salt, sizeof event->salt);
    log_copy_bytes(&bulk.payloads, box->data, box->length);
}

static void add_entry(const struct event *event)
{
    struct buffer OWNED_BUFFER text = BUFFER(LEAF_MAX);
    struct merkle_hash hash;
    struct error err = {0};

    must(leaf_write(&bulk.leaf, &text, &err), &err);
    merkle_leaf_hash(buffer_bytes(&text), &hash);
    log_copy_row(&bulk.log, 6);
    log_copy_int8(&bulk.log, (int64_t)event->sequence);
    log_copy_int8(&bulk.log, bulk.time_ms);
    log_copy_bytes(&bulk.log, text.data, text.length);
    log_copy_bytes(&bulk.log, hash.bytes, sizeof hash.bytes);
    log_copy_text(&bulk.log, action_name(event->action));
    log_copy_text(&bulk.log, outcome_name(event->outcome));
    add_hash(&hash);
}

static void resolve(struct record *record)
{
    const char *const names[2] = {record->context.issuer, record->context.subject};
    struct error err = {0};

    if (record->decision == NULL) return;
    record->resolved = subject_cache_find(bulk.subjects, names[0], names[1]);
    if (record->resolved == NULL)
        must(subject_cache_resolve(bulk.subjects, bulk.keyd, bulk.pg, names, &record->resolved, &err), &err);
}

static void number_event(struct event *event)
{
    const int64_t now_ms = clock_wall_ms();

    if (now_ms > bulk.time_ms) bulk.time_ms = now_ms;
    event->sequence = bulk.frontier.size;
    (void)snprintf(event->source.instance, sizeof event->source.instance, "bulk");
    event->source.boot = bulk.boot;
    event->source.number = bulk.number++;
    if (event->permit == NULL) return;
    event->permit->sequence = event->sequence;
    event_name_permit(event);
}

static void add_event(struct mix_source *source)
{
    struct buffer OWNED_BUFFER box = BUFFER(65536);
    struct record record;
    struct event event;
    struct error err = {0};

    mix_next(source, &record);
    resolve(&record);
    if (record.decision != NULL) add_facts(record.decision);
    must(event_of_record(&record, &event, &err), &err);
    number_event(&event);
    if (record.resolved != NULL) must(event_seal_payload(&event, record.resolved, bulk.origin, &box, &err), &err);
    event_fill_leaf(&event, &bulk.leaf);
    bulk.leaf.sequence = event.sequence;
    bulk.leaf.time_ms = bulk.time_ms;
    bulk_keys_number(&bulk.keys, &bulk.leaf);
    if (record.resolved != NULL) add_payload(&event, &box);
    add_entry(&event);
    if (bulk.index != NULL)
        bulk_index_add(bulk.index, &bulk.leaf, record.resolved, record.context.client_address, source->country);
    record.permit = GIVE(event.permit);
    subject_cache_release(bulk.subjects, record.resolved);
    record.resolved = NULL;
    mix_recorded(source, &record);
}

static void set_size(uint64_t known)
{
    struct buffer OWNED_BUFFER text = BUFFER(65 * MERKLE_HASH_SIZE);
    char sql[512 + 2 * 64 * MERKLE_HASH_SIZE], hex[2 * 64 * MERKLE_HASH_SIZE + 1];
    struct error err = {0};

    must(merkle_frontier_write(&bulk.frontier, &text, &err), &err);
    for (size_t i = 0; i < text.length; i++) (void)snprintf(hex + 2 * i, 3, "%02x", text.data[i]);
    (void)snprintf(sql, sizeof sql, "UPDATE audit_log SET size = %" PRIu64 ", last_ts = %" PRId64 ", frontier = '\\x%s'",
                   bulk.frontier.size, bulk.time_ms, hex);
    PQclear(log_copy_ask(&bulk.log, sql));
    (void)snprintf(sql, sizeof sql, "UPDATE audit_search SET indexed = %" PRIu64, known);
    PQclear(log_copy_ask(&bulk.log, sql));
}

/* The commits follow each other at once: rows beyond the end would stop a gateway. */
static void end(void)
{
    bulk_keys_write(&bulk.keys, &bulk.runs);
    log_copy_end(&bulk.runs);
    log_copy_end(&bulk.payloads);
    log_copy_end(&bulk.tiles);
    log_copy_end(&bulk.facts);
    log_copy_end(&bulk.log);
    set_size(bulk.index == NULL ? bulk.frontier.size / POSTING_BLOCK * POSTING_BLOCK : bulk_index_end(bulk.index));
    log_copy_commit(&bulk.facts);
    log_copy_commit(&bulk.runs);
    log_copy_commit(&bulk.payloads);
    log_copy_commit(&bulk.tiles);
    log_copy_commit(&bulk.log);
}

static void fill(uint64_t count)
{
    const uint64_t until = bulk.frontier.size + count;
    const int64_t began_us = clock_monotonic_us();

    begin_copies(until);
    while (bulk.frontier.size < until) {
        add_event(&bulk.sources[bulk.frontier.size % SOURCES]);
        if (bulk.frontier.size % GROUP_EVENTS == 0) bulk_keys_write(&bulk.keys, &bulk.runs);
        if (bulk.frontier.size % 1000000 == 0) (void)fprintf(stderr, "%" PRIu64 " entries\n", bulk.frontier.size);
    }
    end();
    (void)printf("%.0f events/s, 0 failed\n", (double)count * 1e6 / (double)(clock_monotonic_us() - began_us));
}

int main(int argc, char **argv)
{
    uint64_t count = 0, epoch = 0, seed = 0;
    struct error err = {0};

    const bool is_searched = argc == 7;

    if ((!is_searched && (argc != 8 || strcmp(argv[7], "unsearched") != 0)) ||
        !text_to_u64(bytes_of_text(argv[4]), 100000000, &count) || !text_to_u64(bytes_of_text(argv[5]), INT64_MAX, &epoch) ||
        !text_to_u64(bytes_of_text(argv[6]), INT32_MAX, &seed)) {
        (void)fprintf(stderr, "usage: log_bulk CONNINFO KEYD-SOCKET ORIGIN EVENTS EPOCH SEED [unsearched]\n");
        return 2;
    }
    bulk.conninfo = argv[1];
    bulk.origin = argv[3];
    must(keyd_client_new(argv[2], 2000, &bulk.keyd, &err), &err);
    open_all(seed, epoch, is_searched);
    fill(count);
    for (size_t i = 0; i < SOURCES; i++) permit_free(bulk.sources[i].permit);
    subject_cache_free(bulk.subjects);
    pg_free(bulk.pg);
    keyd_client_free(bulk.keyd);
    free(bulk.keys.slots);
    return 0;
}
