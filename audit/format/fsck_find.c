#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "audit/format/fsck_priv.h"
#include "base/terminal_text.h"

static const char *const kinds[FSCK_KIND_COUNT] = {
#define X(kind, name) [FSCK_##kind] = name,
    FSCK_KINDS(X)
#undef X
};

const char *fsck_kind_name(enum fsck_kind kind)
{
    assert((unsigned)kind < FSCK_KIND_COUNT);
    return kinds[kind];
}

bool fsck_is_first(const struct fsck *fsck)
{
    return fsck->report.passes == 0;
}

bool fsck_in_window(const struct fsck *fsck, uint64_t number)
{
    return number >= fsck->window.first && number < fsck->window.end;
}

/* Keeps those with the smallest numbers, in their order. */
void fsck_find(struct fsck *fsck, enum fsck_kind kind, uint64_t number, const char *format, ...)
{
    struct fsck_report *report = &fsck->report;
    size_t place = report->shown;
    va_list arguments;

    report->findings[kind]++;
    while (place > 0 && report->first[place - 1].number > number) place--;
    if (place == FSCK_FINDINGS_SHOWN) return;
    if (report->shown < FSCK_FINDINGS_SHOWN) report->shown++;
    memmove(&report->first[place + 1], &report->first[place], (report->shown - place - 1) * sizeof report->first[0]);
    report->first[place] = (struct fsck_finding){.number = number, .kind = kind};
    va_start(arguments, format);
    (void)vsnprintf(report->first[place].what, sizeof report->first[place].what, format, arguments);
    va_end(arguments);
    terminal_sanitize(report->first[place].what); /* it may quote a name of a row */
}

bool fsck_is_in_last_pass(const struct fsck *fsck)
{
    return fsck->window.end >= fsck->seen;
}
