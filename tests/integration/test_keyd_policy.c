/* Policy sets that the real sijil-keyd pins, and those that it refuses. */
#include "tests/integration/keyd_log_fixture.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "audit/format/policy_load.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"
#include "crypto/dsse.h"
#include "crypto/keyd_protocol.h"

#define POLICY_TYPE         "application/vnd.sijil.policy-set.v1+json"
#define A64                 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define B64                 "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define SET(letters, epoch) "{\"digest\":\"sha256:" letters "\",\"epoch\":" epoch "}"

/* ---- the events of a gateway, and those of a liar ---- */

struct telling {
    const char *action, *outcome, *detail; /* detail NULL: that of this set's event */
    size_t targets;
};
static const struct telling truth = {"policy.load", "allowed", NULL, 1};

static void write_event(const struct telling *telling, struct bytes envelope, const char *payload, struct buffer *leaf_text)
{
    static struct leaf leaf;
    struct error err = {0};
    OWNED_JSON set = NULL;
    int64_t epoch = 0;
    uint8_t digest[32] = {0};
    char detail[POLICY_LOAD_DETAIL_SIZE];

    leaf = (struct leaf){.version = LEAF_VERSION,
                         .sequence = the_log.size,
                         .time_ms = 1,
                         .source = {"gw1", 1, the_log.size + 1},
                         .class_uid = 600301,
                         .actor = "system",
                         .target_count = telling->targets};
    assert_true(json_read(bytes_of_text(payload), 4 << 20, &set, &err).ok);
    const char *text = json_text_of(set, "digest");
    (void)json_integer_of(set, "epoch", &epoch);
    if (text != NULL) (void)text_from_hex(bytes_of_text(text + 7), digest, sizeof digest);
    policy_load_detail(envelope, (uint64_t)epoch, digest, detail);
    for (size_t i = 0; i < telling->targets; i++) {
        (void)snprintf(leaf.targets[i].action, sizeof leaf.targets[i].action, "%s", telling->action);
        (void)snprintf(leaf.targets[i].resource, sizeof leaf.targets[i].resource, "#%s",
                       telling->detail == NULL ? detail : telling->detail);
    }
    (void)snprintf(leaf.outcome, sizeof leaf.outcome, "%s", telling->outcome);
    leaf_fill_keys(&leaf);
    for (size_t i = 0; i < leaf.key_count; i++) leaf.keys[i].ordinal = 1;
    if (!leaf_write(&leaf, leaf_text, &err).ok) fail_msg("%s", err.message);
}

static enum error_kind ask(const struct document_pin_request *request)
{
    struct document_pin pinned;
    struct error err = {0};

    return keyd_pin_set(client, request, &pinned, &err).ok ? ERROR_NONE : err.kind;
}

static void seal(const struct ecdsa_key *signer, const char *type, const char *payload, struct buffer *envelope)
{
    struct error err = {0};

    assert_true(dsse_write(type, bytes_of_text(payload), &signer, 1, envelope, &err).ok);
}

/* With a separate event with these values. */
static enum error_kind pin_told(const struct ecdsa_key *signer, const char *type, const char *payload,
                                const struct telling *telling)
{
    struct buffer OWNED_BUFFER envelope = BUFFER(2 << 20), leaf = BUFFER(LEAF_MAX);

    seal(signer, type, payload, &envelope);
    write_event(telling, buffer_bytes(&envelope), payload, &leaf);
    const uint64_t sequence = add_entry(buffer_bytes(&leaf), true);
    const struct document_pin_request request = prove(buffer_bytes(&envelope), buffer_bytes(&leaf), sequence);
    return ask(&request);
}

static enum error_kind pin(const struct ecdsa_key *signer, const char *type, const char *payload)
{
    return pin_told(signer, type, payload, &truth);
}

static const struct telling_row {
    const char *name;
    struct telling telling;
} telling_rows[] = {
    {"a load that was denied", {"policy.load", "denied", NULL, 1}},
    {"a load that failed", {"policy.load", "failed", NULL, 1}},
    {"another action", {"policy.read", "allowed", NULL, 1}},
    {"the envelope alone, as of a load without a change", {"policy.load", "allowed", "sha256:" A64, 1}},
    {"another set", {"policy.load", "allowed", "sha256:" A64 " 1 sha256:" A64, 1}},
    {"two targets", {"policy.load", "allowed", NULL, 2}},
};

/* A set that the approver signed and nobody loaded came into force with the next look at the database. */
static void a_set_needs_the_event_of_its_loading(void **state)
{
    OWNED(ecdsa_key) *approver = approve();

    (void)state;
    for (size_t i = 0; i < COUNT(telling_rows); i++)
        if (pin_told(approver, POLICY_TYPE, SET(A64, "1"), &telling_rows[i].telling) != ERROR_NOT_FOUND)
            fail_msg("%s", telling_rows[i].name);
    assert_int_equal(identify().policy_epoch, 0);
    assert_int_equal(pin(approver, POLICY_TYPE, SET(A64, "1")), ERROR_NONE);
}

/* ---- sets that say what they replace, and how many persons must sign ---- */

/* Of epoch `epoch`, replacing the set of A64 with the epoch `base`, and expiring so many ms from now. */
static enum error_kind pin_draft(const struct ecdsa_key *signer, unsigned epoch, unsigned base, int64_t life_ms, const char *root)
{
    char expires[CLOCK_TEXT_SIZE], payload[1024];

    clock_format(clock_wall_ms() + life_ms, expires);
    (void)snprintf(payload, sizeof payload,
                   "{\"approval\":{\"expires\":\"%s\",\"replaces\":{\"digest\":\"sha256:" A64
                   "\",\"epoch\":%u}},\"digest\":\"sha256:" A64 "\",\"epoch\":%u%s}",
                   expires, base, epoch, root);
    return pin(signer, POLICY_TYPE, payload);
}

static unsigned persons_of_root(void)
{
    struct root_terms terms;
    struct error err = {0};

    if (!keyd_root_terms(client, &terms, &err).ok) fail_msg("%s", err.message);
    return terms.root;
}

/* A gateway that somebody has taken over asks for all of these. */
static void a_draft_follows_the_set_that_it_replaces(void **state)
{
    OWNED(ecdsa_key) *approver = approve();
    OWNED(ecdsa_key) *stranger = NULL;
    struct error err = {0};

    (void)state;
    assert_true(ecdsa_key_new(&stranger, &err).ok);
    assert_int_equal(pin(approver, POLICY_TYPE, SET(A64, "1")), ERROR_NONE);
    assert_int_equal(pin_draft(approver, 2, 3, 60000, ""), ERROR_DENIED);
    assert_int_equal(pin_draft(approver, 2, 1, -1000, ""), ERROR_DENIED);
    assert_int_equal(pin_draft(approver, 2, 1, INT64_C(30) * 86400000, ""), ERROR_DENIED);
    assert_int_equal(pin_draft(stranger, 2, 1, 60000, ""), ERROR_DENIED);
    assert_int_equal(
        pin_draft(approver, 2, 1, 60000, ",\"root\":{\"holder\":\"ext:" A64 "\",\"officers\":1,\"policies\":1,\"root\":2}"),
        ERROR_DENIED); /* one person, and it takes two from then on */
    assert_int_equal(pin_draft(approver, 2, 1, 60000, ",\"root\":{\"officers\":1,\"policies\":2,\"root\":1}"), ERROR_INVALID);
    assert_int_equal(persons_of_root(), 0);
    assert_int_equal(
        pin_draft(approver, 2, 1, 60000, ",\"root\":{\"holder\":\"ext:" A64 "\",\"officers\":1,\"policies\":1,\"root\":1}"),
        ERROR_NONE);
    assert_int_equal(persons_of_root(), 1);
    assert_int_equal(pin_draft(approver, 3, 1, 60000, ""), ERROR_DENIED); /* it replaces the set before */
    assert_int_equal(pin_draft(approver, 3, 2, 60000, ""), ERROR_NONE);
    assert_int_equal(persons_of_root(), 1); /* a set without the numbers leaves them as they are */
}

/* The event is right, but the signed log does not have it, or has it at another place. */
static void the_event_must_stand_in_the_log_that_was_signed(void **state)
{
    OWNED(ecdsa_key) *approver = approve();
    struct buffer OWNED_BUFFER envelope = BUFFER(4096), again = BUFFER(4096), leaf = BUFFER(LEAF_MAX);

    (void)state;
    (void)add_entry(bytes_of_text("something else"), true);
    seal(approver, POLICY_TYPE, SET(A64, "1"), &envelope);
    seal(approver, POLICY_TYPE, SET(A64, "1"), &again); /* the same set under another signature */
    write_event(&truth, buffer_bytes(&envelope), SET(A64, "1"), &leaf);
    const uint64_t sequence = add_entry(buffer_bytes(&leaf), false);

    struct document_pin_request request = prove(buffer_bytes(&envelope), buffer_bytes(&leaf), sequence);
    assert_int_equal(ask(&request), ERROR_NOT_FOUND); /* not signed yet */
    request.size = the_log.size;
    assert_int_equal(ask(&request), ERROR_CONFLICT);
    (void)add_entry(bytes_of_text("one more"), true);
    request = prove(buffer_bytes(&envelope), buffer_bytes(&leaf), sequence);
    request.proof[0][0] ^= 1;
    assert_int_equal(ask(&request), ERROR_NOT_FOUND);
    request.proof[0][0] ^= 1;
    request.sequence = 0;
    assert_int_equal(ask(&request), ERROR_NOT_FOUND);
    request.sequence = sequence;
    request.envelopes[0] = buffer_bytes(&again);
    assert_int_equal(ask(&request), ERROR_NOT_FOUND);
    request.envelopes[0] = buffer_bytes(&envelope);
    request.leaf = bytes_of_text("{}");
    assert_int_equal(ask(&request), ERROR_INVALID);
    request.leaf = buffer_bytes(&leaf);
    assert_int_equal(identify().policy_epoch, 0);
    assert_int_equal(ask(&request), ERROR_NONE);
    assert_int_equal(ask(&request), ERROR_NONE); /* the same again */
    assert_int_equal(identify().policy_epoch, 1);
}

static void older_policy_sets_never_come_back(void **state)
{
    OWNED(ecdsa_key) *approver = NULL;
    OWNED(ecdsa_key) *other = NULL;
    uint8_t point[65], other_point[65];
    struct error err = {0};

    (void)state;
    assert_true(ecdsa_key_new(&approver, &err).ok && ecdsa_key_new(&other, &err).ok);
    ecdsa_key_public(approver, point);
    ecdsa_key_public(other, other_point);
    assert_int_equal(pin(approver, POLICY_TYPE, SET(A64, "5")), ERROR_DENIED);
    memset(other_point + 1, 0, 64);
    assert_false(keyd_pin_approver(client, other_point, &err).ok);
    assert_int_equal(err.kind, ERROR_INVALID);
    assert_true(keyd_pin_approver(client, point, &err).ok);
    assert_true(keyd_pin_approver(client, point, &err).ok);
    ecdsa_key_public(other, other_point);
    assert_false(keyd_pin_approver(client, other_point, &err).ok);
    assert_int_equal(err.kind, ERROR_DENIED);

    assert_int_equal(pin(approver, POLICY_TYPE, SET(A64, "5")), ERROR_NONE);
    assert_int_equal(pin(approver, POLICY_TYPE, SET(A64, "5")), ERROR_NONE);
    assert_int_equal(pin(approver, POLICY_TYPE, SET(B64, "5")), ERROR_DENIED);
    assert_int_equal(pin(approver, POLICY_TYPE, SET(B64, "4")), ERROR_DENIED);
    assert_int_equal(pin(other, POLICY_TYPE, SET(B64, "6")), ERROR_DENIED);
    assert_int_equal(pin(approver, "text/plain", SET(B64, "6")), ERROR_INVALID);
    assert_int_equal(pin(approver, POLICY_TYPE, "{\"epoch\":6,\"digest\":\"sha256:" B64 "\"}"), ERROR_INVALID);
    assert_int_equal(pin(approver, POLICY_TYPE, SET(B64, "0")), ERROR_INVALID);
    assert_int_equal(pin(approver, POLICY_TYPE, "{\"epoch\":6}"), ERROR_INVALID);
    (void)keyd_daemon_end(&process, SIGKILL);
    keyd_daemon_start(&process, NULL);
    assert_int_equal(pin(approver, POLICY_TYPE, SET(B64, "4")), ERROR_DENIED);
    assert_int_equal(pin(approver, POLICY_TYPE, SET(B64, "6")), ERROR_NONE);
    assert_int_equal(identify().policy_epoch, 6);
    assert_memory_equal(identify().approver_root, point, 65);
}

static void large_policy_sets_fit(void **state)
{
    OWNED(ecdsa_key) *approver = approve();
    struct buffer OWNED_BUFFER payload = BUFFER(2 << 20);
    uint8_t *place = NULL;
    struct error err = {0};

    (void)state;
    assert_true(buffer_add_text(&payload, "{\"digest\":\"sha256:" A64 "\",\"epoch\":1,\"x\":\"", &err).ok);
    const size_t room = (1 << 20) - 2 - payload.length; /* the largest set that a gateway reads */
    assert_true(buffer_reserve(&payload, room, &place, &err).ok);
    memset(place, 'x', room);
    payload.length += room;
    assert_true(buffer_add_text(&payload, "\"}", &err).ok);
    assert_int_equal(pin(approver, POLICY_TYPE, buffer_text(&payload)), ERROR_NONE);
    payload.length -= 2;
    assert_true(buffer_add_text(&payload, "x\"}", &err).ok);
    assert_int_equal(pin(approver, POLICY_TYPE, buffer_text(&payload)), ERROR_LIMIT);
    assert_int_equal(identify().policy_epoch, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_set_needs_the_event_of_its_loading, begin, stop),
        cmocka_unit_test_setup_teardown(a_draft_follows_the_set_that_it_replaces, begin, stop),
        cmocka_unit_test_setup_teardown(the_event_must_stand_in_the_log_that_was_signed, begin, stop),
        cmocka_unit_test_setup_teardown(older_policy_sets_never_come_back, begin, stop),
        cmocka_unit_test_setup_teardown(large_policy_sets_fit, begin, stop),
    };

    return cmocka_run_group_tests_name("policy sets", tests, NULL, NULL);
}
