/* No organisation takes all places of the register of sijil-keyd, and what has ended makes room. */
#include "tests/unit/keyd_register_fixture.h"

#include "base/fault.h"
#include "base/text.h"
#include "keyd/key_register_room.h"

/* A file of version 3 as keyd wrote it: `count` enrolments of other keys in acme, then two versions of a rule of acme. Before them those of other organisations. */
#define GREEDY_MAX 100
struct filling {
    uint32_t count, end_hours, withdrawn; /* withdrawn: so many of them were */
    uint32_t greedy[GREEDY_MAX];          /* enrolments of "greedy0", "greedy1" and so on */
    uint32_t rule_hours[2];               /* the ends of both versions of the rule; 0: there are none */
};
enum { THIRD_HEAD = 3 * 2 * 40 + 4, THIRD_ENTRY = 83, THIRD_BODY = THIRD_HEAD + KEY_REGISTER_MAX * THIRD_ENTRY };
#define NOW_MS  INT64_C(1795000000000)
#define HOUR_MS INT64_C(3600000)

static size_t third_size(uint8_t version)
{
    return version == 3 ? THIRD_BODY : 0;
}

static void write_of(uint8_t *entry, const char *organisation_name, const uint8_t name[32], uint64_t sequence)
{
    uint8_t organisation[32];

    sha256_of(bytes_of_text(organisation_name), organisation);
    memcpy(entry, name, 32);
    store_u64(entry + 64, sequence);
    memcpy(entry + 73, organisation, 6);
    store_u32(entry + 79, UINT32_MAX);
}

static void write_filled(uint8_t *entry, const uint8_t name[32], uint64_t sequence, bool is_withdrawn, uint32_t end_hours)
{
    write_of(entry, "acme", name, sequence);
    entry[72] = is_withdrawn;
    store_u32(entry + 79, end_hours);
}

static uint8_t *write_greedy(const struct filling *filling, uint8_t *at, uint32_t *count)
{
    uint8_t name[32] = {1};
    char who[20]; /* "greedy" and a number */

    for (size_t i = 0; i < GREEDY_MAX; i++) {
        (void)snprintf(who, sizeof who, "greedy%zu", i);
        for (uint32_t n = 0; n < filling->greedy[i]; n++, at += THIRD_ENTRY) {
            store_u32(name + 4, ++*count);
            write_of(at, who, name, 100000 + *count);
        }
    }
    return at;
}

static void write_filling(const void *context, uint8_t *body_out)
{
    const struct filling *filling = context;
    uint8_t *at = body_out + THIRD_HEAD, name[32] = {0};
    uint32_t count = 0;

    memset(body_out, 0, THIRD_BODY);
    at = write_greedy(filling, at, &count);
    count += filling->count;
    for (uint32_t i = 0; i < filling->count; i++, at += THIRD_ENTRY) {
        store_u32(name, i + 1);
        write_filled(at, name, 100 + i, i < filling->withdrawn, filling->end_hours);
    }
    sha256_of(bytes_of_text("rule:acme:gh-train"), name);
    for (size_t i = 0; i < 2 && filling->rule_hours[i] != 0; i++, at += THIRD_ENTRY, count++)
        write_filled(at, name, 50000 + i, false, filling->rule_hours[i]);
    store_u32(body_out + THIRD_HEAD - 4, count);
}

static void begin_filled(struct world *world, const struct filling *filling)
{
    static const struct journal_format third = {.name = KEY_REGISTER_FILE,
                                                .magic = "SJKR",
                                                .version = 3,
                                                .copy_size = (size_t)337 * 4096,
                                                .body_size = third_size,
                                                .write = write_filling};
    struct error err = {0};

    begin(world);
    key_register_free(world->keys);
    world->keys = NULL;
    assert_int_equal(unlinkat(world->folder.fd, KEY_REGISTER_FILE, 0), 0);
    assert_true(journal_create(world->folder.fd, &third, ledger_key, filling, &err).ok);
    assert_int_equal(open_register(world), ERROR_NONE);
}

static enum error_kind notes_at(struct world *world, const struct document *rule, uint64_t sequence, int64_t now_ms)
{
    const struct key_register_note noted = {.document = rule,
                                            .sequence = sequence,
                                            .now_ms = now_ms,
                                            .is_approved = true,
                                            .before = pin_number(sequence - 1),
                                            .pin = pin_number(sequence)};
    struct error err = {0};

    return key_register_note(world->keys, &noted, &err).ok ? ERROR_NONE : err.kind;
}

static struct document rule_called(const char *scope, const char *name)
{
    struct document rule = rule_in(scope);

    (void)snprintf(rule.name, sizeof rule.name, "%s", name);
    rule.version = 1;
    rule.expires_ms = NOW_MS + 24 * HOUR_MS;
    return rule;
}

/* Another rule of this scope, whose pin is the next one. */
static enum error_kind notes(struct world *world, const char *scope, const char *name, uint64_t sequence)
{
    const struct document rule = rule_called(scope, name);

    return notes_at(world, &rule, sequence, NOW_MS);
}

#define ALONE 4224 /* places of an organisation if no other one has any */

static void an_organisation_takes_no_more_than_it_leaves(void **state)
{
    const struct filling filling = {.count = ALONE - 1, .end_hours = UINT32_MAX};
    OWNED_WORLD world;

    (void)state;
    begin_filled(&world, &filling);
    assert_int_equal(notes(&world, "acme/models", "one", 10), ERROR_NONE); /* a project takes from its organisation */
    assert_int_equal(notes(&world, "acme", "two", 11), ERROR_LIMIT);
    assert_int_equal(notes(&world, "acme/models", "three", 11), ERROR_LIMIT);
    assert_int_equal(notes(&world, "globex", "one", 11), ERROR_NONE);
    assert_int_equal(notes(&world, "", "one", 12), ERROR_NONE);
    pin(&world, DOCUMENT_TRUST_RULE, 12);
    assert_int_equal(open_register(&world), ERROR_NONE); /* and after a restart */
    assert_int_equal(notes(&world, "acme", "two", 13), ERROR_LIMIT);
    assert_int_equal(notes(&world, "initech", "one", 13), ERROR_NONE);
}

/* Takes all places that this organisation may have. Each one is dearer than the one before, so the last one is found by halving. */
static uint32_t take_all(struct key_register_state *state, uint64_t organisation)
{
    const uint32_t before = state->count;
    uint32_t most = KEY_REGISTER_MAX - before, least = 0;

    for (uint32_t i = before; i < KEY_REGISTER_MAX; i++) state->entries[i].organisation = organisation;
    while (least < most) {
        const uint32_t place = (least + most + 1) / 2;
        state->count = before + place - 1;
        if (key_register_has_room(state, organisation)) least = place;
        else most = place - 1;
    }
    state->count = before + least;
    return least;
}

/* As if each of these had taken all that it may, one after the other; the number that a new one gets then. */
static uint32_t fill_greedily(size_t organisations, struct filling *filling)
{
    struct key_register_state *state = test_calloc(1, sizeof *state);

    for (size_t i = 0; i < organisations; i++) filling->greedy[i] = take_all(state, i + 1);
    const uint32_t modest = take_all(state, organisations + 1);
    assert_true(key_register_has_room(state, 0)); /* the registry's own */
    test_free(state);
    return modest;
}

static const struct greedy_case {
    const char *name;
    size_t greedy;
    uint32_t modest; /* places of one that comes after them */
} greedy_cases[] = {
    {"nobody else", 0, ALONE},  {"5 greedy ones", 5, 248},  {"20 greedy ones", 20, 156},
    {"50 greedy ones", 50, 62}, {"80 greedy ones", 80, 25}, {"100 greedy ones", 100, 13},
};

static void a_modest_organisation_gets_its_share(void **state)
{
    const struct greedy_case *row = *state;
    struct filling filling = {.count = 0};
    OWNED_WORLD world;

    assert_int_equal(fill_greedily(row->greedy, &filling), row->modest);
    begin_filled(&world, &filling);
    for (uint64_t i = 0; i < 3; i++) {
        char name[8]; /* a digit */
        (void)snprintf(name, sizeof name, "rule%d", (int)i);
        assert_int_equal(notes(&world, "modest", name, 10 + i), ERROR_NONE);
    }
    if (row->greedy > 0) assert_int_equal(notes(&world, "greedy0", "one more", 13), ERROR_LIMIT);
    assert_int_equal(notes(&world, "", "of the registry", 13), ERROR_NONE);
}

static bool is_known(struct world *world, uint32_t number, bool *withdrawn_out)
{
    struct buffer OWNED_BUFFER name = BUFFER(64);
    uint8_t raw[32] = {0};
    struct error err = {0};

    store_u32(raw, number + 1);
    assert_true(text_base64(&name, BASE64_URL, (struct bytes){raw, sizeof raw}, &err).ok);
    const bool may = key_register_check(world->keys, buffer_text(&name), &err).ok;
    *withdrawn_out = !may && strstr(err.message, "was withdrawn") != NULL;
    return may || *withdrawn_out;
}

/* What was withdrawn stays for ever. The rest goes 32 days after its end, and only if its place is needed. */
static const struct ended_case {
    const char *name;
    int64_t ended_ms; /* ago */
    bool goes;
} ended_cases[] = {
    {"31 days ago", 31 * 24 * HOUR_MS, false},
    {"33 days ago", 33 * 24 * HOUR_MS, true},
    {"in an hour", -HOUR_MS, false},
};

static void what_has_ended_makes_room(void **state)
{
    const struct ended_case *row = *state;
    const struct filling filling = {.count = ALONE, .end_hours = (uint32_t)((NOW_MS - row->ended_ms) / HOUR_MS), .withdrawn = 7};
    bool is_withdrawn = false;
    OWNED_WORLD world;

    begin_filled(&world, &filling);
    assert_true(is_known(&world, 9, &is_withdrawn) && !is_withdrawn);
    assert_int_equal(notes(&world, "globex", "one", 10), ERROR_NONE); /* it needs no place of acme */
    assert_true(is_known(&world, 9, &is_withdrawn));
    assert_int_equal(notes(&world, "acme", "one", 11), row->goes ? ERROR_NONE : ERROR_LIMIT);
    assert_int_equal(is_known(&world, 9, &is_withdrawn), !row->goes);
    assert_true(is_known(&world, 6, &is_withdrawn) && is_withdrawn);
    pin(&world, DOCUMENT_TRUST_RULE, row->goes ? 11 : 10);
    assert_int_equal(open_register(&world), ERROR_NONE);
    assert_int_equal(is_known(&world, 9, &is_withdrawn), !row->goes);
    assert_true(is_known(&world, 6, &is_withdrawn) && is_withdrawn);
}

/* An older version of it is too old by then. */
static void what_has_versions_takes_no_place_for_ever(void **state)
{
    const struct filling filling = {.count = ALONE - 1, .end_hours = UINT32_MAX};
    struct document rule = rule_called("acme", "one"), other = rule_called("acme", "two");
    OWNED_WORLD world;

    (void)state;
    begin_filled(&world, &filling);
    assert_int_equal(notes_at(&world, &rule, 10, NOW_MS), ERROR_NONE);
    rule.version = 2;
    rule.is_withdrawn = true;
    assert_int_equal(notes_at(&world, &rule, 11, NOW_MS), ERROR_NONE);
    assert_int_equal(notes_at(&world, &other, 12, NOW_MS + 32 * 24 * HOUR_MS), ERROR_LIMIT);
    assert_int_equal(notes_at(&world, &other, 12, NOW_MS + 34 * 24 * HOUR_MS), ERROR_NONE);
}

/* If the newest version of a rule has ended before an older one would, the older one does not come back. */
static void no_older_version_of_a_rule_comes_back(void **state)
{
    const uint32_t now_hours = (uint32_t)(NOW_MS / HOUR_MS), ended = now_hours - 40 * 24, lasts = now_hours + 24;
    const struct filling filling = {.count = ALONE - 2, .end_hours = lasts, .rule_hours = {lasts, ended}};
    const struct filling both = {.count = ALONE - 2, .end_hours = lasts, .rule_hours = {ended, ended}};
    const struct document rule = rule_in("acme");

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        OWNED_WORLD world;
        begin_filled(&world, i == 0 ? &filling : &both);
        assert_true(is_newest(&world, "acme", 50001) && !is_newest(&world, "acme", 50000));
        assert_int_equal(notes(&world, "acme", "other", 10), i == 0 ? ERROR_LIMIT : ERROR_NONE);
        assert_false(is_newest(&world, "acme", 50000));
        assert_int_equal(is_pinned(&world, &rule, 50000), i == 0);
        assert_int_equal(is_pinned(&world, &rule, 50001), i == 0);
    }
}

/* Each call fails once. What would have gone is still there, as long as nothing new was noted. */
static void a_failed_write_forgets_nothing(void **state)
{
    const struct filling filling = {.count = ALONE, .end_hours = (uint32_t)(NOW_MS / HOUR_MS) - 40 * 24};
    bool is_withdrawn = false;
    unsigned long nth = 1;

    (void)state;
    for (bool has_fired = true; has_fired; nth++) {
        OWNED_WORLD world;
        begin_filled(&world, &filling);
        fault_arm(nth);
        const bool is_noted = notes(&world, "acme", "one", 10) == ERROR_NONE;
        has_fired = fault_has_fired();
        fault_arm(0);
        assert_int_equal(is_noted, !has_fired);
        assert_int_equal(is_known(&world, 9, &is_withdrawn), has_fired);
    }
    assert_failures(nth - 2, 6);
}

/* ---- whose a key is ---- */

#define HOURS_NOW ((uint32_t)(NOW_MS / HOUR_MS))
#define KEY_ONE   "0123456789abcdefghijklmnopqrstuvwxyzABCDEFE"
#define KEY_TWO   "1123456789abcdefghijklmnopqrstuvwxyzABCDEFE"

static const struct holder_row {
    const char *name;
    struct key_register_entry entries[2];
    bool holds;
} holder_rows[] = {
    {"an enrolment of its own", {{.name = KEY_ONE, .owner = {7}, .end_hours = HOURS_NOW + 1}}, true},
    {"one whose end is not known", {{.name = KEY_ONE, .owner = {7}}}, true},
    {"one that has ended", {{.name = KEY_ONE, .owner = {7}, .end_hours = HOURS_NOW}}, false},
    {"one that has ended, and one in another scope",
     {{.name = KEY_ONE, .owner = {7}, .end_hours = HOURS_NOW}, {.name = KEY_ONE, .owner = {7}, .end_hours = HOURS_NOW + 1}},
     true},
    {"one of another owner", {{.name = KEY_ONE, .owner = {8}, .end_hours = HOURS_NOW + 1}}, false},
    {"one of another key", {{.name = KEY_TWO, .owner = {7}, .end_hours = HOURS_NOW + 1}}, false},
    {"one that was withdrawn", {{.name = KEY_ONE, .owner = {7}, .end_hours = HOURS_NOW + 1, .is_withdrawn = true}}, false},
    {"none", {{.name = ""}}, false},
};

static void a_key_has_a_holder(void **state)
{
    const struct holder_row *row = *state;
    static struct key_register_state keys;
    static const uint8_t owner[DOCUMENT_DIGEST_SIZE] = {7};
    const struct key_register_holder holder = {KEY_ONE, owner, NOW_MS};
    struct error err = {0};

    keys = (struct key_register_state){.count = 0};
    while (keys.count < 2 && row->entries[keys.count].name[0] != '\0') {
        keys.entries[keys.count] = row->entries[keys.count];
        keys.count++;
    }
    assert_int_equal(key_register_has_holder(&keys, &holder, &err).ok, row->holds);
    if (!row->holds) assert_int_equal(err.kind, ERROR_DENIED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_organisation_takes_no_more_than_it_leaves),
        cmocka_unit_test(no_older_version_of_a_rule_comes_back),
        cmocka_unit_test(what_has_versions_takes_no_place_for_ever),
        cmocka_unit_test(a_failed_write_forgets_nothing),
    };
    const int failed = RUN_TABLE(ended_cases, what_has_ended_makes_room) +
                       RUN_TABLE(greedy_cases, a_modest_organisation_gets_its_share) + RUN_TABLE(holder_rows, a_key_has_a_holder);

    return failed + cmocka_run_group_tests_name("others", tests, NULL, NULL);
}
