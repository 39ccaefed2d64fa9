/* The content of a burst: no count is lost, rows are exact from their first request on, and one source does not get all rows. */
#include "tests/support/unit.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "audit/event_priv.h"

static const struct network_row {
    const char *name, *address, *network;
} network_rows[] = {
    {"IPv4", "192.0.2.77", "192.0.2.0/24"},
    {"IPv6", "2001:db8:1:2ff:3::4", "2001:db8:1:200::/56"},
    {"IPv4 inside IPv6", "::ffff:198.51.100.9", "198.51.100.0/24"},
    {"a unix socket", "unix", "unix"},
    {"nothing", NULL, "unknown"},
};

static void an_address_becomes_its_network(void **state)
{
    const struct network_row *row = *state;
    struct tally tally = {.rest = 0};

    tally_add(&tally, "registry.ping", "anonymous", row->address, "");
    assert_string_equal(tally.targets[0].network, row->network);
    assert_string_equal(tally.targets[0].target, "-");
}

static void same_requests_share_a_row(void **state)
{
    struct tally tally = {.rest = 0};

    (void)state;
    for (int i = 0; i < 3; i++) tally_add(&tally, "blob.read", "aa", "192.0.2.1", "acme/models/a");
    tally_add(&tally, "blob.read", "aa", "192.0.2.200", "acme/models/a"); /* the same network */
    tally_add(&tally, "blob.stat", "aa", "192.0.2.1", "acme/models/a");
    tally_add(&tally, "blob.read", "bb", "192.0.2.1", "acme/models/a");
    tally_add(&tally, "blob.read", "aa", "192.0.3.1", "acme/models/a");
    tally_add(&tally, "blob.read", "aa", "192.0.2.1", "acme/models/b");
    assert_int_equal(tally.target_count, 5);
    assert_int_equal(tally.targets[0].count, 4);
    assert_int_equal(tally_total(&tally), 8);
}

static void probe(struct tally *tally, unsigned network, unsigned target)
{
    char address[32], name[32];

    (void)snprintf(address, sizeof address, "10.%u.%u.1", network / 256, network % 256);
    (void)snprintf(name, sizeof name, "acme/models/%u", target);
    tally_add(tally, "manifest.read", "anonymous", address, name);
}

static void one_source_leaves_rows_to_others(void **state)
{
    struct tally tally = {.rest = 0};

    (void)state;
    for (unsigned i = 0; i < 13085; i++) probe(&tally, 0, i);
    probe(&tally, 1, 7);
    assert_int_equal(tally.target_count, TALLY_PER_SOURCE + 1);
    assert_int_equal(tally.source_count, 1);
    assert_int_equal(tally.sources[0].count, 13085 - TALLY_PER_SOURCE);
    assert_string_equal(tally.targets[TALLY_PER_SOURCE].network, "10.0.1.0/24");
    assert_int_equal(tally.rest, 0);
    assert_int_equal(tally_total(&tally), 13086);
}

/* Reads are cheap to send, and must not take the rows for changes. */
static void decoys_leave_rows_to_what_would_change_something(void **state)
{
    struct tally tally = {.rest = 0};

    (void)state;
    for (unsigned i = 0; i < 4000; i++) probe(&tally, i % 300, i);
    assert_int_equal(tally.target_count, TALLY_READERS);
    assert_false(tally_names(&tally, "manifest.read", "anonymous", "10.0.7.1", "acme/models/other"));
    assert_false(tally_names(&tally, "token.mint", "anonymous", "10.0.7.1", "robot$acme+ci"));
    assert_true(tally_names(&tally, "manifest.delete", "anonymous", "10.0.7.1", "acme/models/secret"));
    tally_add(&tally, "manifest.delete", "anonymous", "10.0.7.1", "acme/models/secret");
    assert_int_equal(tally.target_count, TALLY_READERS + 1);
    assert_string_equal(tally.targets[TALLY_READERS].target, "acme/models/secret");
    assert_true(tally_names(&tally, "manifest.delete", "anonymous", "10.0.7.1", "acme/models/secret"));
    for (unsigned i = 0; i < 1000; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "acme/models/%u", i);
        tally_add(&tally, "manifest.delete", "anonymous", "10.0.7.1", name);
    }
    assert_int_equal(tally.target_count, TALLY_READERS + TALLY_PER_SOURCE);
    assert_int_equal(tally_total(&tally), 5001);
}

static void many_sources_lose_no_count(void **state)
{
    struct buffer OWNED_BUFFER text = BUFFER(TALLY_TEXT_MAX);
    struct tally tally = {.rest = 0};
    struct error err = {0};
    uint64_t sum = 0;

    (void)state;
    for (unsigned i = 0; i < 20000; i++) probe(&tally, i % 300, i);
    assert_int_equal(tally_total(&tally), 20000);
    assert_true(tally_write(&tally, &text, &err).ok);
    json_t *written = json_loadb((const char *)text.data, text.length, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(written);
    const json_t *rows = json_object_get(written, "rows");
    assert_int_equal(json_array_size(rows), TALLY_READERS + TALLY_SOURCES);
    for (size_t i = 0; i < json_array_size(rows); i++)
        sum += (uint64_t)json_integer_value(json_object_get(json_array_get(rows, i), "count"));
    assert_int_equal(sum + (uint64_t)json_integer_value(json_object_get(written, "rest")), 20000);
    json_decref(written);
}

/* Names of the greatest length, of what would be escaped, in all rows. */
static void every_tally_has_room(void **state)
{
    struct buffer OWNED_BUFFER text = BUFFER(TALLY_TEXT_MAX);
    struct tally tally = {.rest = UINT64_C(9007199254740991)};
    char target[300], actor[65], address[64];
    struct error err = {0};

    (void)state;
    memset(target, '"', sizeof target - 1);
    target[sizeof target - 1] = '\0';
    memset(actor, 'f', sizeof actor - 1);
    actor[sizeof actor - 1] = '\0';
    for (unsigned i = 0; i < 1000; i++) {
        (void)snprintf(address, sizeof address, "2001:db8:ffff:%x00:ffff:ffff:ffff:ffff", i % 255 + 1);
        tally_add(&tally, "organisation.create", actor, address, target);
    }
    assert_int_equal(tally.target_count, TALLY_TARGETS);
    assert_int_equal(tally.source_count, TALLY_SOURCES);
    for (size_t i = 0; i < TALLY_SOURCES; i++) tally.sources[i].count = tally.targets[i].count = UINT64_C(9007199254740991);
    assert_true(tally_write(&tally, &text, &err).ok);
    assert_true(leaf_text_is_valid(buffer_bytes(&text)));
}

int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(same_requests_share_a_row),
        cmocka_unit_test(one_source_leaves_rows_to_others),
        cmocka_unit_test(decoys_leave_rows_to_what_would_change_something),
        cmocka_unit_test(many_sources_lose_no_count),
        cmocka_unit_test(every_tally_has_room),
    };

    return RUN_TABLE(network_rows, an_address_becomes_its_network) + cmocka_run_group_tests_name("others", others, NULL, NULL);
}
