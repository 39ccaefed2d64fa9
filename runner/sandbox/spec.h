/*
 * runner/sandbox/spec.h -- reads what a run asks for.
 *
 * A specification is a JSON object with the members of the run's request (docs/runner.md, "Specification"). What the sandbox needs is read
 * here: limits, environment, command, names of inputs, isolation. Members that are for the registry are known, and left to it; any
 * other member is an error, so that a misspelt limit is not taken for none.
 */
#pragma once

#include "base/json.h"
#include "runner/devices/devices.h"
#include "runner/sandbox/limits.h"

#define SPEC_MAX           65536 /* bytes; the payload of a request is not larger */
#define SPEC_WORDS_MAX     256   /* of the command */
#define SPEC_VARIABLES_MAX 128
#define SPEC_INPUTS_MAX    64
#define SPEC_TEXT_MAX      4096 /* of a word, or of a variable's value */
#define SPEC_NAME_MAX      63   /* of an input */

struct run_spec {
    json_t *json;
    struct sandbox_limits limits;
    enum isolation isolation; /* the least */
    json_t *argv;             /* of texts, NULL if absent; it lives as long as `json` */
    json_t *environment;      /* of texts; NULL if absent */
    size_t input_count;
    const char *inputs[SPEC_INPUTS_MAX]; /* their names */
    struct device_request devices;
};

/** ERROR_INVALID with the member and its rule; ERROR_LIMIT, ERROR_NO_MEMORY. */
RESULT run_spec_read(struct bytes text, struct run_spec **spec_out, struct error *err);
/** Whether `name` can be that of an input: 1 to 63 of a-z, 0-9, '-', '_', '.'; first a letter or digit. */
bool run_spec_is_name(const char *name);
void run_spec_free(struct run_spec *spec);
DEFINE_OWNED(run_spec);
