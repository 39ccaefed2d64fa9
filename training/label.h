/*
 * training/label.h -- the label that the outputs of a run carry (docs/runs.md, "Labels").
 *
 * All that a run writes has the join of the labels of all that it reads: code, image, checkpoint, inputs. The repositories of its outputs get
 * that label before the order, so it counts for each later decision on them.
 */
#pragma once

#include "policy/decider/decider.h"
#include "training/run.h"

/**
 * Whether each output's repository still has the label: an input may have got a stricter one since. reason_out: "", or what is missing. Of
 * a request or an order. ERROR_UNAVAILABLE while the policies are not known.
 */
RESULT run_label_check(struct decider *decider, const struct run_envelope *envelope, int64_t now_ms,
                       char reason_out[RUN_REASON_SIZE], struct error *err);
