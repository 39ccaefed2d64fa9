/*
 * base/clock.h -- wall time, monotonic time.
 *
 * Wall time is for people, tokens and records; monotonic time is for deadlines.
 */
#pragma once

#include <pthread.h>
#include <stdint.h>

#include "base/bytes.h"

/** Milliseconds since 1970 (UTC). */
int64_t clock_wall_ms(void);
/** Milliseconds of a clock that is never set; only differences mean something. */
int64_t clock_monotonic_ms(void);
/** Microseconds of the same clock, for short times. */
int64_t clock_monotonic_us(void);
/** As clock_monotonic_ms(), but this clock also runs while the machine is suspended. */
int64_t clock_since_boot_ms(void);
/** A condition whose timed waits use the clock of clock_monotonic_ms(). */
void clock_condition(pthread_cond_t *condition_out);

#define CLOCK_TEXT_SIZE 25 /* "2026-11-20T10:39:46.123Z" and '\0' */
/** RFC 3339 in UTC with milliseconds. A time outside the years 1 to 9999 becomes their first or last millisecond. */
void clock_format(int64_t wall_ms, char text_out[CLOCK_TEXT_SIZE]);
/** RFC 3339 with "Z" or a numeric offset, fraction optional. False for any other form, and for a day that does not exist. */
bool clock_parse(struct bytes text, int64_t *wall_ms_out);
