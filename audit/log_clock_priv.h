/*
 * audit/log_clock_priv.h -- may the database's clock be believed? (docs/decisions: the clock of the log)
 *
 * The time of an event is the database's, and never less than that of the event before: a clock that was once an hour ahead
 * would stand in the log for an hour. So each reading is compared with two clocks of this machine: the wall clock, and one
 * that counts on whatever is set. Times are in milliseconds.
 */
#pragma once

#include "base/result.h"

#include <stdint.h>

#define LOG_CLOCK_OFF_MAX_MS  30000  /* off this machine's wall clock; half of what sijil-keyd allows */
#define LOG_CLOCK_NOTICE_MS   2000   /* a step of more becomes an event */
#define LOG_CLOCK_STEP_MAX_MS 7200000 /* a step of more is refused until the clock is back, or the gateway starts again */
#define LOG_CLOCK_DRIFT       2000   /* clocks may run apart by one part in so many: 500 ppm, as ntpd slews at most */

struct clock_reading {
    int64_t database_ms;          /* read between the next two */
    int64_t asked_ms, answered_ms; /* clock_since_boot_ms() */
    int64_t wall_ms;              /* ours, at answered_ms */
};

/** Zero-initialised before the first reading. */
struct log_clock {
    bool is_known, is_refused; /* the last reading was */
    struct clock_reading last;
    int64_t stepped_ms;        /* in sum, and not yet an event */
    unsigned steps;            /* so many of them */
};

/** Takes a reading in. ERROR_UNAVAILABLE when the time must not be written down; what was taken in before stays. */
RESULT log_clock_read(struct log_clock *clock, const struct clock_reading *reading, struct error *err);
/** One more step, which was found otherwise. */
void log_clock_add_step(struct log_clock *clock, int64_t step_ms);
