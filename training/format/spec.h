/*
 * training/format/spec.h -- the specification of a run: the member `spec` of its request and of its order (docs/formats/run.md).
 *
 * A draft is a specification that a person tries out: it may lack any member, and gets the default for it. Its members have the
 * shapes of a request's members. An unknown member is an error, because it may be a misspelt limit.
 */
#pragma once

#include "training/format/artifacts.h"
#include "training/format/shape.h"

#define RUN_SPEC_MAX 65536 /* bytes; the payload of a request is not larger */
#define RUN_NAME_MAX 63    /* bytes of the name of an input or an output */

struct run_limits {
#define X(name, least, most, initial, what) int64_t name;
#include "training/format/limits.def"
#undef X
};
extern const struct run_limits run_limits_default;

/** The means that enforce a run's limits, weakest first (docs/runner.md, "Isolation"). */
enum isolation {
    ISOLATION_RLIMITS,   /* limits of each process; the number of processes; sizes of file systems */
    ISOLATION_CGROUP_V1, /* control groups for the run as a whole, in separate hierarchies */
    ISOLATION_CGROUP_V2  /* one control group */
};
/** "rlimits", "cgroup-v1", "cgroup-v2" */
const char *isolation_name(enum isolation isolation);
bool isolation_find(const char *name, enum isolation *isolation_out);

/** The accelerators that a run asks for; `count` 0: none. */
struct run_devices {
    int64_t count, memory_bytes; /* memory: the minimum of each; 0: any */
    char type[64], mig[32];      /* "" : any type; no MIG profile */
};

struct run_spec {
    json_t *json; /* owned */
    struct run_limits limits;
    enum isolation isolation;         /* the minimum */
    const json_t *argv, *environment; /* of texts; NULL if absent; they live as long as `json` */
    size_t input_count;
    const char *inputs[RUN_INPUTS_MAX]; /* their names */
    struct run_devices devices;
};

/** Reads a draft. ERROR_INVALID with the member and its rule; ERROR_LIMIT, ERROR_NO_MEMORY. */
RESULT run_spec_read(struct bytes text, struct run_spec **spec_out, struct error *err);
/** Checks a whole specification, whose lists may have any order. On a failure *fault says where. ERROR_INVALID. */
RESULT run_spec_locate(const json_t *spec, struct run_shape_fault *fault, struct error *err);
void run_spec_free(struct run_spec *spec);
DEFINE_OWNED(run_spec);
