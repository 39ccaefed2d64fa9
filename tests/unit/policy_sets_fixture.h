/*
 * tests/unit/policy_sets_fixture.h -- random policy sets, and random edits of them.
 * For one source file of a program only: it defines what it declares.
 */
#pragma once

#include "tests/support/unit.h"

#include <stdlib.h>

#include "policy/set.h"

#define T0      "2026-12-01T00:00:00Z"
#define T1      "2027-01-01T00:00:00Z"
#define T2      "2027-02-01T00:00:00Z"
#define PROJECT "5f0c8f0e-93a1-4c1a-8a4e-0d8f6d1f2b30"
#define DIGEST  "sha256:1111111111111111111111111111111111111111111111111111111111111111"

static unsigned random_state;

static inline unsigned drawn(unsigned below)
{
    random_state = random_state * 1664525U + 1013904223U;
    return (random_state >> 16) % below;
}

static inline bool chance(unsigned percent)
{
    return drawn(100) < percent;
}

static inline json_t *one_of(const char *const *words)
{
    size_t count = 0;

    while (words[count] != NULL) count++;
    return json_string(words[drawn((unsigned)count)]);
}

static inline json_t *some_of(const char *const *words, unsigned least)
{
    json_t *array = json_array();
    size_t count = 0;

    while (words[count] != NULL) count++;
    for (size_t i = 0; i < count; i++)
        if (chance(100 / (unsigned)count + 15)) (void)json_array_append_new(array, json_string(words[i]));
    while (json_array_size(array) < least) (void)json_array_append_new(array, one_of(words));
    return array;
}

static inline void may_have(json_t *object, unsigned percent, const char *name, json_t *value)
{
    if (chance(percent)) (void)json_object_set_new(object, name, value);
    else json_decref(value);
}

static const char *const classes[] = {"open", "confidential", "sensitive", "secret", NULL};
static const char *const lineages[] = {"unknown", "declared", "attested", NULL};
static const char *const subjects[] = {"personal", "health", "government", NULL};
static const char *const regimes[] = {"AE-FED", "DIFC", "ADGM", NULL};
static const char *const places[] = {"AE", "AE/DU", "SA", "US", NULL};
static const char *const operations[] = {"ingest", "read", "train", NULL};
static const char *const scopes[] = {"**", "a/**", "a/*/c", "*/b/c", "b/**", "a/b/c", NULL};
static const char *const names[] = {"a/b/c", "a/x/c", "a/b/d", "b/b/c", "b/y/z", "x/b/c", "x/y/z", "a/b", "a", NULL};
static const char *const attributes[] = {"iso", "sovereign", NULL};
static const char *const controls[] = {"customer-hsm", "customer-soft", "provider-kms", NULL};
static const char *const receivers[] = {"same-controller", "processor", "third-party", NULL};
static const char *const geo_groups[] = {"GEO1", "NONE", NULL};
static const char *const regime_groups[] = {"REG1", "GEO1", NULL};
static const char *const ids[] = {"p0", "p1", "p2", NULL};
static const char *const rule_ids[] = {"R0", "R1", "R2", NULL};

/* --- documents --- */

static inline json_t *tightening(void)
{
    json_t *when = json_object();

    may_have(when, 25, "subjects_any", some_of(subjects, 1));
    may_have(when, 25, "attached_any", some_of(regimes, 1));
    may_have(when, 25, "class_at_least", one_of(classes));
    return when;
}

static inline json_t *loosening(void)
{
    json_t *when = json_object();

    may_have(when, 30, "subjects_none", some_of(subjects, 1));
    may_have(when, 40, "class_at_most", one_of(classes));
    return when;
}

static inline json_t *target_test(void)
{
    json_t *test = json_object();

    may_have(test, 30, "geo_within", some_of(places, 1));
    may_have(test, 15, "geo_in_group", some_of(geo_groups, 1));
    may_have(test, 15, "regime_any", some_of(regimes, 1));
    may_have(test, 15, "regime_in_group", some_of(regime_groups, 1));
    may_have(test, 20, "operator_not_controlled_from", some_of(places, 1));
    may_have(test, 15, "attrs_all", some_of(attributes, 1));
    may_have(test, 10, "key_geo_within", some_of(places, 1));
    may_have(test, 10, "key_control_in", some_of(controls, 1));
    may_have(test, 15, "min_assurance", json_integer(drawn(5)));
    may_have(test, 10, "recipient_in", some_of(receivers, 1));
    if (json_object_size(test) == 0) (void)json_object_set_new(test, "geo_within", some_of(places, 1));
    return test;
}

static inline json_t *duty(void)
{
    json_t *oblige = json_object();

    may_have(oblige, 50, "retain_min_days", json_integer(drawn(4) * 10));
    may_have(oblige, 25, "retain_max_days", json_integer(drawn(5) * 10));
    may_have(oblige, 25, "approvals", json_integer(1 + drawn(3)));
    may_have(oblige, 25, "signed_request", json_boolean(drawn(2)));
    may_have(oblige, 25, "receipt", json_boolean(drawn(2)));
    may_have(oblige, 25, "notify", some_of(attributes, 0));
    return oblige;
}

static inline void add_condition(json_t *rule)
{
    json_t *many = json_array();

    for (unsigned i = 0; i <= drawn(2); i++) (void)json_array_append_new(many, target_test());
    if (chance(50)) (void)json_object_set(rule, "any_of", many);
    else (void)json_object_set_new(rule, "target", target_test());
    json_decref(many);
}

static inline json_t *rule_of(const char *id)
{
    static const char *const effects[] = {"require", "deny", "permit", "permit", "permit", "oblige", "oblige", NULL};
    json_t *effect = one_of(effects);
    const char *word = json_string_value(effect);
    const bool permits = strcmp(word, "permit") == 0, obliges = strcmp(word, "oblige") == 0;
    json_t *rule = json_pack("{s:s, s:O, s:o, s:o}", "id", id, "effect", effect, "ops", some_of(operations, 1), "when",
                             permits ? loosening() : tightening());

    if (obliges) (void)json_object_set_new(rule, "oblige", duty());
    if (obliges) (void)json_array_append_new(json_object_get(rule, "ops"), json_string("train"));
    else if (strcmp(word, "require") == 0 && chance(20))
        (void)json_object_set_new(rule, "label", json_pack("{s:o}", "lineage_at_least", one_of(lineages)));
    else if (!permits) add_condition(rule);
    json_decref(effect);
    return rule;
}

static inline json_t *policy_of(const char *id)
{
    json_t *rules = json_array(), *floor = json_object(), *applies = tightening();
    const unsigned count = 1 + drawn(3);

    for (unsigned i = 0; i < count; i++) (void)json_array_append_new(rules, rule_of(rule_ids[i]));
    json_t *metadata = json_pack("{s:s, s:i, s:o, s:s, s:s}", "id", id, "version", 1, "scope", some_of(scopes, 1),
                                 "effective_from", chance(80) ? "2026-01-01T00:00:00Z" : T1, "review_by", "2028-01-01");
    if (json_object_size(applies) > 0) may_have(metadata, 50, "applies_to_labels", json_incref(applies));
    json_t *policy = json_pack("{s:s, s:s, s:o, s:o, s:b}", "apiVersion", "sijil.policy/v2", "kind", "ResidencyPolicy",
                               "metadata", metadata, "rules", rules, "closed", chance(25) ? 1 : 0);
    may_have(floor, 60, "class", one_of(classes));
    may_have(floor, 60, "subjects", some_of(subjects, 0));
    may_have(floor, 40, "attached", some_of(regimes, 0));
    may_have(policy, 40, "labels", json_incref(floor));
    may_have(policy, 70, "exception_types",
             json_pack("{s:{s:[s,s], s:[], s:i, s:i, s:o}}", "t", "lifts", "R0", "R1", "required_evidence", "max_days", 40,
                       "approvals", 2, "adds", duty()));
    json_decref(floor);
    json_decref(applies);
    return policy;
}

static inline json_t *target_facts(void)
{
    json_t *facts = json_object(), *key = json_object();

    may_have(facts, 75, "geo", one_of(places));
    may_have(facts, 70, "regimes", some_of(regimes, 0));
    may_have(facts, 60, "attrs", some_of(attributes, 0));
    may_have(facts, 60, "assurance", json_integer(drawn(5)));
    may_have(facts, 60, "recipient", one_of(receivers));
    may_have(facts, 70, "operator", json_pack("{s:o}", "controlled_from", some_of(places, 0)));
    may_have(key, 70, "geo", one_of(places));
    may_have(key, 70, "control", one_of(controls));
    may_have(facts, 70, "key", json_incref(key));
    json_decref(key);
    return facts;
}

static inline json_t *groups(void)
{
    return json_pack("{s:{s:s, s:o}, s:{s:s, s:o}}", "GEO1", "kind", "geo", "members", some_of(places, 0), "REG1", "kind",
                     "regime", "members", some_of(regimes, 0));
}

static inline json_t *set_json(void)
{
    json_t *policies = json_array(), *regions = json_pack("{s:o, s:o}", "r/one", target_facts(), "r/two", target_facts());
    json_t *networks = json_pack("[{s:s, s:o}, {s:s, s:o}]", "cidr", "10.0.0.0/8", "facts", target_facts(), "cidr", "10.1.0.0/16",
                                 "facts", target_facts());

    for (size_t i = 0; i < 3; i++)
        if (i == 0 || chance(50)) (void)json_array_append_new(policies, policy_of(ids[i]));
    return json_pack("{s:o, s:o, s:o, s:o}", "policies", policies, "regions", regions, "groups", groups(), "networks", networks);
}

/* The same set with one thing drawn again. */
static inline json_t *edited(const json_t *json)
{
    json_t *copy = json_deep_copy(json), *policies = json_object_get(copy, "policies");
    const size_t at = drawn((unsigned)json_array_size(policies));
    json_t *policy = json_array_get(policies, at), *rules = json_object_get(policy, "rules");
    const size_t rule = drawn((unsigned)json_array_size(rules));
    json_t *metadata = json_object_get(policy, "metadata");

    switch (drawn(9)) {
    case 0: (void)json_array_set_new(rules, rule, rule_of(rule_ids[rule])); break;
    case 1: (void)json_object_set_new(metadata, "scope", some_of(scopes, 1)); break;
    case 2: (void)json_object_set_new(policy, "closed", json_boolean(drawn(2))); break;
    case 3: (void)json_object_set_new(copy, "groups", groups()); break;
    case 4: (void)json_object_set_new(json_object_get(copy, "regions"), "r/one", target_facts()); break;
    case 5: (void)json_object_set_new(json_array_get(json_object_get(copy, "networks"), 1), "facts", target_facts()); break;
    case 6: (void)json_object_del(policy, "labels"); break;
    case 7: (void)json_object_set_new(json_array_get(rules, rule), "ops", some_of(operations, 2)); break;
    default:
        if (json_array_size(policies) > 1) (void)json_array_remove(policies, at);
        else (void)json_array_append_new(policies, policy_of("p2"));
        break;
    }
    json_t *each;
    size_t i;
    json_array_foreach (rules, i, each) /* duties of a run belong to rules about it */
        if (json_object_get(each, "oblige") != NULL)
            (void)json_array_append_new(json_object_get(each, "ops"), json_string("train"));
    return copy;
}

static inline json_t *exception_for(const json_t *policy)
{
    OWNED(policy_document) *document = NULL;
    struct error err = {0};

    must(policy_document_new((json_t *)(uintptr_t)policy, &document, &err), &err);
    return json_pack(
        "{s:s, s:s, s:s, s:s, s:s, s:{s:O, s:i, s:s}, s:o, s:o, s:[s], s:[s], s:s, s:s, s:{s:s, s:s}, s:[{s:s, s:s}, {s:s, s:s}], s:{}}",
        "apiVersion", "sijil.policy/v2", "kind", "ResidencyException", "id", "x1", "type", "t", "project", PROJECT, "policy",
        "id", json_object_get(json_object_get(policy, "metadata"), "id"), "version", 1, "digest",
        policy_document_digest(document), "lifts", some_of(rule_ids, 1), "ops", some_of(operations, 1), "targets", "r/one",
        "digests", DIGEST, "not_before", T0, "not_after", "2027-01-05T00:00:00Z", "requested_by", "iss", "i", "sub", "a",
        "approvals", "iss", "i", "sub", "b", "iss", "i", "sub", "c", "evidence");
}
