/*
 * cmd/sijild_jobs.h -- jobs that sijild does once for an operator, and then ends.
 */
#pragma once

#include "base/result.h"

struct sijild_job {
    const char *config;
    const char *database_owner; /* file with the owner's connection string; NULL: not given */
    const char *approver, *policy_set, *admin_file;
    const char *plan, *reason, *checkpoint; /* of a recovery */
    bool online;
};

/** Writes all problems to standard error, one on each line, and then their number. ERROR_INVALID if there is one. */
RESULT sijild_check(const struct sijild_job *job, struct error *err);
/** Reads the owner's file alone, never the gateway's configuration. */
RESULT sijild_migrate(const struct sijild_job *job, struct error *err);
RESULT sijild_bootstrap(const struct sijild_job *job, struct error *err);
/** Writes the plan of a recovery to a new file, and says on the log what is left. */
RESULT sijild_recover_plan(const struct sijild_job *job, struct error *err);
/** Takes the plan that two officers have signed. May be repeated. */
RESULT sijild_recover(const struct sijild_job *job, struct error *err);
/** Whether the reason of a plan can be in a statement. */
RESULT sijild_check_reason(const struct sijild_job *job, struct error *err);
RESULT sijild_replace_admin(const struct sijild_job *job, struct error *err);
