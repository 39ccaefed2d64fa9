/* The keys of the log in sijil-keyd: the root alone orders a new one, and no checkpoint behind it is made by the old one alone. */
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

static void close_ring(void)
{
    log_rotation_free(world.rotation);
    ledger_free(world.ledger);
    keyring_free(world.keyring);
    world.rotation = NULL;
    world.ledger = NULL;
    world.keyring = NULL;
}

/* As after a start. */
static void open_ring(void)
{
    struct error err = {0};

    close_ring();
    must(keyring_open(world.folder.fd, bytes_of_text("p"), &world.keyring, &err), &err);
    must(ledger_open(world.folder.fd, keyring_ledger_key(world.keyring), &world.ledger, &err), &err);
    must(log_rotation_open(world.folder.fd, world.keyring, &world.rotation, &err), &err);
}

static void add_key(void)
{
    struct error err = {0};

    close_ring();
    must(keyring_add_log_key(world.folder.fd, bytes_of_text("p"), &err), &err);
    open_ring();
}

static int setup(void **state)
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

static int teardown(void **state)
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
static void prove(uint64_t old_size, uint64_t size, struct checkpoint_request *request)
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

static struct note *sign_at(uint64_t old_size, uint64_t size, int64_t now_s, struct buffer *bytes)
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
static unsigned signers_of(const struct note *note)
{
    unsigned bits = 0;
    struct error err = {0};

    for (size_t i = 0; i < keyring_log_key_count(world.keyring); i++)
        if (note_verify(note, keyring_log_key(world.keyring, i), NULL, &err).ok) bits |= 1U << i;
    return bits;
}

static unsigned signers_at(uint64_t old_size, uint64_t size, int64_t now_s)
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

static struct result order_by(size_t old, size_t new, const struct ecdsa_key *signer, const char *type, int64_t now_s,
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

static struct result order(size_t old, size_t new, int64_t now_s, struct error *err)
{
    return order_by(old, new, world.root, LOG_ROTATION_PAYLOAD, now_s, err);
}

static void both_keys_sign_until_the_overlap_ends(void **state)
{
    struct error err = {0};

    (void)state;
    assert_int_equal(signers_at(0, 4, NOW_S), 1);
    add_key();
    assert_int_equal(signers_at(4, 8, NOW_S), 1); /* nobody has ordered it yet */
    must(order(0, 1, NOW_S, &err), &err);
    assert_int_equal(signers_at(8, 8, NOW_S), 3);
    assert_int_equal(signers_at(8, 16, NOW_S + OVERLAP - 1), 3);
    open_ring(); /* also after a start */
    assert_int_equal(signers_at(16, 32, NOW_S + OVERLAP - 1), 3);
    assert_int_equal(signers_at(32, 64, NOW_S + OVERLAP), 2);
    must(order(0, 1, NOW_S + OVERLAP, &err), &err); /* the same again is no error, and changes nothing */
    assert_int_equal(signers_at(64, 128, NOW_S + OVERLAP), 2);
}

/* The checkpoint at which the old key ended counts with its signature, also when it is signed again long after. */
static void the_last_checkpoint_of_the_old_key_keeps_it(void **state)
{
    struct error err = {0};

    (void)state;
    add_key();
    assert_int_equal(signers_at(0, 8, NOW_S), 1);
    must(order(0, 1, NOW_S, &err), &err);
    assert_int_equal(signers_at(8, 8, NOW_S + 2 * OVERLAP), 3);
}

static void verifiers_follow(void **state)
{
    struct buffer OWNED_BUFFER text = BUFFER(LOG_KEYS_TEXT_MAX);
    struct log_keys keys, own;
    struct log_rotation_state known;
    struct error err = {0};

    (void)state;
    (void)signers_at(0, 8, NOW_S);
    add_key();
    log_rotation_state(world.rotation, &known);
    assert_true(known.has_next);
    assert_memory_equal(known.next.public_key, keyring_log_key(world.keyring, 1)->public_key, sizeof known.next.public_key);
    must(order(0, 1, NOW_S, &err), &err);
    log_rotation_state(world.rotation, &known);
    assert_true(!known.has_next && known.retires_s == NOW_S + OVERLAP);
    (void)signers_at(8, 16, NOW_S + OVERLAP);
    add_key();
    must(order(1, 2, NOW_S + OVERLAP, &err), &err);
    must(log_rotation_text(world.rotation, &text, &err), &err);
    must(log_keys_read(buffer_bytes(&text), &keys, &err), &err);
    log_rotation_keys(world.rotation, &own);
    assert_int_equal(keys.count, 3);
    assert_memory_equal(&keys, &own, sizeof keys);
    assert_true(keys.starts[1].size == 8 && keys.starts[2].size == 16);
    assert_int_equal(signers_at(16, 32, NOW_S + OVERLAP), 6); /* the second and the third */
}

static const struct refused_row {
    const char *name;
    size_t old, new;
    bool by_stranger, other_type, no_key, no_checkpoint, in_overlap;
    enum error_kind kind;
} refused_rows[] = {
    {"a stranger orders it", 0, 1, true, false, false, false, false, ERROR_DENIED},
    {"another kind of document", 0, 1, false, true, false, false, false, ERROR_INVALID},
    {"the key ring has no such key", 0, 0, false, false, true, false, false, ERROR_DENIED},
    {"from a key that does not count", 1, 0, false, false, false, false, false, ERROR_DENIED},
    {"to the same key", 0, 0, false, false, false, false, false, ERROR_DENIED},
    {"nothing was signed yet", 0, 1, false, false, false, true, false, ERROR_CONFLICT},
    {"the last overlap is not over", 1, 2, false, false, false, false, true, ERROR_CONFLICT},
};

static void what_nobody_may_order_changes_nothing(void **state)
{
    const struct refused_row *row = *state;
    struct error err = {0};

    if (!row->no_key) add_key();
    if (!row->no_checkpoint) (void)signers_at(0, 8, NOW_S);
    if (row->in_overlap) {
        must(order(0, 1, NOW_S, &err), &err);
        add_key();
        (void)signers_at(8, 16, NOW_S);
    }
    const struct ecdsa_key *signer = row->by_stranger ? world.stranger : world.root;
    const char *type = row->other_type ? "application/vnd.sijil.witness-policy.v1" : LOG_ROTATION_PAYLOAD;
    assert_false(order_by(row->old, row->new, signer, type, NOW_S, &err).ok);
    assert_int_equal(err.kind, row->kind);
    struct log_keys keys;
    log_rotation_keys(world.rotation, &keys);
    assert_int_equal(keys.count, row->in_overlap ? 2 : 1);
}

static void copy_file(const char *from, const char *to)
{
    char command[160];

    assert_in_range(snprintf(command, sizeof command, "cp %s/%s %s/%s", world.folder.path, from, world.folder.path, to), 1, 159);
    assert_int_equal(system(command), 0); /* NOLINT(cert-env33-c): names of this test's own folder */
}

/* The file says which keys count. Without it, a key ring with several keys would sign with an old one. */
static void files_that_do_not_belong_together_are_refused(void **state)
{
    struct log_rotation *rotation = NULL;
    struct error err = {0};

    (void)state;
    (void)signers_at(0, 8, NOW_S);
    copy_file(KEYRING_FILE, ".before");
    add_key();
    must(order(0, 1, NOW_S, &err), &err);
    close_ring();
    copy_file(KEYRING_FILE, ".after");
    copy_file(".before", KEYRING_FILE); /* an older key ring: its second key is missing */
    must(keyring_open(world.folder.fd, bytes_of_text("p"), &world.keyring, &err), &err);
    assert_false(log_rotation_open(world.folder.fd, world.keyring, &rotation, &err).ok);
    assert_int_equal(err.kind, ERROR_CORRUPT);
    close_ring();
    copy_file(".after", KEYRING_FILE);
    assert_int_equal(unlinkat(world.folder.fd, LOG_ROTATION_FILE, 0), 0);
    must(keyring_open(world.folder.fd, bytes_of_text("p"), &world.keyring, &err), &err);
    assert_false(log_rotation_open(world.folder.fd, world.keyring, &rotation, &err).ok);
    assert_int_equal(err.kind, ERROR_CORRUPT);
    (void)unlinkat(world.folder.fd, ".before", 0);
    (void)unlinkat(world.folder.fd, ".after", 0);
}

static struct result begin_with_second_key(const void *context, struct ledger_state *state, struct error *err)
{
    (void)context, (void)err;
    state->log_number = 2;
    state->log_first_key = 1;
    return SUCCESS;
}

/* With an older file no key at all would sign a log that began with a later key. */
static void an_older_file_than_the_ledger_is_refused(void **state)
{
    struct error err = {0};

    (void)state;
    (void)signers_at(0, 8, NOW_S);
    add_key();
    must(ledger_change(world.ledger, begin_with_second_key, NULL, &err), &err);
    assert_false(log_rotation_use(world.rotation, world.ledger, &err).ok);
    assert_int_equal(err.kind, ERROR_CORRUPT);
}

static void a_folder_of_an_earlier_version_gets_the_file(void **state)
{
    (void)state;
    close_ring();
    assert_int_equal(unlinkat(world.folder.fd, LOG_ROTATION_FILE, 0), 0);
    open_ring();
    assert_int_equal(signers_at(0, 8, NOW_S), 1);
}

static void a_key_ring_has_a_limit_of_keys(void **state)
{
    struct error err = {0};

    (void)state;
    close_ring();
    for (int i = 0; i < KEYRING_FURTHER_MAX; i++) must(keyring_add_log_key(world.folder.fd, bytes_of_text("p"), &err), &err);
    assert_false(keyring_add_log_key(world.folder.fd, bytes_of_text("p"), &err).ok);
    assert_int_equal(err.kind, ERROR_LIMIT);
    open_ring();
    assert_int_equal(keyring_log_key_count(world.keyring), KEYRING_FURTHER_MAX + 1);
}

/* The certificates of deletion, orders of runs and runners hang on the first seed. */
static void derived_keys_stay(void **state)
{
    uint8_t documents[ECDSA_PUBLIC_SIZE], runners[ECDSA_PUBLIC_SIZE], again[ECDSA_PUBLIC_SIZE];
    struct error err = {0};

    (void)state;
    ecdsa_key_public(keyring_document_key(world.keyring), documents);
    ecdsa_key_public(keyring_runner_key(world.keyring), runners);
    (void)signers_at(0, 8, NOW_S);
    add_key();
    must(order(0, 1, NOW_S, &err), &err);
    ecdsa_key_public(keyring_document_key(world.keyring), again);
    assert_memory_equal(again, documents, sizeof again);
    ecdsa_key_public(keyring_runner_key(world.keyring), again);
    assert_memory_equal(again, runners, sizeof again);
}

#define WITH_WORLD(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

static void refused(void **state)
{
    for (size_t i = 0; i < COUNT(refused_rows); i++) {
        void *row = (void *)(uintptr_t)&refused_rows[i];
        print_message("%s\n", refused_rows[i].name);
        if (i > 0) (void)setup(state);
        what_nobody_may_order_changes_nothing(&row);
        if (i + 1 < COUNT(refused_rows)) (void)teardown(state);
    }
}

static struct result recover(const void *context, struct ledger_state *state, struct error *err)
{
    (void)context, (void)err;
    state->log_number = 2;
    state->log_first_key = 1;
    return SUCCESS;
}

/* docs/recovery.md: the key that signed when the other log ended is the first one of the next log, under its name. */
static void a_log_after_a_recovery_begins_with_the_newest_key(void **state)
{
    struct buffer OWNED_BUFFER note = BUFFER(KEYD_NOTE_MAX), text = BUFFER(LOG_KEYS_TEXT_MAX);
    struct log_rotation_state known;
    struct log_keys keys, read;
    struct error err = {0};

    (void)state;
    (void)signers_at(0, 8, NOW_S);
    add_key();
    must(order(0, 1, NOW_S, &err), &err);
    must(ledger_change(world.ledger, recover, NULL, &err), &err);
    must(log_rotation_use(world.rotation, world.ledger, &err), &err);
    log_rotation_keys(world.rotation, &keys);
    assert_true(keys.count == 1 && keys.starts[0].size == 0);
    assert_memory_equal(keys.keys[0].public_key, keyring_log_key(world.keyring, 1)->public_key, sizeof keys.keys[0].public_key);
    assert_int_equal(succession_number(keys.keys[0].name, keyring_origin(world.keyring)), 2);
    log_rotation_state(world.rotation, &known);
    assert_true(!known.has_next && known.retires_s == 0);
    must(log_rotation_text(world.rotation, &text, &err), &err);
    must(log_keys_read(buffer_bytes(&text), &read, &err), &err);
    assert_true(read.count == 1);
    log_rotation_hold(world.rotation);
    must(log_rotation_sign(world.rotation, bytes_of_text("x\n8\ny\n"), 8, (int64_t)NOW_S * 1000, &note, &err), &err);
    log_rotation_release(world.rotation);
    const char *line = strstr(buffer_text(&note), "\xe2\x80\x94 ");
    assert_true(line != NULL && strstr(line + 1, "\xe2\x80\x94 ") == NULL); /* the other key signs no more */
    assert_non_null(strstr(line, keys.keys[0].name));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_WORLD(both_keys_sign_until_the_overlap_ends),
        WITH_WORLD(the_last_checkpoint_of_the_old_key_keeps_it),
        WITH_WORLD(verifiers_follow),
        WITH_WORLD(refused),
        WITH_WORLD(files_that_do_not_belong_together_are_refused),
        WITH_WORLD(an_older_file_than_the_ledger_is_refused),
        WITH_WORLD(a_folder_of_an_earlier_version_gets_the_file),
        WITH_WORLD(a_key_ring_has_a_limit_of_keys),
        WITH_WORLD(derived_keys_stay),
        WITH_WORLD(a_log_after_a_recovery_begins_with_the_newest_key),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
