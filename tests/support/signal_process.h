/*
 * tests/support/signal_process.h -- kill(2) for tests.
 *
 * A process that did not start, or was waited for, has the number 0. kill(2) takes 0 for the whole group of the caller, which ctest is in
 * with all of its tests, -1 for all processes, and other negative numbers for a group.
 */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

/** False if `pid` is no number of a process, or if it has ended. */
static inline bool signal_process(pid_t pid, int sent)
{
    return pid > 1 && kill(pid, sent) == 0;
}
