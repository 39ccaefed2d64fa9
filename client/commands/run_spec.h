/*
 * client/commands/run_spec.h -- the specification of a run as a person writes it: YAML or JSON (docs/runs.md).
 *
 * It is the `spec` of docs/formats/run.md, and in three things freer: an artifact may have a `reference` in place of repository and digest, some
 * members have defaults, and lists may have any order.
 */
#pragma once

#include "base/json.h"
#include "client/report.h"
#include "training/format/spec.h"

/**
 * Reads and checks a file's text, which is JSON if it begins with '{'. The specification has all members, sorted lists, and its references.
 * A failure is ERROR_INVALID or ERROR_LIMIT: "NAME:LINE: MEMBER: RULE"; the way out goes to the report as "try". ERROR_NO_MEMORY.
 */
RESULT run_spec_parse(struct bytes text, const char *name, struct report *report, json_t **spec_out, struct error *err);

/** The artifacts of a specification: code, image and resume if it has them, then the inputs. `index` from 0; NULL: there is no further one. */
json_t *run_spec_artifact(const json_t *spec, size_t index);
