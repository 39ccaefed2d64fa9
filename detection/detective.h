/*
 * detection/detective.h -- follows the log with the rules in force, and records alarms as events (docs/detection.md).
 *
 * Of all gateways, one at a time does so: the one whose connection has the lock. An alarm and the position in the log are durable in one
 * transaction, so no alarm comes twice. After a start the state of the rules is made again from the events of the longest window.
 */
#pragma once

#include <stdatomic.h>

#include "audit/sequencer.h"
#include "detection/engine.h"

extern const struct pg_table detection_table;

/** Whether content of the repository `other` has a class, subjects or regimes that `name` has not. May be asked for any names. */
struct label_comparison {
    RESULT (*lacks)(void *context, const char *name, const char *other, bool *lacks_out, struct error *err);
    void *context;
};
struct detective;
struct detective_options {
    const char *conninfo, *origin;
    struct keyd_client *keyd;
    struct sequencer *sequencer;
    const atomic_bool *gives_up; /* once it is set, a step ends soon */
    struct label_comparison labels;
};
/** What `options` points at outlives the detective. */
RESULT detective_new(const struct detective_options *options, struct detective **detective_out, struct error *err);

struct detective_report {
    bool is_holder;  /* false: another gateway watches */
    uint64_t lag;    /* signed events that were not looked at */
    uint64_t alarms; /* in this step */
    int64_t wait_ms; /* until the next step */
};
/**
 * One step with these rules; others than in the step before make the state anew. ERROR_FORKED; ERROR_UNAVAILABLE. *report_out is set after a failure,
 * too: its lag shows that nobody watches.
 */
RESULT detective_step(struct detective *detective, const struct detection_rules *rules, struct detective_report *report_out,
                      struct error *err) __attribute__((nonnull));
/** Call it before each step, also if the step can't be made: keys of persons are forgotten after ten seconds, because another gateway may have erased them. */
void detective_forget_keys(struct detective *detective) __attribute__((nonnull));
void detective_free(struct detective *detective);
DEFINE_OWNED(detective);

#define ALARM_TEXT_SIZE 720 /* a rule, a pseudonym, what it is about, and ALARM_EVENTS_MAX numbers */
/** "RULE detector=... severity=4 actor=PSEUDONYM count=20 events=1,2,3": the detail of the event. */
void alarm_text(const struct alarm *alarm, char text_out[ALARM_TEXT_SIZE]);
