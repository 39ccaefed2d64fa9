/* One request's decision: rights and policies together, on a snapshot that was put together by hand. */
#include "tests/support/policy.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "base/fault.h"
#include "policy/decider_priv.h"

#define NOW_MS INT64_C(1795171186000)
#define NETWORKS "[{\"cidr\":\"10.1.0.0/16\",\"facts\":{\"geo\":\"AE/DU\",\"assurance\":2,\"recipient\":\"same-controller\"}}]"
#define SHA_OF(letter) "sha256:" letter letter letter letter letter letter letter letter
#define DIGEST SHA_OF("01234567")

static struct uuid id_of(char letter)
{
    return (struct uuid){{(uint8_t)letter, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
}

/* Robots: p publishes in both projects of acme, c may only pull from acme/models, z has no binding. */
static struct authz_snapshot *make_rights(void)
{
    static const char names[] = "pcz";
    struct authz_robot robots[3] = {0};
    struct authz_binding bindings[] = {
        {.id = id_of('1'), .kind = PRINCIPAL_ROBOT, .robot = id_of('p'), .role = ROLE_PUBLISHER,
         .scope = RESOURCE_ORGANISATION, .organisation = id_of('A'), .granted_by = "system"},
        {.id = id_of('2'), .kind = PRINCIPAL_ROBOT, .robot = id_of('c'), .role = ROLE_CONSUMER,
         .scope = RESOURCE_PROJECT, .organisation = id_of('A'), .project = id_of('m'), .granted_by = "system"},
    };
    struct authz_snapshot *rights = NULL;
    struct error err = {0};

    for (size_t i = 0; i < COUNT(robots); i++) {
        robots[i].id = id_of(names[i]);
        robots[i].enabled = true;
        robots[i].expires_ms = NOW_MS + 1000;
        (void)snprintf(robots[i].name, sizeof robots[i].name, "robot$acme+%c", names[i]);
    }
    const struct authz_parts parts = {
        .robots = robots, .robot_count = COUNT(robots), .bindings = bindings, .binding_count = COUNT(bindings)};
    if (!authz_snapshot_build(&parts, &rights, &err).ok) fail_msg("%s", err.message);
    return rights;
}

static struct policy_set *make_set(void)
{
    OWNED_JSON networks = policy_json(NETWORKS);
    struct buffer OWNED_BUFFER payload = BUFFER(POLICY_SET_BYTES_MAX), again = BUFFER(POLICY_SET_BYTES_MAX);
    const struct policy_default_options options = {.epoch = 5, .region = "local/main", .now_ms = NOW_MS - 1000};
    struct policy_set *set = NULL;
    struct error err = {0};

    assert_true(policy_default_set(&options, &payload, &err).ok);
    OWNED_JSON json = policy_json(buffer_text(&payload));
    const struct policy_set_parts parts = {.epoch = 5,
                                           .policies = json_object_get(json, "policies"),
                                           .regions = json_object_get(json, "regions"),
                                           .networks = networks};
    assert_true(policy_set_compose(&parts, &again, &err).ok);
    assert_true(policy_set_compile(buffer_bytes(&again), &set, &err).ok);
    buffer_done(&again);
    return set;
}

static struct floor_label *floor_of(const char *text)
{
    static struct floor_label floors[4];
    static size_t count;
    struct floor_label *floor = &floors[count++];
    bool is_stated = false;
    struct error err = {0};

    floor->json = policy_json(text);
    assert_true(label_read_floor(floor->json, &floor->label, &is_stated, &err).ok);
    return floor;
}

static struct tenant_organisation organisations[] = {{.name = "acme"}};
static struct tenant_project projects[] = {{.name = "acme/health", .home_region = "local/main"},
                                           {.name = "acme/lost", .home_region = "local/gone"},
                                           {.name = "acme/models", .home_region = "local/main"}};
static struct tenant_repository repositories[] = {{.name = "acme/models/top"}};
static struct snapshot snapshot = {.epoch = 42,
                                   .tenancy = {.organisation_count = 1, .project_count = 3, .repository_count = 1,
                                               .organisations = organisations, .projects = projects,
                                               .repositories = repositories}};

static void make_snapshot(void)
{
    organisations[0].id = id_of('A');
    for (size_t i = 0; i < COUNT(projects); i++) projects[i].organisation = id_of('A');
    projects[0].id = id_of('h');
    projects[1].id = id_of('l');
    projects[2].id = id_of('m');
    projects[0].floor = floor_of("{\"subjects\":[\"health\"]}");
    repositories[0].floor = floor_of("{\"class\":\"secret\"}");
    snapshot.authz = make_rights();
    snapshot.set = make_set();
}

static const struct judge_row {
    const char *name;
    char robot; /* '-': no credential; '?': one that nobody knows */
    enum action action;
    const char *resource, *detail, *client;
    enum verdict verdict;
    const char *denials; /* "RULE policy (missing); ..." in order */
} rows[] = {
    {"no credential", '-', ACTION_BLOB_READ, "acme/models/a", DIGEST, NULL, VERDICT_CHALLENGE,
     "SYS-NO-CREDENTIAL sys ()"},
    {"no credential, no such thing", '-', ACTION_BLOB_READ, "x/y/z", DIGEST, NULL, VERDICT_CHALLENGE,
     "SYS-NO-CREDENTIAL sys ()"},
    {"an unknown robot", '?', ACTION_BLOB_READ, "x/y/z", DIGEST, NULL, VERDICT_CHALLENGE, "SYS-NOT-LIVE sys ()"},
    {"a pull", 'c', ACTION_BLOB_READ, "acme/models/a", DIGEST, NULL, VERDICT_ALLOW, ""},
    {"a push", 'p', ACTION_MANIFEST_PUSH, "acme/models/a", "v1", NULL, VERDICT_ALLOW, ""},
    {"a push without the role", 'c', ACTION_MANIFEST_PUSH, "acme/models/a", "v1", NULL, VERDICT_DENY,
     "SYS-NO-BINDING sys ()"},
    {"a thing of others", 'c', ACTION_BLOB_READ, "acme/health/a", DIGEST, "10.1.2.3", VERDICT_HIDE,
     "SYS-NO-BINDING sys ()"},
    {"a thing of others that policies deny too", 'c', ACTION_BLOB_READ, "acme/health/a", DIGEST, NULL, VERDICT_HIDE,
     "SYS-NO-BINDING sys (); H-READ-AE registry-default@1 (assurance, geo)"},
    {"no such project", 'z', ACTION_BLOB_READ, "acme/none/a", DIGEST, NULL, VERDICT_HIDE,
     "SYS-NO-BINDING sys (); SYS-NOT-FOUND sys ()"},
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

static void fill(const struct judge_row *row, struct principal *principal, struct decision_request *request)
{
    *principal = (struct principal){.kind = row->robot == '-' ? PRINCIPAL_NONE : PRINCIPAL_ROBOT,
                                    .id = id_of(row->robot)};
    *request = (struct decision_request){.principal = principal, .pair_count = 1, .now_ms = NOW_MS};
    request->pairs[0].action = row->action;
    tenancy_resolve(&snapshot.tenancy, row->resource, &request->pairs[0].resource);
    (void)snprintf(request->pairs[0].resource.detail, RESOURCE_DETAIL_MAX, "%s", row->detail);
}

static void write_denials(const struct decision *decision, struct buffer *text)
{
    struct error err = {0};

    for (size_t i = 0; i < decision_denial_count(decision); i++) {
        const struct denial *denial = decision_denial(decision, i);
        assert_true(buffer_format(text, &err, "%s%s %s (%s)", i > 0 ? "; " : "", denial->rule, denial->policy,
                                  denial->missing).ok);
        assert_true(denial->message[0] != '\0');
    }
}

static void decisions(void **state)
{
    const struct judge_row *row = *state;
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
        request.client = (const struct sockaddr *)&client;
    }
    const struct judge judge = {.snapshot = &snapshot, .request = &request, .metadata_region = ""};
    assert_true(judge_request(&judge, &decision, &err).ok);
    write_denials(decision, &text);
    assert_string_equal(buffer_text(&text), row->denials);
    assert_int_equal(decision_verdict(decision), row->verdict);
    assert_int_equal(decision_epoch(decision), 42);
    assert_string_equal(decision_policy_digest(decision), policy_set_digest(snapshot.set));
    assert_true(judge_request(&judge, &again, &err).ok);
    assert_string_equal(decision_id(decision), decision_id(again)); /* the same inputs, the same id */
}

/* The id binds everything that was asked. */
static void ids_differ(void **state)
{
    struct principal principal;
    struct decision_request request;
    struct judge judge = {.snapshot = &snapshot, .request = &request, .metadata_region = ""};
    char ids[5][72];
    struct error err = {0};

    (void)state;
    fill(&rows[4], &principal, &request);
    for (size_t i = 0; i < COUNT(ids); i++) {
        OWNED(decision) *decision = NULL;
        if (i == 1) request.now_ms++;
        if (i == 2) request.pairs[0].resource.detail[0] = 'w';
        if (i == 3) request.pairs[0].action = ACTION_UPLOAD_BEGIN;
        if (i == 4) judge.metadata_region = "local/else";
        if (i == 4) request.pairs[0].action = ACTION_MANIFEST_PUSH;
        assert_true(judge_request(&judge, &decision, &err).ok);
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
    const struct judge judge = {.snapshot = &snapshot, .request = &request, .metadata_region = ""};
    assert_true(judge_request(&judge, &decision, &err).ok);
    assert_int_equal(decision_verdict(decision), VERDICT_HIDE);
    assert_int_equal(decision_pair_count(decision), 2);
}

static void the_place_of_metadata_counts(void **state)
{
    struct principal principal;
    struct decision_request request;
    OWNED(decision) *decision = NULL;
    struct error err = {0};

    (void)state;
    fill(&rows[4], &principal, &request);
    const struct judge judge = {.snapshot = &snapshot, .request = &request, .metadata_region = "local/gone"};
    assert_true(judge_request(&judge, &decision, &err).ok);
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
    const struct judge judge = {.snapshot = &snapshot, .request = &request, .metadata_region = "", .is_stale = true};
    assert_true(judge_request(&judge, &decision, &err).ok);
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
    const struct judge judge = {.snapshot = &snapshot, .request = &request, .metadata_region = ""};
    assert_true(judge_request(&judge, &decision, &err).ok);
    assert_int_equal(decision_verdict(decision), VERDICT_DENY);
    assert_string_equal(decision_denial(decision, 0)->rule, "SYS-STALE");
}

/* A policy of very many rules, each with a message of many letters of two bytes, and more facts than an answer names. */
static struct policy_set *make_wordy_set(void)
{
    struct buffer OWNED_BUFFER rules = BUFFER(1 << 18);
    struct buffer OWNED_BUFFER payload = BUFFER(POLICY_SET_BYTES_MAX);
    OWNED_JSON policies = policy_json("[{\"apiVersion\":\"sijil.policy/v1\",\"kind\":\"ResidencyPolicy\",\"metadata\":{\"id\":\"wordy\","
                                      "\"version\":1,\"scope\":[\"acme/**\"],\"effective_from\":\"2020-01-01T00:00:00Z\","
                                      "\"review_by\":\"2030-01-01\"},\"labels\":{},\"rules\":[]}]");
    struct policy_set *set = NULL;
    struct error err = {0};

    assert_true(buffer_add_u8(&rules, '[', &err).ok);
    for (size_t i = 0; i < DENIALS_MAX + 2; i++) {
        assert_true(buffer_format(&rules, &err, "%s{\"id\":\"RULE-%zu\",\"effect\":\"require\",\"ops\":[\"ingest\"],",
                                  i > 0 ? "," : "", i).ok);
        if (i != 1) assert_true(buffer_add_text(&rules, "\"message\":\"", &err).ok); /* one rule has none */
        for (size_t j = 0; i != 1 && j < 300 + i; j++) assert_true(buffer_add_text(&rules, j < i ? "x" : "\xc3\xa9", &err).ok);
        assert_true(buffer_add_text(&rules, i == 1 ? "\"target\":{\"geo_in_group\":[" : "\",\"target\":{\"geo_in_group\":[", &err).ok);
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

/* However much a policy says, an answer is bounded, and cut between letters and between names. */
static void answers_are_bounded(void **state)
{
    struct snapshot wordy = {.epoch = 42, .authz = snapshot.authz, .tenancy = snapshot.tenancy, .set = make_wordy_set()};
    struct principal principal;
    struct decision_request request;
    OWNED(decision) *decision = NULL;
    struct error err = {0};

    (void)state;
    fill(&rows[12], &principal, &request); /* storing health data */
    const struct judge judge = {.snapshot = &wordy, .request = &request, .metadata_region = ""};
    assert_true(judge_request(&judge, &decision, &err).ok);
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

/* What is under more laws than a label holds is too large to be judged: denied, with the reason. */
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
    fill(&rows[4], &principal, &request);
    tenancy_resolve(&lawful.tenancy, "acme/models/top", &request.pairs[0].resource);
    const struct judge judge = {.snapshot = &lawful, .request = &request, .metadata_region = ""};
    assert_true(judge_request(&judge, &decision, &err).ok);
    assert_int_equal(decision_verdict(decision), VERDICT_DENY);
    assert_string_equal(decision_denial(decision, 0)->rule, "SYS-LIMIT");
    for (size_t i = 0; i < 2; i++) json_decref(floors[i].json);
}

/* A policy that gives no label, in a place that has none: nothing is known, so nothing is allowed. */
static void without_a_label_nothing_is_stored(void **state)
{
    struct buffer OWNED_BUFFER payload = BUFFER(POLICY_SET_BYTES_MAX);
    OWNED_JSON policies = policy_json("[{\"apiVersion\":\"sijil.policy/v1\",\"kind\":\"ResidencyPolicy\",\"metadata\":{\"id\":\"bare\","
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
    fill(&rows[4], &principal, &request);
    const struct judge judge = {.snapshot = &bare, .request = &request, .metadata_region = ""};
    assert_true(judge_request(&judge, &decision, &err).ok);
    assert_int_equal(decision_verdict(decision), VERDICT_DENY);
    assert_string_equal(decision_denial(decision, 0)->rule, "SYS-UNLABELLED");
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
}

/* A digest that only looks like one is no digest: the policies then decide without it. */
static void digests_have_one_form(void **state)
{
    static const char *const details[] = {"sha256:0123", "sha512:" "0123456789abcdef", SHA_OF("0123456X"), DIGEST "0"};
    struct principal principal;
    struct decision_request request;
    const struct judge judge = {.snapshot = &snapshot, .request = &request, .metadata_region = ""};
    struct error err = {0};

    (void)state;
    for (size_t i = 0; i < COUNT(details); i++) {
        OWNED(decision) *decision = NULL;
        fill(&rows[3], &principal, &request);
        (void)snprintf(request.pairs[0].resource.detail, RESOURCE_DETAIL_MAX, "%s", details[i]);
        assert_true(judge_request(&judge, &decision, &err).ok);
        assert_int_equal(decision_verdict(decision), VERDICT_ALLOW);
    }
}

/* The project was there when the name was resolved, and is gone. */
static void a_project_that_is_gone_denies(void **state)
{
    struct principal principal;
    struct decision_request request;
    OWNED(decision) *decision = NULL;
    struct error err = {0};

    (void)state;
    fill(&rows[4], &principal, &request);
    (void)snprintf(request.pairs[0].resource.name, sizeof request.pairs[0].resource.name, "acme/gone/a");
    const struct judge judge = {.snapshot = &snapshot, .request = &request, .metadata_region = ""};
    assert_true(judge_request(&judge, &decision, &err).ok);
    assert_int_not_equal(decision_verdict(decision), VERDICT_ALLOW);
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
    const struct judge judge = {.snapshot = &bare, .request = &request, .metadata_region = ""};
    assert_true(judge_request(&judge, &decision, &err).ok);
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
    {"a name longer than any", "acme/mmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmm"
     "mmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmm/a", RESOURCE_REPOSITORY, 'A', 0, ""},
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

static struct result judge_once(void *judge, struct error *err)
{
    OWNED(decision) *decision = NULL;

    TRY_UNTOUCHED(decision, judge_request(judge, &decision, err));
    return SUCCESS;
}

static void deciding_survives_lack_of_memory(void **state)
{
    struct principal principal;
    struct decision_request request;

    (void)state;
    fill(&rows[10], &principal, &request);
    struct judge judge = {.snapshot = &snapshot, .request = &request, .metadata_region = ""};
    fail_each(judge_once, &judge, ERROR_NO_MEMORY, 4);
}

int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(ids_differ),
        cmocka_unit_test(all_pairs_must_be_allowed),
        cmocka_unit_test(the_place_of_metadata_counts),
        cmocka_unit_test(answers_are_bounded),
        cmocka_unit_test(too_many_laws_deny),
        cmocka_unit_test(without_a_label_nothing_is_stored),
        cmocka_unit_test(an_empty_registry_has_no_names),
        cmocka_unit_test(digests_have_one_form),
        cmocka_unit_test(a_project_that_is_gone_denies),
        cmocka_unit_test(a_stale_snapshot_denies),
        cmocka_unit_test(a_name_that_changed_hands_denies),
        cmocka_unit_test(without_a_policy_set_nothing_is_stored),
        cmocka_unit_test(deciding_survives_lack_of_memory),
    };

    make_snapshot();
    const int failed = RUN_TABLE(rows, decisions) + RUN_TABLE(resolve_rows, names_are_resolved) +
                       cmocka_run_group_tests_name("others", others, NULL, NULL);
    authz_snapshot_free(snapshot.authz);
    policy_set_free(snapshot.set);
    json_decref(projects[0].floor->json);
    json_decref(repositories[0].floor->json);
    return failed;
}
