/* The keys of the log in sijil-keyd after a recovery: file and ledger belong together, and another log begins with the newest key. */
#include "tests/unit/keyd_rotation_fixture.h"

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

/* ---- the ledger is from before a recovery ---- */

static struct result first_log(const void *context, struct ledger_state *state, struct error *err)
{
    (void)context, (void)err;
    state->log_number = 1;
    return SUCCESS;
}

static struct result second_log(const void *context, struct ledger_state *state, struct error *err)
{
    (void)context, (void)err;
    state->log_number = 2;
    return SUCCESS;
}

/* Else keyd would hand the first log over to the new key, with the size and the root of the second one. */
static void set_back(void)
{
    struct error err = {0};

    must(log_rotation_use(world.rotation, world.ledger, &err), &err);
    must(ledger_change(world.ledger, first_log, NULL, &err), &err);
    open_ring();
    assert_false(log_rotation_use(world.rotation, world.ledger, &err).ok);
    assert_int_equal(err.kind, ERROR_CORRUPT);
    assert_non_null(strstr(err.message, "before a recovery"));
    must(ledger_change(world.ledger, second_log, NULL, &err), &err); /* the newest copy of both */
    must(log_rotation_use(world.rotation, world.ledger, &err), &err);
}

static void an_older_ledger_than_the_file_is_refused(void **state)
{
    struct error err = {0};

    (void)state;
    (void)signers_at(0, 8, NOW_S);
    add_key();
    must(ledger_change(world.ledger, second_log, NULL, &err), &err);
    must(order(0, 1, NOW_S, &err), &err);
    set_back();
}

enum { FIRST_FILE_BODY = 1 + KEYRING_FURTHER_MAX * 48 };

static size_t first_file_size(uint8_t version)
{
    return version == 1 ? FIRST_FILE_BODY : 0;
}

static void write_first_file(const void *context, uint8_t *body_out)
{
    (void)context;
    memset(body_out, 0, FIRST_FILE_BODY);
    body_out[0] = 1;
    store_u64(body_out + 1, 8);
    store_u64(body_out + 1 + 40, NOW_S);
}

/* It does not say in which log a key followed. Once keyd has started with the ledger that belongs to it, it does. */
static void a_file_of_version_1_is_named(void **state)
{
    static const struct journal_format first = {.name = LOG_ROTATION_FILE,
                                                .magic = "SJLK",
                                                .version = 1,
                                                .copy_size = 4096,
                                                .body_size = first_file_size,
                                                .write = write_first_file};
    struct log_keys keys;
    struct error err = {0};

    (void)state;
    (void)signers_at(0, 8, NOW_S);
    add_key();
    must(ledger_change(world.ledger, second_log, NULL, &err), &err);
    assert_int_equal(unlinkat(world.folder.fd, LOG_ROTATION_FILE, 0), 0);
    must(journal_create(world.folder.fd, &first, keyring_ledger_key(world.keyring), NULL, &err), &err);
    open_ring();
    must(log_rotation_use(world.rotation, world.ledger, &err), &err);
    log_rotation_keys(world.rotation, &keys);
    assert_true(keys.count == 2 && keys.starts[1].size == 8);
    set_back();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_WORLD(an_older_file_than_the_ledger_is_refused),
        WITH_WORLD(an_older_ledger_than_the_file_is_refused),
        WITH_WORLD(a_file_of_version_1_is_named),
        WITH_WORLD(a_log_after_a_recovery_begins_with_the_newest_key),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
