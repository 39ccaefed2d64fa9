/* Templates: each has its sources, makes a set that compiles, and decides as it says. */
#include "tests/support/unit.h"

#include <string.h>

#include "policy/evaluate.h"
#include "policy/places.h"
#include "policy/set_priv.h"
#include "policy/template.h"
#include "tests/support/policy.h"
#include "tests/unit/policy_parts.h"

#define NOW_MS 1795780800000 /* 2026-11-27T12:00:00Z */

static struct template_answers answers_for(const char *regime, const char *region)
{
    return (struct template_answers){
        .regime = regime, .place = "clinic", .region = region, .network_count = 1, .networks = {"10.9.0.0/16"}, .now_ms = NOW_MS};
}

/* The catalogue of policy/examples as the set in force. */
static json_t *catalogue(void)
{
    OWNED_JSON example = policy_example("regions");
    json_t *before = json_pack("{s:i, s:O, s:O}", "epoch", 6, "regions", json_object_get(example, "regions"), "groups",
                               json_object_get(example, "groups"));

    assert_non_null(before);
    return before;
}

static struct policy_set *made(const struct template_answers *answers, const json_t *before)
{
    struct buffer OWNED_BUFFER payload = BUFFER(POLICY_SET_BYTES_MAX);
    struct policy_set *set = NULL;
    struct error err = {0};

    if (!policy_template_set(answers, before, &payload, &err).ok) fail_msg("%s: %s", answers->regime, err.message);
    assert_true(policy_set_compile(buffer_bytes(&payload), &set, &err).ok);
    return set;
}

/* ---- what a template has ---- */

static void check_sources(const char *regime, const json_t *sources)
{
    for (size_t i = 0; i < json_array_size(sources); i++) {
        const json_t *source = json_array_get(sources, i);
        const char *verified = json_text_of(source, "verified");
        assert_non_null(json_text_of(source, "instrument"));
        assert_non_null(json_text_of(source, "title"));
        assert_non_null(json_text_of(source, "source"));
        assert_non_null(verified);
        const bool was_read = json_text_of(source, "read_on") != NULL;
        if (was_read == (strcmp(verified, "unverified") == 0)) fail_msg("%s: source %zu: read_on or unverified", regime, i);
    }
    if (json_array_size(sources) == 0) assert_string_equal(regime, "public");
}

/* A basis of a rule claims no more than the template's sources do. */
static void check_bases(const char *regime, const json_t *template)
{
    const json_t *rules = json_object_get(json_object_get(template, "policy"), "rules");
    const json_t *sources = json_object_get(template, "sources");

    for (size_t i = 0; i < json_array_size(rules); i++) {
        const json_t *bases = json_object_get(json_array_get(rules, i), "basis");
        for (size_t j = 0; j < json_array_size(bases); j++) {
            const char *instrument = json_text_of(json_array_get(bases, j), "instrument");
            size_t known = 0;
            while (known < json_array_size(sources) &&
                   strcmp(json_text_of(json_array_get(sources, known), "instrument"), instrument) != 0)
                known++;
            if (known == json_array_size(sources)) fail_msg("%s: no source has %s", regime, instrument);
        }
    }
}

static void each_template_is_whole(void **state)
{
    size_t count = 0;

    (void)state;
    for (const char *regime; (regime = policy_template_regime(count)) != NULL; count++) {
        struct error err = {0};
        OWNED_JSON template = NULL;
        assert_true(policy_template_read(regime, &template, &err).ok);
        assert_string_equal(json_text_of(template, "regime"), regime);
        assert_int_equal(json_object_size(template), 7);
        assert_true(json_array_size(json_object_get(template, "unverified")) > 0);
        assert_non_null(strstr(json_text_of(template, "notice"), "evidence for a review"));
        assert_non_null(strstr(json_text_of(template, "notice"), "Not legal advice"));
        assert_string_equal(json_text_of(json_object_get(json_object_get(template, "policy"), "metadata"), "disclaimer"),
                            json_text_of(template, "notice"));
        check_sources(regime, json_object_get(template, "sources"));
        check_bases(regime, template);
        OWNED_STRING text = json_dumps(template, 0);
        assert_null(strstr(text, "ompliant"));
    }
    assert_int_equal(count, 7);
}

static void there_is_no_other_template(void **state)
{
    OWNED_JSON template = NULL;
    struct error err = {0};

    (void)state;
    assert_false(policy_template_read("gdpr", &template, &err).ok);
    assert_int_equal(err.kind, ERROR_NOT_FOUND);
}

/* ---- expectations ---- */

#define PROVEN    "{\"geo\":\"AE/DU\",\"assurance\":2,\"recipient\":\"same-controller\"}"
#define ABROAD    "{\"geo\":\"DE\",\"regimes\":[\"EU-GDPR\"],\"assurance\":4,\"recipient\":\"same-controller\"}"
#define IN_DIFC   "{\"geo\":\"AE/DU\",\"regimes\":[\"DIFC\"],\"assurance\":2,\"recipient\":\"processor\"}"
#define IN_ADGM   "{\"geo\":\"AE/AZ\",\"regimes\":[\"ADGM\"],\"assurance\":3,\"recipient\":\"processor\"}"
#define NOBODY    "{}"
#define THE_STATE "azure/uaenorth"

static const struct expectation {
    const char *name, *regime;
    enum policy_operation op;
    const char *label;  /* joined with the floor of the policies; "" for a declared lineage alone */
    const char *target; /* a region of the catalogue, or facts */
    const char *denied; /* the rules, in order; "" if it is allowed */
} expectations[] = {
    {"health data are stored in the State", "health", OP_INGEST, "", THE_STATE, ""},
    {"and in its free zones", "health", OP_INGEST, "", "onprem/difc-dc1", ""},
    {"not in Riyadh, whose region has the same name", "health", OP_INGEST, "", "alibaba/me-central-1", "H-KEY-AE H-STORE-AE"},
    {"not under keys of the provider", "health", OP_INGEST, "", "aws/me-central-1", "H-KEY-AE"},
    {"nor their names abroad", "health", OP_METADATA, "", "aws/eu-central-1", "H-STORE-AE"},
    {"a proven client reads them", "health", OP_READ, "", PROVEN, ""},
    {"a client abroad does not", "health", OP_READ, "", ABROAD, "H-READ-AE"},
    {"nor one of which nothing is known", "health", OP_LIST, "", NOBODY, "H-READ-AE"},
    {"secret health data have no permit", "health", OP_INGEST, "{\"class\":\"secret\"}", THE_STATE, "SYS-CLOSED SYS-CLOSED"},
    {"personal data are stored in the State", "pdpl", OP_INGEST, "", THE_STATE, ""},
    {"not where nobody has found the protection adequate", "pdpl", OP_INGEST, "", "aws/eu-central-1", "P-TRANSFER"},
    {"nor read from there", "pdpl", OP_READ, "", ABROAD, "P-TRANSFER"},
    {"personal data are read in the State", "pdpl", OP_READ, "", "{\"geo\":\"AE\"}", ""},
    {"data of children need a proven place", "pdpl", OP_READ, "{\"subjects\":[\"child\"]}", "{\"geo\":\"AE\"}", "P-SPECIAL-READ"},
    {"a bank's data are stored in the UAE", "cbuae", OP_INGEST, "", THE_STATE, ""},
    {"and not abroad", "cbuae", OP_REPLICATE, "", "aws/eu-central-1", "B-KEY-AE B-STORE-AE"},
    {"nor shared abroad", "cbuae", OP_EXPORT, "", ABROAD, "B-SHARE-AE"},
    {"nor with a third party", "cbuae", OP_READ, "", "{\"geo\":\"AE\",\"assurance\":3,\"recipient\":\"third-party\"}",
     "B-SHARE-AE"},
    {"data of the DIFC are stored there", "difc", OP_INGEST, "", "onprem/difc-dc1", ""},
    {"not onshore, which is outside of it", "difc", OP_INGEST, "", THE_STATE, "D-TRANSFER"},
    {"but in the ADGM, which the set in force lists as adequate", "difc", OP_INGEST, "", "onprem/adgm-dc1", ""},
    {"and read from there", "difc", OP_READ, "", IN_DIFC, ""},
    {"not from onshore", "difc", OP_READ, "", PROVEN, "D-TRANSFER"},
    {"data of the ADGM are stored there alone", "adgm", OP_INGEST, "", "onprem/adgm-dc1", ""},
    {"not in the same Emirate outside of it", "adgm", OP_INGEST, "", "oci/me-abudhabi-1", "A-TRANSFER"},
    {"not in the DIFC", "adgm", OP_REPLICATE, "", "onprem/difc-dc1", "A-TRANSFER"},
    {"and read from there alone", "adgm", OP_READ, "", IN_ADGM, ""},
    {"not from the DIFC", "adgm", OP_TRAIN, "", IN_DIFC, "A-TRANSFER"},
    {"the government's data stay in the State", "government", OP_INGEST, "", THE_STATE, ""},
    {"not abroad", "government", OP_BACKUP, "", "aws/eu-central-1", "G-KEY-AE G-STORE-AE"},
    {"secret ones need a sovereign region", "government", OP_INGEST, "{\"class\":\"secret\"}", THE_STATE, "G-SECRET"},
    {"and have one", "government", OP_INGEST, "{\"class\":\"secret\"}", "core42/spc-azure-ae", ""},
    {"an authority reads them", "government", OP_READ, "", "{\"geo\":\"AE\",\"assurance\":2,\"recipient\":\"authority\"}", ""},
    {"what is public is everywhere", "public", OP_INGEST, "", "gcp/me-central1", ""},
    {"and for everybody", "public", OP_READ, "", NOBODY, ""},
    {"unless it is about persons", "public", OP_READ, "{\"subjects\":[\"personal\"]}", NOBODY, "P-NO-TAINT"},
    {"or nobody says from where it comes", "public", OP_INGEST, "{\"lineage\":\"unknown\"}", THE_STATE, "P-LINEAGE"},
    {"or it is confidential", "public", OP_READ, "{\"class\":\"confidential\"}", NOBODY, "SYS-CLOSED SYS-CLOSED"},
};

static struct policy_target *target_of(const json_t *before, const char *target)
{
    OWNED_JSON facts =
        target[0] == '{' ? policy_json(target) : json_incref(json_object_get(json_object_get(before, "regions"), target));
    struct policy_target *compiled = NULL;
    struct error err = {0};

    assert_true(policy_target_new(facts, &compiled, &err).ok);
    return compiled;
}

static int by_text(const void *a, const void *b)
{
    const char *const *left = a, *const *right = b;

    return strcmp(*left, *right);
}

static void compare_denials(const struct policy_decision *decision, const char *wanted)
{
    const char *rules[32];
    const size_t count = policy_decision_denial_count(decision);
    char told[512] = "";

    assert_true(count < COUNT(rules));
    for (size_t i = 0; i < count; i++) rules[i] = policy_decision_denial(decision, i)->rule;
    qsort(rules, count, sizeof rules[0], by_text);
    for (size_t i = 0; i < count; i++) {
        const size_t length = strlen(told);
        (void)snprintf(told + length, sizeof told - length, "%s%s", i > 0 ? " " : "", rules[i]);
    }
    assert_string_equal(told, wanted);
}

static void it_decides_as_it_says(void **state)
{
    const struct expectation *row = *state;
    const struct template_answers answers = answers_for(row->regime, THE_STATE);
    OWNED_JSON before = catalogue();
    OWNED(policy_set) *set = made(&answers, before);
    OWNED(policy_target) *target = target_of(before, row->target);
    OWNED(policy_decision) *decision = NULL;
    OWNED_JSON floor = policy_json(row->label[0] == '\0' ? "{}" : row->label);
    struct label own = label_initial(), more, label;
    bool is_stated = false, is_labelled = false;
    struct error err = {0};

    assert_true(label_read_floor(floor, &more, &is_stated, &err).ok);
    own.lineage = LINEAGE_DECLARED;
    assert_true(label_join(&own, &more, &err).ok);
    const struct label_query query = {policy_set_documents(set), "clinic/models/one", NOW_MS * 1000};
    assert_true(policy_effective_label(&query, &own, &label, &is_labelled, &err).ok && is_labelled);
    const struct policy_facts facts = {.op = row->op,
                                       .scope = query.scope,
                                       .policy_epoch = 7,
                                       .label = &label,
                                       .target_id = "-",
                                       .target = target,
                                       .now_us = query.now_us};
    assert_true(policy_evaluate(policy_set_documents(set), &facts, policy_set_groups(set), &decision, &err).ok);
    compare_denials(decision, row->denied);
}

/* The empty group is what stops it: who fills the group from the Commissioner's list opens these places, and no other. */
static void a_filled_group_lets_more_places_in(void **state)
{
    const struct template_answers answers = answers_for("adgm", "onprem/adgm-dc1");
    OWNED_JSON before = catalogue();
    OWNED_JSON group = policy_json("{\"kind\":\"regime\",\"members\":[\"EU-GDPR\"]}");
    struct buffer OWNED_BUFFER text = BUFFER(1 << 16);
    struct error err = {0};

    (void)state;
    assert_int_equal(json_object_set(json_object_get(before, "groups"), "ADGM-ADEQUATE", group), 0);
    OWNED(policy_set) *set = made(&answers, before);
    assert_true(policy_template_effects(set, &answers, &text, &err).ok);
    const char *told = buffer_text(&text);
    assert_non_null(strstr(told, "clinic/** may be stored in aws/eu-central-1, onprem/adgm-dc1"));
    assert_non_null(strstr(told, "Its names and its log may be in aws/eu-central-1, onprem/adgm-dc1. If the"));
    assert_non_null(strstr(told, "Clients in 10.9.0.0/16 may read it"));
    assert_non_null(strstr(told, "A-TRANSFER of adgm-dpr-clinic@1"));
    assert_non_null(strstr(told, "Not verified"));
}

static void a_set_that_nobody_can_use_says_so(void **state)
{
    const struct template_answers answers = answers_for("adgm", "onprem/one=AE/DU,DIFC");
    OWNED(policy_set) *set = made(&answers, NULL);
    struct buffer OWNED_BUFFER text = BUFFER(1 << 16);
    struct error err = {0};

    (void)state;
    assert_true(policy_template_effects(set, &answers, &text, &err).ok);
    assert_non_null(strstr(buffer_text(&text), "NO region of this set may hold it. onprem/one is refused by\n    A-TRANSFER"));
    assert_non_null(strstr(buffer_text(&text), "NO region of this set may have its names and its log"));
    assert_non_null(strstr(buffer_text(&text), "Clients in 10.9.0.0/16 may not read it:\n    A-TRANSFER"));
}

/* ---- what is there stays ---- */

static void nothing_that_is_there_is_lost(void **state)
{
    OWNED_JSON before = policy_json("{\"epoch\":41,\"policies\":[],\"regions\":{\"aws/x\":{\"geo\":\"AE\"}},\"groups\":"
                                    "{\"ADGM-ADEQUATE\":{\"kind\":\"regime\",\"members\":[\"UK-GDPR\"]}},\"networks\":"
                                    "[{\"cidr\":\"10.9.0.0/16\",\"facts\":{\"geo\":\"DE\"}}],\"exceptions\":[],"
                                    "\"declassified\":[{\"policy\":\"old\",\"scope\":[\"a/**\"],\"reason\":\"x\"}]}");
    OWNED_JSON examples = policy_examples();
    const struct template_answers answers = answers_for("adgm", "aws/x");
    struct error err = {0};

    (void)state;
    assert_int_equal(json_object_set(before, "policies", examples), 0);
    OWNED(policy_set) *set = made(&answers, before);
    assert_int_equal(policy_set_epoch(set), 42);
    assert_int_equal(policy_documents_count(policy_set_documents(set)), json_array_size(examples) + 1);
    for (size_t i = 0; i < json_array_size(examples); i++)
        assert_true(json_equal(json_array_get(json_object_get(set->json, "policies"), i), json_array_get(examples, i)));
    static const char *const same[] = {"regions", "groups", "networks", "exceptions", "declassified"};
    for (size_t i = 0; i < COUNT(same); i++)
        assert_true(json_equal(json_object_get(set->json, same[i]), json_object_get(before, same[i])));

    struct buffer OWNED_BUFFER payload = BUFFER(POLICY_SET_BYTES_MAX);
    assert_false(policy_template_set(&answers, set->json, &payload, &err).ok); /* a second time */
    assert_int_equal(err.kind, ERROR_CONFLICT);
}

static void a_set_from_nothing_is_whole(void **state)
{
    for (size_t i = 0; policy_template_regime(i) != NULL; i++) {
        struct template_answers answers = answers_for(policy_template_regime(i), "onprem/one=AE/AZ,ADGM,X-OURS");
        answers.officer_count = 2;
        answers.officers[0] = "amal";
        answers.officers[1] = "badr";
        OWNED(policy_set) *set = made(&answers, NULL);
        const struct policy_document *policy = policy_set_documents(set)->documents[0];
        const json_t *network = json_array_get(json_object_get(set->json, "networks"), 0);
        assert_int_equal(policy_set_epoch(set), 1);
        assert_string_equal(json_text_of(json_object_get(network, "facts"), "geo"), "AE/AZ");
        assert_string_equal(policy->review_by, "2027-05-28");
        assert_true(policy->effective_from_us == NOW_MS / 86400000 * 86400000 * 1000);
        for (size_t j = 0; j < policy->type_count; j++) assert_int_equal(policy->types[j].adds.notify.count, 2);
    }
    (void)state;
}

static const struct answer_row {
    const char *name, *regime, *place, *region, *network, *said;
} answer_rows[] = {
    {"no such regime", "gdpr", "clinic", "a/b=AE", "10.0.0.0/8", "there is no template for 'gdpr'"},
    {"a pattern", "adgm", "clinic/**", "a/b=AE", "10.0.0.0/8", "no organisation"},
    {"no place", "adgm", "", "a/b=AE", "10.0.0.0/8", "no organisation"},
    {"a slash too many", "adgm", "clinic//x", "a/b=AE", "10.0.0.0/8", "no organisation"},
    {"a slash at the end", "adgm", "clinic/", "a/b=AE", "10.0.0.0/8", "no organisation"},
    {"capitals", "adgm", "Clinic", "a/b=AE", "10.0.0.0/8", "no organisation"},
    {"a place with no room in an id", "government", "abcdefghijklmnopqrstuvwxyz/abcdefghijklmnopqrstuvwxyz", "a/b=AE",
     "10.0.0.0/8", "too long for the id"},
    {"a region that is not there", "adgm", "clinic", "a/b", "10.0.0.0/8", "the set has no such region"},
    {"facts for a region that is there", "adgm", "clinic", "azure/uaenorth=DE", "10.0.0.0/8", "has azure/uaenorth already"},
    {"a place that is none", "adgm", "clinic", "a/b=AE/XX", "10.0.0.0/8", "no place of ISO 3166: AE/XX"},
    {"a regime that is none", "adgm", "clinic", "a/b=AE,ADGN", "10.0.0.0/8", "no known regime: ADGN"},
    {"a region without its provider", "adgm", "clinic", "b=AE", "10.0.0.0/8", "set.regions"},
    {"a network that is none", "adgm", "clinic", "a/b=AE", "10.0.0.0", "networks.cidr"},
};

static void wrong_answers_are_refused(void **state)
{
    const struct answer_row *row = *state;
    const struct template_answers answers = {.regime = row->regime,
                                             .place = row->place,
                                             .region = row->region,
                                             .network_count = 1,
                                             .networks = {row->network},
                                             .now_ms = NOW_MS};
    struct buffer OWNED_BUFFER payload = BUFFER(POLICY_SET_BYTES_MAX);
    OWNED_JSON before = catalogue();
    struct error err = {0};

    assert_false(policy_template_set(&answers, before, &payload, &err).ok);
    if (strstr(err.message, row->said) == NULL) fail_msg("%s", err.message);
    assert_int_equal(payload.length, 0);
}

static struct result make_one(void *context, struct error *err)
{
    const struct template_answers answers = answers_for("public", "onprem/one=AE/DU,DIFC");
    struct buffer OWNED_BUFFER payload = BUFFER(POLICY_SET_BYTES_MAX);

    (void)context;
    return policy_template_set(&answers, NULL, &payload, err);
}

static struct result tell_effects(void *set, struct error *err)
{
    const struct template_answers answers = answers_for("public", "onprem/one");
    struct buffer OWNED_BUFFER text = BUFFER(1 << 16);

    return policy_template_effects(set, &answers, &text, err);
}

static void templates_survive_lack_of_memory(void **state)
{
    (void)state;
    const struct template_answers answers = answers_for("public", "onprem/one=AE");
    OWNED(policy_set) *set = made(&answers, NULL);
    fail_each(make_one, NULL, ERROR_NO_MEMORY, 100);
    fail_each(tell_effects, set, ERROR_NO_MEMORY, 30);
}

int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(each_template_is_whole),
        cmocka_unit_test(there_is_no_other_template),
        cmocka_unit_test(a_filled_group_lets_more_places_in),
        cmocka_unit_test(a_set_that_nobody_can_use_says_so),
        cmocka_unit_test(nothing_that_is_there_is_lost),
        cmocka_unit_test(a_set_from_nothing_is_whole),
        cmocka_unit_test(templates_survive_lack_of_memory),
    };

    return RUN_TABLE(expectations, it_decides_as_it_says) + RUN_TABLE(answer_rows, wrong_answers_are_refused) +
           cmocka_run_group_tests_name("others", others, NULL, NULL) + policy_places_cases() + policy_text_cases() +
           policy_export_cases();
}
