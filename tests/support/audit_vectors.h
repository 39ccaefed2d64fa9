/*
 * tests/support/audit_vectors.h -- docs/formats/audit-log-vectors.json, and the definition of the tree.
 */
#pragma once

#include "tests/support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/format/merkle.h"
#include "base/json.h"
#include "base/text.h"

static json_t *vectors;

static inline void read_vectors(void)
{
    json_error_t problem;

    vectors = json_load_file(AUDIT_LOG_VECTORS, JSON_REJECT_DUPLICATES, &problem);
    if (vectors == NULL) {
        (void)fprintf(stderr, "%s: %s\n", AUDIT_LOG_VECTORS, problem.text);
        exit(1);
    }
}

static inline const json_t *vector(const json_t *object, const char *key)
{
    const json_t *member = json_object_get(object, key);

    if (member == NULL) fail_msg("the vectors have no \"%s\"", key);
    return member;
}

static inline void assert_hash_equal(const struct merkle_hash *hash, const char *hex)
{
    char text[2 * MERKLE_HASH_SIZE + 1];

    text_hex(hash->bytes, sizeof hash->bytes, text);
    assert_string_equal(text, hex);
}

/* The definition of RFC 6962, 2.1, word for word, although it is slow. */
static inline struct merkle_hash tree_hash(const struct merkle_hash *leaves, uint64_t size)
{
    struct merkle_hash root = merkle_empty_root();

    if (size == 1) return leaves[0];
    if (size > 1) {
        uint64_t k = 1;
        while (2 * k < size) k *= 2;
        const struct merkle_hash left = tree_hash(leaves, k), right = tree_hash(leaves + k, size - k);
        merkle_node_hash(&left, &right, &root);
    }
    return root;
}

static inline void read_tree8(struct merkle_hash leaves[8])
{
    const json_t *hexes = vector(vector(vectors, "tree8"), "leaves_hex");

    for (size_t i = 0; i < 8; i++) {
        const char *hex = json_string_value(json_array_get(hexes, i));
        uint8_t leaf[16];
        const size_t length = strlen(hex) / 2;
        assert_true(length <= sizeof leaf && text_from_hex(bytes_of_text(hex), leaf, length));
        merkle_leaf_hash((struct bytes){leaf, length}, &leaves[i]);
    }
}
