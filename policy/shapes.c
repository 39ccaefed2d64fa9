/* The shapes of all documents. */
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "base/uuid.h"
#include "policy/document.h"
#include "policy/evaluate.h"
#include "policy/expectation.h"
#include "policy/restriction.h"
#include "policy/shape_priv.h"

#define WHOLE_MAX ((int64_t)1 << 53) /* every JSON parser keeps integers up to this exactly */

#define X(constant, name) name,
const char *const class_names[] = {LABEL_CLASSES(X) NULL};
const char *const lineage_names[] = {LABEL_LINEAGES(X) NULL};
const char *const subject_names[] = {LABEL_SUBJECTS(X) NULL};
#undef X
const char *const operation_names[] = {"ingest",   "mount",  "replicate", "migrate", "cache",    "backup",
                                       "restore",  "read",   "train",     "promote", "metadata", "log",
                                       "key-wrap", "export", "stat",      "list",    NULL};
const char *const effect_names[] = {"require", "deny", "oblige", "permit", NULL};
static const char *const key_controls[] = {"customer-hsm", "customer-soft", "provider-kms", NULL};
static const char *const recipients[] = {"same-controller", "processor", "third-party", "authority", NULL};
static const char *const api_versions[] = {"sijil.policy/v1", "sijil.policy/v2", NULL};
static const char *const set_versions[] = {"sijil.policy/v1", NULL};
static const char *const policy_kinds[] = {"ResidencyPolicy", NULL};
static const char *const exception_kinds[] = {"ResidencyException", NULL};
static const char *const store_drivers[] = {"fs", "s3", NULL};
static const char *const set_kinds[] = {"PolicySet", NULL};
static const char *const outcome_names[] = {"allow", "deny", NULL};
const char *const group_kind_names[] = {"geo", "regime", NULL};

#define LOWER  "abcdefghijklmnopqrstuvwxyz"
#define UPPER  "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS "0123456789"

static struct bytes from(struct bytes text, size_t start)
{
    return (struct bytes){text.data + start, text.length - start};
}

static struct bytes first(struct bytes text, size_t length)
{
    return (struct bytes){text.data, length};
}

static bool is_identifier(struct bytes text)
{
    return text.length >= 2 && text.length <= 64 && text_consists_of(first(text, 1), UPPER LOWER DIGITS) &&
           text_consists_of(text, UPPER LOWER DIGITS "._-");
}

static bool is_segment(struct bytes text)
{
    if (text.length == 0) return false;
    if (text_consists_of(text, "*")) return text.length <= 2;
    return text_consists_of(first(text, 1), LOWER DIGITS) && text_consists_of(text, LOWER DIGITS "._-");
}

static bool is_pattern(struct bytes text)
{
    size_t start = 0;

    if (text.length > POLICY_SCOPE_MAX) return false;
    for (size_t i = 0; i <= text.length; i++) {
        if (i < text.length && text.data[i] != '/') continue;
        if (!is_segment(first(from(text, start), i - start))) return false;
        start = i + 1;
    }
    return true;
}

static bool is_content_digest(struct bytes text)
{
    uint8_t raw[32];

    return text.length == 71 && memcmp(text.data, "sha256:", 7) == 0 && text_from_hex(from(text, 7), raw, sizeof raw);
}

static bool is_uuid(struct bytes text)
{
    struct uuid uuid;

    return uuid_parse(text, &uuid);
}

static bool is_time(struct bytes text)
{
    int64_t us;

    return policy_time_parse(text, &us);
}

bool day_parse(struct bytes text, int64_t *day_out)
{
    char whole[] = "0000-00-00T00:00:00Z";
    int64_t wall_ms;

    if (text.length != 10) return false;
    memcpy(whole, text.data, 10);
    if (!clock_parse(bytes_of_text(whole), &wall_ms)) return false;
    *day_out = wall_ms / 86400000 - (wall_ms % 86400000 < 0);
    return true;
}

static bool is_day(struct bytes text)
{
    int64_t day;

    return day_parse(text, &day);
}

static bool is_geo(struct bytes text)
{
    if (text.length < 2 || !text_consists_of(first(text, 2), UPPER)) return false;
    if (text.length == 2) return true;
    return text.data[2] == '/' && text.length >= 5 && text.length <= 6 && text_consists_of(from(text, 3), UPPER);
}

static bool is_regime(struct bytes text)
{
    return text.length >= 2 && text.length <= 24 && text_consists_of(text, UPPER DIGITS "-");
}

static bool is_scope(struct bytes text)
{
    return text.length >= 1 && text.length <= POLICY_SCOPE_MAX;
}

static bool is_target_id(struct bytes text)
{
    return text.length >= 1 && text.length <= POLICY_TARGET_ID_MAX;
}

/* "provider/region", as in the table `region`. */
static bool is_region(struct bytes text)
{
    const uint8_t *slash = memchr(text.data, '/', text.length);

    if (slash == NULL || text.length > REGION_ID_MAX) return false;
    const size_t at = (size_t)(slash - text.data);
    return at > 0 && at + 1 < text.length && text_consists_of(first(text, at), LOWER DIGITS "-") &&
           text_consists_of(from(text, at + 1), LOWER DIGITS "-");
}

static bool is_mark(struct bytes text)
{
    return text.length == 32 && text_consists_of(text, "0123456789abcdef");
}

/* RFC 7638, SHA-256. */
static bool is_thumbprint(struct bytes text)
{
    return text.length == 43 && text_consists_of(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ" LOWER DIGITS "-_");
}

/* Of keys in a bucket; "" is none. */
static bool is_prefix(struct bytes text)
{
    return text.length < 128 && text_consists_of(text, LOWER DIGITS "-_/");
}

#define TEXT_OF(name, described, function) \
    static const struct shape name = {.kind = SHAPE_TEXT, .what = (described), .holds = (function)}
#define WORD_OF(name, described, list) static const struct shape name = {.kind = SHAPE_TEXT, .what = (described), .words = (list)}
#define LIST_OF(name, member, minimum, maximum) \
    static const struct shape name = {          \
        .kind = SHAPE_LIST, .what = "a list of at least " #minimum, .each = &(member), .least = (minimum), .most = (maximum)}
#define WHOLE_OF(name, minimum, maximum) \
    static const struct shape name = {   \
        .kind = SHAPE_WHOLE, .what = "a whole number in its range", .low = (minimum), .high = (maximum)}
#define MEMBERS_OF(name, ...) static const struct shape_member name##_members[] = {__VA_ARGS__, {NULL, NULL, false}}
#define OBJECT_OF(name, ...)       \
    MEMBERS_OF(name, __VA_ARGS__); \
    static const struct shape name = {.kind = SHAPE_OBJECT, .what = "an object", .members = name##_members}
#define PUBLIC_OBJECT_OF(name, ...) \
    MEMBERS_OF(name, __VA_ARGS__);  \
    const struct shape name = {.kind = SHAPE_OBJECT, .what = "an object", .members = name##_members}

TEXT_OF(some_text, "a text", NULL);
TEXT_OF(identifier, "an identifier", is_identifier);
TEXT_OF(pattern, "a scope pattern", is_pattern);
TEXT_OF(content_digest, "a digest sha256:...", is_content_digest);
TEXT_OF(uuid_text, "a UUID", is_uuid);
TEXT_OF(timestamp, "a timestamp with an offset", is_time);
TEXT_OF(day, "a day", is_day);
TEXT_OF(geo, "a place such as AE/DU", is_geo);
TEXT_OF(regime, "the name of a regime", is_regime);
TEXT_OF(scope, "a scope", is_scope);
TEXT_OF(target_id, "the name of a target", is_target_id);
WORD_OF(class_word, "a class", class_names);
WORD_OF(lineage_word, "a lineage", lineage_names);
WORD_OF(subject_word, "a subject", subject_names);
WORD_OF(operation_word, "an operation", operation_names);
WORD_OF(key_control_word, "a kind of key control", key_controls);
WORD_OF(recipient_word, "a kind of recipient", recipients);
WORD_OF(api_version, "\"sijil.policy/v1\" or \"sijil.policy/v2\"", api_versions);
WORD_OF(set_version, "\"sijil.policy/v1\"", set_versions);
WORD_OF(policy_kind, "\"ResidencyPolicy\"", policy_kinds);
WORD_OF(exception_kind, "\"ResidencyException\"", exception_kinds);
WORD_OF(set_kind, "\"PolicySet\"", set_kinds);
WORD_OF(group_kind, "\"geo\" or \"regime\"", group_kind_names);
WHOLE_OF(from_zero, 0, WHOLE_MAX);
WHOLE_OF(from_one, 1, WHOLE_MAX);
WHOLE_OF(assurance, 0, 4);
WHOLE_OF(exception_days, 1, 366);
WHOLE_OF(run_approvals, 1, 8); /* an order of docs/formats/run.md names at most 8 */
WHOLE_OF(two_or_more, 2, WHOLE_MAX);
static const struct shape boolean = {.kind = SHAPE_BOOLEAN, .what = "true or false"};
static const struct shape anything = {.kind = SHAPE_ANYTHING};

LIST_OF(texts, some_text, 1, POLICY_LIST_MAX);
LIST_OF(texts_or_none, some_text, 0, POLICY_LIST_MAX);
LIST_OF(identifiers, identifier, 1, POLICY_LIST_MAX);
LIST_OF(patterns, pattern, 1, POLICY_LIST_MAX);
LIST_OF(geos, geo, 1, POLICY_LIST_MAX);
LIST_OF(geos_or_none, geo, 0, POLICY_LIST_MAX);
LIST_OF(operations, operation_word, 1, POLICY_LIST_MAX);
LIST_OF(subjects, subject_word, 1, POLICY_LIST_MAX);
LIST_OF(subjects_or_none, subject_word, 0, POLICY_LIST_MAX);
LIST_OF(regimes, regime, 1, POLICY_LIST_MAX);
LIST_OF(regimes_or_none, regime, 0, POLICY_LIST_MAX);
LIST_OF(regimes_of_label, regime, 0, LABEL_REGIMES_MAX);
LIST_OF(pins_of_label, identifier, 0, LABEL_PINS_MAX);
LIST_OF(key_controls_list, key_control_word, 1, POLICY_LIST_MAX);
LIST_OF(recipients_list, recipient_word, 1, POLICY_LIST_MAX);
LIST_OF(digests, content_digest, 1, POLICY_LIST_MAX);

OBJECT_OF(basis, {"article", &some_text, false}, {"instrument", &some_text, true}, {"source", &some_text, false},
          {"verified", &some_text, false});
LIST_OF(bases, basis, 0, POLICY_LIST_MAX);
PUBLIC_OBJECT_OF(shape_applies_to, {"attached_any", &regimes, false}, {"class_at_least", &class_word, false},
                 {"subjects_any", &subjects, false});
OBJECT_OF(loosen, {"class_at_most", &class_word, false}, {"subjects_none", &subjects, false});
OBJECT_OF(demand, {"class_at_most", &class_word, false}, {"lineage_at_least", &lineage_word, false},
          {"subjects_none", &subjects, false});
static const struct shape_member target_test_members[] = {
#define FACT(constant, fact, fact_form, test, test_form, comparison) {test, &(test_form), false},
#include "policy/facts.def"
#undef FACT
    {"geo_in_group", &identifiers, false},
    {"geo_within", &geos, false},
    {"key_control_in", &key_controls_list, false},
    {"key_geo_within", &geos, false},
    {"operator_not_controlled_from", &geos, false},
    {"regime_in_group", &identifiers, false},
    {NULL, NULL, false}};
static const struct shape target_test = {.kind = SHAPE_OBJECT, .what = "an object", .members = target_test_members};
LIST_OF(target_tests, target_test, 1, 32); /* alternatives of one rule; samples have two */
OBJECT_OF(anchor_copy, {"geo_within", &geos, true}, {"max_staleness_s", &from_zero, false});
OBJECT_OF(obligation, {"anchor_copy", &anchor_copy, false}, {"approvals", &run_approvals, false},
          {"audit_retain_min_days", &from_zero, false}, {"evidence", &texts_or_none, false}, {"min_sites", &from_one, false},
          {"notify", &texts_or_none, false}, {"receipt", &boolean, false}, {"retain_max_days", &from_zero, false},
          {"retain_min_days", &from_zero, false}, {"signed_request", &boolean, false});

#define RULE_MEMBERS_OF(when_shape)                                                                                    \
    {"basis", &bases, false}, {"effect", &some_text, true}, {"id", &identifier, true}, {"message", &some_text, false}, \
        {"ops", &operations, true},                                                                                    \
    {                                                                                                                  \
        "when", &(when_shape), false                                                                                   \
    }
OBJECT_OF(require_rule, {"any_of", &target_tests, false}, {"label", &demand, false}, {"target", &target_test, false},
          RULE_MEMBERS_OF(shape_applies_to));
OBJECT_OF(deny_rule, {"any_of", &target_tests, false}, {"target", &target_test, false}, RULE_MEMBERS_OF(shape_applies_to));
OBJECT_OF(oblige_rule, {"oblige", &obligation, true}, RULE_MEMBERS_OF(shape_applies_to));
OBJECT_OF(permit_rule, RULE_MEMBERS_OF(loosen));
const struct shape *const shape_rules[] = {&require_rule, &deny_rule, &oblige_rule, &permit_rule};

OBJECT_OF(metadata, {"applies_to_labels", &shape_applies_to, false}, {"disclaimer", &some_text, false},
          {"effective_from", &timestamp, true}, {"id", &identifier, true}, {"organisation", &some_text, false},
          {"review_by", &day, true}, {"scope", &patterns, true}, {"supersedes", &content_digest, false},
          {"template", &some_text, false}, {"title", &some_text, false}, {"version", &from_one, true});
OBJECT_OF(policy_floor, {"attached", &regimes_of_label, false}, {"class", &class_word, false},
          {"subjects", &subjects_or_none, false});
OBJECT_OF(exception_type, {"adds", &obligation, false}, {"approvals", &two_or_more, true}, {"basis", &bases, false},
          {"lifts", &identifiers, true}, {"max_days", &exception_days, true}, {"required_evidence", &texts_or_none, true});
static const struct shape exception_types = {
    .kind = SHAPE_MAP, .what = "an object", .each = &exception_type, .most = POLICY_LIST_MAX};
LIST_OF(rules, anything, 1, POLICY_LIST_MAX);
PUBLIC_OBJECT_OF(shape_policy, {"apiVersion", &api_version, true}, {"closed", &boolean, false},
                 {"exception_types", &exception_types, false}, {"kind", &policy_kind, true}, {"labels", &policy_floor, false},
                 {"metadata", &metadata, true}, {"rules", &rules, true});

OBJECT_OF(person, {"iss", &some_text, true}, {"sub", &some_text, true});
LIST_OF(persons, person, 2, POLICY_LIST_MAX);
OBJECT_OF(bound_policy, {"digest", &content_digest, true}, {"id", &identifier, true}, {"version", &from_one, true});
static const struct shape evidence = {.kind = SHAPE_MAP, .what = "an object", .each = &some_text, .most = POLICY_LIST_MAX};
PUBLIC_OBJECT_OF(shape_exception, {"apiVersion", &api_version, true}, {"approvals", &persons, true}, {"digests", &digests, true},
                 {"evidence", &evidence, true}, {"id", &identifier, true}, {"kind", &exception_kind, true},
                 {"lifts", &identifiers, true}, {"not_after", &timestamp, true}, {"not_before", &timestamp, true},
                 {"ops", &operations, true}, {"policy", &bound_policy, true}, {"project", &uuid_text, true},
                 {"requested_by", &person, true}, {"revoked", &boolean, false}, {"targets", &texts, true},
                 {"type", &some_text, true}, {"uses_left", &from_zero, false});

PUBLIC_OBJECT_OF(shape_label, {"attached", &regimes_of_label, true}, {"class", &class_word, true},
                 {"lineage", &lineage_word, true}, {"pins", &pins_of_label, true}, {"subjects", &subjects_or_none, true});
PUBLIC_OBJECT_OF(shape_floor_label, {"attached", &regimes_of_label, false}, {"class", &class_word, false},
                 {"lineage", &lineage_word, false}, {"subjects", &subjects_or_none, false});

OBJECT_OF(operator_facts, {"controlled_from", &geos_or_none, false}, {"name", &some_text, false});
OBJECT_OF(key_facts, {"control", &key_control_word, false}, {"geo", &geo, false}, {"ring", &some_text, false});
/* clang-format off */
#define OTHER_FACTS                                                                                                               \
    {"geo", &geo, false}, {"key", &key_facts, false}, {"location_evidence", &some_text, false}, {"operator", &operator_facts, false}, \
        {"site", &some_text, false}
/* clang-format on */
static const struct shape_member shape_target_members[] = {
#define FACT(constant, fact, fact_form, test, test_form, comparison) {fact, &(fact_form), false},
#include "policy/facts.def"
#undef FACT
    OTHER_FACTS, {NULL, NULL, false}};
const struct shape shape_target = {.kind = SHAPE_OBJECT, .what = "an object", .members = shape_target_members};

/* A member of the wrong form would never match, which makes a `deny` weaker. So each kind of group has its own shape. */
OBJECT_OF(geo_group, {"as_of", &some_text, false}, {"kind", &group_kind, true}, {"members", &geos_or_none, true},
          {"note", &some_text, false}, {"review_by", &some_text, false});
OBJECT_OF(regime_group, {"as_of", &some_text, false}, {"kind", &group_kind, true}, {"members", &regimes_or_none, true},
          {"note", &some_text, false}, {"review_by", &some_text, false});
const struct shape *const shape_group_kinds[] = {&geo_group, &regime_group};
const struct shape shape_groups = {
    .kind = SHAPE_MAP, .what = "an object", .each = &anything, .most = POLICY_LIST_MAX, .key_holds = is_identifier};

const struct shape shape_digest = {.kind = SHAPE_TEXT, .what = "a digest sha256:...", .holds = is_content_digest};
LIST_OF(exceptions, anything, 0, POLICY_LIST_MAX);
/* `digest` and `label` may be null: facts.c checks them. */
PUBLIC_OBJECT_OF(shape_facts, {"digest", &anything, true}, {"exceptions", &exceptions, true}, {"label", &anything, true},
                 {"now", &timestamp, true}, {"op", &operation_word, true}, {"policy_epoch", &from_zero, true},
                 {"project", &uuid_text, true}, {"scope", &scope, true}, {"target", &shape_target, true},
                 {"target_id", &target_id, true});

/* Both labels may be null: replay_entries.c checks them. */
OBJECT_OF(asked_operation, {"op", &operation_word, true}, {"target", &shape_target, true}, {"target_id", &target_id, true});
LIST_OF(asked_operations, asked_operation, 0, OP_COUNT);
LIST_OF(restriction_digests, content_digest, 1, POLICY_RESTRICTIONS_MAX);
LIST_OF(spent_exceptions, content_digest, 1, POLICY_LIST_MAX);
OBJECT_OF(used_exception, {"evidence", &evidence, true}, {"exception", &content_digest, true}, {"id", &identifier, true});
LIST_OF(used_exceptions, used_exception, 1, POLICY_LIST_MAX);
LIST_OF(told_names, some_text, 1, FACTS_TOLD_MAX);
OBJECT_OF(facts_entry, {"before", &anything, false}, {"label", &anything, true}, {"operations", &asked_operations, true},
          {"project", &uuid_text, true}, {"restrictions", &restriction_digests, false}, {"scope", &scope, false},
          {"spent", &spent_exceptions, false}, {"told", &told_names, false}, {"used", &used_exceptions, false});
LIST_OF(facts_entries, facts_entry, 0, POLICY_LIST_MAX);
LIST_OF(refused_rules, some_text, 0, 8); /* twice the most of a pair */
WHOLE_OF(version_one, 1, 1);
PUBLIC_OBJECT_OF(shape_pair_facts, {"action", &some_text, true}, {"digest", &boolean, true}, {"judged", &facts_entries, true},
                 {"omitted", &boolean, false}, {"refused", &refused_rules, true}, {"v", &version_one, true});

/* A region of a set: facts, and what a decision is not about. */
OBJECT_OF(attestation, {"by", &some_text, false}, {"evidence", &content_digest, true}, {"until", &day, true});
static const struct shape attested = {.kind = SHAPE_MAP, .what = "an object", .each = &attestation, .most = POLICY_LIST_MAX};
WORD_OF(store_driver, "\"fs\" or \"s3\"", store_drivers);
TEXT_OF(store_mark, "32 hex digits", is_mark);
TEXT_OF(store_prefix, "a prefix of keys", is_prefix);
TEXT_OF(keyd_key, "the thumbprint of a key", is_thumbprint);
OBJECT_OF(store, {"bucket", &some_text, false}, {"bucket_location", &some_text, false}, {"driver", &store_driver, true},
          {"endpoint", &some_text, false}, {"file_system", &some_text, false}, {"mark", &store_mark, false},
          {"prefix", &store_prefix, false});
static const struct shape_member region_members[] = {
#define FACT(constant, fact, fact_form, test, test_form, comparison) {fact, &(fact_form), false},
#include "policy/facts.def"
#undef FACT
    OTHER_FACTS, {"attested", &attested, false}, {"keyd", &keyd_key, false}, {"store", &store, false}, {NULL, NULL, false}};
static const struct shape region = {.kind = SHAPE_OBJECT, .what = "an object", .members = region_members};

LIST_OF(policies, anything, 0, POLICY_COUNT_MAX);
static const struct shape regions = {
    .kind = SHAPE_MAP, .what = "an object", .each = &region, .most = POLICY_LIST_MAX, .key_holds = is_region};
OBJECT_OF(network, {"authority", &content_digest, false}, {"cidr", &some_text, false}, {"facts", &shape_target, true},
          {"listener", &identifier, false}); /* network.c checks which */
LIST_OF(networks, network, 0, 1024);         /* sites of an enterprise; each request compares them all */
OBJECT_OF(declassification, {"evidence", &content_digest, false}, {"policy", &identifier, true}, {"reason", &some_text, true},
          {"scope", &patterns, true});
LIST_OF(declassified, declassification, 1, POLICY_LIST_MAX);
/* set.c reads "approval" and "root" (documents/format/set_approval.h). */
PUBLIC_OBJECT_OF(shape_set, {"apiVersion", &set_version, true}, {"approval", &anything, false},
                 {"declassified", &declassified, false}, {"digest", &content_digest, true}, {"epoch", &from_one, true},
                 {"exceptions", &exceptions, true}, {"groups", &shape_groups, true}, {"kind", &set_kind, true},
                 {"networks", &networks, true}, {"policies", &policies, true}, {"regions", &regions, true},
                 {"root", &anything, false});

WORD_OF(outcome, "\"allow\" or \"deny\"", outcome_names);
OBJECT_OF(own_label, {"attached", &regimes_of_label, false}, {"class", &class_word, false}, {"lineage", &lineage_word, false},
          {"pins", &pins_of_label, false}, {"subjects", &subjects_or_none, false});
OBJECT_OF(expectation, {"address", &some_text, false}, {"digest", &content_digest, false}, {"expect", &outcome, true},
          {"label", &own_label, false}, {"name", &some_text, true}, {"network", &some_text, false}, {"now", &timestamp, false},
          {"ops", &operations, true}, {"policy", &some_text, false}, {"project", &uuid_text, false},
          {"region", &some_text, false}, {"rule", &identifier, false}, {"scope", &scope, true}, {"target", &shape_target, false});
LIST_OF(expectations, expectation, 1, POLICY_EXPECTATIONS_MAX);
PUBLIC_OBJECT_OF(shape_expectations, {"now", &timestamp, false}, {"tests", &expectations, true});
