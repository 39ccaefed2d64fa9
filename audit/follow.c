#include "audit/follow.h"

#include <assert.h>

#include "audit/log_tiles_priv.h"
#include "audit/query_priv.h"
#include "base/memory.h"

static struct result prove(struct log_tiles *tiles, const struct signed_checkpoint *checkpoint, uint64_t sequence,
                           struct bytes leaf, struct error *err)
{
    struct merkle_proof proof;
    struct merkle_hash hash;

    TRY(merkle_prove_inclusion(&tiles->tiles.source, sequence, checkpoint->size, &proof, err));
    merkle_leaf_hash(leaf, &hash);
    if (merkle_verify_inclusion(sequence, checkpoint->size, &hash, &proof, &checkpoint->root)) return SUCCESS;
    return failure(err, ERROR_FORKED, "entry %llu of the log, or a tile above it, is not as it was signed",
                   (unsigned long long)sequence);
}

/* Entries of one tile. */
struct stretch {
    const struct audit_page *page;
    size_t from, until; /* of the page */
};

static uint64_t first_of(const struct stretch *stretch)
{
    return audit_page_sequence(stretch->page, stretch->from);
}

/* The hashes of the whole tile: of these entries from their bytes, of the others as they are stored. */
static struct result hash_tile(struct log_tiles *tiles, const struct stretch *stretch, size_t width,
                               struct merkle_hash hashes_out[TILE_WIDTH], struct error *err)
{
    struct merkle_source *source = &tiles->tiles.source;
    const uint64_t first = first_of(stretch) / TILE_WIDTH * TILE_WIDTH;

    if (stretch->until - stretch->from < width)
        for (size_t i = 0; i < width; i++) TRY(source->node(source, 0, first + i, &hashes_out[i], err));
    for (size_t i = stretch->from; i < stretch->until; i++)
        merkle_leaf_hash(audit_page_leaf(stretch->page, i), &hashes_out[audit_page_sequence(stretch->page, i) - first]);
    return SUCCESS;
}

/*
 * The proof of one entry contains all hashes of its tile, so one proof is enough for all entries of a tile. It must be made of the hashes that were
 * computed here: a source that was just begun keeps the first tile that it is given. If the proof fails, the entries are tried one by one, to name one.
 */
static struct result prove_stretch(struct log_tiles *tiles, const struct signed_checkpoint *checkpoint,
                                   const struct stretch *stretch, struct error *err)
{
    const uint64_t sequence = first_of(stretch), index = sequence / TILE_WIDTH, left = checkpoint->size - index * TILE_WIDTH;
    const unsigned width = left < TILE_WIDTH ? (unsigned)left : TILE_WIDTH;
    struct merkle_hash hashes[TILE_WIDTH];
    struct merkle_proof proof;

    TRY(hash_tile(tiles, stretch, width, hashes, err));
    log_tiles_init(tiles, tiles->pg, checkpoint->size);
    tile_source_put(&tiles->tiles, 0, index, hashes, width);
    TRY(merkle_prove_inclusion(&tiles->tiles.source, sequence, checkpoint->size, &proof, err));
    if (merkle_verify_inclusion(sequence, checkpoint->size, &hashes[sequence % TILE_WIDTH], &proof, &checkpoint->root))
        return SUCCESS;
    log_tiles_init(tiles, tiles->pg, checkpoint->size);
    for (size_t i = stretch->from; i < stretch->until; i++)
        TRY(prove(tiles, checkpoint, audit_page_sequence(stretch->page, i), audit_page_leaf(stretch->page, i), err));
    return failure(err, ERROR_FORKED, "a tile of the log that has entry %llu was changed", (unsigned long long)sequence);
}

static struct result prove_stretches(struct log_tiles *tiles, const struct signed_checkpoint *checkpoint,
                                     const struct audit_page *page, struct error *err)
{
    const size_t count = audit_page_count(page);

    for (size_t from = 0; from < count;) {
        const size_t left = TILE_WIDTH - (size_t)(audit_page_sequence(page, from) % TILE_WIDTH);
        const struct stretch stretch = {page, from, left < count - from ? from + left : count};
        TRY(prove_stretch(tiles, checkpoint, &stretch, err));
        from = stretch.until;
    }
    return SUCCESS;
}

static struct result prove_page(struct pg *pg, const struct signed_checkpoint *checkpoint, const struct audit_page *page,
                                struct error *err)
{
    struct log_tiles *tiles = memory_zeroed(1, sizeof *tiles);

    if (tiles == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for proofs");
    log_tiles_init(tiles, pg, checkpoint->size);
    const struct result proven = prove_stretches(tiles, checkpoint, page, err);
    free(tiles);
    return proven;
}

/* Each number once, and no other one: a proof of a tile shows nothing of a second row with the number of one of its entries. */
static bool is_whole(const struct audit_page *page, const struct audit_span *span)
{
    if (audit_page_count(page) != span->until - span->from) return false;
    for (size_t i = 0; i < audit_page_count(page); i++)
        if (audit_page_sequence(page, i) != span->from + i) return false;
    return true;
}

struct result audit_follow(struct pg *pg, const struct signed_checkpoint *checkpoint, const struct audit_span *span,
                           struct audit_page **page_out, struct error *err)
{
    OWNED(audit_page) *page = NULL;

    assert(span->from < span->until && span->until <= checkpoint->size && span->until - span->from <= AUDIT_PAGE_MAX);
    TRY(audit_page_between(pg, span->from, span->until, &page, err));
    if (!is_whole(page, span))
        return failure(err, ERROR_FORKED, "an entry of the log from %llu on is missing, or is there twice",
                       (unsigned long long)span->from);
    TRY(prove_page(pg, checkpoint, page, err));
    *page_out = GIVE(page);
    return SUCCESS;
}

struct result audit_follow_time(struct pg *pg, const struct signed_checkpoint *checkpoint, uint64_t sequence,
                                int64_t *time_ms_out, struct error *err)
{
    const struct audit_span span = {sequence, sequence + 1};
    OWNED(audit_page) *page = NULL;
    struct leaf leaf;

    TRY(audit_follow(pg, checkpoint, &span, &page, err));
    *time_ms_out = 0; /* of an entry that this version can't read: older than all */
    if (!audit_page_is_readable(page, 0)) return SUCCESS;
    TRY(leaf_read(audit_page_leaf(page, 0), &leaf, err));
    *time_ms_out = leaf.time_ms;
    return SUCCESS;
}
