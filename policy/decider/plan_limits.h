/* policy/decider/plan_limits.h -- the bounds of lists in a plan, which together fit into PLAN_BYTES_MAX. */
#pragma once

enum {
    PLAN_EXCEPTIONS_MAX = 200,
    PLAN_REGIONS_MAX = 8 /* of a repository that could not stay: where it could go */
};
