/*
 * client/report.h -- what a program hears of its registry beside results.
 *
 * The folder client/ shows nothing itself but, where it is asked to, each exchange (client/trace.h) and the bar of a transfer
 * (client/progress.h). What a registry warns of, and what is tried again, goes to the functions of the program's report.
 */
#pragma once

#include "base/result.h"

struct report {
    bool verbose; /* each exchange is shown on standard error */
    /** A registry's warning, once for all branches of a session; characters that steer a terminal are gone. NULL: nobody listens. */
    void (*warn)(const char *warning);
    /** `why`, without secrets, is tried again after so many seconds. NULL: nobody listens. */
    void (*wait)(const char *why, unsigned seconds);
    char explanation[4096]; /* what the registry said beyond the error's sentence: rule, decision, request id */
};

/** Adds a line "label value" to the explanation; nothing without a value. */
void report_explain(struct report *report, const char *label, const char *value);
