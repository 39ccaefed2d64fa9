#include "client/progress.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "client/terminal.h"

#define BAR_WIDTH    40 /* columns at most */
#define BAR_LEAST    8  /* with its brackets; below that the label becomes shorter */
#define LABEL_WIDTH  24
#define LABEL_WIDEST 60
#define LABEL_SIZE   (4 * LABEL_WIDEST + 1) /* letters of four bytes */
#define REDRAW_MS    100
#define RATED_MS     1000 /* a shorter transfer shows no rate */

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
    *progress = (struct progress){.start = start,
                                  .total = total,
                                  .done = start,
                                  .began_ms = clock_monotonic_ms(),
                                  .quiet = quiet,
                                  .terminal = isatty(STDERR_FILENO) == 1};
    (void)snprintf(progress->label, sizeof progress->label, "%s", label);
    terminal_sanitize(progress->label);
}

static double rate_of(const struct progress *progress, int64_t now_ms)
{
    const int64_t passed_ms = now_ms - progress->began_ms;

    return passed_ms <= 0 ? 0 : (double)(progress->done - progress->start) * 1000 / (double)passed_ms;
}

/* "  42%  1.5 MiB of 3.6 MiB  900.0 KiB/s  0:02 left", as many of the parts as fit. */
static void write_numbers(const struct progress *progress, int64_t now_ms, unsigned columns, char numbers[160])
{
    char done[24], total[24], rate[24];
    const double share = progress->total == 0 ? 1 : (double)progress->done / (double)progress->total;
    const double speed = rate_of(progress, now_ms);

    format_size(progress->done, done);
    format_size(progress->total, total);
    format_size((uint64_t)speed, rate);
    const size_t percent = (size_t)snprintf(numbers, 160, " %3.0f%%", share * 100);
    const size_t sizes = percent + (size_t)snprintf(numbers + percent, 160 - percent, "  %s of %s", done, total);
    if (sizes > columns) numbers[percent] = '\0';
    if (sizes > columns || speed < 1) return;
    const size_t rated = sizes + (size_t)snprintf(numbers + sizes, 160 - sizes, "  %s/s", rate);
    const uint64_t left_s = (uint64_t)((double)(progress->total - progress->done) / speed);
    const size_t all =
        rated + (size_t)snprintf(numbers + rated, 160 - rated, "  %" PRIu64 ":%02" PRIu64 " left", left_s / 60, left_s % 60);
    if (all > columns) numbers[rated] = '\0';
    if (rated > columns) numbers[sizes] = '\0';
}

static void write_bar(const struct progress *progress, size_t width, char *bar)
{
    const double share = progress->total == 0 ? 1 : (double)progress->done / (double)progress->total;
    const size_t filled = (size_t)(share * (double)width);

    memset(bar, ' ', width);
    memset(bar, '=', filled > width ? width : filled);
    bar[width] = '\0';
}

/* As much of the label as fits, with "..." if it is cut. */
static unsigned write_label(const char *label, unsigned columns, char text[LABEL_SIZE])
{
    unsigned filled = 0;
    const size_t bytes = terminal_fit(label, columns, &filled);
    const bool is_cut = label[bytes] != '\0' && columns > 6;
    const size_t kept = is_cut ? terminal_fit(label, columns - 3, &filled) : bytes;

    (void)snprintf(text, LABEL_SIZE, "%.*s%s", (int)kept, label, is_cut ? "..." : "");
    return is_cut ? columns : filled;
}

void progress_line(const struct progress *progress, int64_t now_ms, unsigned columns, char line_out[PROGRESS_LINE_MAX])
{
    char numbers[160], bar[BAR_WIDTH + 1], label[LABEL_SIZE];
    unsigned columns_used = 0;

    write_numbers(progress, now_ms, columns, numbers);
    const unsigned used = (unsigned)strlen(numbers), room = columns > used ? columns - used : 0;
    const unsigned beside = room > BAR_WIDTH + 3 ? room - BAR_WIDTH - 3 : 0; /* a whole bar */
    const unsigned widest = beside < LABEL_WIDTH ? LABEL_WIDTH : beside < LABEL_WIDEST ? beside : LABEL_WIDEST;
    const unsigned label_room = room > LABEL_WIDTH + BAR_LEAST ? widest : room > BAR_LEAST ? room - BAR_LEAST : room;
    const unsigned label_columns = write_label(progress->label, label_room, label);
    const unsigned rest = room - (label_columns < room ? label_columns : room);
    const unsigned width = rest < 3 + 2 ? 0 : rest - 3 < BAR_WIDTH ? rest - 3 : BAR_WIDTH; /* " [" and "]" */
    write_bar(progress, width, bar);
    (void)snprintf(line_out, PROGRESS_LINE_MAX, "%s%s%s%s%s", label, width == 0 ? "" : " [", bar, width == 0 ? "" : "]", numbers);
    line_out[terminal_fit(line_out, columns, &columns_used)] = '\0';
}

/* The last column stays free, because a terminal may begin a new line when it is filled. */
static void draw(struct progress *progress, int64_t now_ms)
{
    char line[PROGRESS_LINE_MAX];
    const unsigned columns = terminal_columns();

    progress_line(progress, now_ms, columns < 2 ? 1 : columns - 1, line);
    (void)fprintf(stderr, "\r\033[K%s", line);
    (void)fflush(stderr);
}

static void redraw(struct progress *progress)
{
    const int64_t now_ms = clock_monotonic_ms();

    if (progress->quiet || !progress->terminal || now_ms - progress->shown_ms < REDRAW_MS) return;
    progress->shown_ms = now_ms;
    draw(progress, now_ms);
}

struct result progress_group_new(unsigned files, uint64_t total, bool quiet, struct progress_group **group_out, struct error *err)
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

/* With the mutex. Bytes that are sent again count once, so the bar may go back. */
static void move_group(struct progress_group *group, uint64_t before, uint64_t after)
{
    group->bar.done = group->bar.done + after - before;
    (void)snprintf(group->bar.label, sizeof group->bar.label, "%u of %u files", group->ended, group->files);
    redraw(&group->bar);
}

void progress_begin_in(struct progress *progress, struct progress_group *group, const char *label, uint64_t start, uint64_t total,
                       bool quiet)
{
    progress_begin(progress, label, start, total, quiet);
    progress->group = group;
    if (group == NULL) return;
    (void)pthread_mutex_lock(&group->mutex);
    group->bar.start += start; /* it was there before, so it does not count for the rate */
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

    const int64_t now_ms = clock_monotonic_ms();
    const double speed = now_ms - progress->began_ms < RATED_MS ? 0 : rate_of(progress, now_ms);

    format_size(progress->total, total);
    format_size((uint64_t)speed, rate);
    (void)fprintf(stderr, "%s%s  %s  %s", progress->terminal ? "\r\033[K" : "", progress->label, total, outcome);
    if (speed >= 1) (void)fprintf(stderr, "  %s/s", rate);
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
