/*
 * tests/unit/keyd_rotation_fixture.h -- a key ring, a ledger and the keys of the log, for tests of sijil-keyd. For one source file of a program only.
 */
#pragma once

#include "tests/unit/keyd_folder_fixture.h"

#include "audit/format/checkpoint.h"
#include "audit/format/succession.h"
#include "base/memory.h"
#include "crypto/dsse.h"
#include "keyd/checkpoint.h"
#include "keyd/document_pin.h"

#define ORIGIN  "x.example/log"
#define NOW_S   1700000000
#define OVERLAP 1000

static const struct password_cost cheap = {.passes = 1, .memory_kib = 64};

static struct world {
    struct folder folder;
    struct keyring *keyring;
    struct ledger *ledger;
    struct log_rotation *rotation;
    struct ecdsa_key *root, *stranger;
} world;

static inline void close_ring(void)
{
    log_rotation_free(world.rotation);
    ledger_free(world.ledger);
    keyring_free(world.keyring);
    world.rotation = NULL;
    world.ledger = NULL;
    world.keyring = NULL;
}

/* As after a start. */
static inline void open_ring(void)
{
    struct error err = {0};

    close_ring();
    must(keyring_open(world.folder.fd, bytes_of_text("p"), &world.keyring, &err), &err);
    must(ledger_open(world.folder.fd, keyring_ledger_key(world.keyring), &world.ledger, &err), &err);
    must(log_rotation_open(world.folder.fd, world.keyring, &world.rotation, &err), &err);
}

static inline void add_key(void)
{
    struct error err = {0};

    close_ring();
    must(keyring_add_log_key(world.folder.fd, bytes_of_text("p"), &err), &err);
    open_ring();
}

static inline int setup(void **state)
{
    const struct keyring_options options = {.origin = ORIGIN, .passphrase = bytes_of_text("p"), .cost = cheap};
    uint8_t point[ECDSA_PUBLIC_SIZE];
    struct error err = {0};

    (void)state;
    folder_make(&world.folder);
    must(keyring_create(world.folder.fd, &options, ledger_create, &err), &err);
    open_ring();
    must(ecdsa_key_new(&world.root, &err), &err);
    must(ecdsa_key_new(&world.stranger, &err), &err);
    ecdsa_key_public(world.root, point);
    must(approver_pin(world.ledger, point, &err), &err);
    return 0;
}

static inline int teardown(void **state)
{
    (void)state;
    close_ring();
    ecdsa_key_free(world.root);
    ecdsa_key_free(world.stranger);
    folder_remove(&world.folder);
    world = (struct world){.keyring = NULL};
    return 0;
}

/* A log of equal entries. */
static inline void prove(uint64_t old_size, uint64_t size, struct checkpoint_request *request)
{
    struct merkle_frontier frontier = {.size = 0};
    struct merkle_hash leaf;

    *request = (struct checkpoint_request){.old_size = old_size, .size = size, .now_s = NOW_S};
    merkle_leaf_hash(bytes_of_text("x"), &leaf);
    for (uint64_t i = 0; i < size; i++) merkle_append(&frontier, &leaf);
    const struct merkle_hash root = merkle_frontier_root(&frontier);
    memcpy(request->root, root.bytes, sizeof request->root);
    if (old_size == 0 || old_size == size) return;
    assert_int_equal(size, old_size * 2); /* then the proof is one hash: that of the second half */
    frontier = (struct merkle_frontier){.size = 0};
    for (uint64_t i = 0; i < old_size; i++) merkle_append(&frontier, &leaf);
    const struct merkle_hash half = merkle_frontier_root(&frontier);
    memcpy(request->proof[0], half.bytes, MERKLE_HASH_SIZE);
    request->proof_count = 1;
}

static inline struct note *sign_at(uint64_t old_size, uint64_t size, int64_t now_s, struct buffer *bytes)
{
    const struct checkpoint_signer signer = {world.keyring, world.ledger, world.rotation};
    struct note *note = memory_zeroed(1, sizeof *note);
    struct checkpoint_request request;
    struct error err = {0};

    prove(old_size, size, &request);
    request.now_s = now_s;
    must(checkpoint_sign(&signer, &request, now_s * 1000, bytes, &err), &err);
    must(note_read(buffer_bytes(bytes), note, &err), &err);
    return note;
}

/* Which of the keys have signed, as bits. */
static inline unsigned signers_of(const struct note *note)
{
    unsigned bits = 0;
    struct error err = {0};

    for (size_t i = 0; i < keyring_log_key_count(world.keyring); i++)
        if (note_verify(note, keyring_log_key(world.keyring, i), NULL, &err).ok) bits |= 1U << i;
    return bits;
}

static inline unsigned signers_at(uint64_t old_size, uint64_t size, int64_t now_s)
{
    struct buffer OWNED_BUFFER bytes = BUFFER(KEYD_NOTE_MAX);
    struct note *note = sign_at(old_size, size, now_s, &bytes);
    const unsigned signers = signers_of(note);
    struct log_keys keys;
    struct checkpoint checkpoint;
    struct error err = {0};

    log_rotation_keys(world.rotation, &keys);
    must(log_keys_verify(&keys, note, &checkpoint, NULL, &err), &err);
    free(note);
    return signers;
}

static inline struct result order_by(size_t old, size_t new, const struct ecdsa_key *signer, const char *type, int64_t now_s,
                                     struct error *err)
{
    struct buffer OWNED_BUFFER payload = BUFFER(2048), envelope = BUFFER(KEYD_LOG_ROTATION_MAX);
    struct log_rotation_order order = {.overlap_s = OVERLAP};

    order.old = *keyring_log_key(world.keyring, old);
    order.new = *keyring_log_key(world.keyring, new);
    must(log_rotation_order_write(&order, &payload, err), err);
    must(dsse_write(type, buffer_bytes(&payload), &signer, 1, &envelope, err), err);
    return log_rotation_follow(world.rotation, world.ledger, buffer_bytes(&envelope), now_s * 1000, err);
}

static inline struct result order(size_t old, size_t new, int64_t now_s, struct error *err)
{
    return order_by(old, new, world.root, LOG_ROTATION_PAYLOAD, now_s, err);
}

#define WITH_WORLD(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
