/* A log that goes on under a new origin: who must sign, what must fit the ledger of sijil-keyd, and what changes then. */
#include "tests/unit/keyd_recovery_fixture.h"

static void two_persons_must_sign(void **state)
{
    static const struct {
        const char *name;
        enum signer by[2];
        enum error_kind kind;
    } rows[] = {
        {"the root twice", {ROOT, ROOT}, ERROR_DENIED},        {"one person with two keys", {ALICE, ALICE_AGAIN}, ERROR_DENIED},
        {"a stranger", {ROOT, STRANGER}, ERROR_DENIED},        {"an expired approver", {ROOT, EXPIRED}, ERROR_DENIED},
        {"a revoked approver", {BOB, REVOKED}, ERROR_DENIED},  {"the root and its holder", {ROOT, ALICE}, ERROR_DENIED},
        {"the root and an approver", {ROOT, BOB}, ERROR_NONE}, {"its holder's other key", {ROOT, ALICE_AGAIN}, ERROR_DENIED},
        {"two approvers", {BOB, ALICE_AGAIN}, ERROR_NONE},
    };
    struct error err = {0};

    (void)state;
    holder = ALICE;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct succession wanted = fresh();
        (void)new_log(NULL);
        (void)ask(&wanted, rows[i].by, &err).ok;
        if (err.kind != rows[i].kind) fail_msg("%s: %s", rows[i].name, err.kind == ERROR_NONE ? "accepted" : err.message);
    }
    holder = ROOT;
}

/* Only a keyd that was started so lets one administrator do it, and then it is the root, and the statement says so. */
static void one_officer_is_enough_where_keyd_says_so(void **state)
{
    static const struct {
        const char *name;
        bool one_officer;
        unsigned officers;
        enum signer by[2];
        enum error_kind kind;
    } rows[] = {
        {"the root, elsewhere", false, 1, {ROOT, ROOT}, ERROR_DENIED},
        {"two, for one, elsewhere", false, 1, {ROOT, ALICE}, ERROR_DENIED},
        {"an approver", true, 1, {ALICE, ALICE}, ERROR_DENIED},
        {"two approvers for one", true, 1, {ALICE, BOB}, ERROR_DENIED},
        {"a stranger", true, 1, {STRANGER, STRANGER}, ERROR_DENIED},
        {"the root alone for two", true, 2, {ROOT, ROOT}, ERROR_DENIED},
        {"the root", true, 1, {ROOT, ROOT}, ERROR_NONE},
        {"two", true, 2, {ROOT, ALICE}, ERROR_NONE},
    };
    struct error err = {0};

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct succession wanted = fresh();
        (void)new_log(NULL);
        wanted.officers = rows[i].officers;
        one_officer = rows[i].one_officer;
        (void)ask(&wanted, rows[i].by, &err).ok;
        if (err.kind != rows[i].kind) fail_msg("%s: %s", rows[i].name, err.kind == ERROR_NONE ? "accepted" : err.message);
    }
    one_officer = false;
}

static void it_is_for_one_state_of_one_log(void **state)
{
    static const enum signer by[2] = {ROOT, ALICE};
    struct succession wanted = fresh();
    struct error err = {0};

    (void)state;
    wanted.before.size = SIZE - 1;
    assert_false(ask(&wanted, by, &err).ok);
    assert_int_equal(err.kind, ERROR_CONFLICT);
    wanted = fresh();
    wanted.before.root.bytes[0] ^= 1;
    assert_false(ask(&wanted, by, &err).ok);
    assert_int_equal(err.kind, ERROR_CONFLICT);
    wanted = fresh();
    (void)snprintf(wanted.before.origin, sizeof wanted.before.origin, "%s/2", REGISTRY);
    (void)snprintf(wanted.after.origin, sizeof wanted.after.origin, "%s/3", REGISTRY);
    assert_false(ask(&wanted, by, &err).ok);
    assert_int_equal(err.kind, ERROR_CONFLICT);
    wanted = fresh();
    (void)snprintf(wanted.registry, sizeof wanted.registry, "y.example/log");
    (void)snprintf(wanted.before.origin, sizeof wanted.before.origin, "y.example/log");
    (void)snprintf(wanted.after.origin, sizeof wanted.after.origin, "y.example/log/2");
    assert_false(ask(&wanted, by, &err).ok);
    assert_int_equal(err.kind, ERROR_DENIED);
}

/* Signed by the log key, over another state. */
static void sign_note(uint64_t size, uint8_t root, struct buffer *note)
{
    struct checkpoint_request request = {.size = size};
    struct error err = {0};

    memset(request.root, root, sizeof request.root);
    const struct checkpoint_signer by = signer_of_log();
    must(checkpoint_compose(&by, 1, &request, NOW_MS, note, &err), &err);
}

static void it_has_the_newest_checkpoint(void **state)
{
    static const enum signer by[2] = {ROOT, ALICE};
    static const struct {
        uint64_t size;
        uint8_t root;
        enum error_kind kind;
    } rows[] = {{SIZE - 1, 7, ERROR_DENIED}, {SIZE, 6, ERROR_DENIED}, {SIZE, 7, ERROR_NONE}, {SIZE + 1, 9, ERROR_NONE}};
    struct error err = {0};

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct buffer OWNED_BUFFER note = BUFFER(KEYD_NOTE_MAX);
        struct succession wanted = fresh();
        (void)new_log(NULL);
        sign_note(rows[i].size, rows[i].root, &note);
        wanted.checkpoint = buffer_bytes(&note);
        (void)ask_as(&wanted, by, &err).ok;
        if (err.kind != rows[i].kind) fail_msg("row %zu: %s", i, err.kind == ERROR_NONE ? "accepted" : err.message);
    }
    struct succession wanted = fresh();
    (void)new_log(NULL);
    wanted.checkpoint = bytes_of_text(REGISTRY "\n9\nXcnaeacGWamtVZy3Ad7ZoqudgjqtL0lgz+Nw7/RgQyg=\n\nno signature\n");
    assert_false(ask_as(&wanted, by, &err).ok);
}

static void signs(uint64_t old_size, uint64_t size, uint8_t root, enum error_kind kind, struct buffer *note)
{
    struct checkpoint_request request = {.old_size = old_size, .size = size, .now_s = NOW_MS / 1000};
    struct error err = {0};

    memset(request.root, root, sizeof request.root);
    const struct checkpoint_signer by = signer_of_log();
    (void)checkpoint_sign(&by, &request, NOW_MS, note, &err).ok;
    if (err.kind != kind) fail_msg("size %u: %s", (unsigned)size, err.kind == ERROR_NONE ? "signed" : err.message);
}

static void then_the_log_goes_on_from_there(void **state)
{
    static const enum signer by[2] = {ROOT, ALICE};
    struct buffer OWNED_BUFFER note = BUFFER(KEYD_NOTE_MAX);
    struct succession wanted = fresh(), again;
    struct ledger_state now;
    struct error err = {0};

    (void)state;
    signs(SIZE, SIZE, 7, ERROR_FORKED, &note); /* the finding */
    signs(SIZE, LEFT, 5, ERROR_FORKED, &note);
    must(ask(&wanted, by, &err), &err);
    ledger_read(ledger, &now);
    assert_true(now.log_number == 2 && now.log_size == LEFT && now.log_root[31] == 5 && now.finding[0] == '\0');
    assert_true(now.pins[0].epoch == 3 && now.pins[1].epoch == 5 && now.pins[1].digest[0] == 2 && now.pins[2].epoch == 0);
    assert_true(now.asked[1] == LEFT && now.asked[2] == LEFT);
    signs(LEFT, LEFT, 5, ERROR_NONE, &note);
    assert_non_null(strstr(buffer_text(&note), REGISTRY "/2\n7\n"));
    assert_non_null(strstr(buffer_text(&note), "\xe2\x80\x94 " REGISTRY "/2 "));
    signs(SIZE, SIZE, 7, ERROR_CONFLICT, &note); /* the log that ended is never signed again */

    again = fresh();
    struct buffer OWNED_BUFFER old = BUFFER(KEYD_NOTE_MAX);
    sign_note(SIZE, 7, &old);
    again.checkpoint = buffer_bytes(&old);
    must(ask_as(&again, by, &err), &err); /* as after a crash of the one that asked */
    ledger_read(ledger, &now);
    assert_int_equal(now.log_number, 2);
    again.after.size = LEFT - 1;
    assert_false(ask_as(&again, by, &err).ok);
    assert_int_equal(err.kind, ERROR_CONFLICT);
}

static struct result pin_left(const void *context, struct ledger_state *state, struct error *err)
{
    (void)context, (void)err;
    state->pins[2] = (struct document_pin){.epoch = LEFT - 1, .digest = {1}};
    return SUCCESS;
}

/* The third kind is pinned by an event that is left, the others by one that is lost. */
static void pins_are_those_of_the_entries_that_are_left(void **state)
{
    static const enum signer by[2] = {ROOT, ALICE};
    static const struct {
        const char *name;
        size_t kind;
        struct document_pin pin;
        enum error_kind error;
    } rows[] = {
        {"a lost event", 1, {LEFT, {2}}, ERROR_DENIED},       {"an event that comes", 1, {100, {2}}, ERROR_DENIED},
        {"an older event", 1, {4, {2}}, ERROR_NONE},          {"none", 1, {0, {0}}, ERROR_NONE},
        {"another digest", 2, {LEFT - 1, {2}}, ERROR_DENIED}, {"older than what is left", 2, {3, {2}}, ERROR_DENIED},
        {"the same", 2, {LEFT - 1, {1}}, ERROR_NONE},         {"a later policy set", 0, {9, {2}}, ERROR_DENIED},
        {"another policy set", 0, {8, {2}}, ERROR_DENIED},    {"the same policy set", 0, {8, {1}}, ERROR_NONE},
        {"an earlier policy set", 0, {3, {2}}, ERROR_NONE},
    };
    struct error err = {0};

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct succession wanted = fresh();
        (void)new_log(NULL);
        must(ledger_change(ledger, pin_left, NULL, &err), &err);
        wanted.pins[2] = (struct document_pin){.epoch = LEFT - 1, .digest = {1}};
        wanted.pins[rows[i].kind] = rows[i].pin;
        (void)ask(&wanted, by, &err).ok;
        if (err.kind != rows[i].error) fail_msg("%s: %s", rows[i].name, err.kind == ERROR_NONE ? "accepted" : err.message);
    }
}

/* The policy set says how many persons the root is, and so many end a log. */
static void as_many_sign_as_the_root_is(void **state)
{
    static const enum signer two[2] = {ROOT, BOB};
    struct succession wanted = fresh();
    struct error err = {0};

    (void)state;
    persons = 3;
    must(ledger_change(ledger, begin_log, NULL, &err), &err);
    assert_false(ask(&wanted, two, &err).ok);
    assert_int_equal(err.kind, ERROR_DENIED);
    wanted = fresh();
    wanted.officers = 3;
    assert_false(ask(&wanted, two, &err).ok); /* it says so, and two have signed */
    third = ALICE;
    wanted = fresh();
    assert_false(ask(&wanted, two, &err).ok); /* a verifier would be content with two */
    assert_non_null(strstr(err.message, "the root is 3 persons"));
    err = (struct error){0};
    wanted = fresh();
    wanted.officers = 3;
    must(ask(&wanted, two, &err), &err);
    persons = 0;
    third = ROOT;
}

static void it_outlives_a_start(void **state)
{
    static const enum signer by[2] = {ROOT, BOB};
    struct succession wanted = fresh();
    struct ledger_state now;
    struct error err = {0};

    (void)state;
    must(ask(&wanted, by, &err), &err);
    key_register_free(keys);
    replacements_free(replacements);
    ledger_free(ledger);
    must(ledger_open(folder.fd, keyring_ledger_key(keyring), &ledger, &err), &err);
    must(log_rotation_use(rotation, ledger, &err), &err);
    must(key_register_open(folder.fd, keyring_ledger_key(keyring), ledger, &keys, &err), &err); /* their pins belong together */
    must(replacements_open(folder.fd, keyring_ledger_key(keyring), ledger, &replacements, &err), &err);
    ledger_read(ledger, &now);
    assert_true(now.log_number == 2 && now.log_size == LEFT);
}

static void a_pinned_quorum_must_have_cosigned(void **state)
{
    static const enum signer by[2] = {ROOT, ALICE};
    struct succession wanted = fresh();
    OWNED(quorum) *quorum = NULL;
    struct error err = {0};

    (void)state;
    must(quorum_new(QUORUM_PATIENCE_S, &quorum, &err), &err);
    const struct quorum_place at = {quorum, rotation, ledger};
    const struct keyd_witness_policy policy = {.policy = bytes_of_text("quorum none\n")};
    must(quorum_pin(&at, &policy, &err), &err);
    assert_false(ask(&wanted, by, &err).ok); /* without the policy nobody can tell */
    assert_int_equal(err.kind, ERROR_DENIED);
    assert_non_null(strstr(err.message, "policy of witnesses"));
}

static void open_files(void)
{
    struct error err = {0};

    must(keyring_open(folder.fd, bytes_of_text("unit"), &keyring, &err), &err);
    must(ledger_open(folder.fd, keyring_ledger_key(keyring), &ledger, &err), &err);
    must(key_register_open(folder.fd, keyring_ledger_key(keyring), ledger, &keys, &err), &err);
    must(replacements_open(folder.fd, keyring_ledger_key(keyring), ledger, &replacements, &err), &err);
    must(log_rotation_open(folder.fd, keyring, &rotation, &err), &err);
    must(log_rotation_use(rotation, ledger, &err), &err);
}

static void close_files(void)
{
    key_register_free(keys);
    replacements_free(replacements);
    log_rotation_free(rotation);
    ledger_free(ledger);
    keyring_free(keyring);
}

/* Somebody who has the statement alone learns the key from it. So it is that of the log, also in a statement that was taken already. */
static void it_names_the_key_of_the_new_log(void **state)
{
    static const enum signer by[2] = {ROOT, ALICE};
    struct buffer OWNED_BUFFER note = BUFFER(KEYD_NOTE_MAX);
    struct succession wanted = fresh();
    struct error err = {0};

    (void)state;
    close_files();
    must(keyring_add_log_key(folder.fd, bytes_of_text("unit"), &err), &err);
    open_files();
    sign_note(SIZE, 7, &note);
    wanted.checkpoint = buffer_bytes(&note);
    for (size_t taken = 0; taken < 2; taken++) {
        stated_key = 1; /* in the key ring, and does not count */
        assert_false(ask_as(&wanted, by, &err).ok);
        assert_int_equal(err.kind, ERROR_CONFLICT);
        assert_non_null(strstr(err.message, "Make another plan"));
        stated_key = 0;
        must(ask_as(&wanted, by, &err), &err);
    }
}

static void open_all(void)
{
    const struct keyring_options options = {
        .origin = REGISTRY, .passphrase = bytes_of_text("unit"), .cost = {.passes = 1, .memory_kib = 64}};
    uint8_t point[ECDSA_PUBLIC_SIZE];
    struct error err = {0};

    folder_make(&folder);
    must(keyring_create(folder.fd, &options, ledger_create, &err), &err);
    open_files();
    for (size_t i = 0; i < SIGNER_COUNT; i++) must(ecdsa_key_new(&signers[i], &err), &err);
    ecdsa_key_public(signers[ROOT], point);
    must(approver_pin(ledger, point, &err), &err);
}

static void close_all(void)
{
    for (size_t i = 0; i < SIGNER_COUNT; i++) ecdsa_key_free(signers[i]);
    close_files();
    folder_remove(&folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(two_persons_must_sign, new_log),
        cmocka_unit_test_setup(one_officer_is_enough_where_keyd_says_so, new_log),
        cmocka_unit_test_setup(it_is_for_one_state_of_one_log, new_log),
        cmocka_unit_test_setup(it_has_the_newest_checkpoint, new_log),
        cmocka_unit_test_setup(then_the_log_goes_on_from_there, new_log),
        cmocka_unit_test_setup(pins_are_those_of_the_entries_that_are_left, new_log),
        cmocka_unit_test_setup(as_many_sign_as_the_root_is, new_log),
        cmocka_unit_test_setup(it_outlives_a_start, new_log),
        cmocka_unit_test_setup(it_names_the_key_of_the_new_log, new_log),
        cmocka_unit_test_setup(a_pinned_quorum_must_have_cosigned, new_log),
    };

    open_all();
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    close_all();
    return failed;
}
