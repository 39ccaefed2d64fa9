/* The keys of the log in sijil-keyd: the root alone orders a new one, and no checkpoint behind it is made by the old one alone. */
#include "tests/unit/keyd_rotation_fixture.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_WORLD(both_keys_sign_until_the_overlap_ends),
        WITH_WORLD(the_last_checkpoint_of_the_old_key_keeps_it),
        WITH_WORLD(verifiers_follow),
        WITH_WORLD(refused),
        WITH_WORLD(files_that_do_not_belong_together_are_refused),
        WITH_WORLD(a_folder_of_an_earlier_version_gets_the_file),
        WITH_WORLD(a_key_ring_has_a_limit_of_keys),
        WITH_WORLD(derived_keys_stay),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
