/* The keys of one log: a verifier that trusts one of them follows signed handovers in both directions, and nothing else. */
#include "tests/support/unit.h"

#include <stdio.h>

#include "audit/format/log_keys.h"
#include "base/memory.h"
#include "crypto/ed25519.h"

#define ORIGIN "test.example/audit"
#define KEYS   4

static struct secret *seeds[KEYS];
static struct note_key keys[KEYS];

static struct merkle_hash root_at(uint64_t size)
{
    struct merkle_hash root = {.bytes = {0}};

    store_u64(root.bytes, size);
    return root;
}

static void sign(struct buffer *note, struct bytes text, const size_t *signers, size_t count)
{
    uint8_t signature[ED25519_SIGNATURE_SIZE];
    struct error err = {0};

    must(note_write_text(note, text, &err), &err);
    for (size_t i = 0; i < count; i++) {
        must(ed25519_sign(seeds[signers[i]], text, signature, &err), &err);
        must(note_write_signature(note, &keys[signers[i]], (struct bytes){signature, sizeof signature}, &err), &err);
    }
}

/* From key `old` to key `new`, signed by the two of `by`. */
static void add_handover(struct buffer *text, size_t old, size_t new, uint64_t size, const size_t by[2])
{
    struct buffer OWNED_BUFFER signed_text = BUFFER(4096);
    struct log_handover handover = {.origin = ORIGIN, .size = size, .root = root_at(size), .old = keys[old], .new = keys[new]};
    struct error err = {0};

    must(log_handover_write(&handover, &signed_text, &err), &err);
    sign(text, buffer_bytes(&signed_text), by, 2);
}

static void add_key(struct buffer *text, size_t index)
{
    struct error err = {0};

    must(note_key_write(&keys[index], text, &err), &err);
    must(buffer_add_u8(text, '\n', &err), &err);
}

static struct result check_note(const struct log_keys *known, uint64_t size, const struct merkle_hash *root, size_t signer,
                                struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(CHECKPOINT_TEXT_MAX), bytes = BUFFER(4096);
    struct checkpoint checkpoint = {.origin = ORIGIN, .size = size, .root = *root}, again;
    struct note *note = memory_zeroed(1, sizeof *note);

    assert_non_null(note);
    must(checkpoint_write(&checkpoint, &text, err), err);
    sign(&bytes, buffer_bytes(&text), &signer, 1);
    must(note_read(buffer_bytes(&bytes), note, err), err);
    const struct result result = log_keys_verify(known, note, &again, NULL, err);
    free(note);
    return result;
}

static bool counts(const struct log_keys *known, uint64_t size, size_t signer)
{
    const struct merkle_hash root = root_at(size);
    struct error err = {0};

    return check_note(known, size, &root, signer, &err).ok;
}

static void make_three(struct buffer *text)
{
    add_handover(text, 0, 1, 10, (size_t[2]){0, 1});
    add_handover(text, 1, 2, 20, (size_t[2]){1, 2});
}

/* Whichever of the keys is trusted, each counts for its own part of the log. */
static void each_key_counts_for_its_part(void **state)
{
    static const struct {
        uint64_t size;
        size_t signer;
    } rows[] = {{0, 0}, {1, 0}, {10, 0}, {11, 1}, {20, 1}, {21, 2}, {1000000, 2}};

    (void)state;
    for (size_t trusted = 0; trusted < 3; trusted++) {
        struct buffer OWNED_BUFFER text = BUFFER(LOG_KEYS_TEXT_MAX);
        struct log_keys known;
        struct error err = {0};
        add_key(&text, trusted);
        make_three(&text);
        must(log_keys_read(buffer_bytes(&text), &known, &err), &err);
        assert_int_equal(known.count, 3);
        assert_memory_equal(log_keys_newest(&known)->public_key, keys[2].public_key, 32);
        for (size_t i = 0; i < COUNT(rows); i++)
            for (size_t signer = 0; signer < KEYS; signer++)
                assert_int_equal(counts(&known, rows[i].size, signer), signer == rows[i].signer);
    }
}

static void a_key_alone_counts_for_all(void **state)
{
    struct buffer OWNED_BUFFER text = BUFFER(LOG_KEYS_TEXT_MAX);
    struct log_keys known;
    struct error err = {0};

    (void)state;
    add_key(&text, 0);
    must(log_keys_read((struct bytes){text.data, text.length - 1}, &known, &err), &err); /* without the line feed */
    assert_true(counts(&known, 0, 0) && counts(&known, 1000, 0) && !counts(&known, 1000, 1));
    must(log_keys_read(buffer_bytes(&text), &known, &err), &err);
    assert_int_equal(known.count, 1);
}

static void a_shell_may_take_the_last_line_feed(void **state)
{
    struct buffer OWNED_BUFFER text = BUFFER(LOG_KEYS_TEXT_MAX);
    struct log_keys known;
    struct error err = {0};

    (void)state;
    add_key(&text, 0);
    make_three(&text);
    must(log_keys_read((struct bytes){text.data, text.length - 1}, &known, &err), &err);
    assert_int_equal(known.count, 3);
}

static void another_root_at_the_change_is_a_fork(void **state)
{
    struct buffer OWNED_BUFFER text = BUFFER(LOG_KEYS_TEXT_MAX);
    const struct merkle_hash other = root_at(77);
    struct log_keys known;
    struct error err = {0};

    (void)state;
    add_key(&text, 0);
    make_three(&text);
    must(log_keys_read(buffer_bytes(&text), &known, &err), &err);
    assert_false(check_note(&known, 10, &other, 0, &err).ok);
    assert_int_equal(err.kind, ERROR_DENIED);
    assert_non_null(strstr(err.message, "forked"));
}

static void a_stranger_does_not_lead_on(void **state)
{
    struct buffer OWNED_BUFFER text = BUFFER(LOG_KEYS_TEXT_MAX);
    struct log_keys known;
    struct error err = {0};

    (void)state;
    add_key(&text, 3);
    make_three(&text);
    must(log_keys_read(buffer_bytes(&text), &known, &err), &err); /* none of them leads to the trusted key */
    assert_int_equal(known.count, 1);
    assert_true(counts(&known, 15, 3) && !counts(&known, 15, 1));
}

static const struct bad_row {
    const char *name;
    size_t first[2], first_by[2];
    uint64_t first_size;
    size_t second[2], second_by[2];
    uint64_t second_size;
} bad_rows[] = {
    {"the new key alone has signed", {0, 1}, {1, 1}, 10, {1, 2}, {1, 2}, 20},
    {"the old key alone has signed", {0, 1}, {0, 0}, 10, {1, 2}, {1, 2}, 20},
    {"a stranger has signed for the old key", {0, 1}, {3, 1}, 10, {1, 2}, {1, 2}, 20},
    {"a later one is not signed", {0, 1}, {0, 1}, 10, {1, 2}, {1, 3}, 20},
    {"a return to an old key", {0, 1}, {0, 1}, 10, {1, 0}, {1, 0}, 20},
    {"one key twice", {0, 0}, {0, 0}, 10, {1, 2}, {1, 2}, 20},
    {"not in the order of the log", {0, 1}, {0, 1}, 20, {1, 2}, {1, 2}, 10},
    {"two at one size", {0, 1}, {0, 1}, 10, {1, 2}, {1, 2}, 10},
    {"from the empty log", {0, 1}, {0, 1}, 0, {1, 2}, {1, 2}, 10},
};

static void what_is_no_handover_is_refused(void **state)
{
    const struct bad_row *row = *state;
    struct buffer OWNED_BUFFER text = BUFFER(LOG_KEYS_TEXT_MAX);
    struct log_keys known;
    struct error err = {0};

    add_key(&text, 0);
    add_handover(&text, row->first[0], row->first[1], row->first_size, row->first_by);
    add_handover(&text, row->second[0], row->second[1], row->second_size, row->second_by);
    assert_false(log_keys_read(buffer_bytes(&text), &known, &err).ok);
    assert_int_equal(err.kind, ERROR_DENIED);
}

/* Each changed byte, and each cut, is refused, or changes nothing that counts. */
static void nothing_can_be_changed(void **state)
{
    struct buffer OWNED_BUFFER text = BUFFER(LOG_KEYS_TEXT_MAX);
    struct log_keys known;
    struct error err = {0};

    (void)state;
    add_key(&text, 0);
    const size_t head = text.length;
    make_three(&text);
    for (size_t i = head; i < text.length; i++) {
        text.data[i] ^= 1;
        if (log_keys_read(buffer_bytes(&text), &known, &err).ok) fail_msg("byte %zu", i);
        text.data[i] ^= 1;
        if (i + 1 < text.length && log_keys_read((struct bytes){text.data, i}, &known, &err).ok && known.count == 3)
            fail_msg("cut %zu", i);
    }
    must(log_keys_read(buffer_bytes(&text), &known, &err), &err);
}

static void a_log_has_a_limit_of_keys(void **state)
{
    struct buffer OWNED_BUFFER text = BUFFER(64 * 1024);
    struct log_keys known;
    struct error err = {0};

    (void)state;
    add_key(&text, 3);
    for (uint64_t i = 0; i < LOG_KEYS_MAX; i++) add_handover(&text, 0, 1, 10 + i, (size_t[2]){0, 1});
    assert_false(log_keys_read(buffer_bytes(&text), &known, &err).ok);
    assert_int_equal(err.kind, ERROR_LIMIT);
}

static const struct order_row {
    const char *name, *text; /* %1: the first key, %2: the second */
    bool is_good;
} order_rows[] = {
    {"an order", "sijil-log-key-rotation/v1 " ORIGIN " 86400\n%s\n%s\n", true},
    {"no overlap", "sijil-log-key-rotation/v1 " ORIGIN " 0\n%s\n%s\n", true},
    {"another title", "sijil-log-key-rotation/v2 " ORIGIN " 86400\n%s\n%s\n", false},
    {"another log", "sijil-log-key-rotation/v1 other.example/log 86400\n%s\n%s\n", false},
    {"an overlap of years", "sijil-log-key-rotation/v1 " ORIGIN " 99999999\n%s\n%s\n", false},
    {"no number", "sijil-log-key-rotation/v1 " ORIGIN " \n%s\n%s\n", false},
    {"a line too many", "sijil-log-key-rotation/v1 " ORIGIN " 86400\n%s\n%s\n\n", false},
    {"a line too few", "sijil-log-key-rotation/v1 " ORIGIN " 86400\n%s\n%.5s\n", false},
    {"the last line is cut", "sijil-log-key-rotation/v1 " ORIGIN " 86400\n%s\n%s", false},
};

static void orders_have_one_form(void **state)
{
    const struct order_row *row = *state;
    struct buffer OWNED_BUFFER first = BUFFER(512), second = BUFFER(512), text = BUFFER(2048), again = BUFFER(2048);
    struct log_rotation_order order;
    struct error err = {0};

    must(note_key_write(&keys[0], &first, &err), &err);
    must(note_key_write(&keys[1], &second, &err), &err);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    must(buffer_format(&text, &err, row->text, buffer_text(&first), buffer_text(&second)), &err);
#pragma GCC diagnostic pop
    assert_int_equal(log_rotation_order_read(buffer_bytes(&text), &order, &err).ok, row->is_good);
    if (!row->is_good) return;
    must(log_rotation_order_write(&order, &again, &err), &err);
    assert_string_equal(buffer_text(&again), buffer_text(&text));
}

static struct result read_three(void *context, struct error *err)
{
    struct log_keys known;

    return log_keys_read(buffer_bytes(context), &known, err);
}

static void every_failure_is_reported(void **state)
{
    struct buffer OWNED_BUFFER text = BUFFER(LOG_KEYS_TEXT_MAX);

    (void)state;
    add_key(&text, 0);
    make_three(&text);
    fail_each(read_three, &text, ERROR_NONE, 2);
}

static int make_keys(void **state)
{
    uint8_t public[ED25519_PUBLIC_SIZE];
    struct error err = {0};

    (void)state;
    for (size_t i = 0; i < KEYS; i++) {
        must(secret_random(ED25519_SEED_SIZE, &seeds[i], &err), &err);
        must(ed25519_public(seeds[i], public, &err), &err);
        must(note_key_make(ORIGIN, NOTE_ED25519, public, &keys[i], &err), &err);
    }
    return 0;
}

static int free_keys(void **state)
{
    (void)state;
    for (size_t i = 0; i < KEYS; i++) secret_free(seeds[i]);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_key_counts_for_its_part),        cmocka_unit_test(a_key_alone_counts_for_all),
        cmocka_unit_test(a_shell_may_take_the_last_line_feed), cmocka_unit_test(another_root_at_the_change_is_a_fork),
        cmocka_unit_test(a_stranger_does_not_lead_on),         cmocka_unit_test(nothing_can_be_changed),
        cmocka_unit_test(a_log_has_a_limit_of_keys),           cmocka_unit_test(every_failure_is_reported),
    };
    void *state = NULL;

    if (make_keys(&state) != 0) return 1;
    int failed = RUN_TABLE(bad_rows, what_is_no_handover_is_refused) + RUN_TABLE(order_rows, orders_have_one_form);
    failed += cmocka_run_group_tests(tests, NULL, NULL);
    (void)free_keys(&state);
    return failed;
}
