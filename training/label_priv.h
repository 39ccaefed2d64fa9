/* training/label_priv.h -- brings labels to the repositories of a run's outputs. */
#pragma once

#include "training/format/spec.h"
#include "training/label.h"
#include "training/order_priv.h"

#define RUN_LABEL_TEXT_MAX (16 * 1024) /* as in migrations/0053_run_labels.sql */

/** The repositories that a run reads; views of the envelope. */
struct run_uses {
    const char *names[RUN_ARTIFACTS_MAX];
    size_t count;
};
void run_uses_of(const struct run_envelope *envelope, struct run_uses *uses_out);

/**
 * Brings the label to each output's repository that does not have it, each with an event run.label. reason_out: "", or why the run can't be
 * ordered: the policies do not let a repository take the label. ERROR_CONFLICT: a label was brought, so the run must be decided again.
 */
RESULT run_label_bring(const struct run_bundle_source *source, const struct run_wish *wish, char reason_out[RUN_REASON_SIZE],
                       struct error *err);
