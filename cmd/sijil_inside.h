/*
 * cmd/sijil_inside.h -- the parts of sijil-inside.
 */
#pragma once

/** The digits that `text` begins with; the runner wrote them. */
unsigned long inside_number(const char *digits);
/** Becomes the program; returns the exit status if it can't, after it has told so. */
int inside_exec(char **program);
/**
 * Runs the program `count` times, each with its rank in its environment (docs/runner.md, "Several tasks"), and writes each line of their output
 * with the task's number. Returns the exit status of the first that failed (128 and the number of a signal), or 0.
 */
int inside_tasks(unsigned count, unsigned long grace_s, char **program);
