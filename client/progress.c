#include "client/progress.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "client/terminal.h"

#define BAR_WIDTH 24
#define REDRAW_MS 100

struct progress_group {
    pthread_mutex_t mutex;
    struct progress bar;
    unsigned files, ended;
};

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

static void redraw(struct progress *progress)
{
    const int64_t now_ms = clock_monotonic_ms();

    if (progress->quiet || !progress->terminal || now_ms - progress->shown_ms < REDRAW_MS) return;
    progress->shown_ms = now_ms;
    draw(progress, now_ms);
}

struct result progress_group_new(unsigned files, uint64_t total, bool quiet, struct progress_group **group_out,
                                 struct error *err)
{
    struct progress_group *group = memory_zeroed(1, sizeof *group);

    if (group == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a progress bar");
    group->files = files;
    (void)pthread_mutex_init(&group->mutex, NULL);
    progress_begin(&group->bar, "", 0, total, quiet);
    *group_out = group;
    return SUCCESS;
}

void progress_group_free(struct progress_group *group)
{
    if (group == NULL) return;
    if (!group->bar.quiet && group->bar.terminal) (void)fputs("\r\033[K", stderr);
    (void)pthread_mutex_destroy(&group->mutex);
    free(group);
}

/* With the mutex held. What one sends again counts once: the bar may go back. */
static void move_group(struct progress_group *group, uint64_t before, uint64_t after)
{
    group->bar.done = group->bar.done + after - before;
    (void)snprintf(group->bar.label, sizeof group->bar.label, "%u of %u files", group->ended, group->files);
    redraw(&group->bar);
}

void progress_begin_in(struct progress *progress, struct progress_group *group, const char *label, uint64_t start,
                       uint64_t total, bool quiet)
{
    progress_begin(progress, label, start, total, quiet);
    progress->group = group;
    if (group == NULL) return;
    (void)pthread_mutex_lock(&group->mutex);
    group->bar.start += start; /* it was there before, and says nothing about the rate */
    move_group(group, 0, start);
    (void)pthread_mutex_unlock(&group->mutex);
}

void progress_set(struct progress *progress, uint64_t done)
{
    const uint64_t before = progress->done;

    progress->done = done > progress->total ? progress->total : done;
    if (progress->group == NULL) {
        redraw(progress);
        return;
    }
    (void)pthread_mutex_lock(&progress->group->mutex);
    move_group(progress->group, before, progress->done);
    (void)pthread_mutex_unlock(&progress->group->mutex);
}

static void say_end(const struct progress *progress, const char *outcome)
{
    char total[24], rate[24];

    format_size(progress->total, total);
    format_size((uint64_t)rate_of(progress, clock_monotonic_ms()), rate);
    (void)fprintf(stderr, "%s%s  %s  %s", progress->terminal ? "\r\033[K" : "", progress->label, total, outcome);
    if (progress->done > progress->start) (void)fprintf(stderr, "  %s/s", rate);
    (void)fputc('\n', stderr);
}

void progress_end(struct progress *progress, const char *outcome)
{
    struct progress_group *group = progress->group;

    if (group != NULL) {
        (void)pthread_mutex_lock(&group->mutex);
        group->ended++;
    }
    if (!progress->quiet) say_end(progress, outcome);
    if (group != NULL) (void)pthread_mutex_unlock(&group->mutex);
}
