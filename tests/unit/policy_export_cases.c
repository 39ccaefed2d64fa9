/* A policy set for outsiders: what its file proves, and what it does not. */
#include "tests/support/made_proof.h"
#include "tests/support/policy.h"
#include "tests/unit/policy_parts.h"

#include "audit/format/policy_load.h"
#include "base/text.h"
#include "policy/set_export.h"
#include "policy/set_text.h"
#include "tests/unit/default_set_fixture.h"

#define LOADED_MS 1795780800000 /* 2026-11-27T12:00:00Z */

/* A registry's log whose entry 1 loads a set that `root` has signed. */
struct sample {
    struct made made;
    struct ecdsa_key *root;
    struct buffer envelope, file;
};

static void sample_done(struct sample *sample)
{
    made_release(&sample->made);
    ecdsa_key_free(sample->root);
    buffer_done(&sample->envelope);
    buffer_done(&sample->file);
}
#define OWNED_SAMPLE __attribute__((cleanup(sample_done))) struct sample

static void sign_set(const struct sample *sample, uint64_t epoch, struct buffer *envelope)
{
    const struct policy_default_options options = {.epoch = epoch, .region = "local/main", .now_ms = LOADED_MS};
    struct buffer OWNED_BUFFER payload = BUFFER(POLICY_SET_BYTES_MAX);
    struct error err = {0};

    payload_of(&options, &payload);
    must(policy_set_sign(buffer_bytes(&payload), sample->root, envelope, &err), &err);
}

/* The event that loads this envelope, by `action` and with `outcome`. */
static void write_event(struct sample *sample, const struct buffer *envelope, const char *action, const char *outcome)
{
    struct leaf leaf = {.version = LEAF_VERSION,
                        .sequence = 1,
                        .time_ms = LOADED_MS,
                        .source = {"test", 1, 1},
                        .class_uid = 600301,
                        .actor = "system",
                        .target_count = 1};
    OWNED(policy_set) *set = NULL;
    char detail[POLICY_LOAD_DETAIL_SIZE];
    uint8_t digest[32];
    struct error err = {0};

    must(policy_set_read(buffer_bytes(envelope), sample->root, &set, &err), &err);
    assert_true(text_from_hex(bytes_of_text(policy_set_digest(set) + 7), digest, sizeof digest));
    policy_load_detail(buffer_bytes(envelope), policy_set_epoch(set), digest, detail);
    (void)snprintf(leaf.targets[0].action, sizeof leaf.targets[0].action, "%s", action);
    (void)snprintf(leaf.targets[0].resource, sizeof leaf.targets[0].resource, "#%s", detail);
    (void)snprintf(leaf.outcome, sizeof leaf.outcome, "%s", outcome);
    leaf_fill_keys(&leaf);
    for (size_t i = 0; i < leaf.key_count; i++) leaf.keys[i].ordinal = 1;
    must(leaf_write(&leaf, &sample->made.entry, &err), &err);
}

static void write_file(struct sample *sample)
{
    const struct set_export_parts parts = {.envelope = buffer_bytes(&sample->envelope),
                                           .entry = buffer_bytes(&sample->made.entry),
                                           .proof = buffer_bytes(&sample->made.proof)};
    struct error err = {0};

    must(set_export_write(&parts, &sample->file, &err), &err);
}

static void sample_begin(struct sample *sample)
{
    struct error err = {0};

    *sample = (struct sample){.envelope = BUFFER(POLICY_SET_ENVELOPE_MAX), .file = BUFFER(SET_EXPORT_MAX)};
    made_begin(&sample->made, NOTE_ED25519);
    must(ecdsa_key_new(&sample->root, &err), &err);
    sign_set(sample, 7, &sample->envelope);
}

static struct result check(const struct sample *sample, const struct ecdsa_key *root, struct set_export_report *report,
                           struct error *err)
{
    const struct proof_trust trust = {.vkey = buffer_bytes(&sample->made.vkey)};

    return set_export_check(buffer_bytes(&sample->file), &trust, root, report, err);
}

static void a_true_file_is_verified(void **state)
{
    struct buffer OWNED_BUFFER text = BUFFER(SET_TEXT_MAX), json = BUFFER(65536);
    struct set_export_report report = {.set = NULL};
    OWNED_SAMPLE sample;
    struct error err = {0};

    (void)state;
    sample_begin(&sample);
    write_event(&sample, &sample.envelope, POLICY_LOAD_ACTION, POLICY_LOAD_OUTCOME);
    made_prove(&sample.made, MADE_ORIGIN, false);
    write_file(&sample);
    must(check(&sample, sample.root, &report, &err), &err);
    must(set_export_report_text(&report, &text, &err), &err);
    must(set_export_report_json(&report, &json, &err), &err);
    set_export_report_done(&report);
    assert_non_null(strstr(buffer_text(&text), "Verified: the policy set of epoch 7"));
    assert_non_null(strstr(buffer_text(&text), "at 2026-11-27T12:00:00"));
    assert_non_null(strstr(buffer_text(&text), "that sijil-keyd has refused"));
    assert_non_null(strstr(buffer_text(&text), "that no later set is in force"));
    assert_non_null(strstr(buffer_text(&text), "registry-default@1"));
    assert_non_null(strstr(buffer_text(&json), "\"verified\":true"));
    assert_non_null(strstr(buffer_text(&json), "\"epoch\":7"));
}

#define ZEROS "sha256:0000000000000000000000000000000000000000000000000000000000000000"
#define LEAVE                                                                                                                       \
    "[{\"apiVersion\":\"sijil.policy/v1\",\"kind\":\"ResidencyException\",\"id\":\"x1\",\"type\":\"t\",\"policy\":{\"id\":\"one\"," \
    "\"version\":1,\"digest\":\"" ZEROS "\"},\"project\":\"10000000-0000-4000-8000-000000000001\",\"lifts\":[\"R-1\"],"             \
    "\"ops\":[\"ingest\"],\"targets\":[\"azure/one\"],\"digests\":[\"" ZEROS "\"],\"not_before\":\"2026-11-01T00:00:00Z\","         \
    "\"not_after\":\"2026-12-01T00:00:00Z\",\"evidence\":{\"file\":\"" ZEROS                                                        \
    "\"},\"requested_by\":{\"iss\":\"i\",\"sub\":\"c\"},"                                                                           \
    "\"approvals\":[{\"iss\":\"i\",\"sub\":\"a\"},{\"iss\":\"i\",\"sub\":\"b\"}]}]"

/* The root's signature is there, and nothing shows that those whom the exception names have signed: sijil-keyd would not have pinned the set. */
static void exceptions_need_the_sets_before(void **state)
{
    struct buffer OWNED_BUFFER payload = BUFFER(POLICY_SET_BYTES_MAX);
    struct set_export_report report = {.set = NULL};
    OWNED_JSON exceptions = policy_json(LEAVE);
    const struct policy_set_parts parts = {.epoch = 7, .exceptions = exceptions};
    OWNED_SAMPLE sample;
    struct error err = {0};

    (void)state;
    sample_begin(&sample);
    must(policy_set_compose(&parts, &payload, &err), &err);
    buffer_clear(&sample.envelope);
    must(policy_set_sign(buffer_bytes(&payload), sample.root, &sample.envelope, &err), &err);
    write_event(&sample, &sample.envelope, POLICY_LOAD_ACTION, POLICY_LOAD_OUTCOME);
    made_prove(&sample.made, MADE_ORIGIN, false);
    write_file(&sample);
    assert_false(check(&sample, sample.root, &report, &err).ok);
    assert_int_equal(err.kind, ERROR_DENIED);
    if (strstr(err.message, "whom they name have signed") == NULL) fail_msg("%s", err.message);
    assert_null(report.set);
}

static const struct event_row {
    const char *name, *action, *outcome;
    uint64_t epoch; /* of the set that the event is about */
    bool signs_again;
    const char *said;
} event_rows[] = {
    {"another action", "policy.read", "allowed", 7, false, "no event that loads"},
    {"a load that was refused", "policy.load", "denied", 7, false, "no event that loads"},
    {"a load that failed", "policy.load", "failed", 7, false, "no event that loads"},
    {"another set", "policy.load", "allowed", 8, false, "loads another policy set"},
    {"another signature of the same set", "policy.load", "allowed", 7, true, "loads another policy set, or another signature"},
};

static void other_events_prove_nothing(void **state)
{
    const struct event_row *row = *state;
    struct buffer OWNED_BUFFER other = BUFFER(POLICY_SET_ENVELOPE_MAX);
    struct set_export_report report = {.set = NULL};
    OWNED_SAMPLE sample;
    struct error err = {0};

    sample_begin(&sample);
    sign_set(&sample, row->epoch, &other);
    write_event(&sample, row->signs_again || row->epoch != 7 ? &other : &sample.envelope, row->action, row->outcome);
    made_prove(&sample.made, MADE_ORIGIN, false);
    write_file(&sample);
    assert_false(check(&sample, sample.root, &report, &err).ok);
    assert_int_equal(err.kind, ERROR_DENIED);
    if (strstr(err.message, row->said) == NULL) fail_msg("%s", err.message);
    assert_null(report.set);
}

static void other_keys_prove_nothing(void **state)
{
    struct set_export_report report = {.set = NULL};
    OWNED_SAMPLE sample;
    OWNED_MADE strange;
    OWNED(ecdsa_key) *other = NULL;
    struct error err = {0};

    (void)state;
    sample_begin(&sample);
    write_event(&sample, &sample.envelope, POLICY_LOAD_ACTION, POLICY_LOAD_OUTCOME);
    made_prove(&sample.made, MADE_ORIGIN, false);
    write_file(&sample);
    must(ecdsa_key_new(&other, &err), &err);
    assert_false(check(&sample, other, &report, &err).ok);
    assert_int_equal(err.kind, ERROR_DENIED);

    made_begin(&strange, NOTE_ED25519);
    const struct proof_trust trust = {.vkey = buffer_bytes(&strange.vkey)};
    assert_false(set_export_check(buffer_bytes(&sample.file), &trust, sample.root, &report, &err).ok);
    assert_int_equal(err.kind, ERROR_DENIED);
}

static const struct form_row {
    const char *name, *from, *to;
} form_rows[] = {
    {"another kind", "\"PolicySetExport\"", "\"PolicySet\""},
    {"another version", "sijil.policy/v1", "sijil.policy/v2"},
    {"no entry", "\"entry\":", "\"entri\":"},
    {"no proof", "\"proof\":", "\"proov\":"},
    {"no envelope", "\"envelopes\":", "\"envelope\":"},
    {"a member more", "{\"apiVersion\"", "{\"checked\":true,\"apiVersion\""},
    {"a second envelope", "],\"kind\"", ",\"x\"],\"kind\""},
    {"no JSON", "{\"apiVersion\"", "[\"apiVersion\""},
};

static void another_form_is_refused(void **state)
{
    const struct form_row *row = *state;
    struct buffer OWNED_BUFFER changed = BUFFER(SET_EXPORT_MAX);
    struct set_export_report report = {.set = NULL};
    OWNED_SAMPLE sample;
    struct error err = {0};

    sample_begin(&sample);
    write_event(&sample, &sample.envelope, POLICY_LOAD_ACTION, POLICY_LOAD_OUTCOME);
    made_prove(&sample.made, MADE_ORIGIN, false);
    write_file(&sample);
    const char *text = buffer_text(&sample.file), *at = strstr(text, row->from);
    assert_non_null(at);
    must(buffer_format(&changed, &err, "%.*s%s%s", (int)(at - text), text, row->to, at + strlen(row->from)), &err);
    buffer_clear(&sample.file);
    must(buffer_add(&sample.file, changed.data, changed.length, &err), &err);
    assert_false(check(&sample, sample.root, &report, &err).ok);
    assert_int_equal(err.kind, ERROR_INVALID);
}

static struct result check_one(void *context, struct error *err)
{
    const struct sample *sample = context;
    struct buffer OWNED_BUFFER text = BUFFER(SET_TEXT_MAX);
    struct set_export_report report = {.set = NULL};

    TRY(check(sample, sample->root, &report, err));
    const struct result told = set_export_report_text(&report, &text, err);
    set_export_report_done(&report);
    return told;
}

static void checking_survives_lack_of_memory(void **state)
{
    OWNED_SAMPLE sample;

    (void)state;
    sample_begin(&sample);
    write_event(&sample, &sample.envelope, POLICY_LOAD_ACTION, POLICY_LOAD_OUTCOME);
    made_prove(&sample.made, MADE_ORIGIN, false);
    write_file(&sample);
    fail_each(check_one, &sample, ERROR_NO_MEMORY, 50);
}

int policy_export_cases(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(a_true_file_is_verified),
        cmocka_unit_test(exceptions_need_the_sets_before),
        cmocka_unit_test(other_keys_prove_nothing),
        cmocka_unit_test(checking_survives_lack_of_memory),
    };

    return RUN_TABLE(event_rows, other_events_prove_nothing) + RUN_TABLE(form_rows, another_form_is_refused) +
           cmocka_run_group_tests_name("others", others, NULL, NULL);
}
