#include "tests/support/audit_vectors.h"

#include "audit/format/checkpoint.h"
#include "audit/format/note.h"
#include "audit/format/proof.h"
#include "base/fault.h"
#include "base/memory.h"
#include "crypto/ed25519.h"

static struct note_key log_key(void)
{
    struct note_key key;
    struct error err = {0};

    assert_true(note_key_read(bytes_of_text(json_text_of(vector(vectors, "log_key"), "vkey")), &key, &err).ok);
    return key;
}

static void keys_have_their_ids(void **state)
{
    static const char *const owners[] = {"log_key", "witness_key"};
    struct error err = {0};

    (void)state;
    for (size_t i = 0; i < COUNT(owners); i++) {
        const json_t *owner = vector(vectors, owners[i]);
        struct buffer OWNED_BUFFER vkey = BUFFER(512);
        struct note_key key;
        char hex[65]; /* a public key */
        assert_true(note_key_read(bytes_of_text(json_text_of(owner, "vkey")), &key, &err).ok);
        text_hex(key.public_key, sizeof key.public_key, hex);
        assert_string_equal(hex, json_text_of(owner, "pub_hex"));
        text_hex(key.id, sizeof key.id, hex);
        assert_string_equal(hex, json_text_of(owner, "key_id_hex"));
        assert_true(note_key_write(&key, &vkey, &err).ok);
        assert_string_equal(buffer_text(&vkey), json_text_of(owner, "vkey"));
    }
}

static const struct vkey_row {
    const char *name, *vkey;
} vkey_rows[] = {
    {"nothing", ""},
    {"no key", "sijil.example/audit+d589d843+"},
    {"no name", "+d589d843+AQOhB7/zzhC+HXDdGOdLwJln5NYwm6UNXx3chmQSVTG4"},
    {"another key id", "sijil.example/audit+d589d844+AQOhB7/zzhC+HXDdGOdLwJln5NYwm6UNXx3chmQSVTG4"},
    {"upper-case hex", "sijil.example/audit+D589D843+AQOhB7/zzhC+HXDdGOdLwJln5NYwm6UNXx3chmQSVTG4"},
    {"another name", "sijil.example/audi+d589d843+AQOhB7/zzhC+HXDdGOdLwJln5NYwm6UNXx3chmQSVTG4"},
    {"a blank in the name", "sijil.example audit+d589d843+AQOhB7/zzhC+HXDdGOdLwJln5NYwm6UNXx3chmQSVTG4"},
    {"an algorithm that is not known", "sijil.example/audit+d589d843+AgOhB7/zzhC+HXDdGOdLwJln5NYwm6UNXx3chmQSVTG4"},
    {"a short key", "sijil.example/audit+d589d843+AQOhB7/zzhC+HXDdGOdLwJln5NYwm6UNXx3chmQSVTE="},
};

static void bad_keys_are_refused(void **state)
{
    const struct vkey_row *row = *state;
    struct note_key key;
    struct error err = {0};

    assert_false(note_key_read(bytes_of_text(row->vkey), &key, &err).ok);
    assert_int_equal(err.kind, ERROR_INVALID);
}

static void checkpoints_are_made_byte_for_byte(void **state)
{
    const json_t *expected = vector(vectors, "checkpoints");
    const struct note_key key = log_key();
    struct secret *seed = NULL;
    struct error err = {0};
    struct merkle_hash leaves[8];
    uint8_t raw[32], signature[ED25519_SIGNATURE_SIZE];

    (void)state;
    read_tree8(leaves);
    assert_true(text_from_hex(bytes_of_text(json_text_of(vector(vectors, "log_key"), "seed_hex")), raw, sizeof raw));
    assert_true(secret_copy((struct bytes){raw, sizeof raw}, &seed, &err).ok);
    static const unsigned sizes[] = {0, 1, 3, 8};
    for (size_t i = 0; i < COUNT(sizes); i++) {
        struct buffer OWNED_BUFFER text = BUFFER(512), note = BUFFER(2048);
        struct checkpoint checkpoint = {.size = sizes[i], .root = tree_hash(leaves, sizes[i])}, again;
        struct note read;
        char name[12]; /* one digit */
        (void)snprintf(checkpoint.origin, sizeof checkpoint.origin, "%.127s", key.name);
        (void)snprintf(name, sizeof name, "%u", sizes[i]);
        assert_true(checkpoint_write(&checkpoint, &text, &err).ok);
        assert_true(ed25519_sign(seed, buffer_bytes(&text), signature, &err).ok);
        assert_true(note_write_text(&note, buffer_bytes(&text), &err).ok);
        assert_true(note_write_signature(&note, &key, (struct bytes){signature, sizeof signature}, &err).ok);
        assert_string_equal(buffer_text(&note), json_text_of(expected, name));
        assert_true(note_read(buffer_bytes(&note), &read, &err).ok);
        assert_true(note_verify(&read, &key, NULL, &err).ok);
        assert_true(checkpoint_read(read.text, &again, &err).ok);
        assert_string_equal(again.origin, checkpoint.origin);
        assert_true(again.size == sizes[i] && merkle_hash_equal(&again.root, &checkpoint.root));
        buffer_done(&text);
    }
    secret_free(seed);
}

static void cosignatures_state_their_time(void **state)
{
    const struct bytes text = bytes_of_text(json_text_of(vectors, "cosigned_checkpoint_8"));
    struct buffer OWNED_BUFFER message = BUFFER(1024);
    struct note note;
    struct note_key witness, key = log_key();
    struct error err = {0};
    uint64_t time_s = 1;

    (void)state;
    assert_true(note_key_read(bytes_of_text(json_text_of(vector(vectors, "witness_key"), "vkey")), &witness, &err).ok);
    assert_true(note_read(text, &note, &err).ok);
    assert_int_equal(note.count, 2);
    assert_true(note_verify(&note, &key, &time_s, &err).ok);
    assert_int_equal(time_s, 0);
    assert_true(note_verify(&note, &witness, &time_s, &err).ok);
    assert_int_equal(time_s, 1767225600);
    assert_true(note_cosignature_message(&message, time_s, note.text, &err).ok);
    assert_string_equal(buffer_text(&message), json_text_of(vectors, "cosignature_signed_message"));
    witness.public_key[3] ^= 1; /* the same name and id, another key: the note is bad, not unsigned */
    assert_false(note_verify(&note, &witness, NULL, &err).ok);
    assert_int_equal(err.kind, ERROR_DENIED);
    assert_non_null(strstr(err.message, "not good"));
}

#define SIGNATURE_LINE "\xe2\x80\x94 a AAAAAQIDBA==\n"
static const struct note_row {
    const char *name, *text;
    bool valid;
} note_rows[] = {
    {"a note", "text\n\n" SIGNATURE_LINE, true},
    {"two signatures", "text\n\n" SIGNATURE_LINE SIGNATURE_LINE, true},
    {"a blank line in the text", "text\n\nmore\n\n" SIGNATURE_LINE, true},
    {"an empty text line", "\n\n" SIGNATURE_LINE, true},
    {"no signature", "text\n\n", false},
    {"no blank line", "text\n" SIGNATURE_LINE, false},
    {"no final line feed", "text\n\n\xe2\x80\x94 a AAAAAQIDBA==", false},
    {"a carriage return", "text\r\n\n" SIGNATURE_LINE, false},
    {"a control character", "te\x01xt\n\n" SIGNATURE_LINE, false},
    {"a tab", "te\txt\n\n" SIGNATURE_LINE, false},
    {"bad UTF-8", "te\xffxt\n\n" SIGNATURE_LINE, false},
    {"an overlong form", "te\xc0\xafxt\n\n" SIGNATURE_LINE, false},
    {"a surrogate", "te\xed\xa0\x80xt\n\n" SIGNATURE_LINE, false},
    {"other scripts", "\xd8\xb3\xd8\xac\xd9\x84 \xf0\x9f\x98\x80\n\n" SIGNATURE_LINE, true},
    {"a hyphen for the dash", "text\n\n- a AAAAAQIDBA==\n", false},
    {"no name", "text\n\n\xe2\x80\x94 AAAAAQIDBA==\n", false},
    {"plus in the name", "text\n\n\xe2\x80\x94 a+b AAAAAQIDBA==\n", false},
    {"a no-break space in the name",
     "text\n\n\xe2\x80\x94 a\xc2\xa0"
     "b AAAAAQIDBA==\n",
     false},
    {"base64 without padding", "text\n\n\xe2\x80\x94 a AAAAAQIDBA\n", false},
    {"trailing bits", "text\n\n\xe2\x80\x94 a AAAAAQIDBB==\n", false},
    {"the key id only", "text\n\n\xe2\x80\x94 a AAAAAQ==\n", false},
    {"two blanks", "text\n\n\xe2\x80\x94 a  AAAAAQIDBA==\n", false},
    {"a stray continuation byte", "te\x80xt\n\n" SIGNATURE_LINE, false},
    {"a broken character", "te\xc3xt\n\n" SIGNATURE_LINE, false},
    {"a cut character", "text\n\n" SIGNATURE_LINE "\xe2\x80", false},
    {"beyond Unicode", "te\xf4\x90\x80\x80xt\n\n" SIGNATURE_LINE, false},
    {"a private character", "te\xee\x80\x80xt\n\n" SIGNATURE_LINE, true},
    {"a thin space in the name",
     "text\n\n\xe2\x80\x94 a\xe2\x80\x89"
     "b AAAAAQIDBA==\n",
     false},
    {"a dash in the name",
     "text\n\n\xe2\x80\x94 a\xe2\x80\x94"
     "b AAAAAQIDBA==\n",
     true},
    {"DEL in the name, which Go allows", "text\n\n\xe2\x80\x94 a\x7f AAAAAQIDBA==\n", true},
    {"a short line", "text\n\n\xe2\x80\x94\n", false},
    {"only a name", "text\n\n\xe2\x80\x94 name\n", false},
    {"a text line among the signatures", "text\n\n" SIGNATURE_LINE "x\n", false},
};

static void notes_have_one_form(void **state)
{
    const struct note_row *row = *state;
    struct note note;
    struct error err = {0};

    assert_int_equal(note_read(bytes_of_text(row->text), &note, &err).ok, row->valid);
    if (!row->valid) assert_int_equal(err.kind, ERROR_INVALID);
}

static void a_changed_note_is_refused(void **state)
{
    const char *text = json_text_of(vector(vectors, "checkpoints"), "8");
    const struct note_key key = log_key();
    const size_t length = strlen(text);

    (void)state;
    for (size_t i = 0; i < length; i++) {
        OWNED_STRING changed = memory_copy_text(text, length);
        struct note note;
        struct error err = {0};
        assert_non_null(changed);
        changed[i] = (char)(changed[i] ^ 1);
        assert_false(note_read((struct bytes){(uint8_t *)changed, length}, &note, &err).ok &&
                     note_verify(&note, &key, NULL, &err).ok);
    }
}

static void many_signatures_are_read(void **state)
{
    struct error err = {0};

    (void)state;
    for (unsigned count = NOTE_SIGNATURES_MAX; count <= NOTE_SIGNATURES_MAX + 1; count++) {
        struct buffer OWNED_BUFFER text = BUFFER(8192);
        struct note note;
        assert_true(buffer_add_text(&text, "text\n\n", &err).ok);
        for (unsigned i = 0; i < count; i++) assert_true(buffer_add_text(&text, SIGNATURE_LINE, &err).ok);
        assert_int_equal(note_read(buffer_bytes(&text), &note, &err).ok, count == NOTE_SIGNATURES_MAX);
    }
}

#define ROOT "XcnaeacGWamtVZy3Ad7ZoqudgjqtL0lgz+Nw7/RgQyg=\n"
static const struct checkpoint_row {
    const char *name, *text;
    bool valid;
} checkpoint_rows[] = {
    {"a checkpoint", "o\n8\n" ROOT, true},
    {"an extension line", "o\n8\n" ROOT "more\n", true},
    {"the largest size", "o\n9223372036854775807\n" ROOT, true},
    {"one more", "o\n9223372036854775808\n" ROOT, false},
    {"a leading zero", "o\n08\n" ROOT, false},
    {"a sign", "o\n+8\n" ROOT, false},
    {"a blank", "o\n 8\n" ROOT, false},
    {"no origin", "\n8\n" ROOT, false},
    {"a blank in the origin", "o o\n8\n" ROOT, false},
    {"plus in the origin", "o+o\n8\n" ROOT, false},
    {"an empty line", "o\n8\n" ROOT "\n", false},
    {"a short root", "o\n8\nXcnaeacGWamtVZy3Ad7ZoqudgjqtL0lgz+Nw7/RgQw==\n", false},
    {"a root without padding", "o\n8\nXcnaeacGWamtVZy3Ad7ZoqudgjqtL0lgz+Nw7/RgQyg\n", false},
    {"no root", "o\n8\n", false},
    {"no size", "o\n", false},
    {"no final line feed", "o\n8\nXcnaeacGWamtVZy3Ad7ZoqudgjqtL0lgz+Nw7/RgQyg=", false},
    {"nothing", "", false},
};

static void checkpoints_have_one_form(void **state)
{
    const struct checkpoint_row *row = *state;
    struct checkpoint checkpoint;
    struct error err = {0};

    assert_int_equal(checkpoint_read(bytes_of_text(row->text), &checkpoint, &err).ok, row->valid);
    if (!row->valid) assert_int_equal(err.kind, ERROR_INVALID);
}

static void a_proof_is_one_file(void **state)
{
    const char *expected = json_text_of(vectors, "tlog_proof_index_5_size_8");
    struct buffer OWNED_BUFFER again = BUFFER(4096);
    struct tlog_proof proof;
    struct note note;
    struct checkpoint checkpoint;
    struct merkle_hash leaves[8];
    struct error err = {0};

    (void)state;
    read_tree8(leaves);
    assert_true(tlog_proof_read(bytes_of_text(expected), &proof, &err).ok);
    assert_int_equal(proof.index, 5);
    assert_int_equal(proof.extra.length, 0);
    assert_true(note_read(proof.note, &note, &err).ok);
    assert_true(checkpoint_read(note.text, &checkpoint, &err).ok);
    assert_true(merkle_verify_inclusion(proof.index, checkpoint.size, &leaves[5], &proof.inclusion, &checkpoint.root));
    assert_true(tlog_proof_write(&proof, &again, &err).ok);
    assert_string_equal(buffer_text(&again), expected);
}

#define PROOF_START "c2sp.org/tlog-proof@v1\n"
static const struct proof_row {
    const char *name, *text;
    bool valid;
} proof_rows[] = {
    {"no hashes", PROOF_START "index 0\n\nnote", true},
    {"an extra line", PROOF_START "extra YWJj\nindex 0\n\nnote", true},
    {"an extra line that is not base64", PROOF_START "extra YWJ\nindex 0\n\nnote", false},
    {"an empty extra line", PROOF_START "extra \nindex 0\n\nnote", false},
    {"two extra lines", PROOF_START "extra YWJj\nextra YWJj\nindex 0\n\nnote", false},
    {"another version", "c2sp.org/tlog-proof@v2\nindex 0\n\nnote", false},
    {"no index", PROOF_START "\nnote", false},
    {"a leading zero", PROOF_START "index 00\n\nnote", false},
    {"an index that no log has", PROOF_START "index 18446744073709551615\n\nnote", false},
    {"a hash too short", PROOF_START "index 0\nYWJj\n\nnote", false},
    {"no blank line", PROOF_START "index 0\n", false},
    {"the first line alone", PROOF_START, false},
    {"an extra line and no more", PROOF_START "extra YWJj\n", false},
    {"a hash that is not base64", PROOF_START "index 0\n????\n\nnote", false},
    {"nothing", "", false},
};

static void proofs_have_one_form(void **state)
{
    const struct proof_row *row = *state;
    struct tlog_proof proof;
    struct error err = {0};

    assert_int_equal(tlog_proof_read(bytes_of_text(row->text), &proof, &err).ok, row->valid);
    if (!row->valid) assert_int_equal(err.kind, ERROR_INVALID);
}

static void proofs_have_at_most_63_hashes(void **state)
{
    struct error err = {0};

    (void)state;
    for (unsigned count = MERKLE_PROOF_MAX; count <= MERKLE_PROOF_MAX + 1; count++) {
        struct buffer OWNED_BUFFER text = BUFFER(8192);
        struct tlog_proof proof;
        assert_true(buffer_add_text(&text, PROOF_START "index 0\n", &err).ok);
        for (unsigned i = 0; i < count; i++) assert_true(buffer_add_text(&text, ROOT, &err).ok);
        assert_true(buffer_add_text(&text, "\nnote", &err).ok);
        assert_int_equal(tlog_proof_read(buffer_bytes(&text), &proof, &err).ok, count == MERKLE_PROOF_MAX);
    }
}

/* Without memory, reading and checking a proof never succeeds. */
static struct result check_proof(void *context, struct error *err)
{
    const struct bytes text = bytes_of_text(json_text_of(vectors, "tlog_proof_index_5_size_8"));
    struct buffer OWNED_BUFFER vkey = BUFFER(512);
    struct tlog_proof proof;
    struct note note;
    struct checkpoint checkpoint;

    TRY_UNTOUCHED_BYTES(proof, tlog_proof_read(text, &proof, err));
    TRY_UNTOUCHED_BYTES(note, note_read(proof.note, &note, err));
    TRY(note_verify(&note, context, NULL, err));
    TRY_UNTOUCHED_BYTES(checkpoint, checkpoint_read(note.text, &checkpoint, err));
    return note_key_write(context, &vkey, err);
}

static void reading_survives_lack_of_memory(void **state)
{
    struct note_key key = log_key();

    (void)state;
    fail_each(check_proof, &key, ERROR_NO_MEMORY, 4);
}

int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(keys_have_their_ids),           cmocka_unit_test(checkpoints_are_made_byte_for_byte),
        cmocka_unit_test(cosignatures_state_their_time), cmocka_unit_test(a_changed_note_is_refused),
        cmocka_unit_test(many_signatures_are_read),      cmocka_unit_test(a_proof_is_one_file),
        cmocka_unit_test(proofs_have_at_most_63_hashes), cmocka_unit_test(reading_survives_lack_of_memory),
    };

    read_vectors();
    const int failed = RUN_TABLE(vkey_rows, bad_keys_are_refused) + RUN_TABLE(note_rows, notes_have_one_form) +
                       RUN_TABLE(checkpoint_rows, checkpoints_have_one_form) + RUN_TABLE(proof_rows, proofs_have_one_form) +
                       cmocka_run_group_tests_name("others", others, NULL, NULL);
    json_decref(vectors);
    return failed;
}
