/*
 * authz/lease_name.h -- how events and permits name a lease of a training run: one node of one attempt.
 *
 * The name is the detail of the resource of a pair. permit_require_detail() compares it, so a permit for one lease does nothing to another one.
 */
#pragma once

#include "audit/action.h"

/** Writes "RUN ATTEMPT NODE". */
void lease_name(const struct uuid *run, int64_t attempt, int64_t node, char detail_out[RESOURCE_DETAIL_MAX + 1]);
