/*
 * runner/machine.h -- the isolation and the devices that this machine offers to runs: `sijil-runner check`.
 */
#pragma once

#include "runner/devices/devices.h"
#include "runner/sandbox/sandbox.h"

struct machine_options {
    const char *work, *user, *inside, *cgroup, *nvml; /* as for a run */
    enum isolation least;                             /* the minimum that the runner must offer */
    bool joins_nodes;                                 /* whether to look for the network between nodes, too */
};

struct machine {
    enum isolation isolation;
    char lacks[192]; /* "" or why there is no better isolation */
    bool runs;       /* a program ran in a closed sandbox */
    char why[256];   /* why no program ran */
    int64_t start_us, make_ms, memory_bytes, cpus;
    size_t addresses;        /* how many addresses the program could not reach */
    struct devices *devices; /* NULL: there is no driver for devices */
    char no_devices[256];    /* why */
    bool unpacks_images;     /* there is a program for it */
    bool joins_nodes;        /* a sandbox had a device to other nodes, and was closed all the same */
    char no_nodes[256];      /* why it had none */
    bool meets_floor;
};

/** Really runs /usr/bin/true in a sandbox, so the report is measured. The only error is ERROR_NO_MEMORY. */
RESULT machine_look(const struct machine_options *options, struct machine *machine_out, struct error *err);
void machine_done(struct machine *machine);
/** For a person, or as a JSON object. */
RESULT machine_text(const struct machine *machine, struct buffer *text, struct error *err);
RESULT machine_json(const struct machine *machine, struct buffer *text, struct error *err);
