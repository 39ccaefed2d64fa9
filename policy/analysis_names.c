/*
 * The kinds of names that the scope patterns of the sets tell apart, with one name of each kind. All patterns are walked at once, segment by
 * segment: a state is the set of the places where the patterns may stand, and a name of each state that can be reached is looked at.
 */
#include <string.h>

#include "base/text.h"
#include "policy/analysis_priv.h"

#define DEPTH_SHOWN 3 /* names of repositories have at least three segments, so such a name is preferred */

struct pattern_state {
    const uint8_t *bits; /* the first byte is the depth, up to DEPTH_SHOWN */
    const char *name;    /* "" at the start */
    unsigned depth;
};

struct walk {
    struct analysis *analysis;
    struct text_set texts; /* segments that patterns name */
    size_t pattern_count, bit_count;
    const struct scope_pattern **patterns;
    size_t state_count;
    struct pattern_state *states;
    size_t *hashed; /* of 2 * ANALYSIS_STATES_MAX: a state's number + 1 */
};

#define STATE_BYTES(walk) (1 + ((walk)->bit_count + 7) / 8)

static void *take(struct analysis *analysis, size_t size)
{
    void *taken = arena_take(analysis->arena, size);

    if (taken == NULL) analysis->is_lost = true;
    return taken;
}

/* --- patterns --- */

static bool is_wild(struct bytes segment)
{
    return segment.data[0] == '*'; /* the shapes allow "*" and "**" alone */
}

static bool is_many(struct bytes segment)
{
    return is_wild(segment) && segment.length == 2;
}

static void add_pattern(struct walk *walk, const struct scope_pattern *pattern)
{
    walk->patterns[walk->pattern_count++] = pattern;
    walk->bit_count += pattern->count + 1;
    for (size_t i = 0; i < pattern->count; i++) {
        if (is_wild(pattern->segments[i])) continue;
        const char *text = arena_copy_text(walk->analysis->arena, pattern->segments[i]);
        if (text == NULL) walk->analysis->is_lost = true;
        else text_set_add(walk->analysis, &walk->texts, text);
    }
}

static size_t count_patterns(const struct policy_set *set)
{
    size_t count = 0;

    for (size_t i = 0; i < set->documents->count; i++) count += set->documents->documents[i]->scopes.count;
    for (size_t i = 0; i < set->declassified_count; i++) count += set->declassified[i].scopes.count;
    return count;
}

static void add_scopes(struct walk *walk, const struct scope_list *scopes)
{
    for (size_t i = 0; i < scopes->count; i++) add_pattern(walk, &scopes->patterns[i]);
}

static void add_patterns(struct walk *walk)
{
    const struct analysis *analysis = walk->analysis;
    size_t count = 1;

    for (size_t s = 0; s < analysis->set_count; s++) count += count_patterns(analysis->sets[s]);
    walk->patterns = take(walk->analysis, count * sizeof *walk->patterns);
    if (walk->patterns == NULL) return;
    for (size_t s = 0; s < analysis->set_count; s++) {
        const struct policy_set *set = analysis->sets[s];
        for (size_t i = 0; i < set->documents->count; i++) add_scopes(walk, &set->documents->documents[i]->scopes);
        for (size_t i = 0; i < set->declassified_count; i++) add_scopes(walk, &set->declassified[i].scopes);
    }
}

/* --- states --- */

static void put(uint8_t *bits, size_t bit)
{
    bits[1 + bit / 8] |= (uint8_t)(1U << bit % 8);
}

static bool has(const uint8_t *bits, size_t bit)
{
    return (bits[1 + bit / 8] >> bit % 8 & 1) != 0;
}

/* Where a pattern stands before "**", it may also stand behind it. */
static void put_closed(uint8_t *bits, const struct scope_pattern *pattern, size_t first, size_t at)
{
    put(bits, first + at);
    while (at < pattern->count && is_many(pattern->segments[at])) put(bits, first + ++at);
}

/* The state after one more segment. */
static void step(const struct walk *walk, const uint8_t *from, struct bytes segment, uint8_t *to)
{
    size_t first = 0;

    memset(to, 0, STATE_BYTES(walk));
    to[0] = (uint8_t)(from[0] < DEPTH_SHOWN ? from[0] + 1 : DEPTH_SHOWN);
    for (size_t p = 0; p < walk->pattern_count; p++) {
        const struct scope_pattern *pattern = walk->patterns[p];
        for (size_t at = 0; at < pattern->count; at++) {
            if (!has(from, first + at)) continue;
            const struct bytes wanted = pattern->segments[at];
            if (is_many(wanted)) put_closed(to, pattern, first, at);
            else if (is_wild(wanted) || bytes_equal(wanted, segment)) put_closed(to, pattern, first, at + 1);
        }
        first += pattern->count + 1;
    }
}

/* The place of a state in the table, which holds 0 if the state is new. */
static size_t *find_state(const struct walk *walk, const uint8_t *bits)
{
    const size_t size = STATE_BYTES(walk), room = 2 * (size_t)ANALYSIS_STATES_MAX;
    uint64_t hash = 14695981039346656037U; /* FNV-1a */

    for (size_t i = 0; i < size; i++) hash = (hash ^ bits[i]) * 1099511628211U;
    size_t at = (size_t)(hash ^ hash >> 32) & (room - 1);
    while (walk->hashed[at] != 0 && memcmp(walk->states[walk->hashed[at] - 1].bits, bits, size) != 0) at = (at + 1) & (room - 1);
    return &walk->hashed[at];
}

static void add_state(struct walk *walk, const uint8_t *bits, const struct pattern_state *from, const char *segment)
{
    struct analysis *analysis = walk->analysis;
    size_t *place = find_state(walk, bits);

    if (*place != 0) return;
    if (walk->state_count == ANALYSIS_STATES_MAX) {
        analysis->doubt = "the patterns of the scopes are too many to tell all names apart";
        return;
    }
    uint8_t *copy = take(analysis, STATE_BYTES(walk));
    const char *name = from == NULL       ? ""
                       : from->depth == 0 ? segment
                                          : arena_format(analysis->arena, "%s/%s", from->name, segment);
    if (copy == NULL || name == NULL) {
        analysis->is_lost = true;
        return;
    }
    if (strlen(name) > POLICY_SCOPE_MAX) { /* a shorter name of the same kind may exist */
        analysis->doubt = "the patterns of the scopes have names that are too long to look at";
        return;
    }
    memcpy(copy, bits, STATE_BYTES(walk));
    walk->states[walk->state_count++] = (struct pattern_state){copy, name, from == NULL ? 0 : from->depth + 1};
    *place = walk->state_count;
}

/* A segment that no pattern names. */
static const char *another_segment(struct walk *walk, unsigned depth)
{
    static const char *const words[] = {"organisation", "project", "name"};
    const char *word = words[depth < 3 ? depth : 2];

    while (word != NULL && text_set_has(&walk->texts, word)) word = arena_format(walk->analysis->arena, "%s-x", word);
    if (word == NULL) walk->analysis->is_lost = true;
    return word;
}

static void follow(struct walk *walk, size_t number, uint8_t *next)
{
    const struct pattern_state from = walk->states[number];
    const char *other = another_segment(walk, from.depth);

    for (size_t i = 0; i <= walk->texts.count && other != NULL; i++) {
        const char *segment = i == 0 ? other : walk->texts.texts[i - 1];
        if (!analysis_spend(walk->analysis, walk->bit_count / 16 + 1)) return;
        step(walk, from.bits, bytes_of_text(segment), next);
        add_state(walk, next, &from, segment);
    }
}

/* --- kinds of names --- */

static bool *scopes_of(struct analysis *analysis, const struct policy_set *set, const char *name)
{
    struct bytes segments[SCOPE_SEGMENTS_MAX];
    size_t count = 0;
    bool *in_scope = take(analysis, (set->documents->count + set->declassified_count + 1) * sizeof *in_scope);

    if (in_scope == NULL || !scope_cut(name, segments, &count)) return in_scope;
    for (size_t i = 0; i < set->documents->count; i++)
        in_scope[i] = scope_matches(&set->documents->documents[i]->scopes, segments, count);
    for (size_t i = 0; i < set->declassified_count; i++)
        in_scope[set->documents->count + i] = scope_matches(&set->declassified[i].scopes, segments, count);
    return in_scope;
}

static bool is_same_kind(const struct analysis *analysis, const struct name_class *a, const struct name_class *b)
{
    for (size_t s = 0; s < analysis->set_count; s++) {
        const size_t count = analysis->sets[s]->documents->count + analysis->sets[s]->declassified_count;
        if (memcmp(a->in_scope[s], b->in_scope[s], count * sizeof(bool)) != 0) return false;
    }
    return true;
}

static void add_name(struct analysis *analysis, const struct pattern_state *state)
{
    struct name_class made = {.name = state->name, .depth = state->depth};

    for (size_t s = 0; s < analysis->set_count; s++) {
        made.in_scope[s] = scopes_of(analysis, analysis->sets[s], state->name);
        if (made.in_scope[s] == NULL) return;
    }
    for (size_t i = 0; i < analysis->name_count; i++) {
        if (!is_same_kind(analysis, &analysis->names[i], &made)) continue;
        if (analysis->names[i].depth < DEPTH_SHOWN && made.depth > analysis->names[i].depth) analysis->names[i] = made;
        return;
    }
    if (analysis->name_count == ANALYSIS_NAMES_MAX) analysis->doubt = "the scopes tell too many kinds of names apart";
    else analysis->names[analysis->name_count++] = made;
}

static bool begin(struct walk *walk)
{
    struct analysis *analysis = walk->analysis;
    size_t first = 0;

    add_patterns(walk);
    walk->states = take(analysis, ANALYSIS_STATES_MAX * sizeof *walk->states);
    walk->hashed = take(analysis, 2 * (size_t)ANALYSIS_STATES_MAX * sizeof *walk->hashed);
    analysis->names = take(analysis, ANALYSIS_NAMES_MAX * sizeof *analysis->names);
    uint8_t *start = take(analysis, STATE_BYTES(walk));
    if (analysis->is_lost) return false;
    for (size_t p = 0; p < walk->pattern_count; p++) {
        put_closed(start, walk->patterns[p], first, 0);
        first += walk->patterns[p]->count + 1;
    }
    add_state(walk, start, NULL, NULL);
    return true;
}

void analysis_find_names(struct analysis *analysis)
{
    struct walk walk = {.analysis = analysis};

    if (!begin(&walk)) return;
    uint8_t *next = take(analysis, STATE_BYTES(&walk));
    for (size_t i = 0; next != NULL && i < walk.state_count && !analysis->is_lost && analysis->steps > 0; i++) {
        (void)analysis_spend(analysis, walk.pattern_count + analysis->name_count / 4 + 1);
        if (i > 0) add_name(analysis, &walk.states[i]); /* the first is the empty name, which nothing has */
        follow(&walk, i, next);
    }
}
