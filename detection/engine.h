/*
 * detection/engine.h -- rules over the events of the log, one event after the other: docs/detection.md.
 *
 * Pure: no clock, network, file or database. The same events give the same alarms. Memory is bounded: for each rule the state of
 * DETECTION_TRACKED_MAX actors, of which the one that was seen longest ago makes room. Times are those of events.
 */
#pragma once

#include "audit/format/leaf.h"
#include "documents/format/detection_rule.h"

#define DETECTION_RULES_MAX   32
#define DETECTION_TRACKED_MAX 1024
#define ALARM_EVENTS_MAX      16

/** "stricter=UUID laxer=UUID": the repositories in which the same bytes lie under two labels. */
#define LAXER_COPY_SIZE (sizeof "stricter= laxer=" + 2 * 36)
#define TOLD_SIZE       128 /* "dpo,ciso": whom duties of policies want told, as much of it as has room */
#define ABOUT_SIZE      (sizeof "exception=" + TOLD_SIZE)

struct detection_rules {
    size_t count;
    struct detection_rule each[DETECTION_RULES_MAX]; /* without those that are off */
};

struct alarm {
    const struct detection_rule *rule;
    char actor[65]; /* pseudonym, "anonymous" or "system"; "": nobody in particular */
    uint64_t count; /* events that made it, within the window; of mass-pull-bytes: MiB */
    size_t event_count;
    uint64_t events[ALARM_EVENTS_MAX]; /* their numbers: the last ones */
    int64_t time_ms;                   /* of the last one */
    char about
        [ABOUT_SIZE]; /* of laxer-copy: where the bytes lie; of exception-use: the exception; of policy-notify: who is told; else "" */
};
/** May fail; then the event was not taken, and is fed again. */
typedef struct result alarm_visitor(void *context, const struct alarm *alarm, struct error *err);

#define EVENT_PERSONS_MAX 16 /* behind one act: of a robot with more, further ones are not compared */
/** What is known of an event besides its leaf. */
struct event_known {
    bool is_new_network,
        is_new_country; /* the first one of its actor from its client's network and country, while the actor has earlier events */
    uint64_t size_bytes; /* of the artifact that is read; 0: not known */
    char persons[EVENT_PERSONS_MAX]
                [80];           /* behind the actor (authz/person.h): several of a robot that several have made or seen */
    size_t person_count;        /* 0: not known, the actor stands for itself */
    char told[TOLD_SIZE];       /* the facts of its decision name them; "": nobody, or it is not known */
    char copy[LAXER_COPY_SIZE]; /* the event's bytes lie elsewhere under another label; "": they don't, or it is not known */
};

struct engine;
/** `hash_key`: random, so that nobody can choose names that count as one. */
RESULT engine_new(const struct detection_rules *rules, const uint8_t hash_key[16], struct engine **engine_out, struct error *err);
/** Takes an event. `known` may be NULL: nothing. */
RESULT engine_feed(struct engine *engine, const struct leaf *leaf, const struct event_known *known, alarm_visitor *visit,
                   void *context, struct error *err) __attribute__((nonnull(1, 2, 4, 6)));
/** Whether a rule wants to know the place of an event. */
bool engine_wants_place(const struct engine *engine, const struct leaf *leaf);
/** Whether a rule wants to know the size of what is read, or the person. Both are wanted again when the state is made anew. */
bool engine_wants_size(const struct engine *engine, const struct leaf *leaf);
bool engine_wants_person(const struct engine *engine, const struct leaf *leaf);
/** Whether a rule wants to know where else the bytes lie that came with the event. */
bool engine_wants_copies(const struct engine *engine, const struct leaf *leaf);
/** Whether a rule wants to know whom duties want told. */
bool engine_wants_told(const struct engine *engine, const struct leaf *leaf);
/** The longest window of all rules. */
int64_t engine_window_ms(const struct engine *engine);
void engine_free(struct engine *engine);
DEFINE_OWNED(engine);
