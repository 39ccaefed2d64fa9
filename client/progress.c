#include "client/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "client/terminal.h"

#define BAR_WIDTH 24
#define REDRAW_MS 100

void format_size(uint64_t bytes, char text_out[24])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    double value = (double)bytes;
    size_t unit = 0;

    while (value >= 1024 && unit + 1 < sizeof units / sizeof units[0]) value /= 1024, unit++;
    (void)snprintf(text_out, 24, unit == 0 ? "%.0f %s" : "%.1f %s", value, units[unit]);
}

void progress_begin(struct progress *progress, const char *label, uint64_t start, uint64_t total, bool quiet)
{
    *progress = (struct progress){.start = start, .total = total, .done = start, .began_ms = clock_monotonic_ms(),
                                  .quiet = quiet, .terminal = isatty(STDERR_FILENO) == 1};
    const size_t length = strlen(label);
    const char *tail = length < sizeof progress->label ? label : label + length - sizeof progress->label + 1;
    (void)snprintf(progress->label, sizeof progress->label, "%s", tail);
    terminal_tame(progress->label);
}

static double rate_of(const struct progress *progress, int64_t now_ms)
{
    const int64_t passed_ms = now_ms - progress->began_ms;

    return passed_ms <= 0 ? 0 : (double)(progress->done - progress->start) * 1000 / (double)passed_ms;
}

static void draw(struct progress *progress, int64_t now_ms)
{
    char done[24], total[24], rate[24], bar[BAR_WIDTH + 1];
    const double share = progress->total == 0 ? 1 : (double)progress->done / (double)progress->total;
    const double speed = rate_of(progress, now_ms);
    const size_t filled = (size_t)(share * BAR_WIDTH);

    memset(bar, ' ', BAR_WIDTH);
    memset(bar, '=', filled > BAR_WIDTH ? BAR_WIDTH : filled);
    bar[BAR_WIDTH] = '\0';
    format_size(progress->done, done);
    format_size(progress->total, total);
    format_size((uint64_t)speed, rate);
    (void)fprintf(stderr, "\r\033[K%-24.24s [%s] %3.0f%%  %s of %s  %s/s", progress->label, bar, share * 100, done,
                  total, rate);
    if (speed > 0) {
        const uint64_t left_s = (uint64_t)((double)(progress->total - progress->done) / speed);
        (void)fprintf(stderr, "  %" PRIu64 ":%02" PRIu64 " left", left_s / 60, left_s % 60);
    }
    (void)fflush(stderr);
}

void progress_set(struct progress *progress, uint64_t done)
{
    const int64_t now_ms = clock_monotonic_ms();

    progress->done = done > progress->total ? progress->total : done;
    if (progress->quiet || !progress->terminal || now_ms - progress->shown_ms < REDRAW_MS) return;
    progress->shown_ms = now_ms;
    draw(progress, now_ms);
}

void progress_end(struct progress *progress, const char *outcome)
{
    char total[24], rate[24];
    const int64_t now_ms = clock_monotonic_ms();

    if (progress->quiet) return;
    format_size(progress->total, total);
    format_size((uint64_t)rate_of(progress, now_ms), rate);
    (void)fprintf(stderr, "%s%s  %s  %s", progress->terminal ? "\r\033[K" : "", progress->label, total, outcome);
    if (progress->done > progress->start) (void)fprintf(stderr, "  %s/s", rate);
    (void)fputc('\n', stderr);
}
