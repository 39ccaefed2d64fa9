/* A runner decides `train` again, from the set that the root has signed and the order names. */
#include "tests/support/made_run.h"

#include "policy/label_annotation.h"
#include "policy/train.h"
#include "runner/order/order_policy.h"

#define HEALTH(class) "{\"attached\":[],\"class\":\"" class "\",\"lineage\":\"attested\",\"pins\":[],\"subjects\":[\"health\"]}"
#define STATED_AE \
    "{\"id\":\"S-AE\",\"effect\":\"require\",\"ops\":[\"train\"],\"when\":{\"subjects_any\":[\"health\"]},\"target\":{\"geo_within\":[\"AE\"]},\"message\":\"here\"}"
#define STATED_TWO \
    "{\"id\":\"S-TWO\",\"effect\":\"oblige\",\"ops\":[\"train\"],\"when\":{\"subjects_any\":[\"health\"]},\"oblige\":{\"approvals\":2}}"
#define NOW_MS INT64_C(1795171186000)
#define RULE \
    "{\"id\":\"T-AE\",\"effect\":\"require\",\"ops\":[\"train\"],\"target\":{\"geo_within\":[\"AE\"]},\"message\":\"here\"}"
#define SIGNED "{\"id\":\"T-SIGNED\",\"effect\":\"oblige\",\"ops\":[\"train\"],\"oblige\":{\"signed_request\":true}}"
#define TWO    "{\"id\":\"T-TWO\",\"effect\":\"oblige\",\"ops\":[\"train\"],\"oblige\":{\"approvals\":2}}"

static const struct row {
    const char *name;
    const char *rule;         /* is added to the default policy */
    const char *region;       /* of the runner */
    const char *path, *value; /* a member of the order that is changed */
    const char *stated;       /* a label that the manifest of the code states */
    bool has_other_root, has_no_set, has_other_digest, has_other_epoch, has_no_floor, has_place;
    const char *says; /* NULL: it may run */
} rows[] = {
    {.name = "as it is", .rule = RULE, .region = "local/main"},
    {.name = "a region that the set does not know", .rule = RULE, .region = "local/elsewhere", .says = "rule T-AE"},
    {.name = "without the rule it may be anywhere", .rule = NULL, .region = "local/elsewhere"},
    {.name = "fewer approvals than the set asks for", .rule = TWO, .region = "local/main", .says = "2 approvals"},
    {.name = "as many", .rule = TWO, .region = "local/main", .path = "obligations.approvals", .value = "2"},
    {.name = "a signed request that the order does not ask for",
     .rule = SIGNED,
     .region = "local/main",
     .path = "obligations.signed_request",
     .value = "false",
     .says = "that its requester has signed"},
    {.name = "a signed request that it asks for", .rule = SIGNED, .region = "local/main"},
    {.name = "a jurisdiction without a region of the set",
     .rule = RULE,
     .region = "local/main",
     .path = "jurisdictions",
     .value = "[\"AE\",\"DIFC\"]",
     .says = "in no region of DIFC"},
    {.name = "a part of the name of one",
     .rule = RULE,
     .region = "local/main",
     .path = "jurisdictions",
     .value = "[\"A\"]",
     .says = "in no region of A,"},
    {.name = "a jurisdiction that is a regime of a region",
     .rule = RULE,
     .region = "local/main",
     .path = "jurisdictions",
     .value = "[\"AE\",\"AE-FED\"]"},
    {.name = "a jurisdiction that is a part of the country",
     .rule = RULE,
     .region = "local/main",
     .path = "jurisdictions",
     .value = "[\"AE-DU\"]"},
    {.name = "a jurisdiction that is another part",
     .rule = RULE,
     .region = "local/main",
     .path = "jurisdictions",
     .value = "[\"AE-AZ\"]",
     .says = "in no region of AE-AZ"},
    {.name = "without the rule any jurisdiction",
     .rule = NULL,
     .region = "local/main",
     .path = "jurisdictions",
     .value = "[\"AE\",\"DIFC\"]"},
    {.name = "a label that a manifest states, in a place that it allows",
     .rule = NULL,
     .region = "local/main",
     .stated = HEALTH("confidential"),
     .has_place = true},
    {.name = "and in another place",
     .rule = NULL,
     .region = "local/elsewhere",
     .stated = HEALTH("confidential"),
     .has_place = true,
     .says = "rule H-READ-AE"},
    {.name = "a class that no policy permits",
     .rule = NULL,
     .region = "local/main",
     .stated = HEALTH("secret"),
     .has_place = true,
     .says = "rule SYS-CLOSED"},
    {.name = "an approval that the label asks for",
     .rule = STATED_TWO,
     .region = "local/main",
     .stated = HEALTH("confidential"),
     .has_place = true,
     .says = "2 approvals"},
    {.name = "not without the label", .rule = STATED_TWO, .region = "local/main", .has_place = true},
    {.name = "a jurisdiction that the label forbids",
     .rule = STATED_AE,
     .region = "local/main",
     .path = "jurisdictions",
     .value = "[\"AE\",\"DIFC\"]",
     .stated = HEALTH("confidential"),
     .has_place = true,
     .says = "in no region of DIFC"},
    {.name = "a policy that labels nothing", .rule = TWO, .region = "local/main", .has_no_floor = true, .says = "2 approvals"},
    {.name = "a set that somebody else signed", .rule = RULE, .region = "local/main", .has_other_root = true, .says = ""},
    {.name = "no set", .rule = RULE, .region = "local/main", .has_no_set = true, .says = "without the policy set"},
    {.name = "another set", .rule = RULE, .region = "local/main", .has_other_digest = true, .says = "without the policy set"},
    {.name = "another epoch", .rule = RULE, .region = "local/main", .has_other_epoch = true, .says = "another epoch"},
};

/* The default set with one more rule, signed by `signer`. */
static void make_set(const struct row *row, const struct ecdsa_key *signer, struct buffer *envelope)
{
    static const struct policy_default_options defaults = {.epoch = 7, .region = "local/main", .now_ms = NOW_MS};
    struct buffer OWNED_BUFFER first = BUFFER(POLICY_SET_BYTES_MAX), payload = BUFFER(POLICY_SET_BYTES_MAX);
    OWNED_JSON json = NULL;
    struct error err = {0};

    if (!policy_default_set(&defaults, &first, &err).ok) fail_msg("%s", err.message);
    assert_true(json_read(buffer_bytes(&first), POLICY_SET_BYTES_MAX, &json, &err).ok);
    json_t *policy = json_array_get(json_object_get(json, "policies"), 0);
    if (row->rule != NULL)
        assert_int_equal(json_array_append_new(json_object_get(policy, "rules"), json_loads(row->rule, 0, NULL)), 0);
    if (row->has_no_floor) assert_int_equal(json_object_del(policy, "labels"), 0);
    json_t *region = json_object_get(json_object_get(json, "regions"), "local/main");
    assert_int_equal(json_object_set_new(region, "regimes", json_pack("[s]", "AE-FED")), 0);
    assert_int_equal(json_object_set_new(region, "geo", json_string("AE/DU")), 0);
    if (row->has_place) assert_int_equal(json_object_set_new(region, "assurance", json_integer(3)), 0);
    const struct policy_set_parts parts = {.epoch = 7,
                                           .policies = json_object_get(json, "policies"),
                                           .regions = json_object_get(json, "regions"),
                                           .groups = json_object_get(json, "groups")};
    if (!policy_set_compose(&parts, &payload, &err).ok) fail_msg("%s: %s", row->name, err.message);
    if (!policy_set_sign(buffer_bytes(&payload), signer, envelope, &err).ok) fail_msg("%s: %s", row->name, err.message);
}

static void name_set(struct made_run *made, const struct row *row, const struct ecdsa_key *root, struct bytes envelope)
{
    OWNED(policy_set) *set = NULL;
    char quoted[RUN_DIGEST_TEXT + 2];
    struct error err = {0};

    if (!policy_set_read(envelope, root, &set, &err).ok) fail_msg("%s: %s", row->name, err.message);
    (void)snprintf(quoted, sizeof quoted, "\"%s\"", policy_set_digest(set));
    if (row->has_other_digest) quoted[20] = quoted[20] == 'a' ? 'b' : 'a';
    made_set(made, RUN_ORDER, "policy.digest", quoted);
    if (row->has_other_epoch) made_set(made, RUN_ORDER, "policy.epoch", "8");
    if (row->path != NULL) made_set(made, RUN_ORDER, row->path, row->value);
}

static void check_row(const struct row *row)
{
    OWNED_MADE_RUN made;
    struct buffer OWNED_BUFFER envelope = BUFFER(POLICY_SET_ENVELOPE_MAX);
    OWNED_JSON text = json_string(row->stated == NULL ? "" : row->stated);
    OWNED_STATED_LABEL stated = {.json = NULL};
    struct error err = {0};

    if (row->stated != NULL && !label_annotation_read(text, &stated, &err).ok) fail_msg("%s: %s", row->name, err.message);
    const struct train_floors floors = {.each = {row->stated == NULL ? NULL : &stated.label}};
    const struct order_context place = {.region = row->region, .now_ms = NOW_MS, .floors = &floors};

    made_run_begin(&made);
    OWNED(ecdsa_key) *root = made_key(made.vectors, "root");
    OWNED(ecdsa_key) *other = made_key(made.vectors, "officer");
    make_set(row, root, &envelope);
    name_set(&made, row, root, buffer_bytes(&envelope));
    if (!made_sign(&made, RUN_ORDER, &err).ok) fail_msg("%s: %s", row->name, err.message);
    OWNED_JSON sets = row->has_no_set ? json_array() : json_pack("[s]", buffer_text(&envelope));
    assert_non_null(sets);
    const struct result checked =
        order_policy_check(made.read[RUN_ORDER], sets, row->has_other_root ? other : root, &place, &err);
    if (checked.ok != (row->says == NULL)) fail_msg("%s: %s", row->name, checked.ok ? "it may run" : err.message);
    if (checked.ok) return;
    if (err.kind != ERROR_DENIED || strstr(err.message, row->says) == NULL) fail_msg("%s: %s", row->name, err.message);
}

static void train_is_decided_again(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) check_row(&rows[i]);
}

/* What the run writes has the join of all that its manifests state, and of the floors of all names. */
static void the_label_of_what_is_made_is_the_join(void **state)
{
    static const char *const texts[] = {
        "{\"attached\":[\"AE-FED\"],\"class\":\"open\",\"lineage\":\"attested\",\"pins\":[],\"subjects\":[\"health\"]}",
        "{\"attached\":[\"DIFC\"],\"class\":\"sensitive\",\"lineage\":\"declared\",\"pins\":[\"other\"],\"subjects\":[\"child\"]}"};
    static const struct row plain = {.name = "a join"};
    OWNED_JSON spec = json_pack("{s:{s:s}, s:[{s:s}], s:[{s:s}]}", "code", "repository", "acme/models/code", "inputs",
                                "repository", "acme/models/in", "outputs", "repository", "acme/models/trained");
    struct buffer OWNED_BUFFER envelope = BUFFER(POLICY_SET_ENVELOPE_MAX), label = BUFFER(LABEL_ANNOTATION_MAX);
    OWNED_STATED_LABEL first = {.json = NULL}, second = {.json = NULL};
    OWNED_JSON one = json_string(texts[0]);
    OWNED_JSON other = json_string(texts[1]);
    OWNED_MADE_RUN made;
    OWNED(policy_set) *set = NULL;
    struct label joined;
    struct error err = {0};

    (void)state;
    made_run_begin(&made);
    OWNED(ecdsa_key) *root = made_key(made.vectors, "root");
    make_set(&plain, root, &envelope);
    assert_true(policy_set_read(buffer_bytes(&envelope), root, &set, &err).ok);
    assert_true(label_annotation_read(one, &first, &err).ok && label_annotation_read(other, &second, &err).ok);
    const struct train_floors floors = {.each = {&first.label, &second.label}};
    const struct train_run run = {.set = set, .spec = spec, .now_ms = NOW_MS, .floors = &floors};
    assert_true(policy_train_label(&run, &joined, &err).ok && label_write(&label, &joined, &err).ok);
    assert_string_equal(buffer_text(&label),
                        "{\"attached\":[\"AE-FED\",\"DIFC\"],\"class\":\"sensitive\",\"lineage\":\"declared\","
                        "\"pins\":[\"other\",\"registry-default\"],\"subjects\":[\"child\",\"health\"]}");
}

/* Orders allow a place if a region lies in it. */
static void a_region_lies_in_its_country_and_its_regimes(void **state)
{
    static const struct {
        const char *region, *place;
        bool lies;
    } cases[] = {{"local/main", "AE", true},       {"local/main", "AE-DU", true}, {"local/main", "AE-FED", true},
                 {"local/main", "SA", false},      {"local/main", "A", false},    {"local/main", "AE-AZ", false},
                 {"local/main", "AE-DU-X", false}, {"local/main", "AE-D", false}, {"local/elsewhere", "AE", false}};
    const struct policy_default_options options = {.epoch = 7, .region = "local/main", .geo = "AE/DU", .now_ms = NOW_MS};
    struct buffer OWNED_BUFFER payload = BUFFER(POLICY_SET_BYTES_MAX);
    OWNED(policy_set) *set = NULL;
    struct error err = {0};

    (void)state;
    if (!policy_default_set(&options, &payload, &err).ok) fail_msg("%s", err.message);
    if (!policy_set_compile(buffer_bytes(&payload), &set, &err).ok) fail_msg("%s", err.message);
    for (size_t i = 0; i < COUNT(cases); i++)
        if (policy_region_lies_in(set, cases[i].region, cases[i].place) != cases[i].lies)
            fail_msg("%s in %s", cases[i].region, cases[i].place);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {cmocka_unit_test(train_is_decided_again),
                                              cmocka_unit_test(the_label_of_what_is_made_is_the_join),
                                              cmocka_unit_test(a_region_lies_in_its_country_and_its_regimes)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
