/*
 * tests/integration/keyd_log_fixture.h -- a running sijil-keyd, and a log in memory whose entries it has signed. For one source file of a program
 * only: it defines what it declares.
 */
#pragma once

#include "tests/integration/keyd_fixture.h"

#include <string.h>
#include <time.h>

#include "audit/format/leaf.h"
#include "audit/format/merkle.h"
#include "crypto/ecdsa.h"

/* ---- a log in memory: keyd signs each entry that is added ---- */

static struct memory_log {
    struct merkle_source source;
    uint64_t size;
    struct merkle_hash leaves[64]; /* more than a case adds */
} the_log;

static struct result node(struct merkle_source *source, unsigned level, uint64_t index, struct merkle_hash *hash_out,
                          struct error *err)
{
    struct merkle_hash left, right;

    if (level == 0) {
        *hash_out = the_log.leaves[index];
        return SUCCESS;
    }
    TRY(node(source, level - 1, 2 * index, &left, err));
    TRY(node(source, level - 1, 2 * index + 1, &right, err));
    merkle_node_hash(&left, &right, hash_out);
    return SUCCESS;
}

static void copy_proof(const struct merkle_proof *proof, uint8_t hashes[][32])
{
    for (size_t i = 0; i < proof->count; i++) memcpy(hashes[i], proof->hashes[i].bytes, 32);
}

/* The number of the new entry. */
static uint64_t add_entry(struct bytes leaf, bool is_signed)
{
    struct checkpoint_request request = {.old_size = identify().log_size, .now_s = time(NULL)};
    struct buffer OWNED_BUFFER note = BUFFER(KEYD_NOTE_MAX);
    struct merkle_proof proof = {0};
    struct merkle_hash root;
    struct error err = {0};

    merkle_leaf_hash(leaf, &the_log.leaves[the_log.size++]);
    request.size = the_log.size;
    if (!is_signed) return the_log.size - 1;
    assert_true(merkle_root_at(&the_log.source, the_log.size, &root, &err).ok);
    memcpy(request.root, root.bytes, sizeof request.root);
    if (request.old_size > 0)
        assert_true(merkle_prove_consistency(&the_log.source, request.old_size, request.size, &proof, &err).ok);
    request.proof_count = proof.count;
    copy_proof(&proof, request.proof);
    if (!keyd_sign_checkpoint(client, &request, &note, &err).ok) fail_msg("%s", err.message);
    return the_log.size - 1;
}

static int begin(void **state)
{
    the_log = (struct memory_log){.source = {.node = node}};
    return start(state);
}

static struct document_pin_request prove(struct bytes envelope, struct bytes leaf, uint64_t sequence)
{
    struct document_pin_request request = {
        .envelope_count = 1, .envelopes = {envelope}, .leaf = leaf, .sequence = sequence, .size = identify().log_size};
    struct merkle_proof proof = {0};
    struct error err = {0};

    if (sequence < request.size) assert_true(merkle_prove_inclusion(&the_log.source, sequence, request.size, &proof, &err).ok);
    request.proof_count = proof.count;
    copy_proof(&proof, request.proof);
    return request;
}

static struct ecdsa_key *approve(void)
{
    struct ecdsa_key *approver = NULL;
    uint8_t point[65];
    struct error err = {0};

    assert_true(ecdsa_key_new(&approver, &err).ok);
    ecdsa_key_public(approver, point);
    assert_true(keyd_pin_approver(client, point, &err).ok);
    return approver;
}
