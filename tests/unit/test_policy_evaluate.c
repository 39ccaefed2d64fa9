/* The main cases by name. That every answer agrees with the oracle is what tests/policy/ shows. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/fault.h"
#include "policy/compiled_priv.h"
#include "tests/support/policy.h"

#define NOW     "2026-12-15T00:00:00Z"
#define PROJECT "5f0c8f0e-93a1-4c1a-8a4e-0d8f6d1f2b30"
#define DIGEST  "sha256:1111111111111111111111111111111111111111111111111111111111111111"

struct world {
    json_t *policies, *regions;
    struct policy_documents *documents;
    struct policy_groups *groups;
};

static int world_open(void **state)
{
    static struct world world;
    struct error err = {0};

    world.policies = policy_examples();
    world.regions = policy_example("regions");
    assert_true(policy_documents_new(world.policies, &world.documents, &err).ok);
    assert_true(policy_groups_new(json_object_get(world.regions, "groups"), &world.groups, &err).ok);
    *state = &world;
    return 0;
}

static int world_close(void **state)
{
    struct world *world = *state;

    policy_documents_free(world->documents);
    policy_groups_free(world->groups);
    json_decref(world->policies);
    json_decref(world->regions);
    return 0;
}

static struct world the_world;

/* Label of a thing of declared lineage in a scope. */
static struct label label_in(const struct world *world, const char *scope)
{
    struct label own = label_initial(), label;
    struct label_query query = {.documents = world->documents, .scope = scope};
    bool is_labelled = false;
    struct error err = {0};

    own.lineage = LINEAGE_DECLARED;
    assert_true(policy_time_parse(bytes_of_text(NOW), &query.now_us));
    assert_true(policy_effective_label(&query, &own, &label, &is_labelled, &err).ok);
    assert_true(is_labelled);
    return label;
}

static struct policy_target *target_of(const struct world *world, const char *target)
{
    struct policy_target *compiled = NULL;
    struct error err = {0};

    if (target[0] == '{') {
        OWNED_JSON json = policy_json(target);
        assert_true(policy_target_new(json, &compiled, &err).ok);
        return compiled;
    }
    json_t *region = json_object_get(json_object_get(world->regions, "regions"), target);
    assert_non_null(region);
    assert_true(policy_target_new(region, &compiled, &err).ok);
    return compiled;
}

static const struct case_row {
    const char *name;
    enum policy_operation op;
    const char *scope, *target; /* a region of the catalogue, or facts */
    const char *denied;         /* "RULE(unknown|failed) ..."; "" if it is allowed */
} case_rows[] = {
    {"health data stays in the UAE", OP_INGEST, "health/ct", "azure/uaenorth", ""},
    {"health data in a free zone", OP_INGEST, "health/ct", "onprem/difc-dc1", ""},
    {"a region of the same name elsewhere", OP_INGEST, "health/ct", "alibaba/me-central-1",
     "H-STORE-AE(|geo) H-KEY-AE(|key.control,key.geo)"},
    {"keys that the provider holds", OP_INGEST, "health/ct", "aws/me-central-1", "H-KEY-AE(|key.control)"},
    {"a proven client reads health data", OP_READ, "health/ct", "{\"geo\":\"AE/DU\",\"assurance\":2}", ""},
    {"a weakly located client", OP_READ, "health/ct", "{\"geo\":\"AE/DU\",\"assurance\":1}", "H-READ-AE(|assurance)"},
    {"a client of which nothing is known", OP_READ, "health/ct", "{}", "H-READ-AE(assurance,geo|)"},
    {"a client that is elsewhere, and weak", OP_READ, "health/ct", "{\"geo\":\"SA\"}", "H-READ-AE(|geo)"},
    {"DIFC excludes onshore", OP_INGEST, "difcbank/m", "azure/uaenorth", "D-TRANSFER(|regimes)"},
    {"DIFC includes adequate regimes", OP_INGEST, "difcbank/m", "aws/eu-central-1", ""},
    {"public goes anywhere", OP_READ, "public/resnet", "{}", ""},
    {"a scope without any policy that permits", OP_READ, "other/x", "{}", "SYS-CLOSED(|)"},
    {"a backup is a placement too", OP_BACKUP, "health/ct", "gcp/me-central1", "H-STORE-AE(|geo) H-KEY-AE(|key.control,key.geo)"},
};

static void write_names(struct buffer *text, const char *const *names, size_t count)
{
    struct error err = {0};

    for (size_t i = 0; i < count; i++) assert_true(buffer_format(text, &err, "%s%s", i > 0 ? "," : "", names[i]).ok);
}

static void write_denials(struct buffer *text, const struct policy_decision *decision)
{
    struct error err = {0};

    for (size_t i = 0; i < policy_decision_denial_count(decision); i++) {
        const struct policy_denial *denial = policy_decision_denial(decision, i);
        assert_true(buffer_format(text, &err, "%s%s(", i > 0 ? " " : "", denial->rule).ok);
        write_names(text, denial->unknown, denial->unknown_count);
        assert_true(buffer_add_u8(text, '|', &err).ok);
        write_names(text, denial->failed, denial->failed_count);
        assert_true(buffer_add_u8(text, ')', &err).ok);
    }
}

static struct policy_facts facts_of(const struct case_row *row, const struct label *label, const struct policy_target *target)
{
    struct policy_facts facts = {.op = row->op,
                                 .scope = row->scope,
                                 .policy_epoch = 7,
                                 .label = label,
                                 .digest = DIGEST,
                                 .target_id = row->target[0] == '{' ? "client" : row->target,
                                 .target = target};

    assert_true(uuid_parse(bytes_of_text(PROJECT), &facts.project));
    assert_true(policy_time_parse(bytes_of_text(NOW), &facts.now_us));
    return facts;
}

static void cases(void **state)
{
    const struct case_row *row = *state;
    const struct label label = label_in(&the_world, row->scope);
    OWNED(policy_target) *target = target_of(&the_world, row->target);
    const struct policy_facts facts = facts_of(row, &label, target);
    OWNED(policy_decision) *decision = NULL;
    struct buffer OWNED_BUFFER denied = BUFFER(4096);
    struct error err = {0};

    assert_true(policy_evaluate(the_world.documents, &facts, the_world.groups, &decision, &err).ok);
    write_denials(&denied, decision);
    assert_string_equal(buffer_text(&denied), row->denied);
    assert_int_equal(policy_decision_allows(decision), row->denied[0] == '\0');
}

/* What the decider writes and what a replay reads back must be the same decision under the same id. */
static void facts_survive_being_written_down(void **state)
{
    const struct case_row *row = &case_rows[3];
    const struct label label = label_in(&the_world, row->scope);
    OWNED(policy_target) *target = target_of(&the_world, row->target);
    const struct policy_facts facts = facts_of(row, &label, target);
    OWNED(policy_decision) *first = NULL;
    OWNED(policy_decision) *again = NULL;
    OWNED(policy_facts_document) *read = NULL;
    struct buffer OWNED_BUFFER text = BUFFER(65536), label_text = BUFFER(4096);
    struct error err = {0};

    (void)state;
    assert_true(label_write(&label_text, &label, &err).ok);
    assert_true(buffer_format(&text, &err,
                              "{\"digest\":\"" DIGEST "\",\"exceptions\":[],\"label\":%s,"
                              "\"now\":\"2026-12-15T00:00:00.000Z\",\"op\":\"ingest\",\"policy_epoch\":7,"
                              "\"project\":\"" PROJECT "\",\"scope\":\"%s\",\"target\":%s,\"target_id\":\"%s\"}",
                              buffer_text(&label_text), row->scope, policy_target_canonical(target), row->target)
                    .ok);
    OWNED_JSON json = policy_json(buffer_text(&text));
    assert_true(policy_facts_read(json, &read, &err).ok);
    assert_true(policy_evaluate(the_world.documents, &facts, the_world.groups, &first, &err).ok);
    assert_true(policy_evaluate(the_world.documents, policy_facts_of(read), the_world.groups, &again, &err).ok);
    assert_string_equal(policy_decision_id(first), policy_decision_id(again));
    buffer_done(&label_text);
}

static void labels_join(void **state)
{
    struct label a = {.class = LABEL_SECRET,
                      .lineage = LINEAGE_DECLARED,
                      .subjects = 1,
                      .regime_count = 1,
                      .regimes = {"DIFC"},
                      .pin_count = 1,
                      .pins = {"p"}};
    const struct label b = {.class = LABEL_OPEN,
                            .lineage = LINEAGE_UNKNOWN,
                            .subjects = 4,
                            .regime_count = 2,
                            .regimes = {"ADGM", "DIFC"},
                            .pin_count = 1,
                            .pins = {"a"}};
    struct buffer OWNED_BUFFER text = BUFFER(4096);
    struct error err = {0};

    (void)state;
    assert_false(label_covers(&a, &b));
    assert_true(label_join(&a, &b, &err).ok);
    assert_true(label_covers(&a, &b));
    assert_true(label_write(&text, &a, &err).ok);
    assert_string_equal(buffer_text(&text), "{\"attached\":[\"ADGM\",\"DIFC\"],\"class\":\"secret\",\"lineage\":"
                                            "\"unknown\",\"pins\":[\"a\",\"p\"],\"subjects\":[\"health\",\"personal\"]}");
}

static void a_label_has_a_largest_size(void **state)
{
    static char names[LABEL_REGIMES_MAX + 1][8];
    struct label label = label_initial();
    struct error err = {0};

    (void)state;
    for (size_t i = 0; i <= LABEL_REGIMES_MAX; i++) {
        (void)snprintf(names[i], sizeof names[i], "R-%zu", i);
        const struct label one = {.lineage = LINEAGE_ATTESTED, .regime_count = 1, .regimes = {names[i]}};
        assert_int_equal(label_join(&label, &one, &err).ok, i < LABEL_REGIMES_MAX);
    }
    assert_int_equal(err.kind, ERROR_LIMIT);
}

/* A label covers a floor when no member of the floor is more than its own. */
static const struct cover_row {
    const char *name;
    struct label floor;
    bool is_covered;
} cover_rows[] = {
    {"an open floor", {.class = LABEL_OPEN, .lineage = LINEAGE_ATTESTED}, true},
    {"the same",
     {.class = LABEL_SENSITIVE,
      .lineage = LINEAGE_DECLARED,
      .subjects = 3,
      .regime_count = 1,
      .regimes = {"DIFC"},
      .pin_count = 1,
      .pins = {"p"}},
     true},
    {"a higher class", {.class = LABEL_SECRET, .lineage = LINEAGE_ATTESTED}, false},
    {"a weaker lineage", {.class = LABEL_OPEN, .lineage = LINEAGE_UNKNOWN}, false},
    {"another subject", {.lineage = LINEAGE_ATTESTED, .subjects = 4}, false},
    {"another regime", {.lineage = LINEAGE_ATTESTED, .regime_count = 1, .regimes = {"ADGM"}}, false},
    {"another pin", {.lineage = LINEAGE_ATTESTED, .pin_count = 1, .pins = {"q"}}, false},
};

static void labels_cover(void **state)
{
    const struct cover_row *row = *state;
    const struct label label = {.class = LABEL_SENSITIVE,
                                .lineage = LINEAGE_DECLARED,
                                .subjects = 3,
                                .regime_count = 1,
                                .regimes = {"DIFC"},
                                .pin_count = 1,
                                .pins = {"p"}};

    assert_int_equal(label_covers(&label, &row->floor), row->is_covered);
}

/* What is stored joins what its place gives; alone, it is the label; without both there is none. */
/* "AE/AZ" is not the beginning of "AE/AZU": places are compared piece by piece. */
static void places_are_compared_piece_by_piece(void **state)
{
    static const struct {
        const char *geo;
        bool is_allowed;
    } places[] = {{"{\"geo\":\"AE/AZ\",\"key\":{\"geo\":\"AE\",\"control\":\"customer-hsm\"}}", true},
                  {"{\"geo\":\"AE/AZU\",\"key\":{\"geo\":\"AE\",\"control\":\"customer-hsm\"}}", false}};
    OWNED_JSON array = json_array();
    OWNED_JSON policy = policy_example("health-ae");
    OWNED(policy_documents) *documents = NULL;
    struct error err = {0};

    (void)state;
    json_t *rule = json_array_get(json_object_get(policy, "rules"), 0);
    assert_int_equal(json_object_set_new(rule, "target", policy_json("{\"geo_within\":[\"AE/AZ\"]}")), 0);
    assert_int_equal(json_array_append(array, policy), 0);
    assert_true(policy_documents_new(array, &documents, &err).ok);
    for (size_t i = 0; i < COUNT(places); i++) {
        const struct label label = label_in(&the_world, "health/ct");
        OWNED(policy_target) *target = target_of(&the_world, places[i].geo);
        const struct policy_facts facts = facts_of(&case_rows[0], &label, target);
        OWNED(policy_decision) *decision = NULL;

        assert_true(policy_evaluate(documents, &facts, the_world.groups, &decision, &err).ok);
        size_t stored = 0;
        for (size_t j = 0; j < policy_decision_denial_count(decision); j++)
            stored += strcmp(policy_decision_denial(decision, j)->rule, "H-STORE-AE") == 0;
        assert_int_equal(stored, places[i].is_allowed ? 0 : 1);
    }
}

static void stored_labels_rise(void **state)
{
    const struct label stored = {.class = LABEL_SECRET, .lineage = LINEAGE_DECLARED};
    const struct label own = {.class = LABEL_OPEN, .lineage = LINEAGE_UNKNOWN};
    const struct label_query query = {.documents = the_world.documents, .scope = "other/x", .now_us = -1};
    struct label label;
    bool is_labelled = true;
    struct error err = {0};

    (void)state;
    assert_true(policy_stored_label(&query, NULL, NULL, &label, &is_labelled, &err).ok);
    assert_false(is_labelled);
    assert_true(policy_stored_label(&query, NULL, &own, &label, &is_labelled, &err).ok);
    assert_true(is_labelled && label.class == LABEL_OPEN);
    assert_true(policy_stored_label(&query, &stored, NULL, &label, &is_labelled, &err).ok);
    assert_true(is_labelled && label.class == LABEL_SECRET && label.lineage == LINEAGE_DECLARED);
    assert_true(policy_stored_label(&query, &stored, &own, &label, &is_labelled, &err).ok);
    assert_true(is_labelled && label.class == LABEL_SECRET && label.lineage == LINEAGE_UNKNOWN);
}

static void scopes_have_a_largest_size(void **state)
{
    static char scope[POLICY_SCOPE_MAX + 2];
    const struct label label = label_initial();
    OWNED(policy_target) *target = target_of(&the_world, "{}");
    struct policy_facts facts = facts_of(&case_rows[0], &label, target);
    struct label_query query = {.documents = the_world.documents, .scope = scope};
    struct policy_decision *decision = NULL;
    struct label out;
    bool is_labelled = false;
    struct error err = {0};

    (void)state;
    memset(scope, 'a', sizeof scope - 1);
    facts.scope = scope;
    assert_false(policy_evaluate(the_world.documents, &facts, the_world.groups, &decision, &err).ok);
    assert_int_equal(err.kind, ERROR_LIMIT);
    assert_null(decision);
    assert_false(policy_effective_label(&query, NULL, &out, &is_labelled, &err).ok);
    assert_int_equal(err.kind, ERROR_LIMIT);
}

/* All that a decision can hold: a lifted rule, a malformed exception, a pin that is not in force, an overdue review. */
static json_t *full_exception(void)
{
    char text[2048];

    (void)snprintf(text, sizeof text,
                   "{\"apiVersion\":\"sijil.policy/v1\",\"kind\":\"ResidencyException\",\"id\":\"x1\",\"type\":\"continuity\","
                   "\"policy\":{\"id\":\"health-ae\",\"version\":3,\"digest\":\"%s\"},\"project\":\"" PROJECT "\","
                   "\"lifts\":[\"H-STORE-AE\"],\"ops\":[\"ingest\"],\"targets\":[\"elsewhere\"],\"digests\":[\"" DIGEST "\"],"
                   "\"not_before\":\"2027-06-10T00:00:00Z\",\"not_after\":\"2027-06-20T00:00:00Z\","
                   "\"evidence\":{\"incident_ref\":\"a\",\"authority_approval_ref\":\"b\",\"return_plan_digest\":\"c\"},"
                   "\"requested_by\":{\"iss\":\"i\",\"sub\":\"z\"},\"approvals\":[{\"iss\":\"i\",\"sub\":\"a\"},"
                   "{\"iss\":\"i\",\"sub\":\"b\"},{\"iss\":\"i\",\"sub\":\"c\"}]}",
                   policy_document_digest(the_world.documents->documents[1]));
    return policy_json(text);
}

static json_t *full_facts(void)
{
    json_t *facts =
        policy_json("{\"digest\":\"" DIGEST "\",\"exceptions\":[{\"id\":\"broken\"}],\"label\":{\"attached\":[],"
                    "\"class\":\"sensitive\",\"lineage\":\"declared\",\"pins\":[\"gone-policy\"],"
                    "\"subjects\":[\"health\"]},\"now\":\"2027-06-15T00:00:00Z\",\"op\":\"ingest\",\"policy_epoch\":7,"
                    "\"project\":\"" PROJECT "\",\"scope\":\"health/ct\",\"target\":{\"geo\":\"DE\"},"
                    "\"target_id\":\"elsewhere\"}");

    assert_int_equal(json_array_append_new(json_object_get(facts, "exceptions"), full_exception()), 0);
    return facts;
}

static struct result read_and_decide(void *context, struct error *err)
{
    OWNED(policy_documents) *documents = NULL;
    OWNED(policy_groups) *groups = NULL;
    OWNED(policy_facts_document) *read = NULL;
    OWNED(policy_decision) *decision = NULL;
    struct buffer OWNED_BUFFER text = BUFFER(1 << 16);

    TRY_UNTOUCHED_BYTES(documents, policy_documents_new(the_world.policies, &documents, err));
    TRY_UNTOUCHED_BYTES(groups, policy_groups_new(json_object_get(the_world.regions, "groups"), &groups, err));
    TRY_UNTOUCHED_BYTES(read, policy_facts_read(context, &read, err));
    TRY_UNTOUCHED_BYTES(decision, policy_evaluate(documents, policy_facts_of(read), groups, &decision, err));
    return policy_decision_write(&text, decision, err);
}

static void all_of_it_survives_lack_of_memory(void **state)
{
    OWNED_JSON facts = full_facts();

    (void)state;
    fail_each(read_and_decide, facts, ERROR_NO_MEMORY, 100);
}

static const struct fact_row {
    const char *name, *member, *value; /* value NULL: a long text */
} fact_rows[] = {
    {"no scope", "scope", "\"\""},
    {"a scope of 300 letters", "scope", NULL},
    {"no target", "target_id", "\"\""},
    {"a target of 300 letters", "target_id", NULL},
    {"a digest of another kind", "digest", "\"sha512:11\""},
    {"a label of unknown members", "label", "{\"x\":1}"},
};

static void facts_have_their_form(void **state)
{
    const struct fact_row *row = *state;
    OWNED_JSON facts = full_facts();
    struct policy_facts_document *read = NULL;
    char large[304] = "\"";
    struct error err = {0};

    memset(large + 1, 'a', 300), large[301] = '"';
    assert_int_equal(json_object_set_new(facts, row->member, policy_json(row->value == NULL ? large : row->value)), 0);
    assert_false(policy_facts_read(facts, &read, &err).ok);
    assert_int_equal(err.kind, ERROR_INVALID);
    assert_null(read);
}

static void decisions_need_their_room(void **state)
{
    OWNED_JSON facts = full_facts();
    OWNED(policy_facts_document) *read = NULL;
    OWNED(policy_decision) *decision = NULL;
    struct buffer OWNED_BUFFER whole = BUFFER(1 << 16);
    struct error err = {0};

    (void)state;
    if (!policy_facts_read(facts, &read, &err).ok) fail_msg("%s", err.message);
    assert_true(policy_evaluate(the_world.documents, policy_facts_of(read), the_world.groups, &decision, &err).ok);
    assert_true(policy_decision_write(&whole, decision, &err).ok);
    static const char *const held[] = {"\"lifted\":[{\"exception\":\"x1\"", "EXCEPTION-MALFORMED", "REVIEW-OVERDUE",
                                       "SYS-PIN-MISSING"};
    for (size_t i = 0; i < COUNT(held); i++) assert_non_null(strstr(buffer_text(&whole), held[i]));
    for (size_t room = 1; room < whole.length; room += 3) {
        struct buffer OWNED_BUFFER narrow = BUFFER(room);
        assert_false(policy_decision_write(&narrow, decision, &err).ok);
        assert_int_equal(err.kind, ERROR_LIMIT);
    }
}

/* Facts that come from no document are written down for the id. */
static void unwritten_facts_have_an_id_too(void **state)
{
    OWNED_JSON json = full_facts();
    OWNED(policy_facts_document) *read = NULL;
    struct error err = {0};
    char first[SHA_TEXT_SIZE] = "";

    (void)state;
    assert_true(policy_facts_read(json, &read, &err).ok);
    struct policy_facts facts = *policy_facts_of(read);
    facts.canonical = NULL;
    for (int i = 0; i < 3; i++) {
        OWNED(policy_decision) *decision = NULL;
        if (i == 1) facts.label = NULL;
        if (i == 2) facts.exception_count = 1;
        assert_true(policy_evaluate(the_world.documents, &facts, the_world.groups, &decision, &err).ok);
        if (i > 0) assert_string_equal(policy_decision_denial(decision, 0)->rule, "SYS-UNLABELLED");
        assert_string_not_equal(policy_decision_id(decision), first);
        memcpy(first, policy_decision_id(decision), sizeof first);
    }
}

static struct result decide_once(void *facts, struct error *err)
{
    OWNED(policy_decision) *decision = NULL;

    TRY_UNTOUCHED_BYTES(decision, policy_evaluate(the_world.documents, facts, the_world.groups, &decision, err));
    return SUCCESS;
}

static void deciding_survives_lack_of_memory(void **state)
{
    const struct case_row *row = &case_rows[2];
    const struct label label = label_in(&the_world, row->scope);
    OWNED(policy_target) *target = target_of(&the_world, row->target);
    struct policy_facts facts = facts_of(row, &label, target);

    (void)state;
    fail_each(decide_once, &facts, ERROR_NO_MEMORY, 3);
}

/* "**" again and again must not take exponential time. */
static void scopes_match_in_bounded_time(void **state)
{
    OWNED_JSON array = json_array();
    OWNED_JSON policy = policy_example("public-models");
    OWNED(policy_documents) *documents = NULL;
    struct label_query query = {.now_us = INT64_MAX};
    struct label label;
    bool is_labelled = true;
    char scope[POLICY_SCOPE_MAX + 1] = {0};
    struct error err = {0};

    (void)state;
    assert_int_equal(json_object_set_new(json_object_get(policy, "metadata"), "scope",
                                         policy_json("[\"**/a/**/a/**/a/**/a/**/a/**/a/**/a/**/a/**/a/**/a/b\"]")),
                     0);
    assert_int_equal(json_array_append(array, policy), 0);
    assert_true(policy_documents_new(array, &documents, &err).ok);
    for (size_t i = 0; i + 2 < sizeof scope; i += 2) memcpy(scope + i, "a/", 2);
    query.documents = documents;
    query.scope = scope;
    const int64_t started_ms = clock_monotonic_ms();
    assert_true(policy_effective_label(&query, NULL, &label, &is_labelled, &err).ok);
    assert_false(is_labelled);
    assert_true(clock_monotonic_ms() - started_ms < 10000);
}

int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(facts_survive_being_written_down),   cmocka_unit_test(labels_join),
        cmocka_unit_test(a_label_has_a_largest_size),         cmocka_unit_test(deciding_survives_lack_of_memory),
        cmocka_unit_test(scopes_match_in_bounded_time),       cmocka_unit_test(stored_labels_rise),
        cmocka_unit_test(places_are_compared_piece_by_piece), cmocka_unit_test(scopes_have_a_largest_size),
        cmocka_unit_test(all_of_it_survives_lack_of_memory),  cmocka_unit_test(decisions_need_their_room),
        cmocka_unit_test(unwritten_facts_have_an_id_too),
    };
    void *opened = NULL;

    if (world_open(&opened) != 0) return 1;
    the_world = *(struct world *)opened;
    const int failed = RUN_TABLE(case_rows, cases) + RUN_TABLE(cover_rows, labels_cover) +
                       RUN_TABLE(fact_rows, facts_have_their_form) + cmocka_run_group_tests_name("others", others, NULL, NULL);
    return failed + world_close(&opened);
}
