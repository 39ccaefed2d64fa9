/* The register of sijil-keyd has each version of a trust rule that keyd has pinned, pins no older one again, and reads the file of an earlier keyd, which knew no rules. */
#include "tests/unit/keyd_register_fixture.h"

#define KEY_NAME "0123456789abcdefghijklmnopqrstuvwxyzABCDEFE" /* of the entry in the old file */

/* What an event brings into force. */
struct version {
    const char *scope;
    uint64_t number;
    bool is_withdrawn;
};

static enum error_kind try_version(struct world *world, enum document_kind kind, const struct version *version, uint64_t sequence)
{
    struct document rule = rule_in(version->scope);
    const struct key_register_note noted = {.document = &rule,
                                            .sequence = sequence,
                                            .is_approved = true,
                                            .before = pin_number(sequence - 1),
                                            .pin = pin_number(sequence)};
    struct error err = {0};

    rule.kind = kind;
    rule.version = version->number;
    rule.is_withdrawn = version->is_withdrawn;
    return key_register_note(world->keys, &noted, &err).ok ? ERROR_NONE : err.kind;
}

static void note_rule(struct world *world, const struct version *version, uint64_t sequence)
{
    assert_int_equal(try_version(world, DOCUMENT_TRUST_RULE, version, sequence), ERROR_NONE);
}

/* Each version has an entry, so that an order of an earlier version can be leased. Only the newest one asks for a run, and a rule may come back. */
static void the_newest_version_of_a_rule_counts(void **state)
{
    const struct document rule = rule_in("acme");
    OWNED_WORLD world;

    (void)state;
    begin(&world);
    note_rule(&world, &(struct version){"acme", 1, false}, 10);
    note_rule(&world, &(struct version){"acme/models", 1, false}, 11);
    assert_true(is_newest(&world, "acme", 10) && is_newest(&world, "acme/models", 11));
    note_rule(&world, &(struct version){"acme", 2, false}, 12);
    assert_true(!is_newest(&world, "acme", 10) && is_newest(&world, "acme", 12));
    note_rule(&world, &(struct version){"acme", 3, true}, 13);
    assert_true(!is_newest(&world, "acme", 12) && !is_newest(&world, "acme", 13));
    note_rule(&world, &(struct version){"acme", 4, false}, 14);
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

/* ---- what was replaced or withdrawn ---- */

static const struct kind_row {
    const char *name;
    enum document_kind kind;
} kind_rows[] = {
    {"a trust rule", DOCUMENT_TRUST_RULE},
    {"a sink", DOCUMENT_AUDIT_SINK},
    {"a detection rule", DOCUMENT_DETECTION_RULE},
    {"a legal hold", DOCUMENT_LEGAL_HOLD},
    {"roles of groups", DOCUMENT_GROUP_ROLES},
    {"persons", DOCUMENT_PERSONS},
    {"a SCIM service", DOCUMENT_SCIM_SERVICE},
    {"a broken glass", DOCUMENT_BREAK_GLASS},
    {"a role", DOCUMENT_OWN_ROLE},
    {"an officer", DOCUMENT_OFFICERS},
};

/* Whoever may ask for a pin has the older envelopes, too, and their signatures are as good as ever. A second withdrawal changes nothing. */
static void no_older_version_is_pinned_again(void **state)
{
    const struct kind_row *row = *state;
    static const struct step {
        struct version version;
        enum error_kind kind;
    } steps[] = {
        {{"acme", 1, false}, ERROR_NONE},   {{"acme", 1, false}, ERROR_DENIED}, {{"acme", 4, false}, ERROR_NONE},
        {{"acme", 1, false}, ERROR_DENIED}, {{"acme", 4, false}, ERROR_DENIED}, {{"acme", 3, true}, ERROR_DENIED},
        {{"acme", 5, true}, ERROR_NONE},    {{"acme", 4, false}, ERROR_DENIED}, {{"acme", 3, true}, ERROR_NONE},
        {{"acme", 5, false}, ERROR_DENIED}, {{"acme", 5, true}, ERROR_NONE},    {{"globex", 1, false}, ERROR_NONE},
        {{"acme", 6, false}, ERROR_NONE},   {{"acme", 5, true}, ERROR_DENIED},
    };
    OWNED_WORLD world;

    begin(&world);
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        const enum error_kind kind = try_version(&world, row->kind, &steps[i].version, 10 + i);
        if (kind != steps[i].kind) fail_msg("step %zu", i);
        if (kind != ERROR_NONE) continue;
        pin(&world, row->kind, 10 + i);
        assert_int_equal(open_register(&world), ERROR_NONE); /* it is in the file */
    }
    pin(&world, row->kind, 100);
    assert_int_equal(open_register(&world), ERROR_CORRUPT); /* an older register */
}

/* The name of a sink is not that of a rule. */
static void kinds_have_versions_of_their_own(void **state)
{
    OWNED_WORLD world;

    (void)state;
    begin(&world);
    assert_int_equal(try_version(&world, DOCUMENT_AUDIT_SINK, &(struct version){"acme", 9, false}, 10), ERROR_NONE);
    assert_int_equal(try_version(&world, DOCUMENT_TRUST_RULE, &(struct version){"acme", 1, false}, 11), ERROR_NONE);
    assert_int_equal(try_version(&world, DOCUMENT_LEGAL_HOLD, &(struct version){"acme", 1, true}, 12), ERROR_NONE);
    assert_true(is_newest(&world, "acme", 11));
    assert_int_equal(try_version(&world, DOCUMENT_AUDIT_SINK, &(struct version){"acme", 8, false}, 13), ERROR_DENIED);
}

/* Of the kind, and empty otherwise. */
static void set_back(struct world *world, enum document_kind kind, uint64_t size)
{
    static const struct document_pin none[DOCUMENT_KINDS_MAX];
    struct document_pin pins[DOCUMENT_KINDS_MAX] = {{.epoch = 0}};
    const struct key_register_past past = {none, pins, size};
    struct error err = {0};

    pins[document_kind(kind)->number - 1] = pin_number(11);
    assert_true(key_register_set_back(world->keys, &past, &err).ok);
    pin(world, kind, 11);
    assert_int_equal(open_register(world), ERROR_NONE);
}

/* The events from 15 on are lost. Of a rule the version before it is known. */
static void a_lost_version_is_signed_again(void **state)
{
    const struct kind_row *row = *state;
    const struct document rule = rule_in("acme");
    OWNED_WORLD world;

    begin(&world);
    assert_int_equal(try_version(&world, row->kind, &(struct version){"acme", 1, false}, 10), ERROR_NONE);
    assert_int_equal(try_version(&world, row->kind, &(struct version){"acme", 2, false}, 20), ERROR_NONE);
    assert_int_equal(try_version(&world, row->kind, &(struct version){"globex", 1, false}, 21), ERROR_NONE);
    set_back(&world, row->kind, 15);
    assert_false(is_pinned(&world, &rule, 20)); /* another event has the number now */
    if (row->kind == DOCUMENT_TRUST_RULE) {
        assert_true(is_newest(&world, "acme", 10));
        assert_int_equal(try_version(&world, row->kind, &(struct version){"acme", 1, false}, 16), ERROR_DENIED);
    }
    assert_int_equal(try_version(&world, row->kind, &(struct version){"acme", 2, false}, 17), ERROR_NONE);
    assert_int_equal(try_version(&world, row->kind, &(struct version){"globex", 1, false}, 18), ERROR_NONE);
    assert_int_equal(try_version(&world, row->kind, &(struct version){"acme", 1, false}, 19), ERROR_DENIED);
}

/* The events from 12 on are lost, also of what has one entry for all versions. */
static void a_lost_version_brings_no_older_one_back(void **state)
{
    const struct kind_row *row = *state;
    OWNED_WORLD world;

    begin(&world);
    for (uint64_t i = 1; i <= 3; i++)
        assert_int_equal(try_version(&world, row->kind, &(struct version){"acme", i, false}, 9 + i), ERROR_NONE);
    set_back(&world, row->kind, 12);
    assert_int_equal(try_version(&world, row->kind, &(struct version){"acme", 1, false}, 12), ERROR_DENIED);
    assert_int_equal(try_version(&world, row->kind, &(struct version){"acme", 2, true}, 12), ERROR_DENIED);
    assert_int_equal(try_version(&world, row->kind, &(struct version){"acme", 3, false}, 12), ERROR_NONE);
    set_back(&world, row->kind, 12); /* a second recovery, and a third one before it is signed again */
    set_back(&world, row->kind, 12);
    assert_int_equal(try_version(&world, row->kind, &(struct version){"acme", 2, false}, 13), ERROR_DENIED);
    assert_int_equal(try_version(&world, row->kind, &(struct version){"acme", 3, false}, 13), ERROR_NONE);
}

/* No gateway knows of a lost withdrawal any more, so the next one that is signed has no higher version. */
static void a_lost_withdrawal_is_signed_again(void **state)
{
    const struct kind_row *row = *state;
    const struct document rule = rule_in("acme");
    OWNED_WORLD world;

    begin(&world);
    assert_int_equal(try_version(&world, row->kind, &(struct version){"acme", 1, false}, 10), ERROR_NONE);
    assert_int_equal(try_version(&world, row->kind, &(struct version){"acme", 2, false}, 20), ERROR_NONE);
    assert_int_equal(try_version(&world, row->kind, &(struct version){"acme", 3, true}, 21), ERROR_NONE);
    set_back(&world, row->kind, 15);
    assert_false(is_pinned(&world, &rule, 20));
    assert_int_equal(try_version(&world, row->kind, &(struct version){"acme", 2, false}, 16), ERROR_DENIED);
    assert_int_equal(try_version(&world, row->kind, &(struct version){"acme", 2, true}, 17), ERROR_NONE);
    assert_int_equal(try_version(&world, row->kind, &(struct version){"acme", 3, false}, 18), ERROR_DENIED);
    assert_int_equal(try_version(&world, row->kind, &(struct version){"acme", 4, false}, 18), ERROR_NONE);
}

/* Neither a file from before the first document nor a missing one is taken for that of a new key ring. Rules are older than the file. */
static void an_empty_file_is_too_old(void **state)
{
    const struct kind_row *row = *state;
    OWNED_WORLD world;

    begin(&world);
    pin(&world, row->kind, 11);
    assert_int_equal(open_register(&world), ERROR_CORRUPT);
    assert_int_equal(unlinkat(world.folder.fd, KEY_REGISTER_FILE, 0), 0);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(open_register(&world), row->kind == DOCUMENT_TRUST_RULE ? ERROR_NONE : ERROR_CORRUPT);
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
    note_rule(&world, &(struct version){"acme", 1, false}, 12);
    pin(&world, DOCUMENT_TRUST_RULE, 12);
    assert_int_equal(open_register(&world), ERROR_NONE);
    assert_true(is_newest(&world, "acme", 12) && is_pinned(&world, &key, 10));
}

/* Version 2 knew rules, and neither organisations nor ends: its entries stay, and take nobody's share. */
enum { SECOND_HEAD = 3 * 2 * 40 + 4, SECOND_BODY = SECOND_HEAD + KEY_REGISTER_MAX * 84 };

static size_t second_size(uint8_t version)
{
    return version == 2 ? SECOND_BODY : 0;
}

static void write_second(const void *context, uint8_t *body_out)
{
    uint8_t *entry = body_out + SECOND_HEAD;

    memset(body_out, 0, SECOND_BODY);
    for (uint64_t i = 0; i < 2; i++) {
        store_u64(body_out + 40 * i, 9 + i);
        body_out[40 * i + 8] = (uint8_t)(9 + i);
    }
    store_u32(body_out + SECOND_HEAD - 4, 1);
    memcpy(entry, context, 43);
    store_u64(entry + 75, 10);
}

static void a_file_of_version_2_is_read(void **state)
{
    static const struct journal_format second = {.name = KEY_REGISTER_FILE,
                                                 .magic = "SJKR",
                                                 .version = 2,
                                                 .copy_size = (size_t)337 * 4096,
                                                 .body_size = second_size,
                                                 .write = write_second};
    const struct document key = {.kind = DOCUMENT_SIGNING_KEY, .name = KEY_NAME};
    OWNED_WORLD world;
    struct error err = {0};

    (void)state;
    begin(&world);
    key_register_free(world.keys);
    world.keys = NULL;
    assert_int_equal(unlinkat(world.folder.fd, KEY_REGISTER_FILE, 0), 0);
    assert_true(journal_create(world.folder.fd, &second, ledger_key, KEY_NAME, &err).ok);
    pin(&world, DOCUMENT_SIGNING_KEY, 10);
    assert_int_equal(open_register(&world), ERROR_NONE);
    assert_true(is_pinned(&world, &key, 10));
    note_rule(&world, &(struct version){"acme", 1, false}, 12); /* written as version 8 */
    pin(&world, DOCUMENT_TRUST_RULE, 12);
    assert_int_equal(open_register(&world), ERROR_NONE);
    assert_true(is_pinned(&world, &key, 10) && is_newest(&world, "acme", 12));
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
    note_rule(&world, &(struct version){"acme", 1, false}, 12);
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
        cmocka_unit_test(kinds_have_versions_of_their_own),
        cmocka_unit_test(an_older_file_is_read),
        cmocka_unit_test(a_file_of_version_2_is_read),
        cmocka_unit_test(rules_alone_need_no_older_file),
    };

    const int failed = RUN_TABLE(kind_rows, no_older_version_is_pinned_again) +
                       RUN_TABLE(kind_rows, a_lost_version_is_signed_again) +
                       RUN_TABLE(kind_rows, a_lost_withdrawal_is_signed_again) + RUN_TABLE(kind_rows, an_empty_file_is_too_old) +
                       RUN_TABLE(kind_rows, a_lost_version_brings_no_older_one_back);

    return failed + cmocka_run_group_tests_name("others", tests, NULL, NULL);
}
