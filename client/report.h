/*
 * client/report.h -- receives messages of a registry beside results.
 *
 * The folder client/ prints nothing itself, except, if asked to, each exchange (client/trace.h) and the bar of a transfer
 * (client/progress.h). A registry's warnings, and retries, go to the functions of the program's report.
 */
#pragma once

#include "base/result.h"

struct report {
    bool verbose;        /* each exchange is shown on standard error */
    bool waits_for_room; /* the caller tries for hours: a registry without room (507) is ERROR_UNAVAILABLE, and not ERROR_FULL */
    /** A registry's warning, once for all clones of a session, without characters that control a terminal. NULL: warnings are dropped. */
    void (*warn)(const char *warning);
    /** A retry in `seconds`, because of `why`, which has no secrets. NULL: retries are not shown. */
    void (*wait)(const char *why, unsigned seconds);
    char explanation[4096]; /* the registry's details beside the message: rule, decision, request id */
};

/** Adds a line "label value" to the explanation; nothing if the value is NULL. */
void report_explain(struct report *report, const char *label, const char *value);
