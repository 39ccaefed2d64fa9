#include "audit/published.h"

#include <assert.h>
#include <string.h>

#include "audit/archive_priv.h"
#include "audit/format/add_checkpoint.h"
#include "audit/log_tiles_priv.h"
#include "audit/published_priv.h"
#include "base/memory.h"

static struct result not_there(const struct tile_name *name, struct error *err)
{
    char path[TILE_PATH_MAX];

    tile_name_write(name, path);
    return failure(err, ERROR_NOT_FOUND, "the signed log has no %s", path);
}

/* The node over the first 2^bits leaves of a proof whose leaf is the leftmost one: all their siblings stand to the right. */
static struct merkle_hash fold(const struct merkle_hash *leaf, const struct merkle_proof *proof, unsigned bits)
{
    struct merkle_hash hash = *leaf;

    for (unsigned i = 0; i < bits && i < proof->count; i++) merkle_node_hash(&hash, &proof->hashes[i], &hash);
    return hash;
}

/*
 * Whether each hash of the tile leads to the signed root. The proof of the first entry below the tile has all hashes of the tile but
 * the first, alone or combined; the first is compared with the path from that entry.
 */
static struct result check_tile(struct log_tiles *log, const struct tile_name *name, const struct signed_checkpoint *newest,
                                const struct merkle_hash *hashes, struct error *err)
{
    const unsigned bits = 8 * name->level;
    const uint64_t first = (name->index * TILE_WIDTH) << bits;
    struct merkle_proof proof;
    struct merkle_hash leaf;

    TRY(log->tiles.source.node(&log->tiles.source, 0, first, &leaf, err));
    TRY(merkle_prove_inclusion(&log->tiles.source, first, newest->size, &proof, err));
    const struct merkle_hash below = fold(&leaf, &proof, bits);
    if (merkle_hash_equal(&below, &hashes[0]) && merkle_verify_inclusion(first, newest->size, &leaf, &proof, &newest->root))
        return SUCCESS;
    return failure(err, ERROR_FORKED,
                   "tile %u/%llu of the log is not as it was signed: no proof leads from it to the root of %llu entries",
                   name->level, (unsigned long long)name->index, (unsigned long long)newest->size);
}

static struct result load_with(struct log_tiles *log, const struct tile_name *name, const struct signed_checkpoint *newest,
                               struct merkle_hash *hashes, struct error *err)
{
    const unsigned available = tile_name_available(name, newest->size);

    if (available < name->width) return not_there(name, err);
    TRY(log->tiles.load(&log->tiles, name->level, name->index, available, hashes, err));
    tile_source_put(&log->tiles, name->level, name->index, hashes, available);
    return check_tile(log, name, newest, hashes, err);
}

/* As many hashes as the log has for this tile, at least the wanted ones. */
static struct result load_tile(struct pg *pg, const struct tile_name *name, const struct signed_checkpoint *newest,
                               struct merkle_hash *hashes, struct error *err)
{
    struct log_tiles *log = memory_zeroed(1, sizeof *log);

    if (log == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a tile");
    log_tiles_init(log, pg, newest->size);
    const struct result loaded = load_with(log, name, newest, hashes, err);
    free(log);
    return loaded;
}

static void demand_whole(const struct permit *permit, enum action action)
{
    assert(permit_resource(permit, action)->kind == RESOURCE_SYSTEM);
}

struct result published_tile(const struct permit *permit, struct pg *pg, const struct tile_name *name,
                             const struct signed_checkpoint *newest, struct merkle_hash hashes_out[TILE_WIDTH], struct error *err)
{
    struct merkle_hash hashes[TILE_WIDTH];

    demand_whole(permit, ACTION_TILE_READ);
    assert(!name->is_entries && name->width > 0 && name->width <= TILE_WIDTH);
    TRY(load_tile(pg, name, newest, hashes, err));
    memcpy(hashes_out, hashes, name->width * sizeof *hashes);
    return SUCCESS;
}

static struct result add_entry(struct bytes leaf, const struct merkle_hash *wanted, struct buffer *bundle, struct error *err)
{
    struct merkle_hash hash;

    if (leaf.length > MERKLE_ENTRY_MAX) return failure(err, ERROR_FORKED, "an entry of the log is longer than any can be");
    merkle_leaf_hash(leaf, &hash);
    if (!merkle_hash_equal(&hash, wanted)) return failure(err, ERROR_FORKED, "an entry of the log is not as it was signed");
    return tile_add_entry(bundle, leaf, err);
}

struct result published_entries(const struct permit *permit, struct pg *pg, const struct tile_name *name,
                                const struct signed_checkpoint *newest, struct buffer *bundle, struct error *err)
{
    const struct tile_name hashed = {.index = name->index, .width = name->width};
    struct merkle_hash hashes[TILE_WIDTH];
    OWNED(archived_leaves) *archived = NULL;
    OWNED(pg_rows) *rows = NULL;

    demand_whole(permit, ACTION_ENTRIES_READ);
    assert(name->is_entries && name->width > 0 && name->width <= TILE_WIDTH);
    if (tile_name_available(name, newest->size) < name->width) return not_there(name, err);
    TRY(load_tile(pg, &hashed, newest, hashes, err));
    TRY(published_select_entries(pg, name->index * TILE_WIDTH, name->width, &rows, err));
    TRY(archived_load(pg, rows, (const size_t[2]){1, 0}, &archived, err));
    for (size_t i = 0; i < name->width; i++) TRY(add_entry(archived_leaf(archived, rows, i, 0), &hashes[i], bundle, err));
    return SUCCESS;
}

/* ---- checkpoints ---- */

#define FOREIGN_ROWS_MAX 1000 /* of one size: whoever inserts more can only hide a copy */

struct result published_checkpoint(const struct permit *permit, struct pg *pg, const struct published_query *query,
                                   struct signed_checkpoint *checkpoint_out, struct error *err)
{
    struct error why = {0};
    int64_t cursor = INT64_MIN;

    (void)permit_resource(permit, query->action);
    for (size_t seen = 0, more = 1; more > 0 && seen < FOREIGN_ROWS_MAX; seen += more) {
        OWNED(pg_rows) *rows = NULL;
        struct signed_checkpoint found;
        if (query->size > MERKLE_SIZE_MAX) break;
        TRY(published_select_of_size(pg, query->size, cursor, &rows, err));
        more = pg_rows_count(rows);
        for (size_t i = 0; i < more; i++) {
            cursor = pg_int8(rows, i, 0);
            if (!signed_checkpoint_read(query->keys, bytes_of_text(pg_text(rows, i, 1)), &found, &why).ok ||
                found.size != query->size)
                continue;
            *checkpoint_out = found;
            return SUCCESS;
        }
    }
    return failure(err, ERROR_NOT_FOUND, "no checkpoint of %llu entries was published: GET /api/v1/audit/checkpoints lists them",
                   (unsigned long long)query->size);
}

static struct result prove(struct pg *pg, const struct published_pair *pair, struct merkle_proof *proof_out, struct error *err)
{
    struct log_tiles *log = memory_zeroed(1, sizeof *log);
    struct merkle_proof proof = {0};

    if (log == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a proof");
    log_tiles_init(log, pg, pair->newer->size);
    const struct result proven = merkle_prove_consistency(&log->tiles.source, pair->old->size, pair->newer->size, &proof, err);
    free(log);
    TRY(proven);
    if (!merkle_verify_consistency(pair->old->size, pair->newer->size, &pair->old->root, &pair->newer->root, &proof))
        return failure(err, ERROR_FORKED,
                       "the log is not as it was signed: no proof leads from the root of %llu entries to that of %llu",
                       (unsigned long long)pair->old->size, (unsigned long long)pair->newer->size);
    *proof_out = proof;
    return SUCCESS;
}

struct result published_state_at(const struct permit *permit, struct pg *pg, uint64_t size, const struct signed_checkpoint *newer,
                                 struct signed_checkpoint *state_out, struct error *err)
{
    struct signed_checkpoint state = {.size = size};

    demand_whole(permit, ACTION_CHECKPOINT_READ);
    if (size == 0 || size > newer->size)
        return failure(err, ERROR_INVALID, "old is the smaller of two sizes: it is from 1 to %llu",
                       (unsigned long long)newer->size);
    struct log_tiles *log = memory_zeroed(1, sizeof *log);
    if (log == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a proof");
    log_tiles_init(log, pg, newer->size);
    const struct result computed = merkle_root_at(&log->tiles.source, size, &state.root, err);
    free(log);
    TRY(computed);
    *state_out = state;
    return SUCCESS;
}

struct result published_consistency(const struct permit *permit, struct pg *pg, const struct published_pair *pair,
                                    struct buffer *text, struct error *err)
{
    struct add_checkpoint body = {.old_size = pair->old->size, .note = bytes_of_text(pair->newer->note)};

    demand_whole(permit, ACTION_CHECKPOINT_READ);
    if (pair->old->size > pair->newer->size)
        return failure(err, ERROR_INVALID, "old is the smaller of two sizes: %llu is larger than %llu",
                       (unsigned long long)pair->old->size, (unsigned long long)pair->newer->size);
    TRY(prove(pg, pair, &body.proof, err));
    return add_checkpoint_write(&body, text, err);
}

/* The smallest signed size with the entry, and of several rows the first one. */
static struct result first_with(struct pg *pg, const struct log_keys *keys, uint64_t entry, int64_t *id_out, struct error *err)
{
    struct published_place place = {entry >= INT64_MAX ? INT64_MAX : (int64_t)entry, INT64_MAX};
    struct signed_checkpoint found;
    struct error why = {0};

    *id_out = INT64_MAX;
    for (size_t seen = 0, more = 1; more > 0 && seen < FOREIGN_ROWS_MAX; seen += more) {
        OWNED(pg_rows) *rows = NULL;
        TRY(published_select_larger(pg, &place, &rows, err));
        more = pg_rows_count(rows);
        for (size_t i = 0; i < more; i++) {
            place = (struct published_place){pg_int8(rows, i, 0), pg_int8(rows, i, 1)};
            if (!signed_checkpoint_read(keys, bytes_of_text(pg_text(rows, i, 2)), &found, &why).ok ||
                found.size != (uint64_t)place.size)
                continue;
            *id_out = place.id;
            return SUCCESS;
        }
        if (more == 0) return SUCCESS;
    }
    return failure(
        err, ERROR_CORRUPT,
        "more than %d rows of audit_checkpoint behind this entry were not signed by sijil-keyd: find out who wrote them",
        FOREIGN_ROWS_MAX);
}

struct result published_find(const struct permit *permit, struct pg *pg, const struct log_keys *keys,
                             const struct published_wish *wish, struct published_bounds *bounds_out, struct error *err)
{
    struct published_bounds bounds = {INT64_MIN, INT64_MAX, -1};
    int64_t id = 0;

    demand_whole(permit, ACTION_CHECKPOINT_READ);
    if (wish->has_entry) TRY(first_with(pg, keys, wish->entry, &bounds.low, err));
    if (wish->has_entry) bounds.above = wish->entry > INT64_MAX ? INT64_MAX : (int64_t)wish->entry;
    if (wish->since_ms != 0) TRY(published_id_at(pg, wish->since_ms, false, INT64_MAX, &id, err));
    if (wish->since_ms != 0 && id > bounds.low) bounds.low = id;
    if (wish->until_ms != 0) TRY(published_id_at(pg, wish->until_ms, true, INT64_MIN, &bounds.high, err));
    *bounds_out = bounds;
    return SUCCESS;
}

struct published_page {
    struct pg_rows *rows;
};

struct result published_list(const struct permit *permit, struct pg *pg, const struct published_span *span,
                             struct published_page **page_out, struct error *err)
{
    OWNED(published_page) *page = NULL;

    demand_whole(permit, ACTION_CHECKPOINT_READ);
    page = memory_zeroed(1, sizeof *page);
    if (page == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for checkpoints");
    TRY(published_select_page(pg, span, &page->rows, err));
    *page_out = GIVE(page);
    return SUCCESS;
}

size_t published_page_count(const struct published_page *page)
{
    return pg_rows_count(page->rows);
}

int64_t published_page_id(const struct published_page *page, size_t index)
{
    return pg_int8(page->rows, index, 0);
}

void published_page_row(const struct published_page *page, size_t index, const struct log_keys *keys,
                        struct published_row *row_out)
{
    struct published_row row = {.stored_ms = pg_time_ms(page->rows, index, 2)};
    struct error why;

    row.is_signed = signed_checkpoint_read(keys, bytes_of_text(pg_text(page->rows, index, 1)), &row.checkpoint, &why).ok;
    if (!pg_is_null(page->rows, index, 3)) row.cosigned = pg_text(page->rows, index, 3);
    *row_out = row;
}

void published_page_free(struct published_page *page)
{
    if (page == NULL) return;
    pg_rows_free(page->rows);
    free(page);
}
