/* The log as foreign programs walk it: tiles, bundles, published checkpoints; and that nothing leaves that was not signed. */
#define READER_TABLES &published_table,
#include "tests/integration/audit_query_fixture.h"

#include <string.h>

#include "audit/audit_store.h"
#include "audit/format/add_checkpoint.h"
#include "audit/format/checkpoint.h"
#include "audit/own_reads.h"
#include "audit/published.h"
#include "base/fault.h"
#include "base/memory.h"

#define SIZE 600 /* two full tiles, a partial one, and a partial tile above them */

struct world {
    struct audit_log log;
    struct pg *pg;
    struct permit *tiles, *entries, *checkpoints;
    struct signed_checkpoint newest;
    struct log_keys keys; /* outlive the sequencer */
};

static struct signed_checkpoint signed_now(const struct audit_log *log, uint64_t size)
{
    struct signed_checkpoint checkpoint;
    struct error err = {0};

    assert_true(sequencer_await_signed(log->sequencer, size - 1, &err).ok);
    assert_true(sequencer_checkpoint(log->sequencer, &checkpoint, &err).ok);
    assert_int_equal(checkpoint.size, size);
    return checkpoint;
}

static void open_world(struct world *world)
{
    audit_log_open(&world->log);
    record_some(&world->log, 3);
    (void)signed_now(&world->log, 3);
    record_some(&world->log, 253);
    (void)signed_now(&world->log, 256);
    record_some(&world->log, SIZE - 256);
    world->newest = signed_now(&world->log, SIZE);
    world->keys = *sequencer_log_keys(world->log.sequencer);
    world->pg = reader(&world->log);
    world->tiles = permitted(ACTION_TILE_READ, RESOURCE_SYSTEM, "");
    world->entries = permitted(ACTION_ENTRIES_READ, RESOURCE_SYSTEM, "");
    world->checkpoints = permitted(ACTION_CHECKPOINT_READ, RESOURCE_SYSTEM, "");
}

static void close_world(struct world *world)
{
    permit_free(world->tiles);
    permit_free(world->entries);
    permit_free(world->checkpoints);
    pg_free(world->pg);
    audit_log_close(&world->log);
}

static struct result read_tile(const struct world *world, const char *path, struct merkle_hash *hashes_out, unsigned *width_out,
                               struct error *err)
{
    struct tile_name name;

    assert_true(tile_name_read(path, &name, err).ok);
    TRY(published_tile(world->tiles, world->pg, &name, &world->newest, hashes_out, err));
    *width_out = name.width;
    return SUCCESS;
}

/* A second tree of the leaves, by the definition. */
static void tiles_are_those_of_the_leaves(void **state)
{
    static struct merkle_hash leaves[SIZE], hashes[TILE_WIDTH];
    struct world world;
    struct error err = {0};

    (void)state;
    open_world(&world);
    assert_true(audit_load_leaf_hashes(world.pg, 0, SIZE, leaves, &err).ok);
    for (unsigned width = 1; width <= SIZE - 512; width++) { /* each that was ever published, also between checkpoints */
        char path[32];
        unsigned got = 0;
        (void)snprintf(path, sizeof path, "0/002.p/%u", width);
        assert_true(read_tile(&world, path, hashes, &got, &err).ok);
        assert_int_equal(got, width);
        assert_memory_equal(hashes, leaves + 512, width * sizeof hashes[0]);
    }
    unsigned width = 0;
    for (unsigned tile = 0; tile < 2; tile++) {
        char path[32];
        (void)snprintf(path, sizeof path, "0/%03u", tile);
        assert_true(read_tile(&world, path, hashes, &width, &err).ok && width == TILE_WIDTH);
        assert_memory_equal(hashes, leaves + (size_t)256 * tile, sizeof hashes);
        const struct merkle_hash root = tile_root(hashes, TILE_WIDTH);
        struct merkle_hash above[TILE_WIDTH];
        assert_true(read_tile(&world, "1/000.p/2", above, &width, &err).ok && width == 2);
        assert_true(merkle_hash_equal(&root, &above[tile]));
        (void)snprintf(path, sizeof path, "0/%03u.p/7", tile); /* a full tile still has its old widths */
        assert_true(read_tile(&world, path, hashes, &width, &err).ok && width == 7);
        assert_memory_equal(hashes, leaves + (size_t)256 * tile, 7 * sizeof hashes[0]);
    }
    close_world(&world);
}

static void nothing_beyond_the_signed_log_is_there(void **state)
{
    static const char *const absent[] = {"0/002",     "0/002.p/89", "0/003",      "0/003.p/1",
                                         "1/000",     "1/000.p/3",  "1/001.p/1",  "2/000.p/1",
                                         "7/000.p/1", "8/000",      "63/000.p/1", "0/x036/x028/x797/x018/x963/968"};
    struct world world;
    struct merkle_hash hashes[TILE_WIDTH];
    struct buffer OWNED_BUFFER bundle = BUFFER(PUBLISHED_BUNDLE_MAX);
    struct tile_name name;
    unsigned width = 0;
    struct error err = {0};

    (void)state;
    open_world(&world);
    record_some(&world.log, 3); /* durable, but the caller's checkpoint does not have them */
    for (size_t i = 0; i < COUNT(absent); i++) {
        assert_false(read_tile(&world, absent[i], hashes, &width, &err).ok);
        assert_int_equal(err.kind, ERROR_NOT_FOUND);
    }
    assert_true(tile_name_read("entries/002.p/89", &name, &err).ok);
    assert_false(published_entries(world.entries, world.pg, &name, &world.newest, &bundle, &err).ok);
    assert_int_equal(err.kind, ERROR_NOT_FOUND);
    assert_int_equal(bundle.length, 0);
    close_world(&world);
}

static void assert_bundle_fits(const struct world *world, const char *bundle_path, const char *tile_path)
{
    struct merkle_hash hashes[TILE_WIDTH], hash;
    struct buffer OWNED_BUFFER bundle = BUFFER(PUBLISHED_BUNDLE_MAX);
    struct tile_name name;
    unsigned width = 0;
    struct error err = {0};

    assert_true(tile_name_read(bundle_path, &name, &err).ok);
    assert_true(published_entries(world->entries, world->pg, &name, &world->newest, &bundle, &err).ok);
    assert_true(read_tile(world, tile_path, hashes, &width, &err).ok);
    struct reader reader = reader_of(buffer_bytes(&bundle));
    for (unsigned i = 0; i < width; i++) {
        const uint16_t length = reader_u16(&reader);
        merkle_leaf_hash(reader_take(&reader, length), &hash);
        assert_true(merkle_hash_equal(&hash, &hashes[i]));
    }
    assert_false(reader.failed);
    assert_int_equal(reader.left.length, 0);
}

static void bundles_have_the_entries_of_their_tile(void **state)
{
    struct world world;

    (void)state;
    open_world(&world);
    assert_bundle_fits(&world, "entries/000", "0/000");
    assert_bundle_fits(&world, "entries/001.p/1", "0/001.p/1");
    assert_bundle_fits(&world, "entries/002.p/88", "0/002.p/88");
    close_world(&world);
}

/* Each edit of a superuser, and the thing that must not leave afterwards. */
static const struct edit {
    const char *sql, *undo, *tile, *bundle; /* NULL: not concerned */
} edits[] = {
    {"UPDATE audit_entry SET leaf = set_byte(leaf, 19, get_byte(leaf, 19) # 1) WHERE seq = 5",
     "UPDATE audit_entry SET leaf = (SELECT leaf FROM kept WHERE seq = 5) WHERE seq = 5", NULL, "entries/000.p/6"},
    {"UPDATE audit_entry SET leaf_hash = sha256('x') WHERE seq = 590",
     "UPDATE audit_entry SET leaf_hash = (SELECT leaf_hash FROM kept WHERE seq = 590) WHERE seq = 590", "0/002.p/1",
     "entries/002.p/1"},
    {"UPDATE audit_tile SET hashes = overlay(hashes PLACING '\\x00000000' FROM 8189) WHERE level = 0 AND idx = 0",
     "UPDATE audit_tile SET hashes = (SELECT hashes FROM kept_tile WHERE idx = 0) WHERE level = 0 AND idx = 0", "0/000",
     "entries/000"},
    {"UPDATE audit_tile SET hashes = overlay(hashes PLACING '\\x00000000' FROM 1) WHERE level = 0 AND idx = 1",
     "UPDATE audit_tile SET hashes = (SELECT hashes FROM kept_tile WHERE idx = 1) WHERE level = 0 AND idx = 1", "0/001.p/1",
     "entries/001"},
    {"UPDATE audit_tile SET root = sha256('x') WHERE level = 0 AND idx = 0",
     "UPDATE audit_tile SET root = (SELECT root FROM kept_tile WHERE idx = 0) WHERE level = 0 AND idx = 0", "1/000.p/2", NULL},
    {"DELETE FROM audit_tile WHERE level = 0 AND idx = 1", "INSERT INTO audit_tile SELECT * FROM kept_tile WHERE idx = 1",
     "0/001", "entries/001"},
    {"DELETE FROM audit_entry WHERE seq = 599", "INSERT INTO audit_entry SELECT * FROM kept WHERE seq = 599", "0/002.p/1",
     "entries/002.p/88"},
};

static void an_edited_row_never_leaves(void **state)
{
    struct world world;
    struct merkle_hash hashes[TILE_WIDTH];
    unsigned width = 0;
    struct tile_name name;
    struct error err = {0};

    (void)state;
    open_world(&world);
    sequencer_free(world.log.sequencer); /* it would find the edits, too */
    world.log.sequencer = NULL;
    database_execute(world.log.database,
                     "CREATE TABLE kept AS SELECT * FROM audit_entry; CREATE TABLE kept_tile AS SELECT * FROM audit_tile");
    for (size_t i = 0; i < COUNT(edits); i++) {
        struct buffer OWNED_BUFFER bundle = BUFFER(PUBLISHED_BUNDLE_MAX);
        database_execute(world.log.database, edits[i].sql);
        if (edits[i].tile != NULL) {
            if (read_tile(&world, edits[i].tile, hashes, &width, &err).ok) fail_msg("served after: %s", edits[i].sql);
            assert_int_equal(err.kind, ERROR_FORKED);
        }
        if (edits[i].bundle != NULL) {
            assert_true(tile_name_read(edits[i].bundle, &name, &err).ok);
            if (published_entries(world.entries, world.pg, &name, &world.newest, &bundle, &err).ok)
                fail_msg("served after: %s", edits[i].sql);
            assert_int_equal(err.kind, ERROR_FORKED);
        }
        database_execute(world.log.database, edits[i].undo);
        if (edits[i].tile != NULL) assert_true(read_tile(&world, edits[i].tile, hashes, &width, &err).ok);
    }
    close_world(&world);
}

static struct result find_size(const struct world *world, uint64_t size, struct signed_checkpoint *checkpoint_out,
                               struct error *err)
{
    const struct published_query query = {ACTION_CHECKPOINT_READ, &world->keys, size};

    return published_checkpoint(world->checkpoints, world->pg, &query, checkpoint_out, err);
}

static void proofs_lead_from_one_published_size_to_another(void **state)
{
    static const uint64_t sizes[] = {3, 256, SIZE};
    struct world world;
    struct error err = {0};

    (void)state;
    open_world(&world);
    for (size_t i = 0; i < COUNT(sizes); i++)
        for (size_t j = 0; j < COUNT(sizes); j++) {
            struct buffer OWNED_BUFFER text = BUFFER(16384);
            struct signed_checkpoint old, newer;
            struct add_checkpoint body;
            assert_true(find_size(&world, sizes[i], &old, &err).ok && find_size(&world, sizes[j], &newer, &err).ok);
            const struct published_pair pair = {&old, &newer};
            const bool ok = published_consistency(world.checkpoints, world.pg, &pair, &text, &err).ok;
            assert_int_equal(ok, i <= j);
            if (!ok) assert_int_equal(err.kind, ERROR_INVALID);
            if (!ok) continue;
            assert_true(add_checkpoint_read(buffer_bytes(&text), &body, &err).ok);
            assert_true(merkle_verify_consistency(old.size, newer.size, &old.root, &newer.root, &body.proof));
            assert_true(bytes_equal(body.note, bytes_of_text(newer.note)));
        }
    close_world(&world);
}

/* Rows that anybody with an INSERT wrote, also so many that a page has no other. */
static void rows_that_keyd_did_not_sign_are_no_checkpoints(void **state)
{
    struct world world;
    struct signed_checkpoint found;
    struct error err = {0};

    (void)state;
    open_world(&world);
    database_execute(world.log.database,
                     "INSERT INTO audit_checkpoint (size, root, note) SELECT 100, sha256('x'), 'x' || n FROM"
                     " generate_series(1, 250) n; INSERT INTO audit_checkpoint (size, root, note) SELECT 100, root, note"
                     " FROM audit_checkpoint WHERE size = 256; INSERT INTO audit_checkpoint (size, root, note)"
                     " SELECT 1, sha256('x'), 'x' || n FROM generate_series(1, 2000) n");
    static const uint64_t absent[] = {1, 100, 4, 601, INT64_MAX, UINT64_MAX};
    for (size_t i = 0; i < COUNT(absent); i++) {
        assert_false(find_size(&world, absent[i], &found, &err).ok);
        assert_int_equal(err.kind, ERROR_NOT_FOUND);
    }
    /* The true one behind 250 others. */
    database_execute(world.log.database,
                     "CREATE TEMP TABLE c AS SELECT * FROM audit_checkpoint WHERE size = 3; DELETE FROM audit_checkpoint"
                     " WHERE size = 3; INSERT INTO audit_checkpoint (size, root, note) SELECT 3, sha256('x'), 'x' || n"
                     " FROM generate_series(1, 250) n; INSERT INTO audit_checkpoint (size, root, note)"
                     " SELECT size, root, note FROM c");
    assert_true(find_size(&world, 3, &found, &err).ok);
    assert_int_equal(found.size, 3);
    close_world(&world);
}

/* 0: nothing is found. */
static uint64_t first_of(const struct world *world, const struct published_wish *wish, bool ascending)
{
    struct published_span span = {.ascending = ascending, .limit = 1000};
    OWNED(published_page) *page = NULL;
    struct error err = {0};

    must(published_find(world->checkpoints, world->pg, &world->keys, wish, &span.bounds, &err), &err);
    must(published_list(world->checkpoints, world->pg, &span, &page, &err), &err);
    for (size_t i = 0; i < published_page_count(page); i++) {
        struct published_row row;
        published_page_row(page, i, &world->keys, &row);
        assert_null(row.cosigned);
        if (row.is_signed) return row.checkpoint.size;
    }
    return 0;
}

/* By code of PostgreSQL: the signed notes alone begin with the name of the log. */
static uint64_t smallest_above(const struct world *world, uint64_t entry)
{
    char sql[200];

    (void)snprintf(sql, sizeof sql, "SELECT min(size) FROM audit_checkpoint WHERE size > %d AND note LIKE '" TEST_ORIGIN "%%'",
                   (int)entry);
    return strtoull(database_ask(world->log.database, sql), NULL, 10);
}

/* The world has checkpoints of 3, 256 and SIZE entries, and of some sizes between. */
static void a_checkpoint_is_found_by_entry_and_by_time(void **state)
{
    static const char foreign[] =
        "INSERT INTO audit_checkpoint (size, root, note) SELECT 101, sha256('x'), 'x' || n FROM generate_series";
    struct published_bounds bounds;
    struct world world;
    char sql[200];
    struct error err = {0};

    (void)state;
    open_world(&world);
    (void)snprintf(sql, sizeof sql, "%s(1, 250) n", foreign);
    database_execute(world.log.database, sql);
    static const uint64_t entries[] = {2, 3, 100, 255, 256};
    for (size_t i = 0; i < COUNT(entries); i++) {
        const struct published_wish wish = {.has_entry = true, .entry = entries[i]};
        assert_int_equal(first_of(&world, &wish, true), smallest_above(&world, entries[i]));
        assert_int_equal(first_of(&world, &wish, false), SIZE);
    }
    assert_int_equal(first_of(&world, &(struct published_wish){.has_entry = true, .entry = UINT64_MAX}, true), 0);
    database_execute(world.log.database, "UPDATE audit_checkpoint SET signed_at = '2020-01-01T00:00:00Z' WHERE size = 3;"
                                         "UPDATE audit_checkpoint SET signed_at = '2020-01-02T00:00:00Z' WHERE size = 256");
    const int64_t first_ms = 1577836800000, second_ms = first_ms + 86400000;
    const struct published_wish second = {.since_ms = first_ms + 1, .until_ms = second_ms + 1};
    assert_int_equal(first_of(&world, &second, true), 256);
    assert_int_equal(first_of(&world, &(struct published_wish){.until_ms = first_ms + 1}, false), 3);
    assert_int_equal(first_of(&world, &(struct published_wish){.until_ms = first_ms}, true), 0);
    /* An answer that others can empty would look complete. */
    (void)snprintf(sql, sizeof sql, "%s(251, 1100) n", foreign);
    database_execute(world.log.database, sql);
    const struct published_wish flooded = {.has_entry = true, .entry = 100};
    assert_false(published_find(world.checkpoints, world.pg, &world.keys, &flooded, &bounds, &err).ok);
    assert_int_equal(err.kind, ERROR_CORRUPT);
    close_world(&world);
}

static unsigned walk(const struct world *world, bool ascending, uint64_t *largest_out)
{
    struct published_span span = {.bounds = {INT64_MIN, INT64_MAX, -1}, .ascending = ascending, .limit = 2};
    unsigned count = 0;
    struct error err = {0};

    *largest_out = 0;
    for (size_t rows = 1; rows > 0;) {
        OWNED(published_page) *page = NULL;
        assert_true(published_list(world->checkpoints, world->pg, &span, &page, &err).ok);
        rows = published_page_count(page);
        assert_true(rows <= 2);
        for (size_t i = 0; i < rows; i++) {
            struct published_row row;
            published_page_row(page, i, &world->keys, &row);
            count += row.is_signed;
            if (row.is_signed && row.checkpoint.size > *largest_out) *largest_out = row.checkpoint.size;
            assert_true(row.stored_ms > 0);
        }
        span.has_cursor = true;
        if (rows > 0) span.cursor = published_page_id(page, rows - 1);
    }
    return count;
}

static void the_history_has_each_checkpoint_once(void **state)
{
    struct world world;
    uint64_t up = 0, down = 0;

    (void)state;
    open_world(&world);
    database_execute(
        world.log.database,
        "INSERT INTO audit_checkpoint (size, root, note) SELECT n, sha256('x'), 'x' || n FROM generate_series(1, 7) n");
    const unsigned count = walk(&world, true, &up);
    assert_true(count >= 3);
    assert_int_equal(walk(&world, false, &down), count);
    assert_true(up == SIZE && down == SIZE);
    close_world(&world);
}

static struct result read_all(const struct world *world, struct error *err)
{
    static const struct published_span span = {.limit = 10};
    const struct tile_name tile = {.index = 2, .width = 80}, bundle_name = {.is_entries = true, .index = 0, .width = 256};
    struct buffer OWNED_BUFFER bundle = BUFFER(PUBLISHED_BUNDLE_MAX), text = BUFFER(16384);
    struct merkle_hash hashes[TILE_WIDTH];
    struct signed_checkpoint old;
    OWNED(published_page) *page = NULL;

    TRY(published_tile(world->tiles, world->pg, &tile, &world->newest, hashes, err));
    TRY(published_entries(world->entries, world->pg, &bundle_name, &world->newest, &bundle, err));
    TRY(find_size(world, 256, &old, err));
    TRY(published_consistency(world->checkpoints, world->pg, &(struct published_pair){&old, &world->newest}, &text, err));
    TRY_UNTOUCHED_BYTES(page, published_list(world->checkpoints, world->pg, &span, &page, err));
    return SUCCESS;
}

static void reading_survives_every_failure(void **state)
{
    struct world world;
    unsigned long nth = 1, failures = 0;

    (void)state;
    open_world(&world);
    sequencer_free(world.log.sequencer); /* its threads would take the faults */
    world.log.sequencer = NULL;
    for (bool has_fired = true; has_fired; nth++) {
        struct error err = {0};
        if (pg_is_broken(world.pg)) assert_true(pg_reopen(world.pg, &err).ok);
        fault_arm(nth);
        const bool ok = read_all(&world, &err).ok;
        has_fired = fault_has_fired();
        fault_arm(0);
        assert_true(ok || (has_fired && err.message[0] != '\0'));
        if (!ok) assert_int_not_equal(err.kind, ERROR_FORKED); /* a failure is no finding */
        failures += !ok;
    }
    assert_failures(failures, 30);
    close_world(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiles_are_those_of_the_leaves),
        cmocka_unit_test(nothing_beyond_the_signed_log_is_there),
        cmocka_unit_test(bundles_have_the_entries_of_their_tile),
        cmocka_unit_test(an_edited_row_never_leaves),
        cmocka_unit_test(proofs_lead_from_one_published_size_to_another),
        cmocka_unit_test(a_checkpoint_is_found_by_entry_and_by_time),
        cmocka_unit_test(rows_that_keyd_did_not_sign_are_no_checkpoints),
        cmocka_unit_test(the_history_has_each_checkpoint_once),
        cmocka_unit_test(reading_survives_every_failure),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
