/*
 * training/format/artifacts.h -- what a run reads, as its specification names it.
 */
#pragma once

#include <jansson.h>
#include <stddef.h>

#define RUN_INPUTS_MAX    64
#define RUN_ARTIFACTS_MAX (3 + RUN_INPUTS_MAX)
/** In the order in which a result names it: code, image and checkpoint if the run has them, then the inputs. */
struct run_artifacts {
    size_t count;
    struct {
        const char *role; /* "code", "image", "resume" or "input" */
        const char *name; /* of an input; else the role */
        const json_t *json;
    } each[RUN_ARTIFACTS_MAX]; /* views of the specification */
};
/** Of a specification whose shape was checked. */
struct run_artifacts run_spec_artifacts(const json_t *spec);
