/* The register of sijil-keyd has each version of a trust rule that keyd has pinned, and reads the file of an earlier keyd, which knew no rules. */
#include "tests/unit/keyd_folder_fixture.h"

#include <stdio.h>
#include <string.h>

#include "crypto/digest.h"
#include "keyd/key_register.h"

#define KEY_NAME "0123456789abcdefghijklmnopqrstuvwxyzABCDEFG" /* of the entry in the old file */

static const uint8_t ledger_key[LEDGER_KEY_SIZE] = {7};

struct world {
    struct folder folder;
    struct ledger *ledger;
    struct key_register *keys;
};

static enum error_kind open_register(struct world *world)
{
    struct error err = {0};

    key_register_free(world->keys);
    world->keys = NULL;
    return key_register_open(world->folder.fd, ledger_key, world->ledger, &world->keys, &err).ok ? ERROR_NONE : err.kind;
}

static void begin(struct world *world)
{
    struct error err = {0};

    *world = (struct world){.keys = NULL};
    folder_make(&world->folder);
    assert_true(ledger_create(world->folder.fd, ledger_key, &err).ok);
    assert_true(key_register_create(world->folder.fd, ledger_key, &err).ok);
    assert_true(ledger_open(world->folder.fd, ledger_key, &world->ledger, &err).ok);
    assert_int_equal(open_register(world), ERROR_NONE);
}

static void release(struct world *world)
{
    key_register_free(world->keys);
    ledger_free(world->ledger);
    folder_remove(&world->folder);
}
#define OWNED_WORLD __attribute__((cleanup(release))) struct world

/* ---- pins ---- */

static struct document_pin pin_number(uint64_t sequence)
{
    return (struct document_pin){.epoch = sequence, .digest = {(uint8_t)sequence}};
}

struct set_pin {
    enum document_kind kind;
    uint64_t sequence;
};

static struct result change_pin(const void *context, struct ledger_state *state, struct error *err)
{
    const struct set_pin *set = context;

    (void)err;
    state->pins[document_kind(set->kind)->number - 1] = pin_number(set->sequence);
    return SUCCESS;
}

static void pin(struct world *world, enum document_kind kind, uint64_t sequence)
{
    const struct set_pin set = {kind, sequence};
    struct error err = {0};

    assert_true(ledger_change(world->ledger, change_pin, &set, &err).ok);
}

/* ---- versions ---- */

static struct document rule_in(const char *scope)
{
    struct document rule = {.kind = DOCUMENT_TRUST_RULE, .name = "gh-train"};

    (void)snprintf(rule.scope, sizeof rule.scope, "%s", scope);
    return rule;
}

static void note_rule(struct world *world, const char *scope, bool is_withdrawn, uint64_t sequence)
{
    struct document rule = rule_in(scope);
    const struct key_register_note noted = {.document = &rule,
                                            .sequence = sequence,
                                            .is_approved = true,
                                            .before = pin_number(sequence - 1),
                                            .pin = pin_number(sequence)};
    struct error err = {0};

    rule.is_withdrawn = is_withdrawn;
    if (!key_register_note(world->keys, &noted, &err).ok) fail_msg("%s", err.message);
}

static bool is_newest(struct world *world, const char *scope, uint64_t sequence)
{
    const struct document rule = rule_in(scope);
    struct error err = {0};

    const bool is_it = key_register_check_newest(world->keys, &rule, sequence, &err).ok;
    if (!is_it) assert_int_equal(err.kind, ERROR_DENIED);
    return is_it;
}

static bool is_pinned(struct world *world, const struct document *document, uint64_t sequence)
{
    struct error err = {0};

    return key_register_check_enrolment(world->keys, document, sequence, &err).ok;
}

/* Each version has an entry, so that an order of an earlier version can be leased. Only the newest one asks for a run, and a rule may come back. */
static void the_newest_version_of_a_rule_counts(void **state)
{
    const struct document rule = rule_in("acme");
    OWNED_WORLD world;

    (void)state;
    begin(&world);
    note_rule(&world, "acme", false, 10);
    note_rule(&world, "acme/models", false, 11);
    assert_true(is_newest(&world, "acme", 10) && is_newest(&world, "acme/models", 11));
    note_rule(&world, "acme", false, 12);
    assert_true(!is_newest(&world, "acme", 10) && is_newest(&world, "acme", 12));
    note_rule(&world, "acme", true, 13);
    assert_true(!is_newest(&world, "acme", 12) && !is_newest(&world, "acme", 13));
    note_rule(&world, "acme", false, 14);
    pin(&world, DOCUMENT_TRUST_RULE, 14);
    for (unsigned i = 0; i < 2; i++) {
        assert_true(is_newest(&world, "acme", 14) && is_newest(&world, "acme/models", 11));
        assert_true(!is_newest(&world, "acme", 12) && !is_newest(&world, "globex", 10));
        assert_true(is_pinned(&world, &rule, 10) && is_pinned(&world, &rule, 12) && is_pinned(&world, &rule, 14));
        assert_false(is_pinned(&world, &rule, 11));
        assert_int_equal(open_register(&world), ERROR_NONE); /* and after a restart */
    }
    pin(&world, DOCUMENT_TRUST_RULE, 16);
    assert_int_equal(open_register(&world), ERROR_CORRUPT); /* an older register */
}

/* ---- a file of version 1 ---- */

/* As keyd wrote it before it kept rules: two pins of two kinds, and one key. */
enum { FIRST_HEAD = 2 * 2 * 40 + 4, FIRST_BODY = FIRST_HEAD + KEY_REGISTER_MAX * 84 };

static size_t first_size(uint8_t version)
{
    return version == 1 ? FIRST_BODY : 0;
}

static void write_first(const void *context, uint8_t *body_out)
{
    uint8_t *entry = body_out + FIRST_HEAD;

    memset(body_out, 0, FIRST_BODY);
    store_u64(body_out, 9);
    body_out[8] = 9;
    store_u64(body_out + 40, 10);
    body_out[48] = 10;
    store_u32(body_out + FIRST_HEAD - 4, 1);
    memcpy(entry, context, 43);
    store_u64(entry + 75, 10);
}

/* A rule that was pinned before the upgrade is not known: it asks for runs after its next version. The keys stay. */
static void an_older_file_is_read(void **state)
{
    static const struct journal_format first = {.name = KEY_REGISTER_FILE,
                                                .magic = "SJKR",
                                                .version = 1,
                                                .copy_size = (size_t)337 * 4096,
                                                .body_size = first_size,
                                                .write = write_first};
    const struct document key = {.kind = DOCUMENT_SIGNING_KEY, .name = KEY_NAME};
    OWNED_WORLD world;
    struct error err = {0};

    (void)state;
    begin(&world);
    key_register_free(world.keys);
    world.keys = NULL;
    assert_int_equal(unlinkat(world.folder.fd, KEY_REGISTER_FILE, 0), 0);
    assert_true(journal_create(world.folder.fd, &first, ledger_key, KEY_NAME, &err).ok);
    pin(&world, DOCUMENT_SIGNING_KEY, 10);
    pin(&world, DOCUMENT_TRUST_RULE, 11);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(open_register(&world), ERROR_NONE);
        assert_true(is_pinned(&world, &key, 10) && key_register_check(world.keys, KEY_NAME, &err).ok);
        assert_false(is_newest(&world, "acme", 11));
    }
    note_rule(&world, "acme", false, 12);
    pin(&world, DOCUMENT_TRUST_RULE, 12);
    assert_int_equal(open_register(&world), ERROR_NONE);
    assert_true(is_newest(&world, "acme", 12) && is_pinned(&world, &key, 10));
}

/* A keyd from before the register may have pinned rules, and no key yet: it starts, and no rule of then asks for a run. */
static void rules_alone_need_no_older_file(void **state)
{
    OWNED_WORLD world;

    (void)state;
    begin(&world);
    key_register_free(world.keys);
    world.keys = NULL;
    assert_int_equal(unlinkat(world.folder.fd, KEY_REGISTER_FILE, 0), 0);
    pin(&world, DOCUMENT_TRUST_RULE, 11);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(open_register(&world), ERROR_NONE);
        assert_false(is_newest(&world, "acme", 11));
    }
    note_rule(&world, "acme", false, 12);
    pin(&world, DOCUMENT_TRUST_RULE, 12);
    assert_int_equal(open_register(&world), ERROR_NONE);
    assert_true(is_newest(&world, "acme", 12));
    key_register_free(world.keys);
    world.keys = NULL;
    assert_int_equal(unlinkat(world.folder.fd, KEY_REGISTER_FILE, 0), 0);
    pin(&world, DOCUMENT_SIGNING_KEY, 13); /* a key must not be forgotten */
    assert_int_equal(open_register(&world), ERROR_CORRUPT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_newest_version_of_a_rule_counts),
        cmocka_unit_test(an_older_file_is_read),
        cmocka_unit_test(rules_alone_need_no_older_file),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
