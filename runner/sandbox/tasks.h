/*
 * runner/sandbox/tasks.h -- several tasks of a run in one sandbox, or in one pod: they begin together, and when one fails, all end (docs/runner.md, "Several
 * tasks"). Of the C library alone: programs without libraries use it.
 */
#pragma once

#define TASKS_MAX 64 /* docs/formats/run.md */

/**
 * Runs the program `count` times (1 to TASKS_MAX), each with its rank in its environment, and writes each line of their output with the task's number. When one has
 * failed, all other processes of the namespace but its first get TERM, and KILL after `grace_s` seconds. `become` runs in each task: it becomes the program, or
 * returns an exit status. Returns the exit status of the first that failed (128 and the number of a signal), or 0. The process must be a child of the first
 * one of its own namespace of processes.
 */
int tasks_run(unsigned count, unsigned long grace_s, char **program, int (*become)(char **program));
