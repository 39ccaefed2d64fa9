/* Decisions at their bounds: an answer is short with any policies, labels and names, and unknown facts deny. */
#include "tests/unit/decide_fixture.h"

#include "authz/trust_rules.h"

static const struct decide_row pull = {"a pull", 'c', ACTION_BLOB_READ, "acme/models/a", DIGEST, NULL, VERDICT_ALLOW, ""};
static const struct decide_row push = {"a push", 'p', ACTION_MANIFEST_PUSH, "acme/models/a", "v1", NULL, VERDICT_ALLOW, ""};
static const struct decide_row storing = {"storing health data", 'p', ACTION_UPLOAD_COMMIT, "acme/health/a", "", NULL,
                                          VERDICT_ALLOW,         ""};

/* A policy of very many rules, each with a message of many letters of two bytes, and more facts than an answer names. */
static struct policy_set *make_wordy_set(void)
{
    struct buffer OWNED_BUFFER rules = BUFFER(1 << 18);
    struct buffer OWNED_BUFFER payload = BUFFER(POLICY_SET_BYTES_MAX);
    OWNED_JSON policies =
        policy_json("[{\"apiVersion\":\"sijil.policy/v1\",\"kind\":\"ResidencyPolicy\",\"metadata\":{\"id\":\"wordy\","
                    "\"version\":1,\"scope\":[\"acme/**\"],\"effective_from\":\"2020-01-01T00:00:00Z\","
                    "\"review_by\":\"2030-01-01\"},\"labels\":{},\"rules\":[]}]");
    struct policy_set *set = NULL;
    struct error err = {0};

    assert_true(buffer_add_u8(&rules, '[', &err).ok);
    for (size_t i = 0; i < DENIALS_MAX + 2; i++) {
        assert_true(buffer_format(&rules, &err, "%s{\"id\":\"RULE-%zu\",\"effect\":\"require\",\"ops\":[\"ingest\"],",
                                  i > 0 ? "," : "", i)
                        .ok);
        if (i != 1) assert_true(buffer_add_text(&rules, "\"message\":\"", &err).ok); /* one rule has none */
        for (size_t j = 0; i != 1 && j < 300 + i; j++) assert_true(buffer_add_text(&rules, j < i ? "x" : "\xc3\xa9", &err).ok);
        assert_true(
            buffer_add_text(&rules, i == 1 ? "\"target\":{\"geo_in_group\":[" : "\",\"target\":{\"geo_in_group\":[", &err).ok);
        for (size_t j = 0; j < 20; j++)
            assert_true(buffer_format(&rules, &err, "%s\"A-GROUP-OF-A-RATHER-LONG-NAME-%zu\"", j > 0 ? "," : "", j).ok);
        assert_true(buffer_add_text(&rules, "]}}", &err).ok);
    }
    assert_true(buffer_add_u8(&rules, ']', &err).ok);
    assert_int_equal(json_object_set_new(json_array_get(policies, 0), "rules", policy_json(buffer_text(&rules))), 0);
    const struct policy_set_parts parts = {.epoch = 5, .policies = policies};
    if (!policy_set_compose(&parts, &payload, &err).ok) fail_msg("%s", err.message);
    assert_true(policy_set_compile(buffer_bytes(&payload), &set, &err).ok);
    return set;
}

static bool ends_in_a_whole_letter(const char *text)
{
    const size_t length = strlen(text);

    return length == 0 || (uint8_t)text[length - 1] < 0x80 || (uint8_t)text[length - 1] == 0xa9;
}

/* The answer is bounded for any policy, and cut between letters and between names. */
static void answers_are_bounded(void **state)
{
    struct snapshot wordy = {.epoch = 42, .authz = snapshot.authz, .tenancy = snapshot.tenancy, .set = make_wordy_set()};
    struct principal principal;
    struct decision_request request;
    OWNED(decision) *decision = NULL;
    struct error err = {0};

    (void)state;
    fill(&storing, &principal, &request);
    const struct decision_context context = {.snapshot = &wordy, .request = &request, .metadata_region = ""};
    assert_true(decide_request(&context, &decision, &err).ok);
    policy_set_free(wordy.set);
    assert_int_equal(decision_verdict(decision), VERDICT_DENY);
    assert_int_equal(decision_denial_count(decision), DENIALS_MAX);
    for (size_t i = 0; i < DENIALS_MAX; i++) {
        const struct denial *denial = decision_denial(decision, i);
        assert_true(denial->message[0] != '\0' && ends_in_a_whole_letter(denial->message));
        const char *last = strrchr(denial->missing, ' ');
        assert_non_null(last);
        assert_int_equal(strncmp(last, " group:A-GROUP-OF-A-RATHER-LONG-NAME-", 37), 0);
    }
}

/* Content under more regimes than a label can have exceeds a limit: it is denied, with the reason. */
static void too_many_laws_deny(void **state)
{
    struct tenant_repository own = repositories[0];
    struct tenant_project under = projects[2];
    struct floor_label floors[2] = {0};
    struct snapshot lawful = snapshot;
    struct principal principal;
    struct decision_request request;
    OWNED(decision) *decision = NULL;
    bool is_stated = false;
    struct error err = {0};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        floors[i].json = policy_json(i == 0 ? "{\"lineage\":\"declared\",\"attached\":[]}" : "{\"attached\":[]}");
        floors[i].has_lineage = i == 0;
        for (size_t j = 0; j < 20; j++) {
            char name[8];
            (void)snprintf(name, sizeof name, "R%zu-%zu", i, j);
            assert_int_equal(json_array_append_new(json_object_get(floors[i].json, "attached"), json_string(name)), 0);
        }
        assert_true(label_read_floor(floors[i].json, &floors[i].label, &is_stated, &err).ok);
    }
    under.floor = &floors[0];
    own.floor = &floors[1];
    lawful.tenancy.projects = &under;
    lawful.tenancy.project_count = 1;
    lawful.tenancy.repositories = &own;
    fill(&push, &principal, &request);
    tenancy_resolve(&lawful.tenancy, "acme/models/top", &request.pairs[0].resource);
    const struct decision_context context = {.snapshot = &lawful, .request = &request, .metadata_region = ""};
    assert_true(decide_request(&context, &decision, &err).ok);
    assert_int_equal(decision_verdict(decision), VERDICT_DENY);
    assert_string_equal(decision_denial(decision, 0)->rule, "SYS-LIMIT");
    for (size_t i = 0; i < 2; i++) json_decref(floors[i].json);
}

/* A policy without a label, in a place without one: nothing is known, so nothing is allowed. */
static void without_a_label_nothing_is_stored(void **state)
{
    struct buffer OWNED_BUFFER payload = BUFFER(POLICY_SET_BYTES_MAX);
    OWNED_JSON policies =
        policy_json("[{\"apiVersion\":\"sijil.policy/v1\",\"kind\":\"ResidencyPolicy\",\"metadata\":{\"id\":\"bare\","
                    "\"version\":1,\"scope\":[\"**\"],\"effective_from\":\"2020-01-01T00:00:00Z\","
                    "\"review_by\":\"2030-01-01\"},\"rules\":[{\"id\":\"P-ALL\",\"effect\":\"permit\",\"ops\":[\"ingest\"]}]}]");
    const struct policy_set_parts parts = {.epoch = 5, .policies = policies};
    struct snapshot bare = snapshot;
    struct principal principal;
    struct decision_request request;
    OWNED(policy_set) *set = NULL;
    OWNED(decision) *decision = NULL;
    struct error err = {0};

    (void)state;
    if (!policy_set_compose(&parts, &payload, &err).ok) fail_msg("%s", err.message);
    assert_true(policy_set_compile(buffer_bytes(&payload), &set, &err).ok);
    bare.set = set;
    fill(&push, &principal, &request);
    const struct decision_context context = {.snapshot = &bare, .request = &request, .metadata_region = ""};
    assert_true(decide_request(&context, &decision, &err).ok);
    assert_int_equal(decision_verdict(decision), VERDICT_DENY);
    assert_string_equal(decision_denial(decision, 0)->rule, "SYS-UNLABELLED");
}

/* If no floor states a lineage, it is unknown; otherwise it is the stated one. */
static void a_lineage_is_stated_or_unknown(void **state)
{
    struct tenant_project under = projects[2];
    struct floor_label floor = {.label = {.lineage = LINEAGE_DECLARED}};
    struct snapshot one = snapshot;
    struct label label;
    bool is_stated = false;
    struct error err = {0};

    (void)state;
    under.floor = &floor;
    one.tenancy.projects = &under;
    one.tenancy.project_count = 1;
    for (int i = 0; i < 2; i++) {
        floor.has_lineage = i == 1;
        assert_true(tenancy_label(&one.tenancy, "acme/models/a", NULL, &label, &is_stated, &err).ok);
        assert_true(is_stated);
        assert_int_equal(label.lineage, i == 0 ? LINEAGE_UNKNOWN : LINEAGE_DECLARED);
    }
}

static void an_empty_registry_has_no_names(void **state)
{
    static const struct tenancy empty;
    char name[300];

    (void)state;
    memset(name, 'a', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    assert_null(tenancy_organisation(&empty, "acme"));
    assert_null(tenancy_project(&empty, "acme/models"));
    assert_null(tenancy_repository(&empty, "acme/models/a"));
    assert_null(tenancy_organisation(&snapshot.tenancy, name));

    struct label label;
    struct error err = {0};
    bool is_stated = true;
    assert_true(tenancy_label(&empty, "acme/models/a", NULL, &label, &is_stated, &err).ok);
    assert_false(is_stated);
}

/* A text that only looks like a digest is not one: the policies then decide without it. */
static void digests_have_one_form(void **state)
{
    static const char *const details[] = {"sha256:0123",
                                          "sha512:"
                                          "0123456789abcdef",
                                          SHA_OF("0123456X"), DIGEST "0"};
    struct principal principal;
    struct decision_request request;
    const struct decision_context context = {.snapshot = &snapshot, .request = &request, .metadata_region = ""};
    struct error err = {0};

    (void)state;
    for (size_t i = 0; i < COUNT(details); i++) {
        OWNED(decision) *decision = NULL;
        fill(&pull, &principal, &request);
        (void)snprintf(request.pairs[0].resource.detail, RESOURCE_DETAIL_MAX, "%s", details[i]);
        assert_true(decide_request(&context, &decision, &err).ok);
        assert_int_equal(decision_verdict(decision), VERDICT_ALLOW);
    }
}

/* The project existed when the name was resolved, and was deleted since. */
static void a_project_that_is_gone_denies(void **state)
{
    struct principal principal;
    struct decision_request request;
    OWNED(decision) *decision = NULL;
    struct error err = {0};

    (void)state;
    fill(&push, &principal, &request);
    (void)snprintf(request.pairs[0].resource.name, sizeof request.pairs[0].resource.name, "acme/gone/a");
    const struct decision_context context = {.snapshot = &snapshot, .request = &request, .metadata_region = ""};
    assert_true(decide_request(&context, &decision, &err).ok);
    assert_int_not_equal(decision_verdict(decision), VERDICT_ALLOW);
    assert_string_equal(decision_denial(decision, 0)->rule, "SYS-STALE");
}

/* ---- restrictions of organisations ---- */

static struct document *restriction_of(const char *organisation, const char *place)
{
    struct buffer OWNED_BUFFER payload = BUFFER(8192), text = BUFFER(4096);
    struct document *document = NULL;
    char name[80];
    struct error err = {0};

    (void)snprintf(name, sizeof name, "%s.closed", organisation);
    must(buffer_format(
             &text, &err,
             "{\"policy\":{\"apiVersion\":\"sijil.policy/v1\",\"closed\":false,\"kind\":\"ResidencyPolicy\",\"metadata\":{"
             "\"effective_from\":\"2026-01-01T00:00:00Z\",\"id\":\"%s\",\"organisation\":\"%s\",\"review_by\":\"2030-01-01\","
             "\"scope\":[\"%s/**\"],\"version\":1},\"rules\":[{\"effect\":\"require\",\"id\":\"A-PLACE\",\"ops\":[\"ingest\"],"
             "\"target\":{\"geo_within\":[\"%s\"]}}]}}",
             name, organisation, organisation, place),
         &err);
    OWNED_JSON body = json_loads(buffer_text(&text), 0, NULL);
    const struct document_parts parts = {
        .kind = DOCUMENT_RESTRICTION, .scope = organisation, .name = name, .version = 1, .effective_ms = NOW_MS, .body = body};
    must(document_compose(&parts, &payload, &err), &err);
    must(document_read_payload(DOCUMENT_RESTRICTION, buffer_bytes(&payload), &document, &err), &err);
    return document;
}

/* Those of two organisations; NULL: only the first. */
static struct restricted *restricted_of(const struct document *acme, const struct document *beta, struct policy_set *set,
                                        const struct restricted *before)
{
    const struct pinned_document pinned[] = {{acme, 7}, {beta, 8}};
    OWNED(trust_rules) *rules = NULL;
    struct restricted *restricted = NULL;
    struct error err = {0};

    must(trust_rules_of(pinned, beta == NULL ? 1 : 2, &rules, &err), &err);
    must(restricted_new(set, rules, before, &restricted, &err), &err);
    return restricted;
}

static const struct policy_documents *in_acme(const struct restricted *restricted, const struct policy_set *set)
{
    const struct policy_documents *documents = NULL;
    struct error err = {0};

    must(restricted_documents(restricted, set, "acme/models/a", &documents, &err), &err);
    return documents;
}

/* Else each signed document of the registry would cost the compilation of the set for each organisation that has some. */
static void an_organisation_is_composed_once(void **state)
{
    OWNED(document) *acme = restriction_of("acme", "AE");
    OWNED(document) *changed = restriction_of("acme", "SA");
    OWNED(document) *beta = restriction_of("beta", "AE");
    OWNED(policy_set) *other = make_wordy_set();
    OWNED(restricted) *first = restricted_of(acme, NULL, snapshot.set, NULL);
    OWNED(restricted) *second = restricted_of(acme, beta, snapshot.set, first);
    OWNED(restricted) *third = restricted_of(changed, beta, snapshot.set, second);
    OWNED(restricted) *fourth = restricted_of(changed, beta, other, third);
    const struct policy_documents *kept = in_acme(first, snapshot.set);

    (void)state;
    assert_ptr_not_equal(kept, policy_set_documents(snapshot.set));
    assert_ptr_equal(in_acme(second, snapshot.set), kept);
    assert_ptr_not_equal(in_acme(third, snapshot.set), kept);
    assert_string_not_equal(restricted_digests(third, "acme/a"), restricted_digests(second, "acme/a"));
    assert_ptr_not_equal(in_acme(fourth, other), in_acme(third, snapshot.set));
    assert_non_null(restricted_digests(second, "beta/a"));
    assert_null(restricted_digests(first, "beta/a"));
    assert_null(restricted_digests(second, "acmes/a"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_bounded),
        cmocka_unit_test(too_many_laws_deny),
        cmocka_unit_test(without_a_label_nothing_is_stored),
        cmocka_unit_test(a_lineage_is_stated_or_unknown),
        cmocka_unit_test(an_empty_registry_has_no_names),
        cmocka_unit_test(digests_have_one_form),
        cmocka_unit_test(a_project_that_is_gone_denies),
        cmocka_unit_test(an_organisation_is_composed_once),
    };

    make_snapshot();
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    forget_snapshot();
    return failed;
}
