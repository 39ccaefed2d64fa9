/*
 * runner/sandbox/work.h -- the folder of one run, on the disk of the runner's machine.
 *
 * It has a name that nobody can guess, and is open to the runner and the payload's group alone. The runner holds a lock on it.
 * The folder of a killed runner has no lock, so the next run removes it, with its control group.
 */
#pragma once

#include "runner/sandbox/cgroup.h"

#define WORK_PATH_SIZE 384 /* of a run's folder */
#define WORK_NAME_SIZE 40  /* "run-" and 32 digits */

struct work {
    char path[WORK_PATH_SIZE], name[WORK_NAME_SIZE];
    int base, folder; /* descriptors; `folder` has the lock */
};

/** Makes a run's folder below `base`, which is made if it is missing. ERROR_DENIED if others may write to `base`. */
RESULT work_open(const char *base, gid_t group, const struct cgroup_place *place, struct work *work_out, struct error *err);
/** Removes it with all in it. */
RESULT work_remove(struct work *work, struct error *err);
#define WORK_NONE ((struct work){.base = -1, .folder = -1})
