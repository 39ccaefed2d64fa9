/*
 * audit/log_key_priv.h -- the statements behind audit/log_key_jobs.h.
 */
#pragma once

#include "audit/log_key_jobs.h"

RESULT log_key_is_recorded(struct pg *pg, uint64_t size, bool *is_recorded_out, struct error *err);
RESULT log_key_insert(struct pg *pg, uint64_t size, struct bytes public_key, struct error *err);
