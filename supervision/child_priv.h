/*
 * supervision/child_priv.h -- the child's part of child_start().
 */
#pragma once

#include "supervision/child.h"

/** Descriptors of the child: the program to execute, and a pipe that takes a struct error and closes when the program begins. */
struct child_ends {
    int program, report;
};

/** Executes the program, or reports the error and exits with status 126. */
_Noreturn void child_become_program(const struct child_options *options, const struct child_ends *ends, pid_t parent);
/** Runs the process between the parent and the program (child_options.whole_tree). */
_Noreturn void child_keep_tree(const struct child_options *options, const struct child_ends *ends, pid_t parent);
/** Reports to the parent why the program did not begin. */
_Noreturn void child_give_up(const struct child_ends *ends, const struct error *err);

/** Whether the children of a process can be listed here, which child_keep_tree() needs. */
bool child_tree_is_visible(void);
