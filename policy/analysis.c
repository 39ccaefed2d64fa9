/* What one or two sets mention: the texts of their tests, their exceptions, and the moments at which something begins or ends. */
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "policy/analysis_priv.h"

static void *grown(struct analysis *analysis, const void *old, size_t count, size_t room, size_t size)
{
    void *items = arena_take(analysis->arena, room * size);

    if (items == NULL) analysis->is_lost = true;
    else if (count > 0) memcpy(items, old, count * size);
    return items;
}

bool analysis_spend(struct analysis *analysis, uint64_t steps)
{
    analysis->steps = analysis->steps > steps ? analysis->steps - steps : 0;
    if (analysis->steps == 0 && analysis->doubt == NULL) analysis->doubt = "the analysis came to its maximum of steps";
    return analysis->steps > 0 && !analysis->is_lost;
}

bool text_set_has(const struct text_set *set, const char *text)
{
    for (size_t i = 0; i < set->count; i++)
        if (strcmp(set->texts[i], text) == 0) return true;
    return false;
}

void text_set_add(struct analysis *analysis, struct text_set *set, const char *text)
{
    if (!analysis_spend(analysis, set->count + 1) || text_set_has(set, text)) return;
    if (set->count == set->room) {
        const size_t room = set->room == 0 ? 16 : 2 * set->room;
        const char **texts = grown(analysis, set->texts, set->count, room, sizeof *texts);
        if (texts == NULL) return;
        set->texts = texts;
        set->room = room;
    }
    set->texts[set->count++] = text;
}

static void add_texts(struct analysis *analysis, struct text_set *set, const struct text_list *list)
{
    for (size_t i = 0; i < list->count; i++) text_set_add(analysis, set, list->texts[i]);
}

static void add_groups(struct analysis *analysis, const struct policy_groups *groups)
{
    for (size_t i = 0; i < groups->count; i++) {
        const struct policy_group *group = &groups->groups[i];
        add_texts(analysis, group->kind == GROUP_GEO ? &analysis->places : &analysis->facts[FACT_REGIMES], &group->members);
    }
}

static void add_predicate(struct analysis *analysis, const struct predicate *predicate)
{
    const unsigned fact = (unsigned)predicate->kind - TEST_OF_FACT;

    if (fact < FACT_COUNT) add_texts(analysis, &analysis->facts[fact], &predicate->texts);
    else if ((unsigned)predicate->kind == TEST_GEO_WITHIN) add_texts(analysis, &analysis->places, &predicate->texts);
    else if ((unsigned)predicate->kind == TEST_KEY_GEO) add_texts(analysis, &analysis->key_places, &predicate->texts);
    else if ((unsigned)predicate->kind == TEST_OPERATOR) add_texts(analysis, &analysis->controllers, &predicate->texts);
}

static void add_rule(struct analysis *analysis, const struct rule *rule)
{
    add_texts(analysis, &analysis->regimes_of_labels, &rule->when.attached_any);
    for (size_t i = 0; i < rule->alternative_count; i++)
        for (size_t j = 0; j < rule->alternatives[i].count; j++) add_predicate(analysis, &rule->alternatives[i].predicates[j]);
}

static void add_document(struct analysis *analysis, const struct policy_document *policy)
{
    text_set_add(analysis, &analysis->pins, policy->id);
    add_texts(analysis, &analysis->regimes_of_labels, &policy->applies_to.attached_any);
    for (size_t i = 0; i < policy->rule_count; i++) add_rule(analysis, &policy->rules[i]);
}

static void add_exception(struct analysis *analysis, const struct policy_exception *exception)
{
    text_set_add(analysis, &analysis->projects, json_text_of(exception->json, "project"));
    add_texts(analysis, &analysis->targets, &exception->targets);
    add_texts(analysis, &analysis->digests, &exception->digests);
}

/* --- places --- */

/* A country, or an emirate, that nothing mentions: "ZZ", "ZY", ... behind `country`, which is "" or "AE/". */
static void add_another(struct analysis *analysis, struct text_set *places, const char *country)
{
    for (int i = 0; i < 26 * 26; i++) {
        char text[8];
        (void)snprintf(text, sizeof text, "%.3s%c%c", country, 'Z' - i / 26, 'Z' - i % 26);
        if (text_set_has(places, text)) continue;
        const char *copy = arena_copy_text(analysis->arena, bytes_of_text(text));
        if (copy == NULL) analysis->is_lost = true;
        else text_set_add(analysis, places, copy);
        return;
    }
}

/* Beside each place the country that it is in, and a part of that country that nothing mentions; and another country. */
static void complete_places(struct analysis *analysis, struct text_set *places)
{
    const size_t mentioned = places->count;

    for (size_t i = 0; i < mentioned; i++) {
        const char *country = arena_format(analysis->arena, "%.2s", places->texts[i]);
        const char *inside = arena_format(analysis->arena, "%.2s/", places->texts[i]);
        if (country == NULL || inside == NULL) {
            analysis->is_lost = true;
            return;
        }
        text_set_add(analysis, places, country);
        bool has_another = false;
        for (size_t j = 0; j < i && !has_another; j++) has_another = strncmp(places->texts[j], country, 2) == 0;
        if (!has_another) add_another(analysis, places, inside);
    }
    add_another(analysis, places, "");
}

/* --- facts that are one text --- */

static const struct shape *member_of(const struct shape *object, const char *name)
{
    const struct shape_member *member = object->members;

    while (strcmp(member->name, name) != 0) member++; /* the shapes have each fact */
    return member->shape;
}

/* All words that the fact may be, or else a text that nothing mentions. */
static void complete_words(struct analysis *analysis, const struct shape *shape, struct text_set *set)
{
    const char *another = "another";

    for (size_t i = 0; shape->words != NULL && shape->words[i] != NULL; i++) text_set_add(analysis, set, shape->words[i]);
    if (shape->words != NULL) return;
    while (another != NULL && text_set_has(set, another)) another = arena_format(analysis->arena, "%s-x", another);
    if (another == NULL) analysis->is_lost = true;
    else text_set_add(analysis, set, another);
}

static void complete_facts(struct analysis *analysis)
{
    for (unsigned fact = 0; fact < FACT_COUNT; fact++)
        if (fact_comparisons[fact] == IS_ONE_OF)
            complete_words(analysis, member_of(&shape_target, fact_names[fact]), &analysis->facts[fact]);
    complete_words(analysis, member_of(member_of(&shape_target, "key"), "control"), &analysis->key_controls);
}

/* --- moments --- */

#define ROUNDED(us) (((us) + 999) / 1000 * 1000) /* up to the millisecond, in which decisions are made */

static void add_moment(struct analysis *analysis, int64_t exact_us)
{
    const int64_t us = ROUNDED(exact_us);

    if (us <= analysis->moments[0]) return;
    if (analysis->moment_count == ANALYSIS_MOMENTS_MAX) {
        analysis->doubt = "the sets have too many moments at which something begins or ends";
        return;
    }
    for (size_t i = 0; i < analysis->moment_count; i++)
        if (analysis->moments[i] == us) return;
    analysis->moments[analysis->moment_count++] = us;
}

static int compare_moments(const void *a, const void *b)
{
    const int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;

    return (left > right) - (left < right);
}

static void find_moments(struct analysis *analysis, int64_t now_us)
{
    analysis->moments = arena_take(analysis->arena, ANALYSIS_MOMENTS_MAX * sizeof *analysis->moments);
    if (analysis->moments == NULL) {
        analysis->is_lost = true;
        return;
    }
    analysis->moments[analysis->moment_count++] = ROUNDED(now_us);
    for (size_t s = 0; s < analysis->set_count; s++) {
        const struct policy_set *set = analysis->sets[s];
        for (size_t i = 0; i < set->documents->count; i++) add_moment(analysis, set->documents->documents[i]->effective_from_us);
        for (size_t i = 0; i < set->exception_count; i++) {
            add_moment(analysis, set->exceptions[i]->not_before_us);
            add_moment(analysis, set->exceptions[i]->not_after_us);
        }
    }
    qsort(analysis->moments, analysis->moment_count, sizeof *analysis->moments, compare_moments);
}

static void collect(struct analysis *analysis, const struct policy_set *set)
{
    add_groups(analysis, set->groups);
    for (size_t i = 0; i < set->documents->count; i++) add_document(analysis, set->documents->documents[i]);
    for (size_t i = 0; i < set->exception_count; i++) add_exception(analysis, set->exceptions[i]);
}

struct result analysis_prepare(struct analysis *analysis, int64_t now_us, struct error *err)
{
    TRY(arena_new(ANALYSIS_BYTES_MAX, &analysis->arena, err));
    for (size_t s = 0; s < analysis->set_count; s++) collect(analysis, analysis->sets[s]);
    complete_facts(analysis);
    complete_places(analysis, &analysis->places);
    complete_places(analysis, &analysis->key_places);
    complete_places(analysis, &analysis->controllers);
    find_moments(analysis, now_us);
    analysis_find_operations(analysis);
    if (!analysis->is_lost) analysis_find_names(analysis);
    if (analysis->is_lost) return failure(err, ERROR_NO_MEMORY, "no memory for an analysis");
    return SUCCESS;
}

void analysis_done(struct analysis *analysis)
{
    arena_free(analysis->arena);
    analysis->arena = NULL;
}
