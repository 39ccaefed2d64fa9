#include "audit/format/merkle.h"

#include <assert.h>
#include <string.h>

#include "base/fault.h"
#include "crypto/digest.h"

#define SHORT_LEAF_MAX 4096 /* our longest event; hashed without a large stack frame, which release builds would zero */

static void hash_leaf_in(uint8_t *input, struct bytes leaf, struct merkle_hash *hash_out)
{
    input[0] = 0x00;
    if (leaf.length > 0) memcpy(input + 1, leaf.data, leaf.length);
    sha256_of((struct bytes){input, leaf.length + 1}, hash_out->bytes);
}

static __attribute__((noinline)) void hash_long_leaf(struct bytes leaf, struct merkle_hash *hash_out)
{
    uint8_t input[1 + MERKLE_ENTRY_MAX]; /* the prefix and the longest entry */

    hash_leaf_in(input, leaf, hash_out);
}

void merkle_leaf_hash(struct bytes leaf, struct merkle_hash *hash_out)
{
    uint8_t input[1 + SHORT_LEAF_MAX];

    assert(leaf.length <= MERKLE_ENTRY_MAX);
    if (leaf.length > SHORT_LEAF_MAX) hash_long_leaf(leaf, hash_out);
    else hash_leaf_in(input, leaf, hash_out);
}

void merkle_node_hash(const struct merkle_hash *left, const struct merkle_hash *right, struct merkle_hash *hash_out)
{
    uint8_t input[1 + 2 * MERKLE_HASH_SIZE] = {0x01};

    memcpy(input + 1, left->bytes, MERKLE_HASH_SIZE);
    memcpy(input + 1 + MERKLE_HASH_SIZE, right->bytes, MERKLE_HASH_SIZE);
    sha256_of((struct bytes){input, sizeof input}, hash_out->bytes);
}

struct merkle_hash merkle_empty_root(void)
{
    struct merkle_hash root;

    sha256_of((struct bytes){(const uint8_t *)"", 0}, root.bytes);
    /* cppcheck-suppress uninitvar ; sha256_of() has written all of it */
    return root;
}

bool merkle_hash_equal(const struct merkle_hash *a, const struct merkle_hash *b)
{
    return memcmp(a->bytes, b->bytes, MERKLE_HASH_SIZE) == 0;
}

void merkle_append(struct merkle_frontier *frontier, const struct merkle_hash *leaf_hash)
{
    struct merkle_hash hash = *leaf_hash;
    unsigned i = 0;

    assert(frontier->size < MERKLE_SIZE_MAX);
    for (uint64_t bits = frontier->size; bits & 1; bits >>= 1, i++) merkle_node_hash(&frontier->hashes[i], &hash, &hash);
    frontier->hashes[i] = hash;
    frontier->size++;
}

struct merkle_hash merkle_frontier_root(const struct merkle_frontier *frontier)
{
    if (frontier->size == 0) return merkle_empty_root();
    const unsigned lowest = (unsigned)__builtin_ctzll(frontier->size);
    struct merkle_hash root = frontier->hashes[lowest];
    for (unsigned i = lowest + 1; i < 64; i++)
        if ((frontier->size >> i) & 1) merkle_node_hash(&frontier->hashes[i], &root, &root);
    return root;
}

struct result merkle_frontier_write(const struct merkle_frontier *frontier, struct buffer *buffer, struct error *err)
{
    for (unsigned i = 0; i < 64; i++)
        if ((frontier->size >> i) & 1) TRY(buffer_add(buffer, frontier->hashes[i].bytes, MERKLE_HASH_SIZE, err));
    return SUCCESS;
}

struct result merkle_frontier_read(uint64_t size, struct bytes stored, struct merkle_frontier *frontier_out, struct error *err)
{
    struct merkle_frontier frontier = {.size = size};
    struct reader reader = reader_of(stored);

    if (size > MERKLE_SIZE_MAX || stored.length != (size_t)__builtin_popcountll(size) * MERKLE_HASH_SIZE)
        return failure(err, ERROR_CORRUPT, "the stored frontier of the log does not fit its size");
    for (unsigned i = 0; i < 64; i++)
        if ((size >> i) & 1) memcpy(frontier.hashes[i].bytes, reader_take(&reader, MERKLE_HASH_SIZE).data, MERKLE_HASH_SIZE);
    *frontier_out = frontier;
    return SUCCESS;
}
