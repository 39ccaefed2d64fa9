/* Compiles JSON that the shapes have checked into the structs of the evaluator. */
#include <stdio.h>
#include <string.h>

#include "base/fault.h"
#include "base/memory.h"
#include "base/text.h"
#include "crypto/digest.h"
#include "policy/compiled_priv.h"
#include "policy/no_memory_priv.h"

int compare_texts(const void *a, const void *b)
{
    const char *const *left = a, *const *right = b;

    return strcmp(*left, *right);
}

void sha_text(struct bytes bytes, char text_out[SHA_TEXT_SIZE])
{
    uint8_t raw[SHA256_SIZE];

    sha256_of(bytes, raw);
    /* NOLINTNEXTLINE(bugprone-not-null-terminated-result): text_hex() ends it */
    memcpy(text_out, "sha256:", 7);
    text_hex(raw, sizeof raw, text_out + 7);
}

struct result canonical_copy(const json_t *json, size_t maximum, char **text_out, struct error *err)
{
    struct buffer text = BUFFER(maximum);
    const struct result written = json_write_canonical(&text, json, err);

    if (!written.ok) {
        buffer_done(&text);
        return written;
    }
    *text_out = (char *)text.data; /* a buffer ends in '\0' and comes from the heap */
    return SUCCESS;
}

struct result canonical_take(struct arena *arena, const json_t *json, const char **text_out, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(POLICY_DOCUMENT_BYTES_MAX);

    TRY(json_write_canonical(&text, json, err));
    const char *copy = arena_copy_text(arena, buffer_bytes(&text));
    if (copy == NULL) return policy_no_memory(err);
    *text_out = copy;
    return SUCCESS;
}

/* NULL when out of memory. Counts are bounded by the size of a document. The array has one element more, so it is never empty. */
static void *take(struct arena *arena, size_t count, size_t size)
{
    return arena_take(arena, (count + 1) * size);
}

struct result compile_texts(struct arena *arena, const json_t *array, struct text_list *list_out, struct error *err)
{
    const size_t count = json_array_size(array);

    const char **texts = take(arena, count, sizeof(const char *));
    if (texts == NULL) return policy_no_memory(err);
    for (size_t i = 0; i < count; i++) texts[i] = json_string_value(json_array_get(array, i));
    *list_out = (struct text_list){count, texts};
    return SUCCESS;
}

uint32_t compile_words(const json_t *array, const char *const *words)
{
    uint32_t bits = 0;

    for (size_t i = 0; i < json_array_size(array); i++)
        bits |= (uint32_t)1 << word_index(words, json_string_value(json_array_get(array, i)));
    return bits;
}

struct result compile_operations(const json_t *document, const json_t *ops, const char *where, uint32_t *operations_out,
                                 struct error *err)
{
    const bool names_each = strcmp(json_text_of(document, "apiVersion"), "sijil.policy/v2") == 0;
    uint32_t operations = compile_words(ops, operation_names);

    if (!names_each && (operations & (OP_STAT | OP_LIST)) != 0)
        return failure(err, ERROR_INVALID, "%s.ops: stat and list are operations of \"sijil.policy/v2\"", where);
    if (!names_each && (operations & OP_READ) != 0) operations |= OP_STAT | OP_LIST;
    *operations_out = operations;
    return SUCCESS;
}

static int compile_word(const json_t *object, const char *key, const char *const *words)
{
    const char *text = json_text_of(object, key);

    return text == NULL ? -1 : word_index(words, text);
}

struct result compile_label_test(struct arena *arena, const json_t *json, struct label_test *test_out, struct error *err)
{
    struct label_test test = {
        .class_at_least = compile_word(json, "class_at_least", class_names),
        .class_at_most = compile_word(json, "class_at_most", class_names),
        .lineage_at_least = compile_word(json, "lineage_at_least", lineage_names),
        .subjects_any = compile_words(json_object_get(json, "subjects_any"), subject_names),
        .subjects_none = compile_words(json_object_get(json, "subjects_none"), subject_names),
    };

    TRY(compile_texts(arena, json_object_get(json, "attached_any"), &test.attached_any, err));
    *test_out = test;
    return SUCCESS;
}

static const struct {
    const char *name;
    unsigned kind; /* enum predicate_kind */
} predicate_names[] = {
    {"geo_within", TEST_GEO_WITHIN},           {"geo_in_group", TEST_GEO_IN_GROUP},
    {"regime_in_group", TEST_REGIME_IN_GROUP}, {"operator_not_controlled_from", TEST_OPERATOR},
    {"key_geo_within", TEST_KEY_GEO},          {"key_control_in", TEST_KEY_CONTROL},
#define FACT(constant, fact, fact_form, test, ...) {test, TEST_OF_FACT + FACT_##constant},
#include "policy/facts.def"
#undef FACT
};

static struct result name_groups(struct arena *arena, struct predicate *predicate, struct error *err)
{

    const char **names = take(arena, predicate->texts.count, sizeof(const char *));
    if (names == NULL) return policy_no_memory(err);
    for (size_t i = 0; i < predicate->texts.count; i++) {
        names[i] = arena_format(arena, "group:%s", predicate->texts.texts[i]);
        if (names[i] == NULL) return policy_no_memory(err);
    }
    predicate->group_facts = (struct text_list){predicate->texts.count, names};
    return SUCCESS;
}

struct result compile_target_test(struct arena *arena, const json_t *json, struct target_test *test_out, struct error *err)
{
    size_t count = 0;

    struct predicate *predicates = take(arena, TEST_COUNT, sizeof(struct predicate));
    if (predicates == NULL) return policy_no_memory(err);
    for (size_t i = 0; i < sizeof predicate_names / sizeof predicate_names[0]; i++) {
        const json_t *value = json_object_get(json, predicate_names[i].name);
        if (value == NULL) continue;
        struct predicate *predicate = &predicates[count++];
        predicate->kind = (enum predicate_kind)predicate_names[i].kind;
        predicate->number = json_integer_value(value);
        TRY(compile_texts(arena, value, &predicate->texts, err));
        if (predicate->kind == TEST_GEO_IN_GROUP || predicate->kind == TEST_REGIME_IN_GROUP)
            TRY(name_groups(arena, predicate, err));
    }
    *test_out = (struct target_test){count, predicates};
    return SUCCESS;
}

struct result compile_obligation(struct arena *arena, const json_t *json, struct obligation *oblige_out, struct error *err)
{
    const json_t *anchor = json_object_get(json, "anchor_copy"), *receipt = json_object_get(json, "receipt");
    const json_t *signed_request = json_object_get(json, "signed_request");
    struct obligation oblige = {
        .has_receipt = receipt != NULL,
        .receipt = json_is_true(receipt),
        .has_signed_request = signed_request != NULL,
        .signed_request = json_is_true(signed_request),
        .has_notify = json_object_get(json, "notify") != NULL,
        .has_evidence = json_object_get(json, "evidence") != NULL,
    };

    oblige.has_approvals = json_integer_of(json, "approvals", &oblige.approvals);
    oblige.has_min_sites = json_integer_of(json, "min_sites", &oblige.min_sites);
    oblige.has_retain_min = json_integer_of(json, "retain_min_days", &oblige.retain_min_days);
    oblige.has_retain_max = json_integer_of(json, "retain_max_days", &oblige.retain_max_days);
    oblige.has_audit_retain_min = json_integer_of(json, "audit_retain_min_days", &oblige.audit_retain_min_days);
    TRY(compile_texts(arena, json_object_get(json, "notify"), &oblige.notify, err));
    TRY(compile_texts(arena, json_object_get(json, "evidence"), &oblige.evidence, err));
    if (anchor != NULL) TRY(canonical_take(arena, anchor, &oblige.anchor_copy, err));
    *oblige_out = oblige;
    return SUCCESS;
}

/* A `target` is compiled as an `any_of` with one alternative. */
static struct result compile_alternatives(struct arena *arena, const json_t *json, struct rule *rule, struct error *err)
{
    const json_t *single = json_object_get(json, "target"), *many = json_object_get(json, "any_of");
    const size_t count = single != NULL ? 1 : json_array_size(many);

    struct target_test *tests = take(arena, count, sizeof(struct target_test));
    if (tests == NULL) return policy_no_memory(err);
    for (size_t i = 0; i < count; i++) {
        const json_t *each = single != NULL ? single : json_array_get(many, i);
        if (json_object_size(each) == 0) return failure(err, ERROR_INVALID, "rule %s: an empty condition", rule->id);
        TRY(compile_target_test(arena, each, &tests[i], err));
        for (size_t j = 0; j < tests[i].count; j++) rule->names_max += 1 + tests[i].predicates[j].group_facts.count;
    }
    rule->alternative_count = count;
    rule->alternatives = tests;
    return SUCCESS;
}

static struct result compile_condition(struct arena *arena, const json_t *json, struct rule *rule, struct error *err)
{
    const json_t *label = json_object_get(json, "label");
    const int given = (label != NULL) + (json_object_get(json, "target") != NULL) + (json_object_get(json, "any_of") != NULL);
    const int wanted = rule->effect == EFFECT_REQUIRE || rule->effect == EFFECT_DENY;

    if (given != wanted) return failure(err, ERROR_INVALID, "rule %s: exactly one of target, any_of, label", rule->id);
    rule->names_max = 4; /* a label has this number of facts */
    if (label == NULL) return compile_alternatives(arena, json, rule, err);
    if (json_object_size(label) == 0) return failure(err, ERROR_INVALID, "rule %s: an empty condition", rule->id);
    rule->is_of_label = true;
    return compile_label_test(arena, label, &rule->label, err);
}

/* Where an error is: a policy has up to 256 rules. */
static void rule_path(const json_t *json, char path_out[64])
{
    const char *id = json_text_of(json, "id");

    if (id == NULL || !shape_name_is_plain(id)) (void)snprintf(path_out, 64, "policy.rules");
    else (void)snprintf(path_out, 64, "policy.rules.%s", id);
}

static struct result compile_rule(const struct policy_document *document, const json_t *json, struct rule *rule,
                                  struct error *err)
{
    struct arena *arena = document->arena;
    const char *effect = json_text_of(json, "effect");
    const int index = effect == NULL ? -1 : word_index(effect_names, effect);

    char path[64];

    rule_path(json, path);
    if (index < 0) return failure(err, ERROR_INVALID, "%s: effect: require, deny, oblige or permit expected", path);
    TRY(shape_check(shape_rules[index], json, path, err));
    rule->effect = (enum effect)index;
    rule->id = json_text_of(json, "id");
    rule->message = json_text_of(json, "message") == NULL ? "" : json_text_of(json, "message");
    rule->basis = json_object_get(json, "basis");
    TRY(compile_operations(document->json, json_object_get(json, "ops"), path, &rule->operations, err));
    TRY(compile_label_test(arena, json_object_get(json, "when"), &rule->when, err));
    TRY(compile_condition(arena, json, rule, err));
    TRY(compile_obligation(arena, json_object_get(json, "oblige"), &rule->oblige, err));
    /* Without `train` no decision would ever demand such a duty, although the author of the rule expects it. */
    if ((rule->oblige.has_approvals || rule->oblige.has_signed_request) && (rule->operations & OP_TRAIN) == 0)
        return failure(err, ERROR_INVALID, "rule %s: approvals and signed_request are duties of train: add it to ops", rule->id);
    return SUCCESS;
}

struct result compile_rules(struct policy_document *document, const json_t *array, struct error *err)
{
    const size_t count = json_array_size(array);

    struct rule *rules = take(document->arena, count, sizeof(struct rule));
    if (rules == NULL) return policy_no_memory(err);
    for (size_t i = 0; i < count; i++) {
        TRY(compile_rule(document, json_array_get(array, i), &rules[i], err));
        for (size_t j = 0; j < i; j++)
            if (strcmp(rules[i].id, rules[j].id) == 0)
                return failure(err, ERROR_INVALID, "rule %s: there are two of this id", rules[i].id);
    }
    document->rule_count = count;
    document->rules = rules;
    return SUCCESS;
}

bool rule_is_asked(const struct rule *rule)
{
    static const uint32_t of_actions = 0
#define X(constant, name, ocsf_type, of_action, permitted) | (of_action)
#include "audit/actions.def"
#undef X
        ;

    return (rule->operations & of_actions) != 0 || rule->oblige.has_audit_retain_min;
}
