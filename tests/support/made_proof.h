/*
 * tests/support/made_proof.h -- a log of two entries, signed with a generated key, and the proof of entry 1. The header has
 * definitions, so only one source file of a program may include it.
 */
#pragma once

#include "tests/support/unit.h"

#include <stdio.h>
#include <string.h>

#include "audit/format/proof.h"
#include "audit/format/proof_check.h"
#include "crypto/ed25519.h"

#define MADE_ORIGIN "test.example/audit"

struct made {
    struct secret *seed;
    struct note_key key;
    struct buffer entry, vkey, proof; /* the caller fills `entry` between the two calls */
};

static inline void made_begin(struct made *made, enum note_algorithm algorithm)
{
    uint8_t public_key[ED25519_PUBLIC_SIZE];
    struct error err = {0};

    *made = (struct made){.entry = BUFFER(LEAF_MAX), .vkey = BUFFER(512), .proof = BUFFER(8192)};
    assert_true(secret_random(ED25519_SEED_SIZE, &made->seed, &err).ok);
    assert_true(ed25519_public(made->seed, public_key, &err).ok);
    assert_true(note_key_make(MADE_ORIGIN, algorithm, public_key, &made->key, &err).ok);
    assert_true(note_key_write(&made->key, &made->vkey, &err).ok);
    made->key.algorithm = NOTE_ED25519; /* the algorithm of the signatures below */
}

static inline void made_note(const struct made *made, const char *origin, bool is_cosigned, const struct merkle_hash *root,
                             struct buffer *note)
{
    static const uint8_t cosignature[8 + ED25519_SIGNATURE_SIZE] = {0};
    struct buffer OWNED_BUFFER text = BUFFER(512);
    struct checkpoint checkpoint = {.size = 2, .root = *root};
    struct note_key other;
    uint8_t signature[ED25519_SIGNATURE_SIZE];
    struct error err = {0};

    (void)snprintf(checkpoint.origin, sizeof checkpoint.origin, "%s", origin);
    assert_true(checkpoint_write(&checkpoint, &text, &err).ok);
    assert_true(ed25519_sign(made->seed, buffer_bytes(&text), signature, &err).ok);
    assert_true(note_write_text(note, buffer_bytes(&text), &err).ok);
    assert_true(note_write_signature(note, &made->key, (struct bytes){signature, sizeof signature}, &err).ok);
    if (!is_cosigned) return;
    assert_true(note_key_make("witness.example", NOTE_COSIGNATURE, made->key.public_key, &other, &err).ok);
    assert_true(note_write_signature(note, &other, (struct bytes){cosignature, sizeof cosignature}, &err).ok);
}

/** Makes the proof that `entry` is number 1 of the log `origin`. */
static inline void made_prove(struct made *made, const char *origin, bool is_cosigned)
{
    struct buffer OWNED_BUFFER note = BUFFER(2048);
    struct merkle_hash first, second, root;
    struct tlog_proof proof = {.index = 1, .inclusion = {.count = 1}};
    struct error err = {0};

    merkle_leaf_hash(bytes_of_text("entry 0"), &first);
    merkle_leaf_hash(buffer_bytes(&made->entry), &second);
    merkle_node_hash(&first, &second, &root);
    proof.inclusion.hashes[0] = first;
    made_note(made, origin, is_cosigned, &root, &note);
    proof.note = buffer_bytes(&note);
    assert_true(tlog_proof_write(&proof, &made->proof, &err).ok);
}

static inline void made_release(struct made *made)
{
    secret_free(made->seed);
    buffer_done(&made->entry);
    buffer_done(&made->vkey);
    buffer_done(&made->proof);
}
#define OWNED_MADE __attribute__((cleanup(made_release))) struct made
