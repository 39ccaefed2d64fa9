/* The statement of an auditor that has replayed a log: what it says of an export, and what it does not. */
#include "tests/support/unit.h"

#include "audit/format/add_checkpoint.h"
#include "audit/format/heads.h"
#include "audit/format/merkle.h"
#include "base/memory.h"
#include "crypto/ed25519.h"

#define ORIGIN "test.example/audit"
#define TIME_S 1767225600

static struct secret *seed, *stranger;
static struct note_key key, other, log_key;

static struct checkpoint state_of(uint64_t size, const char *entry)
{
    struct merkle_frontier frontier = {.size = 0};
    struct checkpoint checkpoint = {.origin = ORIGIN, .size = size};
    struct merkle_hash leaf;

    merkle_leaf_hash(bytes_of_text(entry), &leaf);
    for (uint64_t i = 0; i < size; i++) merkle_append(&frontier, &leaf);
    checkpoint.root = merkle_frontier_root(&frontier);
    return checkpoint;
}

/* From `half` to twice as many equal entries: the proof is the root of the second half. */
static void prove(uint64_t half, const char *entry, struct buffer *body)
{
    const struct checkpoint old = state_of(half, entry);
    struct add_checkpoint request = {
        .old_size = half, .proof = {.count = 1, .hashes = {old.root}}, .note = bytes_of_text("x\n\nx\n")};
    struct error err = {0};

    must(add_checkpoint_write(&request, body, &err), &err);
}

static void make_note(const struct checkpoint *checkpoint, const struct secret *signer, const struct note_key *by,
                      struct buffer *note)
{
    struct buffer OWNED_BUFFER text = BUFFER(1024), message = BUFFER(2048), payload = BUFFER(72);
    const struct heads heads = {.checkpoint = *checkpoint, .keys = 7, .root = checkpoint->root};
    uint8_t signature[ED25519_SIGNATURE_SIZE];
    struct error err = {0};

    must(heads_write(&heads, &text, &err), &err);
    must(note_cosignature_message(&message, TIME_S, buffer_bytes(&text), &err), &err);
    must(ed25519_sign(signer, buffer_bytes(&message), signature, &err), &err);
    must(buffer_add_u64(&payload, TIME_S, &err), &err);
    must(buffer_add(&payload, signature, sizeof signature, &err), &err);
    must(note_write_text(note, buffer_bytes(&text), &err), &err);
    must(note_write_signature(note, by, buffer_bytes(&payload), &err), &err);
}

static const struct row {
    const char *name;
    uint64_t replayed, exported, last; /* sizes, and the closing entry */
    bool has_proof, by_stranger, other_log, other_origin;
    enum error_kind kind;
} rows[] = {
    {"of the same size", 8, 8, 7, false, false, false, false, ERROR_NONE},
    {"of a longer log", 8, 4, 3, true, false, false, false, ERROR_NONE},
    {"of a shorter log that has the export", 4, 8, 3, true, false, false, false, ERROR_NONE},
    {"of a shorter log that ends before it", 4, 8, 4, true, false, false, false, ERROR_DENIED},
    {"without the proof", 8, 4, 3, false, false, false, false, ERROR_DENIED},
    {"by a stranger", 8, 8, 7, false, true, false, false, ERROR_DENIED},
    {"of a log with another root", 8, 8, 7, false, false, true, false, ERROR_DENIED},
    {"of a longer log that does not continue it", 8, 4, 3, true, false, true, false, ERROR_DENIED},
    {"of a log with another name", 8, 8, 7, false, false, false, true, ERROR_DENIED},
};

static void says_what_was_replayed(void **state)
{
    const struct row *row = *state;
    struct buffer OWNED_BUFFER note = BUFFER(HEADS_NOTE_MAX), vkey = BUFFER(512), proof = BUFFER(8192);
    struct checkpoint replayed = state_of(row->replayed, row->other_log ? "y" : "x"), exported = state_of(row->exported, "x");
    struct heads_report report;
    struct error err = {0};

    if (row->other_origin) memcpy(replayed.origin, "other.example/log", sizeof "other.example/log");
    make_note(&replayed, row->by_stranger ? stranger : seed, row->by_stranger ? &other : &key, &note);
    must(note_key_write(&key, &vkey, &err), &err);
    if (row->has_proof) prove(4, "x", &proof);
    const struct heads_evidence evidence = {buffer_bytes(&vkey), buffer_bytes(&note), {buffer_bytes(&proof)}};
    const bool ok = heads_check(&evidence, &exported, row->last, &report, &err).ok;
    if (ok != (row->kind == ERROR_NONE)) fail_msg("%s", ok ? "it holds" : err.message);
    if (!ok) assert_int_equal(err.kind, row->kind);
    if (!ok) return;
    assert_string_equal(report.auditor, "auditor.example/a");
    assert_true(report.time_s == TIME_S && report.size == row->replayed);
}

/* Both begin a log of 8 entries: one has 4 of them, and the other one 8 itself, or another log. */
static void two_proofs_lead_to_a_third_checkpoint(void **state)
{
    struct buffer OWNED_BUFFER note = BUFFER(HEADS_NOTE_MAX), vkey = BUFFER(512), first = BUFFER(8192), second = BUFFER(8192),
                               text = BUFFER(1024);
    const struct checkpoint replayed = state_of(4, "x"), exported = state_of(2, "x"), third = state_of(8, "x"),
                            half = state_of(4, "x"), two = state_of(2, "x");
    struct heads_report report;
    struct error err = {0};

    (void)state;
    must(checkpoint_write(&third, &text, &err), &err);
    struct buffer OWNED_BUFFER signed_text = BUFFER(2048);
    must(note_write_text(&signed_text, buffer_bytes(&text), &err), &err);
    must(note_write_signature(&signed_text, &key, (struct bytes){(const uint8_t[72]){0}, 72}, &err), &err);
    const struct add_checkpoint from_four = {4, {.count = 1, .hashes = {half.root}}, buffer_bytes(&signed_text)};
    const struct add_checkpoint from_two = {2, {.count = 2, .hashes = {two.root, half.root}}, buffer_bytes(&signed_text)};
    must(add_checkpoint_write(&from_four, &first, &err), &err);
    must(add_checkpoint_write(&from_two, &second, &err), &err);
    make_note(&replayed, seed, &key, &note);
    must(note_key_write(&key, &vkey, &err), &err);
    const struct bytes own = buffer_bytes(&vkey), signed_note = buffer_bytes(&note), a = buffer_bytes(&first),
                       b = buffer_bytes(&second);
    must(heads_check(&(struct heads_evidence){own, signed_note, {a, b}}, &exported, 1, &report, &err), &err);
    must(heads_check(&(struct heads_evidence){own, signed_note, {b, a}}, &exported, 1, &report, &err), &err);
    assert_false(heads_check(&(struct heads_evidence){own, signed_note, {a, a}}, &exported, 1, &report, &err).ok);
    assert_false(heads_check(&(struct heads_evidence){own, signed_note, {b, b}}, &exported, 1, &report, &err).ok);
    assert_int_equal(err.kind, ERROR_DENIED);
    const struct checkpoint other_log_state = state_of(2, "y");
    assert_false(heads_check(&(struct heads_evidence){own, signed_note, {a, b}}, &other_log_state, 1, &report, &err).ok);
}

static void the_key_of_a_log_is_no_auditor(void **state)
{
    struct buffer OWNED_BUFFER note = BUFFER(HEADS_NOTE_MAX), vkey = BUFFER(512);
    const struct checkpoint checkpoint = state_of(8, "x");
    struct heads_report report;
    struct error err = {0};

    (void)state;
    make_note(&checkpoint, seed, &key, &note);
    must(note_key_write(&log_key, &vkey, &err), &err);
    const struct heads_evidence evidence = {buffer_bytes(&vkey), buffer_bytes(&note), {{0}}};
    assert_false(heads_check(&evidence, &checkpoint, 7, &report, &err).ok);
    assert_int_equal(err.kind, ERROR_INVALID);
}

static void no_byte_can_be_changed(void **state)
{
    struct buffer OWNED_BUFFER note = BUFFER(HEADS_NOTE_MAX), vkey = BUFFER(512);
    const struct checkpoint checkpoint = state_of(8, "x");
    struct heads_report report;
    struct error err = {0};

    (void)state;
    make_note(&checkpoint, seed, &key, &note);
    must(note_key_write(&key, &vkey, &err), &err);
    const struct heads_evidence evidence = {buffer_bytes(&vkey), buffer_bytes(&note), {{0}}};
    must(heads_check(&evidence, &checkpoint, 7, &report, &err), &err);
    for (size_t i = 0; i < note.length; i++) {
        note.data[i] ^= 1;
        if (heads_check(&evidence, &checkpoint, 7, &report, &err).ok) fail_msg("byte %zu", i);
        note.data[i] ^= 1;
    }
}

static void a_statement_has_one_form(void **state)
{
    static const char *const bad[] = {
        "",
        "sijil-key-heads/v1\n",
        "sijil-key-heads/v2\no\n1\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n1\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n",
        "sijil-key-heads/v1\no\n01\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n1\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n",
        "sijil-key-heads/v1\no\n1\nAAAA\n1\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n",
        "sijil-key-heads/v1\n\n1\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n1\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n",
        "sijil-key-heads/v1\no\n1\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n1\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\nmore\n"};
    const struct heads made = {.checkpoint = state_of(5, "x"), .keys = 3};
    struct buffer OWNED_BUFFER text = BUFFER(1024), again = BUFFER(1024);
    struct heads heads;
    struct error err = {0};

    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++) assert_false(heads_read(bytes_of_text(bad[i]), &heads, &err).ok);
    must(heads_write(&made, &text, &err), &err);
    must(heads_read(buffer_bytes(&text), &heads, &err), &err);
    must(heads_write(&heads, &again, &err), &err);
    assert_string_equal(buffer_text(&again), buffer_text(&text));
}

static void make_key(struct secret **seed_out, const char *name, struct note_key *key_out)
{
    uint8_t public[ED25519_PUBLIC_SIZE];
    struct error err = {0};

    must(secret_random(ED25519_SEED_SIZE, seed_out, &err), &err);
    must(ed25519_public(*seed_out, public, &err), &err);
    must(note_key_make(name, NOTE_COSIGNATURE, public, key_out, &err), &err);
    must(note_key_make(ORIGIN, NOTE_ED25519, public, &log_key, &err), &err);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_proofs_lead_to_a_third_checkpoint),
        cmocka_unit_test(the_key_of_a_log_is_no_auditor),
        cmocka_unit_test(no_byte_can_be_changed),
        cmocka_unit_test(a_statement_has_one_form),
    };

    make_key(&stranger, "stranger.example/s", &other);
    make_key(&seed, "auditor.example/a", &key);
    const int failed = RUN_TABLE(rows, says_what_was_replayed) + cmocka_run_group_tests(tests, NULL, NULL);
    secret_free(seed);
    secret_free(stranger);
    return failed;
}
