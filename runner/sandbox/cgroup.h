/*
 * runner/sandbox/cgroup.h -- control groups of runs, version 1 or 2 (cgroups(7)).
 *
 * Each run has a group of its own below one folder of each hierarchy. These are the folders of the runner's own group, so the
 * limits of the machine's administrator hold, too. With version 2 the administrator may delegate another folder to the runner.
 * Several runners of one machine may use the same folders.
 */
#pragma once

#include <sys/types.h>

#include "base/owned.h"
#include "training/format/spec.h"

#define CGROUP_PATH_SIZE   512 /* of a folder below /sys/fs/cgroup */
#define CGROUP_FOLDERS_MAX 4   /* version 1: memory, pids, cpu, cpuacct */

/** Where groups can be made. */
struct cgroup_place {
    enum isolation isolation; /* ISOLATION_RLIMITS: nowhere */
    size_t count;
    char folders[CGROUP_FOLDERS_MAX][CGROUP_PATH_SIZE];
    char lacks[192]; /* "" or why there is no better isolation, for a person */
};

/** Looks at this machine. `delegated` is a folder of version 2 without processes, or NULL for the runner's own group. */
void cgroup_find(const char *delegated, struct cgroup_place *place_out);

/**
 * Makes room in this process's own group of version 2, which a service manager has delegated: the process moves into the group `runner`
 * below it, because a group with processes can't have groups with limits. The path of this process's own group is written to path_out, for cgroup_find().
 * ERROR_NOT_FOUND: this machine has no version 2; ERROR_UNAVAILABLE: the kernel refuses.
 */
RESULT cgroup_step_aside(char path_out[CGROUP_PATH_SIZE], struct error *err);

/**
 * For root: makes the group `name` below this process's own group, in which programs of the user may make groups. With version 2 this process steps
 * aside first, as cgroup_step_aside() says: so call it before this process starts others. ERROR_NOT_FOUND: there are no groups here; ERROR_UNAVAILABLE,
 * ERROR_LIMIT.
 */
RESULT cgroup_give(const char *name, uid_t user, gid_t group, struct cgroup_place *given_out, struct error *err);
/** The calling process, which is still root's, moves into a given group. With version 2 the program names folders[0] to cgroup_find(). */
RESULT cgroup_enter(const struct cgroup_place *given, struct error *err);
/** Removes a given group, once nothing runs in it. */
void cgroup_take_back(const struct cgroup_place *given);

struct cgroup_use {
    int64_t cpu_us, memory_bytes; /* -1: the kernel does not tell; memory: the peak */
    bool was_out_of_memory;
};

struct cgroup;
#define CGROUP_RUN "run-" /* a group's name: this, and 32 hex digits */
/** Makes the group `name` with these limits. ERROR_UNAVAILABLE if the kernel refuses one. */
RESULT cgroup_new(const struct cgroup_place *place, const char *name, const struct run_limits *limits, struct cgroup **cgroup_out,
                  struct error *err);
/** The calling process, and all that it starts from now on, belong to the group. It only makes system calls. */
RESULT cgroup_join(const struct cgroup *cgroup, struct error *err);
void cgroup_read_use(const struct cgroup *cgroup, struct cgroup_use *use_out);
/** Removes the group, once nothing runs in it. */
void cgroup_free(struct cgroup *cgroup);
DEFINE_OWNED(cgroup);
/**
 * Removes the groups of runs whose runners are gone: a runner holds a lock on each folder of its groups. False: something still runs in one of
 * them, so it stays.
 */
bool cgroup_sweep(const struct cgroup_place *place);
