#include "policy/rule_index_priv.h"

#include <assert.h>
#include <string.h>

#include "policy/known_truths_priv.h"
#include "policy/no_memory_priv.h"

/* The canonical text of a test, and where its number belongs. */
struct numbered_test {
    const char *text;
    uint16_t *number;
};

/* A rule with the numbers of its tests. */
struct numbered_rule {
    uint16_t effect, when, condition, rule;
    bool is_of_label;
};

/* An index while it is made. */
struct index_draft {
    struct arena *texts; /* ends with the draft */
    struct rule_index index;
    struct policy_document *const *documents;
    size_t document_count, rule_count;
    struct numbered_rule *rules; /* document after document */
    struct numbered_test *whens, *conditions;
};

static int compare_tests(const void *a, const void *b)
{
    const struct numbered_test *left = a, *right = b;

    return strcmp(left->text, right->text);
}

/* Gives equal texts one number. Returns how many there are. */
static size_t number_tests(struct numbered_test *tests, size_t count)
{
    size_t numbers = 0;

    if (count == 0) return 0;
    qsort(tests, count, sizeof *tests, compare_tests);
    for (size_t i = 0; i < count; i++) {
        if (i > 0 && strcmp(tests[i - 1].text, tests[i].text) != 0) numbers++;
        *tests[i].number = (uint16_t)numbers;
    }
    return numbers + 1;
}

/* What a rule tests: the member, so that a label is never taken for a place, and its content. */
static struct result condition_text(struct arena *arena, const json_t *rule, const char **text_out, struct error *err)
{
    static const char *const members[] = {"label", "target", "any_of", "oblige"};
    const char *content = "";

    *text_out = "";
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
        const json_t *member = json_object_get(rule, members[i]);
        if (member == NULL) continue;
        TRY(canonical_take(arena, member, &content, err));
        *text_out = arena_format(arena, "%s %s", members[i], content);
    }
    return *text_out == NULL ? policy_no_memory(err) : SUCCESS;
}

static struct result read_rule(struct index_draft *draft, const struct rule *rule, const json_t *json, size_t at,
                               struct error *err)
{
    const json_t *when = json_object_get(json, "when");
    struct numbered_rule *numbered = &draft->rules[at];

    numbered->effect = (uint16_t)rule->effect;
    numbered->is_of_label = rule->is_of_label;
    draft->whens[at] = (struct numbered_test){"", &numbered->when};
    draft->conditions[at] = (struct numbered_test){"", &numbered->condition};
    if (when != NULL) TRY(canonical_take(draft->texts, when, &draft->whens[at].text, err));
    return condition_text(draft->texts, json, &draft->conditions[at].text, err);
}

static struct result read_rules(struct index_draft *draft, struct error *err)
{
    size_t at = 0;

    for (size_t i = 0; i < draft->document_count; i++) {
        const struct policy_document *document = draft->documents[i];
        const json_t *rules = json_object_get(document->json, "rules");
        for (size_t j = 0; j < document->rule_count; j++, at++) {
            draft->rules[at].rule = (uint16_t)j;
            TRY(read_rule(draft, &document->rules[j], json_array_get(rules, j), at, err));
        }
    }
    draft->index.when_count = number_tests(draft->whens, draft->rule_count);
    draft->index.condition_count = number_tests(draft->conditions, draft->rule_count);
    draft->index.truth_count = draft->index.condition_count + 1; /* no silence has the number 0 */
    return SUCCESS;
}

static int compare_rules(const void *a, const void *b)
{
    const struct numbered_rule *left = a, *right = b;

    if (left->effect != right->effect) return left->effect < right->effect ? -1 : 1;
    if (left->when != right->when) return left->when < right->when ? -1 : 1;
    if (left->condition != right->condition) return left->condition < right->condition ? -1 : 1;
    return left->rule < right->rule ? -1 : left->rule > right->rule;
}

static bool belongs_to(const struct rule_group *group, const struct numbered_rule *rule)
{
    return group->effect == rule->effect && group->when == rule->when && group->condition == rule->condition;
}

/* One group alone is asked as quickly as its silence. */
static bool is_of_target(const struct rule_group *groups, size_t count)
{
    if (count < 2 || (groups->effect != EFFECT_REQUIRE && groups->effect != EFFECT_DENY)) return false;
    for (size_t i = 0; i < count; i++)
        if (groups[i].is_of_label) return false;
    return true;
}

/* Groups are sorted as their rules are. */
static struct result find_runs(struct index_draft *draft, struct rule_groups *groups, size_t count, struct error *err)
{
    struct rule_run *runs = arena_take(draft->index.arena, (count + 1) * sizeof *runs);
    const struct rule_group *each = groups->groups;
    size_t end = 0;

    if (runs == NULL) return policy_no_memory(err);
    for (size_t first = 0; first < count; first = end) {
        for (end = first; end < count && each[end].effect == each[first].effect && each[end].when == each[first].when;) end++;
        const bool has_silence = is_of_target(each + first, end - first);
        runs[groups->run_count++] = (struct rule_run){.silence = has_silence ? (uint32_t)draft->index.truth_count++ : 0,
                                                      .first = (uint16_t)first,
                                                      .count = (uint16_t)(end - first)};
    }
    groups->runs = runs;
    return SUCCESS;
}

/* Of rules that are sorted. */
static struct result group_rules(struct index_draft *draft, const struct numbered_rule *rules, size_t count,
                                 struct rule_groups *groups_out, struct error *err)
{
    struct rule_group *groups = arena_take(draft->index.arena, (count + 1) * sizeof *groups);
    uint16_t *indices = arena_take(draft->index.arena, (count + 1) * sizeof *indices);
    size_t found = 0;

    if (groups == NULL || indices == NULL) return policy_no_memory(err);
    for (size_t i = 0; i < count; i++) {
        indices[i] = rules[i].rule;
        if (found == 0 || !belongs_to(&groups[found - 1], &rules[i]))
            groups[found++] = (struct rule_group){.effect = rules[i].effect,
                                                  .when = rules[i].when,
                                                  .condition = rules[i].condition,
                                                  .first = (uint16_t)i,
                                                  .is_of_label = rules[i].is_of_label};
        groups[found - 1].count++;
    }
    *groups_out = (struct rule_groups){.groups = groups, .rules = indices};
    return find_runs(draft, groups_out, found, err);
}

static struct result group_operation(struct index_draft *draft, const struct policy_document *document,
                                     const struct numbered_rule *rules, unsigned operation, struct rule_groups *groups_out,
                                     struct error *err)
{
    struct numbered_rule chosen[POLICY_LIST_MAX];
    size_t count = 0;

    assert(document->rule_count <= POLICY_LIST_MAX); /* the shapes have checked it */
    for (size_t i = 0; i < document->rule_count; i++)
        if ((document->rules[i].operations >> operation & 1) != 0) chosen[count++] = rules[i];
    qsort(chosen, count, sizeof *chosen, compare_rules);
    return group_rules(draft, chosen, count, groups_out, err);
}

static struct result group_all(struct index_draft *draft, struct error *err)
{
    const struct numbered_rule *rules = draft->rules;

    draft->index.documents = arena_take(draft->index.arena, (draft->document_count + 1) * sizeof *draft->index.documents);
    if (draft->index.documents == NULL) return policy_no_memory(err);
    for (size_t i = 0; i < draft->document_count; i++) {
        for (unsigned operation = 0; operation < OP_COUNT; operation++)
            TRY(group_operation(draft, draft->documents[i], rules, operation, &draft->index.documents[i][operation], err));
        rules += draft->documents[i]->rule_count;
    }
    return SUCCESS;
}

static struct result fill(struct index_draft *draft, struct error *err)
{
    const size_t room = draft->rule_count + 1;

    draft->rules = arena_take(draft->texts, room * sizeof *draft->rules);
    draft->whens = arena_take(draft->texts, room * sizeof *draft->whens);
    draft->conditions = arena_take(draft->texts, room * sizeof *draft->conditions);
    if (draft->rules == NULL || draft->whens == NULL || draft->conditions == NULL) return policy_no_memory(err);
    TRY(read_rules(draft, err));
    return group_all(draft, err);
}

struct result rule_index_new(struct policy_document *const *documents, size_t count, struct rule_index **index_out,
                             struct error *err)
{
    OWNED(arena) *texts = NULL, *arena = NULL;

    TRY(arena_new(POLICY_ARENA_MAX, &texts, err));
    TRY(arena_new(POLICY_ARENA_MAX, &arena, err));
    struct index_draft draft = {.texts = texts, .index = {.arena = arena}, .documents = documents, .document_count = count};
    for (size_t i = 0; i < count; i++) draft.rule_count += documents[i]->rule_count;
    TRY(fill(&draft, err));
    struct rule_index *index = arena_take(arena, sizeof *index);
    if (index == NULL) return policy_no_memory(err);
    *index = draft.index;
    index->serial = known_truths_serial();
    (void)GIVE(arena); /* the index owns its arena and lies in it */
    *index_out = index;
    return SUCCESS;
}

void rule_index_free(struct rule_index *index)
{
    if (index != NULL) arena_free(index->arena);
}
