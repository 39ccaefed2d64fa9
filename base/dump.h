/*
 * base/dump.h -- what a program has in memory stays there: keys, tokens, models.
 *
 * For programs that hold secrets, at their very start. False: the kernel refused, and errno says why.
 */
#pragma once

#include <stdbool.h>

/** No core files, also of all programs that are started from here. */
bool dump_forbid_files(void);
/**
 * The same, and nobody of the same user may look into the process or have its memory piped to a program that keeps dumps. Holds
 * until another program or user is taken on; a build with sanitizers, which look at their own process, leaves this part out.
 */
bool dump_forbid(void);
