#include "tests/support/audit_vectors.h"

#include "audit/format/tile.h"
#include "base/memory.h"
#include "crypto/digest.h"

/* A log in memory, from which any node can be computed: the reference of all other tests here. */
struct memory_log {
    struct merkle_source source;
    struct merkle_hash *leaves;
    uint64_t size;
};

static struct result memory_node(struct merkle_source *source, unsigned level, uint64_t index, struct merkle_hash *hash_out,
                                 struct error *err)
{
    struct memory_log *log = (struct memory_log *)(void *)source;

    assert_true((index + 1) << level <= log->size);
    if (level == 0) {
        *hash_out = log->leaves[index];
        return SUCCESS;
    }
    struct merkle_hash left, right;
    TRY(memory_node(source, level - 1, 2 * index, &left, err));
    TRY(memory_node(source, level - 1, 2 * index + 1, &right, err));
    merkle_node_hash(&left, &right, hash_out);
    return SUCCESS;
}

static struct memory_log log_of_leaves(struct merkle_hash *leaves, uint64_t size)
{
    return (struct memory_log){.source.node = memory_node, .leaves = leaves, .size = size};
}

static void hashes_of_the_rfc(void **state)
{
    const json_t *hash = vector(vectors, "hash");
    const struct merkle_hash empty = merkle_empty_root();
    struct merkle_hash of_nothing, leaf, node;
    uint8_t input[65] = "\001N123";

    (void)state;
    merkle_leaf_hash((struct bytes){NULL, 0}, &of_nothing);
    merkle_leaf_hash(bytes_of_text("L123456"), &leaf);
    assert_hash_equal(&empty, json_text_of(hash, "empty_root"));
    assert_hash_equal(&of_nothing, json_text_of(hash, "leaf_of_empty_string"));
    assert_hash_equal(&leaf, json_text_of(hash, "leaf_L123456"));
    /* The vector's node is over texts that are not 32 bytes long: SHA-256(0x01 || "N123" || "N456"). */
    memcpy(input + 5, "N456", 4);
    sha256_of((struct bytes){input, 9}, node.bytes);
    assert_hash_equal(&node, json_text_of(hash, "node_N123_N456"));
}

static void a_long_leaf_hashes_like_any(void **state)
{
    static uint8_t input[1 + MERKLE_ENTRY_MAX];
    struct merkle_hash hash, expected;

    (void)state;
    for (size_t length = 4095; length <= MERKLE_ENTRY_MAX; length += length < 4098 ? 1 : 61437) {
        memset(input + 1, 'x', length);
        sha256_of((struct bytes){input, length + 1}, expected.bytes);
        merkle_leaf_hash((struct bytes){input + 1, length}, &hash);
        assert_memory_equal(&hash, &expected, sizeof hash);
    }
}

static void roots_of_eight_leaves(void **state)
{
    const json_t *roots = vector(vector(vectors, "tree8"), "roots_0_to_8");
    struct merkle_hash leaves[8];
    struct merkle_frontier frontier = {0};

    (void)state;
    read_tree8(leaves);
    for (size_t size = 0; size <= 8; size++) {
        const struct merkle_hash root = merkle_frontier_root(&frontier);
        assert_hash_equal(&root, json_string_value(json_array_get(roots, size)));
        if (size < 8) merkle_append(&frontier, &leaves[size]);
    }
}

static void assert_proof_equal(const struct merkle_proof *proof, const json_t *expected)
{
    assert_int_equal(proof->count, json_array_size(expected));
    for (size_t i = 0; i < proof->count; i++)
        assert_hash_equal(&proof->hashes[i], json_string_value(json_array_get(expected, i)));
}

static void inclusion_proofs_of_eight_leaves(void **state)
{
    const json_t *rows = vector(vector(vectors, "tree8"), "inclusion");
    struct merkle_hash leaves[8];
    struct memory_log log = log_of_leaves(leaves, 8);
    struct error err = {0};

    (void)state;
    read_tree8(leaves);
    assert_int_equal(json_array_size(rows), 36);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        int64_t index = -1, size = -1;
        struct merkle_proof proof;
        assert_true(json_integer_of(row, "index", &index) && json_integer_of(row, "size", &size));
        assert_true(merkle_prove_inclusion(&log.source, (uint64_t)index, (uint64_t)size, &proof, &err).ok);
        assert_proof_equal(&proof, vector(row, "proof"));
    }
}

static void consistency_proofs_of_eight_leaves(void **state)
{
    const json_t *rows = vector(vector(vectors, "tree8"), "consistency");
    struct merkle_hash leaves[8];
    struct memory_log log = log_of_leaves(leaves, 8);
    struct error err = {0};

    (void)state;
    read_tree8(leaves);
    assert_int_equal(json_array_size(rows), 36);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        int64_t old_size = -1, size = -1;
        struct merkle_proof proof;
        assert_true(json_integer_of(row, "old_size", &old_size) && json_integer_of(row, "size", &size));
        assert_true(merkle_prove_consistency(&log.source, (uint64_t)old_size, (uint64_t)size, &proof, &err).ok);
        assert_proof_equal(&proof, vector(row, "proof"));
    }
}

/* The log of 70,000 leaves "sijil-<i>". */
#define LARGE_SIZE 70000
static struct merkle_hash large_leaves[LARGE_SIZE];

static void fill_large_log(void)
{
    for (unsigned i = 0; i < LARGE_SIZE; i++) {
        char leaf[32]; /* "sijil-" and five digits */
        (void)snprintf(leaf, sizeof leaf, "sijil-%u", i);
        merkle_leaf_hash(bytes_of_text(leaf), &large_leaves[i]);
    }
}

static struct result load_tile(struct tile_source *tiles, unsigned level, uint64_t index, unsigned width,
                               struct merkle_hash *hashes_out, struct error *err)
{
    struct memory_log log = log_of_leaves(large_leaves, tiles->size);

    for (unsigned i = 0; i < width; i++) TRY(memory_node(&log.source, 8 * level, index * TILE_WIDTH + i, &hashes_out[i], err));
    return SUCCESS;
}

static struct tile_source *large_tiles(uint64_t size)
{
    struct tile_source *tiles = memory_zeroed(1, sizeof *tiles);

    assert_non_null(tiles);
    tile_source_init(tiles, size);
    tiles->load = load_tile;
    return tiles;
}

static void roots_of_the_large_log(void **state)
{
    const json_t *large = vector(vectors, "size_70000"), *roots = vector(large, "roots");
    static const char *const sizes[] = {"255", "256", "257", "300", "65536", "65537", "70000"};
    struct merkle_frontier frontier = {0};
    struct error err = {0};
    size_t next = 0;

    (void)state;
    for (unsigned i = 0; i < LARGE_SIZE; i++) {
        char size[12]; /* an unsigned number */
        merkle_append(&frontier, &large_leaves[i]);
        (void)snprintf(size, sizeof size, "%u", i + 1);
        if (strcmp(size, sizes[next]) != 0) continue;
        const struct merkle_hash root = merkle_frontier_root(&frontier);
        assert_hash_equal(&root, i + 1 == LARGE_SIZE ? json_text_of(large, "root") : json_text_of(roots, size));
        struct tile_source *tiles = large_tiles(LARGE_SIZE);
        struct merkle_hash again;
        assert_true(merkle_root_at(&tiles->source, i + 1, &again, &err).ok);
        assert_true(merkle_hash_equal(&root, &again));
        free(tiles);
        next++;
    }
    assert_int_equal(next, COUNT(sizes));
}

static void proofs_of_the_large_log(void **state)
{
    const json_t *large = vector(vectors, "size_70000");
    struct tile_source *tiles = large_tiles(LARGE_SIZE);
    struct merkle_proof proof;
    struct error err = {0};

    (void)state;
    assert_true(merkle_prove_inclusion(&tiles->source, 69999, LARGE_SIZE, &proof, &err).ok);
    assert_proof_equal(&proof, vector(large, "inclusion_69999"));
    assert_true(merkle_prove_consistency(&tiles->source, 255, LARGE_SIZE, &proof, &err).ok);
    assert_proof_equal(&proof, vector(large, "consistency_255_to_70000"));
    free(tiles);
}

static void assert_tile_digest(unsigned level, uint64_t index, unsigned width)
{
    const json_t *digests = vector(vector(vectors, "size_70000"), "sha256_of");
    static struct merkle_hash hashes[TILE_WIDTH];
    struct tile_source *tiles = large_tiles(LARGE_SIZE);
    struct error err = {0};
    struct merkle_hash digest;
    char path[TILE_PATH_MAX];

    tile_path(level, index, width == TILE_WIDTH ? 0 : width, path);
    assert_true(load_tile(tiles, level, index, width, hashes, &err).ok);
    sha256_of((struct bytes){hashes[0].bytes, width * sizeof hashes[0]}, digest.bytes);
    assert_hash_equal(&digest, json_text_of(digests, path));
    free(tiles);
}

static void tiles_of_the_large_log(void **state)
{
    (void)state;
    assert_int_equal(tile_full_count(LARGE_SIZE, 0), 273);
    assert_int_equal(tile_full_count(LARGE_SIZE, 1), 1);
    assert_int_equal(tile_full_count(LARGE_SIZE, 2), 0);
    assert_int_equal(tile_partial_width(LARGE_SIZE, 0), 112);
    assert_int_equal(tile_partial_width(LARGE_SIZE, 1), 17);
    assert_int_equal(tile_partial_width(LARGE_SIZE, 2), 1);
    assert_int_equal(tile_partial_width(LARGE_SIZE, 3), 0);
    assert_tile_digest(0, 0, TILE_WIDTH);
    assert_tile_digest(0, 272, TILE_WIDTH);
    assert_tile_digest(0, 273, 112);
    assert_tile_digest(1, 0, TILE_WIDTH);
    assert_tile_digest(1, 1, 17);
    assert_tile_digest(2, 0, 1);
}

static void assert_bundle_digest(uint64_t index, unsigned width)
{
    const json_t *digests = vector(vector(vectors, "size_70000"), "sha256_of_bundle");
    struct buffer OWNED_BUFFER bundle = BUFFER(1 << 16);
    struct error err = {0};
    struct merkle_hash digest;
    char path[TILE_PATH_MAX];

    for (unsigned i = 0; i < (width == 0 ? TILE_WIDTH : width); i++) {
        char leaf[32]; /* "sijil-" and five digits */
        (void)snprintf(leaf, sizeof leaf, "sijil-%u", (unsigned)index * TILE_WIDTH + i);
        assert_true(tile_add_entry(&bundle, bytes_of_text(leaf), &err).ok);
    }
    tile_entries_path(index, width, path);
    sha256_of(buffer_bytes(&bundle), digest.bytes);
    assert_hash_equal(&digest, json_text_of(digests, path));
}

static void bundles_of_the_large_log(void **state)
{
    static uint8_t too_long[MERKLE_ENTRY_MAX + 1];
    struct buffer OWNED_BUFFER bundle = BUFFER(1 << 20);
    struct error err = {0};

    (void)state;
    assert_bundle_digest(0, 0);
    assert_bundle_digest(273, 112);
    assert_false(tile_add_entry(&bundle, (struct bytes){too_long, sizeof too_long}, &err).ok);
    assert_int_equal(err.kind, ERROR_LIMIT);
}

static void tile_paths(void **state)
{
    const json_t *rows = vector(vectors, "tile_paths");
    char path[TILE_PATH_MAX];
    const char *key;
    json_t *expected;

    (void)state;
    json_object_foreach ((json_t *)(uintptr_t)rows, key, expected) {
        uint64_t index = 0;
        assert_true(text_to_u64(bytes_of_text(key), UINT64_MAX, &index));
        tile_path(0, index, 0, path);
        assert_string_equal(path, json_string_value(expected));
    }
    tile_path(7, UINT64_MAX, 255, path);
    assert_string_equal(path, "tile/7/x018/x446/x744/x073/x709/x551/615.p/255");
    tile_entries_path(70000, 1, path);
    assert_string_equal(path, "tile/entries/x070/000.p/1");
}

/* Random sizes and indices: our proofs verify, and no changed proof does. */
static void proofs_hold_and_nothing_else_does(void **state)
{
    static struct merkle_hash leaves[600];
    struct error err = {0};

    (void)state;
    srandom(20261120);
    for (unsigned i = 0; i < COUNT(leaves); i++) leaves[i] = large_leaves[i];
    for (unsigned round = 0; round < 300; round++) {
        const uint64_t size = 1 + (uint64_t)random() % COUNT(leaves), old_size = 1 + (uint64_t)random() % size;
        const uint64_t index = (uint64_t)random() % size;
        struct memory_log log = log_of_leaves(leaves, size);
        const struct merkle_hash root = tree_hash(leaves, size), old_root = tree_hash(leaves, old_size);
        struct merkle_proof inclusion, consistency;

        assert_true(merkle_prove_inclusion(&log.source, index, size, &inclusion, &err).ok);
        assert_true(merkle_prove_consistency(&log.source, old_size, size, &consistency, &err).ok);
        assert_true(merkle_verify_inclusion(index, size, &leaves[index], &inclusion, &root));
        assert_true(merkle_verify_consistency(old_size, size, &old_root, &root, &consistency));

        assert_false(merkle_verify_inclusion(size, size, &leaves[index], &inclusion, &root));
        assert_false(merkle_verify_inclusion(index ^ 1, size, &leaves[index], &inclusion, &root));
        for (size_t i = 0; i < inclusion.count; i++) {
            inclusion.hashes[i].bytes[random() % 32] ^= 1;
            assert_false(merkle_verify_inclusion(index, size, &leaves[index], &inclusion, &root));
            assert_true(merkle_prove_inclusion(&log.source, index, size, &inclusion, &err).ok);
        }
        for (size_t i = 0; i < consistency.count; i++) {
            consistency.hashes[i].bytes[random() % 32] ^= 0x80;
            assert_false(merkle_verify_consistency(old_size, size, &old_root, &root, &consistency));
            assert_true(merkle_prove_consistency(&log.source, old_size, size, &consistency, &err).ok);
        }
        if (old_size < size) assert_false(merkle_verify_consistency(old_size, size, &root, &root, &consistency));
        inclusion.hashes[inclusion.count++] = root;
        assert_false(merkle_verify_inclusion(index, size, &leaves[index], &inclusion, &root));
    }
}

static void verifiers_refuse_what_means_nothing(void **state)
{
    struct merkle_hash leaves[8], root8, root3;
    struct merkle_proof proof = {0}, empty = {0}, huge = {.count = MERKLE_PROOF_MAX + 1};
    struct memory_log log = log_of_leaves(leaves, 8);
    struct error err = {0};

    (void)state;
    read_tree8(leaves);
    root8 = tree_hash(leaves, 8);
    root3 = tree_hash(leaves, 3);
    assert_true(merkle_prove_inclusion(&log.source, 5, 8, &proof, &err).ok);
    assert_false(merkle_verify_inclusion(5, 0, &leaves[5], &proof, &root8));
    assert_false(merkle_verify_inclusion(5, 8, &leaves[5], &proof, &root3));
    proof.count--;
    assert_false(merkle_verify_inclusion(5, 8, &leaves[5], &proof, &root8));
    assert_false(merkle_verify_inclusion(0, 1, &leaves[0], &huge, &leaves[0]));
    assert_true(merkle_verify_inclusion(0, 1, &leaves[0], &empty, &leaves[0]));

    assert_true(merkle_prove_consistency(&log.source, 3, 8, &proof, &err).ok);
    assert_true(merkle_verify_consistency(3, 8, &root3, &root8, &proof));
    assert_false(merkle_verify_consistency(0, 8, &root3, &root8, &proof));
    assert_false(merkle_verify_consistency(8, 3, &root8, &root3, &proof));
    assert_false(merkle_verify_consistency(8, 8, &root8, &root8, &proof));
    assert_true(merkle_verify_consistency(8, 8, &root8, &root8, &empty));
    assert_false(merkle_verify_consistency(3, 8, &root3, &root8, &empty));
    assert_false(merkle_verify_consistency(3, 8, &root3, &root8, &huge));
    assert_false(merkle_prove_consistency(&log.source, 0, 8, &proof, &err).ok);
    assert_false(merkle_prove_consistency(&log.source, 8, 3, &proof, &err).ok);
    assert_false(merkle_prove_inclusion(&log.source, 8, 8, &proof, &err).ok);

    /* A hash more than there are rows, a right old root with a wrong new one, and the other way round. */
    const struct merkle_hash root1 = leaves[0], root2 = tree_hash(leaves, 2);
    const struct merkle_proof long_proof = {.count = 2, .hashes = {leaves[1], leaves[2]}};
    const struct merkle_proof right = {.count = 1, .hashes = {leaves[1]}};
    assert_false(merkle_verify_inclusion(0, 2, &leaves[0], &long_proof, &root2));
    assert_false(merkle_verify_consistency(1, 2, &root1, &root2, &long_proof));
    assert_true(merkle_verify_consistency(1, 2, &root1, &root2, &right));
    assert_false(merkle_verify_consistency(1, 2, &root1, &root8, &right));
    assert_false(merkle_verify_consistency(1, 2, &root8, &root2, &right));
    assert_false(merkle_verify_consistency(8, 8, &root3, &root8, &empty));
}

/* No log is larger than 2^63 - 1: a larger stated size proves nothing. */
static void no_log_is_that_large(void **state)
{
    const uint64_t size = MERKLE_SIZE_MAX + UINT64_C(1);
    struct merkle_hash leaves[8], root;
    struct merkle_proof proof = {0};
    struct memory_log log = log_of_leaves(leaves, 8);
    struct error err = {0};

    (void)state;
    assert_false(merkle_root_at(&log.source, size, &root, &err).ok);
    assert_int_equal(err.kind, ERROR_INVALID);
    assert_false(merkle_prove_inclusion(&log.source, 1, size, &proof, &err).ok);
    assert_false(merkle_prove_consistency(&log.source, 1, size, &proof, &err).ok);
    assert_int_equal(tile_partial_width(size - 1, TILE_LEVEL_MAX + 1), 0);
    assert_int_equal(tile_full_count(size - 1, TILE_LEVEL_MAX), 0);
}

static void frontiers_survive_storage(void **state)
{
    struct merkle_frontier frontier = {0}, again;
    struct buffer OWNED_BUFFER stored = BUFFER(2048);
    struct error err = {0};

    (void)state;
    for (unsigned i = 0; i < 300; i++) merkle_append(&frontier, &large_leaves[i]);
    assert_true(merkle_frontier_write(&frontier, &stored, &err).ok);
    assert_int_equal(stored.length, 4 * MERKLE_HASH_SIZE); /* 300 = 256 + 32 + 8 + 4 */
    assert_true(merkle_frontier_read(300, buffer_bytes(&stored), &again, &err).ok);
    const struct merkle_hash root = merkle_frontier_root(&again);
    assert_hash_equal(&root, json_text_of(vector(vector(vectors, "size_70000"), "roots"), "300"));
    assert_false(merkle_frontier_read(301, buffer_bytes(&stored), &again, &err).ok);
    assert_int_equal(err.kind, ERROR_CORRUPT);
}

int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(hashes_of_the_rfc),
        cmocka_unit_test(a_long_leaf_hashes_like_any),
        cmocka_unit_test(roots_of_eight_leaves),
        cmocka_unit_test(inclusion_proofs_of_eight_leaves),
        cmocka_unit_test(consistency_proofs_of_eight_leaves),
        cmocka_unit_test(roots_of_the_large_log),
        cmocka_unit_test(proofs_of_the_large_log),
        cmocka_unit_test(tiles_of_the_large_log),
        cmocka_unit_test(bundles_of_the_large_log),
        cmocka_unit_test(tile_paths),
        cmocka_unit_test(proofs_hold_and_nothing_else_does),
        cmocka_unit_test(verifiers_refuse_what_means_nothing),
        cmocka_unit_test(no_log_is_that_large),
        cmocka_unit_test(frontiers_survive_storage),
    };

    read_vectors();
    fill_large_log();
    const int failed = cmocka_run_group_tests_name("others", others, NULL, NULL);
    json_decref(vectors);
    return failed;
}
