/* One request's decision: rights and policies together, on a snapshot made by the test. */
#include "tests/unit/decide_fixture.h"

#include <arpa/inet.h>

#include "audit/decision_priv.h"
#include "base/fault.h"
#include "policy/compiled_priv.h"
#include "policy/decider/plan_priv.h"

static const struct decide_row rows[] = {
    {"no credential", '-', ACTION_BLOB_READ, "acme/models/a", DIGEST, NULL, VERDICT_CHALLENGE, "SYS-NO-CREDENTIAL sys ()"},
    {"no credential, no such thing", '-', ACTION_BLOB_READ, "x/y/z", DIGEST, NULL, VERDICT_CHALLENGE, "SYS-NO-CREDENTIAL sys ()"},
    {"an unknown robot", '?', ACTION_BLOB_READ, "x/y/z", DIGEST, NULL, VERDICT_CHALLENGE, "SYS-NOT-LIVE sys ()"},
    {"a pull", 'c', ACTION_BLOB_READ, "acme/models/a", DIGEST, NULL, VERDICT_ALLOW, ""},
    {"a push", 'p', ACTION_MANIFEST_PUSH, "acme/models/a", "v1", NULL, VERDICT_ALLOW, ""},
    {"a push without the role", 'c', ACTION_MANIFEST_PUSH, "acme/models/a", "v1", NULL, VERDICT_DENY, "SYS-NO-BINDING sys ()"},
    {"a thing of others", 'c', ACTION_BLOB_READ, "acme/health/a", DIGEST, "10.1.2.3", VERDICT_HIDE, "SYS-NO-BINDING sys ()"},
    {"a thing of others that policies deny too", 'c', ACTION_BLOB_READ, "acme/health/a", DIGEST, NULL, VERDICT_HIDE,
     "SYS-NO-BINDING sys ()"},
    {"no such project", 'z', ACTION_BLOB_READ, "acme/none/a", DIGEST, NULL, VERDICT_HIDE, "SYS-NO-BINDING sys ()"},
    {"no such project, but a binding above it", 'p', ACTION_BLOB_READ, "acme/none/a", DIGEST, NULL, VERDICT_HIDE,
     "SYS-NOT-FOUND sys ()"},
    {"health data for a client nobody knows", 'p', ACTION_BLOB_READ, "acme/health/a", DIGEST, "127.0.0.1", VERDICT_DENY,
     "H-READ-AE registry-default@1 (assurance, geo)"},
    {"health data for a proven client", 'p', ACTION_BLOB_READ, "acme/health/a", DIGEST, "10.1.2.3", VERDICT_ALLOW, ""},
    {"storing health data", 'p', ACTION_UPLOAD_COMMIT, "acme/health/a", "", NULL, VERDICT_ALLOW, ""},
    {"a repository's own label", 'p', ACTION_UPLOAD_BEGIN, "acme/models/top", "", NULL, VERDICT_DENY,
     "SYS-CLOSED registry-default@1 (); SYS-CLOSED sys ()"},
    {"a region that no catalogue has", 'p', ACTION_UPLOAD_BEGIN, "acme/lost/a", "", NULL, VERDICT_DENY,
     "R-STORE-HOME registry-default@1 (geo)"},
    {"what no policy is asked about", 'p', ACTION_UPLOAD_CANCEL, "acme/lost/a", "", NULL, VERDICT_ALLOW, ""},
};

static void write_denials(const struct decision *decision, struct buffer *text)
{
    struct error err = {0};

    for (size_t i = 0; i < decision_denial_count(decision); i++) {
        const struct denial *denial = decision_denial(decision, i);
        assert_true(
            buffer_format(text, &err, "%s%s %s (%s)", i > 0 ? "; " : "", denial->rule, denial->policy, denial->missing).ok);
        assert_true(denial->message[0] != '\0');
    }
}

static void decisions(void **state)
{
    const struct decide_row *row = *state;
    struct principal principal;
    struct decision_request request;
    struct sockaddr_in client = {.sin_family = AF_INET};
    OWNED(decision) *decision = NULL;
    OWNED(decision) *again = NULL;
    struct buffer OWNED_BUFFER text = BUFFER(8192);
    struct error err = {0};

    fill(row, &principal, &request);
    if (row->client != NULL) {
        assert_int_equal(inet_pton(AF_INET, row->client, &client.sin_addr), 1);
        request.client.address = (const struct sockaddr *)&client;
    }
    const struct decision_context context = {.snapshot = &snapshot, .request = &request, .metadata_region = ""};
    assert_true(decide_request(&context, &decision, &err).ok);
    write_denials(decision, &text);
    assert_string_equal(buffer_text(&text), row->denials);
    assert_int_equal(decision_verdict(decision), row->verdict);
    assert_int_equal(decision_epoch(decision), 42);
    assert_string_equal(decision_policy_digest(decision), policy_set_digest(snapshot.set));
    assert_true(decide_request(&context, &again, &err).ok);
    assert_string_equal(decision_id(decision), decision_id(again)); /* the same inputs, the same id */
}

/* The id covers all inputs. */
static void ids_differ(void **state)
{
    struct principal principal;
    struct decision_request request;
    struct decision_context context = {.snapshot = &snapshot, .request = &request, .metadata_region = ""};
    char ids[5][72];
    struct error err = {0};

    (void)state;
    fill(&rows[4], &principal, &request);
    for (size_t i = 0; i < COUNT(ids); i++) {
        OWNED(decision) *decision = NULL;
        if (i == 1) request.now_ms++;
        if (i == 2) request.pairs[0].resource.detail[0] = 'w';
        if (i == 3) request.pairs[0].action = ACTION_UPLOAD_BEGIN;
        if (i == 4) context.metadata_region = "local/else";
        if (i == 4) request.pairs[0].action = ACTION_MANIFEST_PUSH;
        assert_true(decide_request(&context, &decision, &err).ok);
        memcpy(ids[i], decision_id(decision), sizeof ids[i]);
        for (size_t j = 0; j < i; j++) assert_string_not_equal(ids[i], ids[j]);
    }
}

static void all_pairs_must_be_allowed(void **state)
{
    struct principal principal;
    struct decision_request request;
    OWNED(decision) *decision = NULL;
    struct error err = {0};

    (void)state;
    fill(&rows[4], &principal, &request);
    request.pair_count = 2;
    request.pairs[1] = request.pairs[0];
    tenancy_resolve(&snapshot.tenancy, "acme/none/a", &request.pairs[1].resource);
    const struct decision_context context = {.snapshot = &snapshot, .request = &request, .metadata_region = ""};
    assert_true(decide_request(&context, &decision, &err).ok);
    assert_int_equal(decision_verdict(decision), VERDICT_HIDE);
    assert_int_equal(decision_pair_count(decision), 2);
}

/* The event has a hidden thing as a name that does not exist, so that the size of the event reveals nothing. */
static void what_is_hidden_has_no_place(void **state)
{
    static const char *const names[] = {"acme/health/a", "acme/none/a"};
    static const struct uuid nil;

    (void)state;
    for (size_t i = 0; i < COUNT(names); i++) {
        const struct decide_row row = {"", 'c', ACTION_BLOB_READ, names[i], DIGEST, NULL, VERDICT_HIDE, ""};
        struct principal principal;
        struct decision_request request;
        OWNED(decision) *decision = NULL;
        struct error err = {0};

        fill(&row, &principal, &request);
        const struct decision_context context = {.snapshot = &snapshot, .request = &request, .metadata_region = ""};
        assert_true(decide_request(&context, &decision, &err).ok);
        const struct resource *resource = &decision_pair(decision, 0)->resource;
        assert_string_equal(resource->name, names[i]);
        assert_string_equal(resource->region, "");
        assert_true(uuid_equal(&resource->project, &nil) && uuid_equal(&resource->organisation, &nil));
        assert_int_equal(decision_denial_count(decision), 1);
    }
}

static void the_place_of_metadata_counts(void **state)
{
    struct principal principal;
    struct decision_request request;
    OWNED(decision) *decision = NULL;
    struct error err = {0};

    (void)state;
    fill(&rows[4], &principal, &request);
    const struct decision_context context = {.snapshot = &snapshot, .request = &request, .metadata_region = "local/gone"};
    assert_true(decide_request(&context, &decision, &err).ok);
    assert_int_equal(decision_verdict(decision), VERDICT_DENY);
    assert_int_equal(decision_denial_count(decision), 1); /* of `metadata` and `log`, the same */
    assert_string_equal(decision_denial(decision, 0)->rule, "R-STORE-HOME");
}

static void a_stale_snapshot_denies(void **state)
{
    struct principal principal;
    struct decision_request request;
    OWNED(decision) *decision = NULL;
    struct error err = {0};

    (void)state;
    fill(&rows[3], &principal, &request);
    const struct decision_context context = {.snapshot = &snapshot, .request = &request, .metadata_region = "", .is_stale = true};
    assert_true(decide_request(&context, &decision, &err).ok);
    assert_int_equal(decision_verdict(decision), VERDICT_DENY);
    assert_string_equal(decision_denial(decision, 0)->rule, "SYS-STALE");
}

static void a_name_that_changed_hands_denies(void **state)
{
    struct principal principal;
    struct decision_request request;
    OWNED(decision) *decision = NULL;
    struct error err = {0};

    (void)state;
    fill(&rows[4], &principal, &request);
    request.pairs[0].resource.project = id_of('h');
    const struct decision_context context = {.snapshot = &snapshot, .request = &request, .metadata_region = ""};
    assert_true(decide_request(&context, &decision, &err).ok);
    assert_int_equal(decision_verdict(decision), VERDICT_DENY);
    assert_string_equal(decision_denial(decision, 0)->rule, "SYS-STALE");
}

static void without_a_policy_set_nothing_is_stored(void **state)
{
    struct snapshot bare = {.epoch = 42, .authz = snapshot.authz, .tenancy = snapshot.tenancy};
    struct principal principal;
    struct decision_request request;
    OWNED(decision) *decision = NULL;
    struct error err = {0};

    (void)state;
    fill(&rows[4], &principal, &request);
    const struct decision_context context = {.snapshot = &bare, .request = &request, .metadata_region = ""};
    assert_true(decide_request(&context, &decision, &err).ok);
    assert_int_equal(decision_verdict(decision), VERDICT_DENY);
    assert_string_equal(decision_denial(decision, 0)->rule, "SYS-NO-POLICY");
    assert_string_equal(decision_policy_digest(decision), "");
}

static const struct resolve_row {
    const char *name, *asked;
    enum resource_kind kind;
    char organisation, project;
    const char *region;
} resolve_rows[] = {
    {"the system", "", RESOURCE_SYSTEM, 0, 0, ""},
    {"an organisation", "acme", RESOURCE_ORGANISATION, 'A', 0, ""},
    {"another organisation", "other", RESOURCE_ORGANISATION, 0, 0, ""},
    {"a project", "acme/health", RESOURCE_PROJECT, 'A', 'h', "local/main"},
    {"half a project's name", "acme/heal", RESOURCE_PROJECT, 'A', 0, ""},
    {"a repository", "acme/models/a/b/c", RESOURCE_REPOSITORY, 'A', 'm', "local/main"},
    {"a name longer than any",
     "acme/mmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmm"
     "mmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmm/a",
     RESOURCE_REPOSITORY, 'A', 0, ""},
};

static void names_are_resolved(void **state)
{
    const struct resolve_row *row = *state;
    const struct uuid nil = {{0}};
    struct resource resource;

    tenancy_resolve(&snapshot.tenancy, row->asked, &resource);
    const struct uuid organisation = row->organisation == 0 ? nil : id_of(row->organisation);
    const struct uuid project = row->project == 0 ? nil : id_of(row->project);
    assert_int_equal(resource.kind, row->kind);
    assert_true(uuid_equal(&resource.organisation, &organisation));
    assert_true(uuid_equal(&resource.project, &project));
    assert_string_equal(resource.region, row->region);
    assert_string_equal(resource.name, row->asked);
}

static struct result decide_once(void *context, struct error *err)
{
    OWNED(decision) *decision = NULL;

    TRY_UNTOUCHED_BYTES(decision, decide_request(context, &decision, err));
    return SUCCESS;
}

static void deciding_survives_lack_of_memory(void **state)
{
    struct principal principal;
    struct decision_request request;

    (void)state;
    fill(&rows[10], &principal, &request);
    struct decision_context context = {.snapshot = &snapshot, .request = &request, .metadata_region = ""};
    fail_each(decide_once, &context, ERROR_NO_MEMORY, 4);
}

/* ---- exceptions ---- */

#define HOUSE                                                                                                                                                                                         \
    "{\"apiVersion\":\"sijil.policy/v1\",\"kind\":\"ResidencyPolicy\",\"closed\":false,\"labels\":{\"class\":\"open\",\"subjects\":[],\"attached\":[]},\"metadata\":{\"id\":\"house\",\"version\":1," \
    "\"scope\":[\"acme/models/**\"],\"effective_from\":\"2026-01-01T00:00:00Z\",\"review_by\":\"2030-01-01\"},"                                                                                       \
    "\"exception_types\":{\"visit\":{\"lifts\":[\"HOUSE\"],\"approvals\":2,\"max_days\":300,\"required_evidence\":[\"letter\"]}},"                                                                    \
    "\"rules\":[{\"id\":\"HOUSE\",\"effect\":\"require\",\"ops\":[\"read\",\"replicate\"],\"target\":{\"geo_within\":[\"QA\"]}},"                                                                     \
    "{\"id\":\"OPEN\",\"effect\":\"permit\",\"ops\":[\"read\",\"replicate\"],\"when\":{\"class_at_most\":\"open\"}}]}"

static struct policy_set *compile(json_t *policies, json_t *exceptions, json_t *regions)
{
    struct buffer OWNED_BUFFER payload = BUFFER(POLICY_SET_BYTES_MAX);
    const struct policy_set_parts parts = {.epoch = 6, .policies = policies, .regions = regions, .exceptions = exceptions};
    struct policy_set *set = NULL;
    struct error err = {0};

    if (!policy_set_compose(&parts, &payload, &err).ok || !policy_set_compile(buffer_bytes(&payload), &set, &err).ok)
        fail_msg("%s", err.message);
    return set;
}

/* A set with a policy that nobody meets, and an exception from it for a blob of acme/models: twice, or as often as somebody likes. */
static struct policy_set *set_with_exception(bool is_counted)
{
    OWNED_JSON house = policy_json("[" HOUSE "]");
    OWNED_JSON none = json_array();
    char project[UUID_TEXT_SIZE], text[1024];
    const struct uuid models = id_of('m');
    json_t *regions = json_object_get(policy_set_json(snapshot.set), "regions");
    OWNED(policy_set) *without = compile(house, none, regions);

    uuid_format(&models, project);
    (void)snprintf(
        text, sizeof text,
        "[{\"apiVersion\":\"sijil.policy/v1\",\"kind\":\"ResidencyException\",\"id\":\"x1\",\"type\":\"visit\",%s"
        "\"policy\":{\"id\":\"house\",\"version\":1,\"digest\":\"%s\"},\"project\":\"%s\",\"lifts\":[\"HOUSE\"],"
        "\"ops\":[\"read\",\"replicate\"],\"targets\":[\"client\",\"local/main\"],\"digests\":[\"" DIGEST "\"],"
        "\"not_before\":\"2026-11-01T00:00:00Z\",\"not_after\":\"2026-12-01T00:00:00Z\",\"evidence\":{\"letter\":\"a\"},"
        "\"requested_by\":{\"iss\":\"i\",\"sub\":\"z\"},\"approvals\":[{\"iss\":\"i\",\"sub\":\"a\"},{\"iss\":\"i\",\"sub\":\"b\"}]}]",
        is_counted ? "\"uses_left\":2," : "", policy_document_digest(policy_set_documents(without)->documents[0]), project);
    OWNED_JSON exceptions = policy_json(text);
    return compile(house, exceptions, regions);
}

static const struct exception_row {
    const char *name;
    bool is_of_server, is_counted, is_used_up, is_allowed;
} exception_rows[] = {
    {"a reader may use it", false, true, false, true},
    {"no reader may when it is used up", false, true, true, false},
    {"a reader may, as often as it likes", false, false, false, true},
    {"the server uses up nobody's exception", true, true, false, false},
    {"nor one that is used up", true, true, true, false},
    {"the server may copy under one that has no number", true, false, false, true},
};

/* A copy that the server keeps is judged as it was when it was made. */
static void judge_what_is_kept(const struct decision_context *context, bool is_allowed)
{
    const struct repository_query query = {.name = "acme/models/a", .region = "local/main", .op = OP_REPLICATE, .digest = DIGEST};
    OWNED(policy_decision) *decision = NULL;
    struct error err = {0};

    assert_true(evaluate_repository(context, &query, &decision, &err).ok);
    assert_int_equal(policy_decision_allows(decision), is_allowed);
}

static void a_plan_agrees(const struct decision_context *context, const struct decision *decision, bool is_allowed)
{
    const struct policy_plan plan = {.snapshot = (struct snapshot *)(uintptr_t)context->snapshot,
                                     .proposed = context->snapshot->set,
                                     .now_ms = context->request->now_ms};
    const struct plan_event event = {.name = "acme/models/a", .digest = DIGEST, .facts = decision->parts.facts[0]};
    struct plan_answer answer;
    struct error err;

    assert_true(policy_plan_event(&plan, &event, &answer, &err).ok);
    assert_int_equal(answer.change, is_allowed ? PLAN_ALLOWED : PLAN_DENIED);
}

static void exceptions_are_used(void **state)
{
    const struct exception_row *row = *state;
    const struct decide_row asked = {.robot = row->is_of_server ? '-' : 'c',
                                     .action = row->is_of_server ? ACTION_COPY_WRITE : ACTION_BLOB_READ,
                                     .resource = "acme/models/a",
                                     .detail = DIGEST};
    OWNED(policy_set) *set = set_with_exception(row->is_counted);
    struct snapshot here = snapshot;
    uint8_t spent[1][SHA256_SIZE];
    struct principal principal;
    struct decision_request request;
    OWNED(decision) *decision = NULL;
    struct error err = {0};
    size_t count = 0;
    const struct uuid models = id_of('m');
    memcpy(spent[0], policy_set_exceptions(set, &models, &count)[0]->key, SHA256_SIZE);
    here.set = set;
    here.tenancy.spent = spent;
    here.tenancy.spent_count = row->is_used_up ? 1 : 0;
    fill(&asked, &principal, &request);
    const struct decision_context context = {
        .snapshot = &here, .request = &request, .metadata_region = "", .is_of_server = row->is_of_server};
    assert_true(decide_request(&context, &decision, &err).ok);
    assert_int_equal(decision_verdict(decision) == VERDICT_ALLOW, row->is_allowed);
    assert_int_equal(decision->parts.use_count, row->is_allowed ? 1 : 0);
    const struct bytes facts = decision->parts.facts[0];
    const bool is_left_out = memmem(facts.data, facts.length, "\"spent\":[", 9) != NULL;
    assert_int_equal(is_left_out, !row->is_allowed); /* a replay leaves it out, too */
    if (row->is_of_server) judge_what_is_kept(&context, row->is_allowed);
    a_plan_agrees(&context, decision, row->is_allowed);
}

/* ---- what makes a decision stale ---- */

static const struct depends_row {
    const char *name;
    char robot;
    enum action action;
    const char *resource, *detail;
    bool is_partial, outlasts_grants;
} depends_rows[] = {
    {"a pull", 'c', ACTION_BLOB_READ, "acme/models/a", DIGEST, true, true},
    {"a pull that is refused", 'c', ACTION_BLOB_READ, "acme/health/a", DIGEST, true, false},
    {"a push", 'p', ACTION_MANIFEST_PUSH, "acme/models/a", "v1", true, false},
    {"a grant", 'o', ACTION_BINDING_CREATE, "acme/models", "publisher external", true, true},
    {"a grant that is refused", 'p', ACTION_BINDING_CREATE, "acme/models", "publisher external", true, false},
    {"the grant of an officer", 'o', ACTION_BINDING_CREATE, "acme", "security-officer external", true, false},
    {"the end of a role", 'o', ACTION_BINDING_REVOKE, "acme/models", "00000000-0000-0000-0000-000000000009", true, false},
    {"a rotation", 'o', ACTION_ROBOT_ROTATE, "acme", "00000000-0000-0000-0000-000000000009", false, false},
    {"a robot nobody knows", '?', ACTION_BLOB_READ, "acme/models/a", DIGEST, false, false},
};

static void dependencies(void **state)
{
    const struct depends_row *row = *state;
    const struct decide_row asked = {
        .robot = row->robot, .action = row->action, .resource = row->resource, .detail = row->detail};
    OWNED(decision) *decision = NULL;
    struct principal principal;
    struct decision_request request;
    struct error err = {0};

    fill(&asked, &principal, &request);
    const struct decision_context context = {.snapshot = &snapshot, .request = &request, .metadata_region = ""};
    assert_true(decide_request(&context, &decision, &err).ok);
    assert_int_equal(decision->parts.is_partial, row->is_partial);
    assert_int_equal(decision->parts.outlasts_grants, row->outlasts_grants);
}

/* Content comes into the home alone: a push that was resolved before the home has changed is decided again. */
static void what_was_meant_for_an_old_home_is_stale(void **state)
{
    static const struct decide_row asked[] = {
        {.robot = 'p', .action = ACTION_MANIFEST_PUSH, .resource = "acme/models/a", .detail = "v1"},
        {.robot = 'c', .action = ACTION_BLOB_READ, .resource = "acme/models/a", .detail = DIGEST}};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        OWNED(decision) *decision = NULL;
        struct principal principal;
        struct decision_request request;
        struct error err = {0};
        fill(&asked[i], &principal, &request);
        (void)snprintf(request.pairs[0].resource.region, sizeof request.pairs[0].resource.region, "on-prem/abudhabi-dc1");
        const struct decision_context context = {.snapshot = &snapshot, .request = &request, .metadata_region = ""};
        assert_true(decide_request(&context, &decision, &err).ok);
        assert_int_equal(decision_verdict(decision) == VERDICT_ALLOW, i == 1);
        if (i == 0) assert_string_equal(decision_denial(decision, 0)->rule, "SYS-STALE");
    }
}

int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(ids_differ),
        cmocka_unit_test(all_pairs_must_be_allowed),
        cmocka_unit_test(what_is_hidden_has_no_place),
        cmocka_unit_test(the_place_of_metadata_counts),
        cmocka_unit_test(what_was_meant_for_an_old_home_is_stale),
        cmocka_unit_test(a_stale_snapshot_denies),
        cmocka_unit_test(a_name_that_changed_hands_denies),
        cmocka_unit_test(without_a_policy_set_nothing_is_stored),
        cmocka_unit_test(deciding_survives_lack_of_memory),
    };

    make_snapshot();
    const int failed = RUN_TABLE(rows, decisions) + RUN_TABLE(depends_rows, dependencies) +
                       RUN_TABLE(exception_rows, exceptions_are_used) + RUN_TABLE(resolve_rows, names_are_resolved) +
                       cmocka_run_group_tests_name("others", others, NULL, NULL);
    forget_snapshot();
    return failed;
}
