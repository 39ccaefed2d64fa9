/* Bundles of runs whose log has a new key, and bundles under cosigned checkpoints. */
#include "tests/support/made_run.h"

#include "base/memory.h"
#include "crypto/ed25519.h"
#include "training/format/bundle.h"

#define ORIGIN "sijil.example/audit"
#define SIZE   6 /* of the log of the bundle */

enum { OLD, NEW, STRANGER, WITNESS, KEYS };

static struct secret *seeds[KEYS];
static struct note_key keys[KEYS];

static void add_signature(struct buffer *note, size_t signer, struct bytes text)
{
    struct buffer OWNED_BUFFER message = BUFFER(8192), payload = BUFFER(128);
    uint8_t signature[ED25519_SIGNATURE_SIZE];
    struct error err = {0};

    if (signer == WITNESS) must(note_cosignature_message(&message, 1767225600, text, &err), &err);
    else must(buffer_add(&message, text.data, text.length, &err), &err);
    must(ed25519_sign(seeds[signer], buffer_bytes(&message), signature, &err), &err);
    if (signer == WITNESS) must(buffer_add_u64(&payload, 1767225600, &err), &err);
    must(buffer_add(&payload, signature, sizeof signature, &err), &err);
    must(note_write_signature(note, &keys[signer], buffer_bytes(&payload), &err), &err);
}

/* The same proof, with the checkpoint signed by others. */
static void sign_again(json_t *holder, const size_t *signers, size_t count)
{
    struct buffer OWNED_BUFFER again = BUFFER(65536);
    const char *proof = json_text_of(holder, "proof"), *note = strstr(proof, "\n\n") + 2, *end = strstr(note, "\n\n") + 1;
    const struct bytes text = {(const uint8_t *)note, (size_t)(end - note)};
    struct error err = {0};

    must(buffer_add(&again, proof, (size_t)(note - proof), &err), &err);
    must(note_write_text(&again, text, &err), &err);
    for (size_t i = 0; i < count; i++) add_signature(&again, signers[i], text);
    assert_int_equal(json_object_set_new(holder, "proof", json_string(buffer_text(&again))), 0);
}

static json_t *bundle_by(const json_t *vectors, const size_t *signers, size_t count)
{
    json_t *bundle = json_deep_copy(made_bundle(vectors, 0)), *document = NULL;
    size_t i = 0;

    sign_again(json_object_get(bundle, "event"), signers, count);
    json_array_foreach (json_object_get(bundle, "documents"), i, document) sign_again(document, signers, count);
    return bundle;
}

/* Of the checkpoint of the order's event. */
static struct merkle_hash root_of(const json_t *bundle)
{
    const char *note = strstr(json_text_of(json_object_get(bundle, "event"), "proof"), "\n\n") + 2;
    struct checkpoint checkpoint;
    struct error err = {0};

    must(checkpoint_read((struct bytes){(const uint8_t *)note, (size_t)(strstr(note, "\n\n") + 1 - note)}, &checkpoint, &err),
         &err);
    return checkpoint.root;
}

static void add_handover(json_t *bundle, size_t old, size_t new, uint64_t size)
{
    struct buffer OWNED_BUFFER text = BUFFER(4096), shown = BUFFER(LOG_KEYS_TEXT_MAX);
    struct log_handover handover = {.origin = ORIGIN, .size = size, .old = keys[old], .new = keys[new]};
    struct error err = {0};

    if (size == SIZE) handover.root = root_of(bundle);
    must(log_handover_write(&handover, &text, &err), &err);
    must(note_key_write(&keys[old], &shown, &err), &err);
    must(buffer_add_u8(&shown, '\n', &err), &err);
    must(note_write_text(&shown, buffer_bytes(&text), &err), &err);
    add_signature(&shown, old, buffer_bytes(&text));
    add_signature(&shown, new, buffer_bytes(&text));
    assert_int_equal(json_object_set_new(bundle, "log_keys", json_string(buffer_text(&shown))), 0);
}

static struct result check(const json_t *vectors, const json_t *bundle, size_t trusted, const struct witness_policy *policy,
                           struct buffer *report, struct error *err)
{
    OWNED_STRING text = json_dumps(bundle, JSON_COMPACT);
    const struct run_repeated none = {.decisions = 0};
    struct buffer OWNED_BUFFER vkey = BUFFER(512);
    OWNED(run_bundle) *read = NULL;
    struct run_trust trust = {.policy = policy};
    struct ecdsa_key *keyd = made_key(vectors, "keyd");

    must(note_key_write(&keys[trusted], &vkey, err), err);
    assert_true(
        text_from_hex(bytes_of_text(json_text_of(json_object_get(vectors, "points"), "root")), trust.root, sizeof trust.root));
    trust.log_key = buffer_bytes(&vkey);
    trust.keyd = keyd;
    const struct result checked = run_bundle_check(bytes_of_text(text), &trust, &read, err);
    ecdsa_key_free(keyd);
    TRY(checked);
    return run_bundle_text(read, &none, report, err);
}

static const struct row {
    const char *name;
    size_t signer, trusted;
    uint64_t size; /* of the handover from OLD to NEW; 0: the bundle has none */
    bool is_good;
} rows[] = {
    {"the key that is trusted", OLD, OLD, 0, true},
    {"a new key without a handover", NEW, OLD, 0, false},
    {"a new key with one", NEW, OLD, SIZE - 1, true},
    {"an old key of which the new one is known", OLD, NEW, SIZE, true},
    {"an old key behind the change", OLD, NEW, SIZE - 1, false},
    {"an old key behind the change, which is known", OLD, OLD, SIZE - 1, false},
    {"a new key before the change", NEW, OLD, SIZE, false},
    {"a stranger, with a handover", STRANGER, OLD, SIZE - 1, false},
    {"for somebody who knows another log", NEW, STRANGER, SIZE - 1, false},
};

static void a_bundle_leads_from_key_to_key(void **state)
{
    const struct row *row = *state;
    struct buffer OWNED_BUFFER report = BUFFER(65536);
    OWNED_JSON vectors = made_vectors();
    OWNED_JSON bundle = bundle_by(vectors, &row->signer, 1);
    struct error err = {0};

    if (row->size > 0) add_handover(bundle, OLD, NEW, row->size);
    assert_int_equal(check(vectors, bundle, row->trusted, NULL, &report, &err).ok, row->is_good);
    if (!row->is_good) assert_int_equal(err.kind, ERROR_DENIED);
}

static void a_quorum_is_demanded_of_each_checkpoint(void **state)
{
    static const size_t alone[] = {OLD}, cosigned[] = {OLD, WITNESS};
    struct buffer OWNED_BUFFER text = BUFFER(1024), report = BUFFER(65536);
    OWNED(witness_policy) *policy = NULL;
    OWNED_JSON vectors = made_vectors();
    OWNED_JSON good = bundle_by(vectors, cosigned, 2);
    OWNED_JSON bad = bundle_by(vectors, cosigned, 2);
    struct error err = {0};

    (void)state;
    must(buffer_add_text(&text, "witness w ", &err), &err);
    must(note_key_write(&keys[WITNESS], &text, &err), &err);
    must(buffer_add_text(&text, "\nquorum w\n", &err), &err);
    must(witness_policy_read(buffer_bytes(&text), &policy, &err), &err);
    must(check(vectors, good, OLD, policy, &report, &err), &err);
    assert_null(strstr(buffer_text(&report), "everybody is shown the same log"));
    buffer_clear(&report);
    must(check(vectors, good, OLD, NULL, &report, &err), &err);
    assert_non_null(strstr(buffer_text(&report), "everybody is shown the same log"));
    sign_again(json_array_get(json_object_get(bad, "documents"), 1), alone, 1); /* one document is under another checkpoint */
    assert_false(check(vectors, bad, OLD, policy, &report, &err).ok);
    assert_int_equal(err.kind, ERROR_DENIED);
    OWNED_JSON event = bundle_by(vectors, cosigned, 2);
    sign_again(json_object_get(event, "event"), alone, 1);
    assert_false(check(vectors, event, OLD, policy, &report, &err).ok);
}

static void make_keys(void)
{
    uint8_t public[ED25519_PUBLIC_SIZE];
    struct error err = {0};

    for (size_t i = 0; i < KEYS; i++) {
        must(secret_random(ED25519_SEED_SIZE, &seeds[i], &err), &err);
        must(ed25519_public(seeds[i], public, &err), &err);
        must(note_key_make(i == WITNESS ? "witness.example/w" : ORIGIN, i == WITNESS ? NOTE_COSIGNATURE : NOTE_ED25519, public,
                           &keys[i], &err),
             &err);
    }
}

int main(void)
{
    const struct CMUnitTest others[] = {cmocka_unit_test(a_quorum_is_demanded_of_each_checkpoint)};

    make_keys();
    const int failed = RUN_TABLE(rows, a_bundle_leads_from_key_to_key) + cmocka_run_group_tests(others, NULL, NULL);
    for (size_t i = 0; i < KEYS; i++) secret_free(seeds[i]);
    return failed;
}
