/* Signatures of requests that events keep: which are good for which event, as a verifier finds without the registry. */
#include "tests/support/unit.h"

#include <stdio.h>
#include <string.h>

#include "audit/action.h"
#include "audit/format/signed_act.h"
#include "base/clock.h"
#include "base/json.h"
#include "client/dpop.h"

#define TARGET "/api/v1/robots"

static struct ecdsa_key *key, *other;
static char name[ECDSA_THUMBPRINT_SIZE], other_name[ECDSA_THUMBPRINT_SIZE];

static void make(struct ecdsa_key **key_out, char *name_out)
{
    uint8_t point[ECDSA_PUBLIC_SIZE];
    struct error err = {0};

    must(ecdsa_key_new(key_out, &err), &err);
    ecdsa_key_public(*key_out, point);
    ecdsa_thumbprint(point, name_out);
}

static int set_up(void **state)
{
    (void)state;
    make(&key, name);
    make(&other, other_name);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    ecdsa_key_free(key);
    ecdsa_key_free(other);
    return 0;
}

/* {"act": what the client sends} */
static void write_payload(const struct ecdsa_key *by, const char *method, const char *target, struct buffer *payload)
{
    const struct dpop_call call = {method, "https://reg.example/api/v1/robots", "Bearer a.token", "AAAAAAAAAAAAAAAAAAAAAA"};
    const struct dpop_act act = {target, bytes_of_text("{}")};
    struct error err = {0};

    must(buffer_add_text(payload, "{\"act\":\"", &err), &err);
    must(dpop_write_act(by, &call, &act, payload, &err), &err);
    must(buffer_add_text(payload, "\"}", &err), &err);
}

/* When the payload says that it was signed. */
static int64_t signed_s(const struct buffer *payload)
{
    OWNED_SIGNED_ACT act = {.proof = {.claims = NULL}};
    OWNED_JSON value = NULL;
    struct error err = {0};

    must(json_read(buffer_bytes(payload), payload->length, &value, &err), &err);
    must(signed_act_read(json_text_of(value, "act"), &act, &err), &err);
    assert_string_equal(act.target, TARGET);
    assert_string_equal(act.body, "RBNvo1WzZ4oRRq0W9-hknpT7T8If536DEMBg9hyq_4o");
    return act.issued_s;
}

static void event(struct leaf *leaf, const char *action, const char *outcome, const char *note)
{
    *leaf = (struct leaf){.target_count = 1, .time_ms = clock_wall_ms()};
    (void)snprintf(leaf->targets[0].action, sizeof leaf->targets[0].action, "%s", action);
    (void)snprintf(leaf->outcome, sizeof leaf->outcome, "%s", outcome);
    (void)snprintf(leaf->reason.note, sizeof leaf->reason.note, "%s", note);
}

static void refused(const struct leaf *leaf, struct bytes payload, const char *why)
{
    struct error err = {0};
    bool is_signed = true;

    assert_false(signed_act_check(leaf, payload, &is_signed, &err).ok);
    assert_int_equal(err.kind, ERROR_DENIED);
    assert_false(is_signed);
    if (strstr(err.message, why) == NULL) fail_msg("%s: %s", why, err.message);
}

static bool is_good(const struct leaf *leaf, const struct buffer *payload)
{
    struct error err = {0};
    bool is_signed = false;

    must(signed_act_check(leaf, buffer_bytes(payload), &is_signed, &err), &err);
    return is_signed;
}

static void a_good_signature_is_found(void **state)
{
    struct buffer OWNED_BUFFER payload = BUFFER(8192);
    char note[80];
    struct leaf leaf;

    (void)state;
    write_payload(key, "POST", TARGET, &payload);
    (void)snprintf(note, sizeof note, SIGNED_ACT_NOTE "%s", name);
    event(&leaf, "robot.create", "allowed", note);
    assert_true(is_good(&leaf, &payload));
    (void)snprintf(note, sizeof note, SIGNED_ACT_NOTE "%s; a repeat: nothing done", name);
    event(&leaf, "robot.create", "allowed", note);
    assert_true(is_good(&leaf, &payload));
    leaf.reason.has_decided = true;
    leaf.reason.decided_ms = (uint64_t)(signed_s(&payload) + 60) * 1000;
    assert_true(is_good(&leaf, &payload));
    event(&leaf, "robot.create", "allowed", "signed by somebody");
    assert_false(is_good(&leaf, &payload));
    event(&leaf, "binding.create", "denied", note); /* what a handler asked besides */
    assert_true(is_good(&leaf, &payload));
}

static void another_signature_is_refused(void **state)
{
    struct buffer OWNED_BUFFER mine = BUFFER(8192), others = BUFFER(8192), elsewhere = BUFFER(8192), looked = BUFFER(8192);
    char note[80];
    struct leaf leaf;

    (void)state;
    (void)snprintf(note, sizeof note, SIGNED_ACT_NOTE "%s", name);
    event(&leaf, "robot.create", "allowed", note);
    write_payload(key, "POST", TARGET, &mine);
    write_payload(other, "POST", TARGET, &others);
    write_payload(key, "POST", TARGET "/7/secret", &elsewhere);
    write_payload(key, "GET", TARGET, &looked);
    refused(&leaf, buffer_bytes(&others), "by another key");
    refused(&leaf, buffer_bytes(&elsewhere), "over another request");
    refused(&leaf, buffer_bytes(&looked), "over another request");
    refused(&leaf, bytes_of_text("{}"), "has no signature");
    refused(&leaf, bytes_of_text("{\"act\":\"a.b.c\"}"), "not that of its key");
    leaf.reason.has_decided = true;
    leaf.reason.decided_ms = (uint64_t)(signed_s(&mine) + SIGNED_ACT_LATE_S + 1) * 1000;
    refused(&leaf, buffer_bytes(&mine), "at another time");
    leaf.reason.decided_ms = (uint64_t)(signed_s(&mine) - SIGNED_ACT_LATE_S - 1) * 1000;
    refused(&leaf, buffer_bytes(&mine), "at another time");
    leaf.reason.decided_ms = (uint64_t)signed_s(&mine) * 1000;
    leaf.time_ms = (signed_s(&mine) + SIGNED_ACT_LATE_S + 1) * 1000; /* a decision of then, in an event of now */
    refused(&leaf, buffer_bytes(&mine), "at another time");
    leaf.reason.has_decided = false;
    refused(&leaf, buffer_bytes(&mine), "at another time");
    leaf.time_ms = (signed_s(&mine) - SIGNED_ACT_LATE_S - 1) * 1000;
    refused(&leaf, buffer_bytes(&mine), "at another time");
    event(&leaf, "issuer.trust", "allowed", note);
    refused(&leaf, buffer_bytes(&mine), "over another request");
    event(&leaf, "robot.create", "allowed", note);
    mine.data[mine.length - 10] = mine.data[mine.length - 10] == 'A' ? 'B' : 'A';
    refused(&leaf, buffer_bytes(&mine), "not that of its key");
}

/* The names in the table are those of the log. */
static void each_action_has_its_name(void **state)
{
    static const struct {
        enum action action;
        const char *name, *method, *target;
    } rows[] = {
#define ACT(id, action, method, target) {id, action, method, target},
#include "audit/format/acts.def"
#undef ACT
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        assert_string_equal(action_name(rows[i].action), rows[i].name);
        assert_true(signed_act_fits(rows[i].name, rows[i].method, rows[i].target));
        assert_false(signed_act_fits(rows[i].name, "GET", rows[i].target));
        assert_false(signed_act_fits("blob.read", rows[i].method, rows[i].target));
    }
    assert_true(signed_act_fits("robot.create", "POST", "/api/v1/robots?a=b"));
    assert_false(signed_act_fits("robot.create", "POST", "/api/v1/robotsx"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_good_signature_is_found),
                                       cmocka_unit_test(another_signature_is_refused),
                                       cmocka_unit_test(each_action_has_its_name)};

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
