/*
 * base/clock.h -- what time it is.
 *
 * Wall time is for people, tokens and records; monotonic time is for deadlines; a thread's own time says what something costs.
 */
#pragma once

#include <pthread.h>
#include <stdint.h>

#include "base/bytes.h"

/** Milliseconds since 1970 (UTC). */
int64_t clock_wall_ms(void);
/** Milliseconds of a clock that never steps; only differences mean something. */
int64_t clock_monotonic_ms(void);
/** The same in microseconds, for what takes less. */
int64_t clock_monotonic_us(void);
/** The same, and it goes on while the machine sleeps. */
int64_t clock_since_boot_ms(void);
/** A condition whose timed waits go by the clock of clock_monotonic_ms(). */
void clock_condition(pthread_cond_t *condition_out);

#define CLOCK_TEXT_SIZE 25 /* "2026-11-20T10:39:46.123Z" and '\0' */
/** RFC 3339 in UTC with milliseconds; what is outside the years 1 to 9999 is told as their first or last moment. */
void clock_format(int64_t wall_ms, char text_out[CLOCK_TEXT_SIZE]);
/** RFC 3339 with "Z" or a numeric offset, fraction optional; false for any other form or a day that does not exist. */
bool clock_parse(struct bytes text, int64_t *wall_ms_out);
