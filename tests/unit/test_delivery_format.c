/* What a peer gets: events without what is left out, CloudEvents, syslog with lengths, signatures of Standard Webhooks. */
#include "tests/support/unit.h"

#include <stdio.h>

#include "base/json.h"
#include "base/text.h"
#include "delivery/peer_priv.h"
#include "delivery/secret.h"

#define ORIGIN "registry.example/audit"
#define TEXT   "{\"leaf\":1}"

static struct leaf leaf_of(const char *outcome)
{
    struct leaf leaf = {
        .version = 2, .sequence = 4711, .time_ms = INT64_C(1795000000123), .class_uid = 600302, .target_count = 1};

    memset(leaf.actor, 'a', 64);
    (void)snprintf(leaf.outcome, sizeof leaf.outcome, "%s", outcome);
    (void)snprintf(leaf.request, sizeof leaf.request, "00000000-0000-4000-8000-000000000001");
    (void)snprintf(leaf.targets[0].action, sizeof leaf.targets[0].action, "manifest.read");
    (void)snprintf(leaf.targets[0].resource, sizeof leaf.targets[0].resource, "acme/models/digits#sha256:abc");
    (void)snprintf(leaf.targets[0].region, sizeof leaf.targets[0].region, "ae/dxb");
    leaf.reason.rule_count = 1;
    (void)snprintf(leaf.reason.rules[0], sizeof leaf.reason.rules[0], "H-READ-AE");
    return leaf;
}

static json_t *written(unsigned hides, const char *payload)
{
    struct buffer OWNED_BUFFER line = BUFFER(DELIVERY_MESSAGE_MAX);
    struct audit_sink sink = {.classes = 7, .hides = {[SINK_API_ACTIVITY] = hides}};
    const struct leaf leaf = leaf_of("denied");
    const struct delivery_event event = {&sink, ORIGIN, &leaf, bytes_of_text(TEXT), bytes_of_text(payload)};
    struct error err = {0};
    json_t *value = NULL;

    must(delivery_message_write(&event, &line, &err), &err);
    assert_null(memchr(line.data, '\n', line.length));
    must(json_read(buffer_bytes(&line), line.length, &value, &err), &err);
    return value;
}

static void names_number_and_log(void **state)
{
    OWNED_JSON event = written(0, "");
    const json_t *metadata = json_object_get(event, "metadata");

    (void)state;
    assert_int_equal(json_integer_value(json_object_get(metadata, "sequence")), 4711);
    assert_string_equal(json_text_of(metadata, "uid"), ORIGIN "/4711");
    assert_string_equal(json_text_of(event, "raw_data"), TEXT);
    assert_string_equal(json_text_of(json_object_get(event, "src_endpoint"), "name"), "sealed");
    assert_string_equal(json_text_of(event, "status_detail"), "H-READ-AE");
}

static void shows_names_of_an_opened_payload(void **state)
{
    OWNED_JSON event =
        written(0, "{\"address\":\"192.0.2.7\",\"agent\":\"oras\",\"issuer\":\"https://i\",\"subject\":\"alice\"}");
    const json_t *user = json_object_get(json_object_get(event, "actor"), "user");

    (void)state;
    assert_string_equal(json_text_of(user, "name"), "alice");
    assert_string_equal(json_text_of(json_object_get(event, "src_endpoint"), "ip"), "192.0.2.7");
}

static const struct hidden_row {
    const char *name;
    enum sink_field field;
    const char *gone; /* that nothing of the line has */
} hidden_rows[] = {
    {"actor", SINK_HIDES_ACTOR, "aaaa"},
    {"resource", SINK_HIDES_RESOURCE, "acme"},
    {"detail", SINK_HIDES_DETAIL, "sha256"},
    {"region", SINK_HIDES_REGION, "ae/dxb"},
    {"rules", SINK_HIDES_RULES, "H-READ"},
    {"request", SINK_HIDES_REQUEST, "00000000-0000"},
    {"the leaf itself", SINK_HIDES_RAW, "raw_data"},
};

static void leaves_out_what_is_hidden(void **state)
{
    const struct hidden_row *row = *state;
    OWNED_JSON whole = written(0, "");
    OWNED_JSON event = written(1U << row->field, "{\"address\":\"192.0.2.7\",\"subject\":\"alice\"}");
    char *before = json_dumps(whole, 0), *after = json_dumps(event, 0);

    assert_true(before != NULL && after != NULL);
    assert_non_null(strstr(before, row->gone));
    assert_null(strstr(after, row->gone));
    assert_null(strstr(after, "raw_data"));
    if (row->field == SINK_HIDES_ACTOR) assert_null(strstr(after, "alice"));
    if (row->field == SINK_HIDES_ACTOR) assert_null(strstr(after, "192.0.2.7"));
    free(before);
    free(after);
}

/* ---- alarms ---- */

static const struct alarm_row {
    const char *name;
    enum sink_field field;
    bool stays; /* the text, which has the actor's pseudonym */
} alarm_rows[] = {{"actor", SINK_HIDES_ACTOR, false},
                  {"resource", SINK_HIDES_RESOURCE, false},
                  {"detail", SINK_HIDES_DETAIL, false},
                  {"request", SINK_HIDES_REQUEST, true}};

/* An alarm is made by the system, and its text names the actor that it is about. */
static void leaves_the_text_of_an_alarm_out(void **state)
{
    const struct alarm_row *row = *state;
    struct buffer OWNED_BUFFER line = BUFFER(DELIVERY_MESSAGE_MAX);
    const struct audit_sink sink = {.hides = {[SINK_DETECTION_FINDING] = 1U << row->field}};
    struct leaf leaf = leaf_of("allowed");
    const struct delivery_event event = {&sink, ORIGIN, &leaf, bytes_of_text(TEXT), {0}};
    struct error err = {0};

    leaf.class_uid = 200401;
    (void)snprintf(leaf.actor, sizeof leaf.actor, "system");
    (void)snprintf(leaf.targets[0].action, sizeof leaf.targets[0].action, "alarm.raise");
    (void)snprintf(leaf.targets[0].resource, sizeof leaf.targets[0].resource, "#denial-burst severity=3 actor=5f0c count=20");
    must(delivery_message_write(&event, &line, &err), &err);
    assert_int_equal(strstr(buffer_text(&line), "5f0c") != NULL, row->stays);
    assert_non_null(strstr(buffer_text(&line), "finding_info"));
}

static void says_a_problem_in_plain_letters(void **state)
{
    struct peer_outcome outcome = {.is_taken = true};

    (void)state;
    peer_refuse(&outcome, "the certificate of %s\n", "h\xc3");
    assert_string_equal(outcome.problem, "the certificate of h??");
    assert_false(outcome.is_taken);
}

/* ---- batches ---- */

static struct delivery_batch *batch_of(void)
{
    struct delivery_batch *batch = NULL;
    struct error err = {0};

    must(delivery_batch_new(&batch, &err), &err);
    must(buffer_add_text(&batch->text, "{\"a\":1}", &err), &err);
    must(delivery_withheld_write(8, 9, &batch->text, &err), &err);
    batch->count = 2;
    batch->from = 7;
    batch->next = 10;
    batch->messages[0] =
        (struct delivery_message){.first = 7, .last = 7, .has_failed = true, .time_ms = INT64_C(1795000000123), .length = 7};
    batch->messages[1] = (struct delivery_message){.first = 8,
                                                   .last = 9,
                                                   .is_withheld = true,
                                                   .time_ms = INT64_C(1795000000456),
                                                   .offset = 7,
                                                   .length = batch->text.length - 7};
    return batch;
}

static void makes_cloud_events(void **state)
{
    OWNED(delivery_batch) *batch = batch_of();
    struct buffer OWNED_BUFFER body = BUFFER(4096);
    struct error err = {0};

    (void)state;
    must(cloud_events_write(batch, ORIGIN, &body, &err), &err);
    assert_string_equal(
        buffer_text(&body),
        "[{\"data\":{\"a\":1},\"datacontenttype\":\"application/json\",\"id\":\"7\",\"sequence\":\"00000000000000000007\","
        "\"source\":\"//registry.example/audit\",\"specversion\":\"1.0\",\"time\":\"2026-11-18T11:06:40.123Z\","
        "\"type\":\"sijil.audit.event\"},{\"data\":{\"first\":8,\"last\":9,\"withheld\":true},"
        "\"datacontenttype\":\"application/json\",\"id\":\"8\",\"sequence\":\"00000000000000000008\","
        "\"source\":\"//registry.example/audit\",\"specversion\":\"1.0\",\"time\":\"2026-11-18T11:06:40.456Z\","
        "\"type\":\"sijil.audit.withheld\"}]");
}

static void makes_syslog_with_lengths(void **state)
{
    static const char
        one[] = "<108>1 2026-11-18T11:06:40.123Z registry.example sijil - event - {\"a\":1}",
        two[] = "<110>1 2026-11-18T11:06:40.456Z registry.example sijil - withheld - {\"first\":8,\"last\":9,\"withheld\":true}";
    OWNED(delivery_batch) *batch = batch_of();
    struct buffer OWNED_BUFFER text = BUFFER(4096);
    char wanted[512];
    struct error err = {0};

    (void)state;
    must(syslog_write(batch, ORIGIN, &text, &err), &err);
    (void)snprintf(wanted, sizeof wanted, "%zu %s%zu %s", strlen(one), one, strlen(two), two);
    assert_string_equal(buffer_text(&text), wanted);
}

/* ---- webhooks ---- */

/* The example of the specification (Standard Webhooks 1.0, "Signature scheme"). */
static void signs_as_the_specification(void **state)
{
    struct buffer OWNED_BUFFER key = BUFFER(64), signatures = BUFFER(512);
    OWNED(secret) *secret = NULL;
    struct error err = {0};

    (void)state;
    must(text_from_base64(&key, BASE64_STANDARD, bytes_of_text("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"), &err), &err);
    must(secret_copy(buffer_bytes(&key), &secret, &err), &err);
    const struct bytes message = bytes_of_text("msg_p5jXN8AQM9LWM0D4loKWxJek.1614265330.{\"test\": 2432232314}");
    must(sink_secret_sign(secret, false, message, &signatures, &err), &err);
    assert_string_equal(buffer_text(&signatures), "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    must(sink_secret_sign(secret, false, message, &signatures, &err), &err);
    assert_non_null(strstr(buffer_text(&signatures), "OE= v1,g0h"));
}

static const struct wait_row {
    const char *name, *line;
    unsigned seconds;
} wait_rows[] = {
    {"seconds", "Retry-After: 120\r\n", 120},
    {"small letters", "retry-after:7\r\n", 7},
    {"blanks", "Retry-After: \t 9  \r\n", 9},
    {"a day", "Retry-After: 86400\r\n", PEER_WAIT_MAX_S},
    {"too many", "Retry-After: 99999999999999999999\r\n", 0},
    {"a date", "Retry-After: Fri, 27 Nov 2026 07:28:00 GMT\r\n", 0},
    {"a negative number", "Retry-After: -1\r\n", 0},
    {"nothing", "Retry-After:\r\n", 0},
    {"another line", "Retry-Afterwards: 5\r\n", 0},
    {"a part", "Retry-Aft", 0},
};

static void reads_how_long_to_wait(void **state)
{
    const struct wait_row *row = *state;

    assert_int_equal(retry_after_of(bytes_of_text(row->line)), row->seconds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_number_and_log),       cmocka_unit_test(shows_names_of_an_opened_payload),
        cmocka_unit_test(makes_cloud_events),         cmocka_unit_test(makes_syslog_with_lengths),
        cmocka_unit_test(signs_as_the_specification), cmocka_unit_test(says_a_problem_in_plain_letters),
    };
    int failed = RUN_TABLE(hidden_rows, leaves_out_what_is_hidden);

    failed += RUN_TABLE(alarm_rows, leaves_the_text_of_an_alarm_out);
    failed += RUN_TABLE(wait_rows, reads_how_long_to_wait);
    return failed + cmocka_run_group_tests(tests, NULL, NULL);
}
