/* From a record to the leaf and the payload of its event: an event can be written for any input of strangers. */
#include "tests/support/unit.h"

#include <stdio.h>
#include <string.h>

#include "audit/event_priv.h"
#include "base/fault.h"
#include "crypto/aead.h"

static const uint8_t subject_key[SUBJECT_KEY_SIZE] = {7};
static struct audit_subject somebody = {
    .issuer = "https://issuer.example", .subject = "alice", .pseudonym = "0f0f", .key = subject_key};

static struct decision *decision_of(const struct decision_parts *parts)
{
    struct decision *decision = NULL;
    struct error err = {0};

    assert_true(decision_make(parts, &decision, &err).ok);
    return decision;
}

static struct decision_parts parts_of(const char *name, const char *detail)
{
    struct decision_parts parts = {.verdict = VERDICT_ALLOW, .epoch = 1, .id = "sha256:00", .pair_count = 1};

    parts.pairs[0] = (struct action_pair){ACTION_BLOB_READ, {.kind = RESOURCE_REPOSITORY}};
    (void)snprintf(parts.pairs[0].resource.name, sizeof parts.pairs[0].resource.name, "%s", name);
    (void)snprintf(parts.pairs[0].resource.detail, sizeof parts.pairs[0].resource.detail, "%s", detail);
    return parts;
}

static const struct text_row {
    const char *name, *resource, *detail, *shown;
} text_rows[] = {
    {"a plain name", "acme/models/a", "v1", "acme/models/a#v1"},
    {"no detail", "acme/models/a", "", "acme/models/a"},
    {"what would begin a detail", "acme/mo#dels/a", "v#1", "acme/mo?dels/a#v#1"},
    {"what would be escaped", "acme/\"models\"/\\a", "\"", "acme/?models?/?a#?"},
    {"control characters", "acme/\x01models/\na", "\x7f", "acme/?models/?a#?"},
    {"other scripts", "acme/\xd8\xb3/a", "",
     "acme/?"
     "?/a"},
};

static void names_become_plain(void **state)
{
    const struct text_row *row = *state;
    const struct decision_parts parts = parts_of(row->resource, row->detail);
    struct record record = {.decision = decision_of(&parts), .context = {.subject = "alice"}, .resolved = &somebody};
    struct buffer OWNED_BUFFER text = BUFFER(2 * LEAF_MAX);
    struct event event;
    struct leaf leaf = {.sequence = 1};
    struct error err = {0};

    assert_true(event_of_record(&record, &event, &err).ok);
    (void)snprintf(event.source.instance, sizeof event.source.instance, "gw1");
    event_fill_leaf(&event, &leaf);
    assert_string_equal(leaf.targets[0].resource, row->shown);
    assert_string_equal(leaf.actor, "0f0f");
    assert_true(leaf_write(&leaf, &text, &err).ok); /* and it can be written */
    event_done(&event);
    decision_free(record.decision);
}

static struct change untold = {.invalidates = CHANGE_INVALIDATES_NOTHING};
static struct change told = {.detail = "sha256:00 v1 v2"};
static struct change told_of_alice = {.detail = "consumer external 1", .concerns_issuer = "i", .concerns_subject = "s"};

static const struct change_row {
    const char *name;
    struct change *change;
    struct audit_subject *concerned;
    enum verdict verdict;
    bool has_failed;
    const char *shown;
} change_rows[] = {
    {"no change", NULL, NULL, VERDICT_ALLOW, false, "acme/models/a#v1"},
    {"a change that says nothing", &untold, NULL, VERDICT_ALLOW, false, "acme/models/a#v1"},
    {"a change that says more", &told, NULL, VERDICT_ALLOW, false, "acme/models/a#sha256:00 v1 v2"},
    {"what was tried", &told, NULL, VERDICT_ALLOW, true, "acme/models/a#sha256:00 v1 v2"},
    {"what was denied", &told, NULL, VERDICT_DENY, false, "acme/models/a#v1"},
    {"somebody it concerns", &told_of_alice, &somebody, VERDICT_ALLOW, false, "acme/models/a#consumer external 1 0f0f"},
};

static void changes_say_what_they_did(void **state)
{
    const struct change_row *row = *state;
    struct decision_parts parts = parts_of("acme/models/a", "v1");
    struct event event;
    struct leaf leaf = {.sequence = 1};
    struct error err = {0};

    parts.verdict = row->verdict;
    parts.denial_count = row->verdict == VERDICT_ALLOW ? 0 : 1;
    struct record record = {.decision = decision_of(&parts), .change = row->change, .concerned = row->concerned};
    assert_true(event_of_record(&record, &event, &err).ok);
    event.has_failed = row->has_failed;
    event_fill_leaf(&event, &leaf);
    assert_string_equal(leaf.targets[0].resource, row->shown);
    event_done(&event);
    decision_free(record.decision);
}

static void a_name_is_cut_where_a_leaf_ends(void **state)
{
    char longest[RESOURCE_NAME_MAX + 1], detail[RESOURCE_DETAIL_MAX];
    struct event event;
    struct leaf leaf = {.sequence = 1};
    struct error err = {0};

    (void)state;
    memset(longest, 'n', sizeof longest - 1);
    memset(detail, 'd', sizeof detail - 1);
    longest[sizeof longest - 1] = detail[sizeof detail - 1] = '\0';
    const struct decision_parts parts = parts_of(longest, detail);
    struct record record = {.decision = decision_of(&parts), .resolved = &somebody};
    memset(record.note, 'x', sizeof record.note - 1);
    assert_true(event_of_record(&record, &event, &err).ok);
    event_fill_leaf(&event, &leaf);
    assert_true(strlen(leaf.targets[0].resource) <= LEAF_RESOURCE_MAX);
    assert_int_equal(strcspn(leaf.targets[0].resource, "#"), LEAF_NAME_MAX);
    assert_string_equal(leaf.actor, "anonymous"); /* no subject was named */
    event_done(&event);
    decision_free(record.decision);
}

/* Four rules stand in the leaf; all eight denials in the payload. */
static void denials_are_kept(void **state)
{
    struct decision_parts parts = parts_of("acme/models/a", "");
    struct buffer OWNED_BUFFER boxes = BUFFER(65536);
    struct buffer OWNED_BUFFER payload = BUFFER(65536);
    struct event event;
    struct leaf leaf = {.sequence = 1};
    struct error err = {0};

    (void)state;
    parts.verdict = VERDICT_DENY;
    parts.denial_count = DENIALS_MAX;
    for (size_t i = 0; i < DENIALS_MAX; i++) {
        (void)snprintf(parts.denials[i].rule, sizeof parts.denials[i].rule, "RULE-%zu", i);
        (void)snprintf(parts.denials[i].message, sizeof parts.denials[i].message, "message %zu", i);
    }
    struct record record = {.decision = decision_of(&parts), .resolved = &somebody};
    assert_true(event_of_record(&record, &event, &err).ok);
    assert_true(event_seal_payload(&event, &somebody, "origin", &boxes, &err).ok);
    event_fill_leaf(&event, &leaf);
    assert_int_equal(leaf.reason.rule_count, LEAF_RULES_MAX);
    assert_string_equal(leaf.outcome, "denied");
    const struct sealed_payload sealed = {subject_key, event.salt, buffer_bytes(&boxes), "origin"};
    assert_true(payload_open(&sealed, &leaf, &payload, &err).ok);
    for (size_t i = 0; i < DENIALS_MAX; i++) assert_non_null(strstr(buffer_text(&payload), parts.denials[i].rule));
    decision_free(record.decision);
}

static const struct actor_row {
    const char *name;
    const char *subject; /* of the later record */
    struct audit_subject *resolved;
    uint64_t epoch;
    bool is_later; /* an outcome under the permit of somebody else */
    const char *actor;
} actor_rows[] = {
    {"somebody", "alice", &somebody, 1, false, "0f0f"},
    {"nobody", NULL, NULL, 1, false, "anonymous"},
    {"a subject that could not be resolved", "alice", NULL, 1, false, "anonymous"},
    {"a job of the server", NULL, NULL, EPOCH_OF_JOBS, false, "system"},
    {"a later event", NULL, NULL, 1, true, "first"},
    {"a later event of another subject", "alice", &somebody, 1, true, "0f0f"},
};

static void everybody_is_named(void **state)
{
    const struct actor_row *row = *state;
    struct decision_parts parts = parts_of("acme/models/a", "");
    struct permit permit = {.actor = "first", .request = "request-1"};
    struct record record = {.context = {.subject = row->subject}, .resolved = row->resolved};
    struct event event;
    struct leaf leaf = {.sequence = 1};
    struct error err = {0};

    parts.epoch = row->epoch;
    struct decision *decision = decision_of(&parts);
    permit.decision = decision;
    if (row->is_later) record.under = &permit;
    else record.decision = decision;
    record.outcome = OUTCOME_COMPLETED;
    assert_true(event_of_record(&record, &event, &err).ok);
    if (!row->is_later) event_name_permit(&event);
    event_fill_leaf(&event, &leaf);
    assert_string_equal(leaf.actor, row->actor);
    assert_string_equal(leaf.request, row->is_later ? "request-1" : "");
    event_done(&event);
    decision_free(decision);
}

static char long_text[9000];

static const struct context_row {
    const char *name;
    struct event_context context;
    const char *payload;
} context_rows[] = {
    {"nothing known", {.user_agent = NULL}, "{}"},
    {"all of it",
     {.client_address = "192.0.2.7", .user_agent = "curl", .claims = "{}", .issuer = "i", .subject = "s"},
     "{\"address\":\"192.0.2.7\",\"agent\":\"curl\",\"claims\":\"{}\",\"issuer\":\"i\",\"subject\":\"s\"}"},
    {"an agent of control characters", {.user_agent = "a\x01"}, "{\"agent\":\"(not text)\"}"},
    {"an agent that is no UTF-8", {.user_agent = "a\xff"}, "{\"agent\":\"(not text)\"}"},
    {"an agent that is too long", {.user_agent = long_text}, "{\"agent\":\"(too long to be kept)\"}"},
    {"claims that are too long", {.claims = long_text}, "{\"claims\":\"(too long to be kept)\"}"},
};

static void payloads_hold_what_is_known(void **state)
{
    const struct context_row *row = *state;
    const struct decision_parts parts = parts_of("acme/models/a", "");
    struct record record = {.decision = decision_of(&parts), .context = row->context};
    struct buffer OWNED_BUFFER boxes = BUFFER(65536);
    struct buffer OWNED_BUFFER payload = BUFFER(65536);
    struct event event;
    struct leaf leaf = {.sequence = 1};
    struct error err = {0};

    assert_true(event_of_record(&record, &event, &err).ok);
    assert_true(event_seal_payload(&event, &somebody, "origin", &boxes, &err).ok);
    event_fill_leaf(&event, &leaf);
    const struct sealed_payload sealed = {subject_key, event.salt, buffer_bytes(&boxes), "origin"};
    assert_true(payload_open(&sealed, &leaf, &payload, &err).ok);
    assert_string_equal(buffer_text(&payload), row->payload);
    event_done(&event);
    decision_free(record.decision);
}

/* The outcome of an operation has no decision of its own, and so no denials. */
static void outcomes_have_payloads_too(void **state)
{
    const struct decision_parts parts = parts_of("acme/models/a", "");
    struct decision *decision = decision_of(&parts);
    const struct permit permit = {.decision = decision, .actor = "0f0f"};
    struct record record = {.under = &permit, .outcome = OUTCOME_FAILED, .context = {.user_agent = "curl"}};
    struct buffer OWNED_BUFFER boxes = BUFFER(65536);
    struct event event;
    struct error err = {0};

    (void)state;
    assert_true(event_of_record(&record, &event, &err).ok);
    assert_true(event_seal_payload(&event, &somebody, "origin", &boxes, &err).ok);
    assert_int_equal(boxes.length, BOX_OVERHEAD + strlen("{\"agent\":\"curl\"}"));
    event_done(&event);
    decision_free(decision);
}

/* A box opens for its own event of its own log, and for no other. */
static void payloads_belong_to_their_event(void **state)
{
    const struct decision_parts parts = parts_of("acme/models/a", "");
    struct record record = {.decision = decision_of(&parts), .context = {.user_agent = "curl"}};
    struct buffer OWNED_BUFFER boxes = BUFFER(65536);
    struct buffer OWNED_BUFFER payload = BUFFER(65536);
    struct event event;
    struct leaf leaf = {.sequence = 1};
    struct error err = {0};

    (void)state;
    assert_true(event_of_record(&record, &event, &err).ok);
    assert_true(event_seal_payload(&event, &somebody, "origin", &boxes, &err).ok);
    event_fill_leaf(&event, &leaf);
    struct sealed_payload sealed = {subject_key, event.salt, buffer_bytes(&boxes), "other"};
    assert_false(payload_open(&sealed, &leaf, &payload, &err).ok);
    sealed.origin = "origin";
    leaf.source.number++;
    assert_false(payload_open(&sealed, &leaf, &payload, &err).ok);
    leaf.source.number--;
    leaf.payload[0] ^= 1;
    assert_false(payload_open(&sealed, &leaf, &payload, &err).ok);
    assert_int_equal(err.kind, ERROR_CORRUPT);
    leaf.payload[0] ^= 1;
    leaf.has_payload = false;
    assert_false(payload_open(&sealed, &leaf, &payload, &err).ok);
    leaf.has_payload = true;
    sealed.box.length = BOX_OVERHEAD - 1;
    assert_false(payload_open(&sealed, &leaf, &payload, &err).ok);
    assert_int_equal(err.kind, ERROR_CORRUPT);
    assert_int_equal(payload.length, 0);
    sealed.box = buffer_bytes(&boxes);
    assert_true(payload_open(&sealed, &leaf, &payload, &err).ok);
    event_done(&event);
    decision_free(record.decision);
}

static struct result seal_and_open(void *decision, struct error *err)
{
    struct record record = {.decision = decision, .context = {.user_agent = "curl", .subject = "alice"}};
    struct buffer OWNED_BUFFER boxes = BUFFER(65536);
    struct buffer OWNED_BUFFER payload = BUFFER(65536);
    struct leaf leaf = {.sequence = 1};
    struct event event;

    TRY_UNTOUCHED_BYTES(event, event_of_record(&record, &event, err));
    const struct result sealed = event_seal_payload(&event, &somebody, "origin", &boxes, err);
    if (!sealed.ok) assert_false(event.has_payload);
    event_fill_leaf(&event, &leaf);
    event_done(&event);
    TRY(sealed);
    const struct sealed_payload box = {subject_key, event.salt, buffer_bytes(&boxes), "origin"};
    TRY_UNTOUCHED(payload.length, payload_open(&box, &leaf, &payload, err));
    return SUCCESS;
}

static void sealing_survives_lack_of_memory(void **state)
{
    const struct decision_parts parts = parts_of("acme/models/a", "");
    struct decision *decision = decision_of(&parts);

    (void)state;
    fail_each(seal_and_open, decision, ERROR_NO_MEMORY, 8);
    decision_free(decision);
}

int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(a_name_is_cut_where_a_leaf_ends), cmocka_unit_test(denials_are_kept),
        cmocka_unit_test(outcomes_have_payloads_too),      cmocka_unit_test(payloads_belong_to_their_event),
        cmocka_unit_test(sealing_survives_lack_of_memory),
    };

    memset(long_text, 'a', sizeof long_text - 1);
    return RUN_TABLE(text_rows, names_become_plain) + RUN_TABLE(actor_rows, everybody_is_named) +
           RUN_TABLE(change_rows, changes_say_what_they_did) + RUN_TABLE(context_rows, payloads_hold_what_is_known) +
           cmocka_run_group_tests_name("others", others, NULL, NULL);
}
