#include "audit/format/merkle.h"

#include <assert.h>

/* The largest power of two below `count`, which is at least 2: RFC 6962 splits there. */
static uint64_t split(uint64_t count)
{
    return UINT64_C(1) << (63 - __builtin_clzll(count - 1));
}

/* The root over leaves [low, high): complete subtrees from left to right, combined from the right. */
static struct result range_hash(struct merkle_source *source, uint64_t low, uint64_t high, struct merkle_hash *hash_out,
                                struct error *err)
{
    struct merkle_hash parts[64]; /* one for each set bit of high - low */
    size_t count = 0;

    while (low < high) {
        const unsigned level = 63 - (unsigned)__builtin_clzll(high - low);
        assert(((low >> level) << level) == low);
        TRY(source->node(source, level, low >> level, &parts[count++], err));
        low += UINT64_C(1) << level;
    }
    assert(count > 0);
    struct merkle_hash hash = parts[count - 1];
    for (size_t i = count - 1; i > 0; i--) merkle_node_hash(&parts[i - 1], &hash, &hash);
    *hash_out = hash;
    return SUCCESS;
}

struct result merkle_root_at(struct merkle_source *source, uint64_t size, struct merkle_hash *root_out, struct error *err)
{
    if (size > MERKLE_SIZE_MAX) return failure(err, ERROR_INVALID, "no log is that large");
    if (size > 0) return range_hash(source, 0, size, root_out, err);
    *root_out = merkle_empty_root();
    return SUCCESS;
}

/* Walks down from the root. Each step leaves one sibling, which belongs in the proof; the last step's sibling comes first. */
struct descent {
    size_t count;
    struct range {
        uint64_t low, high;
    } siblings[MERKLE_PROOF_MAX + 1];
};

static void leave(struct descent *descent, uint64_t low, uint64_t high)
{
    assert(descent->count < MERKLE_PROOF_MAX);
    descent->siblings[descent->count++] = (struct range){low, high};
}

static struct result collect(struct merkle_source *source, const struct descent *descent, struct merkle_proof *proof,
                             struct error *err)
{
    for (size_t i = descent->count; i > 0; i--) {
        const struct range *range = &descent->siblings[i - 1];
        assert(proof->count < MERKLE_PROOF_MAX);
        TRY(range_hash(source, range->low, range->high, &proof->hashes[proof->count++], err));
    }
    return SUCCESS;
}

struct result merkle_prove_inclusion(struct merkle_source *source, uint64_t index, uint64_t size, struct merkle_proof *proof_out,
                                     struct error *err)
{
    struct descent descent = {0};
    struct merkle_proof proof = {0};
    uint64_t low = 0, high = size;

    if (index >= size || size > MERKLE_SIZE_MAX)
        return failure(err, ERROR_INVALID, "entry %llu is not in a log of %llu entries", (unsigned long long)index,
                       (unsigned long long)size);
    while (high - low > 1) {
        const uint64_t middle = low + split(high - low);
        if (index < middle) {
            leave(&descent, middle, high);
            high = middle;
        } else {
            leave(&descent, low, middle);
            low = middle;
        }
    }
    TRY(collect(source, &descent, &proof, err));
    *proof_out = proof;
    return SUCCESS;
}

struct result merkle_prove_consistency(struct merkle_source *source, uint64_t old_size, uint64_t size,
                                       struct merkle_proof *proof_out, struct error *err)
{
    struct descent descent = {0};
    struct merkle_proof proof = {0};
    uint64_t low = 0, high = size;

    if (old_size == 0 || old_size > size || size > MERKLE_SIZE_MAX)
        return failure(err, ERROR_INVALID, "no proof leads from %llu to %llu entries", (unsigned long long)old_size,
                       (unsigned long long)size);
    while (old_size != high) {
        const uint64_t middle = low + split(high - low);
        if (old_size <= middle) {
            leave(&descent, middle, high);
            high = middle;
        } else {
            leave(&descent, low, middle);
            low = middle;
        }
    }
    /* If the old tree is one complete subtree at the left edge, the verifier knows its root already. */
    if (low > 0) TRY(range_hash(source, low, high, &proof.hashes[proof.count++], err));
    TRY(collect(source, &descent, &proof, err));
    *proof_out = proof;
    return SUCCESS;
}
