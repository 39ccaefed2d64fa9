/* Three-valued tests of facts. "All of" is false if any is false, else unknown if any is unknown. "Any of" is true if any is
 * true, else unknown if any is unknown. */
#include <assert.h>
#include <string.h>

#include "policy/compiled_priv.h"
#include "policy/evaluate.h"
#include "policy/places.h"

static const char *const predicate_facts[TEST_COUNT] = {
    [TEST_GEO_WITHIN] = "geo",    [TEST_GEO_IN_GROUP] = "geo", [TEST_REGIME_IN_GROUP] = "regimes",
    [TEST_OPERATOR] = "operator", [TEST_KEY_GEO] = "key.geo",  [TEST_KEY_CONTROL] = "key.control",
#define FACT(constant, fact, ...) [TEST_OF_FACT + FACT_##constant] = fact,
#include "policy/facts.def"
#undef FACT
};

const enum comparison fact_comparisons[FACT_COUNT] = {
#define FACT(constant, fact, fact_form, test, test_form, comparison) [FACT_##constant] = comparison,
#include "policy/facts.def"
#undef FACT
};

const char *const fact_names[FACT_COUNT] = {
#define FACT(constant, fact, ...) [FACT_##constant] = fact,
#include "policy/facts.def"
#undef FACT
};

static enum truth truth_of(bool is_true)
{
    return is_true ? TRUTH_TRUE : TRUTH_FALSE;
}

static bool contains(const struct text_list *list, const char *text)
{
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->texts[i], text) == 0) return true;
    return false;
}

/* If a root is more precise than the known place, the result is unknown. */
static enum truth geo_within(const char *place, const struct text_list *roots)
{
    if (place == NULL) return TRUTH_UNKNOWN;
    for (size_t i = 0; i < roots->count; i++)
        if (place_is_within(place, roots->texts[i])) return TRUTH_TRUE;
    for (size_t i = 0; i < roots->count; i++)
        if (place_is_within(roots->texts[i], place)) return TRUTH_UNKNOWN;
    return TRUTH_FALSE;
}

/* True if no controller is within the roots; unknown if no controller is stated. */
static enum truth free_of_control(const struct text_list *controllers, const struct text_list *roots)
{
    enum truth worst = controllers->count == 0 ? TRUTH_UNKNOWN : TRUTH_TRUE;

    for (size_t i = 0; i < controllers->count; i++) {
        const enum truth inside = geo_within(controllers->texts[i], roots);
        if (inside == TRUTH_TRUE) return TRUTH_FALSE;
        if (inside == TRUTH_UNKNOWN) worst = TRUTH_UNKNOWN;
    }
    return worst;
}

static enum truth shares(const struct text_list *have, const struct text_list *wanted)
{
    for (size_t i = 0; i < have->count; i++)
        if (contains(wanted, have->texts[i])) return TRUTH_TRUE;
    return TRUTH_FALSE;
}

static enum truth has_all(const struct text_list *have, const struct text_list *wanted)
{
    for (size_t i = 0; i < wanted->count; i++)
        if (!contains(have, wanted->texts[i])) return TRUTH_FALSE;
    return TRUTH_TRUE;
}

static enum truth compare_fact(enum comparison comparison, const struct fact *fact, const struct text_list *wanted,
                               int64_t number)
{
    if (!fact->is_known) return TRUTH_UNKNOWN;
    switch (comparison) {
    case IS_ONE_OF: return truth_of(contains(wanted, fact->text));
    case HAS_ALL: return has_all(&fact->texts, wanted);
    case HAS_ANY: return shares(&fact->texts, wanted);
    case IS_AT_LEAST: return truth_of(fact->number >= number);
    default: abort(); /* a row of facts.def names one of these */
    }
}

static int compare_group(const void *key, const void *group)
{
    const struct policy_group *member = group;
    const char *const name = key;

    return strcmp(name, member->name);
}

/* NULL if there is no such group, or it has another kind; then its members are unknown. */
static const struct policy_group *group_of(const struct policy_groups *groups, const char *name, enum group_kind kind)
{
    const struct policy_group *found = bsearch(name, groups->groups, groups->count, sizeof *groups->groups, compare_group);
    return found == NULL || found->kind != kind ? NULL : found;
}

static enum truth in_group(const struct policy_group *group, const struct policy_target *target)
{
    if (group == NULL) return TRUTH_UNKNOWN;
    if (group->kind == GROUP_GEO) return geo_within(target->geo, &group->members);
    return compare_fact(HAS_ANY, &target->facts[FACT_REGIMES], &group->members, 0);
}

static enum group_kind kind_of(const struct predicate *predicate)
{
    return predicate->kind == TEST_GEO_IN_GROUP ? GROUP_GEO : GROUP_REGIME;
}

static enum truth in_groups(const struct predicate *predicate, const struct policy_target *target,
                            const struct policy_groups *groups)
{
    enum truth best = TRUTH_FALSE;

    for (size_t i = 0; i < predicate->texts.count && best != TRUTH_TRUE; i++) {
        const enum truth found = in_group(group_of(groups, predicate->texts.texts[i], kind_of(predicate)), target);
        if (found > best) best = found;
    }
    return best;
}

static enum truth predicate_holds(const struct predicate *predicate, const struct policy_target *target,
                                  const struct policy_groups *groups)
{
    const struct text_list *wanted = &predicate->texts;
    const unsigned fact = (unsigned)predicate->kind - TEST_OF_FACT;

    if (fact < FACT_COUNT) return compare_fact(fact_comparisons[fact], &target->facts[fact], wanted, predicate->number);
    switch ((unsigned)predicate->kind) {
    case TEST_GEO_WITHIN: return geo_within(target->geo, wanted);
    case TEST_GEO_IN_GROUP:
    case TEST_REGIME_IN_GROUP: return in_groups(predicate, target, groups);
    case TEST_OPERATOR: return free_of_control(&target->controllers, wanted);
    case TEST_KEY_GEO: return geo_within(target->key_geo, wanted);
    case TEST_KEY_CONTROL: return target->key_control == NULL ? TRUTH_UNKNOWN : truth_of(contains(wanted, target->key_control));
    default: break;
    }
    abort(); /* a compiled predicate always has a known kind */
}

enum truth target_meets(const struct target_test *test, const struct policy_target *target, const struct policy_groups *groups)
{
    enum truth worst = TRUTH_TRUE;

    for (size_t i = 0; i < test->count && worst != TRUTH_FALSE; i++) {
        const enum truth found = predicate_holds(&test->predicates[i], target, groups);
        if (found < worst) worst = found;
    }
    return worst;
}

/* Names each unknown group if `truth` comes from unknown groups, else the fact. */
static size_t group_names(const struct predicate *predicate, const struct policy_target *target,
                          const struct policy_groups *groups, const char **names, size_t count)
{
    const enum truth truth = in_groups(predicate, target, groups);

    for (size_t i = 0; i < predicate->texts.count; i++) {
        const struct policy_group *group = group_of(groups, predicate->texts.texts[i], kind_of(predicate));
        if (in_group(group, target) != truth) continue;
        names[count++] = group == NULL ? predicate->group_facts.texts[i] : predicate_facts[predicate->kind];
    }
    return count;
}

size_t target_names(const struct target_test *test, const struct target_question *question, const char **names, size_t count)
{
    for (size_t i = 0; i < test->count; i++) {
        const struct predicate *predicate = &test->predicates[i];
        if (predicate_holds(predicate, question->target, question->groups) != question->truth) continue;
        if (predicate->group_facts.count > 0) count = group_names(predicate, question->target, question->groups, names, count);
        else names[count++] = predicate_facts[predicate->kind];
    }
    return count;
}

static bool shares_regime(const struct text_list *wanted, const struct label *label)
{
    for (size_t i = 0; i < label->regime_count; i++)
        if (contains(wanted, label->regimes[i])) return true;
    return false;
}

/* Bits of the conditions that do not hold, in the order of label_facts. */
enum { LACKS_ATTACHED = 1, LACKS_CLASS = 2, LACKS_LINEAGE = 4, LACKS_SUBJECTS = 8 };
static const char *const label_facts[] = {"label.attached", "label.class", "label.lineage", "label.subjects"};

static unsigned label_lacks(const struct label_test *test, const struct label *label)
{
    unsigned lacks = 0;

    if (test->attached_any.count > 0 && !shares_regime(&test->attached_any, label)) lacks |= LACKS_ATTACHED;
    if (test->class_at_least >= 0 && (int)label->class < test->class_at_least) lacks |= LACKS_CLASS;
    if (test->class_at_most >= 0 && (int)label->class > test->class_at_most) lacks |= LACKS_CLASS;
    if (test->lineage_at_least >= 0 && (int)label->lineage < test->lineage_at_least) lacks |= LACKS_LINEAGE;
    if (test->subjects_any != 0 && (label->subjects & test->subjects_any) == 0) lacks |= LACKS_SUBJECTS;
    if ((label->subjects & test->subjects_none) != 0) lacks |= LACKS_SUBJECTS;
    return lacks;
}

bool label_meets(const struct label_test *test, const struct label *label)
{
    return label_lacks(test, label) == 0;
}

size_t label_names(const struct label_test *test, const struct label *label, const char **names, size_t count)
{
    const unsigned lacks = label_lacks(test, label);

    for (unsigned i = 0; i < 4; i++)
        if ((lacks >> i & 1) != 0) names[count++] = label_facts[i];
    return count;
}

bool scope_cut(const char *scope, struct bytes segments_out[SCOPE_SEGMENTS_MAX], size_t *count_out)
{
    const size_t length = strlen(scope);
    size_t count = 0, start = 0;

    if (length > POLICY_SCOPE_MAX) return false;
    for (size_t i = 0; i <= length; i++) {
        if (i < length && scope[i] != '/') continue;
        segments_out[count++] = (struct bytes){(const uint8_t *)scope + start, i - start};
        start = i + 1;
    }
    *count_out = count;
    return true;
}

static bool is_word(struct bytes segment, const char *word)
{
    return bytes_equal(segment, bytes_of_text(word));
}

static bool segment_matches(struct bytes want, struct bytes have)
{
    return bytes_equal(want, have) || (is_word(want, "*") && !is_word(have, "**"));
}

/* Backtracks only to the last "**": an earlier one never needs another match. So the time is bounded. */
static bool pattern_matches(const struct scope_pattern *pattern, const struct bytes *segments, size_t count)
{
    size_t at = 0, wanted = 0, resume_at = 0, resume_wanted = SIZE_MAX;

    while (at < count) {
        if (wanted < pattern->count && is_word(pattern->segments[wanted], "**")) {
            resume_wanted = ++wanted;
            resume_at = at;
        } else if (wanted < pattern->count && segment_matches(pattern->segments[wanted], segments[at])) {
            wanted++;
            at++;
        } else if (resume_wanted != SIZE_MAX) {
            wanted = resume_wanted;
            at = ++resume_at;
        } else {
            return false;
        }
    }
    while (wanted < pattern->count && is_word(pattern->segments[wanted], "**")) wanted++;
    return wanted == pattern->count;
}

bool scope_matches(const struct scope_list *scopes, const struct bytes *segments, size_t count)
{
    for (size_t i = 0; i < scopes->count; i++)
        if (pattern_matches(&scopes->patterns[i], segments, count)) return true;
    return false;
}
