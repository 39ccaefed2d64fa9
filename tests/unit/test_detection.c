/* Detection rules: a played attack and a harmless look-alike for each detector; state that is made again. */
#include "tests/support/unit.h"

#include <stdio.h>

#include "base/text.h"
#include "detection/detective.h"
#include "detection/event_known_priv.h"
#include "detection/rules.h"
#include "tests/unit/detection_attacks.h"

struct played {
    struct engine *engine;
    uint64_t sequence, number;
    int64_t time_ms;
    unsigned alarms;
    struct alarm last;
};

static struct result note(void *context, const struct alarm *alarm, struct error *err)
{
    struct played *played = context;

    (void)err;
    played->alarms++;
    played->last = *alarm;
    return SUCCESS;
}

static struct leaf leaf_of(struct played *played, const struct events *events, int i)
{
    struct leaf leaf = {.version = 2, .target_count = 1, .has_payload = true, .class_uid = 600302};

    played->time_ms += events->apart_ms;
    played->number += 1 + (uint64_t)events->skip;
    leaf.sequence = played->sequence++;
    leaf.time_ms = played->time_ms;
    leaf.source = (struct leaf_source){"gw-1", 7, played->number};
    const char *mark = strstr(events->resource, "%d");
    if (mark == NULL) (void)snprintf(leaf.targets[0].resource, sizeof leaf.targets[0].resource, "%s", events->resource);
    else
        (void)snprintf(leaf.targets[0].resource, sizeof leaf.targets[0].resource, "%.*s%d", (int)(mark - events->resource),
                       events->resource, i);
    if (strchr(events->actor, '%') == NULL) (void)snprintf(leaf.actor, sizeof leaf.actor, "%s", events->actor);
    else (void)snprintf(leaf.actor, sizeof leaf.actor, "%064d", i);
    (void)snprintf(leaf.targets[0].action, sizeof leaf.targets[0].action, "%s", events->action);
    if ((events->place & USED) != 0) (void)snprintf(leaf.reason.note, sizeof leaf.reason.note, "use %d of visit-1", i + 1);
    (void)snprintf(leaf.outcome, sizeof leaf.outcome, "%s", events->outcome);
    return leaf;
}

static void play(struct played *played, const struct events *events)
{
    struct event_known known = {
        .is_new_network = (events->place & 1) != 0, .is_new_country = (events->place & 2) != 0, .size_bytes = events->size_bytes};
    struct error err = {0};

    if ((events->place & COPIED) != 0) (void)snprintf(known.copy, sizeof known.copy, "%s", COPY);
    if ((events->place & TOLD) != 0) (void)snprintf(known.told, sizeof known.told, "ciso,dpo");
    struct bytes persons = bytes_of_text(events->person == NULL ? "" : events->person);
    while (persons.length > 0) {
        const struct bytes person = text_cut(&persons, ' ');
        memcpy(known.persons[known.person_count++], person.data, person.length);
    }
    for (int i = 0; i < events->times; i++) {
        const struct leaf leaf = leaf_of(played, events, i);
        must(engine_feed(played->engine, &leaf, &known, note, played, &err), &err);
    }
}

static struct engine *engine_of(enum detector detector)
{
    static const uint8_t key[16] = {1};
    const struct detection_rules rules = {.count = 1, .each = {detection_rule_default(detector)}};
    struct engine *engine = NULL;
    struct error err = {0};

    must(engine_new(&rules, key, &engine, &err), &err);
    return engine;
}

/* What a rule wants to know costs a question to the database for each event. */
static void asks_for_no_size_that_does_not_count(void **state)
{
    static const struct {
        const char *action, *outcome;
        bool wants;
    } cases[] = {{"blob.read", "allowed", true},
                 {"run.fetch", "allowed", true},
                 {"blob.read", "denied", false},
                 {"manifest.read", "allowed", false}};
    struct played bytes = {.engine = engine_of(DETECTOR_BYTES), .time_ms = START},
                  pulls = {.engine = engine_of(DETECTOR_PULLS), .time_ms = START};

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        const struct events one = {1, 0, ALICE, cases[i].action, cases[i].outcome, "a/b/c#sha256:1", 0, 0, 0, NULL};
        const struct leaf leaf = leaf_of(&bytes, &one, 0);
        assert_int_equal(engine_wants_size(bytes.engine, &leaf), cases[i].wants);
        assert_false(engine_wants_size(pulls.engine, &leaf));
    }
    engine_free(bytes.engine);
    engine_free(pulls.engine);
}

static void finds_the_attack_and_nothing_else(void **state)
{
    const struct attack *row = *state;
    struct played played = {.engine = engine_of(row->detector), .time_ms = START, .sequence = 100};

    for (size_t i = 0; i < ROW_EVENTS && row->events[i].times > 0; i++) play(&played, &row->events[i]);
    assert_int_equal(played.alarms, row->alarms);
    if (row->alarms > 0) {
        assert_in_range(played.last.event_count, 1, ALARM_EVENTS_MAX);
        assert_in_range(played.last.events[0], 100, played.sequence - 1);
        assert_true(played.last.count >= played.last.event_count || row->detector == DETECTOR_SELF_DEALING);
    }
    engine_free(played.engine);
}

/* After a start the state is made from the window's events and the alarms among them; the cause of an alarm makes no second one. */
static void makes_no_second_alarm_after_a_start(void **state)
{
    const struct events before = {19, 1000, ALICE, "blob.read", "denied", "a/b/c", 0, 0, 0, NULL},
                        more = {15, 1000, ALICE, "blob.read", "denied", "a/b/c", 0, 0, 0, NULL};
    struct played played = {.engine = engine_of(DETECTOR_DENIALS), .time_ms = START, .sequence = 0};
    char text[ALARM_TEXT_SIZE], resource[ALARM_TEXT_SIZE + 1];

    (void)state;
    play(&played, &before);
    play(&played, &more);
    assert_int_equal(played.alarms, 1);
    alarm_text(&played.last, text);
    (void)snprintf(resource, sizeof resource, "#%s", text);
    engine_free(played.engine);
    played = (struct played){.engine = engine_of(DETECTOR_DENIALS), .time_ms = START + 19000, .sequence = 19};
    play(&played, &more); /* the rest of the window, without what made the alarm */
    play(&played, &(struct events){1, 0, "system", "alarm.raise", "allowed", resource, 0, 0, 0, NULL});
    play(&played, &more);
    assert_int_equal(played.alarms, 0);
    engine_free(played.engine);
}

/* After a start, an alarm about two places in the log speaks for the copies that follow, and for no other two places. */
static void makes_no_second_alarm_of_two_places(void **state)
{
    static const char *const raised[] = {"#laxer-copy detector=laxer-copy severity=4 actor=" ALICE " count=1 " COPY " events=7",
                                         "#laxer-copy detector=laxer-copy severity=4 actor=" ALICE
                                         " count=1 stricter=11111111-1111-4111-8111-111111111111"
                                         " laxer=33333333-3333-4333-8333-333333333333 events=7"};
    const struct events more = {9, 1000, ALICE, "upload.commit", "completed", "a/b/c#1 sha256:%d", COPIED, 0, 0, NULL};

    (void)state;
    for (size_t i = 0; i < COUNT(raised); i++) {
        struct played played = {.engine = engine_of(DETECTOR_COPY), .time_ms = START, .sequence = 8};
        play(&played, &(struct events){1, 0, "system", "alarm.raise", "allowed", raised[i], 0, 0, 0, NULL});
        play(&played, &more);
        assert_int_equal(played.alarms, i);
        engine_free(played.engine);
    }
}

/* An upload that has only begun has brought nothing, and neither has one that was refused. */
static void asks_for_copies_of_what_has_come(void **state)
{
    static const struct {
        const char *action, *outcome;
        bool wants;
    } cases[] = {{"upload.commit", "completed", true}, {"upload.commit", "allowed", false},   {"upload.begin", "completed", true},
                 {"blob.mount", "allowed", true},      {"blob.mount", "denied", false},       {"manifest.push", "allowed", true},
                 {"manifest.push", "failed", false},   {"manifest.promote", "allowed", true}, {"blob.read", "allowed", false}};
    struct played copies = {.engine = engine_of(DETECTOR_COPY), .time_ms = START};

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        const struct events one = {1, 0, ALICE, cases[i].action, cases[i].outcome, "a/b/c#sha256:1", 0, 0, 0, NULL};
        const struct leaf leaf = leaf_of(&copies, &one, 0);
        assert_int_equal(engine_wants_copies(copies.engine, &leaf), cases[i].wants);
    }
    engine_free(copies.engine);
}

static void says_what_was_found(void **state)
{
    const struct detection_rule rule = detection_rule_default(DETECTOR_DENIALS);
    const struct alarm alarm = {.rule = &rule, .actor = ALICE, .count = 20, .event_count = 2, .events = {4711, 4712}};
    char text[ALARM_TEXT_SIZE];

    (void)state;
    alarm_text(&alarm, text);
    assert_string_equal(text, "denial-burst detector=denial-burst severity=3 actor=" ALICE " count=20 events=4711,4712");

    const struct detection_rule copies = detection_rule_default(DETECTOR_COPY);
    const struct alarm copied = {.rule = &copies, .actor = ALICE, .count = 1, .event_count = 1, .events = {7}, .about = COPY};
    alarm_text(&copied, text);
    assert_string_equal(text, "laxer-copy detector=laxer-copy severity=4 actor=" ALICE " count=1 " COPY " events=7");
}

/* ---- bounds ---- */

/* More actors than are tracked: the memory stays, and one that is seen all the time is found among them. */
static void keeps_its_memory(void **state)
{
    struct played played = {.engine = engine_of(DETECTOR_DENIALS), .time_ms = START};

    (void)state;
    for (int round = 0; round < 20; round++) {
        play(&played, &(struct events){DETECTION_TRACKED_MAX / 2, 1, "%064d", "blob.read", "denied", "a/b/c", 0, 0, 0, NULL});
        play(&played, &(struct events){1, 1, ALICE, "blob.read", "denied", "a/b/c", 0, 0, 0, NULL});
    }
    assert_true(played.alarms > 0);
    engine_free(played.engine);
}

#define FACTS(names) "{\"judged\":[{\"told\":[" names "]}]}"
#define LETTERS      "zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz"

static const struct told_row {
    const char *name;
    enum facts_state state;
    const char *facts, *told;
} told_rows[] = {
    {"nobody", FACTS_SOUND, "{\"judged\":[{}]}", ""},
    {"two, one of them twice", FACTS_SOUND, FACTS("\"ciso\",\"dpo\",\"ciso\""), "ciso,dpo"},
    {"a name with a comma and a blank", FACTS_SOUND, FACTS("\"a, b\""), "a__b"},
    {"more than have room", FACTS_SOUND,
     FACTS("\"" LETTERS "1\",\"" LETTERS "2\",\"" LETTERS "3\",\"dpo\",\"" LETTERS LETTERS LETTERS LETTERS "\""),
     LETTERS "1," LETTERS "2,dpo,+2"},
    {"facts that were too large", FACTS_SOUND, "{\"judged\":[],\"omitted\":true}", "facts-are-omitted"},
    {"facts that are missing", FACTS_MISSING, "", "facts-are-missing"},
    {"facts that are damaged", FACTS_DAMAGED, FACTS("\"nobody\""), "facts-are-missing"},
};

static void knows_who_is_told(void **state)
{
    const struct told_row *row = *state;
    struct event_known known = {.size_bytes = 0};

    known_told_add(row->state, bytes_of_text(row->facts), &known);
    assert_string_equal(known.told, row->told);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(asks_for_no_size_that_does_not_count),
        cmocka_unit_test(asks_for_copies_of_what_has_come),
        cmocka_unit_test(makes_no_second_alarm_after_a_start),
        cmocka_unit_test(makes_no_second_alarm_of_two_places),
        cmocka_unit_test(says_what_was_found),
        cmocka_unit_test(keeps_its_memory),
    };
    int failed = RUN_TABLE(attacks, finds_the_attack_and_nothing_else) + RUN_TABLE(told_rows, knows_who_is_told);

    return failed + cmocka_run_group_tests(tests, NULL, NULL);
}
