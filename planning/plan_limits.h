/* planning/plan_limits.h -- the bounds of a plan. */
#pragma once

#include "policy/decider/plan_limits.h"
#include "policy/set.h"

#define PLAN_INPUT_MAX    (POLICY_SET_BYTES_MAX + 64) /* {"days":N,"set":...}: migrations/0151_plans_of_policies.sql */
#define PLAN_DAYS_MAX     3660
#define PLAN_DAYS_DEFAULT 30
#define PLAN_BYTES_MAX    ((size_t)1 << 20) /* of a plan: JOB_REPORT_MAX */
