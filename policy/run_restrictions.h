/*
 * policy/run_restrictions.h -- the restrictions of organisations under which a run is decided, beside a policy set (policy/train.h).
 *
 * Those of an organisation count for the repositories of the run that are in it.
 */
#pragma once

#include "policy/set.h"

struct run_bundle;
struct run_day;
struct run_restrictions;

/**
 * Finds those that are in force for the run, as `day` tells their digests, among the documents of the bundle. *restrictions_out: NULL if there is none. ERROR_UNAVAILABLE: the bundle lacks one.
 * ERROR_DENIED: they can't be evaluated together with the set. ERROR_NO_MEMORY.
 */
RESULT run_restrictions_of_day(const struct run_bundle *bundle, const struct run_day *day, const struct policy_set *set,
                               struct run_restrictions **restrictions_out, struct error *err);
/** The policies that count for a repository. `restrictions` NULL: those of the set. */
const struct policy_documents *run_restrictions_documents(const struct run_restrictions *restrictions,
                                                          const struct policy_set *set, const char *repository);
void run_restrictions_free(struct run_restrictions *restrictions);
DEFINE_OWNED(run_restrictions);
