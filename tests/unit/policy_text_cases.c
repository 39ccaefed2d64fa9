/* A set as a person reads it: nothing is left out, no line is too wide, and no text of others steers the terminal. */
#include "tests/support/unit.h"
#include "tests/unit/policy_parts.h"

#include <string.h>

#include "base/terminal_text.h"
#include "policy/set_priv.h"
#include "policy/set_text.h"
#include "policy/template.h"
#include "tests/support/policy.h"

#define NOW_MS 1795780800000 /* 2026-11-27T12:00:00Z */
#define DIGEST "sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

static const struct set_reading whole = {.now_ms = NOW_MS};

/* `more` is one of the parts beside the four samples and the catalogue; NULL: none. */
static struct policy_set *sample_set(const char *part, const char *more)
{
    OWNED_JSON world = policy_example("regions");
    OWNED_JSON policies = policy_examples();
    OWNED_JSON added = more == NULL ? NULL : policy_json(more);
    struct buffer OWNED_BUFFER payload = BUFFER(POLICY_SET_BYTES_MAX);
    struct policy_set *set = NULL;
    struct error err = {0};
    struct policy_set_parts parts = {.epoch = 7,
                                     .policies = policies,
                                     .regions = json_object_get(world, "regions"),
                                     .groups = json_object_get(world, "groups")};

    if (part != NULL && strcmp(part, "exceptions") == 0) parts.exceptions = added;
    if (part != NULL && strcmp(part, "networks") == 0) parts.networks = added;
    if (part != NULL && strcmp(part, "declassified") == 0) parts.declassified = added;
    if (part != NULL && strcmp(part, "policies") == 0) parts.policies = added;
    if (!policy_set_compose(&parts, &payload, &err).ok) fail_msg("%s", err.message);
    assert_true(policy_set_compile(buffer_bytes(&payload), &set, &err).ok);
    return set;
}

static void text_of(const struct policy_set *set, const struct set_reading *reading, struct buffer *text)
{
    struct error err = {0};

    if (!policy_set_text(set, reading, text, &err).ok) fail_msg("%s", err.message);
}

static void must_say(const struct buffer *text, const char *words)
{
    if (strstr(buffer_text(text), words) == NULL) fail_msg("it does not say '%s':\n%s", words, buffer_text(text));
}

/* The same with all spaces and line ends as one space: where a line is broken, does not matter. */
static void must_say_wherever(const struct buffer *text, const char *words)
{
    struct buffer OWNED_BUFFER flat = BUFFER(SET_TEXT_MAX);
    struct error err = {0};

    for (size_t i = 0; i < text->length; i++) {
        const bool is_space = text->data[i] == ' ' || text->data[i] == '\n';
        if (is_space && flat.length > 0 && flat.data[flat.length - 1] == ' ') continue;
        assert_true(buffer_add_u8(&flat, is_space ? ' ' : text->data[i], &err).ok);
    }
    must_say(&flat, words);
}

static const struct sentence_row {
    const char *name, *says;
} sentence_rows[] = {
    {"where it is stored", "health/** health-ae@3, not in force yet: since 2026-12-01 00:00 UTC, to be reviewed by 2027-05-31"},
    {"the floor", "Everything here is labelled: at least sensitive; about personal and health; under AE-FED"},
    {"elsewhere", "Elsewhere it restricts: Data about health"},
    {"places", "Data about health: - stored, described, logged and encrypted only in AE [H-STORE-AE]"},
    {"keys", "stored and encrypted only with keys in AE and with keys of the kind customer-hsm or customer-soft [H-KEY-AE]"},
    {"readers", "read, exported and trained on only from AE and where the place is proven (assurance 2 or more) [H-READ-AE]"},
    {"years",
     "pushed, replicated and moved: kept at least 9131 days (25 years); their events kept at least 9131 days (25 years); at 2 sites or"
     " more; a receipt for each [H-RETAIN]"},
    {"what it permits",
     "Data of class sensitive at most: - may be stored, described, logged, encrypted, read, exported, trained on and promoted "
     "[H-PERMIT]"},
    {"what an exception may lift",
     "An exception \"continuity\" may lift H-STORE-AE for at most 14 days, with 3 approvals and incident_ref, "
     "authority_approval_ref and return_plan_digest; then: a receipt for each; told to dpo and ciso"},
    {"an anchor", "a copy in AE, at most 0 seconds older"},
    {"alternatives", "only under DIFC; or under a regime of the group DIFC-ADEQUATE [D-TRANSFER]"},
    {"attributes",
     "only in AE, with keys in AE, with keys of the kind customer-hsm and with the attributes sovereign [O-SECRET-SOVEREIGN]"},
    {"a class", "Data of class secret or stricter:"},
    {"recipients", "by the same-controller or processor [D-READ-ASSURED]"},
    {"what a label must be",
     "only if they are about nothing of personal, special, health, biometric, genetic, child, financial-customer, "
     "government or critical-infra [P-NO-TAINT]"},
    {"lineage", "only if they are of a lineage that is at least declared [P-LINEAGE]"},
    {"one that only restricts", "It only restricts: another policy has to permit."},
    {"one that is closed", "What no rule here permits is denied."},
    {"a region",
     "azure/uaenorth: AE/DU (by provider-api); under AE-FED and AE-DU; operator Microsoft, controlled from US; keys: customer-hsm in "
     "AE/DU; attributes iso27001"},
    {"no network", "Networks: none, so nothing is known of any client"},
    {"a group", "GCC: AE, SA, QA, BH, KW and OM (as of 2026-11-20)"},
    {"an empty group", "AE-PDPL-ADEQUATE: empty, so nothing qualifies (as of no federal list found; empty = nothing qualifies)"},
};

static void it_says(void **state)
{
    const struct sentence_row *row = *state;
    OWNED(policy_set) *set = sample_set(NULL, NULL);
    struct buffer OWNED_BUFFER text = BUFFER(SET_TEXT_MAX);

    text_of(set, &whole, &text);
    must_say_wherever(&text, row->says);
}

/* ---- nothing is left out ---- */

static void check_lines(const struct buffer *text)
{
    struct bytes rest = buffer_bytes(text);

    for (size_t start = 0; start < rest.length;) {
        const char *line = (const char *)rest.data + start;
        const size_t length = strcspn(line, "\n");
        if (length > 80) fail_msg("%zu columns: %.*s", length, (int)length, line);
        start += length + 1;
    }
}

static void has_each_rule(const struct policy_set *set, const struct buffer *text)
{
    for (size_t i = 0; i < set->documents->count; i++) {
        const struct policy_document *policy = set->documents->documents[i];
        must_say(text, policy->name);
        for (size_t j = 0; j < policy->rule_count; j++) {
            char id[128];
            (void)snprintf(id, sizeof id, "[%s]", policy->rules[j].id);
            must_say(text, id);
        }
        for (size_t j = 0; j < policy->type_count; j++) must_say(text, policy->types[j].name);
    }
    for (size_t i = 0; i < set->region_count; i++) must_say(text, set->regions[i].id);
    for (size_t i = 0; i < set->groups->count; i++) must_say(text, set->groups->groups[i].name);
}

static void nothing_is_left_out(void **state)
{
    OWNED(policy_set) *set = sample_set(NULL, NULL);
    struct buffer OWNED_BUFFER text = BUFFER(SET_TEXT_MAX);

    (void)state;
    text_of(set, &whole, &text);
    has_each_rule(set, &text);
    check_lines(&text);
}

static void each_template_can_be_read(void **state)
{
    (void)state;
    for (size_t i = 0; policy_template_regime(i) != NULL; i++) {
        const struct template_answers answers = {
            .regime = policy_template_regime(i), .place = "clinic", .region = "onprem/one=AE", .now_ms = NOW_MS};
        struct buffer OWNED_BUFFER payload = BUFFER(POLICY_SET_BYTES_MAX), text = BUFFER(SET_TEXT_MAX);
        OWNED(policy_set) *set = NULL;
        struct error err = {0};
        assert_true(policy_template_set(&answers, NULL, &payload, &err).ok);
        assert_true(policy_set_compile(buffer_bytes(&payload), &set, &err).ok);
        text_of(set, &whole, &text);
        has_each_rule(set, &text);
        check_lines(&text);
        must_say_wherever(&text, "evidence for a review by your security and legal teams");
    }
}

/* Which name stands for a scope. */
static const struct name_row {
    const char *name, *is;
} name_rows[] = {
    {"**", "any/any/any"},
    {"acme/**", "acme/any/any"},
    {"acme/models/**", "acme/models/any"},
    {"*/models/*", "any/models/any"},
    {"acme/m/x", "acme/m/x"},
    {"**/secret", "any/any/secret"},
    {"acme/*", "acme/any"},
};

static void a_name_stands_for_a_scope(void **state)
{
    const struct name_row *row = *state;
    struct buffer OWNED_BUFFER policies = BUFFER(4096), text = BUFFER(SET_TEXT_MAX), wanted = BUFFER(512);
    struct error err = {0};

    must(buffer_format(
             &policies, &err,
             "[{\"apiVersion\":\"sijil.policy/v1\",\"kind\":\"ResidencyPolicy\",\"metadata\":{\"id\":\"p1\",\"version\":1,"
             "\"scope\":[\"%s\"],\"effective_from\":\"2026-01-01T00:00:00Z\",\"review_by\":\"2027-01-01\"},"
             "\"labels\":{},\"rules\":[{\"id\":\"R1\",\"effect\":\"permit\",\"ops\":[\"read\"]}]}]",
             row->name),
         &err);
    OWNED(policy_set) *set = sample_set("policies", buffer_text(&policies));
    text_of(set, &whole, &text);
    must(buffer_format(&wanted, &err, "for a name such as %s, with", row->is), &err);
    must_say_wherever(&text, buffer_text(&wanted));
    must_say(&text, "- stored nowhere\n");
    must_say(&text, "- read from everywhere\n"); /* so the name is in the scope */
}

static void one_policy_alone(void **state)
{
    const struct set_reading one = {.now_ms = NOW_MS, .policy = "public-models"};
    OWNED(policy_set) *set = sample_set(NULL, NULL);
    struct buffer OWNED_BUFFER text = BUFFER(SET_TEXT_MAX);

    (void)state;
    text_of(set, &one, &text);
    must_say(&text, "public-models@1");
    assert_null(strstr(buffer_text(&text), "health-ae"));
    assert_null(strstr(buffer_text(&text), "Regions"));
}

static void late_reviews_are_told(void **state)
{
    const struct set_reading later = {.now_ms = NOW_MS + (int64_t)66 * 86400 * 1000}; /* the first of February */
    OWNED(policy_set) *set = sample_set(NULL, NULL);
    struct buffer OWNED_BUFFER text = BUFFER(SET_TEXT_MAX);

    (void)state;
    text_of(set, &later, &text);
    must_say_wherever(&text, "org-floor@1, in force since 2026-01-01 00:00 UTC, to be reviewed by 2027-01-31 (LATE)");
    must_say_wherever(&text, "health-ae@3, in force since 2026-12-01 00:00 UTC, to be reviewed by 2027-05-31 ");
}

/* ---- exceptions, networks, declassifications ---- */

#define EXCEPTION(policy, version, more)                                                                                       \
    "[{\"apiVersion\":\"sijil.policy/v1\",\"kind\":\"ResidencyException\",\"id\":\"x-17\",\"type\":\"continuity\",\"policy\":" \
    "{\"id\":\"" policy "\",\"version\":" version ",\"digest\":\"" DIGEST "\"},\"project\":"                                   \
    "\"20000000-0000-4000-8000-000000000001\",\"lifts\":[\"H-STORE-AE\"],\"ops\":[\"replicate\"],\"targets\":"                 \
    "[\"aws/eu-central-1\"],\"digests\":[\"" DIGEST "\"],\"not_before\":\"2026-11-26T00:00:00Z\",\"not_after\":"               \
    "\"2026-12-08T00:00:00Z\",\"evidence\":{},\"requested_by\":{\"iss\":\"i\",\"sub\":\"chadia\"},\"approvals\":"              \
    "[{\"iss\":\"i\",\"sub\":\"a\"},{\"iss\":\"i\",\"sub\":\"b\"}]" more "}]"

static const struct part_row {
    const char *name, *part, *value;
    int64_t days; /* after now */
    const char *says;
} part_rows[] = {
    {"an exception in force", "exceptions", EXCEPTION("health-ae", "3", ""), 0,
     "IN FORCE: exception x-17 (continuity) lifts H-STORE-AE of health-ae@3 in the project 20000000-0000-4000-8000-000000000001, from "
     "2026-11-26 00:00 to 2026-12-08 00:00 UTC, for 1 digest, replicated at aws/eu-central-1; asked by chadia, approved by 2 others; "
     "any number of uses"},
    {"one for so many uses", "exceptions", EXCEPTION("health-ae", "3", ",\"uses_left\":3"), 0, "approved by 2 others; 3 uses"},
    {"one that has ended", "exceptions", EXCEPTION("health-ae", "3", ""), 20, "ENDED: exception x-17"},
    {"one that has not begun", "exceptions", EXCEPTION("health-ae", "3", ""), -20, "not begun: exception x-17"},
    {"a revoked one", "exceptions", EXCEPTION("health-ae", "3", ",\"revoked\":true"), 0, "REVOKED: exception x-17"},
    {"one of another version", "exceptions", EXCEPTION("health-ae", "2", ""), 0,
     "Exceptions to policies that are not in this set IN FORCE: exception x-17"},
    {"a network", "networks",
     "[{\"cidr\":\"10.1.0.0/16\",\"facts\":{\"geo\":\"AE/DU\",\"assurance\":2,\"recipient\":\"same-controller\"}}]", 0,
     "Networks 10.1.0.0/16: AE/DU, assurance 2; same-controller"},
    {"who reads from there", "networks",
     "[{\"cidr\":\"10.1.0.0/16\",\"facts\":{\"geo\":\"AE/DU\",\"assurance\":2}},{\"cidr\":\"10.2.0.0/16\",\"facts\":{\"geo\":\"DE\"}}]",
     0, "onprem/difc-dc1 - read from the networks 10.1.0.0/16"},
    {"a rule that nothing asks", "policies",
     "[{\"apiVersion\":\"sijil.policy/v1\",\"kind\":\"ResidencyPolicy\",\"metadata\":{\"id\":\"p1\",\"version\":1,\"scope\":[\"**\"],"
     "\"effective_from\":\"2026-01-01T00:00:00Z\",\"review_by\":\"2027-01-01\"},\"rules\":[{\"id\":\"R1\",\"effect\":\"require\","
     "\"ops\":[\"key-wrap\"],\"target\":{\"key_geo_within\":[\"AE\"]}}]}]",
     0, "encrypted only with keys in AE (nothing asks this: it decides nothing) [R1]"},
    {"a network of nobody", "networks", "[{\"cidr\":\"0.0.0.0/0\",\"facts\":{}}]", 0, "0.0.0.0/0: place unknown"},
    {"what is declassified", "declassified",
     "[{\"policy\":\"adgm\",\"scope\":[\"a/**\",\"b/c\"],\"reason\":\"the licence has ended\"}]", 0,
     "Declassified a/**, b/c: labels that adgm left have no effect, because the licence has ended"},
};

static void parts_are_told(void **state)
{
    const struct part_row *row = *state;
    const struct set_reading reading = {.now_ms = NOW_MS + row->days * 86400 * 1000};
    OWNED(policy_set) *set = sample_set(row->part, row->value);
    struct buffer OWNED_BUFFER text = BUFFER(SET_TEXT_MAX);

    text_of(set, &reading, &text);
    must_say_wherever(&text, row->says);
    check_lines(&text);
}

/* A title could move the cursor, hide a rule, or make lines that look like rules. */
static void no_text_steers_the_terminal(void **state)
{
    OWNED(policy_set) *set = sample_set(
        "policies",
        "[{\"apiVersion\":\"sijil.policy/v2\",\"kind\":\"ResidencyPolicy\",\"metadata\":{\"id\":\"p1\",\"version\":1,\"scope\":[\"**\"],"
        "\"effective_from\":\"2026-01-01T00:00:00Z\",\"review_by\":\"2027-01-01\",\"title\":\"a\\u001b[2Kb\\u202ec\\r\\n- read [FAKE]\"},"
        "\"rules\":[{\"id\":\"R1\",\"effect\":\"deny\",\"ops\":[\"stat\",\"list\",\"read\"],\"target\":{\"attrs_all\":[\"\\u001b]0;x\"]}},"
        "{\"id\":\"R2\",\"effect\":\"oblige\",\"ops\":[\"train\"],\"oblige\":{\"approvals\":2,\"signed_request\":true,"
        "\"retain_max_days\":30}},{\"id\":\"R3\",\"effect\":\"permit\",\"ops\":[\"list\",\"stat\"],\"when\":"
        "{\"subjects_none\":[\"child\"]}}]}]");
    struct buffer OWNED_BUFFER text = BUFFER(SET_TEXT_MAX);

    (void)state;
    text_of(set, &whole, &text);
    must_say(&text, "  a?[2Kb???c? - read [FAKE]\n");
    must_say_wherever(&text, "All data: - read never with the attributes ?]0;x [R1]");
    must_say_wherever(&text, "trained on: kept at most 30 days; 2 approvals of each run; signed requests for runs [R2]");
    must_say_wherever(&text, "Data that are not about child: - may be looked up and listed [R3]");
    for (size_t i = 0; i < text.length; i++)
        if (text.data[i] == '\n') text.data[i] = ' ';
    assert_true(terminal_is_printable(buffer_text(&text)));
}

static struct result read_one(void *set, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(SET_TEXT_MAX);

    return policy_set_text(set, &whole, &text, err);
}

static void reading_survives_lack_of_memory(void **state)
{
    OWNED_JSON one = policy_example("health-ae");
    OWNED_JSON list = json_pack("[O]", one);
    OWNED_STRING policies = json_dumps(list, 0);
    OWNED(policy_set) *set = sample_set("policies", policies);

    (void)state;
    fail_each(read_one, set, ERROR_NO_MEMORY, 50);
}

int policy_text_cases(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(nothing_is_left_out),
        cmocka_unit_test(each_template_can_be_read),
        cmocka_unit_test(one_policy_alone),
        cmocka_unit_test(late_reviews_are_told),
        cmocka_unit_test(no_text_steers_the_terminal),
        cmocka_unit_test(reading_survives_lack_of_memory),
    };

    return RUN_TABLE(sentence_rows, it_says) + RUN_TABLE(part_rows, parts_are_told) +
           RUN_TABLE(name_rows, a_name_stands_for_a_scope) + cmocka_run_group_tests_name("others", others, NULL, NULL);
}
