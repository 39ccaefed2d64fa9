/*
 * client/progress.h -- shows the progress of long transfers: a bar on a terminal, one line at the end elsewhere.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/owned.h"
#include "base/result.h"

struct progress_group;

struct progress {
    char label[1024];            /* as long as a title */
    uint64_t start, total, done; /* bytes; `start` of them were there before */
    int64_t began_ms, shown_ms;
    bool quiet, terminal;
    struct progress_group *group; /* or NULL */
};

/** One bar for several transfers at the same time, from any thread. */
RESULT progress_group_new(unsigned files, uint64_t total, bool quiet, struct progress_group **group_out, struct error *err);
void progress_group_free(struct progress_group *group);
DEFINE_OWNED(progress_group);

/** `quiet`: shows nothing (--json). `start` bytes of `total` are there already. */
void progress_begin(struct progress *progress, const char *label, uint64_t start, uint64_t total, bool quiet);
/** The same as a part of a group, whose bar then moves; with NULL it has a bar of its own. */
void progress_begin_in(struct progress *progress, struct progress_group *group, const char *label, uint64_t start, uint64_t total,
                       bool quiet);
/** `done` of `total` bytes; redraws at most ten times a second. */
void progress_set(struct progress *progress, uint64_t done);
/** Ends the line, with the whole name; `outcome` is "pushed", "pulled", "there already". */
void progress_end(struct progress *progress, const char *outcome);
/** One line of at most `columns` columns, without control sequences. If there is too little room, the bar and the label become shorter
 *  (the label with "..." at its end), and other parts are left out. A rate below one byte a second is not shown. */
#define PROGRESS_LINE_MAX 512
void progress_line(const struct progress *progress, int64_t now_ms, unsigned columns, char line_out[PROGRESS_LINE_MAX]);
/** "1.5 GiB" */
void format_size(uint64_t bytes, char text_out[24]);
