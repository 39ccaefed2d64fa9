/* gateway/api/job_priv.h -- jobs, as job.c begins and shows them. */
#pragma once

#include "gateway/api/api_priv.h"
#include "registry/jobs/job.h"

/** A job that is wanted, with its texts (struct job_begin). */
struct job_wish {
    struct job job; /* kind, and what its kind has */
    const char *rules, *input;
};
/** Records the begin with the request's first pair, and answers 201 with the job. */
RESULT job_begin_wished(struct request *request, const struct job_wish *wish, struct error *err);
/** Records that the job of the path is to be stopped, with the request's first pair, and answers 204. */
RESULT job_stop_wanted(struct request *request, bool is_of_plan, struct error *err);
/** The job as an object of schema_job. */
RESULT job_describe(const struct job *job, json_t **value_out, struct error *err);
