/*
 * policy/run_day.h -- decides a run once more under a policy set that is not the order's: that of its lease, or of its admission.
 *
 * sijil-keyd makes this check before it signs one of these, and an outsider makes it with the set that the admission names.
 */
#pragma once

#include "policy/train.h"
#include "training/format/bundle.h"

/**
 * ERROR_DENIED: in the region of one of its runners, as their approvers have signed it, the set forbids `train` with a repository of the run; or it asks for more
 * approvals than the run has, or for a signed request. A bundle without a lease has no region yet. ERROR_NO_MEMORY.
 */
RESULT policy_run_check_day(const struct run_bundle *bundle, const struct train_run *run, struct error *err);

/** For sijil-keyd: finds the set of the day, and the restrictions that it has pinned, among those of the bundle. Manifests are not known to it. run_day_check(). ERROR_NO_MEMORY. */
RESULT policy_run_day(const struct run_bundle *bundle, const struct run_day *day, struct error *err);
