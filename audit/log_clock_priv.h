/*
 * audit/log_clock_priv.h -- decides whether the database's clock is used (docs/decisions/0035-the-clock-of-the-log.md).
 *
 * The time of an event is the database's, and never less than the time of the event before. So a clock that was once an
 * hour ahead would stop the log's time for an hour. Each reading is therefore compared with two clocks of this machine: the
 * wall clock, and a clock that can't be set. Times are in milliseconds.
 */
#pragma once

#include "base/result.h"

#include <stdint.h>

#define LOG_CLOCK_OFF_MAX_MS  30000   /* allowed difference from this machine's wall clock; half of what sijil-keyd allows */
#define LOG_CLOCK_NOTICE_MS   2000    /* a larger step becomes an event */
#define LOG_CLOCK_STEP_MAX_MS 7200000 /* a larger step is refused until the clock is set back, or the gateway is restarted */
#define LOG_CLOCK_DRIFT       2000    /* clocks may drift by one part in this many: 500 ppm, the most that ntpd slews */

struct clock_reading {
    int64_t database_ms;           /* read after asked_ms and before answered_ms */
    int64_t asked_ms, answered_ms; /* clock_since_boot_ms() */
    int64_t wall_ms;               /* this machine's wall clock, at answered_ms */
};

/** Zero-initialised before the first reading. */
struct log_clock {
    bool is_known, is_refused; /* is_refused: the last reading was refused */
    struct clock_reading last;
    int64_t stepped_ms; /* the sum of all steps that are not in an event yet */
    unsigned steps;     /* their number */
};

/** Takes a reading. ERROR_UNAVAILABLE when the time must not be recorded; the state is then unchanged. */
RESULT log_clock_read(struct log_clock *clock, const struct clock_reading *reading, struct error *err);
/** Adds a step that another check found. */
void log_clock_add_step(struct log_clock *clock, int64_t step_ms);
