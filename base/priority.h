/*
 * base/priority.h -- the priority of threads when there are more threads than processors.
 *
 * Hints for the kernel. A hint that the kernel does not support or allow has no effect, and is no error. Threads and processes
 * that start later inherit them.
 */
#pragma once

/**
 * For a program whose threads answer clients: short time slices, so a thread gets the processor sooner (EEVDF's slice, from
 * Linux 6.12 on; sched(7)). Call it before there is another thread.
 */
void priority_interactive(void);
/** For a program that all others wait for: it runs before them. Needs CAP_SYS_NICE. */
void priority_high(void);
/** For a background thread that nobody waits for: all other threads run before it. */
void priority_background(void);
