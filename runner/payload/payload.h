/*
 * runner/payload/payload.h -- runs a specification in the sandbox, with granted devices: for `sijil-runner try` and for leased runs.
 */
#pragma once

#include "runner/attend/attend.h"
#include "runner/devices/devices.h"
#include "runner/image/image.h"
#include "runner/sandbox/sandbox.h"

#define PAYLOAD_ADDED_MAX 16
#define PAYLOAD_RESUME    "resume" /* the checkpoint of a specification becomes /in/resume */

struct payload_options {
    const struct run_spec *spec;
    char *const *command;             /* in place of the specification's argv; NULL: that argv */
    const struct device_grant *grant; /* count 0: no device */
    size_t added_count;               /* variables of the node (runner/sandbox/variables.h) */
    const char *const *added;
    const struct attend_run *pod; /* in a pod of a cluster; NULL: on this machine */
    bool is_leased;               /* a lease names its `node`; else the specification must ask for one node alone */
    int64_t node;
    /**
     * Folders, code and inputs, isolation and functions. Arguments, variables, limits and devices come from the members above. `device` is called if the
     * specification asks for several nodes that reach each other.
     */
    struct sandbox_options sandbox;
};

/**
 * Errors: those of sandbox_run(), variables_make(); ERROR_INVALID for a specification without argv, and for one with an image if `sandbox.image`
 * makes none. *variables_out is the program's
 * whole environment.
 */
RESULT payload_run(const struct payload_options *options, struct sandbox_report *report_out, json_t **variables_out,
                   struct error *err);
/** Whether the specification asks for several nodes that reach each other. */
bool payload_joins_nodes(const struct run_spec *spec);
/** The number of nodes. */
int64_t payload_nodes(const struct run_spec *spec);

/** What this runner can give besides sizes. */
struct payload_place {
    bool in_pod;      /* runs go to pods of a cluster */
    bool joins_nodes; /* it takes nodes of runs that have several */
};
/** For an order: ERROR_INVALID for a part of its specification that this runner can't give. */
RESULT payload_check(const struct run_spec *spec, const struct payload_place *place, struct error *err);
