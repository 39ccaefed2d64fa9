/*
 * registry/jobs/statements.h -- the statements of this folder, for pg_open() of every worker and for the sequencer's changes.
 */
#pragma once

#include "storage/pg.h"

extern const struct pg_table collect_statements, erase_statements, erased_statements, forgotten_statements, job_statements,
    rewrap_statements, scrub_statements, advisory_lock_statements;
