/* Signatures of requests that events keep: which are good for which event, as a verifier finds without the registry. */
#include "tests/support/made_export.h"

#include "audit/action.h"
#include "audit/format/acts_seen.h"
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

    assert_false(signed_act_check(leaf, payload, &is_signed, NULL, &err).ok);
    assert_int_equal(err.kind, ERROR_DENIED);
    assert_false(is_signed);
    if (strstr(err.message, why) == NULL) fail_msg("%s: %s", why, err.message);
}

static bool is_good(const struct leaf *leaf, const struct buffer *payload)
{
    struct error err = {0};
    bool is_signed = false;

    must(signed_act_check(leaf, buffer_bytes(payload), &is_signed, NULL, &err), &err);
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

/* ---- one signature in two events ---- */

#define ONE   "00000000-0000-4000-8000-000000000001"
#define FEW   100
#define OTHER "00000000-0000-4000-8000-000000000002"

static void add_signed(struct made_log *log, const char *outcome, const char *request, const struct buffer *payload)
{
    struct made_entry *entry = made_add(log, "robot.create", "acme/models", outcome);
    struct leaf *leaf = &entry->leaf;
    struct error err = {0};

    leaf->time_ms = clock_wall_ms();
    (void)snprintf(leaf->reason.note, sizeof leaf->reason.note, SIGNED_ACT_NOTE "%s", name);
    (void)snprintf(leaf->request, sizeof leaf->request, "%s", request);
    must(buffer_add(&entry->payload, payload->data, payload->length, &err), &err);
    leaf->has_payload = true;
    must(leaf_payload_commitment(entry->salt, buffer_bytes(&entry->payload), leaf->payload, &err), &err);
    made_write(log, entry);
}

/* What an export of these events has, by its check; or why it is refused. */
static uint64_t acts_in(struct made_log *log, char why_out[sizeof((struct error *)NULL)->message])
{
    const struct export_terms terms = {
        .until = EXPORT_NUMBER_MAX, .key = "org:acme", .nonce = "00112233445566778899aabbccddeeff", .is_opened = true};
    const uint64_t closing = made_close(log, &terms);
    OWNED_MADE_EXPORT export = {0};
    OWNED(export_check) *check = NULL;
    struct export_report report = {.acts = 0};
    struct error err = {0};
    bool is_good = true;

    made_sign(log);
    made_export_write(log, &terms, EXPORT_NDJSON, closing, &export);
    must(export_check_new(&(struct proof_trust){.vkey = buffer_bytes(&log->vkey)}, &check, &err), &err);
    for (size_t i = 0; i < export.count && is_good; i++)
        is_good = export_check_bytes(check, buffer_bytes(&export.lines[i]), &err).ok;
    if (is_good) must(export_check_end(check, &report, &err), &err);
    (void)snprintf(why_out, sizeof err.message, "%s", is_good ? "" : err.message);
    return report.acts;
}

/* A gateway in an attacker's hands makes a second event of one signature, as of another request or of the same. A denial of what the request asks besides is honest. */
static void a_signature_stands_for_one_request(void **state)
{
    static const struct {
        const char *outcomes[2], *requests[2];
        bool is_second_new; /* signed anew */
        const char *why;
    } rows[] = {
        {{"allowed", "denied"}, {ONE, ONE}, false, NULL},
        {{"denied", "allowed"}, {ONE, ONE}, false, NULL},
        {{"allowed", "allowed"}, {ONE, OTHER}, true, NULL},
        {{"allowed", "allowed"}, {ONE, OTHER}, false, "is that of an earlier request, too"},
        {{"denied", "allowed"}, {ONE, OTHER}, false, "is that of an earlier request, too"},
        {{"allowed", "allowed"}, {ONE, ONE}, false, "an earlier event has the same signature of the same request"},
        {{"failed", "allowed"}, {ONE, ONE}, false, "an earlier event has the same signature of the same request"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct buffer OWNED_BUFFER first = BUFFER(8192), second = BUFFER(8192);
        char why[sizeof((struct error *)NULL)->message];
        OWNED_MADE_LOG log = {0};
        write_payload(key, "POST", TARGET, &first);
        write_payload(key, "POST", TARGET, &second);
        made_log_begin(&log, 11 + i);
        add_signed(&log, rows[i].outcomes[0], rows[i].requests[0], &first);
        add_signed(&log, rows[i].outcomes[1], rows[i].requests[1], rows[i].is_second_new ? &second : &first);
        const uint64_t acts = acts_in(&log, why);
        assert_int_equal(acts, rows[i].why == NULL ? 2 : 0);
        if (rows[i].why == NULL ? why[0] != '\0' : strstr(why, rows[i].why) == NULL) fail_msg("row %zu: %s", i, why);
    }
}

/* Signatures that are too old to be good again are forgotten, and not before. So many that they can't be compared are refused. */
static void old_signatures_are_forgotten(void **state)
{
    struct leaf leaf = {.time_ms = 1, .outcome = "allowed", .request = ONE};
    struct signed_act_id id = {{0}};
    struct acts_seen seen;
    struct error err = {0};
    const char *why = NULL;

    (void)state;
    acts_seen_init(&seen, FEW);
    for (uint32_t i = 0; i < 4 * FEW; i++) {
        store_u32(id.digest, i);
        must(acts_seen_add(&seen, &leaf, &id, &why, &err), &err);
        if ((why == NULL) != (i < FEW)) fail_msg("%u: %s", i, why);
    }
    store_u32(id.digest, 0);
    leaf.time_ms += 2 * SIGNED_ACT_LATE_S * 1000 + 999; /* as far apart as two good times can be */
    must(acts_seen_add(&seen, &leaf, &id, &why, &err), &err);
    assert_non_null(strstr(why, "the same request"));
    leaf.time_ms += 2;
    for (uint32_t i = 0; i < FEW; i++) {
        store_u32(id.digest, i);
        must(acts_seen_add(&seen, &leaf, &id, &why, &err), &err);
        assert_null(why);
    }
    acts_seen_done(&seen);
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
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_signature_is_found), cmocka_unit_test(another_signature_is_refused),
        cmocka_unit_test(a_signature_stands_for_one_request), cmocka_unit_test(old_signatures_are_forgotten),
        cmocka_unit_test(each_action_has_its_name)};

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
