/*
 * runner/sandbox/work.h -- the folder of one run, on the disk of the runner's machine.
 *
 * It has a name that nobody can guess, and is open to the runner and the payload's group alone. The runner holds a lock on it.
 * The folder of a killed runner has no lock, so the next run removes it; likewise its control group, which has a lock of its own.
 */
#pragma once

#include "runner/sandbox/cgroup.h"

#define WORK_PATH_SIZE 384 /* of a run's folder */
#define WORK_NAME_SIZE 40  /* CGROUP_RUN and 32 digits: its control group has the same name */

struct work {
    char path[WORK_PATH_SIZE], name[WORK_NAME_SIZE];
    int base, folder; /* descriptors; `folder` has the lock */
};

/** Makes a run's folder below `base`, which is made if it is missing. ERROR_DENIED if others may write to `base`. */
RESULT work_open(const char *base, gid_t group, const struct cgroup_place *place, struct work *work_out, struct error *err);
/**
 * Removes what killed runners have left below `base`, and their control groups. *is_clean_out: nothing is left. Processes of a killed runner live a
 * moment longer, and keep their group.
 */
RESULT work_sweep(const char *base, const struct cgroup_place *place, bool *is_clean_out, struct error *err);
/** Removes it with all in it. */
RESULT work_remove(struct work *work, struct error *err);
#define WORK_NONE ((struct work){.base = -1, .folder = -1})
