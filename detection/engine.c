#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "detection/engine_priv.h"

struct engine {
    struct detection_rules rules;
    struct rule_state *states[DETECTION_RULES_MAX];
    uint8_t hash_key[TABLE_KEY_SIZE];
};

static struct result make_state(const struct detection_rule *rule, struct rule_state **state_out, struct error *err)
{
    const bool has_seen = rule->detector == DETECTOR_PULLS || rule->detector == DETECTOR_BYTES;
    struct rule_state *state = memory_zeroed(1, sizeof *state);

    if (state != NULL && has_seen) state->seen = memory_zeroed(DETECTION_TRACKED_MAX, sizeof *state->seen);
    if (state == NULL || (has_seen && state->seen == NULL)) {
        free(state);
        return failure(err, ERROR_NO_MEMORY, "no memory for detection rules");
    }
    *state_out = state;
    return SUCCESS;
}

struct result engine_new(const struct detection_rules *rules, const uint8_t hash_key[TABLE_KEY_SIZE], struct engine **engine_out,
                         struct error *err)
{
    OWNED(engine) *engine = memory_zeroed(1, sizeof *engine);

    assert(rules->count <= DETECTION_RULES_MAX);
    if (engine == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for detection rules");
    engine->rules = *rules;
    memcpy(engine->hash_key, hash_key, sizeof engine->hash_key);
    for (size_t i = 0; i < rules->count; i++) TRY(make_state(&rules->each[i], &engine->states[i], err));
    *engine_out = GIVE(engine);
    return SUCCESS;
}

void engine_free(struct engine *engine)
{
    if (engine == NULL) return;
    for (size_t i = 0; i < DETECTION_RULES_MAX; i++) {
        if (engine->states[i] != NULL) free(engine->states[i]->seen);
        free(engine->states[i]);
    }
    free(engine);
}

int64_t engine_window_ms(const struct engine *engine)
{
    int64_t longest_s = 0;

    for (size_t i = 0; i < engine->rules.count; i++)
        if (engine->rules.each[i].window_s > longest_s) longest_s = engine->rules.each[i].window_s;
    return longest_s * 1000;
}

static bool has_rule(const struct engine *engine, enum detector detector)
{
    for (size_t i = 0; i < engine->rules.count; i++)
        if (engine->rules.each[i].detector == detector) return true;
    return false;
}

bool engine_wants_place(const struct engine *engine, const struct leaf *leaf)
{
    if (!leaf->has_payload || strlen(leaf->actor) != 64 || strcmp(leaf->outcome, "denied") == 0) return false;
    return has_rule(engine, DETECTOR_COUNTRY) || has_rule(engine, DETECTOR_NETWORK);
}

bool engine_wants_size(const struct engine *engine, const struct leaf *leaf)
{
    /* Manifests count for nothing, and each of their reads would ask the database in vain. */
    return detector_is_pull(leaf) && strcmp(leaf->targets[0].action, "manifest.read") != 0 && has_rule(engine, DETECTOR_BYTES);
}

bool engine_wants_person(const struct engine *engine, const struct leaf *leaf)
{
    return leaf->has_payload && detector_is_dealing(leaf) && has_rule(engine, DETECTOR_SELF_DEALING);
}

bool engine_wants_copies(const struct engine *engine, const struct leaf *leaf)
{
    return detector_is_arrival(leaf) && has_rule(engine, DETECTOR_COPY);
}

bool engine_wants_told(const struct engine *engine, const struct leaf *leaf)
{
    return leaf->facts_count > 0 && detector_is_done(leaf) && has_rule(engine, DETECTOR_NOTIFY);
}

/* ---- what is tracked ---- */

uint64_t key_of_text(const struct feeding *feeding, const char *kind, const char *text)
{
    char both[LEAF_RESOURCE_MAX + 128];

    (void)snprintf(both, sizeof both, "%s\n%s", kind, text);
    const uint64_t key = table_hash(feeding->hash_key, bytes_of_text(both));
    return key == 0 ? 1 : key;
}

/* The whole table is searched: events come at some thousands a second, and a table fits in the cache. */
struct tracked *track(struct feeding *feeding, uint64_t key, bool *is_new_out)
{
    struct tracked *oldest = &feeding->state->tracked[0];

    *is_new_out = false;
    for (size_t i = 0; i < DETECTION_TRACKED_MAX; i++) {
        struct tracked *each = &feeding->state->tracked[i];
        if (each->key == key) {
            each->used_ms = feeding->leaf->time_ms;
            return each;
        }
        if (oldest->key != 0 && (each->key == 0 || each->used_ms < oldest->used_ms)) oldest = each;
    }
    *is_new_out = true;
    if (feeding->state->seen != NULL)
        memset(&feeding->state->seen[oldest - feeding->state->tracked], 0, sizeof *feeding->state->seen);
    *oldest = (struct tracked){.key = key, .used_ms = feeding->leaf->time_ms};
    return oldest;
}

void note_number(struct tracked *tracked, uint64_t number)
{
    if (tracked->event_count == ALARM_EVENTS_MAX) {
        memmove(&tracked->events[0], &tracked->events[1], (ALARM_EVENTS_MAX - 1) * sizeof tracked->events[0]);
        tracked->event_count--;
    }
    tracked->events[tracked->event_count++] = number;
}

static void slide(struct tracked *tracked, int64_t slice)
{
    for (int64_t i = tracked->slice + 1; i <= slice && i <= tracked->slice + SLICES; i++) tracked->counts[i % SLICES] = 0;
    if (slice > tracked->slice + SLICES) tracked->event_count = 0;
    tracked->slice = slice;
}

bool count_event(struct feeding *feeding, const struct counting *counting, uint64_t *count_out)
{
    struct tracked *tracked = counting->tracked;
    const int64_t length_ms = feeding->rule->window_s * 1000 / SLICES, time_ms = feeding->leaf->time_ms;
    uint64_t count = 0;

    slide(tracked, time_ms / (length_ms > 0 ? length_ms : 1));
    tracked->counts[tracked->slice % SLICES] += counting->amount;
    note_number(tracked, feeding->leaf->sequence);
    for (size_t i = 0; i < SLICES; i++) count += tracked->counts[i];
    *count_out = count;
    if (count < counting->threshold || time_ms < tracked->muted_ms) return false;
    tracked->muted_ms = time_ms + feeding->rule->window_s * 1000;
    memset(tracked->counts, 0, sizeof tracked->counts);
    return true;
}

/* ---- events ---- */

static uint64_t key_of_copy(const struct feeding *feeding, const char *text)
{
    const char *copy = strstr(text, " stricter=");
    char places[LAXER_COPY_SIZE];

    (void)snprintf(places, sizeof places, "%s", copy == NULL ? "" : copy + 1);
    return key_of_text(feeding, "copy", places);
}

/* "... actor=A count=1 told=dpo events=7": the actor, and what the alarm is about. */
static uint64_t key_of_about(const struct feeding *feeding, const char *actor, const char *text)
{
    const char *count = strstr(text, " count="), *about = count == NULL ? NULL : strchr(count + 1, ' ');
    char both[65 + ABOUT_SIZE];

    (void)snprintf(both, sizeof both, "%s %.*s", actor, about == NULL ? 0 : (int)strcspn(about + 1, " "),
                   about == NULL ? "" : about + 1);
    return key_of_text(feeding, "about", both);
}

/* "RULE detector=... actor=... ..." of an alarm in the log. False: it is of no rule with a count. */
static bool key_of_alarm(const struct feeding *feeding, const char *text, uint64_t *key_out)
{
    static const char mark[] = " actor=";
    const char *actor = strstr(text, mark);
    char name[65];

    if (actor == NULL || strcspn(text, " ") != strlen(feeding->rule->name) ||
        strncmp(text, feeding->rule->name, strlen(feeding->rule->name)) != 0)
        return false;
    actor += sizeof mark - 1;
    (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(actor, " "), actor);
    const enum detector detector = feeding->rule->detector;
    if (detector == DETECTOR_DENIALS || detector == DETECTOR_PULLS || detector == DETECTOR_BYTES)
        *key_out = key_of_text(feeding, "actor", name);
    else if (detector == DETECTOR_GAP) *key_out = key_of_text(feeding, "log", "");
    else if (detector == DETECTOR_CLOCK) *key_out = key_of_text(feeding, "clock", "");
    else if (detector == DETECTOR_COPY) *key_out = key_of_copy(feeding, text);
    else if (detector == DETECTOR_EXCEPTION || detector == DETECTOR_NOTIFY) *key_out = key_of_about(feeding, name, text);
    else return false;
    return true;
}

/* An alarm that stands in the log: after a start it says for how long its cause makes no other one. */
static void heed(struct engine *engine, const struct leaf *leaf)
{
    const char *resource = leaf->targets[0].resource;

    for (size_t i = 0; i < engine->rules.count; i++) {
        struct feeding feeding = {&engine->rules.each[i], engine->states[i], leaf, NULL, engine->hash_key};
        uint64_t key = 0;
        bool is_new = false;
        if (!key_of_alarm(&feeding, resource + strspn(resource, "#"), &key)) continue;
        struct tracked *tracked = track(&feeding, key, &is_new);
        memset(tracked->counts, 0, sizeof tracked->counts);
        tracked->event_count = 0;
        tracked->muted_ms = leaf->time_ms + feeding.rule->window_s * 1000;
    }
}

struct result engine_feed(struct engine *engine, const struct leaf *leaf, const struct event_known *known, alarm_visitor *visit,
                          void *context, struct error *err)
{
    if (strcmp(leaf->targets[0].action, "alarm.raise") == 0) heed(engine, leaf);
    for (size_t i = 0; i < engine->rules.count; i++) {
        const struct detection_rule *rule = &engine->rules.each[i];
        struct feeding feeding = {rule, engine->states[i], leaf, known, engine->hash_key};
        struct alarm alarm = {.rule = rule, .time_ms = leaf->time_ms};
        if (detector_functions[rule->detector](&feeding, &alarm)) TRY(visit(context, &alarm, err));
    }
    return SUCCESS;
}
