/*
 * runner/enrolment/show.h -- what the folder of a runner says about it: `sijil-runner show`, and what `enroll` lets people compare.
 */
#pragma once

#include <jansson.h>

#include "runner/state/runner_state.h"

/** Nothing secret. Keys are shown by their thumbprints (RFC 7638), as `sijil` shows them. ERROR_NO_MEMORY. */
RESULT runner_show_json(const struct runner_state *state, json_t **value_out, struct error *err);
/** The same as lines for a person. */
RESULT runner_show_text(const struct runner_state *state, struct buffer *text, struct error *err);
