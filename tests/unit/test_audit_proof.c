/* Whole proofs of a log of our own making: the report for an outsider, and each way in which a proof is invalid. */
#include "tests/support/made_proof.h"

#include <stdlib.h>

#include "audit/format/tile.h"
#include "base/text.h"

#define ORIGIN MADE_ORIGIN

/* The differences from an honest proof. */
struct twist {
    const char *name;
    const char *origin, *actor;
    uint64_t sequence;
    enum note_algorithm algorithm;
    size_t more_targets;
    bool is_cosigned, is_text;
    enum error_kind kind; /* ERROR_NONE: it is valid */
    const char *says;     /* in the report, or in the error */
};

static void write_entry(const struct twist *twist, struct made *made)
{
    struct leaf leaf = {.version = 1,
                        .sequence = twist->sequence,
                        .outcome = "denied",
                        .target_count = 1 + twist->more_targets,
                        .source = {.instance = "gw1"},
                        .reason = {.decision = "sha256:00", .rule_count = 1, .rules = {"NO"}}};
    struct error err = {0};

    (void)snprintf(leaf.actor, sizeof leaf.actor, "%s", twist->actor);
    for (size_t i = 0; i < leaf.target_count; i++)
        (void)snprintf(leaf.targets[i].action, sizeof leaf.targets[i].action, "blob.read");
    if (twist->more_targets > 0) (void)snprintf(leaf.targets[0].resource, 8, "acme");
    leaf_fill_keys(&leaf);
    for (size_t i = 0; i < leaf.key_count; i++) leaf.keys[i].ordinal = 1;
    if (twist->is_text) assert_true(buffer_add_text(&made->entry, "not an event", &err).ok);
    else assert_true(leaf_write(&leaf, &made->entry, &err).ok);
}

static void make(const struct twist *twist, struct made *made)
{
    made_begin(made, twist->algorithm);
    write_entry(twist, made);
    made_prove(made, twist->origin, twist->is_cosigned);
}

static struct result check(const struct made *made, struct proof_report *report, struct error *err)
{
    return proof_check(buffer_bytes(&made->vkey), buffer_bytes(&made->entry), buffer_bytes(&made->proof), report, err);
}

#define HONEST .origin = ORIGIN, .actor = "0f0f", .sequence = 1, .algorithm = NOTE_ED25519
static const struct twist twists[] = {
    {"an honest proof", HONEST, .says = "by the subject with the pseudonym 0f0f"},
    {"of the registry itself", .origin = ORIGIN, .actor = "system", .sequence = 1, .algorithm = NOTE_ED25519,
     .says = "by the registry itself"},
    {"of nobody", .origin = ORIGIN, .actor = "anonymous", .sequence = 1, .algorithm = NOTE_ED25519,
     .says = "by somebody without a valid credential"},
    {"of two targets", HONEST, .more_targets = 1, .says = "  and blob.read"},
    {"with a witness", HONEST, .is_cosigned = true, .says = "the checkpoint has 1 more"},
    {"of what is no event", HONEST, .is_text = true, .says = "no event that this version can read"},
    {"of another number", .origin = ORIGIN, .actor = "system", .sequence = 7, .algorithm = NOTE_ED25519, .kind = ERROR_DENIED,
     .says = "calls itself number 7"},
    {"of another log", .origin = "other.example/audit", .actor = "system", .sequence = 1, .algorithm = NOTE_ED25519,
     .kind = ERROR_DENIED, .says = "is of the log other.example/audit"},
    {"with a witness' key", .origin = ORIGIN, .actor = "system", .sequence = 1, .algorithm = NOTE_COSIGNATURE,
     .kind = ERROR_INVALID, .says = "the key of a witness"},
};

static void proofs_hold_or_say_why_not(void **state)
{
    const struct twist *twist = *state;
    OWNED_MADE made = {0};
    struct buffer OWNED_BUFFER text = BUFFER(8192);
    struct buffer OWNED_BUFFER json = BUFFER(8192);
    struct proof_report report = {.index = 99};
    struct error err = {0};

    make(twist, &made);
    const bool ok = check(&made, &report, &err).ok;
    assert_int_equal(ok ? ERROR_NONE : err.kind, twist->kind);
    if (!ok) {
        assert_non_null(strstr(err.message, twist->says));
        assert_int_equal(report.index, 99);
        return;
    }
    assert_true(proof_report_text(&report, &text, &err).ok);
    assert_non_null(strstr(buffer_text(&text), twist->says));
    assert_true(proof_report_json(&report, &json, &err).ok);
    assert_non_null(strstr(buffer_text(&json), twist->is_text ? "\"is_event\":false" : "\"is_event\":true"));
}

/* A report needs its room: with less room, the function fails. */
static void reports_need_their_room(void **state)
{
    const struct twist *twist = *state;
    OWNED_MADE made = {0};
    struct buffer OWNED_BUFFER whole = BUFFER(8192);
    struct buffer OWNED_BUFFER whole_json = BUFFER(8192);
    struct proof_report report;
    struct error err = {0};

    if (twist->kind != ERROR_NONE) return;
    make(twist, &made);
    assert_true(check(&made, &report, &err).ok);
    assert_true(proof_report_text(&report, &whole, &err).ok && proof_report_json(&report, &whole_json, &err).ok);
    for (size_t room = 1; room < whole.length; room++) {
        struct buffer OWNED_BUFFER narrow = BUFFER(room);
        assert_false(proof_report_text(&report, &narrow, &err).ok);
        assert_int_equal(err.kind, ERROR_LIMIT);
    }
    for (size_t room = 1; room < whole_json.length; room++) {
        struct buffer OWNED_BUFFER narrow = BUFFER(room);
        assert_false(proof_report_json(&report, &narrow, &err).ok);
    }
}

static const struct twist honest = {"", HONEST, .more_targets = 1, .is_cosigned = true};

/* Each written piece needs its room, too. */
static void pieces_need_their_room(void **state)
{
    static const struct merkle_hash hash = {{1}};
    const struct tlog_proof proof = {
        .extra = bytes_of_text("YWJj"), .index = 5, .note = bytes_of_text("note"), .inclusion = {.count = 2}};
    const struct checkpoint checkpoint = {.origin = ORIGIN, .size = 2, .root = hash};
    struct buffer OWNED_BUFFER whole = BUFFER(8192);
    struct tlog_proof again;
    OWNED_MADE made = {0};
    struct error err = {0};

    (void)state;
    make(&honest, &made);
    assert_true(tlog_proof_write(&proof, &whole, &err).ok);
    assert_true(tlog_proof_read(buffer_bytes(&whole), &again, &err).ok && again.extra.length == 4);
    for (size_t room = 1; room < whole.length; room++) {
        struct buffer OWNED_BUFFER narrow = BUFFER(room);
        assert_false(tlog_proof_write(&proof, &narrow, &err).ok);
    }
    for (size_t room = 1; room < strlen(ORIGIN) + 48; room++) {
        struct buffer OWNED_BUFFER narrow = BUFFER(room);
        assert_false(checkpoint_write(&checkpoint, &narrow, &err).ok);
    }
    for (size_t room = 1; room < made.vkey.length; room++) {
        struct buffer OWNED_BUFFER narrow = BUFFER(room);
        assert_false(note_key_write(&made.key, &narrow, &err).ok);
        assert_false(note_cosignature_message(&narrow, 1700000000, buffer_bytes(&made.vkey), &err).ok);
        assert_false(note_write_text(&narrow,
                                     bytes_of_text("a line that is long enough for all of these rooms, and then some\n"
                                                   "and another one, because a key is rather long\n"),
                                     &err)
                         .ok);
        assert_false(tile_add_entry(&narrow, buffer_bytes(&made.vkey), &err).ok);
    }
    for (size_t room = 1; room < 100; room++) {
        struct buffer OWNED_BUFFER narrow = BUFFER(room);
        const uint8_t signature[ED25519_SIGNATURE_SIZE] = {0};
        assert_false(note_write_signature(&narrow, &made.key, (struct bytes){signature, sizeof signature}, &err).ok);
    }
}

static struct result check_and_report(void *context, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(8192);
    struct proof_report report;

    TRY_UNTOUCHED_BYTES(report, check(context, &report, err));
    return proof_report_text(&report, &text, err);
}

/* An event that can't be read for lack of memory is not "no event". */
static void checking_survives_lack_of_memory(void **state)
{
    OWNED_MADE made = {0};

    (void)state;
    make(&honest, &made);
    fail_each(check_and_report, &made, ERROR_NO_MEMORY, 5);
}

static struct result read_extra(void *text, struct error *err)
{
    struct tlog_proof proof;

    TRY_UNTOUCHED_BYTES(proof, tlog_proof_read(bytes_of_text(text), &proof, err));
    return SUCCESS;
}

static void an_extra_line_survives_lack_of_memory(void **state)
{
    char text[] = "c2sp.org/tlog-proof@v1\nextra YWJj\nindex 5\n\nnote";

    (void)state;
    fail_each(read_extra, text, ERROR_NO_MEMORY, 1);
}

/* Sizes over the limits are refused before anything is read. */
static void what_is_too_large_is_not_read(void **state)
{
    static char large[TLOG_PROOF_MAX + 2];
    struct proof_report report;
    struct tlog_proof proof;
    struct note note;
    struct note_key key;
    struct checkpoint checkpoint = {.origin = ORIGIN, .size = MERKLE_SIZE_MAX + UINT64_C(1)};
    struct merkle_frontier frontier;
    struct buffer OWNED_BUFFER text = BUFFER(70000);
    OWNED_MADE made = {0};
    struct error err = {0};

    (void)state;
    make(&honest, &made);
    memset(large, 'a', sizeof large);
    const struct bytes bytes = {(const uint8_t *)large, sizeof large};
    assert_false(tlog_proof_read(bytes, &proof, &err).ok);
    assert_int_equal(err.kind, ERROR_LIMIT);
    assert_false(note_read(bytes, &note, &err).ok);
    assert_int_equal(err.kind, ERROR_LIMIT);
    assert_false(proof_check(buffer_bytes(&made.vkey), (struct bytes){bytes.data, MERKLE_ENTRY_MAX + 1},
                             buffer_bytes(&made.proof), &report, &err)
                     .ok);
    assert_int_equal(err.kind, ERROR_LIMIT);
    assert_false(tile_add_entry(&text, (struct bytes){bytes.data, MERKLE_ENTRY_MAX + 1}, &err).ok);
    assert_false(checkpoint_write(&checkpoint, &text, &err).ok);
    assert_false(checkpoint_read(bytes, &checkpoint, &err).ok);
    assert_false(merkle_frontier_read(MERKLE_SIZE_MAX + UINT64_C(1), (struct bytes){bytes.data, 32}, &frontier, &err).ok);

    large[NOTE_NAME_MAX + 1] = '\0';
    assert_false(note_key_make(large, NOTE_ED25519, made.key.public_key, &key, &err).ok);
    assert_false(note_key_make("a name", NOTE_ED25519, made.key.public_key, &key, &err).ok);
    assert_false(note_key_make("name", (enum note_algorithm)2, made.key.public_key, &key, &err).ok);
    assert_false(note_key_read((struct bytes){bytes.data, NOTE_NAME_MAX + 1}, &key, &err).ok);
    assert_false(note_write_text(&text, bytes_of_text("no line feed"), &err).ok);
    assert_false(note_write_text(&text, (struct bytes){0}, &err).ok);
    const struct bytes long_origin = {bytes.data, CHECKPOINT_ORIGIN_MAX + 1};
    assert_true(buffer_add(&text, long_origin.data, long_origin.length, &err).ok && buffer_add_text(&text, "\n8\n", &err).ok);
    assert_false(checkpoint_read(buffer_bytes(&text), &checkpoint, &err).ok);
}

/* A signature line may be of any algorithm's size, but not of any size at all. */
static void signatures_have_a_size(void **state)
{
    static const struct {
        size_t length;
        bool is_read;
    } rows[] = {{NOTE_KEY_ID_SIZE + 65, true},
                {NOTE_KEY_ID_SIZE + NOTE_SIGNATURE_MAX, true},
                {NOTE_KEY_ID_SIZE + NOTE_SIGNATURE_MAX + 3, false}};
    static uint8_t raw[NOTE_SIGNATURE_MAX + 64];
    OWNED_MADE made = {0};
    struct error err = {0};

    (void)state;
    make(&honest, &made);
    memcpy(raw, made.key.id, sizeof made.key.id);
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct buffer OWNED_BUFFER text = BUFFER(3 * NOTE_SIGNATURE_MAX);
        struct note note;

        assert_true(buffer_add_text(&text, "text\n\n\xe2\x80\x94 " ORIGIN " ", &err).ok);
        assert_true(text_base64(&text, BASE64_STANDARD, (struct bytes){raw, rows[i].length}, &err).ok);
        assert_true(buffer_add_u8(&text, '\n', &err).ok);
        assert_int_equal(note_read(buffer_bytes(&text), &note, &err).ok, rows[i].is_read);
        if (!rows[i].is_read) continue;
        assert_false(note_verify(&note, &made.key, NULL, &err).ok);
        assert_int_equal(err.kind, ERROR_DENIED);
        struct note_key cosigner = made.key; /* the same id, so that the line is taken for its own */
        cosigner.algorithm = NOTE_COSIGNATURE;
        assert_false(note_verify(&note, &cosigner, NULL, &err).ok);
        assert_int_equal(err.kind, ERROR_DENIED);
    }
}

int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(pieces_need_their_room),
        cmocka_unit_test(checking_survives_lack_of_memory),
        cmocka_unit_test(an_extra_line_survives_lack_of_memory),
        cmocka_unit_test(what_is_too_large_is_not_read),
        cmocka_unit_test(signatures_have_a_size),
    };

    return RUN_TABLE(twists, proofs_hold_or_say_why_not) + RUN_TABLE(twists, reports_need_their_room) +
           cmocka_run_group_tests_name("others", others, NULL, NULL);
}
