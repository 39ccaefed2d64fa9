/*
 * audit/format/merkle.h -- the tree of hashes over the log (docs/formats/audit-log.md sections 1, 2, 4 and 5).
 *
 * RFC 6962 with SHA-256: a leaf is hashed after a byte 0x00, an inner node after 0x01, and odd nodes are never doubled.
 * Appending keeps O(log n) state; proving reads inner nodes from a source; verifying needs constant memory and no state.
 */
#pragma once

#include "base/bytes.h"

#define MERKLE_HASH_SIZE 32
#define MERKLE_PROOF_MAX 63        /* hashes: enough for a log of 2^63 entries */
#define MERKLE_SIZE_MAX  INT64_MAX /* entries: the most that a checkpoint may state */

struct merkle_hash {
    uint8_t bytes[MERKLE_HASH_SIZE];
};

#define MERKLE_ENTRY_MAX 65535 /* bytes of a leaf: entry bundles have a u16 length */

/** Asserts that the leaf has at most MERKLE_ENTRY_MAX bytes; readers check that first. */
void merkle_leaf_hash(struct bytes leaf, struct merkle_hash *hash_out);
void merkle_node_hash(const struct merkle_hash *left, const struct merkle_hash *right, struct merkle_hash *hash_out);
/** The root of the empty log: SHA-256 of no bytes. */
struct merkle_hash merkle_empty_root(void);
bool merkle_hash_equal(const struct merkle_hash *a, const struct merkle_hash *b);

/** The state that appending needs. hashes[i] is the root of a full subtree of 2^i leaves; it is valid if bit i of size is set. */
struct merkle_frontier {
    uint64_t size;
    struct merkle_hash hashes[64]; /* one for each bit of size */
};
void merkle_append(struct merkle_frontier *frontier, const struct merkle_hash *leaf_hash);
struct merkle_hash merkle_frontier_root(const struct merkle_frontier *frontier);
/** Appends the valid hashes, lowest first, as they are stored beside the size. */
RESULT merkle_frontier_write(const struct merkle_frontier *frontier, struct buffer *buffer, struct error *err);
/** ERROR_CORRUPT unless `stored` has exactly one hash for each set bit of `size`. */
RESULT merkle_frontier_read(uint64_t size, struct bytes stored, struct merkle_frontier *frontier_out, struct error *err);

/** The hashes of a proof, from the leaf or from the smaller tree up to the root. */
struct merkle_proof {
    size_t count;
    struct merkle_hash hashes[MERKLE_PROOF_MAX];
};

/** Yields inner nodes. Node (level, index) is the root over leaves [index << level, (index + 1) << level); only complete
 *  subtrees are asked for. */
struct merkle_source {
    RESULT (*node)(struct merkle_source *source, unsigned level, uint64_t index, struct merkle_hash *hash_out, struct error *err);
};
/** The root of the first `size` leaves. */
RESULT merkle_root_at(struct merkle_source *source, uint64_t size, struct merkle_hash *root_out, struct error *err);
/** Proves that leaf `index` is in the tree of `size`. ERROR_INVALID unless index < size. */
RESULT merkle_prove_inclusion(struct merkle_source *source, uint64_t index, uint64_t size, struct merkle_proof *proof_out,
                              struct error *err);
/** Proves that the tree of `old_size` is a prefix of that of `size`. ERROR_INVALID unless 0 < old_size <= size. */
RESULT merkle_prove_consistency(struct merkle_source *source, uint64_t old_size, uint64_t size, struct merkle_proof *proof_out,
                                struct error *err);

/** Whether `proof` shows that the leaf is entry `index` of the tree with this size and root. */
bool merkle_verify_inclusion(uint64_t index, uint64_t size, const struct merkle_hash *leaf_hash, const struct merkle_proof *proof,
                             const struct merkle_hash *root);
/** Whether `proof` shows that the old tree is a prefix of the new one. An old size of 0 is refused: it proves nothing. */
bool merkle_verify_consistency(uint64_t old_size, uint64_t size, const struct merkle_hash *old_root,
                               const struct merkle_hash *root, const struct merkle_proof *proof);
/**
 * The root of the first `old_size` entries by a proof of consistency, whatever log it is of. False if it has not the form of a proof between these sizes, or if
 * `old_size` is a power of two: such a proof begins above that root, and does not name it.
 */
bool merkle_consistency_prefix(uint64_t old_size, uint64_t size, const struct merkle_proof *proof, struct merkle_hash *root_out);
