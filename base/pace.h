/*
 * base/pace.h -- who goes first where more threads want to run than there are processors.
 *
 * Hints for the kernel: what it doesn't know or doesn't allow changes nothing, and nothing tells so. Threads and processes
 * started later take them over.
 */
#pragma once

/**
 * For a program whose threads answer others: each wants short turns, and gets the next one the sooner (EEVDF's slice, from
 * Linux 6.12 on; sched(7)). Call it before any other thread is started.
 */
void pace_prompt(void);
/** For a program that all others wait for: it goes before them. Needs CAP_SYS_NICE. */
void pace_urgent(void);
/** For a thread that works through bulk, where nobody waits for one piece of it: it gives way to all others. */
void pace_patient(void);
