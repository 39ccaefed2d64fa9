/*
 * client/progress.h -- how far a long transfer is: a bar on a terminal, one line at the end elsewhere.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct progress {
    char label[64];
    uint64_t start, total, done; /* bytes; `start` were there before */
    int64_t began_ms, shown_ms;
    bool quiet, terminal;
};

/** `quiet`: nothing is shown (--json). `start` bytes of `total` are there already. */
void progress_begin(struct progress *progress, const char *label, uint64_t start, uint64_t total, bool quiet);
/** `done` of `total` bytes; redraws at most ten times a second. */
void progress_set(struct progress *progress, uint64_t done);
/** Ends the line; `outcome` is "pushed", "pulled", "there already". */
void progress_end(struct progress *progress, const char *outcome);
/** "1.5 GiB" */
void format_size(uint64_t bytes, char text_out[24]);
