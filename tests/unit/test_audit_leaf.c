#include "tests/support/unit.h"

#include <stdio.h>
#include <string.h>

#include "audit/format/leaf_glance.h"
#include "audit/format/leaf_quick_priv.h"
#include "base/text.h"

#define ALSO "[\"blob.read\",\"acme\",\"\"]"
#define KEYS "{\"act:0f0f\":7,\"org:acme\":12,\"out:denied\":3,\"prj:acme/models\":11,\"res:acme/models/digits\":9}"
#define WHY  "{\"id\":\"sha256:01\",\"policy\":\"sha256:02\",\"rules\":[\"SYS-NO-BINDING\"]}"

static const char good[] =
    "{\"act\":\"blob.read\",\"actor\":\"0f0f\",\"cls\":600302,"
    "\"k\":{\"act:0f0f\":7,\"org:acme\":12,\"out:denied\":3,\"prj:acme/models\":11,\"res:acme/models/digits\":9},"
    "\"out\":\"denied\",\"pay\":\"000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\","
    "\"req\":\"5f0c8f0e-93a1-4c1a-8a4e-0d8f6d1f2b30\",\"res\":\"acme/models/digits#sha256:aa\",\"rgn\":\"local/main\","
    "\"seq\":41,\"src\":[\"gw1\",3,17],\"ts\":1795171186123,\"v\":1,"
    "\"why\":{\"id\":\"sha256:01\",\"policy\":\"sha256:02\",\"rules\":[\"SYS-NO-BINDING\"]}}";

/* A decision of two pairs, version 2: with the digest of the facts of each, and when it was decided. */
#define FACTS_OF(first, second)                                                                        \
    "\"facts\":[\"" first "0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\",\"" second \
    "0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\"],"
static const char decided[] =
    "{\"act\":\"blob.mount\",\"actor\":\"0f0f\",\"also\":[[\"blob.read\",\"acme/models/other\",\"\"]],\"cls\":600301," FACTS_OF(
        "00",
        "10") "\"k\":{\"act:0f0f\":7,\"org:acme\":12,\"prj:acme/models\":11,\"res:acme/models/digits\":9,\"res:acme/models/other\":2},"
              "\"out\":\"allowed\",\"req\":\"\",\"res\":\"acme/models/digits#sha256:aa\",\"rgn\":\"local/main\","
              "\"seq\":41,\"src\":[\"gw1\",3,17],\"ts\":1795171186123,\"v\":2,"
              "\"why\":{\"at\":1795171186120,\"id\":\"sha256:01\",\"policy\":\"sha256:02\"}}";

static void a_leaf_with_facts_is_read_and_written_to_the_byte(void **state)
{
    struct buffer OWNED_BUFFER again = BUFFER(2 * LEAF_MAX);
    struct leaf leaf;
    struct error err = {0};

    (void)state;
    if (!leaf_read(bytes_of_text(decided), &leaf, &err).ok) fail_msg("%s", err.message);
    assert_int_equal(leaf.version, 2);
    assert_int_equal(leaf.facts_count, 2);
    assert_int_equal(leaf.facts[1][0], 0x10);
    assert_int_equal(leaf.facts[1][31], 0x1f);
    assert_true(leaf.reason.has_decided);
    assert_int_equal(leaf.reason.decided_ms, 1795171186120);
    assert_true(leaf_write(&leaf, &again, &err).ok);
    assert_string_equal(buffer_text(&again), decided);
}

/* Most leaves take the quick way, which reads the same as the other one; text with an escape, or beyond ASCII, takes the other one. */
static void the_quick_reader_reads_the_same(void **state)
{
    static const struct {
        const char *text;
        bool is_quick;
    } rows[] = {
        {good, true},
        {decided, true},
        {"{\"act\":\"blob.read\",\"actor\":\"system\",\"cls\":1,\"k\":{\"act:system\":1,\"org:\\\\\":2,\"res:\\\\\":3},\"out\":\"allowed\",\"req\":\"\","
         "\"res\":\"\\\\\",\"rgn\":\"\",\"seq\":0,\"src\":[\"g\",0,0],\"ts\":0,\"v\":2,\"why\":{}}",
         false},
        {"{\"act\":\"blob.read\",\"actor\":\"system\",\"cls\":1,\"k\":{\"act:system\":1},\"out\":\"allowed\",\"req\":\"\",\"res\":\"#\xc3\xbc\","
         "\"rgn\":\"\",\"seq\":0,\"src\":[\"g\",0,0],\"ts\":0,\"v\":2,\"why\":{}}",
         false}};
    struct error err = {0};

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct buffer OWNED_BUFFER first = BUFFER(2 * LEAF_MAX), OWNED_BUFFER second = BUFFER(2 * LEAF_MAX);
        struct leaf quick, any;
        assert_int_equal(leaf_read_quick(bytes_of_text(rows[i].text), &quick), rows[i].is_quick);
        if (!leaf_read_any(bytes_of_text(rows[i].text), &any, &err).ok) fail_msg("%zu: %s", i, err.message);
        must(leaf_write(&any, &first, &err), &err);
        assert_string_equal(buffer_text(&first), rows[i].text);
        if (rows[i].is_quick) must(leaf_write(&quick, &second, &err), &err);
        if (rows[i].is_quick) assert_string_equal(buffer_text(&second), rows[i].text);
    }
}

static void a_glance_sees_what_an_event_was_about(void **state)
{
    struct leaf_glance glance;
    struct leaf leaf;
    struct error err = {0};

    (void)state;
    must(leaf_read(bytes_of_text(decided), &leaf, &err), &err);
    assert_true(leaf_glance(bytes_of_text(decided), &glance));
    assert_true(bytes_equal(glance.actor, bytes_of_text("0f0f")));
    assert_string_equal(glance.policy, "sha256:02");
    assert_int_equal(glance.target_count, 2);
    assert_int_equal(glance.facts_count, 2);
    assert_memory_equal(glance.facts, leaf.facts, sizeof leaf.facts[0] * 2);
    assert_true(bytes_equal(glance.targets[0].resource, bytes_of_text("acme/models/digits#sha256:aa")));
    assert_true(bytes_equal(glance.targets[1].action, bytes_of_text("blob.read")));
    assert_true(bytes_equal(glance.targets[1].resource, bytes_of_text("acme/models/other")));
    assert_true(leaf_glance(bytes_of_text(good), &glance));
    assert_int_equal(glance.facts_count, 0);
    for (size_t length = 0; length < sizeof decided - 1; length++)
        assert_false(leaf_glance((struct bytes){(const uint8_t *)decided, length}, &glance));
}

static void a_leaf_is_read_and_written_to_the_byte(void **state)
{
    struct buffer OWNED_BUFFER again = BUFFER(2 * LEAF_MAX);
    struct leaf leaf;
    struct error err = {0};

    (void)state;
    if (!leaf_read(bytes_of_text(good), &leaf, &err).ok) fail_msg("%s", err.message);
    assert_int_equal(leaf.sequence, 41);
    assert_int_equal(leaf.time_ms, 1795171186123);
    assert_string_equal(leaf.source.instance, "gw1");
    assert_int_equal(leaf.source.number, 17);
    assert_string_equal(leaf.targets[0].resource, "acme/models/digits#sha256:aa");
    assert_string_equal(leaf.reason.rules[0], "SYS-NO-BINDING");
    assert_int_equal(leaf.key_count, 5);
    assert_string_equal(leaf.keys[4].name, "res:acme/models/digits");
    assert_int_equal(leaf.keys[4].ordinal, 9);
    assert_true(leaf.has_payload && leaf.payload[31] == 0x1f);
    assert_true(leaf_write(&leaf, &again, &err).ok);
    assert_string_equal(buffer_text(&again), good);
}

/* `good` with one piece replaced; or `decided`. */
struct change_row {
    const char *name, *from, *to;
};
static const struct change_row decided_rows[] = {
    {"facts in version 1", "\"v\":2", "\"v\":1"},
    {"facts without a time", "\"at\":1795171186120,", ""},
    {"a time without facts", FACTS_OF("00", "10"), ""},
    {"a time in text", "\"at\":1795171186120", "\"at\":\"1795171186120\""},
    {"facts of one pair of two", "\"facts\":[\"000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\",",
     "\"facts\":["},
    {"facts of a third pair", "\"facts\":[", "\"facts\":[\"000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\","},
    {"facts that are short", "\"000102030", "\"0102030"},
    {"facts in capitals", "0a0b0c0d0e0f", "0A0B0C0D0E0F"},
    {"facts that are a number", "\"facts\":[\"000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\"",
     "\"facts\":[7"},
    {"version 3", "\"v\":2", "\"v\":3"},
};
static const struct change_row change_rows[] = {
    {"a blank", "\"cls\":600302", "\"cls\": 600302"},
    {"members out of order", "\"seq\":41,\"src\":[\"gw1\",3,17]", "\"src\":[\"gw1\",3,17],\"seq\":41"},
    {"a member twice", "\"seq\":41", "\"seq\":41,\"seq\":41"},
    {"an unknown member", "\"v\":1", "\"u\":1,\"v\":1"},
    {"an unknown reason", "\"why\":{", "\"why\":{\"bad\":1,"},
    {"a version that is not known", "\"v\":1", "\"v\":3"},
    {"facts in a leaf of version 1", "\"k\":{", "\"facts\":[],\"k\":{"},
    {"a sequence number missing", "\"seq\":41,", ""},
    {"a number over 2^53", "\"seq\":41", "\"seq\":9007199254740992"},
    {"a negative number", "\"seq\":41", "\"seq\":-41"},
    {"a fraction", "\"seq\":41", "\"seq\":41.5"},
    {"an exponent", "\"seq\":41", "\"seq\":41e0"},
    {"a number as text", "\"seq\":41", "\"seq\":\"41\""},
    {"a needless escape", "gw1", "\\u0067w1"},
    {"a control character", "gw1", "gw\\u0001"},
    {"DEL", "gw1", "gw\x7f"},
    {"bad UTF-8", "gw1", "gw\xff"},
    {"an ordinal of zero", "\"org:acme\":12", "\"org:acme\":0"},
    {"a key missing", "\"org:acme\":12,", ""},
    {"a key too many", "\"org:acme\":12", "\"org:acme\":12,\"org:other\":1"},
    {"the key of another resource", "\"res:acme/models/digits\":9", "\"res:acme/models/other\":9"},
    {"a key for an outcome that has none", "\"out\":\"denied\"", "\"out\":\"allowed\""},
    {"a short commitment", "1d1e1f", "1d1e"},
    {"upper-case hex", "1d1e1f", "1D1E1F"},
    {"an empty text that must be left out", "\"id\":\"sha256:01\"", "\"id\":\"\""},
    {"no rules in the list", "[\"SYS-NO-BINDING\"]", "[]"},
    {"a source of two", "[\"gw1\",3,17]", "[\"gw1\",3]"},
    {"an actor that is a number", "\"0f0f\"", "7"},
    {"a request that is too long", "5f0c8f0e", "5f0c8f0e0"},
    {"no resource", "\"res\":\"acme/models/digits#sha256:aa\",", ""},
    {"no time", "\"ts\":1795171186123,", ""},
    {"a class of 33 bits", "600302", "4294967296"},
    {"no class", "\"cls\":600302,", ""},
    {"version 0", "\"v\":1", "\"v\":0"},
    {"a source that is no list", "[\"gw1\",3,17]", "7"},
    {"a source without a name", "[\"gw1\",3,17]", "[1,3,17]"},
    {"a source of a negative start", "[\"gw1\",3,17]", "[\"gw1\",-3,17]"},
    {"a source without a number", "[\"gw1\",3,17]", "[\"gw1\",3,null]"},
    {"no source", "\"src\":[\"gw1\",3,17],", ""},
    {"an empty list of further targets", "\"cls\"", "\"also\":[],\"cls\""},
    {"four further targets", "\"cls\"", "\"also\":[" ALSO "," ALSO "," ALSO "," ALSO "],\"cls\""},
    {"a further target of two", "\"cls\"", "\"also\":[[\"blob.read\",\"acme\"]],\"cls\""},
    {"a further target without an action", "\"cls\"", "\"also\":[[1,\"acme\",\"\"]],\"cls\""},
    {"a further target without a name", "\"cls\"", "\"also\":[[\"blob.read\",1,\"\"]],\"cls\""},
    {"a further target without a region", "\"cls\"", "\"also\":[[\"blob.read\",\"acme\",1]],\"cls\""},
    {"a commitment that is a number", "\"000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\"", "7"},
    {"a reason that is a number", WHY, "7"},
    {"no reason", ",\"why\":" WHY, ""},
    {"a decision that is a number", "\"id\":\"sha256:01\"", "\"id\":1"},
    {"a policy that is a number", "\"policy\":\"sha256:02\"", "\"policy\":2"},
    {"a note that is a number", "\"policy\"", "\"note\":1,\"policy\""},
    {"a bound that is text", "\"id\"", "\"bound\":\"1\",\"id\""},
    {"a negative count", "\"id\"", "\"count\":-1,\"id\""},
    {"an opening that is text", "\"policy\"", "\"opened\":\"1\",\"policy\""},
    {"five rules", "[\"SYS-NO-BINDING\"]", "[\"A\",\"B\",\"C\",\"D\",\"E\"]"},
    {"a rule that is a number", "[\"SYS-NO-BINDING\"]", "[7]"},
    {"keys that are a number", KEYS, "7"},
    {"no keys", "\"k\":" KEYS ",", ""},
    {"a negative ordinal", "\"org:acme\":12", "\"org:acme\":-12"},
    {"a list", good, "[]"},
    {"something after it", "[\"SYS-NO-BINDING\"]}}", "[\"SYS-NO-BINDING\"]}} "},
};

static void is_refused_with(const char *original, const struct change_row *row)
{
    char text[2 * sizeof decided];
    struct leaf leaf;
    struct error err = {0};

    const char *at = strstr(original, row->from);
    assert_non_null(at);
    (void)snprintf(text, sizeof text, "%.*s%s%s", (int)(at - original), original, row->to, at + strlen(row->from));
    assert_false(leaf_read(bytes_of_text(text), &leaf, &err).ok);
    assert_int_equal(err.kind, ERROR_INVALID);
}

static void any_other_spelling_is_refused(void **state)
{
    is_refused_with(good, *state);
}

static void any_other_spelling_with_facts_is_refused(void **state)
{
    is_refused_with(decided, *state);
}

static struct leaf small_leaf(void)
{
    struct leaf leaf = {.version = LEAF_VERSION, .sequence = 1, .actor = "system", .outcome = "completed", .target_count = 1};

    (void)snprintf(leaf.targets[0].action, sizeof leaf.targets[0].action, "server.start");
    (void)snprintf(leaf.source.instance, sizeof leaf.source.instance, "gw1");
    return leaf;
}

static void keys_follow_from_the_rest(void **state)
{
    struct leaf leaf = small_leaf();

    (void)state;
    leaf_fill_keys(&leaf);
    assert_int_equal(leaf.key_count, 1);
    assert_string_equal(leaf.keys[0].name, "act:system");

    leaf.target_count = 3;
    (void)snprintf(leaf.targets[0].resource, sizeof leaf.targets[0].resource, "acme/models/new#sha256:bb");
    (void)snprintf(leaf.targets[1].resource, sizeof leaf.targets[1].resource, "acme/models/old");
    (void)snprintf(leaf.targets[2].resource, sizeof leaf.targets[2].resource, "beta");
    (void)snprintf(leaf.outcome, sizeof leaf.outcome, "failed");
    leaf_fill_keys(&leaf);
    static const char *const expected[] = {"act:system",          "org:acme",        "org:beta",
                                           "out:failed",          "prj:acme/models", "res:acme/models/new",
                                           "res:acme/models/old", "res:beta"};
    assert_int_equal(leaf.key_count, COUNT(expected));
    for (size_t i = 0; i < COUNT(expected); i++) assert_string_equal(leaf.keys[i].name, expected[i]);
}

/* A name that no key can have leaves the event without that key; the event itself still says it. */
static void names_that_are_too_long_have_no_key(void **state)
{
    struct leaf leaf = small_leaf();

    (void)state;
    memset(leaf.targets[0].resource, 'a', LEAF_NAME_MAX + 1);
    leaf_fill_keys(&leaf);
    assert_int_equal(leaf.key_count, 1);
    leaf.reason.rule_count = 1;
    leaf_shorten(&leaf);
    assert_int_equal(leaf.reason.rule_count, 1);
}

static void what_a_reader_would_refuse_is_not_written(void **state)
{
    struct leaf leaf = small_leaf();
    struct buffer OWNED_BUFFER text = BUFFER(2 * LEAF_MAX);
    struct error err = {0};

    (void)state;
    leaf.sequence = (uint64_t)LEAF_INTEGER_MAX + 1;
    assert_false(leaf_write(&leaf, &text, &err).ok);
    leaf = small_leaf();
    leaf.source.instance[0] = '\n';
    assert_false(leaf_write(&leaf, &text, &err).ok);
    assert_int_equal(err.kind, ERROR_INVALID);
}

static struct leaf large_leaf(size_t target_count, size_t detail)
{
    struct leaf leaf = small_leaf();

    leaf.target_count = target_count;
    for (size_t i = 0; i < target_count; i++) {
        memset(leaf.targets[i].resource, 'a' + (int)i, LEAF_NAME_MAX);
        memset(leaf.targets[i].resource + LEAF_NAME_MAX, '#', 1 + detail);
        memset(leaf.targets[i].region, 'r', sizeof leaf.targets[i].region - 1);
        leaf.targets[i].resource[63] = leaf.targets[i].resource[127] = '/';
    }
    memset(leaf.reason.decision, 'd', sizeof leaf.reason.decision - 1);
    memset(leaf.reason.policy, 'p', sizeof leaf.reason.policy - 1);
    memset(leaf.reason.note, 'n', sizeof leaf.reason.note - 1);
    memset(leaf.request, 'q', sizeof leaf.request - 1);
    memset(leaf.actor, '0', sizeof leaf.actor - 1);
    leaf.has_payload = true;
    leaf.facts_count = target_count;
    leaf.reason.has_decided = true;
    leaf.reason.decided_ms = (uint64_t)LEAF_INTEGER_MAX;
    for (size_t i = 0; i < LEAF_RULES_MAX; i++) memset(leaf.reason.rules[leaf.reason.rule_count++], 'R', 64);
    leaf_fill_keys(&leaf);
    return leaf;
}

static void is_bounded(size_t target_count, uint64_t ordinal, size_t facts_count)
{
    struct leaf leaf = large_leaf(target_count, LEAF_DETAIL_MAX);
    struct buffer OWNED_BUFFER text = BUFFER(4 * LEAF_MAX);
    struct error err = {0};

    assert_int_equal(leaf.key_count, 1 + 3 * target_count);
    for (size_t i = 0; i < leaf.key_count; i++) leaf.keys[i].ordinal = ordinal;
    assert_false(leaf_write(&leaf, &text, &err).ok);
    assert_int_equal(err.kind, ERROR_LIMIT);

    text.length = 0;
    leaf_shorten(&leaf);
    if (!leaf_write(&leaf, &text, &err).ok) fail_msg("%s", err.message);
    assert_int_equal(leaf.facts_count, facts_count);
}

/* Without details of further targets, further rules and the note even the largest event fits; of four, also without facts. */
static void a_leaf_is_bounded(void **state)
{
    (void)state;
    is_bounded(LEAF_TARGETS_MAX, 0, 0);
    is_bounded(LEAF_TARGETS_MAX - 1, (uint64_t)LEAF_INTEGER_MAX, LEAF_TARGETS_MAX - 1);
}

/* A push of twelve tags: with every rule and a note it is still whole. */
static void the_longest_detail_of_one_target_fits(void **state)
{
    struct leaf leaf = large_leaf(1, LEAF_RESOURCE_MAX - LEAF_NAME_MAX - 1);
    struct buffer OWNED_BUFFER text = BUFFER(4 * LEAF_MAX);
    struct error err = {0};

    (void)state;
    assert_int_equal(strlen(leaf.targets[0].resource), LEAF_RESOURCE_MAX);
    leaf.sequence = leaf.source.boot = leaf.source.number = (uint64_t)LEAF_INTEGER_MAX;
    for (size_t i = 0; i < leaf.key_count; i++) leaf.keys[i].ordinal = (uint64_t)LEAF_INTEGER_MAX;
    if (!leaf_write(&leaf, &text, &err).ok) fail_msg("%s", err.message);
    if (!leaf_read(buffer_bytes(&text), &leaf, &err).ok) fail_msg("%s", err.message);
    assert_int_equal(strlen(leaf.targets[0].resource), LEAF_RESOURCE_MAX);
}

static void commitments_bind_salt_and_payload(void **state)
{
    static const uint8_t salt[LEAF_SALT_SIZE] = {1, 2, 3};
    uint8_t commitment[32], other[32];
    char hex[65]; /* a commitment */
    struct error err = {0};

    (void)state;
    assert_true(leaf_payload_commitment(salt, bytes_of_text("{\"address\":\"192.0.2.7\"}"), commitment, &err).ok);
    text_hex(commitment, sizeof commitment, hex);
    /* printf 'sijil-pay-v1\0\1\2\3' + 29 zero bytes + the payload | sha256sum */
    assert_string_equal(hex, "892c226973cd8d50300784394dbcf9a647daafee2feff4aa0131bc16452d3df7");
    assert_true(leaf_payload_commitment(salt, bytes_of_text("{\"address\":\"192.0.2.8\"}"), other, &err).ok);
    assert_memory_not_equal(commitment, other, sizeof other);
}

static void a_condition_of_a_search_means_one_key(void **state)
{
    static const struct {
        const char *condition, *value, *key; /* NULL: none */
        bool is_exact;
    } rows[] = {{"prefix", "acme", "org:acme", true},
                {"prefix", "acme/", "org:acme", true},
                {"prefix", "acme/models", "prj:acme/models", true},
                {"prefix", "acme/models/", "prj:acme/models", true},
                {"prefix", "acme/models/vision/x", "prj:acme/models", false},
                {"resource", "acme/models/digits", "res:acme/models/digits", true},
                {"outcome", "denied", "out:denied", true},
                {"actor", "system", "act:system", true},
                {"prefix", "", NULL, false},
                {"prefix", "/", NULL, false},
                {"prefix", "/acme", NULL, false},
                {"prefix", "acme//models", NULL, false},
                {"prefix", "acme/models//", NULL, false},
                {"prefix", "acme/-m", NULL, false},
                {"resource", "acme/models/digits:v1", NULL, false},
                {"resource", "acme/models/digits@sha256", NULL, false},
                {"resource", "acme/models/digits#x", NULL, false},
                {"outcome", "allowed", NULL, false},
                {"outcome", "denied,failed", NULL, false},
                {"actor", "alice", NULL, false},
                {"country", "AE", NULL, false}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char key[LEAF_KEY_MAX + 1];
        bool is_exact = false;
        assert_int_equal(leaf_key_of_condition(rows[i].condition, rows[i].value, key, &is_exact), rows[i].key != NULL);
        if (rows[i].key == NULL) continue;
        assert_string_equal(key, rows[i].key);
        assert_int_equal(is_exact, rows[i].is_exact);
        assert_true(leaf_key_is_possible(key));
    }
}

int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(a_condition_of_a_search_means_one_key),
        cmocka_unit_test(the_quick_reader_reads_the_same),
        cmocka_unit_test(a_glance_sees_what_an_event_was_about),
        cmocka_unit_test(a_leaf_is_read_and_written_to_the_byte),
        cmocka_unit_test(a_leaf_with_facts_is_read_and_written_to_the_byte),
        cmocka_unit_test(keys_follow_from_the_rest),
        cmocka_unit_test(names_that_are_too_long_have_no_key),
        cmocka_unit_test(what_a_reader_would_refuse_is_not_written),
        cmocka_unit_test(a_leaf_is_bounded),
        cmocka_unit_test(the_longest_detail_of_one_target_fits),
        cmocka_unit_test(commitments_bind_salt_and_payload),
    };

    return RUN_TABLE(change_rows, any_other_spelling_is_refused) +
           RUN_TABLE(decided_rows, any_other_spelling_with_facts_is_refused) +
           cmocka_run_group_tests_name("others", others, NULL, NULL);
}
