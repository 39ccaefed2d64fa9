/* Two checkpoints of one log continue each other; those of two logs are evidence, which holds without the logs; and nothing else is. */
#include "tests/support/unit.h"

#include "audit/format/fork.h"
#include "crypto/ed25519.h"

#define ORIGIN  "test.example/audit"
#define ENTRIES 40
#define FORKED  5 /* the first entry in which the two logs differ */

static struct signer {
    struct secret *seed;
    struct note_key key;
    struct buffer vkey;
} signer;

static struct merkle_hash entry_of(unsigned log, uint64_t number)
{
    uint8_t text[9] = {0};
    struct merkle_hash hash;

    store_u64(text, number);
    text[8] = (uint8_t)(number >= FORKED ? log : 0);
    merkle_leaf_hash((struct bytes){text, sizeof text}, &hash);
    return hash;
}

static struct merkle_hash root_of(unsigned log, uint64_t size)
{
    struct merkle_frontier tree = {.size = 0};

    for (uint64_t number = 0; number < size; number++) {
        const struct merkle_hash hash = entry_of(log, number);
        merkle_append(&tree, &hash);
    }
    return merkle_frontier_root(&tree);
}

static int make_key(void **state)
{
    uint8_t public_key[ED25519_PUBLIC_SIZE];
    struct error err = {0};

    (void)state;
    signer.vkey = BUFFER(512);
    must(secret_new(ED25519_SEED_SIZE, &signer.seed, &err), &err);
    memset(signer.seed->bytes, 7, ED25519_SEED_SIZE);
    must(ed25519_public(signer.seed, public_key, &err), &err);
    must(note_key_make(ORIGIN, NOTE_ED25519, public_key, &signer.key, &err), &err);
    must(note_key_write(&signer.key, &signer.vkey, &err), &err);
    return 0;
}

static int drop_key(void **state)
{
    (void)state;
    secret_free(signer.seed);
    buffer_done(&signer.vkey);
    return 0;
}

static void sign(unsigned log, uint64_t size, struct buffer *note)
{
    const struct checkpoint checkpoint = {.origin = ORIGIN, .size = size, .root = root_of(log, size)};
    struct buffer OWNED_BUFFER text = BUFFER(1024);
    uint8_t signature[ED25519_SIGNATURE_SIZE];
    struct error err = {0};

    buffer_clear(note);
    must(checkpoint_write(&checkpoint, &text, &err), &err);
    must(ed25519_sign(signer.seed, buffer_bytes(&text), signature, &err), &err);
    must(note_write_text(note, buffer_bytes(&text), &err), &err);
    must(note_write_signature(note, &signer.key, (struct bytes){signature, sizeof signature}, &err), &err);
}

static void walk_over(const struct fork_pair *pair, unsigned log, struct fork_prefix *prefix)
{
    OWNED(fork_walk) *walk = NULL;
    struct error err = {0};

    must(fork_walk_new(pair, &walk, &err), &err);
    for (uint64_t number = 0; number < pair->checkpoints[1].size; number++) {
        const struct merkle_hash hash = entry_of(log, number);
        fork_walk_add(walk, &hash);
    }
    must(fork_walk_end(walk, prefix, &err), &err);
}

static void check_evidence(const struct fork_pair *pair, const struct fork_prefix *prefix)
{
    struct buffer OWNED_BUFFER text = BUFFER(FORK_EVIDENCE_MAX);
    struct fork_pair seen;
    struct error err = {0};

    must(fork_evidence_write(pair, prefix, &text, &err), &err);
    must(fork_evidence_check(buffer_bytes(&signer.vkey), buffer_bytes(&text), &seen, &err), &err);
    assert_int_equal(seen.checkpoints[1].size, pair->checkpoints[1].size);
}

/* The prefix by the proof alone is that of the walk, unless the smaller size is a power of two. */
static void check_proof(const struct fork_pair *pair, const struct fork_prefix *walked)
{
    const uint64_t size = pair->checkpoints[0].size;
    struct fork_prefix named;

    const bool is_named = fork_prefix_of_proof(pair, &walked->proof, &named);
    assert_int_equal(is_named, (size & (size - 1)) != 0);
    if (is_named) assert_true(merkle_hash_equal(&named.root, &walked->root));
}

static void check_sizes(uint64_t old_size, uint64_t size, unsigned log)
{
    struct buffer OWNED_BUFFER first = BUFFER(2048), OWNED_BUFFER second = BUFFER(2048), OWNED_BUFFER text = BUFFER(4096);
    enum fork_verdict verdict = FORK_SAME;
    struct fork_prefix prefix;
    struct fork_pair pair;
    struct error err = {0};

    sign(0, old_size, &first);
    sign(log, size, &second);
    const bool is_turned = (old_size + size) % 2 == 0; /* the order of the files is of no interest */
    must(fork_pair_read(buffer_bytes(&signer.vkey), buffer_bytes(is_turned ? &second : &first),
                        buffer_bytes(is_turned ? &first : &second), &pair, &err),
         &err);
    const bool is_long = old_size != size;
    if (is_long) walk_over(&pair, log, &prefix);
    if (is_long) check_proof(&pair, &prefix);
    must(fork_decide(&pair, is_long ? &prefix : NULL, &verdict, &err), &err);
    const bool is_forked = log != 0 && old_size > FORKED;
    assert_int_equal(verdict, is_forked ? FORK_PROVEN : is_long ? FORK_CONTINUES : FORK_SAME);
    must(fork_report_text(&pair, verdict, &text, &err), &err);
    if (is_forked) check_evidence(&pair, is_long ? &prefix : NULL);
}

static void all_sizes_are_told_apart(void **state)
{
    (void)state;
    for (uint64_t old_size = 1; old_size <= ENTRIES; old_size++)
        for (uint64_t size = old_size; size <= ENTRIES; size++)
            for (unsigned log = 0; log < 2; log++) check_sizes(old_size, size, log);
}

static void no_other_bytes_are_evidence(void **state)
{
    struct buffer OWNED_BUFFER first = BUFFER(2048), OWNED_BUFFER second = BUFFER(2048),
                               OWNED_BUFFER text = BUFFER(FORK_EVIDENCE_MAX);
    struct fork_prefix prefix;
    struct fork_pair pair, seen;
    struct error err = {0};

    (void)state;
    sign(0, 11, &first);
    sign(1, 30, &second);
    must(fork_pair_read(buffer_bytes(&signer.vkey), buffer_bytes(&first), buffer_bytes(&second), &pair, &err), &err);
    walk_over(&pair, 1, &prefix);
    must(fork_evidence_write(&pair, &prefix, &text, &err), &err);
    for (size_t i = 0; i < text.length; i++) {
        text.data[i] ^= 1;
        if (fork_evidence_check(buffer_bytes(&signer.vkey), buffer_bytes(&text), &seen, &err).ok)
            fail_msg("evidence with another byte %zu is taken", i);
        text.data[i] ^= 1;
    }
    for (size_t length = 0; length < text.length; length++)
        assert_false(fork_evidence_check(buffer_bytes(&signer.vkey), (struct bytes){text.data, length}, &seen, &err).ok);
}

/* Whoever has one log can't make evidence of it. */
static void one_log_is_no_evidence(void **state)
{
    struct buffer OWNED_BUFFER first = BUFFER(2048), OWNED_BUFFER second = BUFFER(2048),
                               OWNED_BUFFER text = BUFFER(FORK_EVIDENCE_MAX);
    struct fork_prefix prefix;
    struct fork_pair pair, seen;
    struct error err = {0};

    (void)state;
    sign(0, 11, &first);
    sign(0, 30, &second);
    must(fork_pair_read(buffer_bytes(&signer.vkey), buffer_bytes(&first), buffer_bytes(&second), &pair, &err), &err);
    walk_over(&pair, 0, &prefix);
    must(fork_evidence_write(&pair, &prefix, &text, &err), &err);
    assert_false(fork_evidence_check(buffer_bytes(&signer.vkey), buffer_bytes(&text), &seen, &err).ok);
    assert_int_equal(err.kind, ERROR_DENIED);
    walk_over(&pair, 1, &prefix); /* a prefix of another log does not lead to the signed root */
    buffer_clear(&text);
    must(fork_evidence_write(&pair, &prefix, &text, &err), &err);
    assert_false(fork_evidence_check(buffer_bytes(&signer.vkey), buffer_bytes(&text), &seen, &err).ok);
    assert_int_equal(err.kind, ERROR_DENIED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_sizes_are_told_apart),
        cmocka_unit_test(no_other_bytes_are_evidence),
        cmocka_unit_test(one_log_is_no_evidence),
    };

    return cmocka_run_group_tests(tests, make_key, drop_key);
}
