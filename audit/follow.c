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

static struct result prove_page(struct pg *pg, const struct signed_checkpoint *checkpoint, struct audit_page *page,
                                struct error *err)
{
    struct log_tiles *tiles = memory_zeroed(1, sizeof *tiles);
    struct result proven = SUCCESS;

    if (tiles == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for proofs");
    log_tiles_init(tiles, pg, checkpoint->size);
    for (size_t i = 0; i < audit_page_count(page) && proven.ok; i++)
        proven = prove(tiles, checkpoint, audit_page_sequence(page, i), audit_page_leaf(page, i), err);
    free(tiles);
    return proven;
}

struct result audit_follow(struct pg *pg, const struct signed_checkpoint *checkpoint, const struct audit_span *span,
                           struct audit_page **page_out, struct error *err)
{
    OWNED(audit_page) *page = NULL;

    assert(span->from < span->until && span->until <= checkpoint->size && span->until - span->from <= AUDIT_PAGE_MAX);
    TRY(audit_page_between(pg, span->from, span->until, &page, err));
    if (audit_page_count(page) != span->until - span->from)
        return failure(err, ERROR_FORKED, "an entry of the log from %llu on is missing", (unsigned long long)span->from);
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
