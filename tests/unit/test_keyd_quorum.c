/* The pinned policy of witnesses: who may change it, and what sijil-keyd does not sign before its quorum has cosigned the log. */
#include "tests/unit/keyd_folder_fixture.h"

#include <stdio.h>
#include <string.h>

#include "audit/format/checkpoint.h"
#include "base/clock.h"
#include "base/text.h"
#include "crypto/dsse.h"
#include "crypto/ed25519.h"
#include "keyd/document_pin.h"
#include "keyd/quorum.h"

#define ORIGIN  "x.example/log"
#define SIZE    9
#define POLICY  "quorum none\n"
#define OTHER   "# another one\nquorum none\n"
#define COSIGNS 3

static struct folder folder;
static struct keyring *keyring;
static struct ledger *ledger;
static struct quorum *quorum;
static struct log_rotation *rotation;
static struct ecdsa_key *root, *stranger;
static struct secret *seeds[COSIGNS];
static struct note_key keys[COSIGNS];
static struct buffer policy; /* two of three */

static struct quorum_place place(void)
{
    return (struct quorum_place){quorum, rotation, ledger};
}

static struct result begin_log(const void *context, struct ledger_state *state, struct error *err)
{
    (void)err;
    state->log_size = *(const uint64_t *)context;
    memset(state->log_root, 7, sizeof state->log_root);
    state->witness_epoch = 0;
    memset(state->witness_digest, 0, sizeof state->witness_digest);
    return SUCCESS;
}

/* As after a start of sijil-keyd. */
static void start(unsigned patience_s)
{
    struct error err = {0};

    quorum_free(quorum);
    quorum = NULL;
    must(quorum_new(patience_s, &quorum, &err), &err);
}

static int new_log(void **state)
{
    const uint64_t size = SIZE;
    struct error err = {0};

    (void)state;
    must(ledger_change(ledger, begin_log, &size, &err), &err);
    start(QUORUM_PATIENCE_S);
    return 0;
}

static struct result pin(const char *text, const struct buffer *envelope, struct error *err)
{
    const struct quorum_place where = place();
    const struct keyd_witness_policy request = {bytes_of_text(text),
                                                envelope == NULL ? (struct bytes){0} : buffer_bytes(envelope)};

    return quorum_pin(&where, &request, err);
}

static void seal(const char *origin, unsigned epoch, const char *text, const struct ecdsa_key *signer, struct buffer *envelope)
{
    struct buffer OWNED_BUFFER payload = BUFFER(8192);
    struct error err = {0};

    buffer_clear(envelope);
    must(buffer_format(&payload, &err, "%s %s %u\n%s", WITNESS_POLICY_TITLE, origin, epoch, text), &err);
    must(dsse_write(WITNESS_POLICY_PAYLOAD, buffer_bytes(&payload), &signer, 1, envelope, &err), &err);
}

static void only_the_root_replaces_a_policy(void **state)
{
    static const struct {
        const char *name, *origin, *sealed, *given;
        unsigned epoch;
        bool is_strange;
        enum error_kind kind;
    } rows[] = {
        {"signed by a stranger", ORIGIN, OTHER, OTHER, 1, true, ERROR_DENIED},
        {"for another log", "y.example/log", OTHER, OTHER, 1, false, ERROR_DENIED},
        {"another text", ORIGIN, POLICY, OTHER, 1, false, ERROR_INVALID},
        {"without an epoch", ORIGIN, OTHER, OTHER, 0, false, ERROR_INVALID},
        {"by the root", ORIGIN, OTHER, OTHER, 2, false, ERROR_NONE},
        {"the same epoch", ORIGIN, POLICY, POLICY, 2, false, ERROR_DENIED},
        {"an older one", ORIGIN, POLICY, POLICY, 1, false, ERROR_DENIED},
        {"a newer one", ORIGIN, POLICY, POLICY, 3, false, ERROR_NONE},
    };
    struct buffer OWNED_BUFFER envelope = BUFFER(KEYD_WITNESS_ENVELOPE_MAX);
    struct keyd_witnesses known;
    struct error err = {0};

    (void)state;
    const struct quorum_place where = place();
    quorum_read(&where, &known);
    assert_false(known.is_pinned || known.awaits || known.is_without);
    must(pin(POLICY, NULL, &err), &err);
    must(pin(POLICY, NULL, &err), &err);
    assert_false(pin(OTHER, NULL, &err).ok);
    assert_int_equal(err.kind, ERROR_DENIED);
    for (size_t i = 0; i < COUNT(rows); i++) {
        err.kind = ERROR_NONE;
        seal(rows[i].origin, rows[i].epoch, rows[i].sealed, rows[i].is_strange ? stranger : root, &envelope);
        (void)pin(rows[i].given, &envelope, &err).ok;
        if (err.kind != rows[i].kind) fail_msg("%s: %s", rows[i].name, err.kind == ERROR_NONE ? "accepted" : err.message);
    }
    quorum_read(&where, &known);
    assert_true(known.is_pinned && known.epoch == 3);
    assert_false(pin("quorum w\n", NULL, &err).ok);
    assert_int_equal(err.kind, ERROR_INVALID);
    assert_false(pin("log other.example/audit+00000000+AQ== x\nquorum none\n", NULL, &err).ok);
}

/* ---- cosigned checkpoints ---- */

struct told {
    uint64_t size;
    uint8_t root;             /* 7: the one that was signed */
    int64_t after_s[COSIGNS]; /* seconds after the start; INT64_MIN: does not cosign */
    bool other_key;           /* another key than the log's has signed */
};

static void sign_log(const struct told *told, struct bytes text, struct buffer *note)
{
    struct note_key key = *keyring_log_key(keyring, 0);
    uint8_t signature[64];
    struct error err = {0};

    if (told->other_key) must(ed25519_sign(seeds[0], text, signature, &err), &err);
    else must(keyring_sign_log(keyring, 0, text, signature, &err), &err);
    must(note_write_text(note, text, &err), &err);
    must(note_write_signature(note, &key, (struct bytes){signature, sizeof signature}, &err), &err);
}

static void cosign(size_t i, uint64_t time_s, struct bytes text, struct buffer *note)
{
    struct buffer OWNED_BUFFER message = BUFFER(1024), payload = BUFFER(72);
    uint8_t signature[ED25519_SIGNATURE_SIZE];
    struct error err = {0};

    must(note_cosignature_message(&message, time_s, text, &err), &err);
    must(ed25519_sign(seeds[i], buffer_bytes(&message), signature, &err), &err);
    must(buffer_add_u64(&payload, time_s, &err), &err);
    must(buffer_add(&payload, signature, sizeof signature, &err), &err);
    must(note_write_signature(note, &keys[i], buffer_bytes(&payload), &err), &err);
}

static struct result tell(const struct told *told, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(CHECKPOINT_TEXT_MAX), note = BUFFER(KEYD_COSIGNED_MAX);
    struct checkpoint checkpoint = {.origin = ORIGIN, .size = told->size};
    const struct quorum_place where = place();
    const int64_t now_s = clock_wall_ms() / 1000;

    memset(checkpoint.root.bytes, told->root, sizeof checkpoint.root.bytes);
    TRY(checkpoint_write(&checkpoint, &text, err));
    sign_log(told, buffer_bytes(&text), &note);
    for (size_t i = 0; i < COSIGNS; i++)
        if (told->after_s[i] != INT64_MIN) cosign(i, (uint64_t)(now_s + told->after_s[i]), buffer_bytes(&text), &note);
    const struct keyd_cosigned request = {buffer_bytes(&policy), buffer_bytes(&note)};
    return quorum_take(&where, &request, err);
}

static struct result ask(enum keyd_type type, uint64_t size, uint8_t root_byte, struct error *err)
{
    const struct quorum_place where = place();
    struct keyd_request request = {.type = type};

    if (type == KEYD_CHECKPOINT) request.as.checkpoint.size = size;
    if (type == KEYD_CHECKPOINT) memset(request.as.checkpoint.root, root_byte, sizeof request.as.checkpoint.root);
    return quorum_check(&where, &request, err);
}

static void after_a_start_the_quorum_comes_first(void **state)
{
    static const struct {
        const char *name;
        struct told told;
        enum error_kind kind;
    } rows[] = {
        {"nobody", {SIZE, 7, {INT64_MIN, INT64_MIN, INT64_MIN}, false}, ERROR_DENIED},
        {"one of three", {SIZE, 7, {1, INT64_MIN, INT64_MIN}, false}, ERROR_DENIED},
        {"two before the start", {SIZE, 7, {-60, -60, INT64_MIN}, false}, ERROR_DENIED},
        {"one before the start, one after", {SIZE, 7, {-60, 1, INT64_MIN}, false}, ERROR_DENIED},
        {"from the future", {SIZE, 7, {1000, 1000, 1000}, false}, ERROR_DENIED},
        {"an older checkpoint", {SIZE - 1, 7, {1, 1, 1}, false}, ERROR_DENIED},
        {"a larger log", {SIZE + 1, 7, {1, 1, 1}, false}, ERROR_FORKED},
        {"another root", {SIZE, 8, {1, 1, 1}, false}, ERROR_FORKED},
        {"not signed by the log", {SIZE, 7, {1, 1, 1}, true}, ERROR_DENIED},
        {"two of three", {SIZE, 7, {1, INT64_MIN, 1}, false}, ERROR_NONE},
        {"later an older one", {SIZE - 1, 7, {2, 2, 2}, false}, ERROR_NONE},
        {"later a larger log", {SIZE + 1, 7, {3, 3, 3}, false}, ERROR_FORKED},
    };
    struct error err = {0};

    (void)state;
    must(pin(buffer_text(&policy), NULL, &err), &err);
    must(ask(KEYD_CHECKPOINT, SIZE + 1, 9, &err), &err); /* the first policy is not held against the log */
    start(QUORUM_PATIENCE_S);
    for (size_t i = 0; i < COUNT(rows); i++) {
        const bool is_closed = i < 10;
        err.kind = ERROR_NONE;
        if (is_closed == ask(KEYD_CHECKPOINT, SIZE + 1, 9, &err).ok) fail_msg("before %s", rows[i].name);
        if (is_closed == ask(KEYD_TOKEN, 0, 0, &err).ok) fail_msg("before %s: a token", rows[i].name);
        must(ask(KEYD_CHECKPOINT, SIZE, 7, &err), &err); /* what was signed before */
        must(ask(KEYD_UNWRAP, 0, 0, &err), &err);
        err.kind = ERROR_NONE;
        (void)tell(&rows[i].told, &err).ok;
        if (err.kind != rows[i].kind) fail_msg("%s: %s", rows[i].name, err.kind == ERROR_NONE ? "accepted" : err.message);
    }
}

/* Whatever makes a signature. */
static void nothing_is_signed_before_the_quorum(void **state)
{
    static const enum keyd_type types[] = {KEYD_CHECKPOINT,       KEYD_TOKEN,           KEYD_PIN_POLICY,     KEYD_PIN_DOCUMENT,
                                           KEYD_CERTIFY_DELETION, KEYD_CERTIFY_ERASURE, KEYD_CERTIFY_RUNNER, KEYD_RUN_ORDER,
                                           KEYD_RUN_LEASE,        KEYD_RUN_ADMISSION,   KEYD_RUN_REQUEST,    KEYD_BOUND_TOKEN,
                                           KEYD_PIN_SET};
    struct error err = {0};

    (void)state;
    must(pin(buffer_text(&policy), NULL, &err), &err);
    start(QUORUM_PATIENCE_S);
    for (size_t i = 0; i < COUNT(types); i++) {
        if (ask(types[i], SIZE + 1, 9, &err).ok) fail_msg("message %d is answered", (int)types[i]);
        assert_int_equal(err.kind, ERROR_UNAVAILABLE);
    }
}

static void another_policy_opens_nothing(void **state)
{
    const struct told told = {SIZE, 7, {1, 1, 1}, false};
    struct error err = {0};

    (void)state;
    must(pin(POLICY, NULL, &err), &err);
    start(QUORUM_PATIENCE_S);
    assert_false(tell(&told, &err).ok);
    assert_int_equal(err.kind, ERROR_DENIED);
    assert_false(ask(KEYD_RUN_ORDER, 0, 0, &err).ok);
    assert_int_equal(err.kind, ERROR_UNAVAILABLE);
}

static void without_a_quorum_rules_stay_as_they_are(void **state)
{
    const struct told told = {SIZE, 7, {0, 0, 0}, false};
    static const enum keyd_type waiting[] = {KEYD_PIN_POLICY, KEYD_PIN_SET, KEYD_PIN_DOCUMENT, KEYD_RUN_ORDER, KEYD_RUN_REQUEST};
    static const enum keyd_type others[] = {KEYD_CHECKPOINT, KEYD_TOKEN, KEYD_RUN_LEASE, KEYD_RUN_ADMISSION, KEYD_WRAP};
    struct keyd_witnesses known;
    struct error err = {0};

    (void)state;
    for (size_t i = 0; i < COUNT(waiting); i++) must(ask(waiting[i], 0, 0, &err), &err); /* no policy, nothing to wait for */
    must(pin(buffer_text(&policy), NULL, &err), &err);
    start(0);
    must(tell(&told, &err), &err);
    const struct quorum_place where = place();
    quorum_read(&where, &known);
    assert_true(known.is_without && !known.awaits && known.since_s > 0);
    for (size_t i = 0; i < COUNT(waiting); i++) {
        assert_false(ask(waiting[i], 0, 0, &err).ok);
        assert_int_equal(err.kind, ERROR_UNAVAILABLE);
    }
    for (size_t i = 0; i < COUNT(others); i++) must(ask(others[i], SIZE + 1, 9, &err), &err);
    start(QUORUM_PATIENCE_S);
    must(tell(&told, &err), &err);
    for (size_t i = 0; i < COUNT(waiting); i++) must(ask(waiting[i], 0, 0, &err), &err);
}

static void an_old_cosignature_is_no_new_quorum(void **state)
{
    const struct told now = {SIZE, 7, {0, 0, 0}, false}, old = {SIZE, 7, {-100, -100, -100}, false};
    struct keyd_witnesses first, second;
    struct error err = {0};

    (void)state;
    must(pin(buffer_text(&policy), NULL, &err), &err);
    must(tell(&now, &err), &err);
    const struct quorum_place where = place();
    quorum_read(&where, &first);
    must(tell(&old, &err), &err);
    quorum_read(&where, &second);
    assert_true(first.since_s > 0 && second.since_s == first.since_s);
}

static void the_pin_outlives_a_start(void **state)
{
    struct keyd_witnesses known;
    struct error err = {0};

    (void)state;
    must(pin(buffer_text(&policy), NULL, &err), &err);
    ledger_free(ledger);
    ledger = NULL;
    must(ledger_open(folder.fd, keyring_ledger_key(keyring), &ledger, &err), &err);
    start(QUORUM_PATIENCE_S);
    const struct quorum_place where = place();
    quorum_read(&where, &known);
    assert_true(known.is_pinned && known.awaits && known.log_size == SIZE);
    assert_false(pin(POLICY, NULL, &err).ok);
}

static void make_witnesses(void)
{
    uint8_t public_key[ED25519_PUBLIC_SIZE];
    struct error err = {0};

    policy = BUFFER(4096);
    for (size_t i = 0; i < COSIGNS; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "witness.example/w%zu", i);
        must(secret_random(32, &seeds[i], &err), &err);
        must(ed25519_public(seeds[i], public_key, &err), &err);
        must(note_key_make(name, NOTE_COSIGNATURE, public_key, &keys[i], &err), &err);
        must(buffer_format(&policy, &err, "witness w%zu ", i), &err);
        must(note_key_write(&keys[i], &policy, &err), &err);
        must(buffer_add_u8(&policy, '\n', &err), &err);
    }
    must(buffer_add_text(&policy, "group g 2 w0 w1 w2\nquorum g\n", &err), &err);
}

static void open_all(void)
{
    const struct keyring_options options = {
        .origin = ORIGIN, .passphrase = bytes_of_text("p"), .cost = {.passes = 1, .memory_kib = 64}};
    uint8_t point[ECDSA_PUBLIC_SIZE];
    struct error err = {0};

    folder_make(&folder);
    must(keyring_create(folder.fd, &options, ledger_create, &err), &err);
    must(keyring_open(folder.fd, options.passphrase, &keyring, &err), &err);
    must(ledger_open(folder.fd, keyring_ledger_key(keyring), &ledger, &err), &err);
    must(log_rotation_open(folder.fd, keyring, &rotation, &err), &err);
    must(ecdsa_key_new(&root, &err), &err);
    must(ecdsa_key_new(&stranger, &err), &err);
    ecdsa_key_public(root, point);
    must(approver_pin(ledger, point, &err), &err);
    make_witnesses();
}

static void close_all(void)
{
    for (size_t i = 0; i < COSIGNS; i++) secret_free(seeds[i]);
    buffer_done(&policy);
    ecdsa_key_free(root);
    ecdsa_key_free(stranger);
    quorum_free(quorum);
    ledger_free(ledger);
    log_rotation_free(rotation);
    keyring_free(keyring);
    folder_remove(&folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(only_the_root_replaces_a_policy, new_log),
        cmocka_unit_test_setup(after_a_start_the_quorum_comes_first, new_log),
        cmocka_unit_test_setup(nothing_is_signed_before_the_quorum, new_log),
        cmocka_unit_test_setup(another_policy_opens_nothing, new_log),
        cmocka_unit_test_setup(without_a_quorum_rules_stay_as_they_are, new_log),
        cmocka_unit_test_setup(an_old_cosignature_is_no_new_quorum, new_log),
        cmocka_unit_test_setup(the_pin_outlives_a_start, new_log),
    };

    open_all();
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    close_all();
    return failed;
}
