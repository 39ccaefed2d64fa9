/*
 * base/dump.h -- keeps the memory of a process out of core files and debuggers: keys, tokens, models.
 *
 * For programs that hold secrets; call it first. False: the kernel refused; errno has the reason.
 */
#pragma once

#include <stdbool.h>

/** No core files, also for all programs that this one starts. */
bool dump_forbid_files(void);
/**
 * As dump_forbid_files(). In addition no process of the same user may read this process's memory, and no crash handler gets
 * it. This addition holds until the process executes another program or changes its user. A build with sanitizers omits it,
 * because sanitizers inspect their own process.
 */
bool dump_forbid(void);
