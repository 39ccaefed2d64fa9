/* The default set, and the description of a set's regions for people and programs. */
#include "tests/unit/default_set_fixture.h"

#include <string.h>

#include "policy/evaluate.h"
#include "policy/set_priv.h"
#include "tests/support/policy.h"

static void a_default_set_names_its_operator(void **state)
{
    struct policy_default_options options = defaults;
    struct buffer OWNED_BUFFER payload = BUFFER(POLICY_SET_BYTES_MAX);

    (void)state;
    options.operator_name = "Acme Holding";
    payload_of(&options, &payload);
    assert_non_null(strstr(buffer_text(&payload), "Acme Holding"));
}

static const struct default_row {
    const char *name;
    enum policy_operation op;
    const char *geo;    /* of the registry */
    const char *own;    /* floor label of the project */
    const char *client; /* facts of the client, or NULL: the region */
    const char *rule;   /* that denies; NULL: allowed */
} default_rows[] = {
    {"storing", OP_INGEST, "AE", "{}", NULL, NULL},
    {"storing in an emirate", OP_INGEST, "AE/DU", "{}", NULL, NULL},
    {"storing health data", OP_INGEST, "AE", "{\"subjects\":[\"health\"]}", NULL, NULL},
    {"metadata of health data", OP_METADATA, "AE", "{\"subjects\":[\"health\"]}", NULL, NULL},
    {"storing what is secret", OP_INGEST, "AE", "{\"class\":\"secret\"}", NULL, "SYS-CLOSED"},
    {"storing health data elsewhere", OP_INGEST, "DE", "{\"subjects\":[\"health\"]}", NULL, "H-STORE-AE"},
    {"storing at home elsewhere", OP_INGEST, "DE", "{}", NULL, NULL},
    {"reading from anywhere", OP_READ, "AE", "{}", "{}", NULL},
    {"reading health data from anywhere", OP_READ, "AE", "{\"subjects\":[\"health\"]}", "{}", "H-READ-AE"},
    {"reading health data from a proven place", OP_READ, "AE", "{\"subjects\":[\"health\"]}", "{\"geo\":\"AE\",\"assurance\":2}",
     NULL},
};

static void the_default_set_decides(void **state)
{
    const struct default_row *row = *state;
    struct policy_default_options options = defaults;
    struct buffer OWNED_BUFFER payload = BUFFER(POLICY_SET_BYTES_MAX);
    OWNED(policy_set) *set = NULL;
    OWNED(policy_target) *client = NULL;
    OWNED(policy_decision) *decision = NULL;
    struct label own, label;
    bool is_stated = false, is_labelled = false;
    struct error err = {0};

    options.geo = row->geo;
    payload_of(&options, &payload);
    assert_true(policy_set_compile(buffer_bytes(&payload), &set, &err).ok);
    OWNED_JSON floor = policy_json(row->own);
    assert_true(label_read_floor(floor, &own, &is_stated, &err).ok);
    const struct label_query query = {policy_set_documents(set), "acme/models/x", options.now_ms * 1000};
    assert_true(policy_effective_label(&query, is_stated ? &own : NULL, &label, &is_labelled, &err).ok);
    assert_true(is_labelled); /* the policy gives everything a label */
    OWNED_JSON json = policy_json(row->client == NULL ? "{}" : row->client);
    assert_true(policy_target_new(json, &client, &err).ok);
    const struct policy_facts facts = {.op = row->op,
                                       .scope = query.scope,
                                       .policy_epoch = 1,
                                       .label = &label,
                                       .target_id = "x",
                                       .target = row->client == NULL ? policy_set_region(set, "local/main", 0) : client,
                                       .now_us = query.now_us};
    assert_true(policy_evaluate(policy_set_documents(set), &facts, policy_set_groups(set), &decision, &err).ok);
    assert_int_equal(policy_decision_allows(decision), row->rule == NULL);
    if (row->rule != NULL) assert_string_equal(policy_decision_denial(decision, 0)->rule, row->rule);
}

static const struct allowed_row {
    const char *name, *scope;
    enum policy_operation op;
    const char *regions;
} allowed_rows[] = {
    {"health data", "health/ct", OP_INGEST,
     "azure/uaenorth core42/spc-azure-ae oci/me-abudhabi-1 onprem/adgm-dc1 onprem/difc-dc1 "},
    {"a bank in the DIFC", "difcbank/m", OP_INGEST, "aws/eu-central-1 onprem/adgm-dc1 onprem/difc-dc1 "},
    {"reading health data", "health/ct", OP_READ,
     "aws/me-central-1 azure/uaenorth core42/spc-azure-ae oci/me-abudhabi-1 onprem/adgm-dc1 onprem/difc-dc1 "},
    {"what no policy permits", "other/x", OP_INGEST, ""},
};

static struct policy_set *set_of_samples(void)
{
    OWNED_JSON policies = policy_examples();
    OWNED_JSON world = policy_example("regions");
    struct buffer OWNED_BUFFER payload = BUFFER(POLICY_SET_BYTES_MAX);
    const struct policy_set_parts parts = {.epoch = 7,
                                           .policies = policies,
                                           .regions = json_object_get(world, "regions"),
                                           .groups = json_object_get(world, "groups")};
    struct policy_set *set = NULL;
    struct error err = {0};

    if (!policy_set_compose(&parts, &payload, &err).ok) fail_msg("%s", err.message);
    assert_true(policy_set_compile(buffer_bytes(&payload), &set, &err).ok);
    return set;
}

static void regions_are_explained(void **state)
{
    const struct allowed_row *row = *state;
    OWNED(policy_set) *set = set_of_samples();
    const struct label_query query = {policy_set_documents(set), row->scope, INT64_C(1797292800000000)};
    struct label own = label_initial(), label;
    const char *allowed[16]; /* the catalogue has nine */
    size_t count = 0;
    bool is_labelled = false;
    struct buffer OWNED_BUFFER names = BUFFER(1024);
    struct error err = {0};

    own.lineage = LINEAGE_DECLARED;
    assert_true(policy_effective_label(&query, &own, &label, &is_labelled, &err).ok);
    const struct policy_facts facts = {
        .op = row->op, .scope = row->scope, .policy_epoch = 7, .label = &label, .now_us = query.now_us};
    assert_true(policy_set_region_count(set) <= COUNT(allowed));
    assert_true(policy_set_allowed_regions(set, &facts, allowed, &count, &err).ok);
    for (size_t i = 0; i < count; i++) assert_true(buffer_format(&names, &err, "%s ", allowed[i]).ok);
    assert_string_equal(buffer_text(&names), row->regions);
}

/* The description of a set needs its room. */
static void sets_describe_themselves(void **state)
{
    OWNED(policy_set) *set = set_of_samples();
    struct buffer OWNED_BUFFER whole = BUFFER(4096);
    struct error err = {0};

    (void)state;
    assert_true(policy_set_describe(set, &whole, &err).ok);
    assert_non_null(strstr(buffer_text(&whole), "},{\"digest\":"));
    for (size_t room = 1; room < whole.length; room++) {
        struct buffer OWNED_BUFFER narrow = BUFFER(room);
        assert_false(policy_set_describe(set, &narrow, &err).ok);
        assert_int_equal(err.kind, ERROR_LIMIT);
    }
    assert_null(policy_set_region(set, "nowhere/at-all", 0));
    policy_set_free(NULL);
}

/* ---- Attested attributes ---- */

#define EVIDENCE "\"evidence\":\"sha256:0000000000000000000000000000000000000000000000000000000000000000\""

static struct result compose(const char *region, struct policy_set **set_out, struct error *err)
{
    struct buffer OWNED_BUFFER payload = BUFFER(4096);
    OWNED_JSON record = NULL;
    OWNED_JSON regions = json_object();

    TRY(json_read(bytes_of_text(region), 4096, &record, err));
    assert_int_equal(json_object_set(regions, "a/b", record), 0);
    const struct policy_set_parts parts = {.epoch = 1, .regions = regions};
    TRY(policy_set_compose(&parts, &payload, err));
    return policy_set_compile(buffer_bytes(&payload), set_out, err);
}

/* A decision is about facts: neither evidence nor the store is one. Once one attribute has expired, nothing is known of any. */
static void attributes_expire(void **state)
{
    static const int64_t end_us = INT64_C(1798848000) * 1000000; /* 2027-01-02T00:00:00Z */
    OWNED(policy_set) *set = NULL;
    struct error err = {0};

    (void)state;
    if (!compose(
             "{\"geo\":\"AE\",\"attrs\":[\"iso27001\",\"sovereign\"],\"attested\":{\"iso27001\":{\"until\":\"2027-01-01\"," EVIDENCE
             "}},"
             "\"store\":{\"driver\":\"fs\",\"mark\":\"00112233445566778899aabbccddeeff\",\"file_system\":\"xfs\"}}",
             &set, &err)
             .ok)
        fail_msg("%s", err.message);
    assert_string_equal(policy_target_canonical(policy_set_region(set, "a/b", end_us - 1)),
                        "{\"attrs\":[\"iso27001\",\"sovereign\"],\"geo\":\"AE\"}");
    assert_string_equal(policy_target_canonical(policy_set_region(set, "a/b", end_us)), "{\"geo\":\"AE\"}");
    assert_int_equal(policy_set_attested_until(set), end_us);
    assert_string_equal(json_text_of(policy_set_region_store(set, "a/b"), "file_system"), "xfs");
    assert_null(policy_set_region_store(set, "a/c"));
}

static const struct bad_row {
    const char *name, *region, *says;
} bad_rows[] = {
    {"an attribute that it does not have", "{\"attrs\":[\"x\"],\"attested\":{\"y\":{\"until\":\"2027-01-01\"," EVIDENCE "}}}",
     "is not one of its attrs"},
    {"no attributes", "{\"attested\":{\"y\":{\"until\":\"2027-01-01\"," EVIDENCE "}}}", "is not one of its attrs"},
    {"no evidence", "{\"attrs\":[\"x\"],\"attested\":{\"x\":{\"until\":\"2027-01-01\"}}}", "evidence: is missing"},
    {"no end", "{\"attrs\":[\"x\"],\"attested\":{\"x\":{" EVIDENCE "}}}", "until: is missing"},
    {"a day that is none", "{\"attrs\":[\"x\"],\"attested\":{\"x\":{\"until\":\"2027-02-30\"," EVIDENCE "}}}", "a day expected"},
    {"a store without a driver", "{\"store\":{\"mark\":\"00112233445566778899aabbccddeeff\"}}", "driver: is missing"},
    {"a driver that is none", "{\"store\":{\"driver\":\"memory\"}}", "driver: "},
    {"a mark that is none", "{\"store\":{\"driver\":\"fs\",\"mark\":\"0011\"}}", "32 hex digits"},
    {"a secret", "{\"store\":{\"driver\":\"s3\",\"secret\":\"x\"}}", "not known: secret"},
};

static void bad_records_are_refused(void **state)
{
    const struct bad_row *row = *state;
    OWNED(policy_set) *set = NULL;
    struct error err = {0};

    assert_false(compose(row->region, &set, &err).ok);
    if (strstr(err.message, row->says) == NULL) fail_msg("%s", err.message);
}

int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(a_default_set_names_its_operator),
        cmocka_unit_test(sets_describe_themselves),
        cmocka_unit_test(attributes_expire),
    };

    return RUN_TABLE(bad_rows, bad_records_are_refused) + RUN_TABLE(default_rows, the_default_set_decides) +
           RUN_TABLE(allowed_rows, regions_are_explained) + cmocka_run_group_tests_name("others", others, NULL, NULL);
}
