#include "base/clock.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/text.h"

int64_t clock_wall_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int64_t clock_monotonic_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int64_t clock_monotonic_us(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

int64_t clock_since_boot_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* RFC 3339 has four digits for a year, and there was no year 0. */
#define FIRST_MS INT64_C(-62135596800000) /* 0001-01-01T00:00:00.000Z */
#define LAST_MS  INT64_C(253402300799999) /* 9999-12-31T23:59:59.999Z */

void clock_format(int64_t wall_ms, char text_out[CLOCK_TEXT_SIZE])
{
    const int64_t told_ms = wall_ms < FIRST_MS ? FIRST_MS : wall_ms > LAST_MS ? LAST_MS : wall_ms;
    const int milliseconds = (int)((told_ms % 1000 + 1000) % 1000);
    const time_t second = (time_t)((told_ms - milliseconds) / 1000);
    static _Thread_local time_t last_second;
    static _Thread_local char last_text[CLOCK_TEXT_SIZE]; /* a request asks several times in the same second */

    if (last_text[0] == '\0' || second != last_second) {
        struct tm day;
        char text[96]; /* enough for any six numbers */
        (void)gmtime_r(&second, &day);
        (void)snprintf(text, sizeof text, "%04d-%02d-%02dT%02d:%02d:%02d.000Z", day.tm_year + 1900, day.tm_mon + 1, day.tm_mday,
                       day.tm_hour, day.tm_min, day.tm_sec);
        memcpy(last_text, text, CLOCK_TEXT_SIZE);
        last_second = second;
    }
    memcpy(text_out, last_text, CLOCK_TEXT_SIZE);
    text_out[20] = (char)('0' + milliseconds / 100);
    text_out[21] = (char)('0' + milliseconds / 10 % 10);
    text_out[22] = (char)('0' + milliseconds % 10);
}

/* The next `digits` decimal digits of `text` from *at on, or -1. */
static int number_at(struct bytes text, size_t *at, unsigned digits)
{
    int value = 0;

    if (*at + digits > text.length) return -1;
    for (unsigned i = 0; i < digits; i++) {
        const uint8_t letter = text.data[(*at)++];
        if (letter < '0' || letter > '9') return -1;
        value = value * 10 + (letter - '0');
    }
    return value;
}

static bool letter_at(struct bytes text, size_t *at, char letter)
{
    return *at < text.length && text.data[(*at)++] == (uint8_t)letter;
}

static bool fraction_at(struct bytes text, size_t *at, int *milliseconds)
{
    int digits = 0;

    if (*at >= text.length || text.data[*at] != '.') return true;
    for ((*at)++; *at < text.length && text.data[*at] >= '0' && text.data[*at] <= '9'; (*at)++, digits++)
        if (digits < 3) *milliseconds = *milliseconds * 10 + (text.data[*at] - '0');
    for (int i = digits; i < 3; i++) *milliseconds *= 10;
    return digits > 0 && digits <= 9;
}

static bool offset_at(struct bytes text, size_t *at, int *minutes)
{
    if (*at >= text.length) return false;
    const uint8_t sign = text.data[(*at)++];
    if (sign == 'Z') return true;
    if (sign != '+' && sign != '-') return false;
    const int hours = number_at(text, at, 2);
    if (!letter_at(text, at, ':')) return false;
    const int rest = number_at(text, at, 2);
    if (hours < 0 || hours > 23 || rest < 0 || rest > 59) return false;
    *minutes = (hours * 60 + rest) * (sign == '-' ? -1 : 1);
    return true;
}

static bool day_exists(const struct tm *day)
{
    static const int lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    const int year = day->tm_year + 1900;
    const bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;

    if (day->tm_mon < 0 || day->tm_mon > 11 || day->tm_mday < 1) return false;
    return day->tm_mday <= lengths[day->tm_mon] + (leap && day->tm_mon == 1) && day->tm_hour >= 0 && day->tm_hour < 24 &&
           day->tm_min >= 0 && day->tm_min < 60 && day->tm_sec >= 0 && day->tm_sec < 60;
}

bool clock_parse(struct bytes text, int64_t *wall_ms_out)
{
    struct tm day = {0};
    size_t at = 0;
    int milliseconds = 0, offset_min = 0;

    const int year = number_at(text, &at, 4);
    if (year < 1 || !letter_at(text, &at, '-')) return false;
    day.tm_year = year - 1900;
    day.tm_mon = number_at(text, &at, 2) - 1;
    if (!letter_at(text, &at, '-')) return false;
    day.tm_mday = number_at(text, &at, 2);
    if (!letter_at(text, &at, 'T')) return false;
    day.tm_hour = number_at(text, &at, 2);
    if (!letter_at(text, &at, ':')) return false;
    day.tm_min = number_at(text, &at, 2);
    if (!letter_at(text, &at, ':')) return false;
    day.tm_sec = number_at(text, &at, 2);
    if (!day_exists(&day) || !fraction_at(text, &at, &milliseconds) || !offset_at(text, &at, &offset_min) || at != text.length)
        return false;
    const int64_t wall_ms = ((int64_t)timegm(&day) - (int64_t)offset_min * 60) * 1000 + milliseconds;
    if (wall_ms < FIRST_MS || wall_ms > LAST_MS) return false; /* the offset can move a time out of the years 1 to 9999 */
    *wall_ms_out = wall_ms;
    return true;
}

void clock_condition(pthread_cond_t *condition_out)
{
    pthread_condattr_t monotonic;

    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(condition_out, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
}
