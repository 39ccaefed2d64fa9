/*
 * cmd/sijild_jobs.h -- what sijild does for an operator once, and ends.
 */
#pragma once

#include "base/result.h"

struct sijild_job {
    const char *config;
    const char *database_owner; /* file with the owner's connection string; NULL: not given */
    const char *approver, *policy_set, *admin_file;
    bool online;
};

/** Writes all problems to standard error, one a line, and then says how many. ERROR_INVALID if there is one. */
RESULT sijild_check(const struct sijild_job *job, struct error *err);
/** Reads the owner's file alone, never the gateway's configuration. */
RESULT sijild_migrate(const struct sijild_job *job, struct error *err);
RESULT sijild_found(const struct sijild_job *job, struct error *err);
RESULT sijild_replace_admin(const struct sijild_job *job, struct error *err);
