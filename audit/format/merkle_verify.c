/* RFC 9162 2.1.3.2 and 2.1.4.2: constant memory, no recursion. */
#include "audit/format/merkle.h"

#include <assert.h>

/* A path from a node to the root: `node` is the node's index in its row, `last` the index of the row's last node. */
struct path {
    uint64_t node, last;
};

static bool is_right_child_or_last(const struct path *path)
{
    return (path->node & 1) != 0 || path->node == path->last;
}

static void climb(struct path *path)
{
    path->node >>= 1;
    path->last >>= 1;
}

/* The last node of a row of odd length has no sibling: the rows above repeat it, until it is a right child. */
static void climb_over_rows_without_sibling(struct path *path)
{
    assert(path->node != 0); /* the loop ended before the root */
    while ((path->node & 1) == 0) climb(path);
}

bool merkle_verify_inclusion(uint64_t index, uint64_t size, const struct merkle_hash *leaf_hash, const struct merkle_proof *proof,
                             const struct merkle_hash *root)
{
    if (index >= size || proof->count > MERKLE_PROOF_MAX) return false;
    struct path path = {index, size - 1};
    struct merkle_hash hash = *leaf_hash;

    for (size_t i = 0; i < proof->count; i++) {
        if (path.last == 0) return false;
        if (is_right_child_or_last(&path)) {
            merkle_node_hash(&proof->hashes[i], &hash, &hash);
            climb_over_rows_without_sibling(&path);
        } else {
            merkle_node_hash(&hash, &proof->hashes[i], &hash);
        }
        climb(&path);
    }
    return path.last == 0 && merkle_hash_equal(&hash, root);
}

/* The two roots that a consistency proof yields, computed from a node that both trees have. */
struct roots {
    struct merkle_hash old, new;
};

static bool climb_both(struct path path, const struct merkle_hash *rest, size_t count, struct roots *roots)
{
    for (size_t i = 0; i < count; i++) {
        if (path.last == 0) return false;
        if (is_right_child_or_last(&path)) {
            merkle_node_hash(&rest[i], &roots->old, &roots->old);
            merkle_node_hash(&rest[i], &roots->new, &roots->new);
            climb_over_rows_without_sibling(&path);
        } else {
            merkle_node_hash(&roots->new, &rest[i], &roots->new);
        }
        climb(&path);
    }
    return path.last == 0;
}

static struct path path_to_old(uint64_t old_size, uint64_t size)
{
    struct path path = {old_size - 1, size - 1};

    while ((path.node & 1) != 0) climb(&path);
    return path;
}

bool merkle_consistency_prefix(uint64_t old_size, uint64_t size, const struct merkle_proof *proof, struct merkle_hash *root_out)
{
    if (old_size == 0 || size <= old_size || (old_size & (old_size - 1)) == 0) return false;
    if (proof->count == 0 || proof->count > MERKLE_PROOF_MAX) return false;
    struct roots roots = {proof->hashes[0], proof->hashes[0]};

    if (!climb_both(path_to_old(old_size, size), proof->hashes + 1, proof->count - 1, &roots)) return false;
    *root_out = roots.old;
    return true;
}

bool merkle_verify_consistency(uint64_t old_size, uint64_t size, const struct merkle_hash *old_root,
                               const struct merkle_hash *root, const struct merkle_proof *proof)
{
    if (old_size == 0 || size < old_size || proof->count > MERKLE_PROOF_MAX) return false;
    if (old_size == size) return proof->count == 0 && merkle_hash_equal(old_root, root);
    if (proof->count == 0) return false;

    const bool is_complete = (old_size & (old_size - 1)) == 0;
    const struct merkle_hash *first = is_complete ? old_root : &proof->hashes[0];
    const size_t used = is_complete ? 0 : 1;
    struct roots roots = {*first, *first};
    return climb_both(path_to_old(old_size, size), proof->hashes + used, proof->count - used, &roots) &&
           merkle_hash_equal(&roots.old, old_root) && merkle_hash_equal(&roots.new, root);
}
